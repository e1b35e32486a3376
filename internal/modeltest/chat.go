package modeltest

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"haft"
)

// An openAITool is a tool of OpenAI's formats.
type openAITool struct {
	Type     string `json:"type"`
	Function struct {
		Name        string          `json:"name"`
		Description string          `json:"description"`
		Parameters  json.RawMessage `json:"parameters"`
		Strict      *bool           `json:"strict"`
	} `json:"function"`
	// Of Responses:
	Name        string          `json:"name"`
	Description string          `json:"description"`
	Parameters  json.RawMessage `json:"parameters"`
	Strict      *bool           `json:"strict"`
}

// A chatMessage is a message of Chat Completions.
type chatMessage struct {
	Role             string          `json:"role"`
	Content          json.RawMessage `json:"content"`
	Reasoning        string          `json:"reasoning"`
	ReasoningContent string          `json:"reasoning_content"`
	ToolCallID       string          `json:"tool_call_id"`
	ToolCalls        []struct {
		ID       string          `json:"id"`
		Type     string          `json:"type"`
		Extra    json.RawMessage `json:"extra_content"`
		Function struct {
			Name      string `json:"name"`
			Arguments string `json:"arguments"`
		} `json:"function"`
	} `json:"tool_calls"`
}

// readChat reads a request of Chat Completions.
func readChat(body []byte) (Request, error) {
	var in struct {
		options
		Model         string        `json:"model"`
		Messages      []chatMessage `json:"messages"`
		Stream        bool          `json:"stream"`
		StreamOptions struct {
			Usage bool `json:"include_usage"`
		} `json:"stream_options"`
		MaxTokens           int             `json:"max_tokens"`
		MaxCompletionTokens int             `json:"max_completion_tokens"`
		Tools               []openAITool    `json:"tools"`
		Choice              json.RawMessage `json:"tool_choice"`
		Parallel            *bool           `json:"parallel_tool_calls"`
	}
	if err := decode(body, &in); err != nil {
		return Request{}, err
	}
	if !in.Stream {
		return Request{}, errors.New("stream is not true")
	}
	r := Request{Model: in.Model, MaxOutput: max(in.MaxTokens, in.MaxCompletionTokens)}
	if err := r.openAITools(in.Tools, in.Choice, in.Parallel, true); err != nil {
		return r, err
	}
	for i, m := range in.Messages {
		text, err := r.chatContent(m)
		if err != nil {
			return r, fmt.Errorf("messages[%d]: %w", i, err)
		}
		out := haft.Message{Text: text, Reasoning: m.Reasoning + m.ReasoningContent, Answers: m.ToolCallID}
		switch m.Role {
		case "system":
			if i != 0 || text == "" {
				return r, errors.New("the system message is not the first, or empty")
			}
			r.System = text
			continue
		case "user", "assistant", "tool":
			out.Role = haft.MessageRole(m.Role)
		default:
			return r, fmt.Errorf("messages[%d]: the role is not known", i)
		}
		for _, c := range m.ToolCalls {
			if c.Type != "function" {
				return r, fmt.Errorf("messages[%d]: a call is not of a function", i)
			}
			out.Calls = append(out.Calls, haft.ToolCall{ID: c.ID, Tool: c.Function.Name,
				Args: json.RawMessage(c.Function.Arguments)})
		}
		r.Messages = append(r.Messages, out)
	}
	return r, nil
}

// chatContent reads the content of a message: a text, and for users also parts.
func (r *Request) chatContent(m chatMessage) (text string, err error) {
	if len(m.Content) == 0 || json.Unmarshal(m.Content, &text) == nil {
		return text, nil
	}
	var parts []struct {
		Type  string `json:"type"`
		Text  string `json:"text"`
		Image *struct {
			URL string `json:"url"`
		} `json:"image_url"`
	}
	if err := decode(m.Content, &parts); err != nil || len(parts) == 0 || m.Role != "user" {
		return "", errors.New("the content is no text, and no list of parts of a user")
	}
	for _, p := range parts {
		switch {
		case p.Type == "text" && p.Text != "" && p.Image == nil:
			text = strings.TrimPrefix(text+"\n\n"+p.Text, "\n\n")
		case p.Type == "image_url" && p.Image != nil:
			if err := r.addDataURL(p.Image.URL); err != nil {
				return "", err
			}
		default:
			return "", errors.New("a part is empty or not known")
		}
	}
	return text, nil
}

