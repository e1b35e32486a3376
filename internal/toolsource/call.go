package toolsource

import (
	"context"
	"encoding/json"
	"net/netip"
	"strings"
	"time"

	"haft"
	"haft/executor"
	"haft/internal/egress"
	"haft/internal/egress/route"
	"haft/internal/egress/session"
	"haft/internal/fileparam"
	"haft/internal/requirement"
	"haft/internal/secret"
	"haft/sandbox"
	"haft/schema"
)

// A Run is one call of a tool.
type Run struct {
	// Org is the organisation that calls; "" means "local".
	Org string
	// Args are the arguments as a model or a person wrote them.
	Args  []byte
	Env   map[string]string
	Files []sandbox.File
	// Programs are names of programs of the host that the tool sees.
	Programs []string
	// Workspace is a directory that outlives the call; nil means none.
	Workspace *executor.Workspace
	// Beside says, by their names in the source, what to do about modules that lie beside the
	// tool and are not among Files.
	Beside map[string]string
	// Layers are the packages of the call.
	Layers  []executor.Layer
	Limits  haft.Limits
	Network sandbox.Network
	// Hosts are the only hosts that the call may reach, as [egress.ParseRule] reads them;
	// without hosts, Network decides.
	Hosts []string
	// Ranges are private addresses that the call may reach.
	Ranges []netip.Prefix
	// Stdout and Stderr get output as it comes; nil means that only the Result has it.
	Stdout, Stderr func([]byte)
	// Progress gets the reports of the tool; nil discards them.
	Progress func(json.RawMessage)
}

// beside returns what to do about the module that could not be imported as the message says, if
// it lies beside the tool, or "".
func (run Run) beside(message string) string {
	for name, advice := range run.Beside {
		for _, end := range []string{"'", "."} {
			if strings.Contains(message, "No module named '"+name+end) ||
				strings.Contains(message, "Cannot find module '"+name+end) {
				return advice
			}
		}
	}
	return ""
}

// CanIsolate reports why the sandbox does not give a level of isolation.
func (r *Runner) CanIsolate(ctx context.Context, level haft.Level) error {
	have, err := r.Provider.Isolation(ctx)
	if err != nil {
		return err
	}
	return sandbox.Need{Level: level}.Check(have)
}

// Expect starts a sandbox for a call of that kind that follows soon, while the source is
// still being read.
func (r *Runner) Expect(ctx context.Context, kind haft.Kind, run Run) {
	if r.Elsewhere == nil {
		r.Executor.Expect(ctx, r.request(kind, run))
	}
}

// runScript runs a request where calls run.
func (r *Runner) runScript(ctx context.Context, req executor.Request) (*haft.Result, error) {
	if r.Elsewhere != nil {
		return r.Elsewhere.Execute(ctx, req)
	}
	return r.Executor.Execute(ctx, req)
}

// request returns the request of a run, without tool and arguments.
func (r *Runner) request(kind haft.Kind, run Run) executor.Request {
	if run.Org == "" {
		run.Org = "local"
	}
	if len(run.Hosts) > 0 {
		run.Network = sandbox.NetworkEgress
	}
	return executor.Request{Org: run.Org, Kind: kind, Stored: true, Env: run.Env, Modules: run.Files,
		Programs: run.Programs, Workspace: run.Workspace,
		Layers: run.Layers, Limits: run.Limits, Network: run.Network, Need: r.Need}
}

