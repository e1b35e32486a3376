package chain

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"

	"haft"
	"haft/internal/jsontree"
)

// node is a JSON value that is taken apart only as far as a reference needs, and once:
// many references into one large value cost little more than one.
type node struct {
	raw   json.RawMessage
	parts map[string]*node // by key or index; nil if it was not taken apart yet
}

// child returns a member or an element, or nil.
func (n *node) child(key string) *node {
	if n.parts == nil {
		n.parts = map[string]*node{}
		var object map[string]json.RawMessage
		var list []json.RawMessage
		switch n.raw[0] {
		case '{':
			_ = json.Unmarshal(n.raw, &object) // it is valid: see run.node
		case '[':
			_ = json.Unmarshal(n.raw, &list)
		}
		for key, raw := range object {
			n.parts[key] = &node{raw: raw}
		}
		for i, raw := range list {
			n.parts[strconv.Itoa(i)] = &node{raw: raw} // as RFC 6901 writes it: 01 is no index
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
	if _, err := decode("what it takes from "+at.step+"."+at.part, raw); err != nil {
		return nil, err
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
		return jsontree.Encode(res.Error)
	case "status":
		return jsontree.Encode(res.Status)
	case "stdout":
		return jsontree.Encode(res.Stdout)
	case "stderr":
		return jsontree.Encode(res.Stderr)
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
		return jsontree.Encode(r.results[r.index[id]].State)
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
