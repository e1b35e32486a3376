package engine_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"haft"
	"haft/executor"
	"haft/internal/circuit"
	"haft/internal/engine"
	"haft/internal/limit"
	"haft/internal/store"
	"haft/sandbox"
)

func TestRetry(t *testing.T) {
	retry := haft.Backoff{Strategy: haft.Constant, Tries: 3, Initial: haft.Millis(time.Millisecond)}
	unavailable := &haft.Error{Code: haft.CodeUnavailable, Message: "no interpreter"}
	cases := []struct {
		name       string
		idempotent bool
		retry      haft.Backoff
		status     haft.Status
		kind       haft.FailureKind
		typ        string
		err        error
		want       int
	}{
		{name: "no retries unless asked for", idempotent: true, status: haft.StatusTimeout, kind: haft.FailTimeout,
			want: 1},
		{name: "a timeout of an idempotent tool", idempotent: true, retry: retry, status: haft.StatusTimeout,
			kind: haft.FailTimeout, want: 3},
		{name: "a timeout of another may have done it", retry: retry, status: haft.StatusTimeout,
			kind: haft.FailTimeout, want: 1},
		{name: "nothing ran", retry: retry, err: unavailable, want: 3},
		{name: "no interpreter started", retry: retry, status: haft.StatusError, kind: haft.FailRuntime, want: 3},
		{name: "memory never", idempotent: true, retry: retry, status: haft.StatusLimit, kind: haft.FailMemory,
			want: 1},
		{name: "an exception is the tool's answer", idempotent: true, retry: retry, status: haft.StatusError,
			kind: haft.FailException, want: 1},
		{name: "an exception about somebody who is away", idempotent: true, retry: retry, status: haft.StatusError,
			kind: haft.FailException, typ: "ConnectionError", want: 3},
		{name: "nobody knows", idempotent: true, retry: retry, err: executor.ErrMaybeRan, want: 1},
		{name: "refused", retry: retry, err: &haft.Error{Code: haft.CodeDenied, Message: "no"}, want: 1},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			w := setup(t, allowAll, engine.Config{})
			tool := *w.tool("o", "work", func(d *haft.Draft) {
				d.Settings.Retry, d.Settings.Idempotent = c.retry, true
			})
			if !c.idempotent { // as tools were that were registered before this was refused
				tool.Version.Settings.Idempotent, tool.Version.Digest = false, "sha256:other"
				_, _, _, err := w.store.Tools.PutTool(t.Context(), tool, store.PutOptions{Activate: true})
				if err != nil {
					t.Fatal(err)
				}
			}
			w.script.set(func(_ context.Context, r executor.Request) (*haft.Result, error) {
				if c.err != nil {
					return nil, c.err
				}
				res := failing(r, c.status, c.kind)
				res.Error.Type = c.typ
				return res, nil
			})
			res := w.call(user("o", "ann"), "work", `{}`)
			if got := w.script.count(); got != c.want || res.Tries != c.want {
				t.Errorf("it ran %d times and says %d, want %d", got, res.Tries, c.want)
			}
			retries := 0
			for _, e := range w.events("o", res.Call) {
				if e.Type == haft.EventRetry {
					retries++
				}
			}
			if retries != c.want-1 {
				t.Errorf("%d retries were told, want %d", retries, c.want-1)
			}
		})
	}
}

func TestRetry_stretches_the_time(t *testing.T) {
	w := setup(t, allowAll, engine.Config{})
	var walls []time.Duration
	w.tool("o", "work", func(d *haft.Draft) {
		d.Settings.Idempotent = true
		d.Settings.Limits.Wall = haft.Millis(time.Second)
		d.Settings.Retry = haft.Backoff{Strategy: haft.Constant, Tries: 3, Initial: haft.Millis(time.Millisecond),
			Stretch: 2}
	})
	w.script.set(func(_ context.Context, r executor.Request) (*haft.Result, error) {
		walls = append(walls, r.Limits.Wall.D())
		return failing(r, haft.StatusTimeout, haft.FailTimeout), nil
	})
	w.call(user("o", "ann"), "work", `{}`)
	if len(walls) != 3 || walls[0] != time.Second || walls[1] != 2*time.Second || walls[2] != 4*time.Second {
		t.Errorf("the tries had %v", walls)
	}
}

