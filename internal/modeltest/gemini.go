package modeltest

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"haft"
)

// A geminiPart is a part of a content of Gemini.
type geminiPart struct {
	Text      *string `json:"text"`
	Signature string  `json:"thoughtSignature"`
	Call      *struct {
		ID   string          `json:"id"`
		Name string          `json:"name"`
		Args json.RawMessage `json:"args"`
	} `json:"functionCall"`
	Response *struct {
		ID       string            `json:"id"`
		Name     string            `json:"name"`
		Response map[string]string `json:"response"`
		Parts    []struct {
			Data *geminiData `json:"inlineData"`
		} `json:"parts"`
	} `json:"functionResponse"`
	Data *geminiData `json:"inlineData"`
}

// A geminiData is a file in a request of Gemini.
type geminiData struct {
	MIME string `json:"mimeType"`
	Data string `json:"data"`
}

// readGemini reads a request of generateContent.
func readGemini(body []byte) (Request, error) {
	type content struct {
		Role  string       `json:"role"`
		Parts []geminiPart `json:"parts"`
	}
	var in struct {
		Contents []content `json:"contents"`
		System   content   `json:"systemInstruction"`
		Config   struct {
			MaxOutput   int             `json:"maxOutputTokens"`
			Temperature json.RawMessage `json:"temperature"`
			Thinking    json.RawMessage `json:"thinkingConfig"`
		} `json:"generationConfig"`
		Tools []struct {
			Functions []struct {
				Name        string          `json:"name"`
				Description string          `json:"description"`
				Parameters  json.RawMessage `json:"parameters"`
				Schema      json.RawMessage `json:"parametersJsonSchema"`
			} `json:"functionDeclarations"`
		} `json:"tools"`
		ToolConfig struct {
			Calling struct {
				Mode  string   `json:"mode"`
				Names []string `json:"allowedFunctionNames"`
			} `json:"functionCallingConfig"`
		} `json:"toolConfig"`
	}
	if err := decode(body, &in); err != nil {
		return Request{}, err
	}
	r := Request{MaxOutput: in.Config.MaxOutput, Parallel: true, Choice: "auto"}
	for _, p := range in.System.Parts {
		if p.Text == nil || *p.Text == "" {
			return r, errors.New("systemInstruction: a part is no text")
		}
		r.System += *p.Text
	}
	for _, t := range in.Tools {
		for _, f := range t.Functions {
			r.Tools = append(r.Tools, f.Name)
		}
	}
	switch c := in.ToolConfig.Calling; {
	case c.Mode == "ANY" && len(c.Names) == 1:
		r.Choice = c.Names[0]
	case c.Mode != "":
		r.Choice = map[string]string{"AUTO": "auto", "ANY": "required", "NONE": "none"}[c.Mode]
	}
	roles, made := []string{}, 0
	for i, c := range in.Contents {
		roles = append(roles, c.Role)
		if err := r.geminiContent(c.Role, c.Parts, &made); err != nil {
			return r, fmt.Errorf("contents[%d]: %w", i, err)
		}
	}
	return r, alternates(roles)
}

// geminiContent reads the parts of a content. Calls without an id get one, and answers without one that of the first
// call with the same name that has none yet; made counts them.
func (r *Request) geminiContent(role string, parts []geminiPart, made *int) error {
	said := haft.Message{Role: haft.RoleUser}
	if role == "model" {
		said.Role = haft.RoleAssistant
	} else if role != "user" {
		return errors.New("the role is not known")
	}
	used := map[string]bool{}
	var asked []haft.ToolCall
	if n := len(r.Messages); n > 0 {
		asked = r.Messages[n-1].Calls
	}
	for _, p := range parts {
		switch {
		case p.Call != nil && role == "model":
			id := p.Call.ID
			if id == "" {
				*made++
				id = fmt.Sprintf("made-%d", *made)
			}
			said.Calls = append(said.Calls, haft.ToolCall{ID: id, Tool: p.Call.Name, Args: p.Call.Args})
		case p.Response != nil && role == "user":
			answer := haft.Message{Role: haft.RoleTool, Answers: p.Response.ID, Name: p.Response.Name,
				Text: p.Response.Response["result"] + p.Response.Response["error"]}
			if p.Response.Response["error"] != "" {
				answer.Status = haft.StatusError
			}
			for _, c := range asked {
				if answer.Answers == "" && c.Tool == answer.Name && !used[c.ID] {
					answer.Answers = c.ID
				}
			}
			used[answer.Answers] = true
			for _, inner := range p.Response.Parts {
				if err := r.geminiImage(inner.Data); err != nil {
					return err
				}
			}
			r.Messages = append(r.Messages, answer)
		case p.Data != nil && role == "user":
			if err := r.geminiImage(p.Data); err != nil {
				return err
			}
		case p.Text != nil && strings.TrimSpace(*p.Text) != "":
			said.Text = strings.TrimPrefix(said.Text+"\n\n"+*p.Text, "\n\n")
		default:
			return errors.New("a part is empty, or not of this role")
		}
	}
	if said.Text != "" || len(said.Calls) > 0 {
		r.Messages = append(r.Messages, said)
	}
	return nil
}

// geminiImage reads an image. Gemini takes no GIF.
func (r *Request) geminiImage(d *geminiData) error {
	if d == nil || d.MIME == "image/gif" {
		return errors.New("a part of a functionResponse has no inlineData, or of a type that is not supported")
	}
	return r.addImage(d.MIME, d.Data)
}

// geminiStream writes an answer of generateContent.
func geminiStream(r Request, s Step) (begin, end []string) {
	chunk := func(reason string, parts ...any) string {
		candidate := object{"index": 0, "content": object{"role": "model", "parts": parts}}
		if reason != "" {
			candidate["finishReason"] = reason
		}
		return data(object{"candidates": []any{candidate}, "modelVersion": r.Model,
			"usageMetadata": object{"promptTokenCount": s.Usage.Input, "candidatesTokenCount": s.Usage.Output,
				"cachedContentTokenCount": s.Usage.Cached}})
	}
	for _, p := range split(s.Reasoning) {
		begin = append(begin, chunk("", object{"text": p, "thought": true}))
	}
	for _, p := range split(s.Text) {
		begin = append(begin, chunk("", object{"text": p}))
	}
	for i, c := range s.Calls {
		function := object{"name": c.Tool}
		if c.ID != "" {
			function["id"] = c.ID
		}
		if c.Malformed != "" {
			function["args"] = c.Malformed
		} else if len(c.Args) > 0 {
			function["args"] = c.Args
		}
		part := object{"functionCall": function}
		if i == 0 && s.Reasoning != "" {
			part["thoughtSignature"] = "c2lnbmVk"
		}
		begin = append(begin, chunk("", part))
	}
	reason := map[string]string{"length": "MAX_TOKENS", "refusal": "SAFETY", "filtered": "PROHIBITED_CONTENT"}[s.Stop]
	if reason == "" {
		reason = "STOP"
	}
	return begin, []string{chunk(reason, object{"text": ""})}
}

func geminiError(status int, message string) any {
	kind := map[int]string{400: "INVALID_ARGUMENT", 401: "UNAUTHENTICATED", 403: "PERMISSION_DENIED",
		429: "RESOURCE_EXHAUSTED", 500: "INTERNAL", 503: "UNAVAILABLE"}[status]
	return object{"error": object{"code": status, "message": message, "status": kind}}
}

func geminiStreamError(kind, message string) string {
	return data(object{"error": object{"code": 500, "message": message, "status": kind}})
}