// openAITools reads the tools of OpenAI's formats.
func (r *Request) openAITools(tools []openAITool, choice json.RawMessage, parallel *bool, inner bool) error {
	for i, t := range tools {
		name, parameters := t.Name, t.Parameters
		if inner {
			name, parameters = t.Function.Name, t.Function.Parameters
		}
		if t.Type != "function" || len(parameters) == 0 {
			return fmt.Errorf("tools[%d]: it is no function with parameters", i)
		}
		r.Tools = append(r.Tools, name)
	}
	r.Choice, r.Parallel = "auto", parallel == nil || *parallel
	if len(tools) == 0 && (parallel != nil || choice != nil) {
		return errors.New("tool_choice and parallel_tool_calls are only allowed when tools are specified")
	}
	if choice == nil || json.Unmarshal(choice, &r.Choice) == nil {
		return nil
	}
	var one openAITool
	if err := decode(choice, &one); err != nil || one.Type != "function" {
		return errors.New("tool_choice is not of the format")
	}
	if r.Choice = one.Name; inner {
		r.Choice = one.Function.Name
	}
	return nil
}

// chatStream writes an answer of Chat Completions.
func chatStream(r Request, s Step) (begin, end []string) {
	chunk := func(delta object, reason any) string {
		return data(object{"id": "chatcmpl-1", "object": "chat.completion.chunk", "model": r.Model,
			"choices": []any{object{"index": 0, "delta": delta, "finish_reason": reason}}})
	}
	begin = append(begin, chunk(object{"role": "assistant", "content": ""}, nil))
	for _, p := range split(s.Reasoning) {
		begin = append(begin, chunk(object{"reasoning_content": p}, nil))
	}
	field, reason := "content", map[string]string{"end": "stop", "calls": "tool_calls", "length": "length",
		"refusal": "stop", "filtered": "content_filter"}[stopOf(s)]
	if s.Stop == "refusal" {
		field = "refusal"
	}
	for _, p := range split(s.Text) {
		begin = append(begin, chunk(object{field: p}, nil))
	}
	for i, c := range s.Calls {
		if s.Loose {
			function := object{"name": c.Tool, "arguments": c.Args}
			begin = append(begin, chunk(object{"tool_calls": []any{object{"function": function}}}, nil))
			continue
		}
		begin = append(begin, chunk(object{"tool_calls": []any{object{"index": i, "id": c.ID, "type": "function",
			"function": object{"name": c.Tool, "arguments": ""}}}}, nil))
		for _, p := range split(arguments(c)) {
			begin = append(begin, chunk(object{"tool_calls": []any{object{"index": i,
				"function": object{"arguments": p}}}}, nil))
		}
	}
	end = append(end, chunk(object{}, reason))
	if s.Loose {
		return begin, end
	}
	usage := object{"prompt_tokens": s.Usage.Input, "completion_tokens": s.Usage.Output,
		"prompt_tokens_details": object{"cached_tokens": s.Usage.Cached}}
	return begin, append(end, data(object{"object": "chat.completion.chunk", "choices": []any{}, "usage": usage}),
		"data: [DONE]\n\n")
}

func openAIError(status int, message string) any {
	kind := "server_error"
	if status < 500 {
		kind = "invalid_request_error"
	}
	return object{"error": object{"message": message, "type": kind, "param": nil, "code": nil}}
}

func openAIStreamError(kind, message string) string {
	return data(object{"error": object{"type": kind, "message": message}})
}
