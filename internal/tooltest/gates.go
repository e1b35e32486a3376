package tooltest

import "context"

// A GateResult is what became of one gate.
type GateResult struct {
	File string `json:"file"`
	Name string `json:"name"`
	// Text says what was found, and Bad that it is not enough.
	Text string `json:"text"`
	Bad  bool   `json:"bad,omitempty"`
}

// Failed reports whether the gate is closed.
func (g GateResult) Failed() bool { return g.Bad }

func (r *runner) gates(context.Context, *world, []*File, string) error { return nil }
