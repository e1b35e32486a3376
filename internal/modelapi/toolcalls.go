package modelapi

import (
	"encoding/json"
	"fmt"

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

// Answered is what became of the calls of a model's answer, in one form for all vendors.
type Answered struct {
	Form schema.Form `json:"format"`
	// Messages are those to append, in the form of the vendor; there are none if the model called nothing.
	Messages []json.RawMessage `json:"messages"`
	Calls    []AnsweredCall    `json:"calls"`
}

// An AnsweredCall is one call of a model, by the vendor's id, with its result.
type AnsweredCall struct {
	ID     string       `json:"id"`
	Name   string       `json:"name"`
	Result *haft.Result `json:"result"`
}

// Answer reads the calls that a model asks for, passes those that can be made to run, and
// writes the answer to the model: their results, and why the others were not made. The message
// or messages to append are written as the vendor has them; with whole, it is an [Answered].
func Answer(body []byte, format string, whole bool,
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
	messages, err := Render(asked, results)
	if err != nil || !whole {
		return messages, err
	}
	return wholeAnswer(asked, results, messages)
}

// wholeAnswer writes an [Answered].
func wholeAnswer(asked *Request, results []*haft.Result, messages json.RawMessage) (json.RawMessage, error) {
	all := Answered{Form: asked.Form, Messages: []json.RawMessage{}, Calls: make([]AnsweredCall, len(results))}
	switch {
	case messages[0] == '[':
		if err := json.Unmarshal(messages, &all.Messages); err != nil {
			return nil, fmt.Errorf("read the messages: %w", err)
		}
	case messages[0] == '{':
		all.Messages = append(all.Messages, messages)
	}
	for i, c := range asked.Calls {
		all.Calls[i] = AnsweredCall{c.ID, c.Name, results[i]}
	}
	return encode(all)
}
