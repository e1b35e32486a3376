package model

import (
	"encoding/json"
	"fmt"
)

// defaultOutput is how many tokens an answer may have by default, because Anthropic wants a number.
const defaultOutput = 8192

// renderAnthropic writes a request of Messages.
func renderAnthropic(r *rendering) (object, error) {
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
		if c.failed {
			o["is_error"] = true
		}
		return o
	}
	list := alternating(r.history, "assistant", text, said, answer)
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
	return body, anthropicTools(body, r)
}

// anthropicTools adds the tools and which of them to call. A conversation with calls must have tools: if none are
// offered any more, those that were called are named and forbidden.
func anthropicTools(body object, r *rendering) error {
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
	if r.tools == nil {
		used := []any{}
		seen := map[string]bool{}
		for _, t := range r.history {
			for _, c := range t.calls {
				if !seen[c.name] {
					seen[c.name] = true
					used = append(used, object{"name": c.name, "input_schema": object{"type": "object"}})
				}
			}
		}
		if len(used) == 0 {
			return nil
		}
		raw, err := encode(used)
		if err != nil {
			return fmt.Errorf("name the tools of the conversation: %w", err)
		}
		r.tools, choice = raw, object{"type": "none"}
	}
	if !r.Parallel && choice["type"] != "none" {
		choice["disable_parallel_tool_use"] = true
	}
	body["tools"], body["tool_choice"] = r.tools, choice
	return nil
}

// An anthropicEvent is an event of Messages.
type anthropicEvent struct {
	Type    string `json:"type"`
	Index   int    `json:"index"`
	Message struct {
		Usage anthropicUsage `json:"usage"`
	} `json:"message"`
	Block struct {
		Type      string          `json:"type"`
		Text      string          `json:"text"`
		Thinking  string          `json:"thinking"`
		Signature string          `json:"signature"`
		Data      string          `json:"data"`
		ID        string          `json:"id"`
		Name      string          `json:"name"`
		Input     json.RawMessage `json:"input"`
	} `json:"content_block"`
	Delta struct {
		Type      string `json:"type"`
		Text      string `json:"text"`
		Thinking  string `json:"thinking"`
		Signature string `json:"signature"`
		Partial   string `json:"partial_json"`
		Stop      string `json:"stop_reason"`
	} `json:"delta"`
	Usage anthropicUsage `json:"usage"`
}

// An anthropicUsage has counts that do not include each other. Those that an event does not have stay as they were.
type anthropicUsage struct {
	Input   *int `json:"input_tokens"`
	Output  *int `json:"output_tokens"`
	Read    *int `json:"cache_read_input_tokens"`
	Written *int `json:"cache_creation_input_tokens"`
}

// An anthropicReader builds an answer of blocks, which come one after the other.
type anthropicReader struct {
	*builder
	call                 *partialCall    // of the block that is open, if it is one
	input                json.RawMessage // its arguments, if they came with its begin
	thinking             *thinkingBlock
	fresh, read, written int // tokens of the input
}

// A thinkingBlock goes back as it came.
type thinkingBlock struct {
	Type      string `json:"type"`
	Thinking  string `json:"thinking"`
	Signature string `json:"signature"`
}

// readAnthropic reads the stream of Messages.
func readAnthropic(b *builder) func(event) (bool, error) {
	r := &anthropicReader{builder: b}
	return func(ev event) (bool, error) {
		var e anthropicEvent
		if err := ev.decode(&e); err != nil {
			return false, err
		}
		switch e.Type {
		case "message_start":
			r.count(e.Message.Usage)
		case "content_block_start":
			return false, r.begin(e)
		case "content_block_delta":
			return false, r.delta(e)
		case "content_block_stop":
			return false, r.end()
		case "message_delta":
			r.count(e.Usage)
			r.stopped(e.Delta.Stop)
		case "message_stop":
			b.complete = true
			return true, nil
		case "error":
			return false, b.fault(ev.data)
		}
		return false, nil
	}
}

// count notes the tokens.
func (r *anthropicReader) count(u anthropicUsage) {
	for _, c := range []struct{ from, to *int }{{u.Input, &r.fresh}, {u.Read, &r.read}, {u.Written, &r.written},
		{u.Output, &r.usage.Output}} {
		if c.from != nil {
			*c.to = max(*c.from, 0)
		}
	}
	r.usage.Input, r.usage.Cached = r.fresh+r.read+r.written, r.read
}

// stopped notes why the answer ends.
func (r *anthropicReader) stopped(reason string) {
	switch reason {
	case "":
		return
	case "max_tokens", "model_context_window_exceeded":
		r.stop = StopLength
	case "refusal":
		r.stop = StopRefusal
	}
	r.complete = true
}

// begin opens a block. Its content may stand there already.
func (r *anthropicReader) begin(e anthropicEvent) (err error) {
	if err := r.end(); err != nil { // some servers do not end their blocks
		return err
	}
	switch e.Block.Type {
	case "text":
		return r.addText(e.Block.Text)
	case "thinking":
		r.thinking = &thinkingBlock{"thinking", e.Block.Thinking, e.Block.Signature}
		return r.addReasoning(e.Block.Thinking)
	case "redacted_thinking":
		return r.addRaw(object{"type": "redacted_thinking", "data": e.Block.Data})
	case "tool_use":
		r.input = append(r.input[:0], e.Block.Input...)
		r.call, err = r.beginCall(e.Block.ID, e.Block.Name)
	}
	return err
}

// delta adds to the open block.
func (r *anthropicReader) delta(e anthropicEvent) error {
	switch e.Delta.Type {
	case "text_delta":
		return r.addText(e.Delta.Text)
	case "thinking_delta":
		if r.thinking != nil {
			r.thinking.Thinking += e.Delta.Thinking
		}
		return r.addReasoning(e.Delta.Thinking)
	case "signature_delta":
		if r.thinking != nil {
			if r.thinking.Signature += e.Delta.Signature; len(r.thinking.Signature) > maxOpaque {
				return invalidAnswer("has a signature of more than %d bytes", maxOpaque)
			}
		}
	case "input_json_delta":
		if r.call != nil {
			return r.addArguments(r.call, e.Delta.Partial)
		}
	}
	return nil
}

// end closes the open block.
func (r *anthropicReader) end() (err error) {
	switch {
	case r.thinking != nil && r.thinking.Signature != "":
		err = r.addRaw(r.thinking)
	case r.call != nil && len(r.call.args) == 0:
		err = r.addArguments(r.call, textOrJSON(r.input))
	}
	r.thinking, r.call = nil, nil
	return err
}
