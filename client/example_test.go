package client_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"

	"haft"
	"haft/client"
)

// Call a tool of a server. In a program the URL is that of haft serve, and the key one of haft key add.
func ExampleClient_Call() {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprint(w, `{"call_id": "call_1", "tool": "forecast", "status": "success", "value": ["sun", "rain"]}`)
	}))
	defer server.Close()

	c, err := client.New(client.Config{URL: server.URL})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer c.Close()
	res, err := c.Call(context.Background(), haft.Call{Tool: "forecast", Args: json.RawMessage(`{"city": "Oslo"}`)})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(res.Status, string(res.Value))
	// Output: success ["sun", "rain"]
}
