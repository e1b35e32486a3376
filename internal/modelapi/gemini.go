package modelapi

import (
	"bytes"
	"encoding/json"
)

// gemini reads an answer of Gemini's generateContent. Its fields are those of a
// protocol buffer, whose JSON form may be written in camelCase or in snake_case.
func (p *parser) gemini(root node) error {
	parts, reason := root, ""
	if root.is('{') {
		o, err := root.object()
		if err != nil {
			return err
		}
		if parts, reason, err = p.geminiParts(o); err != nil {
			return err
		}
	}
	return p.each(parts, reason == "MAX_TOKENS", p.part)
}

// geminiParts finds the parts in a response, a candidate, a content or a part.
func (p *parser) geminiParts(o object) (parts node, reason string, err error) {
	if o.has("candidates") {
		candidate, err := o.field("candidates").only("candidates")
		if err != nil || !candidate.present() {
			return node{}, "", err
		}
		if o, err = candidate.object(); err != nil {
			return node{}, "", err
		}
	}
	reason = o.word("finishReason", "finish_reason")
	if o.has("content") {
		if o, err = o.field("content").object(); err != nil {
			return node{}, "", err
		}
	}
	if !o.has("parts") && o.has("functionCall", "function_call") {
		_, err := p.part(o)
		return node{}, "", err
	}
	return o.field("parts"), reason, nil
}

// part reads one part, and reports whether it is a call.
func (p *parser) part(o object) (bool, error) {
	if o.has("candidates") {
		return false, errStreamed(o.at)
	}
	n := o.field("functionCall", "function_call")
	if !n.present() {
		return false, nil
	}
	f, err := n.object()
	if err != nil {
		return false, err
	}
	if f.has("partialArgs", "partial_args") || string(f.field("willContinue", "will_continue").raw) == "true" {
		return false, errStreamed(n.at)
	}
	return true, p.add(n.at, f.field("id"), f.field("name"), f.field("args"), node{})
}

// A geminiContent holds the answers to all calls.
type geminiContent struct {
	Role  string       `json:"role"`
	Parts []geminiPart `json:"parts"`
}

// A geminiPart is one answer.
type geminiPart struct {
	Response functionResponse `json:"functionResponse"`
}

// A functionResponse is the answer to one call.
type functionResponse struct {
	ID       string           `json:"id,omitempty"`
	Name     string           `json:"name"`
	Response functionOutcome  `json:"response"`
	Parts    []geminiDataPart `json:"parts,omitempty"`
}

// A functionOutcome is what the model gets. Gemini takes any object, and the
// key error for what went wrong.
type functionOutcome struct {
	Result json.RawMessage `json:"result,omitempty"`
	Error  *string         `json:"error,omitempty"`
	Notes  []string        `json:"notes,omitempty"`
}

// A geminiDataPart is a file.
type geminiDataPart struct {
	Data inlineData `json:"inlineData"`
}

// An inlineData is the content of a file. Its field displayName is left out: the
// SDKs refuse it for the Gemini API, and take it for Vertex AI only.
type inlineData struct {
	MIME string `json:"mimeType"`
	Data string `json:"data"`
}

func renderGemini(req *Request, answers []answer) (any, error) {
	if len(answers) == 0 {
		return nil, nil
	}
	c := geminiContent{Role: "user", Parts: make([]geminiPart, 0, len(answers))}
	for i, a := range answers {
		r := functionResponse{ID: req.Calls[i].ID, Name: req.Calls[i].Name, Response: functionOutcome{Notes: a.notes}}
		if a.failed {
			r.Response.Error = &a.text
		} else if a.value != nil && !deep(a.value) {
			r.Response.Result = a.value
		} else {
			result, err := encode(a.text)
			if err != nil {
				return nil, err
			}
			r.Response.Result = result
		}
		for _, m := range a.media {
			r.Parts = append(r.Parts, geminiDataPart{inlineData{m.mime, m.base64()}})
		}
		c.Parts = append(c.Parts, geminiPart{r})
	}
	return c, nil
}

// maxNesting is how deep a value may nest that is sent as JSON. Readers of protocol
// buffers refuse a whole request that nests deeper than 100, at several levels for
// each of JSON's.
const maxNesting = 20

// deep reports whether a valid JSON text nests deeper than maxNesting.
func deep(raw json.RawMessage) bool {
	depth := 0
	for dec := json.NewDecoder(bytes.NewReader(raw)); ; {
		switch token, err := dec.Token(); token {
		case json.Delim('{'), json.Delim('['):
			if depth++; depth > maxNesting {
				return true
			}
		case json.Delim('}'), json.Delim(']'):
			depth--
		default:
			if err != nil {
				return false // the end
			}
		}
	}
}
