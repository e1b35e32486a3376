package engine

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"maps"
	"math/rand/v2"
	"time"

	"haft"
	"haft/executor"
	"haft/internal/authority"
	"haft/internal/callenv"
	"haft/internal/chains"
	"haft/internal/circuit"
	"haft/internal/filestore"
	"haft/internal/followup"
	"haft/internal/lettaid"
	"haft/internal/registry"
	"haft/internal/secret"
	"haft/internal/store"
	"haft/internal/workspace"
	"haft/policy"
	"haft/sandbox"
)

// A runner runs tools: it has the stages execute and check.
type runner struct {
	cfg         *Config
	store       *store.Store
	registry    *registry.Registry
	files       *filestore.Store
	workspaces  *workspace.Store
	authority   authority.Rules
	authorizer  *authorizer
	calls       *callTable
	digests     *secret.Digester
	dispatcher  *dispatcher
	egress      *egressPlanner
	entrance    *entrance
	env         *callenv.Builder
	filters     *filters
	permissions *permissions
	pipeline    *pipeline
	recorder    *recorder
	redaction   *redaction

	executors map[haft.Kind]executor.Executor
	breaker   *circuit.Breakers
	installs  *chains.Locks // by owner: see installPackages
}

// execute runs the tool, again where a failure passes and a second run does no
// harm, within the circuit of the tool. Before the first run the record says that
// the call has begun.
func (rn *runner) execute(ctx context.Context, ex *execution) error {
	x := rn.executors[ex.tool.Tool.Version.Kind]
	if x == nil {
		return refuse(haft.StatusError, haft.FailRuntime, haft.RetryNever, "tools of this kind cannot be run here")
	}
	rn.authorizer.grantVersion(ex)
	if err := rn.authorizer.outdated(ctx, ex); err != nil {
		return err
	}
	if err := rn.fetch(ctx, ex); err != nil {
		return err
	}
	req := rn.prepare(ex)
	if hit, err := rn.cached(ctx, ex); err != nil || hit {
		return err
	}
	release, err := rn.installPackages(ctx, ex, &req)
	if err != nil {
		return err
	}
	defer release()
	if err := rn.admit(ex); err != nil {
		return err
	}
	use, err := rn.workspaces.Mount(ctx, rn.authority, ex.call, &req, ex.grant.Settle)
	if err != nil {
		return err
	}
	defer use.Close(ctx)
	drop, err := rn.loadFiles(ctx, ex, &req)
	if err != nil {
		return err
	}
	defer drop()
	if err := rn.egress.openEgress(ctx, ex, &req); err != nil {
		return err
	}
	defer rn.egress.closeEgress(ex)
	if err := rn.authorizer.outdated(ctx, ex); err != nil {
		return err
	}
	first := rn.prepareAhead(ctx, ex, x, req)
	if first != nil {
		defer first.Drop()
	}
	if err := rn.begin(ctx, ex); err != nil {
		return err
	}
	out := rn.stream(ex, &req)
	defer func() {
		if err := out.Close(); err != nil {
			rn.noteUnpublished(ex, err)
		}
		rn.report(ex)
	}()
	settle := time.AfterFunc(rn.cfg.Patience, func() { ex.grant.Settle() })
	defer func() {
		settle.Stop()
		ex.grant.Leave() // writing down what became of it needs no turn
	}()
	run := executor.WithYield(use.Watch(ctx), ex.grant.Leave)
	if err = rn.runTool(run, ex, x, first, req); err == nil {
		err = rn.addMissingPackage(run, ex, x, req)
	}
	return cmp.Or(err, use.Finish(ctx, ex.res))
}

// prepareAhead has the executor make ready for the first run, while it is still being
// written down that there will be one. It returns nil if the executor cannot.
func (rn *runner) prepareAhead(ctx context.Context, ex *execution, x executor.Executor,
	req executor.Request) executor.Prepared {
	p, ok := x.(executor.Preparer)
	if !ok {
		return nil
	}
	req.Limits.Wall = rn.wall(ex, req.Limits.Wall, 1)
	return p.Prepare(ctx, req)
}

// wall is how long a try may take.
func (rn *runner) wall(ex *execution, first haft.Millis, try int) haft.Millis {
	return min(ex.tool.Tool.Version.Settings.Retry.Wall(first, try), rn.cfg.Ceilings.Wall)
}

