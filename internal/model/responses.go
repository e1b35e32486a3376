package model

import (
	"encoding/json"
	"strings"
)

// renderResponses writes a request of Responses. Nothing is kept by the vendor.
func renderResponses(r *rendering) (object, error) {
	input := []any{}
	for _, t := range r.history {
		if !t.assistant {
			input = append(input, object{"role": "user", "content": strings.Join(t.texts, "\n\n")})
			continue
		}
		for _, p := range t.pieces {
			switch {
			case p.Text:
				item := object{"role": "assistant", "content": t.text}
				if p.Raw != nil {
					item["phase"] = p.Raw
				}
				input = append(input, item)
			case p.Call > 0:
				c := t.calls[p.Call-1]
				input = append(input, object{"type": "function_call", "call_id": c.id, "name": c.name,
					"arguments": string(c.args)})
			default:
				input = append(input, p.Raw)
			}
		}
		for _, c := range t.calls {
			input = append(input, object{"type": "function_call_output", "call_id": c.id, "output": c.answer})
		}
	}
	body := object{"model": r.Model, "input": input, "stream": true, "store": false}
	if r.System != "" {
		body["instructions"] = r.System
	}
	if r.MaxOutput > 0 {
		body["max_output_tokens"] = r.MaxOutput
	}
	if reasons(r.Model) {
		body["include"] = []string{"reasoning.encrypted_content"}
	}
	if r.tools != nil {
		openAITools(body, r, object{"type": "function", "name": r.Choice})
	}
	return body, nil
}

// reasons reports whether a model may reason. Those of OpenAI that do not refuse a request for their reasoning.
func reasons(model string) bool {
	for _, prefix := range []string{"gpt-3", "gpt-4", "gpt-5-chat", "chatgpt"} {
		if strings.HasPrefix(model, prefix) {
			return false
		}
	}
	return true
}

// A responseEvent is an event of Responses.
type responseEvent struct {
	Type     string        `json:"type"`
	Delta    string        `json:"delta"`
	Item     *responseItem `json:"item"`
	Response struct {
		Output     []responseItem  `json:"output"`
		Error      json.RawMessage `json:"error"`
		Incomplete struct {
			Reason string `json:"reason"`
		} `json:"incomplete_details"`
		Usage struct {
			Input   int `json:"input_tokens"`
			Output  int `json:"output_tokens"`
			Details struct {
				Cached int `json:"cached_tokens"`
			} `json:"input_tokens_details"`
		} `json:"usage"`
	} `json:"response"`
}

// A responseItem is an item of the output.
type responseItem struct {
	Type      string          `json:"type"`
	ID        string          `json:"id"`
	CallID    string          `json:"call_id"`
	Name      string          `json:"name"`
	Arguments json.RawMessage `json:"arguments"`
	Status    string          `json:"status"`
	Phase     string          `json:"phase"`
	Encrypted string          `json:"encrypted_content"`
	Summary   []reasoningPart `json:"summary"`
	Content   []struct {
		Text    string `json:"text"`
		Refusal string `json:"refusal"`
	} `json:"content"`
}

// A reasoningPart is a part of the summary of reasoning.
type reasoningPart struct {
	Type string `json:"type"`
	Text string `json:"text"`
}

// readResponses reads the stream of Responses. The items that are done are the answer; the pieces before are for those
// who watch.
func readResponses(b *builder) func(event) (bool, error) {
	r := &responseReader{builder: b}
	return func(ev event) (bool, error) {
		var e responseEvent
		if err := ev.decode(&e); err != nil {
			return false, err
		}
		switch e.Type {
		case "response.output_text.delta", "response.refusal.delta":
			return false, r.watch(Chunk{Text: e.Delta})
		case "response.reasoning_summary_text.delta", "response.reasoning_text.delta":
			return false, r.watch(Chunk{Reasoning: e.Delta})
		case "response.output_item.added":
			if e.Item != nil && e.Item.Type == "function_call" {
				return false, r.watch(Chunk{Tool: e.Item.Name})
			}
		case "response.output_item.done":
			if e.Item != nil {
				return false, r.item(*e.Item)
			}
		case "response.completed", "response.incomplete":
			return true, r.end(e)
		case "response.failed":
			return false, b.fault(e.Response.Error)
		case "error":
			return false, b.fault(ev.data)
		}
		return false, nil
	}
}

// A responseReader builds an answer of the items of Responses.
type responseReader struct {
	*builder
	items   int
	watched int  // bytes that were shown before their items are done
	shown   bool // some of the item that is being written was shown
}

// watch shows a piece of an item that is not done.
func (r *responseReader) watch(c Chunk) error {
	if r.watched += len(c.Text) + len(c.Reasoning); r.watched > 2*maxText {
		return invalidAnswer("has a text of more than %d bytes", maxText)
	}
	if c != (Chunk{}) {
		r.shown = true
		r.send(c)
	}
	return nil
}

// item adds an item that is done.
func (r *responseReader) item(it responseItem) (err error) {
	emit := r.emit
	if r.shown {
		r.emit = nil // its pieces were
	}
	r.items++
	switch it.Type {
	case "message":
		for _, part := range it.Content {
			if part.Refusal != "" {
				r.stop = StopRefusal
			}
			if err == nil {
				err = r.addText(part.Text + part.Refusal)
			}
		}
		if err == nil && it.Phase != "" && r.text.Len() > 0 {
			r.textPiece().Raw, err = encode(it.Phase)
		}
	case "reasoning":
		err = r.reasoningItem(it)
	case "function_call":
		var c *partialCall
		if c, err = r.beginCall(it.CallID, it.Name); err == nil {
			err = r.addArguments(c, textOrJSON(it.Arguments))
		}
	}
	r.emit, r.shown = emit, false
	return err
}

// reasoningItem adds reasoning. Without its encrypted form it cannot be sent back, because the vendor keeps nothing.
func (r *responseReader) reasoningItem(it responseItem) error {
	parts := []string{}
	for _, s := range it.Summary {
		parts = append(parts, s.Text)
	}
	for _, c := range it.Content {
		parts = append(parts, c.Text)
	}
	text := strings.Join(parts, "\n\n")
	if text != "" && r.reasoning.Len() > 0 {
		text = "\n\n" + text
	}
	if err := r.addReasoning(text); err != nil || it.Encrypted == "" {
		return err
	}
	if it.Summary == nil {
		it.Summary = []reasoningPart{}
	}
	return r.addRaw(object{"type": "reasoning", "id": it.ID, "summary": it.Summary, "encrypted_content": it.Encrypted})
}

// end ends an answer.
func (r *responseReader) end(e responseEvent) error {
	for r.items < len(e.Response.Output) { // those that were not done, and all from servers that send none before
		if err := r.item(e.Response.Output[r.items]); err != nil {
			return err
		}
	}
	u := e.Response.Usage
	r.usage, r.complete = Usage{u.Input, u.Output, u.Details.Cached}, true
	if e.Type == "response.incomplete" {
		if r.stop = StopLength; e.Response.Incomplete.Reason == "content_filter" {
			r.stop = StopFiltered
		}
	}
	return nil
}

// textOrJSON returns the text of a JSON string, and any other JSON as it is.
func textOrJSON(raw json.RawMessage) string {
	text := ""
	if !present(raw) || raw[0] == '"' && json.Unmarshal(raw, &text) == nil {
		return text
	}
	return string(raw)
}
