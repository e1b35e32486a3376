package haft

import (
	"slices"
	"time"
)

// ReviewState says whether a version may be called.
type ReviewState string

// The states of a review.
const (
	ReviewNone    ReviewState = ""         // nothing stands in its way
	ReviewWaiting ReviewState = "waiting"  // a person has to look first
	ReviewPassed  ReviewState = "approved" // a person looked and agreed
	ReviewRefused ReviewState = "refused"  // a person looked and did not
)

// A Review is what was found in a version's source before it was kept, and who
// accepted it.
type Review struct {
	State    ReviewState `json:"state,omitempty"`
	Findings []Finding   `json:"findings,omitempty"`
	By       string      `json:"by,omitempty"`
	Reason   string      `json:"reason,omitempty"`
	At       time.Time   `json:"at,omitzero"`
}

// A Finding is one thing in a source that a reviewer should see. It never quotes
// the source: what was found may be a secret.
type Finding struct {
	// Scanner names who found it, such as haft or bandit.
	Scanner  string   `json:"scanner"`
	Rule     string   `json:"rule"`
	Severity Severity `json:"severity"`
	// File is the path of the [ToolFile] that it is in; empty means the source.
	File    string `json:"file,omitempty"`
	Line    int    `json:"line,omitempty"`
	Message string `json:"message"`
}

// Severity says how bad something is and so what has to happen.
type Severity string

// The severities, mildest first. Of failures: retry at once; back off; a person
// is needed; stop and block.
const (
	SeverityLow      Severity = "low"
	SeverityMedium   Severity = "medium"
	SeverityHigh     Severity = "high"
	SeverityCritical Severity = "critical"
)

// Severities lists them, mildest first.
func Severities() []Severity {
	return []Severity{SeverityLow, SeverityMedium, SeverityHigh, SeverityCritical}
}

// AtLeast reports whether s is as severe as t. One that is unknown counts as
// critical.
func (s Severity) AtLeast(t Severity) bool { return s.rank() >= t.rank() }

func (s Severity) rank() int {
	if i := slices.Index(Severities(), s); i >= 0 {
		return i
	}
	return len(Severities()) - 1
}