// Call takes one call of t through its stages. If the tool fails, the Result says so; an
// error means that there is no result.
func (r *Runner) Call(ctx context.Context, t *Tool, run Run) (*haft.Result, error) {
	began := time.Now()
	for name := range run.Env {
		if err := secret.CheckEnvName(name); err != nil {
			return nil, err
		}
	}
	id := haft.NewCallID()
	fitted, failure := t.compiled.FitRead(schema.ReadArguments(run.Args))
	args := fitted.Text
	validated := time.Since(began)
	if failure != nil {
		return refused(id, t, failure, validated), nil
	}
	fileArgs, failure, err := t.fileArgs(fitted.Tree, run.Files)
	if err != nil {
		return nil, err
	}
	if failure != nil {
		return refused(id, t, failure, validated), nil
	}
	req := r.request(t.Source.Kind, run)
	req.Call, req.Tool, req.Source, req.Function = id, t.Derived.Name, string(t.Source.Text), t.Derived.Function
	req.File, req.FileArgs = t.Source.File, fileArgs
	req.Args, req.Pass, req.Inject = args, t.Derived.Pass, inject(t.Derived.Injected)
	req.Output, req.Stdout, req.Stderr, req.Progress = t.Output.Type, run.Stdout, run.Stderr, run.Progress
	res, err := r.execute(ctx, req, run)
	if err != nil {
		return nil, err
	}
	if f := res.Error; f != nil && f.Kind == haft.FailException {
		if advice := run.beside(f.Message); advice != "" {
			f.Message += "; " + advice
		} else if m, ok := requirement.MissingModule(f.Type + ": " + f.Message); ok {
			f.Message += "; " + m.Advice()
		}
	}
	res.Timeline.Validate = haft.Millis(validated)
	t.compiled.Check(ctx, res)
	res.Timeline.Total = haft.Millis(time.Since(began))
	res.Time = time.Now().UTC()
	return res, nil
}

// fileArgs returns the arguments that are files of the call. Others are not known here.
func (t *Tool) fileArgs(args *schema.Object, files []sandbox.File) ([]executor.FileArg, *haft.Failure, error) {
	var given []string
	for _, f := range files {
		given = append(given, f.Name)
	}
	refs, _ := t.compiled.Files.Refs(args)
	return fileparam.Resolve(refs, given, func(haft.FileID) (string, error) {
		return "", &haft.Error{Code: haft.CodeNotFound, Message: "there is no such file: give it with --file"}
	})
}

// execute runs a request, with an egress session if the run names hosts.
func (r *Runner) execute(ctx context.Context, req executor.Request, run Run) (*haft.Result, error) {
	if len(run.Hosts) == 0 {
		return r.runScript(ctx, req)
	}
	g := &session.Opener{Guard: egress.New(egress.Config{Allow: run.Ranges}), Logger: r.Logger}
	out, err := g.Open(ctx, route.Request{Call: haft.Call{ID: req.Call}, Hosts: run.Hosts,
		Bytes: req.Limits.Network})
	if err != nil {
		return nil, err
	}
	req.ServeEgress, req.CA = out.Session.Serve, out.CA
	res, err := r.runScript(ctx, req)
	contacts, _ := out.Session.Close()
	for _, c := range contacts {
		if err == nil && c.Refused != "" && len(res.Notices) < maxNotices {
			res.Notices = append(res.Notices, "network: "+c.Refused)
		}
	}
	return res, err
}

// maxNotices bounds the notices about refused connections in a result.
const maxNotices = 10

// refused is the result of a call whose arguments do not fit: nothing ran.
func refused(id haft.CallID, t *Tool, f *haft.Failure, took time.Duration) *haft.Result {
	return &haft.Result{
		Call: id, Tool: t.Derived.Name, Status: haft.StatusValidation, Value: json.RawMessage("null"), Error: f,
		Sandbox: haft.Sandbox{Provider: "none", Isolation: haft.Isolation{Level: haft.LevelNone,
			Controls: []haft.Control{}}},
		Timeline: haft.Timeline{Validate: haft.Millis(took), Total: haft.Millis(took)}, Time: time.Now().UTC(),
	}
}

// inject gives every injected parameter the value null: a call from the command line has no
// agent.
func inject(names []string) map[string]json.RawMessage {
	values := make(map[string]json.RawMessage, len(names))
	for _, n := range names {
		values[n] = json.RawMessage("null")
	}
	return values
}

// Unusable is the result of a call whose source cannot be used as a tool.
func Unusable(src Source, err error) *haft.Result {
	f := &haft.Failure{Kind: haft.FailSource, Message: err.Error(), Retry: haft.RetryNever}
	res := refused(haft.NewCallID(), &Tool{Derived: &Derived{Signature: &schema.Signature{Name: src.Name}}}, f, 0)
	res.Status = haft.StatusError
	return res
}
