package builtin

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime"
	"runtime/debug"
	"strings"
	"sync"
	"time"

	"haft"
	"haft/executor"
)

// errWall is the cause of ending a call that took too long.
var errWall = errors.New("the wall-clock limit of the call")

// Bounds on the output of a tool.
const (
	maxArgs     = 16 << 20
	maxMessage  = 4 << 10
	maxProgress = 64 << 10
)

// An execution is one running call.
type execution struct {
	set    *Set
	req    executor.Request
	limits haft.Limits
	// res is the result; raw tools replace it.
	res *haft.Result

	mu   sync.Mutex
	over bool
	out  []byte
	said int64 // bytes that were given to Stdout
}

// Execute implements [executor.Executor]. The tool is found by its name; a request
// that names another digest than it has is refused.
func (s *Set) Execute(ctx context.Context, req executor.Request) (*haft.Result, error) {
	began := time.Now()
	t := s.tools[req.Tool]
	switch {
	case t == nil || req.Kind != "" && req.Kind != haft.KindBuiltin:
		return nil, &haft.Error{Code: haft.CodeNotFound, Message: "there is no such built-in tool"}
	case req.Digest != "" && req.Digest != t.tool.Version.Digest:
		return nil, &haft.Error{Code: haft.CodeConflict,
			Message: "this version of the built-in tool is not in this program"}
	case len(req.Args) > maxArgs:
		return nil, &haft.Error{Code: haft.CodeInvalid,
			Message: fmt.Sprintf("the arguments are %d bytes large, %d is the most", len(req.Args), maxArgs)}
	}
	if !t.raw && (req.Need.Level != "" || len(req.Need.Controls) > 0) {
		if err := req.Need.Check(executor.NoIsolation()); err != nil {
			return nil, err
		}
	}
	e := &execution{set: s, req: req, limits: t.defaults, res: &haft.Result{}}
	if req.Limits != (haft.Limits{}) {
		e.limits = req.Limits.Or(t.defaults).Within(haft.LimitCeilings())
	}
	if !t.raw {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, e.limits.Wall.D(), errWall)
		defer cancel()
	}
	err := e.guarded(ctx, t)
	if err != nil && (errors.Is(err, executor.ErrMaybeRan) || t.raw && ctx.Err() == nil && !ours(err)) {
		return nil, err
	}
	e.finish(ctx, t, err, began)
	return e.res, nil
}

// ours reports whether an error of a raw tool is a result all the same.
func ours(err error) bool {
	_, is := errors.AsType[*failure](err)
	return is
}

// errPanic is what a panic becomes. It holds nothing of it.
var errPanic = &failure{haft.Failure{
	Kind: haft.FailInternal, Retry: haft.RetryNever,
	Message: "the tool failed because of a fault in Haft; the operator finds it in the log",
}}

// guarded runs the tool, and makes an error of a panic.
func (e *execution) guarded(ctx context.Context, t *tool) (err error) {
	defer func() {
		if p := recover(); p != nil {
			// What is panicked with may hold an argument; the runtime's own errors and
			// the stack do not.
			what := fmt.Sprintf("%T", p)
			if r, ok := p.(runtime.Error); ok {
				what = r.Error()
			}
			e.set.logger().ErrorContext(ctx, "built-in tool panics", "tool", t.tool.Name, "call", e.req.Call,
				"panic", what, "stack", string(debug.Stack()))
			err = errPanic
		}
	}()
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return t.run(ctx, e)
}

// call returns the details of the call for the function.
func (e *execution) call() Call {
	var w *haft.CallWorkspace
	if e.req.Workspace != nil {
		w = e.req.Workspace.Call
	}
	return Call{
		Workspace: w,
		ID:        e.req.Call, Principal: e.req.Principal, Turn: e.req.Turn, Env: e.req.Env, Bound: e.req.Bound,
		Limits:      e.limits,
		serveEgress: e.req.ServeEgress, ca: e.req.CA, egress: e.req.Egress, Progress: e.progress, Stdout: e.print,
	}
}

// progress passes progress on.
func (e *execution) progress(v any) {
	if e.req.Progress == nil {
		return
	}
	b, err := json.Marshal(v)
	if err != nil || len(b) > maxProgress {
		e.set.logger().Warn("progress cannot be told", "tool", e.req.Tool, "call", e.req.Call, "bytes", len(b), "err",
			err)
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if !e.over {
		e.req.Progress(b)
	}
}

// print adds to stdout.
func (e *execution) print(b []byte) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.over {
		return
	}
	e.said += int64(len(b))
	if left := e.limits.Stdout - int64(len(e.out)); int64(len(b)) > left {
		b = b[:left]
	}
	if len(b) == 0 {
		return
	}
	e.out = append(e.out, b...)
	if e.req.Stdout != nil {
		e.req.Stdout(b)
	}
}

// encode makes the value.
func (e *execution) encode(out any) error {
	began := time.Now()
	value, err := executor.EncodeJSON(out)
	if err != nil {
		return &failure{haft.Failure{Kind: haft.FailValue, Message: "what the tool gives back is no JSON",
			Retry: haft.RetryNever}}
	}
	e.res.Value = value
	e.res.Timeline.Serialise = haft.Millis(time.Since(began))
	return nil
}

// finish fills in the result.
func (e *execution) finish(ctx context.Context, t *tool, err error, began time.Time) {
	e.mu.Lock()
	e.over = true
	out, said := e.out, e.said
	e.mu.Unlock()
	if e.res == nil || err != nil {
		e.res = &haft.Result{}
	}
	res := e.res
	res.Call, res.Tool, res.Digest = e.req.Call, t.tool.Name, t.tool.Version.Digest
	if res.Sandbox.Provider == "" {
		res.Sandbox = haft.Sandbox{Provider: Provider, Isolation: executor.NoIsolation()}
	}
	took := haft.Millis(time.Since(began))
	if !t.raw || err != nil {
		res.Usage.Wall, res.Usage.Stdout = took, said
		res.Stdout = strings.ReplaceAll(strings.ToValidUTF8(string(out), "\uFFFD"), "\x00", "\uFFFD")
		res.Truncated.Stdout = said - int64(len(out))
		res.Timeline.Execute = took - res.Timeline.Serialise
	}
	res.Timeline.Total = took
	if res.Status == "" {
		res.Status = haft.StatusSuccess
	}
	if len(res.Value) == 0 {
		res.Value = json.RawMessage("null")
	}
	switch {
	case err != nil:
		executor.Fail(res, e.explain(ctx, err))
	case !t.raw && int64(len(res.Value)) > e.limits.Result:
		executor.Fail(res, haft.Failure{Kind: haft.FailResult, Retry: haft.RetryChanged,
			Message: fmt.Sprintf("its value is longer than %d bytes; ask for less", e.limits.Result)})
	}
}