func TestBreaker_opens_and_closes(t *testing.T) {
	t.Parallel()
	w := setup(t, allowAll, engine.Config{Breaker: circuit.Config{Failures: 2, Delay: 3 * time.Second}})
	w.tool("o", "work", nil)
	bad := true
	w.script.set(func(_ context.Context, r executor.Request) (*haft.Result, error) {
		if bad {
			return failing(r, haft.StatusTimeout, haft.FailTimeout), nil
		}
		return ok(r, "1"), nil
	})
	p := user("o", "ann")
	want(t, w.call(p, "work", `{}`), haft.StatusTimeout)
	want(t, w.call(p, "work", `{}`), haft.StatusTimeout)
	res := w.call(p, "work", `{}`)
	if kindOf(res) != haft.FailBroken || res.Error.RetryAfter <= 0 || w.script.count() != 2 {
		t.Fatalf("the third call: %+v after %d runs", res.Error, w.script.count())
	}
	bad = false
	time.Sleep(res.Error.RetryAfter.D() + 5*time.Millisecond) //nolint:forbidigo // what is tested is this wait
	want(t, w.call(p, "work", `{}`), haft.StatusSuccess)
	want(t, w.call(p, "work", `{}`), haft.StatusSuccess)
}

func TestCritical_failure_blocks_the_caller(t *testing.T) {
	w := setup(t, allowAll, engine.Config{})
	w.tool("o", "work", nil)
	w.script.set(func(_ context.Context, r executor.Request) (*haft.Result, error) {
		return failing(r, haft.StatusError, haft.FailBlocked), nil
	})
	res := w.call(user("o", "eve"), "work", `{}`)
	if res.Error.Severity != haft.SeverityCritical {
		t.Fatalf("severity %s", res.Error.Severity)
	}
	want(t, w.call(user("o", "eve"), "work", `{}`), haft.StatusDenied)
	w.script.set(echo)
	want(t, w.call(user("o", "ann"), "work", `{}`), haft.StatusSuccess)
}

func TestIdempotency(t *testing.T) {
	w := setup(t, allowAll, engine.Config{})
	w.tool("o", "work", nil)
	release := make(chan struct{})
	var n atomic.Int64
	w.script.set(func(_ context.Context, r executor.Request) (*haft.Result, error) {
		<-release
		n.Add(1)
		return ok(r, `{"n":`+string(r.Args)+`}`), nil
	})
	call := haft.Call{Tool: "work", Args: json.RawMessage(`{"x":1}`), Principal: user("o", "ann"), IdempotencyKey: "k"}
	var wg sync.WaitGroup
	ids := make([]haft.CallID, 20)
	for i := range ids {
		wg.Go(func() {
			res, err := w.Call(t.Context(), call)
			if err != nil {
				t.Error(err)
				return
			}
			ids[i] = res.Call
		})
	}
	close(release)
	wg.Wait()
	for _, id := range ids {
		if id != ids[0] {
			t.Errorf("two calls: %s and %s", id, ids[0])
		}
	}
	if n.Load() != 1 {
		t.Errorf("it ran %d times", n.Load())
	}
	if res := w.do(call); res.Call != ids[0] {
		t.Errorf("later: %s, want %s", res.Call, ids[0])
	}
	other := call
	other.Args = json.RawMessage(`{"x":2}`)
	if _, err := w.Call(t.Context(), other); haft.CodeOf(err) != haft.CodeConflict {
		t.Errorf("other arguments: %v", err)
	}
	other = call
	other.Sandbox = "local"
	if _, err := w.Call(t.Context(), other); haft.CodeOf(err) != haft.CodeConflict {
		t.Errorf("another sandbox: %v", err)
	}
	stranger := call
	stranger.Principal = user("o", "bob")
	if res := w.do(stranger); res.Call == ids[0] {
		t.Error("somebody else's key gave the same call")
	}
	w.tool("p", "work", nil)
	stranger.Principal = user("p", "ann")
	if res := w.do(stranger); res.Call == ids[0] || n.Load() != 3 {
		t.Errorf("the key of another organisation gave the same call, and there were %d runs", n.Load())
	}
}

