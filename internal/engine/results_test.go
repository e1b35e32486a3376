package engine_test

import (
	"context"
	"encoding/json"
	"iter"
	"strings"
	"testing"
	"time"

	"haft"
	"haft/executor"
	"haft/internal/engine"
)

const masking = allowAll + `
filters:
  - {id: marks, on: output, action: mask, pattern: 'ZZFILTEREDZZ'}
`

// completed is the data of the last event of a call.
func (w *world) completed(org string, id haft.CallID) (data struct {
	Value    json.RawMessage `json:"value"`
	ValueCut int64           `json:"value_truncated"`
}) {
	w.t.Helper()
	all := w.events(org, id)
	last := all[len(all)-1]
	if err := json.Unmarshal(last.Data, &data); err != nil || last.Type != haft.EventCompleted {
		w.t.Fatalf("the last event is %+v: %v", last, err)
	}
	return data
}

// A value that does not fit is kept, for whoever has to find out why, as clean as one that fits. The last event has
// exactly what the caller has.
func TestResult_keeps_a_value_that_does_not_fit(t *testing.T) {
	w := setup(t, masking, engine.Config{})
	w.tool("o", "strict", func(d *haft.Draft) { d.Settings.Output.Type = haft.OutputNumber })
	w.tool("o", "typed", func(d *haft.Draft) { d.Returns = json.RawMessage(`{"type":"string"}`) })
	w.script.set(func(_ context.Context, req executor.Request) (*haft.Result, error) {
		return ok(req, `["seen","ZZFILTEREDZZ","`+req.Env["API_TOKEN"]+`"]`), nil
	})
	for tool, status := range map[string]haft.Status{"strict": haft.StatusValidation, "typed": haft.StatusSuccess} {
		before := time.Now().Add(-time.Second)
		res := w.do(haft.Call{Tool: tool, Principal: user("o", "ann"),
			Env: map[string]string{"API_TOKEN": "canary-4711-very-secret"}})
		want(t, res, status)
		value := string(res.Value)
		if !strings.Contains(value, "seen") || strings.Contains(value, "ZZFILTEREDZZ") ||
			strings.Contains(value, "canary") {
			t.Errorf("%s: the value is %s", tool, value)
		}
		if res.Time.Before(before) || res.Time.After(time.Now()) {
			t.Errorf("%s: the timestamp is %s", tool, res.Time)
		}
		if got := w.completed("o", res.Call); string(got.Value) != value || got.ValueCut != 0 {
			t.Errorf("%s: the event has %s, and the result %s", tool, got.Value, value)
		}
		noted := strings.Contains(strings.Join(res.Notices, " "), haft.NoticeOtherType)
		if noted != (status == haft.StatusSuccess) {
			t.Errorf("%s: notices are %q", tool, res.Notices)
		}
	}
}

// The value of an event is bounded, and nothing of a result that is withheld is in it.
func TestCompleted_value_is_bounded_and_filtered(t *testing.T) {
	w := setup(t, allowAll+`
filters:
  - {id: secret, on: output, action: refuse, pattern: 'ZZREFUSEDZZ'}
`, engine.Config{})
	w.tool("o", "plain", nil)
	for value, size := range map[string]int{
		`"` + strings.Repeat("x", 40_000) + `"`: 4000, `"ZZREFUSEDZZ"`: 0, `{"a":1}`: 7,
	} {
		w.script.set(func(_ context.Context, req executor.Request) (*haft.Result, error) { return ok(req, value), nil })
		res := w.call(user("o", "ann"), "plain", `{}`)
		got := w.completed("o", res.Call)
		if len(got.Value) > size+100 || size > 0 && len(got.Value) < size || size == 0 && string(got.Value) != "null" ||
			(got.ValueCut > 0) != (size == 4000) {
			t.Errorf("%.20s: got %.100s (%d), cut %d", value, got.Value, len(got.Value), got.ValueCut)
		}
	}
}

// A sandbox that is not there is refused at once, and nothing runs elsewhere instead.
func TestSandbox_that_is_not_there_is_refused(t *testing.T) {
	w := setup(t, allowAll, engine.Config{})
	w.tool("o", "work", nil)
	for name, says := range map[string]string{"nonsense": "no such sandbox", "e2b": "e2b is not available",
		"modal": "modal is not available", "gvisor": "not available"} {
		res := w.do(haft.Call{Tool: "work", Sandbox: name, Principal: user("o", "ann")})
		want(t, res, haft.StatusValidation)
		if !strings.Contains(res.Error.Message, says) || !strings.Contains(res.Error.Message, "it has local") {
			t.Errorf("%s: %s", name, res.Error.Message)
		}
	}
	if n := w.script.count(); n != 0 {
		t.Errorf("it ran %d times", n)
	}
}

// A credential that is for events and not for calls sees that a call has ended, and not its value.
func TestCompleted_value_is_for_readers_of_calls(t *testing.T) {
	w := setup(t, allowAll, engine.Config{})
	w.tool("o", "plain", nil)
	res := w.call(user("o", "ann"), "plain", `{"path":"ZZVALUEZZ"}`)
	for name, actions := range map[string][]haft.Action{"events": {haft.EventsRead},
		"calls": {haft.EventsRead, haft.CallsRead}} {
		p := user("o", "ann")
		p.Actions = actions
		list, err := w.EventsOf(t.Context(), p, res.Call, 0, 100)
		check(t, err)
		ctx, stop := context.WithTimeout(t.Context(), time.Minute)
		for _, events := range []iter.Seq2[haft.Event, error]{w.Watch(ctx, p, haft.EventFilter{}, 0),
			w.WatchCall(ctx, p, res.Call, 0)} {
			for e, err := range events {
				check(t, err)
				if list = append(list, e); err != nil || e.Type == haft.EventCompleted {
					break
				}
			}
		}
		stop()
		ends := 0
		for _, e := range list {
			if e.Type != haft.EventCompleted {
				continue
			}
			if ends++; strings.Contains(string(e.Data), "ZZVALUEZZ") != (name == "calls") {
				t.Errorf("%s: %s", name, e.Data)
			}
		}
		if ends != 3 {
			t.Errorf("%s: %d ends of the call", name, ends)
		}
	}
}