// begin writes down that the call runs from now on. If that fails it does not.
func (rn *runner) begin(ctx context.Context, ex *execution) error {
	rn.calls.mu.Lock()
	left := ex.phase == phaseLeft || rn.calls.closed // which is known before all contexts have ended
	if !left {
		ex.phase = phaseBegins
	}
	rn.calls.mu.Unlock()
	if left {
		return chains.ErrClosing
	}
	rn.redaction.keep(ex)
	ex.dropTrees()
	if !ex.tool.Tool.Version.Settings.Idempotent {
		ex.rec.Sealed = nil // nobody will run it again
	}
	ex.rec.Status, ex.rec.Started = haft.StatusRunning, time.Now()
	data := map[string]any{"digest": ex.rec.Digest, "args": ex.rec.Call.Args}
	part := &store.Batch{Records: []haft.Record{ex.rec}, Limits: ex.taken, Keys: ex.keysHeld(), Sure: ex.sure,
		Chosen: ex.chosen()}
	part.Audit = append(part.Audit, rn.recorder.entry(ex, "call.started", rn.recorder.startedBody(ex)))
	part.Approvals = ex.spent()
	ex.taken = nil
	rn.countBegun(ex, 1) // first: at no moment is it in no count
	if err := rn.recorder.publish(ctx, ex, haft.EventExecuting, data, part); err != nil {
		rn.countBegun(ex, -1)
		return err
	}
	ex.begun, ex.before = true, len(ex.notices)
	return nil
}

// countBegun counts an accepted call that runs from now on, or does not after all.
func (rn *runner) countBegun(ex *execution, n int) {
	if ex.accepted {
		rn.dispatcher.Begins(ex.asked.Principal.Org, n)
	}
}

// runTool runs the tool as often as its settings allow, the first time in what was made
// ready.
func (rn *runner) runTool(ctx context.Context, ex *execution, x executor.Executor, first executor.Prepared,
	req executor.Request) error {
	settings := ex.tool.Tool.Version.Settings
	wall := req.Limits.Wall
	for try := 1; ; try++ {
		ex.rec.Tries = try
		req.Limits.Wall = rn.wall(ex, wall, try)
		execute := x.Execute
		if try == 1 && first != nil {
			execute = first.Execute
		}
		res, err := execute(ctx, req)
		if err != nil && errors.Is(err, executor.ErrMaybeRan) {
			rn.redaction.logOf(ex).Warn("nobody knows whether a call ran", "call", ex.call.ID, "error", err)
			res, err = ex.failed(haft.StatusUnknown, haft.FailUnknown, "nobody can know whether the tool ran"), nil
		}
		ran := err == nil && !followup.NeverRan(res)
		if res != nil {
			ex.res = res
		}
		wait, again := settings.Retry.ForTool().Wait(try, rand.Float64())
		if ex.session != nil && ex.session.Refused() || ex.here.Refused() {
			again = false // a host that is refused is refused again
		}
		if ctx.Err() != nil || !again || !followup.Retryable(res, err) || ran && !settings.Idempotent {
			return err
		}
		data := map[string]any{"try": try + 1, "wait_ms": haft.Millis(wait), "kind": followup.KindOf(res)}
		if err := rn.recorder.publish(ctx, ex, haft.EventRetry, data, nil); err != nil {
			return err
		}
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return nil // with the result of the try before
		}
	}
}

// failed is a result of the engine's own.
func (ex *execution) failed(status haft.Status, kind haft.FailureKind, message string) *haft.Result {
	res := ex.blank(status)
	res.Error = &haft.Failure{Kind: kind, Message: message, Retry: haft.RetryNever}
	return res
}

// prepare makes the request of a call that nothing stands in the way of.
func (rn *runner) prepare(ex *execution) executor.Request {
	t, v, p := ex.tool.Tool, ex.tool.Tool.Version, ex.call.Principal
	req := executor.Request{
		Call: ex.call.ID, Tool: t.Name, Digest: v.Digest, Org: p.Org, Principal: p, Turn: ex.call.Turn, Kind: v.Kind,
		Source: v.Source, File: v.File, Function: v.Function, Server: v.Server, Origin: v.Origin, Args: ex.args,
		Pass: v.Pass, FileArgs: ex.fileArgs, Requirements: ex.call.Requirements,
		Inject: ex.inject(), Modules: filestore.OfTool(v.Files), Env: ex.environment(), Redactor: ex.env.Redactor,
		Limits: rn.authorizer.runLimits(ex), Need: sandbox.Need{Level: rn.authorizer.isolation(ex)},
		Output: v.Settings.Output.Type, Returns: v.Returns, Programs: v.Settings.Programs,
		Letta: v.Settings.Letta, NoArtifacts: v.Settings.NoArtifacts, Sandbox: ex.call.Sandbox,
		Observe: ex.touched.Begin(rn.cfg.Observe, ex.call, v), Places: ex.place.Types, PlaceReason: ex.place.Reason,
	}
	req.Stored = v.Kind != haft.KindBuiltin // which may run a source that is not kept
	switch v.Kind {
	case haft.KindBuiltin:
		req.Others = others{rn, ex}
	case haft.KindMCP:
		for _, b := range ex.env.BoundList(v.Settings.Secrets) {
			req.Secrets = append(req.Secrets, secret.Named{Name: b.Name, Value: b.Value, Bound: b.To})
		}
	}
	return req
}