func TestIdempotency_key_of_a_refused_call_is_free_again(t *testing.T) {
	w := setup(t, allowAll, engine.Config{})
	w.tool("o", "work", nil)
	call := haft.Call{Tool: "work", Args: json.RawMessage(`{"x":"no"}`), Principal: user("o", "ann"),
		IdempotencyKey: "k"}
	want(t, w.do(call), haft.StatusValidation)
	call.Args = json.RawMessage(`{"x":1}`)
	want(t, w.do(call), haft.StatusSuccess)
}

func TestCache(t *testing.T) {
	w := setup(t, allowAll, engine.Config{})
	w.tool("o", "pure", func(d *haft.Draft) { d.Settings.Cacheable = true })
	p := user("o", "ann")
	first, second := w.call(p, "pure", `{"x":1}`), w.call(p, "pure", `{ "x": 1 }`)
	if first.Cached || !second.Cached || string(first.Value) != string(second.Value) || w.script.count() != 1 {
		t.Errorf("first %+v, second %+v, %d runs", first, second, w.script.count())
	}
	if w.call(p, "pure", `{"x":2}`).Cached {
		t.Error("other arguments came from the cache")
	}
	w.tool("p", "pure", func(d *haft.Draft) { d.Settings.Cacheable = true })
	if w.call(user("p", "ann"), "pure", `{"x":1}`).Cached {
		t.Error("what is another organisation's came from the cache")
	}
	if w.do(haft.Call{Tool: "pure", Args: json.RawMessage(`{"x":1}`), Principal: p,
		Env: map[string]string{"REGION": "eu-north"}}).Cached {
		t.Error("another environment came from the cache")
	}
	w.tool("o", "pure", func(d *haft.Draft) { d.Settings.Cacheable, d.Source = true, "def pure(): return 2" })
	if w.call(p, "pure", `{"x":1}`).Cached {
		t.Error("another version came from the cache")
	}
	if w.record("o", second.Call).Status != haft.StatusSuccess {
		t.Error("a cached call is not recorded")
	}
}

func TestFallback(t *testing.T) {
	w := setup(t, allowAll, engine.Config{})
	w.tool("o", "backup", nil)
	w.tool("o", "work", func(d *haft.Draft) { d.Settings.Fallback = "backup" })
	w.script.set(func(_ context.Context, r executor.Request) (*haft.Result, error) {
		if r.Tool == "work" {
			return failing(r, haft.StatusError, haft.FailException), nil
		}
		return ok(r, `"from the backup"`), nil
	})
	res := w.call(user("o", "ann"), "work", `{"x":1}`)
	want(t, res, haft.StatusSuccess)
	if string(res.Value) != `"from the backup"` || len(res.Notices) != 1 {
		t.Errorf("value %s, notices %v", res.Value, res.Notices)
	}
	children := 0
	for r, err := range w.Records(t.Context(), admin("o"), haft.CallFilter{Parent: res.Call}) {
		if err != nil {
			t.Fatal(err)
		}
		children++
		want(t, r.Result, haft.StatusSuccess)
	}
	if children != 1 {
		t.Errorf("%d calls of the fallback", children)
	}
}

func TestRecovery_hook(t *testing.T) {
	w := setup(t, allowAll, engine.Config{Recoveries: []haft.Recovery{{Kind: haft.FailException,
		Recover: func(_ context.Context, c haft.Call, failed *haft.Result) *haft.Result {
			return &haft.Result{Call: c.ID, Status: haft.StatusSuccess, Value: json.RawMessage(`"recovered"`)}
		}}}})
	w.tool("o", "work", nil)
	w.script.set(func(_ context.Context, r executor.Request) (*haft.Result, error) {
		return failing(r, haft.StatusError, haft.FailException), nil
	})
	want(t, w.call(user("o", "ann"), "work", `{}`), haft.StatusSuccess)
}

