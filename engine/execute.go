package engine

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"math/rand/v2"
	"slices"
	"time"

	"haft"
	"haft/executor"
	"haft/policy"
	"haft/sandbox"
	"haft/secret"
	"haft/store"
)

// execute runs the tool, again where a failure passes and a second run does no
// harm, within the circuit of the tool. Before the first run the record says that
// the call has begun.
func (e *Engine) execute(ctx context.Context, f *flight) error {
	x := e.executors[f.tool.Tool.Version.Kind]
	if x == nil {
		return refuse(haft.StatusError, haft.FailRuntime, haft.RetryNever, "tools of this kind cannot be run here")
	}
	e.grantVersion(f)
	if err := e.outdated(ctx, f); err != nil {
		return err
	}
	if err := e.fetch(ctx, f); err != nil {
		return err
	}
	req := e.prepare(f)
	if hit, err := e.cached(ctx, f); err != nil || hit {
		return err
	}
	release, err := e.supply(ctx, f, &req)
	if err != nil {
		return err
	}
	defer release()
	if err := e.breaker.admit(f); err != nil {
		return err
	}
	if err := e.reach(ctx, f, &req); err != nil {
		return err
	}
	defer e.unreach(f)
	if err := e.outdated(ctx, f); err != nil {
		return err
	}
	first := e.ahead(ctx, f, x, req)
	if first != nil {
		defer first.Drop()
	}
	if err := e.begin(ctx, f); err != nil {
		return err
	}
	out := e.stream(f, &req)
	defer func() {
		if told := out.close(); told != nil {
			e.untold(f, told)
		}
		e.breaker.report(f)
	}()
	settle := time.AfterFunc(e.cfg.Patience, func() { f.grant.Settle() })
	defer func() {
		settle.Stop()
		f.grant.Leave() // writing down what became of it needs no turn
	}()
	if err := e.run(ctx, f, x, first, req); err != nil {
		return err
	}
	return e.amend(ctx, f, x, req)
}

// ahead has the executor make ready for the first run, while it is still being
// written down that there will be one. It returns nil if the executor cannot.
func (e *Engine) ahead(ctx context.Context, f *flight, x executor.Executor, req executor.Request) executor.Prepared {
	p, ok := x.(executor.Preparer)
	if !ok {
		return nil
	}
	req.Limits.Wall = e.wall(f, req.Limits.Wall, 1)
	return p.Prepare(ctx, req)
}

// wall is how long a try may take.
func (e *Engine) wall(f *flight, first haft.Millis, try int) haft.Millis {
	return min(f.tool.Tool.Version.Settings.Retry.Wall(first, try), e.cfg.Ceilings.Wall)
}

// begin writes down that the call runs from now on. If that fails it does not.
func (e *Engine) begin(ctx context.Context, f *flight) error {
	e.mu.Lock()
	left := f.phase == phaseLeft || e.closed // which is known before all contexts have ended
	if !left {
		f.phase = phaseBegins
	}
	e.mu.Unlock()
	if left {
		return errClosing
	}
	e.keep(f)
	if !f.tool.Tool.Version.Settings.Idempotent {
		f.rec.Sealed = nil // nobody will run it again
	}
	f.rec.Status, f.rec.Started = haft.StatusRunning, time.Now()
	data := map[string]any{"digest": f.rec.Digest, "args": f.rec.Call.Args}
	part := &store.Batch{Records: []haft.Record{f.rec}, Limits: rows(f.taken), Keys: f.keysHeld(), Sure: f.ours}
	part.Audit = append(part.Audit, e.entry(f, "call.started", e.startedBody(f)))
	part.Approvals = f.spent()
	f.taken = nil
	e.dispatcher.begins(f, 1) // first: at no moment is it in no count
	if err := e.tell(ctx, f, haft.EventExecuting, data, part); err != nil {
		e.dispatcher.begins(f, -1)
		return err
	}
	f.begun, f.before = true, len(f.notices)
	return nil
}

// run runs the tool as often as its settings allow, the first time in what was made
// ready.
func (e *Engine) run(ctx context.Context, f *flight, x executor.Executor, first executor.Prepared, req executor.Request) error {
	settings := f.tool.Tool.Version.Settings
	wall := req.Limits.Wall
	for try := 1; ; try++ {
		f.rec.Tries = try
		req.Limits.Wall = e.wall(f, wall, try)
		execute := x.Execute
		if try == 1 && first != nil {
			execute = first.Execute
		}
		res, err := execute(ctx, req)
		if err != nil && errors.Is(err, executor.ErrMaybeRan) {
			e.logOf(f).Warn("nobody knows whether a call ran", "call", f.call.ID, "error", err)
			res, err = f.failed(haft.StatusUnknown, haft.FailUnknown, "nobody can know whether the tool ran"), nil
		}
		ran := err == nil && !neverRan(res)
		if res != nil {
			f.res = res
		}
		wait, again := settings.Retry.Wait(try, rand.Float64())
		if f.passage != nil && f.passage.Refused() || f.here.refused() {
			again = false // a host that is refused is refused again
		}
		if ctx.Err() != nil || !again || !retryable(res, err) || ran && !settings.Idempotent {
			return err
		}
		data := map[string]any{"try": try + 1, "wait_ms": haft.Millis(wait), "kind": kindOf(res)}
		if err := e.tell(ctx, f, haft.EventRetry, data, nil); err != nil {
			return err
		}
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return nil // with the result of the try before
		}
	}
}

