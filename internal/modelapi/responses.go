package modelapi

import "encoding/json"

// responses reads an answer of OpenAI's Responses.
func (p *parser) responses(root node) error {
	items := root
	cut := false // the last item is not whole
	if root.is('{') {
		o, err := root.object()
		if err != nil {
			return err
		}
		switch {
		case isStreamEvent(o):
			return errStreamed(o.at)
		case o.has("output"):
			items, cut = o.field("output"), o.word("status") == "incomplete"
		case o.has("type"):
			_, err := p.item(o)
			return err
		default:
			return nil
		}
	}
	return p.each(items, cut, p.item)
}

// clientItems are the items, besides calls of functions, that wait for the client.
var clientItems = map[string]bool{
	"computer_call": true, "local_shell_call": true, "shell_call": true, "apply_patch_call": true,
	"mcp_approval_request": true,
}

// item reads one output item, and reports whether it is a call. Others are passed over.
func (p *parser) item(o object) (bool, error) {
	switch t := o.word("type"); {
	case isStreamEvent(o):
		return false, errStreamed(o.at)
	case t == "custom_tool_call":
		return false, errCustom(o.at)
	case clientItems[t]:
		p.other(o.at)
		return false, nil
	case t != "function_call":
		return false, nil
	}
	id := o.field("call_id")
	if err := needID(o, id); err != nil {
		return false, err
	}
	err := p.add(o.at, id, o.field("name"), o.field("arguments"), o.field("caller"))
	if s := o.word("status"); err == nil && (s == "incomplete" || s == "in_progress") {
		p.failLastCall()
	}
	return true, err
}

// A callOutput is an answer of Responses. Output is a text or a list of parts.
type callOutput struct {
	Type   string          `json:"type"`
	ID     string          `json:"call_id"`
	Caller json.RawMessage `json:"caller,omitempty"`
	Output any             `json:"output"`
}

// An inputPart is a part of an output.
type inputPart struct {
	Type     string  `json:"type"`
	Text     *string `json:"text,omitempty"`
	Image    string  `json:"image_url,omitempty"`
	Filename string  `json:"filename,omitempty"`
	FileData string  `json:"file_data,omitempty"`
}

func renderResponses(req *Request, answers []answer) (any, error) {
	items := make([]callOutput, 0, len(answers))
	for i, a := range answers {
		text := a.textWithNotes()
		item := callOutput{Type: "function_call_output", ID: req.Calls[i].ID, Caller: req.Calls[i].Caller, Output: text}
		if len(a.media) > 0 {
			parts := []inputPart{{Type: "input_text", Text: &text}}
			for _, m := range a.media {
				if m.image() {
					parts = append(parts, inputPart{Type: "input_image", Image: m.url()})
				} else {
					parts = append(parts, inputPart{Type: "input_file", Filename: m.name, FileData: m.url()})
				}
			}
			item.Output = parts
		}
		items = append(items, item)
	}
	return items, nil
}