func TestCancel(t *testing.T) {
	w := setup(t, allowAll, engine.Config{})
	w.tool("o", "work", nil)
	started := make(chan struct{})
	w.script.set(func(ctx context.Context, r executor.Request) (*haft.Result, error) {
		close(started)
		<-ctx.Done()
		return failing(r, haft.StatusCancelled, haft.FailCancelled), nil
	})
	done := make(chan *haft.Result)
	go func() {
		res, err := w.Call(t.Context(), haft.Call{ID: "c_slow", Tool: "work", Principal: user("o", "ann")})
		if err != nil {
			t.Error(err)
		}
		done <- res
	}()
	<-started
	if err := w.Cancel(t.Context(), user("o", "bob"), "c_slow"); haft.CodeOf(err) != haft.CodeNotFound {
		t.Errorf("Cancel by somebody else: %v", err)
	}
	if err := w.Cancel(t.Context(), admin("p"), "c_slow"); haft.CodeOf(err) != haft.CodeNotFound {
		t.Errorf("Cancel from another organisation: %v", err)
	}
	check(t, w.Cancel(t.Context(), user("o", "ann"), "c_slow"))
	want(t, <-done, haft.StatusCancelled)
	check(t, w.Cancel(t.Context(), user("o", "ann"), "c_slow"))
}

// Who cancels a call in the moment in which it begins does not write that it did not run.
func TestCancel_while_it_begins(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute) // what is not cancelled runs for ever
	defer cancel()
	w := setup(t, allowAll, engine.Config{})
	w.tool("o", "work", nil)
	var ran sync.Map
	w.script.set(func(ctx context.Context, r executor.Request) (*haft.Result, error) {
		ran.Store(r.Call, true)
		<-ctx.Done()
		return failing(r, haft.StatusCancelled, haft.FailCancelled), nil
	})
	for range 300 {
		rec, err := w.try(user("o", "ann"), "work")
		check(t, err)
		check(t, w.Cancel(t.Context(), user("o", "ann"), rec.Call.ID))
		res, err := w.Wait(ctx, user("o", "ann"), rec.Call.ID)
		check(t, err)
		want(t, res, haft.StatusCancelled)
		if rec, err = w.Record(t.Context(), user("o", "ann"), rec.Call.ID); err != nil {
			t.Fatal(err)
		}
		if _, began := ran.Load(rec.Call.ID); began == rec.Started.IsZero() {
			t.Fatalf("it ran: %v, and its record says that it began at %v", began, rec.Started)
		}
	}
}

// Who cancels all calls learns that some run where nobody was told.
func TestCancelAll_says_that_calls_run_elsewhere(t *testing.T) {
	w := setup(t, allowAll, engine.Config{Beat: time.Hour})
	tool := w.tool("o", "work", nil)
	started, _ := w.held()
	check(t, second(w.try(user("o", "ann"), "work")))
	<-started
	leftOpen(t, w, "c_elsewhere", haft.StatusRunning, "", tool)
	if n, err := w.CancelAll(t.Context(), user("o", "bob"), user("o", "bob")); n != 0 || err != nil {
		t.Errorf("of another user: %d, %v", n, err)
	}
	n, err := w.CancelAll(t.Context(), user("o", "ann"), user("o", "ann"))
	if n != 1 || haft.CodeOf(err) != haft.CodeUnavailable || !strings.Contains(haft.MessageOf(err), "another server") {
		t.Errorf("of the user: %d, %v", n, err)
	}
}

