package engine_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"haft"
	"haft/executor"
	"haft/internal/audit"
	"haft/internal/engine"
	"haft/policy"
)

// The order is a security property. Changing it means changing this line.
func TestPipeline_order(t *testing.T) {
	got := engine.Stages()
	if diff := cmp.Diff([]string{"resolve", "authorize", "limit", "validate", "approve", "execute", "check"},
		got); diff != "" {
		t.Error(diff)
	}
}

// exitRules are the policy of the ways to leave.
const exitRules = `
version: 1
roles:
  user: ["tool:*"]
  admin: ["tool:*"]
lists:
  - user: eve
    deny: ["tool:*"]
rules:
  - {id: slow, effect: limit, users: [fast], rate: {per_second: 0.0001, burst: 1}}
  - {id: no-etc, effect: deny, when: 'has(args.path) && args.path.startsWith("/etc")'}
filters:
  - {id: bad-word, on: both, pattern: "forbidden", action: refuse}
`

// An exitCase is one way to leave.
type exitCase struct {
	name string
	call haft.Call
	run  func(context.Context, executor.Request) (*haft.Result, error)
	want haft.Status
	kind haft.FailureKind
	ran  bool
}

// exitCases are all the ways to leave.
func exitCases() []exitCase {
	return []exitCase{
		{name: "success", want: haft.StatusSuccess, ran: true},
		{name: "unknown tool", call: haft.Call{Tool: "nothing"}, want: haft.StatusValidation, kind: haft.FailNotFound},
		{name: "unknown agent",
			call: haft.Call{Principal: haft.Principal{Org: "o", User: "ann", Agent: "x", Roles: []string{"user"}}},
			want: haft.StatusDenied, kind: haft.FailDenied},
		{name: "denied to the user", call: haft.Call{Principal: user("o", "eve")}, want: haft.StatusDenied,
			kind: haft.FailDenied},
		{name: "no role", call: haft.Call{Principal: haft.Principal{Org: "o", User: "bob"}}, want: haft.StatusDenied,
			kind: haft.FailDenied},
		{name: "denied by argument", call: haft.Call{Args: json.RawMessage(`{"path":"/etc/passwd"}`)},
			want: haft.StatusDenied, kind: haft.FailDenied},
		{name: "does not fit", call: haft.Call{Args: json.RawMessage(`{"x":"many"}`)}, want: haft.StatusValidation,
			kind: haft.FailValidation},
		{name: "not even JSON", call: haft.Call{Args: json.RawMessage(`{"x":`)}, want: haft.StatusValidation,
			kind: haft.FailValidation},
		{name: "filtered input", call: haft.Call{Args: json.RawMessage(`{"path":"a forbidden word"}`)},
			want: haft.StatusDenied, kind: haft.FailFiltered},
		{name: "reserved variable", call: haft.Call{Env: map[string]string{"LD_PRELOAD": "x"}},
			want: haft.StatusValidation, kind: haft.FailValidation},
		{name: "deadline passed", call: haft.Call{Deadline: time.Now().Add(-time.Second)}, want: haft.StatusTimeout,
			kind: haft.FailTimeout},
		{name: "tool fails", run: func(_ context.Context, r executor.Request) (*haft.Result, error) {
			return failing(r, haft.StatusError, haft.FailException), nil
		}, want: haft.StatusError, kind: haft.FailException, ran: true},
		{name: "executor fails", run: func(context.Context, executor.Request) (*haft.Result, error) {
			return nil,
				errors.New("no such file")
		},
			want: haft.StatusError, kind: haft.FailInternal, ran: true},
		{name: "isolation cannot be had", run: func(context.Context, executor.Request) (*haft.Result, error) {
			return nil, &haft.Error{Code: haft.CodeDenied, Message: "isolation is demanded"}
		}, want: haft.StatusDenied, kind: haft.FailIsolation, ran: true},
		{name: "may have run", run: func(context.Context, executor.Request) (*haft.Result, error) {
			return nil,
				executor.ErrMaybeRan
		},
			want: haft.StatusUnknown, kind: haft.FailUnknown, ran: true},
		{name: "executor panics", run: func(context.Context, executor.Request) (*haft.Result, error) { panic("oh no") },
			want: haft.StatusUnknown, kind: haft.FailUnknown, ran: true},
		{name: "filtered output", run: func(_ context.Context, r executor.Request) (*haft.Result,
			error) {
			return ok(r, `"forbidden"`), nil
		},
			want: haft.StatusError, kind: haft.FailFiltered, ran: true},
		{name: "filtered stdout", run: func(_ context.Context, r executor.Request) (*haft.Result, error) {
			res := ok(r, `1`)
			res.Stdout = "a forbidden thing"
			return res, nil
		}, want: haft.StatusError, kind: haft.FailFiltered, ran: true},
	}
}

