package script_test

import (
	"encoding/json"
	"testing"

	"haft"
	"haft/executor"
	"haft/executor/script"
)

func TestSmoke(t *testing.T) {
	x := setup(t, haft.KindPython, script.Config{Cold: true})
	res := execute(t, x, executor.Request{Kind: haft.KindPython, Source: "def f(a: int):\n    print('hi')\n    return a+1\n", Args: json.RawMessage(`{"a":1}`)})
	b, _ := json.MarshalIndent(res, "", " ")
	t.Logf("%s", b)
	x = setup(t, haft.KindPython, script.Config{})
	for range 3 {
		res = execute(t, x, executor.Request{Kind: haft.KindPython, Source: "def f(a: int):\n    print('hi')\n    return a+1\n", Args: json.RawMessage(`{"a":1}`)})
		b, _ := json.Marshal(res.Timeline)
		t.Logf("%s %s %v", res.Value, b, res.Error)
	}
}
