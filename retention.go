package haft

import (
	"context"
	"fmt"
	"time"
)

// A Retention says how long calls that have ended are kept. A call is pruned as soon as
// one of its bounds says so. In what somebody asks for, 0 means the server's bound and
// less than 0 no bound.
type Retention struct {
	// Refused bounds the age of calls that never began, and RefusedCount how many are
	// kept of each status: denied, limited by a rate, or with arguments that do not fit.
	Refused      Millis `json:"refused_ms,omitempty"`
	RefusedCount int64  `json:"refused_count,omitempty"`
	// Calls bounds the age of all calls, and CallsCount how many are kept. A call is
	// kept for a day at least, since its idempotency key is.
	Calls      Millis `json:"calls_ms,omitempty"`
	CallsCount int64  `json:"calls_count,omitempty"`
}

// DefaultRetention is the default of a server. A refusal helps a developer who
// debugs a caller now, costs a caller nothing to make, and is in the audit log anyway: 105,000
// were made in 20 s. A result is looked up for weeks, and a million calls are about 5 GB.
func DefaultRetention() Retention {
	return Retention{
		Refused: Millis(7 * 24 * time.Hour), RefusedCount: 10_000,
		Calls: Millis(90 * 24 * time.Hour), CallsCount: 1_000_000,
	}
}

// bounds are the fields of r by their names.
func (r *Retention) bounds() map[string]*int64 {
	return map[string]*int64{
		"refused_ms": (*int64)(&r.Refused), "refused_count": &r.RefusedCount,
		"calls_ms": (*int64)(&r.Calls), "calls_count": &r.CallsCount,
	}
}

// Or returns r with the bounds of other where it has none of its own.
func (r Retention) Or(other Retention) Retention {
	theirs := other.bounds()
	for name, n := range r.bounds() {
		if *n == 0 {
			*n = *theirs[name]
		}
	}
	return r
}

// Within returns r with the bounds of most where it has none of its own or a wider one.
func (r Retention) Within(most Retention) Retention {
	theirs := most.bounds()
	for name, n := range r.bounds() {
		if bound := *theirs[name]; *n == 0 || bound > 0 && (*n < 0 || *n > bound) {
			*n = bound
		}
	}
	return r
}

// Exceeds returns the name of a bound of r that is wider than that of most, or "".
func (r Retention) Exceeds(most Retention) string {
	theirs := most.bounds()
	for name, n := range r.bounds() {
		if bound := *theirs[name]; bound > 0 && (*n < 0 || *n > bound) {
			return name
		}
	}
	return ""
}

// Check reports a bound that is so narrow that nobody could read the answer to a call.
func (r Retention) Check() error {
	for name, age := range map[string]Millis{"refused_ms": r.Refused, "calls_ms": r.Calls} {
		if age > 0 && age < Millis(time.Hour) {
			return &Error{Code: CodeInvalid, Message: fmt.Sprintf("%s is an hour at least, or -1 for no bound", name)}
		}
	}
	return nil
}

// Kept says how long an organisation keeps its calls, and how many there are.
type Kept struct {
	// Retention is what holds, and Most what a manager of the organisation can set it to.
	Retention Retention `json:"retention"`
	Most      Retention `json:"most"`
	// Calls is how many there are now, and Refused how many of them never began.
	Calls   int64 `json:"calls"`
	Refused int64 `json:"refused"`
	// Oldest is when the oldest call was made.
	Oldest time.Time `json:"oldest,omitzero"`
}

// A Retainer knows how long calls are kept. An empty organisation is p's own; others are
// for the operator of the server.
type Retainer interface {
	Retention(ctx context.Context, p Principal, org string) (*Kept, error)
	// SetRetention is for a manager of the organisation, up to [Kept.Most], and for the
	// operator of the server, who changes that too.
	SetRetention(ctx context.Context, p Principal, org string, r Retention) (*Kept, error)
}
