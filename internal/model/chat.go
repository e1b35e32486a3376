package model

import (
	"encoding/json"
	"strings"

	"haft/internal/bounds"
)

// renderChat writes a request of Chat Completions.
func renderChat(r *rendering) (object, error) {
	messages := []any{}
	if r.System != "" {
		messages = append(messages, object{"role": "system", "content": r.System})
	}
	for _, t := range r.history {
		if !t.assistant {
			messages = append(messages, object{"role": "user", "content": strings.Join(t.texts, "\n\n")})
			continue
		}
		messages = append(messages, chatAssistant(t))
		for _, c := range t.calls {
			messages = append(messages, object{"role": "tool", "tool_call_id": c.id, "content": c.answer})
		}
	}
	body := object{"model": r.Model, "messages": messages, "stream": true,
		"stream_options": object{"include_usage": true}}
	if r.MaxOutput > 0 {
		// OpenAI's own models that reason take only the new name, and other servers only the old one.
		name := "max_tokens"
		if strings.HasSuffix(r.host, ".openai.com") || strings.HasSuffix(r.host, ".azure.com") {
			name = "max_completion_tokens"
		}
		body[name] = r.MaxOutput
	}
	if r.tools != nil {
		openAITools(body, r, object{"type": "function", "function": object{"name": r.Choice}})
	}
	return body, nil
}

// openAITools adds the tools and which of them to call. named is how the format names one.
func openAITools(body object, r *rendering, named object) {
	body["tools"] = r.tools
	switch r.Choice {
	case "", ChoiceAuto:
	case ChoiceRequired, ChoiceNone:
		body["tool_choice"] = r.Choice
	default:
		body["tool_choice"] = named
	}
	if !r.Parallel {
		body["parallel_tool_calls"] = false // true is the default, and not every model takes the field
	}
}

// chatAssistant writes what an assistant said.
func chatAssistant(t turn) object {
	m := object{"role": "assistant"}
	calls := []any{}
	for _, p := range t.pieces {
		switch {
		case p.Text:
			m["content"] = t.text
		case p.Call > 0:
			c := t.calls[p.Call-1]
			o := object{"id": c.id, "type": "function", "function": object{"name": c.name, "arguments": string(c.args)}}
			if p.Raw != nil {
				o["extra_content"] = p.Raw
			}
			calls = append(calls, o)
		case t.reasoning != "":
			var field string
			if json.Unmarshal(p.Raw, &field) == nil && (field == "reasoning" || field == "reasoning_content") {
				m[field] = t.reasoning
			}
		}
	}
	if len(calls) > 0 {
		m["tool_calls"] = calls
	}
	return m
}

// A chatChunk is an event of Chat Completions.
type chatChunk struct {
	Error   json.RawMessage `json:"error"`
	Choices []struct {
		Index  int       `json:"index"`
		Delta  chatDelta `json:"delta"`
		Reason string    `json:"finish_reason"`
	} `json:"choices"`
	Usage *struct {
		Input   int `json:"prompt_tokens"`
		Output  int `json:"completion_tokens"`
		Details struct {
			Cached int `json:"cached_tokens"`
		} `json:"prompt_tokens_details"`
	} `json:"usage"`
}

// A chatDelta is what is new in a chunk.
type chatDelta struct {
	Content json.RawMessage `json:"content"` // a text; a list of parts for some models of Mistral
	Refusal string          `json:"refusal"`
	// Servers have one of these names for the reasoning. DeepSeek's wants it back.
	ReasoningContent string          `json:"reasoning_content"`
	Reasoning        string          `json:"reasoning"`
	Calls            []chatCallDelta `json:"tool_calls"`
}

// A chatCallDelta is what is new of a call.
type chatCallDelta struct {
	Index    *int   `json:"index"`
	ID       string `json:"id"`
	Function struct {
		Name string          `json:"name"`
		Args json.RawMessage `json:"arguments"` // a text; an object for some servers
	} `json:"function"`
	Extra json.RawMessage `json:"extra_content"` // of Gemini's server for this format: a signature
}

