package modeltest

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"haft"
)

// An anthropicBlock is a block of Messages.
type anthropicBlock struct {
	Type      string          `json:"type"`
	Text      string          `json:"text"`
	ID        string          `json:"id"`
	Name      string          `json:"name"`
	Input     json.RawMessage `json:"input"`
	ToolUseID string          `json:"tool_use_id"`
	Content   json.RawMessage `json:"content"`
	Source    *struct {
		Type      string `json:"type"`
		MediaType string `json:"media_type"`
		Data      string `json:"data"`
	} `json:"source"`
	IsError   bool            `json:"is_error"`
	Thinking  string          `json:"thinking"`
	Signature string          `json:"signature"`
	Data      string          `json:"data"`
	Cache     json.RawMessage `json:"cache_control"`
}

// readAnthropic reads a request of Messages.
func readAnthropic(body []byte) (Request, error) {
	var in struct {
		options
		Model    string           `json:"model"`
		System   []anthropicBlock `json:"system"`
		Messages []struct {
			Role    string           `json:"role"`
			Content []anthropicBlock `json:"content"`
		} `json:"messages"`
		Stream    bool `json:"stream"`
		MaxTokens int  `json:"max_tokens"`
		Tools     []struct {
			Name        string          `json:"name"`
			Description string          `json:"description"`
			Schema      json.RawMessage `json:"input_schema"`
			Strict      bool            `json:"strict"`
		} `json:"tools"`
		Choice *struct {
			Type    string `json:"type"`
			Name    string `json:"name"`
			Disable bool   `json:"disable_parallel_tool_use"`
		} `json:"tool_choice"`
	}
	if err := decode(body, &in); err != nil {
		return Request{}, err
	}
	r := Request{Model: in.Model, MaxOutput: in.MaxTokens, Choice: "auto", Parallel: true}
	if !in.Stream || in.MaxTokens <= 0 {
		return r, errors.New("stream is not true, or max_tokens is missing")
	}
	for _, b := range in.System {
		r.System += b.Text
	}
	for i, t := range in.Tools {
		if len(t.Schema) == 0 {
			return r, fmt.Errorf("tools[%d]: input_schema is missing", i)
		}
		r.Tools = append(r.Tools, t.Name)
	}
	if c := in.Choice; c != nil {
		r.Parallel = !c.Disable
		r.Choice = map[string]string{"auto": "auto", "any": "required", "none": "none", "tool": c.Name}[c.Type]
		if len(in.Tools) == 0 {
			return r, errors.New("tool_choice may only be specified while providing tools")
		}
	}
	roles := []string{}
	for i, m := range in.Messages {
		roles = append(roles, m.Role)
		if err := r.anthropicMessage(m.Role, m.Content); err != nil {
			return r, fmt.Errorf("messages[%d]: %w", i, err)
		}
	}
	for _, m := range r.Messages {
		if len(m.Calls) > 0 && len(in.Tools) == 0 {
			return r, errors.New("requests which have tool_use or tool_result blocks in messages must define tools")
		}
	}
	return r, alternates(roles)
}

// anthropicMessage reads the blocks of a message.
func (r *Request) anthropicMessage(role string, blocks []anthropicBlock) error {
	if len(blocks) == 0 || role != "user" && role != "assistant" {
		return errors.New("it is empty, or its role is not known")
	}
	said := haft.Message{Role: haft.MessageRole(role)}
	for i, b := range blocks {
		switch b.Type {
		case "text":
			if strings.TrimSpace(b.Text) == "" {
				return errors.New("text content blocks must contain non-whitespace text")
			}
			said.Text = strings.TrimPrefix(said.Text+"\n\n"+b.Text, "\n\n")
		case "tool_use":
			said.Calls = append(said.Calls, haft.ToolCall{ID: b.ID, Tool: b.Name, Args: b.Input})
		case "tool_result":
			if role != "user" || said.Text != "" {
				return errors.New("tool_result blocks must come first, in a message of the user")
			}
			answer := haft.Message{Role: haft.RoleTool, Answers: b.ToolUseID}
			var err error
			if answer.Text, err = r.anthropicResult(b); err != nil {
				return err
			}
			if b.IsError {
				answer.Status = haft.StatusError
			}
			r.Messages = append(r.Messages, answer)
		case "thinking", "redacted_thinking":
			if b.Signature+b.Data == "" || i == len(blocks)-1 {
				return errors.New("a thinking block has no signature, or is the last one")
			}
			said.Reasoning += b.Thinking
		default:
			return errors.New("a block is not known")
		}
	}
	if said.Text != "" || len(said.Calls) > 0 {
		r.Messages = append(r.Messages, said)
	}
	return nil
}

