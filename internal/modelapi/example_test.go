package modelapi_test

import (
	"encoding/json"
	"fmt"

	"haft"
	"haft/internal/modelapi"
)

// A model's answer is read, its calls are run, and what they gave is written as the
// message to append.
func Example() {
	answer := []byte(`{"role":"assistant","content":[
		{"type":"text","text":"Let me look."},
		{"type":"tool_use","id":"toolu_1","name":"weather","input":{"city":"Oslo"}}]}`)
	req, err := modelapi.Parse(answer, "")
	if err != nil {
		fmt.Println(err)
		return
	}
	var results []*haft.Result
	for _, c := range req.Calls {
		result := c.Refused() // arguments that cannot be read are not run
		if result == nil {
			fmt.Println(req.Form, "calls", c.Name, string(c.Args))
			result = &haft.Result{Status: haft.StatusSuccess, Value: json.RawMessage(`{"celsius": 4}`)}
		}
		results = append(results, result)
	}
	message, err := modelapi.Render(req, results)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(string(message))
	// Output:
	// anthropic calls weather {"city":"Oslo"}
	// {"role":"user","content":[{"type":"tool_result","tool_use_id":"toolu_1","content":"{\"celsius\":4}"}]}
}
