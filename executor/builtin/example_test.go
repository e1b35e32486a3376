package builtin_test

import (
	"context"
	"encoding/json"
	"fmt"

	"haft"
	"haft/executor"
	"haft/executor/builtin"
)

// A Go function becomes a tool: its schema comes from the types.
func ExampleAdd() {
	type in struct {
		City string `json:"city" jsonschema:"the name of the city"`
		Days int    `json:"days,omitempty" jsonschema:"how many days ahead"`
	}
	set := builtin.New()
	err := builtin.Add(set, builtin.Def{Name: "forecast", Description: "Say what the weather will be."},
		func(_ context.Context, _ builtin.Call, in in) ([]string, error) {
			return []string{in.City + ": sun"}, nil
		})
	if err != nil {
		fmt.Println(err)
		return
	}
	tool := set.Tools()[0]
	res, err := set.Execute(context.Background(), executor.Request{Tool: tool.Name, Digest: tool.Version.Digest,
		Org: "acme", Kind: haft.KindBuiltin, Args: json.RawMessage(`{"city": "Oslo"}`)})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(res.Status, string(res.Value))
	// Output: success ["Oslo: sun"]
}
