package executor_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"haft"
	"haft/executor"
)

// upper runs every tool by writing its arguments in capitals.
type upper struct{}

// Execute implements [executor.Executor].
func (upper) Execute(_ context.Context, req executor.Request) (*haft.Result, error) {
	return &haft.Result{Call: req.Call, Tool: req.Tool, Status: haft.StatusSuccess,
		Value: json.RawMessage(strings.ToUpper(string(req.Args)))}, nil
}

// An executor runs one call that was admitted. A tool that fails has a result that says so; an error means
// that there is no result.
func ExampleExecutor() {
	var x executor.Executor = upper{}
	res, err := x.Execute(context.Background(), executor.Request{Tool: "shout", Args: json.RawMessage(`{"a":"b"}`)})
	fmt.Println(res.Status, string(res.Value), err)
	// Output: success {"A":"B"} <nil>
}
