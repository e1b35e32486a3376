package chain

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"

	"haft"
)

// node is a JSON value that is taken apart only as far as it is looked at, and
// once: many references into one large value cost little more than one.
type node struct {
	raw   json.RawMessage
	parts map[string]*node // by key or index; nil if it was not taken apart yet
}

// child returns a member or an element.
func (n *node) child(key string) *node {
	if n.parts == nil {
		n.parts = map[string]*node{}
		s := &scanner{text: n.raw}
		s.space()
		if c := n.raw[s.at]; c == '{' || c == '[' {
			i := 0
			_ = s.parts(func(key string) error { // nothing here gives an error
				if c == '[' {
					key = strconv.Itoa(i) // as RFC 6901 writes it, so that 01 is none
					i++
				}
				at := s.skip()
				n.parts[key] = &node{raw: n.raw[at.from:at.to]}
				return nil
			})
		}
	}
	return n.parts[key]
}

// source is where a reference takes its value from.
type source struct{ step, part string }

// node returns the value that a reference begins at, or nil if there is none: a
// step that failed has no value, one that succeeded no error.
func (r *run) node(at source) (*node, error) {
	if n, ok := r.nodes[at]; ok {
		return n, nil
	}
	raw, err := r.raw(at)
	if err != nil || len(raw) == 0 {
		return nil, err
	}
	if err := sound(raw); err != nil {
		return nil, wrong("what it takes from %s.%s %s", at.step, at.part, haft.MessageOf(err))
	}
	n := &node{raw: bytes.TrimSpace(raw)}
	r.nodes[at] = n
	return n, nil
}

// raw returns what a source holds, or nil.
func (r *run) raw(at source) (json.RawMessage, error) {
	if at.step == "" {
		return r.input, nil
	}
	res := r.results[r.index[at.step]].Result
	if res == nil {
		return nil, nil // it was skipped
	}
	switch at.part {
	case "value":
		if res.Status != haft.StatusSuccess {
			return nil, nil
		}
		return res.Value, nil
	case "error":
		if res.Error == nil {
			return nil, nil
		}
		return encode(res.Error)
	case "status":
		return encode(res.Status)
	case "stdout":
		return encode(res.Stdout)
	case "stderr":
		return encode(res.Stderr)
	}
	return nil, fmt.Errorf("a compiled plan takes %s of a step", at.part)
}

// value returns what a reference stands for.
func (r *run) value(ref *reference) (json.RawMessage, error) {
	n, err := r.node(source{ref.step, ref.part})
	if err != nil {
		return nil, err
	}
	if n == nil && ref.def == nil && len(ref.way) == 0 {
		return json.RawMessage("null"), nil
	}
	for _, key := range ref.way {
		if n == nil {
			break
		}
		n = n.child(key)
	}
	switch {
	case n != nil:
		return n.raw, nil
	case ref.def != nil:
		return ref.def, nil
	}
	return nil, wrong("there is nothing at %q, to which its arguments refer", short(ref.text))
}

// variable returns what a variable of a condition holds.
func (r *run) variable(id, part string) (json.RawMessage, error) {
	if id != "" && part == "state" {
		return encode(r.results[r.index[id]].State)
	}
	n, err := r.node(source{id, part})
	switch {
	case err != nil:
		return nil, err
	case n != nil:
		return n.raw, nil
	case part == "status":
		return json.RawMessage(`""`), nil
	}
	return json.RawMessage("null"), nil
}

// encode writes a value as JSON, and <, > and & as they are.
func encode(v any) (json.RawMessage, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, fmt.Errorf("write a value: %w", err)
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil
}