// neverRan reports whether nothing of the tool's code can have run.
func neverRan(res *haft.Result) bool {
	if res == nil || res.Error == nil {
		return false
	}
	switch res.Error.Kind {
	case haft.FailRuntime, haft.FailIsolation, haft.FailNetwork, haft.FailLogin:
		return true
	}
	return false
}

// retryable reports whether the same call may succeed later.
func retryable(res *haft.Result, err error) bool {
	if err != nil {
		code := haft.CodeOf(err)
		return code == haft.CodeUnavailable || code == haft.CodeInternal
	}
	if res.Error == nil || res.Status == haft.StatusUnknown {
		return false
	}
	return policy.Transient(res.Error.Kind) || res.Error.Kind == haft.FailException && slices.Contains(passing(), res.Error.Type)
}

// passing are exceptions that are about somebody else who was away.
func passing() []string {
	return []string{
		"ConnectionError", "ConnectionResetError", "ConnectionRefusedError", "ConnectionAbortedError", "BrokenPipeError",
		"TimeoutError", "socket.timeout", "urllib.error.URLError", "requests.exceptions.ConnectionError",
		"requests.exceptions.Timeout", "httpx.ConnectError", "httpx.ReadTimeout",
	}
}

// kindOf names the failure of a result.
func kindOf(res *haft.Result) haft.FailureKind {
	if res == nil || res.Error == nil {
		return haft.FailInternal
	}
	return res.Error.Kind
}

// failed is a result of the engine's own.
func (f *flight) failed(status haft.Status, kind haft.FailureKind, message string) *haft.Result {
	res := f.blank(status)
	res.Error = &haft.Failure{Kind: kind, Message: message, Retry: haft.RetryNever}
	return res
}

// prepare makes the request of a call that nothing stands in the way of.
func (e *Engine) prepare(f *flight) executor.Request {
	t, v, p := f.tool.Tool, f.tool.Tool.Version, f.call.Principal
	req := executor.Request{
		Call: f.call.ID, Tool: t.Name, Digest: v.Digest, Org: p.Org, Principal: p, Kind: v.Kind,
		Source: v.Source, Function: v.Function, Server: v.Server, Origin: v.Origin, Args: f.args, Pass: v.Pass, Inject: f.inject(),
		Env: f.environment(), Limits: e.runLimits(f), Need: sandbox.Need{Level: e.isolation(f)}, Output: v.Settings.Output.Type, Returns: v.Returns,
	}
	req.Stored = v.Kind != haft.KindBuiltin // which may run a source that is not kept
	switch v.Kind {
	case haft.KindBuiltin:
		req.Others = others{e, f}
	case haft.KindMCP:
		for _, b := range f.bounds() {
			req.Secrets = append(req.Secrets, secret.Named{Name: b.Name, Value: b.Value, Bound: b.To})
		}
	}
	return req
}

// isolation is the least that the run must be given.
func (e *Engine) isolation(f *flight) haft.Level {
	level := e.cfg.MinIsolation
	for _, l := range []haft.Level{f.tool.Tool.Version.Settings.MinIsolation, f.decision.MinIsolation} {
		if l != "" && (level == "" || l.AtLeast(level)) {
			level = l
		}
	}
	return level
}

// runLimits are the bounds of the run: those of the tool, lowered by the call, or
// those of the call where the tool does not say, or those of the organisation
// where neither does.
func (e *Engine) runLimits(f *flight) haft.Limits {
	tool := f.tool.Tool.Version.Settings.Limits
	asked := f.call.Limits.Or(tool)
	return asked.Within(tool.Or(e.cfg.Ceilings)).Or(f.config.Limits).Or(e.cfg.Defaults).Within(e.cfg.Ceilings)
}

// environment is what the tool sees: that of the agent, that of the call, and
// last who it runs for, which nobody else can say. What is bound is not in it.
func (f *flight) environment() map[string]string {
	env := make(map[string]string, len(f.env)+4)
	maps.Copy(env, f.env)
	for name := range f.bound {
		delete(env, name)
	}
	env["HAFT_ORG_ID"], env["HAFT_TOOL_ID"], env["HAFT_CALL_ID"] = f.call.Principal.Org, string(f.tool.Tool.ID), string(f.call.ID)
	if f.agent != nil {
		env["HAFT_AGENT_ID"] = string(f.agent.ID)
	}
	return env
}

// inject gives every parameter that Haft fills in its value.
func (f *flight) inject() map[string]json.RawMessage {
	names := f.tool.Tool.Version.Injected
	if len(names) == 0 {
		return nil
	}
	values := make(map[string]json.RawMessage, len(names))
	for _, n := range names {
		values[n] = json.RawMessage("null")
		if f.agent == nil {
			continue
		}
		var v any = map[string]any{"id": f.agent.ID, "name": f.agent.Name, "tools": f.agent.Tools}
		if n == "agent_id" {
			v = f.agent.ID
		}
		if raw, err := json.Marshal(v); err == nil {
			values[n] = raw
		}
	}
	return values
}