// readChat reads the stream of Chat Completions.
func readChat(b *builder) func(event) (bool, error) {
	byIndex := map[int]*partialCall{}
	return func(ev event) (bool, error) {
		if isDone(ev) {
			b.complete = true
			return true, nil
		}
		var chunk chatChunk
		if err := ev.decode(&chunk); err != nil {
			return false, err
		}
		if present(chunk.Error) || ev.name == "error" {
			return false, b.fault(ev.data)
		}
		if u := chunk.Usage; u != nil {
			b.usage = Usage{u.Input, u.Output, u.Details.Cached}
		}
		for _, choice := range chunk.Choices {
			if choice.Index != 0 {
				continue
			}
			if err := b.chatDelta(choice.Delta, byIndex); err != nil {
				return false, err
			}
			switch choice.Reason {
			case "":
				continue
			case "length":
				b.stop = StopLength
			case "content_filter":
				b.stop = StopFiltered
			}
			b.complete = true
		}
		return false, nil
	}
}

// chatDelta adds what is new in a chunk.
func (b *builder) chatDelta(d chatDelta, byIndex map[int]*partialCall) error {
	field, reasoning := "reasoning_content", d.ReasoningContent
	if reasoning == "" {
		field, reasoning = "reasoning", d.Reasoning
	}
	if reasoning != "" && b.reasoning.Len() == 0 {
		if err := b.addRaw(field); err != nil {
			return err
		}
	}
	if err := b.addReasoning(reasoning); err != nil {
		return err
	}
	if err := b.addText(textOf(d.Content) + d.Refusal); err != nil {
		return err
	}
	if d.Refusal != "" {
		b.stop = StopRefusal
	}
	for _, delta := range d.Calls {
		c, err := b.chatCall(delta, byIndex)
		if err != nil {
			return err
		}
		if err := b.addArguments(c, textOrJSON(delta.Function.Args)); err != nil {
			return err
		}
		if present(delta.Extra) && bounds.Check(delta.Extra, bounds.Limits{Depth: 10, Values: 100}, nil) == nil {
			b.pieces[c.piece].Raw = append(json.RawMessage(nil), delta.Extra...)
		}
	}
	return nil
}

// chatCall returns the call that a delta is of. Some servers leave out the index, some give the same one to all calls,
// and some send whole calls without ids. A delta with another id, or with a name for a call that has arguments, begins
// a call.
func (b *builder) chatCall(d chatCallDelta, byIndex map[int]*partialCall) (*partialCall, error) {
	var c *partialCall
	if d.Index != nil {
		c = byIndex[*d.Index]
	} else if n := len(b.calls); n > 0 {
		c = b.calls[n-1]
	}
	name := d.Function.Name
	switch {
	case c == nil, d.ID != "" && c.id != "" && d.ID != c.id, d.ID == "" && name != "" && len(c.args) > 0:
		var err error
		if c, err = b.beginCall(d.ID, name); err != nil {
			return nil, err
		}
	case c.name == "" && name != "":
		c.name = name
		b.send(Chunk{Tool: name})
	}
	if c.id == "" {
		c.id = d.ID
	}
	if d.Index != nil {
		byIndex[*d.Index] = c
	}
	return c, nil
}

// present reports whether a value is there and not null.
func present(raw []byte) bool { return len(raw) > 0 && string(raw) != "null" }

// textOf returns a text, or those of a list of parts.
func textOf(raw json.RawMessage) string {
	if !present(raw) {
		return ""
	}
	var text string
	if json.Unmarshal(raw, &text) == nil {
		return text
	}
	var parts []struct {
		Text string `json:"text"`
	}
	_ = json.Unmarshal(raw, &parts) // what has another form has no text
	for _, p := range parts {
		text += p.Text
	}
	return text
}