// Whatever becomes of a call, it leaves by the one exit: there is a final record,
// an entry of the audit, one last event, and nothing on its way any more.
func TestCall_leaves_by_one_exit(t *testing.T) {
	for _, c := range exitCases() {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			w := setup(t, exitRules, engine.Config{})
			w.tool("o", "work", nil)
			if c.run != nil {
				w.script.set(c.run)
			}
			call := c.call
			call.ID = "c_one"
			if call.Tool == "" {
				call.Tool = "work"
			}
			if call.Principal.Org == "" {
				call.Principal = user("o", "ann")
			}
			res, err := w.Call(t.Context(), call)
			if (err != nil) != (c.kind == haft.FailNotFound) {
				t.Fatalf("Call: %v", err)
			}
			rec := w.record("o", "c_one")
			if rec.Status != c.want || rec.Ended.IsZero() || rec.Sealed != nil {
				t.Errorf("the record is %s, ended %v", rec.Status, rec.Ended)
			}
			if res != nil {
				want(t, res, c.want)
			}
			if kind := kindOf(rec.Result); kind != c.kind {
				t.Errorf("the failure is %q, want %q: %+v", kind, c.kind, rec.Result.Error)
			}
			if rec.Result.Error != nil && rec.Result.Error.Severity == "" {
				t.Error("the failure has no severity")
			}
			if rec.Started.IsZero() == c.ran {
				t.Errorf("started: %v, want it to have run: %v", rec.Started, c.ran)
			}
			events := w.events("o", "c_one")
			if last := events[len(events)-1]; last.Type != haft.EventCompleted || len(events) > 1 != c.ran {
				t.Errorf("events: %v", events)
			}
			if n := w.Running(); n != 0 {
				t.Errorf("%d calls are still on their way", n)
			}
			w.verify("o")
		})
	}
}

// kindOf names the failure of a result.
func kindOf(r *haft.Result) haft.FailureKind {
	if r.Error == nil {
		return ""
	}
	return r.Error.Kind
}

// verify checks the chain of the audit.
func (w *world) verify(org string) {
	w.t.Helper()
	verifyChain(w.t, w.store, org)
}

// audit returns the entries of an organisation.
func (w *world) audit(org string) []audit.Entry {
	w.t.Helper()
	entries, err := w.store.Audit.AuditEntries(w.t.Context(), org, 0, 1000)
	if err != nil {
		w.t.Fatal(err)
	}
	return entries
}

func TestCall_without_an_organisation_is_refused(t *testing.T) {
	w := setup(t, allowAll, engine.Config{})
	_, err := w.Call(t.Context(), haft.Call{Tool: "work"})
	if haft.CodeOf(err) != haft.CodeUnauthenticated {
		t.Errorf("Call: %v", err)
	}
}

func TestCall_in_another_organisation_finds_nothing(t *testing.T) {
	w := setup(t, allowAll, engine.Config{})
	tool := w.tool("a", "work", nil)
	res := w.call(user("a", "ann"), "work", `{}`)
	for _, ref := range []string{"work", string(tool.ID)} {
		if _, err := w.Call(t.Context(), haft.Call{Tool: ref, Principal: user("b", "ann")}); haft.CodeOf(
			err) != haft.CodeNotFound {
			t.Errorf("Call(%s) from b: %v", ref, err)
		}
	}
	if _, err := w.Record(t.Context(), admin("b"), res.Call); haft.CodeOf(err) != haft.CodeNotFound {
		t.Errorf("Record from b: %v", err)
	}
	if _, err := w.Record(t.Context(), user("a", "bob"), res.Call); haft.CodeOf(err) != haft.CodeNotFound {
		t.Errorf("Record of somebody else's call: %v", err)
	}
}

func TestCall_redacts_everything_that_leaves(t *testing.T) {
	const secret = "hunter2-hunter2"
	w := setup(t, allowAll, engine.Config{AuditArgs: true})
	w.tool("o", "work", nil)
	w.script.set(func(_ context.Context, r executor.Request) (*haft.Result, error) {
		r.Stdout([]byte("it is hunter2-"))
		r.Stdout([]byte("hunter2, you know"))
		res := ok(r, `{"got":"`+r.Env["TOKEN"]+`","pw":`+string(r.Args)+`}`)
		res.Stdout, res.Stderr = "out "+secret, "err "+secret
		return res, nil
	})
	res := w.do(haft.Call{Tool: "work", Args: json.RawMessage(`{"password":"` + secret + `"}`),
		Principal: user("o", "ann"), Env: map[string]string{"TOKEN": secret}})
	want(t, res, haft.StatusSuccess)
	for what, v := range map[string]any{"result": res, "record": w.record("o", res.Call),
		"events": w.events("o", res.Call), "audit": w.audit("o")} {
		raw, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(raw), secret) {
			t.Errorf("the %s has the secret: %s", what, raw)
		}
	}
	if _, err := w.Replay(t.Context(), user("o", "ann"), res.Call); haft.CodeOf(err) != haft.CodeConflict {
		t.Errorf("Replay of what was not kept: %v", err)
	}
}

