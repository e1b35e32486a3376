package modelapi

// anthropic reads an answer of Anthropic's Messages.
func (p *parser) anthropic(root node) error {
	blocks, reason := root, ""
	if root.is('{') {
		o, err := root.object()
		switch {
		case err != nil:
			return err
		case isStreamEvent(o):
			return errStreamed(o.at)
		case o.has("content"):
			blocks, reason = o.field("content"), o.word("stop_reason")
		case o.has("type"):
			_, err := p.block(o)
			return err
		default:
			return nil
		}
	}
	if blocks.is('"') {
		return nil // a text, as a message may have instead of blocks
	}
	// The guide "Handling stop reasons": the last block is then incomplete.
	cut := reason == "max_tokens" || reason == "model_context_window_exceeded"
	return p.each(blocks, cut, p.block)
}

// block reads one block of content, and reports whether it is a call for us.
// Others, such as those of tools that Anthropic runs itself, are passed over.
func (p *parser) block(o object) (bool, error) {
	if isStreamEvent(o) {
		return false, errStreamed(o.at)
	}
	if o.word("type") != "tool_use" {
		return false, nil
	}
	if o.has("toolset_name") {
		p.other(o.at)
		return false, nil
	}
	id := o.field("id")
	if err := needID(o, id); err != nil {
		return false, err
	}
	return true, p.add(o.at, id, o.field("name"), o.field("input"), node{})
}

// A userMessage holds the answers to all calls: Anthropic refuses them in several.
type userMessage struct {
	Role    string       `json:"role"`
	Content []toolResult `json:"content"`
}

// A toolResult is one answer. Content is a text or a list of blocks.
type toolResult struct {
	Type    string `json:"type"`
	ID      string `json:"tool_use_id"`
	Content any    `json:"content"`
	IsError bool   `json:"is_error,omitempty"`
}

// A block is a part of an answer.
type block struct {
	Type   string       `json:"type"`
	Text   string       `json:"text,omitempty"`
	Source *blockSource `json:"source,omitempty"`
	Title  string       `json:"title,omitempty"`
}

// A blockSource is the content of an image or a document.
type blockSource struct {
	Type      string `json:"type"`
	MediaType string `json:"media_type"`
	Data      string `json:"data"`
}

func renderAnthropic(req *Request, answers []answer) (any, error) {
	if len(answers) == 0 {
		return nil, nil
	}
	m := userMessage{Role: "user", Content: make([]toolResult, 0, len(answers))}
	for i, a := range answers {
		r := toolResult{Type: "tool_result", ID: req.Calls[i].ID, Content: a.textWithNotes(), IsError: a.failed}
		if len(a.media) > 0 && !a.failed { // the API takes nothing but text for an error
			// A text block must not be empty. It is not: it names the files.
			blocks := []block{{Type: "text", Text: a.textWithNotes()}}
			for _, m := range a.media {
				b := block{Type: "image", Source: &blockSource{"base64", m.mime, m.base64()}}
				if !m.image() {
					b.Type, b.Title = "document", m.name
				}
				blocks = append(blocks, b)
			}
			r.Content = blocks
		}
		m.Content = append(m.Content, r)
	}
	return m, nil
}
