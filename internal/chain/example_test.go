package chain_test

import (
	"encoding/json"
	"fmt"

	"haft"
	"haft/internal/chain"
)

// A plan of two steps. The second one takes a part of what the first one gave.
func Example() {
	program, err := chain.Compile(haft.Plan{
		Input: json.RawMessage(`{"city":"Oslo"}`),
		Steps: []haft.Step{
			{ID: "find", Tool: "search", Args: json.RawMessage(`{"q":{"$from":"input/city"}}`)},
			{
				ID: "tell", Tool: "send", If: "steps.find.value.total > 0",
				Args: json.RawMessage(`{"text":{"$from":"find.value/items/0","default":"nothing"}}`),
			},
		},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	state := haft.Chain{Steps: program.Steps()}
	values := map[string]string{"find": `{"total":1,"items":["a fjord"]}`, "tell": `"sent"`}
	for {
		todo, err := program.Next(state)
		if err != nil {
			fmt.Println(err)
			return
		}
		if todo.Done {
			fmt.Println(todo.Status)
			return
		}
		for _, r := range todo.Ready {
			fmt.Printf("%s: %s(%s)\n", r.Step.ID, r.Step.Tool, r.Args)
			*find(state.Steps, r.Step.ID) = haft.StepResult{
				ID: r.Step.ID, State: haft.StepDone,
				Result: &haft.Result{Status: haft.StatusSuccess, Value: json.RawMessage(values[r.Step.ID])},
			}
		}
	}
	// Output:
	// find: search({"q":"Oslo"})
	// tell: send({"text":"a fjord"})
	// success
}