func TestCall_masks_and_reports(t *testing.T) {
	w := setup(t, allowAll+`
filters:
  - {id: keys, on: both, pattern: 'K-[0-9]+', action: mask}
`, engine.Config{})
	w.tool("o", "work", nil)
	res := w.call(user("o", "ann"), "work", `{"path":"key K-123"}`)
	want(t, res, haft.StatusSuccess)
	if strings.Contains(string(res.Value), "K-123") || len(res.Notices) == 0 {
		t.Errorf("value %s, notices %v", res.Value, res.Notices)
	}
	entries := w.audit("o")
	if last := entries[len(entries)-1]; !strings.Contains(string(last.Body), "keys") {
		t.Errorf("the audit does not name the filter: %s", last.Body)
	}
}

// TestCall_keeps_no_clear_text: what a filter masks, a rule redacts or a name marks as secret is in no
// record, whatever the call ends with and in whatever form its arguments came.
func TestCall_keeps_no_clear_text(t *testing.T) {
	tests := map[string]struct{ rules, args string }{
		"masked, and then it does not fit": {`
filters:
  - {id: keys, on: input, pattern: 'K-[0-9]+', action: mask}
`, `{"path":"K-123"}`},
		"text of an object": {``, `"{\"password\":\"K-123\",\"path\":\"no\"}"`},
		"denied, and redacted": {`
rules:
  - {id: hide, effect: allow, redact: [/x]}
  - {id: never, effect: deny, when: 'has(args.x)'}
`, `{"x":"K-123"}`},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			w := setup(t, allowAll+test.rules, engine.Config{})
			w.tool("o", "work", func(d *haft.Draft) {
				d.Parameters = json.RawMessage(`{"type":"object","properties":{"password":{"type":"string"},` +
					`"path":{"type":"string","pattern":"^K-[0-9]+$"},"x":{"type":"string"}}}`)
			})
			res := w.call(user("o", "ann"), "work", test.args)
			if res.Status == haft.StatusSuccess {
				t.Fatal("it ran")
			}
			r, err := w.Record(t.Context(), user("o", "ann"), res.Call)
			check(t, err)
			if raw, err := json.Marshal(r); err != nil || strings.Contains(string(raw), "K-123") {
				t.Errorf("the record has it: %s, %v", raw, err)
			}
		})
	}
}

// TestCall_files_and_filters: a filter cannot look into files, so a tool that one looks after takes none.
func TestCall_files_and_filters(t *testing.T) {
	files := []haft.CallFile{{Path: "a.txt", Data: []byte("K-123")}}
	for rules, status := range map[string]haft.Status{"": haft.StatusSuccess, `
filters:
  - {id: keys, on: input, pattern: 'K-[0-9]+', action: refuse}
`: haft.StatusDenied} {
		w := setup(t, allowAll+rules, engine.Config{})
		w.tool("o", "work", nil)
		res, err := w.Call(t.Context(), haft.Call{Tool: "work", Principal: user("o", "ann"), Files: files})
		check(t, err)
		want(t, res, status)
	}
}

func TestExplain(t *testing.T) {
	w := setup(t, allowAll, engine.Config{})
	w.tool("o", "work", nil)
	d, err := w.Explain(t.Context(), haft.Call{Tool: "work", Principal: user("o", "ann")})
	if err != nil || d.Effect != policy.Allow || len(d.Considered) == 0 {
		t.Errorf("Explain = %+v, %v", d, err)
	}
}

// Rules are decided with the arguments as they run: a default that the schema
// fills in counts.
func TestCall_decides_with_the_arguments_that_run(t *testing.T) {
	w := setup(t, allowAll+`
rules:
  - {id: no-root, effect: deny, when: 'has(args.path) && args.path == "/"'}
`, engine.Config{})
	w.tool("o", "work", func(d *haft.Draft) {
		d.Parameters = json.RawMessage(`{"type":"object","properties":{"path":{"type":"string","default":"/"}}}`)
	})
	want(t, w.call(user("o", "ann"), "work", `{}`), haft.StatusDenied)
	if w.script.count() != 0 {
		t.Error("it ran")
	}
}
