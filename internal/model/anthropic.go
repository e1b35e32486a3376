package model

// defaultOutput is how many tokens an answer may have by default, because Anthropic wants a number.
const defaultOutput = 8192

// renderAnthropic writes a request of Messages.
func renderAnthropic(r *rendering) object {
	text := func(s string) any { return object{"type": "text", "text": s} }
	said := func(t turn) []any {
		blocks := []any{}
		for _, p := range t.pieces {
			switch {
			case p.Text:
				blocks = append(blocks, text(t.text))
			case p.Call > 0:
				c := t.calls[p.Call-1]
				blocks = append(blocks, object{"type": "tool_use", "id": c.id, "name": c.name, "input": c.args})
			default:
				blocks = append(blocks, p.Raw)
			}
		}
		return blocks
	}
	answer := func(c call) any {
		o := object{"type": "tool_result", "tool_use_id": c.id, "content": c.answer}
		if len(c.images) > 0 {
			blocks := []any{text(c.answer)}
			for _, m := range c.images {
				blocks = append(blocks, object{"type": "image",
					"source": object{"type": "base64", "media_type": m.ContentType, "data": m.Data}})
			}
			o["content"] = blocks
		}
		if c.failed {
			o["is_error"] = true
		}
		return o
	}
	list := alternating(r.history, "assistant", text, said, answer, nil)
	messages := make([]object, 0, len(list))
	for _, m := range list {
		messages = append(messages, object{"role": m.role, "content": m.parts})
	}
	// What stands before these marks is cached, so that the next request of the same conversation costs a tenth.
	cached := object{"type": "ephemeral"}
	if last, ok := list[len(list)-1].parts[len(list[len(list)-1].parts)-1].(object); ok {
		last["cache_control"] = cached
	}
	body := object{"model": r.Model, "messages": messages, "stream": true, "max_tokens": defaultOutput}
	if r.MaxOutput > 0 {
		body["max_tokens"] = r.MaxOutput
	}
	if r.System != "" {
		body["system"] = []any{object{"type": "text", "text": r.System, "cache_control": cached}}
	}
	anthropicTools(body, r)
	return body
}

// anthropicTools adds the tools and which of them to call. A conversation with calls must have tools: if none are
// offered any more, those that were called are named and forbidden.
func anthropicTools(body object, r *rendering) {
	choice := object{"type": "auto"}
	switch r.Choice {
	case "", ChoiceAuto:
	case ChoiceRequired:
		choice["type"] = "any"
	case ChoiceNone:
		choice["type"] = "none"
	default:
		choice = object{"type": "tool", "name": r.Choice}
	}
	if body["tools"] = r.tools; r.tools == nil {
		used, seen := []any{}, map[string]bool{}
		for _, t := range r.history {
			for _, c := range t.calls {
				if !seen[c.name] {
					seen[c.name] = true
					used = append(used, object{"name": c.name, "input_schema": object{"type": "object"}})
				}
			}
		}
		if len(used) == 0 {
			delete(body, "tools")
			return
		}
		body["tools"], choice = used, object{"type": "none"}
	}
	if !r.Parallel && choice["type"] != "none" {
		choice["disable_parallel_tool_use"] = true
	}
	body["tool_choice"] = choice
}

// An anthropicReader builds an answer of blocks, which come one after the other.
type anthropicReader struct {
	*builder
	call                 *partialCall // of the block that is open, if it is one
	input                string       // its arguments, if they came with its begin
	thinking             int          // where the reasoning of the open block begins
	signature            []byte       // of the open block
	fresh, read, written int          // tokens of the input, which do not include each other
}

// readAnthropic reads the stream of Messages.
func readAnthropic(b *builder) func(*value) (bool, error) {
	r := &anthropicReader{builder: b}
	return func(e *value) (bool, error) {
		switch e.text("type") {
		case "message_start":
			r.countTokens(e.at("message", "usage"))
		case "content_block_start":
			return false, r.begin(e.at("content_block"))
		case "content_block_delta":
			return false, r.delta(e.at("delta"))
		case "content_block_stop":
			return false, r.end()
		case "message_delta":
			r.countTokens(e.at("usage"))
			switch e.text("delta", "stop_reason") {
			case "":
				return false, nil
			case "max_tokens", "model_context_window_exceeded":
				r.stop = StopLength
			case "refusal":
				r.stop = StopRefusal
			}
			r.complete = true
			return false, r.end()
		case "message_stop":
			b.complete = true
			return true, nil
		}
		return false, nil
	}
}

// countTokens notes the counts that an event has. The others stay what they were.
func (r *anthropicReader) countTokens(usage *value) {
	for name, to := range map[string]*int{"input_tokens": &r.fresh, "cache_read_input_tokens": &r.read,
		"cache_creation_input_tokens": &r.written, "output_tokens": &r.usage.Output} {
		if usage.at(name).present() {
			*to = usage.count(name)
		}
	}
	r.usage.Input, r.usage.Cached = r.fresh+r.read+r.written, r.read
}

// begin opens a block. Its content may stand there already.
func (r *anthropicReader) begin(block *value) (err error) {
	if err := r.end(); err != nil { // some servers do not end their blocks
		return err
	}
	switch block.text("type") {
	case "redacted_thinking":
		return r.addRaw(object{"type": "redacted_thinking", "data": block.text("data")})
	case "tool_use":
		r.input = block.at("input").textOrJSON()
		r.call, err = r.beginCall(block.text("id"), block.text("name"))
		return err
	}
	return r.delta(block)
}

// delta adds to the open block.
func (r *anthropicReader) delta(d *value) error {
	if r.call != nil {
		return r.addArguments(r.call, d.text("partial_json"))
	}
	if err := r.addText(d.text("text")); err != nil {
		return err
	}
	if r.signature = append(r.signature, d.text("signature")...); len(r.signature) > maxOpaque {
		return invalidAnswer("has a signature of more than %d bytes", maxOpaque)
	}
	return r.addReasoning(d.text("thinking"))
}

// end closes the open block.
func (r *anthropicReader) end() (err error) {
	switch {
	case len(r.signature) > 0:
		err = r.addRaw(object{"type": "thinking", "thinking": r.reasoning.String()[r.thinking:],
			"signature": string(r.signature)})
	case r.call != nil && len(r.call.args) == 0:
		err = r.addArguments(r.call, r.input)
	}
	r.thinking, r.signature, r.call = r.reasoning.Len(), nil, nil
	return err
}
