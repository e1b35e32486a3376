package model

import (
	"encoding/json"
	"strings"
)

// renderChat writes a request of Chat Completions.
func renderChat(r *rendering) object {
	messages := []any{}
	if r.System != "" {
		messages = append(messages, object{"role": "system", "content": r.System})
	}
	var images []any // of the answers before, which only messages of a user can have
	for _, t := range r.history {
		if !t.assistant {
			messages = append(messages, object{"role": "user", "content": chatContent(images, t.texts)})
			images = nil
			continue
		}
		if images != nil {
			messages = append(messages, object{"role": "user", "content": images})
			images = nil
		}
		messages = append(messages, chatAssistant(t))
		for _, c := range t.calls {
			messages = append(messages, object{"role": "tool", "tool_call_id": c.id, "content": c.answer})
			images = append(images, chatImages(c)...)
		}
	}
	if images != nil {
		messages = append(messages, object{"role": "user", "content": images})
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
	return body
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

// readChat reads the stream of Chat Completions.
func readChat(b *builder) func(*value) (bool, error) {
	byIndex := map[int]*partialCall{}
	return func(e *value) (bool, error) {
		if u := e.at("usage"); u.present() {
			b.usage = Usage{u.count("prompt_tokens"), u.count("completion_tokens"),
				u.count("prompt_tokens_details", "cached_tokens")}
		}
		for _, choice := range e.list("choices") {
			if choice.count("index") != 0 {
				continue
			}
			if err := b.chatDelta(choice.at("delta"), byIndex); err != nil {
				return false, err
			}
			switch choice.text("finish_reason") {
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
func (b *builder) chatDelta(d *value, byIndex map[int]*partialCall) error {
	for _, field := range []string{"reasoning_content", "reasoning"} { // DeepSeek wants it back under its name
		text := d.text(field)
		if text != "" && b.reasoning.Len() == 0 {
			if err := b.addRaw(field); err != nil {
				return err
			}
		}
		if err := b.addReasoning(text); err != nil {
			return err
		}
		if text != "" {
			break // some servers send both
		}
	}
	for _, part := range d.list("content") { // of some models of Mistral
		if err := b.addText(part.text("text")); err != nil {
			return err
		}
	}
	if d.text("refusal") != "" {
		b.stop = StopRefusal
	}
	if err := b.addText(d.text("content") + d.text("refusal")); err != nil {
		return err
	}
	for _, delta := range d.list("tool_calls") {
		c, err := b.chatCall(delta, byIndex)
		if err != nil {
			return err
		}
		if err := b.addArguments(c, delta.at("function", "arguments").textOrJSON()); err != nil {
			return err
		}
		// Gemini's server for this format sends its signature so.
		if extra := delta.at("extra_content"); extra.present() {
			if err := b.setRaw(&b.pieces[c.piece], extra.raw); err != nil {
				return err
			}
		}
	}
	return nil
}

// chatCall returns the call that a delta is of. Some servers leave out the index, some give the same one to all calls,
// and some send whole calls without ids. A delta with another id, or with a name for a call that has arguments, begins
// a call.
func (b *builder) chatCall(d *value, byIndex map[int]*partialCall) (*partialCall, error) {
	var c *partialCall
	index, indexed := d.count("index"), d.at("index").present()
	if indexed {
		c = byIndex[index]
	} else if n := len(b.calls); n > 0 {
		c = b.calls[n-1]
	}
	id, name := d.text("id"), d.text("function", "name")
	var err error
	if c == nil || id != "" && c.id != "" && id != c.id || id == "" && name != "" && len(c.args) > 0 {
		c, err = b.beginCall(id, name)
	} else {
		err = b.identifyCall(c, id, name)
	}
	if indexed {
		byIndex[index] = c
	}
	return c, err
}
