package engine

import (
	"context"
	"time"

	"haft"
	"haft/executor"
)

// Packages gives calls the packages of their tool's version.
type Packages interface {
	// Open returns the packages that a version of an organisation's tool runs with,
	// installed if need be, and what gives them back after the run. Progress is told
	// what goes on while the call has to wait for it, in lines, by one goroutine at
	// a time. More is what the sandbox configuration of the organisation asks for.
	// Open is called for every version, also for one that needs none.
	Open(ctx context.Context, org string, v haft.Version, more haft.Requirements,
		progress func(line string)) (layers []executor.Layer, release func(), err error)
}

// progressEvery is how often those who watch are told how far an installation is.
const progressEvery = 200 * time.Millisecond

// installPackages gives a request the packages of its tool. That they cannot be had is a
// result: nothing of the tool has run.
func (rn *runner) installPackages(ctx context.Context, ex *execution, req *executor.Request) (release func(),
	err error) {
	v := ex.tool.Tool.Version
	if rn.cfg.Packages == nil || v.Kind == haft.KindBuiltin || v.Kind == haft.KindMCP {
		if len(v.Requirements.Pip)+len(v.Requirements.NPM) > 0 {
			ex.notices = append(ex.notices,
				"requirements: packages are not installed here; only what the interpreter has is there")
		}
		if rn.cfg.Packages != nil && v.Kind == haft.KindBuiltin {
			req.Packages = func(ctx context.Context, kind haft.Kind) ([]executor.Layer, func(), error) {
				return rn.codePackages(ctx, ex, kind)
			}
		}
		return func() {}, nil
	}
	began := time.Now()
	progress := rn.packageProgress(ctx, ex)
	layers, release, err := rn.cfg.Packages.Open(ctx, ex.call.Principal.Org, v, ex.place.Config.Needs, progress)
	ex.timeline.Packages = haft.Millis(time.Since(began))
	if ctx.Err() != nil && err != nil {
		return nil, context.Cause(ctx)
	}
	if err != nil {
		rn.redaction.logOf(ex).Warn("the packages of a tool could not be had", "call", ex.call.ID, "tool",
			ex.tool.Tool.Name, "err", err)
		retry := haft.RetryNever
		if haft.CodeOf(err) == haft.CodeUnavailable {
			retry = haft.RetrySame
		}
		r := refuse(haft.StatusError, haft.FailRuntime, retry,
			"the packages that the tool needs cannot be had: "+haft.MessageOf(err))
		r.cause = err
		return nil, r
	}
	req.Layers = layers
	return release, nil
}

// codePackages returns the packages for code of a kind in a call of a built-in tool: those that the call brings, and
// those of the organisation. An owner installs what calls bring once at a time: anybody who may make a call can ask for
// any packages, and installers take processors, memory and disk that no limit of the call counts.
func (rn *runner) codePackages(ctx context.Context, ex *execution, kind haft.Kind) ([]executor.Layer, func(), error) {
	p := ex.call.Principal
	if !ex.asked.Requirements.Empty() { // those of a session that lives are there
		// It needs no processor while it waits. With packages that are installed already it goes on at once.
		unlock, err := rn.installs.TakeOr(ctx, p.Org+"\x00"+p.Owner(), func() { ex.grant.Settle() })
		if err != nil {
			return nil, nil, err
		}
		defer unlock()
	}
	code, err := rn.registry.Packages(ctx, p, kind, ex.tool.Tool.Version.Digest, ex.call.Requirements)
	if err != nil {
		return nil, nil, err
	}
	return rn.cfg.Packages.Open(ctx, p.Org, code, ex.place.Config.Needs, rn.packageProgress(ctx, ex))
}

// packageProgress returns a function that tells what is done to have the packages of a call.
func (rn *runner) packageProgress(ctx context.Context, ex *execution) func(line string) {
	var last time.Time
	return func(line string) {
		if last.IsZero() {
			ex.grant.Settle() // it waits for others, and needs no processor
		}
		if time.Since(last) < progressEvery || ctx.Err() != nil {
			return
		}
		last = time.Now()
		data := map[string]any{"phase": "packages", "message": line}
		if err := rn.recorder.publish(ctx, ex, haft.EventProgress, data, nil); err != nil {
			rn.redaction.logOf(ex).Warn("progress of a call could not be told", "call", ex.call.ID, "err", err)
		}
	}
}
