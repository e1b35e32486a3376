package follow

import (
	"bytes"
	"context"
	"encoding/json"
	"iter"
	"strings"
	"testing"
	"time"

	"haft"
)

// fakeSystem has calls, and events that come when they are read.
type fakeSystem struct {
	records []haft.Record
	events  []haft.Event
	asked   []haft.CallFilter
}

func (f *fakeSystem) Records(_ context.Context, _ haft.Principal, which haft.CallFilter) iter.Seq2[haft.Record,
	error] {
	f.asked = append(f.asked, which)
	return func(yield func(haft.Record, error) bool) {
		for _, r := range f.records {
			if len(which.Status) > 0 == r.Status.Final() {
				continue
			}
			if !yield(r, nil) {
				return
			}
		}
	}
}

func (f *fakeSystem) Watch(context.Context, haft.Principal, haft.EventFilter, int64) iter.Seq2[haft.Event, error] {
	return func(yield func(haft.Event, error) bool) {
		for _, e := range f.events {
			if !yield(e, nil) {
				return
			}
		}
	}
}

func at(second int) time.Time { return time.Date(2026, 3, 4, 12, 0, second, 0, time.UTC) }

func call(id, tool string, status haft.Status, r *haft.Result) haft.Record {
	rec := haft.Record{Call: haft.Call{ID: haft.CallID(id), Tool: tool, Principal: haft.Principal{User: "ann"}},
		Status: status, Created: at(1), Started: at(1), Result: r}
	if status.Final() {
		rec.Ended = at(2)
	}
	return rec
}

func system() *fakeSystem {
	return &fakeSystem{
		records: []haft.Record{
			call("c_2", "sum", haft.StatusError, &haft.Result{Stderr: "oh\x1b[2J\n",
				Error: &haft.Failure{Message: "no"}}),
			call("c_1", "forecast", haft.StatusSuccess, &haft.Result{Stdout: "one\ntwo\n"}),
			call("c_0", "slow", haft.StatusRunning, nil),
		},
		events: []haft.Event{
			{Type: haft.EventOutput, Call: "c_3", Tool: "sum",
				Data: json.RawMessage(`{"stream":"stdout","text":"hi\n"}`)},
			{Type: haft.EventCompleted, Call: "c_1", Tool: "forecast", Data: json.RawMessage(`{"status":"success"}`)},
			{Type: haft.EventCompleted, Call: "c_3", Tool: "sum",
				Data: json.RawMessage(`{"status":"success","total_ms":12}`)},
		},
	}
}

func TestLogs_print_the_past_and_go_on(t *testing.T) {
	var out bytes.Buffer
	if err := (Logs{Out: &out, Follow: true}).Show(t.Context(), system(), haft.Principal{Org: "o"}); err != nil {
		t.Fatal(err)
	}
	var got []string
	for line := range strings.Lines(out.String()) {
		_, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
		got = append(got, rest)
	}
	want := []string{"c_1 forecast | one", "c_1 forecast | two", "c_1 forecast success 1s",
		"c_2 sum ! oh\x1b[2J", "c_2 sum error 1s: no", "c_3 sum | hi", "c_3 sum success 12ms"}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("the log is\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

func TestEvents_are_lines_or_documents(t *testing.T) {
	for _, documents := range []bool{false, true} {
		var out bytes.Buffer
		if err := Events(t.Context(), &out, system(), haft.Principal{}, haft.EventFilter{}, 0, documents); err != nil {
			t.Fatal(err)
		}
		if n := strings.Count(out.String(), "\n"); n != 3 {
			t.Errorf("3 events are %d lines: %s", n, out.String())
		}
		if documents != json.Valid([]byte(strings.SplitAfter(out.String(), "\n")[0])) {
			t.Errorf("documents %v: %s", documents, out.String())
		}
	}
}

func TestTop_counts_what_is_open_and_what_ended(t *testing.T) {
	var out bytes.Buffer
	top := Top{Out: &out, now: func() time.Time { return at(5) }, Sessions: func(context.Context) ([]haft.Session,
		error) {
		return []haft.Session{{}, {}}, nil
	}}
	f := system()
	if err := top.Show(t.Context(), f, haft.Principal{Org: "o"}); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"1 open, 1 running", "0.2 calls/s, 1 of 2 not successful; 2 sessions",
		"slow                     running                    4s  ann"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%q is missing in\n%s", want, out.String())
		}
	}
	if first := strings.Index(out.String(), "c_0"); first < 0 || first > strings.Index(out.String(), "c_1") {
		t.Errorf("what is open does not come first:\n%s", out.String())
	}
	if f.asked[1].Since != at(-5) || f.asked[0].Limit == 0 || f.asked[0].Org != "o" {
		t.Errorf("it asked for %+v", f.asked)
	}
}

func TestTop_ends_with_its_context(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	stop()
	var out bytes.Buffer
	if err := (Top{Out: &out, Every: time.Hour}).Show(ctx, system(), haft.Principal{}); err != nil {
		t.Fatal(err)
	}
}