// Places that get free while all calls are cancelled are not taken by others of them.
func TestCancelAll_while_others_begin(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute) // what is not cancelled runs for ever
	defer cancel()
	began := make(chan bool, 600)
	w := setup(t, allowAll, engine.Config{Limits: limit.Config{Running: 2, PerTenant: 2},
		// This is after those that run are cancelled, and before those that wait. Perhaps none begins.
		Killed: func(string, func(haft.Principal) bool) {
			for len(began) > 0 {
				<-began
			}
			select {
			case <-began:
			case <-time.After(100 * time.Millisecond):
			}
		}})
	w.tool("o", "work", nil)
	w.script.set(func(ctx context.Context, r executor.Request) (*haft.Result, error) {
		began <- true
		<-ctx.Done()
		return failing(r, haft.StatusCancelled, haft.FailCancelled), nil
	})
	for range 10 {
		var ids []haft.CallID
		for range 60 {
			rec, err := w.try(user("o", "ann"), "work")
			check(t, err)
			ids = append(ids, rec.Call.ID)
		}
		<-began
		n, err := w.CancelAll(t.Context(), user("o", "ann"), user("o", "ann"))
		if check(t, err); n != len(ids) {
			t.Errorf("%d of %d calls were cancelled", n, len(ids))
		}
		for _, id := range ids {
			res, err := w.Wait(ctx, user("o", "ann"), id)
			check(t, err)
			want(t, res, haft.StatusCancelled)
		}
	}
}

// A call that was cancelled, and cleans up, is killed by an operator and by a withdrawal.
func TestKill_ends_the_grace_time(t *testing.T) {
	for name, kill := range map[string]func(*revoking) error{
		"operator": func(r *revoking) error { return r.Stop(t.Context(), admin("o"), "an emergency", true) },
		"withdrawal": func(r *revoking) error {
			r.credentials.set(func(c *credentials) { c.gone["key:m"] = "the key was revoked" })
			return r.Log(t.Context(), admin("o"), "o", "key.revoke", nil)
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRevoking(t)
			stopped := make(chan struct{})
			r.script.set(func(ctx context.Context, req executor.Request) (*haft.Result, error) {
				r.started <- req.Call
				<-ctx.Done()
				if sandbox.Killed(ctx).Err() != nil {
					t.Error("who cancels a call kills it")
				}
				close(stopped)
				<-sandbox.Killed(ctx).Done()
				return failing(req, haft.StatusCancelled, haft.FailCancelled), nil
			})
			done := make(chan *haft.Result)
			go func() {
				res, err := r.Call(t.Context(), haft.Call{Tool: "slow", Principal: r.p})
				if err != nil {
					t.Error(err)
				}
				done <- res
			}()
			check(t, r.Cancel(t.Context(), r.p, <-r.started))
			<-stopped
			check(t, kill(r))
			want(t, <-done, haft.StatusCancelled)
		})
	}
}

func TestCancelAll_and_stop(t *testing.T) {
	w := setup(t, allowAll, engine.Config{})
	w.tool("o", "work", nil)
	var running sync.WaitGroup
	running.Add(6)
	w.script.set(func(ctx context.Context, r executor.Request) (*haft.Result, error) {
		running.Done()
		<-ctx.Done()
		return failing(r, haft.StatusCancelled, haft.FailCancelled), nil
	})
	results := make(chan *haft.Result, 6)
	for _, name := range []string{"ann", "ann", "ann", "bob", "bob", "eve"} {
		go func() {
			res, err := w.Call(t.Context(), haft.Call{Tool: "work", Principal: user("o", name)})
			if err != nil {
				t.Error(err)
			}
			results <- res
		}()
	}
	running.Wait()
	if n, err := w.CancelAll(t.Context(), admin("o"), haft.Principal{User: "ann"}); n != 3 || err != nil {
		t.Errorf("CancelAll(ann) = %d, %v", n, err)
	}
	for range 3 {
		want(t, <-results, haft.StatusCancelled)
	}
	if _, err := w.CancelAll(t.Context(), user("o", "ann"),
		haft.Principal{User: "bob"}); haft.CodeOf(err) != haft.CodeDenied {
		t.Errorf("CancelAll of somebody else's: %v", err)
	}
	if err := w.Stop(t.Context(), user("o", "ann"), "no", true); haft.CodeOf(err) != haft.CodeDenied {
		t.Errorf("Stop by a user: %v", err)
	}
	check(t, w.Stop(t.Context(), admin("o"), "an emergency", true))
	for range 3 {
		want(t, <-results, haft.StatusCancelled)
	}
	res := w.call(user("o", "ann"), "work", `{}`)
	if kindOf(res) != haft.FailStopped {
		t.Errorf("a call while stopped: %+v", res.Error)
	}
	again := open(t, w.store, allowAll, engine.Config{})
	if _, stopped := again.Stopped(); !stopped {
		t.Error("a restart forgot that calls are stopped")
	}
	check(t, w.Resume(t.Context(), admin("o")))
	w.script.set(echo)
	want(t, w.call(user("o", "ann"), "work", `{}`), haft.StatusSuccess)
}

