package store

import (
	"haft"
	"haft/internal/audit"
	"haft/internal/limit"
)

// A Batch is what is kept at once.
type Batch struct {
	// Owner is the process that writes. In a shared store the batch is refused with
	// [ErrGivenUp] if others have given it up. Empty is for what belongs to no process.
	Owner string
	// Records are added, or replace those with the same id. One that is final never
	// changes, and one that runs is changed by its owner only: else [haft.CodeConflict],
	// which wraps a [Stale]. What is sealed is kept as long as the record is not final.
	Records []haft.Record
	// Events are numbered by the hub. In a shared store another process may have
	// used the numbers: then Commit changes their Cursor, in place.
	Events []haft.Event
	// Audit are linked to the chains of their organisations, in this order. Those
	// without a time get that of now.
	Audit []audit.Entry
	// Approvals are added, or replace those with the same id if these wait for an answer,
	// or are agreed to and are used now.
	Approvals []haft.Approval
	// Keys are those that calls of the batch must still have: else [haft.CodeConflict],
	// which wraps a [Stale].
	Keys []Key
	// Limits are added, or replace those with the same key.
	Limits []limit.State
	// Chains are added as those of Owner, or replace those with the same id that are open
	// and belong to it.
	Chains []haft.Chain
	// Again says that some of it may be kept already: somebody tries again who
	// does not know what became of the first try.
	Again bool
	// Sure says that nothing of it can clash with what is kept: its calls have ids
	// that were made for them, and nobody but the caller opens or ends them.
	Sure bool
	// Chosen are calls of the batch whose ids somebody chose: nothing is kept of them if the batch is sure.
	Chosen []haft.CallID
}

// PutOptions say how a tool is put.
type PutOptions struct {
	// New refuses to add a version to a tool that exists.
	New bool
	// IfDigest is the digest that the current version must have, or the revision
	// that the tool must have; empty means any.
	IfDigest string
	// Activate makes the version the one that calls run. Else it waits.
	Activate bool
}
