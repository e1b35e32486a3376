package modeltest

import (
	"encoding/json"
	"errors"
	"fmt"

	"haft"
)

// An inputItem is an item of the input of Responses.
type inputItem struct {
	Type      string          `json:"type"`
	Role      string          `json:"role"`
	Content   string          `json:"content"`
	Phase     string          `json:"phase"`
	ID        string          `json:"id"`
	CallID    string          `json:"call_id"`
	Name      string          `json:"name"`
	Arguments string          `json:"arguments"`
	Output    json.RawMessage `json:"output"`
	Summary   json.RawMessage `json:"summary"`
	Encrypted string          `json:"encrypted_content"`
}

// readResponses reads a request of Responses.
func readResponses(body []byte) (Request, error) {
	var in struct {
		options
		Model        string          `json:"model"`
		Instructions string          `json:"instructions"`
		Input        []inputItem     `json:"input"`
		Stream       bool            `json:"stream"`
		Store        *bool           `json:"store"`
		Include      []string        `json:"include"`
		MaxOutput    int             `json:"max_output_tokens"`
		Tools        []openAITool    `json:"tools"`
		Choice       json.RawMessage `json:"tool_choice"`
		Parallel     *bool           `json:"parallel_tool_calls"`
	}
	if err := decode(body, &in); err != nil {
		return Request{}, err
	}
	r := Request{Model: in.Model, System: in.Instructions, MaxOutput: in.MaxOutput}
	if !in.Stream || in.Store == nil || *in.Store {
		return r, errors.New("stream is not true, or store is not false")
	}
	if err := r.openAITools(in.Tools, in.Choice, in.Parallel, false); err != nil {
		return r, err
	}
	asking := false // the items before are of one message of the assistant
	for i, it := range in.Input {
		if it.Type == "reasoning" {
			switch {
			case it.Encrypted == "" || it.Summary == nil:
				return r, fmt.Errorf("input[%d]: a reasoning item needs a summary and encrypted_content", i)
			case i+1 == len(in.Input) || in.Input[i+1].Role == "user" || in.Input[i+1].Type == "function_call_output":
				return r, fmt.Errorf("input[%d]: a reasoning item has no item that follows it", i)
			}
			continue
		}
		last := len(r.Messages) - 1
		switch it.Type + it.Role {
		case "user", "assistant":
			r.Messages = append(r.Messages, haft.Message{Role: haft.MessageRole(it.Role), Text: it.Content})
		case "function_call":
			if !asking || r.Messages[last].Role != haft.RoleAssistant {
				r.Messages = append(r.Messages, haft.Message{Role: haft.RoleAssistant})
				last++
			}
			r.Messages[last].Calls = append(r.Messages[last].Calls, haft.ToolCall{ID: it.CallID, Tool: it.Name,
				Args: json.RawMessage(it.Arguments)})
		case "function_call_output":
			text, err := r.responsesOutput(it.Output)
			if err != nil {
				return r, fmt.Errorf("input[%d]: %w", i, err)
			}
			r.Messages = append(r.Messages, haft.Message{Role: haft.RoleTool, Answers: it.CallID, Text: text})
		default:
			return r, fmt.Errorf("input[%d]: the item is not known", i)
		}
		asking = it.Type == "function_call" || it.Role == "assistant"
	}
	return r, nil
}

// responsesOutput reads the output of a call: a text, or parts.
func (r *Request) responsesOutput(raw json.RawMessage) (text string, err error) {
	if json.Unmarshal(raw, &text) == nil {
		return text, nil
	}
	var parts []struct {
		Type  string `json:"type"`
		Text  string `json:"text"`
		Image string `json:"image_url"`
	}
	if err := decode(raw, &parts); err != nil || len(parts) == 0 {
		return "", errors.New("the output is neither a text nor a list of parts")
	}
	for _, p := range parts {
		switch {
		case p.Type == "input_text" && p.Text != "" && p.Image == "":
			text += p.Text
		case p.Type == "input_image" && p.Text == "":
			if err := r.addDataURL(p.Image); err != nil {
				return "", err
			}
		default:
			return "", errors.New("a part of the output is empty or not known")
		}
	}
	return text, nil
}

// responsesStream writes an answer of Responses.
func responsesStream(_ Request, s Step) (begin, end []string) {
	output := []any{}
	event := func(kind string, fields object) {
		fields["type"], fields["sequence_number"] = "response."+kind, len(begin)
		begin = append(begin, named(fields))
	}
	done := func(item object) {
		event("output_item.done", object{"output_index": len(output), "item": item})
		output = append(output, item)
	}
	event("created", object{"response": object{"status": "in_progress", "output": []any{}}})
	if s.Reasoning != "" {
		for _, p := range split(s.Reasoning) {
			event("reasoning_summary_text.delta", object{"delta": p})
		}
		done(object{"type": "reasoning", "id": "rs_1", "encrypted_content": "encrypted",
			"summary": []any{object{"type": "summary_text", "text": s.Reasoning}}})
	}
	if s.Text != "" {
		kind, field := "output_text", "text"
		if s.Stop == "refusal" {
			kind, field = "refusal", "refusal"
		}
		event("output_item.added", object{"item": object{"type": "message", "content": []any{}}})
		for _, p := range split(s.Text) {
			event(kind+".delta", object{"delta": p})
		}
		done(object{"type": "message", "id": "msg_1", "role": "assistant", "status": "completed",
			"content": []any{object{"type": kind, field: s.Text}}})
	}
	for _, c := range s.Calls {
		item := object{"type": "function_call", "id": "fc_" + c.ID, "call_id": c.ID, "name": c.Tool, "arguments": ""}
		event("output_item.added", object{"item": item})
		for _, p := range split(arguments(c)) {
			event("function_call_arguments.delta", object{"delta": p})
		}
		done(object{"type": "function_call", "id": "fc_" + c.ID, "call_id": c.ID, "name": c.Tool,
			"arguments": arguments(c)})
	}
	status, response := "completed", object{"output": output, "usage": object{"input_tokens": s.Usage.Input,
		"output_tokens": s.Usage.Output, "input_tokens_details": object{"cached_tokens": s.Usage.Cached}}}
	switch s.Stop {
	case "length":
		status, response["incomplete_details"] = "incomplete", object{"reason": "max_output_tokens"}
	case "filtered":
		status, response["incomplete_details"] = "incomplete", object{"reason": "content_filter"}
	}
	response["status"] = status
	return begin, []string{named(object{"type": "response." + status, "response": response})}
}

func responsesStreamError(kind, message string) string {
	return named(object{"type": "response.failed", "response": object{"status": "failed",
		"error": object{"code": kind, "message": message}}})
}
