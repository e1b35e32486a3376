package modelapi

import (
	"encoding/json"

	"haft"
	"haft/schema"
)

// RenderTools writes tools as the requests of a vendor take them.
func RenderTools(format string, strict bool, tools []haft.Tool) (json.RawMessage, error) {
	form, err := schema.ParseForm(format)
	if err != nil {
		return nil, err
	}
	list, err := Tools(form, tools, strict)
	if err != nil {
		return nil, err
	}
	return json.Marshal(list)
}

// Answer reads the calls that a model asks for, passes those that can be made to run, and
// writes the answer to the model: their results, and why the others were not made.
func Answer(body []byte, format string,
	run func([]haft.Call) ([]*haft.Result, error)) (json.RawMessage, error) {
	asked, err := Parse(body, schema.Form(format))
	if err != nil {
		return nil, err
	}
	results := make([]*haft.Result, len(asked.Calls))
	var calls []haft.Call
	var places []int
	for i, c := range asked.Calls {
		if results[i] = c.Refused(); results[i] == nil {
			calls = append(calls, haft.Call{Tool: c.Name, Args: c.Args})
			places = append(places, i)
		}
	}
	done, err := run(calls)
	if err != nil {
		return nil, err
	}
	for i, res := range done {
		results[places[i]] = res
	}
	return Render(asked, results)
}
