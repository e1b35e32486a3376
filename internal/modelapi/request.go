package modelapi

import (
	"encoding/json"
	"strings"

	"haft"
	"haft/schema"
)

// The bounds of what a model answered.
const (
	MaxBytes = 16 << 20 // of the whole answer
	MaxCalls = 128      // in one answer
	MaxID    = 16 << 10 // bytes of an id: some gateways hide signatures in them
	MaxName  = 256      // bytes of a name
)

// A Request is what a model asks for.
type Request struct {
	// Form is the format in which it asks, and is answered.
	Form schema.Form
	// Calls are in the order in which they stand in the answer. There are none
	// if the model calls nothing.
	Calls []ToolCall
	// Legacy says that OpenAI's older function_call was used, which has no id.
	Legacy bool
	// Others are the places of items that need an answer but are no calls of a function: those
	// of a vendor's own tool that the client runs, such as computer_call. The program that
	// offered these tools has to answer.
	Others []string
	// TextOnly names files instead of showing them, for models that do not see.
	// It is not read from the answer.
	TextOnly bool
}

// A ToolCall is one call of a tool, as a model asks for it.
type ToolCall struct {
	// ID is the vendor's. It is empty for Gemini where it gave none, and for a
	// legacy call.
	ID string
	// Name is what the model calls the tool, which need not exist.
	Name string
	// Args are a JSON object, or nil if there is a Failure.
	Args json.RawMessage
	// Caller is what OpenAI says of who called, to be given back as it is.
	Caller json.RawMessage
	// Failure says why the call must not be run: its arguments cannot be read, or
	// are cut off. It is for the model; see [ToolCall.Refused].
	Failure *haft.Failure
}

// Refused is the result of a call that has a Failure, and nil for any other.
func (c ToolCall) Refused() *haft.Result {
	if c.Failure == nil {
		return nil
	}
	return &haft.Result{Tool: c.Name, Status: haft.StatusValidation, Value: json.RawMessage("null"), Error: c.Failure}
}

// Parse reads the answer of a model. An empty form means that it is recognised by its shape.
//
// Arguments that cannot be read are a Failure of their call and not of the others.
// An error means that the answer as a whole is not understood: it names the place
// and quotes nothing.
func Parse(raw []byte, form schema.Form) (*Request, error) {
	root, err := read(raw)
	if err != nil {
		return nil, err
	}
	if form == "" {
		if form, err = detect(root); err != nil {
			return nil, err
		}
	}
	f, ok := formats()[form]
	if !ok {
		return nil, errForm()
	}
	p := &parser{req: &Request{Form: form}, ids: map[string]bool{}}
	if err := f.parse(p, root); err != nil {
		return nil, err
	}
	return p.req, nil
}

// A format is how one vendor's models call tools and are answered.
type format struct {
	parse  func(*parser, node) error
	render func(*Request, []answer) (any, error)
}

// formats are those in which models answer.
func formats() map[schema.Form]format {
	return map[schema.Form]format{
		schema.FormOpenAI:          {(*parser).chat, renderChat},
		schema.FormOpenAIResponses: {(*parser).responses, renderResponses},
		schema.FormAnthropic:       {(*parser).anthropic, renderAnthropic},
		schema.FormGemini:          {(*parser).gemini, renderGemini},
	}
}

// errForm refuses a form in which no model answers.
func errForm() error {
	return &haft.Error{Code: haft.CodeInvalid,
		Message: "models answer in one of these formats: openai, openai-responses, anthropic, gemini"}
}

// A parser collects the calls of one answer.
type parser struct {
	req *Request
	ids map[string]bool
}

// each reads the objects of a list. read reports whether one is a call for us. With cut,
// the last of them is not whole.
func (p *parser) each(list node, cut bool, read func(object) (ours bool, err error)) error {
	all, err := list.list()
	for i := 0; err == nil && i < len(all); i++ {
		var o object
		var ours bool
		if o, err = all[i].object(); err == nil {
			ours, err = read(o)
		}
		if ours && cut && err == nil && i == len(all)-1 {
			p.failLastCall()
		}
	}
	return err
}

// add adds a call. The id is the node that has it, absent where there is none.
func (p *parser) add(at string, id, name, args, caller node) error {
	if len(p.req.Calls) == MaxCalls {
		return invalid(at, "there are more than %d calls", MaxCalls)
	}
	var c ToolCall
	var err error
	if id.present() {
		if c.ID, err = id.text(MaxID); err != nil {
			return err
		}
	}
	if name.present() {
		if c.Name, err = name.text(MaxName); err != nil {
			return err
		}
	}
	if c.Name == "" {
		return invalid(at, "the call has no name")
	}
	if c.ID != "" && p.ids[c.ID] {
		return invalid(at, "another call has the same id")
	}
	p.ids[c.ID] = true
	if caller.is('{') {
		if len(caller.raw) > MaxID {
			return invalid(caller.at, "it has %d bytes, %d is the most", len(caller.raw), MaxID)
		}
		c.Caller = append(json.RawMessage(nil), caller.raw...)
	}
	c.Args, c.Failure = arguments(args)
	p.req.Calls = append(p.req.Calls, c)
	return nil
}

// arguments reads the arguments of a call, which may be an object or the text of
// one. The failure is the call's.
func arguments(n node) (json.RawMessage, *haft.Failure) {
	args, err := schema.ReadArguments(n.raw)
	if err != nil {
		return nil, unreadable(haft.MessageOf(err))
	}
	raw, err := schema.Encode(args)
	if err != nil {
		return nil, unreadable("the arguments cannot be passed on")
	}
	return raw, nil
}

// failLastCall makes the last call a failure, because the model ran out of tokens while it
// wrote it. The arguments may look whole and lack half of what was meant.
func (p *parser) failLastCall() {
	if n := len(p.req.Calls); n > 0 {
		c := &p.req.Calls[n-1]
		c.Args, c.Failure = nil,
			unreadable("the answer of the model ended at its limit of tokens while this call was written, so it was "+
				"not run")
	}
}

// unreadable is the failure of a call whose arguments are not known.
func unreadable(message string) *haft.Failure {
	return &haft.Failure{Kind: haft.FailValidation, Message: message, Retry: haft.RetryChanged}
}

// other notes a call that another program has to answer.
func (p *parser) other(at string) {
	if len(p.req.Others) < MaxCalls {
		p.req.Others = append(p.req.Others, at)
	}
}

// errCustom refuses a call whose input is free text.
func errCustom(at string) error {
	return invalid(at,
		"this is a custom tool call, whose input is free text; tools are called as functions, with a JSON object")
}

// needID refuses a call without an id, which could not be answered.
func needID(o object, id node) error {
	if id.present() && !(id.is('"') && len(id.raw) == 2) {
		return nil
	}
	if o.has("index") {
		return errStreamed(o.at)
	}
	return invalid(o.at, "the call has no %s", id.at[strings.LastIndexByte(id.at, '.')+1:])
}