func TestRate_refuses_and_says_when(t *testing.T) {
	w := setup(t, allowAll+`
rules:
  - {id: slow, effect: limit, rate: {per_second: 0.001, burst: 2}}
`, engine.Config{})
	w.tool("o", "work", nil)
	p := user("o", "ann")
	want(t, w.call(p, "work", `{}`), haft.StatusSuccess)
	want(t, w.call(p, "work", `{}`), haft.StatusSuccess)
	res := w.call(p, "work", `{}`)
	want(t, res, haft.StatusRate)
	if res.Error.RetryAfter <= 0 {
		t.Errorf("the refusal does not say when to come back: %+v", res.Error)
	}
	want(t, w.call(user("o", "bob"), "work", `{}`), haft.StatusSuccess)
	again := open(t, w.store, allowAll+`
rules:
  - {id: slow, effect: limit, rate: {per_second: 0.001, burst: 2}}
`, engine.Config{})
	want(t, again.call(p, "work", `{}`), haft.StatusRate)
}

var errGone = errors.New("gone")

func TestSubmit(t *testing.T) {
	w := setup(t, allowAll, engine.Config{})
	w.tool("o", "work", nil)
	p := user("o", "ann")
	ctx, cancel := context.WithCancelCause(t.Context())
	rec, err := w.Submit(ctx, haft.Call{Tool: "work", Args: json.RawMessage(`{"x":1}`), Principal: p})
	if err != nil || rec.Status != haft.StatusQueued {
		t.Fatalf("Submit = %+v, %v", rec, err)
	}
	cancel(errGone) // nobody waits
	res, err := w.Wait(t.Context(), p, rec.Call.ID)
	if err != nil {
		t.Fatal(err)
	}
	want(t, res, haft.StatusSuccess)
	types := []haft.EventType{}
	for _, e := range w.events("o", rec.Call.ID) {
		types = append(types, e.Type)
	}
	if len(types) != 3 || types[0] != haft.EventQueued || types[1] != haft.EventExecuting ||
		types[2] != haft.EventCompleted {
		t.Errorf("events %v", types)
	}
	rec, err = w.Submit(t.Context(), haft.Call{Tool: "work", Principal: haft.Principal{Org: "o", User: "x"}})
	if err != nil || rec.Status != haft.StatusDenied {
		t.Errorf("Submit of what is denied = %+v, %v", rec, err)
	}
}

func TestCanary_is_a_real_call_that_only_the_engine_makes(t *testing.T) {
	w := setup(t, "version: 1", engine.Config{})
	if _, err := w.Canary(t.Context(), "nothing", nil); haft.CodeOf(err) != haft.CodeNotFound {
		t.Errorf("Canary of nothing: %v", err)
	}
	if _, err := w.Call(t.Context(), haft.Call{Tool: "x",
		Principal: haft.Principal{Org: "haft/canary", Roles: []string{"canary"}}}); haft.CodeOf(
		err) != haft.CodeDenied {
		t.Errorf("a call as the canary: %v", err)
	}
}
