package engine

import (
	"bytes"
	"encoding/json"

	"haft/internal/jsontree"
	"haft/policy"
	"haft/schema"
)

// readArguments are the arguments of a call as they came, as a tree.
type readArguments struct {
	text json.RawMessage
	tree *schema.Object
	err  error // why they cannot be read
}

// readArgs returns the arguments of the call as a tree. All stages share it, so that they are read
// once unless tool rules or an approver replace them. Nobody changes it.
func (ex *execution) readArgs() (*schema.Object, error) {
	if r := &ex.read; r.tree == nil && r.err == nil || !bytes.Equal(r.text, ex.call.Args) {
		r.text = ex.call.Args
		r.tree, r.err = schema.ReadArguments(r.text)
	}
	return ex.read.tree, ex.read.err
}

// dropTrees forgets trees that nothing looks at while the tool runs: they are many times larger than
// their text. Output filters choose by arguments when it has ended.
func (ex *execution) dropTrees() {
	ex.read, ex.decided.Tree = readArguments{}, nil
	if !ex.rules.Filters(policy.Output) {
		ex.tree = nil
	}
}

// runArgs returns the arguments as they will run.
func (ex *execution) runArgs() jsontree.Document {
	return jsontree.Document{Text: ex.args, Tree: ex.tree}
}
