package script

import (
	"bytes"

	"haft"
	"haft/executor"
	"haft/sandbox"
	"haft/sandbox/cell"
)

// Await returns when everything that Prepare began is there.
func Await(p executor.Prepared) { <-p.(*preparation).done }

// Remembers reports whether new cells of the organisation are told a source that
// has text in it.
func (x *Executor) Remembers(org, text string) bool {
	found := false
	x.recent.deleteFunc(func(k cell.Key, head []byte) bool {
		found = found || k.Tenant == org && bytes.Contains(head, []byte(text))
		return false
	})
	return found
}

// Silent returns the result of a call whose process ended without an answer.
func Silent(exit sandbox.Exit) *haft.Result {
	var res haft.Result
	new(run).silent(&res, nil, exit)
	return &res
}
