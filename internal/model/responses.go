package model

import "strings"

// renderResponses writes a request of Responses. Nothing is kept by the vendor.
func renderResponses(r *rendering) object {
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
			item := object{"type": "function_call_output", "call_id": c.id, "output": c.answer}
			if len(c.images) > 0 {
				parts := []any{object{"type": "input_text", "text": c.answer}}
				for _, m := range c.images {
					parts = append(parts, object{"type": "input_image", "image_url": dataURL(m)})
				}
				item["output"] = parts
			}
			input = append(input, item)
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
	return body
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

// A responseReader builds an answer of the items of Responses that are done. The pieces before are only shown.
type responseReader struct {
	*builder
	items   int
	watched int  // bytes that were shown before their items are done
	shown   bool // some of the item that is being written was shown
}

// readResponses reads the stream of Responses.
func readResponses(b *builder) func(*value) (bool, error) {
	r := &responseReader{builder: b}
	return func(e *value) (bool, error) {
		switch e.text("type") {
		case "response.output_text.delta", "response.refusal.delta":
			return false, r.watch(Chunk{Text: e.text("delta")})
		case "response.reasoning_summary_text.delta", "response.reasoning_text.delta":
			return false, r.watch(Chunk{Reasoning: e.text("delta")})
		case "response.output_item.added":
			if e.text("item", "type") == "function_call" {
				return false, r.watch(Chunk{Tool: e.text("item", "name")})
			}
		case "response.output_item.done":
			return false, r.item(e.at("item"))
		case "response.completed", "response.incomplete":
			return true, r.end(e.at("response"))
		case "response.failed":
			return false, readVendorError(e.at("response", "error").raw).fault(0, b.secrets)
		}
		return false, nil
	}
}

// watch shows a piece of an item that is not done.
func (r *responseReader) watch(c Chunk) error {
	if r.watched += len(c.Text) + len(c.Reasoning) + len(c.Tool); r.watched > 2*maxText {
		return invalidAnswer("has a text of more than %d bytes", maxText)
	}
	if c != (Chunk{}) {
		r.shown = true
		r.send(c)
	}
	return nil
}

// item adds an item that is done.
func (r *responseReader) item(it *value) (err error) {
	emit := r.emit
	if r.shown {
		r.emit = nil // its pieces were
	}
	r.items++
	switch it.text("type") {
	case "message":
		for _, part := range it.list("content") {
			if part.text("refusal") != "" {
				r.stop = StopRefusal
			}
			if err == nil {
				err = r.addText(part.text("text") + part.text("refusal"))
			}
		}
		if err == nil && it.text("phase") != "" {
			err = r.setRaw(r.textPiece(), it.at("phase").raw)
		}
	case "reasoning":
		err = r.reasoningItem(it)
	case "function_call":
		var c *partialCall
		if c, err = r.beginCall(it.text("call_id"), it.text("name")); err == nil {
			err = r.addArguments(c, it.at("arguments").textOrJSON())
		}
	}
	r.emit, r.shown = emit, false
	return err
}

// reasoningItem adds reasoning. Without its encrypted form it cannot be sent back, because the vendor keeps nothing.
func (r *responseReader) reasoningItem(it *value) error {
	summary := []any{}
	for _, part := range append(it.list("summary"), it.list("content")...) {
		text := part.text("text")
		if summary = append(summary, object{"type": "summary_text", "text": text}); r.reasoning.Len() > 0 {
			text = "\n\n" + text
		}
		if err := r.addReasoning(text); err != nil {
			return err
		}
	}
	encrypted := it.text("encrypted_content")
	if encrypted == "" {
		return nil
	}
	return r.addRaw(object{"type": "reasoning", "id": it.text("id"), "summary": summary[:len(it.list("summary"))],
		"encrypted_content": encrypted})
}

// end ends an answer.
func (r *responseReader) end(response *value) error {
	// Those that were not done, and all from servers that send none before.
	for all := response.list("output"); r.items < len(all); {
		if err := r.item(all[r.items]); err != nil {
			return err
		}
	}
	u := response.at("usage")
	r.usage = Usage{u.count("input_tokens"), u.count("output_tokens"), u.count("input_tokens_details", "cached_tokens")}
	r.complete = true
	switch response.text("incomplete_details", "reason") {
	case "":
	case "content_filter":
		r.stop = StopFiltered
	default:
		r.stop = StopLength
	}
	return nil
}