// anthropicResult reads the content of an answer: a text, or blocks.
func (r *Request) anthropicResult(b anthropicBlock) (text string, err error) {
	if json.Unmarshal(b.Content, &text) == nil {
		return text, nil
	}
	var blocks []anthropicBlock
	if err := decode(b.Content, &blocks); err != nil || len(blocks) == 0 {
		return "", errors.New("the content of a tool_result is neither a text nor a list of blocks")
	}
	for _, in := range blocks {
		switch {
		case in.Type == "text" && strings.TrimSpace(in.Text) != "":
			text += in.Text
		case in.Type == "image" && in.Source != nil && in.Source.Type == "base64" && !b.IsError:
			if err := r.addImage(in.Source.MediaType, in.Source.Data); err != nil {
				return "", err
			}
		case b.IsError:
			return "", errors.New("all content must be type text if is_error is true")
		default:
			return "", errors.New("a block of a tool_result is empty or not known")
		}
	}
	return text, nil
}

// anthropicStream writes an answer of Messages.
func anthropicStream(r Request, s Step) (begin, end []string) {
	event := func(kind string, fields object) string {
		fields["type"] = kind
		return named(fields)
	}
	n := 0
	block := func(start object, field string, deltas ...object) {
		start[field] = map[bool]any{true: object{}, false: ""}[field == "input"]
		begin = append(begin, event("content_block_start", object{"index": n, "content_block": start}))
		for _, d := range deltas {
			begin = append(begin, event("content_block_delta", object{"index": n, "delta": d}))
		}
		begin = append(begin, event("content_block_stop", object{"index": n}))
		n++
	}
	pieces := func(kind, field, text string) (deltas []object) {
		for _, p := range split(text) {
			deltas = append(deltas, object{"type": kind, field: p})
		}
		return deltas
	}
	begin = append(begin, event("message_start", object{"message": object{"id": "msg_1", "type": "message",
		"role": "assistant", "model": r.Model, "content": []any{}, "usage": object{"output_tokens": 1,
			"input_tokens": s.Usage.Input - s.Usage.Cached, "cache_read_input_tokens": s.Usage.Cached}}}),
		event("ping", object{}))
	if s.Reasoning != "" {
		block(object{"type": "thinking", "signature": ""}, "thinking", append(
			pieces("thinking_delta", "thinking", s.Reasoning),
			object{"type": "signature_delta", "signature": "c2lnbmVk"})...)
	}
	if s.Text != "" {
		block(object{"type": "text"}, "text", pieces("text_delta", "text", s.Text)...)
	}
	for _, c := range s.Calls {
		block(object{"type": "tool_use", "id": c.ID, "name": c.Tool}, "input",
			pieces("input_json_delta", "partial_json", arguments(c))...)
	}
	reason := map[string]string{"end": "end_turn", "calls": "tool_use", "length": "max_tokens", "refusal": "refusal",
		"filtered": "refusal"}[stopOf(s)]
	return begin, []string{
		event("message_delta", object{"delta": object{"stop_reason": reason, "stop_sequence": nil},
			"usage": object{"output_tokens": s.Usage.Output}}),
		event("message_stop", object{}),
	}
}

func anthropicError(status int, message string) any {
	kind := map[int]string{400: "invalid_request_error", 401: "authentication_error", 403: "permission_error",
		413: "request_too_large", 429: "rate_limit_error", 500: "api_error", 529: "overloaded_error"}[status]
	return object{"type": "error", "error": object{"type": kind, "message": message}}
}

func anthropicStreamError(kind, message string) string {
	return named(object{"type": "error", "error": object{"type": kind, "message": message}})
}
