package modelapi

// chat reads an answer of OpenAI's Chat Completions, which many others imitate.
func (p *parser) chat(root node) error {
	if root.is('[') {
		return p.chatCalls(root)
	}
	o, err := root.object()
	if err != nil {
		return err
	}
	if isStreamEvent(o) {
		return errStreamed(o.at)
	}
	if o.has("choices") {
		choice, err := o.field("choices").only("choices")
		if err != nil || !choice.present() {
			return err
		}
		if o, err = choice.object(); err != nil {
			return err
		}
		if isStreamEvent(o) {
			return errStreamed(o.at)
		}
	}
	reason := o.word("finish_reason")
	if o.has("message") {
		if o, err = o.field("message").object(); err != nil {
			return err
		}
	}
	switch {
	case o.has("tool_calls"):
		err = p.chatCalls(o.field("tool_calls"))
	case o.has("function_call"):
		err = p.legacy(o.field("function_call"))
	case o.has("function"), o.has("custom"):
		err = p.chatCall(o)
	}
	if err == nil && reason == "length" {
		p.failLastCall()
	}
	return err
}

// chatCalls reads a list of tool_calls.
func (p *parser) chatCalls(n node) error {
	return p.each(n, false, func(o object) (bool, error) { return true, p.chatCall(o) })
}

func (p *parser) chatCall(o object) error {
	if isStreamEvent(o) || o.has("choices") {
		return errStreamed(o.at)
	}
	switch t := o.word("type"); {
	case t == "custom" || o.has("custom"):
		return errCustom(o.at)
	case t != "function" && o.has("type"): // some servers leave it out
		return invalid(o.at, "it is no call of a function")
	}
	id := o.field("id")
	if err := needID(o, id); err != nil {
		return err
	}
	f, err := o.field("function").object()
	if err != nil {
		return err
	}
	if !f.has("name") && o.has("index") {
		return errStreamed(o.at)
	}
	return p.add(o.at, id, f.field("name"), f.field("arguments"), node{})
}

// legacy reads a function_call, which was there before tool_calls.
func (p *parser) legacy(n node) error {
	f, err := n.object()
	if err != nil {
		return err
	}
	p.req.Legacy = true
	return p.add(n.at, node{}, f.field("name"), f.field("arguments"), node{})
}

// A toolMessage is an answer of Chat Completions.
type toolMessage struct {
	Role    string `json:"role"`
	ID      string `json:"tool_call_id"`
	Content string `json:"content"`
}

// A functionMessage is an answer to a legacy call.
type functionMessage struct {
	Role    string `json:"role"`
	Name    string `json:"name"`
	Content string `json:"content"`
}

func renderChat(req *Request, answers []answer) (any, error) {
	messages := make([]any, 0, len(answers))
	for i, a := range answers {
		c := req.Calls[i]
		if req.Legacy {
			messages = append(messages, functionMessage{"function", c.Name, a.textWithNotes()})
		} else {
			messages = append(messages, toolMessage{"tool", c.ID, a.textWithNotes()})
		}
	}
	return messages, nil
}