// loadFiles adds the files of the call to its request. Only scripts have a directory for them. They
// are in memory until the function that it returns is called: until the run has ended, which may
// need them again.
func (rn *runner) loadFiles(ctx context.Context, ex *execution, req *executor.Request) (drop func(), err error) {
	light := req.Kind == haft.KindBuiltin || req.Kind == haft.KindMCP
	_, state := req.Inject["agent_state"]
	shares := ex.call.Workspace != nil && (!light || workspace.IsSessionTool(req.Tool)) || state && ex.agent != nil
	switch {
	case len(ex.call.Files) == 0 && !shares:
		return func() {}, nil
	case light && len(ex.call.Files) > 0:
		return nil, &haft.Error{Code: haft.CodeInvalid, Message: "this tool takes no files: only tools of Python, " +
			"JavaScript, TypeScript and Bash do"}
	case ex.rules.Screen(ex.request(ex.runArgs()), policy.Input) != nil || shares && ex.outputScreen() != nil:
		return nil, refuse(haft.StatusDenied, haft.FailFiltered, haft.RetryNever, "a filter of the policy looks at "+
			"what this tool is given, or at what it gives, and it cannot look into files, workspaces and agent_state")
	}
	req.Files, drop, err = rn.files.Load(ctx, rn.authority, ex.call.Principal, ex.call.Files)
	return drop, err
}

// isolation is the least that the run must be given.
func (au *authorizer) isolation(ex *execution) haft.Level {
	level := au.cfg.MinIsolation
	for _, l := range []haft.Level{ex.tool.Tool.Version.Settings.MinIsolation, ex.decision.MinIsolation} {
		if l != "" && (level == "" || l.AtLeast(level)) {
			level = l
		}
	}
	return level
}

// runLimits are the bounds of the run: those of the tool, lowered by the call, or
// those of the call where the tool does not say, or those of the organisation
// where neither does.
func (au *authorizer) runLimits(ex *execution) haft.Limits {
	tool := ex.tool.Tool.Version.Settings.Limits
	asked := ex.call.Limits.Or(tool)
	return asked.Within(tool.Or(au.cfg.Ceilings)).Or(ex.place.Config.Limits).Or(au.cfg.Defaults).Within(au.cfg.Ceilings)
}

// environment is what the tool sees: that of the agent, that of the call, and
// last who it runs for, which nobody else can say. What is bound is not in it.
func (ex *execution) environment() map[string]string {
	env := make(map[string]string, len(ex.env.Vars)+4)
	maps.Copy(env, ex.env.Vars)
	for name := range ex.env.Bound {
		delete(env, name)
	}
	env["HAFT_ORG_ID"], env["HAFT_TOOL_ID"], env["HAFT_CALL_ID"] = ex.call.Principal.Org, string(ex.tool.Tool.ID),
		string(ex.call.ID)
	if ex.agent != nil {
		env["HAFT_AGENT_ID"] = string(ex.agent.ID)
	}
	if ex.tool.Tool.Version.Settings.Letta {
		lettaid.AddEnv(env)
	}
	return env
}

// inject gives every parameter that Haft fills in its value.
func (ex *execution) inject() map[string]json.RawMessage {
	names := ex.tool.Tool.Version.Injected
	if len(names) == 0 {
		return nil
	}
	values := make(map[string]json.RawMessage, len(names))
	for _, n := range names {
		values[n] = json.RawMessage("null") // the executor has the state of agents
		if n == "agent_id" && ex.agent != nil {
			id := lettaid.AgentFor(ex.tool.Tool.Version.Settings, ex.agent.ID)
			values[n] = json.RawMessage(`"` + id + `"`) // letters and digits
		}
	}
	return values
}
