package server_test

import (
	"net/http"
	"testing"
)

func TestSmoke(t *testing.T) {
	w := setup(t, nil)
	w.tool("f", "")
	res := w.call(user, `{"tool":"f","args":{"x":1}}`)
	if string(res.Value) != `{"x":1}` {
		t.Errorf("got %s", res.Value)
	}
	a := w.must(http.StatusOK, nobody, "GET", "/openapi.json", "")
	t.Log(len(a.body))
}
