package backend

import (
	"bytes"
	"encoding/json"
	"iter"
	"maps"
	"slices"
	"time"

	"haft"
)

// A Tally counts the calls of one tool by their outcome.
type Tally struct {
	Tool string `json:"tool"`
	// Calls are all of them: Succeeded, Failed, Refused and Open together.
	Calls     int `json:"calls"`
	Succeeded int `json:"succeeded"`
	// Failed ran and gave no value, and Refused never ran.
	Failed  int `json:"failed"`
	Refused int `json:"refused"`
	Open    int `json:"open"`
	// Statuses counts each by itself.
	Statuses map[haft.Status]int `json:"statuses"`
	Users    int                 `json:"users"`
	P50      haft.Millis         `json:"p50_ms"`
	P95      haft.Millis         `json:"p95_ms"`

	times []time.Duration
	users map[string]bool
}

// add counts a call.
func (t *Tally) add(r haft.Record) {
	t.Calls++
	t.Statuses[r.Status]++
	t.users[r.Call.Principal.User] = true
	ran := r.Result != nil && (r.Result.Tries > 0 || r.Result.Cached)
	switch {
	case !r.Status.Final():
		t.Open++
		return
	case r.Status == haft.StatusSuccess:
		t.Succeeded++
	case ran || r.Status == haft.StatusUnknown:
		t.Failed++
	default:
		t.Refused++
		return
	}
	t.times = append(t.times, r.Ended.Sub(r.Created))
}

// finish sets the fields that are known only when all calls are counted.
func (t *Tally) finish() {
	t.Users = len(t.users)
	slices.Sort(t.times)
	if n := len(t.times); n > 0 {
		t.P50, t.P95 = haft.Millis(t.times[n/2]), haft.Millis(t.times[min(n-1, n*95/100)])
	}
}

// CountCalls counts calls by tool, in the order of the names.
func CountCalls(calls iter.Seq2[haft.Record, error]) ([]*Tally, error) {
	tools := map[string]*Tally{}
	for r, err := range calls {
		if err != nil {
			return nil, err
		}
		t := tools[r.Call.Tool]
		if t == nil {
			t = &Tally{Tool: r.Call.Tool, Statuses: map[haft.Status]int{}, users: map[string]bool{}}
			tools[r.Call.Tool] = t
		}
		t.add(r)
	}
	list := []*Tally{}
	for _, name := range slices.Sorted(maps.Keys(tools)) {
		tools[name].finish()
		list = append(list, tools[name])
	}
	return list, nil
}

// A Difference is one thing in which two results are not the same.
type Difference struct {
	What string `json:"what"`
	Old  string `json:"old"`
	New  string `json:"new"`
}

// A Comparison is an old result beside a new one.
type Comparison struct {
	Equal       bool         `json:"equal"`
	Differences []Difference `json:"differences"`
	Old         *haft.Result `json:"old"`
	New         *haft.Result `json:"new"`
}

// Compare finds out in what two results differ.
func Compare(old, res *haft.Result) Comparison {
	list := []Difference{}
	add := func(what, a, b string) {
		if a != b {
			list = append(list, Difference{what, a, b})
		}
	}
	add("status", string(old.Status), string(res.Status))
	add("value", compactJSON(old.Value), compactJSON(res.Value))
	add("error", failureText(old.Error), failureText(res.Error))
	add("stdout", old.Stdout, res.Stdout)
	add("stderr", old.Stderr, res.Stderr)
	return Comparison{Equal: len(list) == 0, Differences: list, Old: old, New: res}
}

// compactJSON is a JSON text without blanks.
func compactJSON(raw json.RawMessage) string {
	var b bytes.Buffer
	if err := json.Compact(&b, raw); err != nil {
		return string(raw)
	}
	return b.String()
}

// failureText is the part of a failure that does not differ from run to run.
func failureText(f *haft.Failure) string {
	if f == nil {
		return ""
	}
	return string(f.Kind) + ": " + f.Message
}
