package modelapi

import (
	"bytes"
	"encoding/json"
	"fmt"

	"haft"
	"haft/schema"
)

// Render writes the messages to append to the conversation after the model's own:
// a list of them for OpenAI's forms, one for Anthropic and Gemini. results are
// those of req.Calls, in the same order; a nil one is reported as an internal fault. If
// the model called nothing it is [] or null: there is nothing to append.
func Render(req *Request, results []*haft.Result) (json.RawMessage, error) {
	if len(results) != len(req.Calls) {
		return nil, fmt.Errorf("render %d results of %d calls", len(results), len(req.Calls))
	}
	budget := &budget{parts: MaxMedia, bytes: MaxMediaBytes, textOnly: req.TextOnly || req.Form == schema.FormOpenAI}
	answers := make([]answer, 0, len(results))
	for _, r := range results {
		answers = append(answers, newAnswer(r, budget))
	}
	f, ok := formats()[req.Form]
	if !ok {
		return nil, errForm()
	}
	out, err := f.render(req, answers)
	if err != nil {
		return nil, err
	}
	return encode(out)
}

// encode writes v as compact JSON, without escapes for the sake of HTML: a model
// reads it, and pays for every token.
func encode(v any) (json.RawMessage, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, fmt.Errorf("write the messages: %w", err)
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil
}
