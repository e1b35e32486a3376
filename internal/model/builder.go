package model

import (
	"bytes"
	"cmp"
	"crypto/rand"
	"encoding/json"
	"strings"

	"haft"
	"haft/internal/bounds"
	"haft/internal/modelapi"
	"haft/schema"
)

// A builder puts the pieces of a stream together. The methods that add something return a fault if that passes a bound.
type builder struct {
	emit    func(Chunk)
	server  string
	secrets []string

	text, reasoning strings.Builder
	calls           []*partialCall
	pieces          []piece
	textAt          int  // the place of the text in the pieces, counted from 1; 0 if there is none
	raw             int  // bytes that were kept for the vendor
	inCall          bool // what was written last belongs to a call
	stop            Stop // empty if the model ended by itself
	usage           Usage
	complete        bool // the stream may end
}

// A partialCall is a call that is being written.
type partialCall struct {
	id, name string
	args     []byte
	piece    int // its place in the pieces
}

// A piece is a part of an answer, in the order in which the vendor sent it. It is the text, a call, or neither: then
// Raw is something that only the vendor understands. With the text or a call, Raw is what belongs to it.
type piece struct {
	Text bool            `json:"text,omitempty"`
	Call int             `json:"call,omitempty"` // counted from 1
	Raw  json.RawMessage `json:"raw,omitempty"`
}

// opaque is what [Answer.Opaque] holds.
type opaque struct {
	// Server is to whom it goes back, as [Client.server] has it.
	Server string  `json:"server"`
	Pieces []piece `json:"pieces"`
}

const (
	maxOpaque     = 4 << 20 // bytes that are kept for the vendor
	pieceOverhead = 64      // about how many bytes a piece takes besides what it holds
)

// addText adds a piece of the text.
func (b *builder) addText(text string) error {
	if text == "" {
		return nil
	}
	if b.text.Len()+len(text) > maxText {
		return invalidAnswer("has a text of more than %d bytes", maxText)
	}
	if b.text.Len() == 0 {
		b.textPiece()
	}
	b.inCall = false
	b.text.WriteString(text)
	b.send(Chunk{Text: text})
	return nil
}

// textPiece returns the piece that is the text.
func (b *builder) textPiece() *piece {
	if b.textAt == 0 {
		b.pieces = append(b.pieces, piece{Text: true})
		b.textAt = len(b.pieces)
	}
	return &b.pieces[b.textAt-1]
}

// addReasoning adds a piece of the reasoning.
func (b *builder) addReasoning(text string) error {
	if text == "" {
		return nil
	}
	if b.reasoning.Len()+len(text) > maxText {
		return invalidAnswer("has a reasoning of more than %d bytes", maxText)
	}
	b.inCall = false
	b.reasoning.WriteString(text)
	b.send(Chunk{Reasoning: text})
	return nil
}

// beginCall adds a call.
func (b *builder) beginCall(id, name string) (*partialCall, error) {
	if len(b.calls) == maxCalls {
		return nil, invalidAnswer("has more than %d calls", maxCalls)
	}
	c := &partialCall{piece: len(b.pieces)}
	b.calls = append(b.calls, c)
	b.pieces = append(b.pieces, piece{Call: len(b.calls)})
	b.inCall = true
	return c, b.identifyCall(c, id, name)
}

// identifyCall gives a call its id and its name, unless it has them.
func (b *builder) identifyCall(c *partialCall, id, name string) error {
	if len(id) > modelapi.MaxID || len(name) > modelapi.MaxName {
		return invalidAnswer("has a call with an id or a name that is too long")
	}
	c.id = cmp.Or(c.id, id)
	if c.name == "" && name != "" {
		c.name = name
		b.send(Chunk{Tool: name})
	}
	return nil
}

// addArguments adds to the arguments of a call.
func (b *builder) addArguments(c *partialCall, text string) error {
	if len(c.args)+len(text) > maxArguments {
		return invalidAnswer("has a call with arguments of more than %d bytes", maxArguments)
	}
	b.inCall = true
	c.args = append(c.args, text...)
	return nil
}

// addRaw adds something that only the vendor understands.
func (b *builder) addRaw(v any) error {
	raw, err := schema.Encode(v)
	if err != nil {
		return err
	}
	b.pieces = append(b.pieces, piece{})
	return b.setRaw(&b.pieces[len(b.pieces)-1], raw)
}

// setRaw gives a piece what only the vendor understands.
func (b *builder) setRaw(p *piece, raw json.RawMessage) error {
	if b.raw += len(raw) + pieceOverhead; b.raw > maxOpaque {
		return invalidAnswer("has more than %d bytes that only its vendor understands", maxOpaque)
	}
	p.Raw = raw
	return nil
}

func (b *builder) send(c Chunk) {
	if b.emit != nil {
		b.emit(c)
	}
}

// handle returns what reads the events of a stream, until read says that it is done.
func (b *builder) handle(read func(*value) (done bool, err error)) func([]byte) (bool, error) {
	return func(data []byte) (bool, error) {
		if isDone(data) {
			b.complete = true
			return true, nil
		}
		v := &value{raw: bytes.TrimSpace(data)}
		isObject := v.raw[0] == '{'
		if bounds.Check(v.raw, bounds.Default(), nil) != nil || isObject && v.decode() != nil {
			return false, invalidAnswer("has an event that is no JSON, or more of it than is read")
		}
		if !isObject {
			return false, invalidAnswer("has an event that is not of the format")
		}
		if v.at("error").present() || v.text("type") == "error" {
			return false, readVendorError(data).fault(0, b.secrets)
		}
		return read(v)
	}
}

// madeID begins the ids of calls to which the model gave none.
const madeID = "haft-"

// answer returns the whole.
func (b *builder) answer() (*Answer, error) {
	// What was decoded from JSON is valid UTF-8.
	a := &Answer{Text: b.text.String(), Reasoning: b.reasoning.String(), Stop: b.stop, Usage: b.usage}
	taken, keep := map[string]bool{}, false
	for i, p := range b.calls {
		if p.name == "" {
			return nil, invalidAnswer("has a call without a name")
		}
		call := haft.ToolCall{ID: p.id, Tool: p.name}
		if p.id == "" || taken[p.id] {
			call.ID = madeID + rand.Text()
		}
		taken[call.ID] = true
		keep = keep || !plainID(call.ID)
		if b.stop != "" && b.inCall && i == len(b.calls)-1 {
			// The arguments may look whole and lack half of what was meant.
			call.Malformed = "the answer was ended, at its limit of tokens or by a filter, while this call was written"
		} else if args, err := schema.ReadArguments(p.args); err != nil {
			call.Malformed = haft.MessageOf(err)
		} else if call.Args, err = schema.Encode(args); err != nil {
			return nil, invalidAnswer("has arguments that cannot be passed on")
		}
		if call.Malformed != "" {
			var err error
			if call.Args, err = schema.Encode(string(p.args)); err != nil {
				return nil, err
			}
		}
		a.Calls = append(a.Calls, call)
	}
	if a.Stop == "" && len(a.Calls) > 0 {
		a.Stop = StopCalls
	}
	a.Stop = cmp.Or(a.Stop, StopEnd)
	for _, p := range b.pieces {
		keep = keep || len(p.Raw) > 0
	}
	if !keep {
		return a, nil
	}
	var err error
	if a.Opaque, err = schema.Encode(opaque{b.server, b.pieces}); err != nil {
		return nil, err
	}
	if len(a.Opaque) > maxOpaque {
		return nil, invalidAnswer("has more than %d bytes that only its vendor understands", maxOpaque)
	}
	return a, nil
}
