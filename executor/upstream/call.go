package upstream

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"haft"
	"haft/executor"
	"haft/internal/secret"
	"haft/sandbox"
)

// Execute implements [executor.Executor].
func (p *Pool) Execute(ctx context.Context, req executor.Request) (*haft.Result, error) {
	began := time.Now()
	wall := req.Limits.Wall.D()
	if wall <= 0 {
		wall = p.cfg.Call
	}
	ctx, cancel := context.WithTimeout(ctx, wall)
	defer cancel()
	c := &call{pool: p, req: req, limits: req.Limits.Or(haft.DefaultLimits()), began: began}
	w, err := p.want(ctx, req.Principal, req.Server, variables(req))
	if err != nil {
		return c.unreached(ctx, err)
	}
	if req.Origin != "" && w.server.Origin() != req.Origin {
		// What was looked at was the tool of another server, of that name.
		return c.failed(haft.StatusDenied, haft.FailDenied, haft.RetryNever,
			"the server of the tool is another than the one that was looked at: list its tools again"), nil
	}
	s, err := p.acquire(ctx, w)
	if err != nil {
		return c.unreached(ctx, err)
	}
	c.session = s
	if s.cmd != nil {
		if err := req.Need.Check(s.cmd.isolation); err != nil {
			s.slot.give(false)
			return c.failed(haft.StatusDenied, haft.FailIsolation, haft.RetryNever, haft.MessageOf(err)), nil
		}
	}
	c.setup = time.Since(began)
	return c.run(ctx)
}

// variables are those of a call. Of what is bound its environment has placeholders only.
func variables(req executor.Request) []secret.Named {
	vars := make([]secret.Named, 0, len(req.Env)+len(req.Secrets))
	for name, text := range req.Env {
		vars = append(vars, secret.Named{Name: name, Value: secret.New(text)})
	}
	return append(vars, req.Secrets...)
}

// A call is one run of one tool.
type call struct {
	pool    *Pool
	req     executor.Request
	limits  haft.Limits
	session *session
	began   time.Time
	setup   time.Duration
	out     int64 // bytes of logs that were kept
	logs    []byte
}

// run sends the call and makes a result of what comes.
func (c *call) run(ctx context.Context) (*haft.Result, error) {
	s := c.session
	token, done := s.begin(&running{progress: c.req.Progress, log: c.log})
	args := c.req.Args
	if len(args) == 0 {
		args = json.RawMessage("{}")
	}
	params := &mcp.CallToolParams{Name: c.req.Function, Arguments: args}
	params.SetProgressToken(token)
	res, err := s.client.CallTool(ctx, params)
	done()
	wire := wireError(err)
	s.slot.give(err == nil || wire != nil)
	if why := s.slot.ended(); err != nil && why != nil && ctx.Err() == nil {
		return c.failed(haft.StatusDenied, haft.FailDenied, haft.RetryNever, haft.MessageOf(why)), nil
	}
	switch {
	case err == nil:
		return c.result(res), nil
	case ctx.Err() != nil:
		// The SDK has told the server. One that has nothing else to do, and does
		// not even answer a ping, will not have listened.
		c.pool.spawn(func() { s.health(c.pool.ctx) })
		return c.stopped(ctx), nil
	case wire != nil:
		return c.refused(wire), nil
	}
	return c.broken(err)
}

// rejected is the code under which the SDK tells of its own transports.
const rejected = -32005

// wireError returns what the server itself said, if it did.
func wireError(err error) *jsonrpc.Error {
	wire, ok := errors.AsType[*jsonrpc.Error](err)
	if !ok || wire.Code == rejected {
		return nil
	}
	return wire
}

// maxLogs is how much of a server's words a result keeps.
const maxLogs = 64 << 10

// log takes what the server says while the call is on its way.
func (c *call) log(b []byte) {
	if c.out >= c.limits.Stderr {
		return
	}
	b = []byte(c.session.covered(string(b[:min(int64(len(b)), c.limits.Stderr-c.out)])))
	c.out += int64(len(b))
	if room := maxLogs - len(c.logs); room > 0 {
		c.logs = append(c.logs, b[:min(len(b), room)]...)
	}
	if c.req.Stderr != nil {
		c.req.Stderr(b)
	}
}

// blank is a result with what is known of every one.
func (c *call) blank(status haft.Status) *haft.Result {
	took := time.Since(c.began)
	res := &haft.Result{
		Call: c.req.Call, Tool: c.req.Tool, Digest: c.req.Digest, Status: status, Value: json.RawMessage("null"),
		Usage: haft.Usage{Wall: haft.Millis(took)},
		Sandbox: haft.Sandbox{Provider: "none", Isolation: haft.Isolation{Level: haft.LevelNone,
			Controls: []haft.Control{}}},
		Timeline: haft.Timeline{Setup: haft.Millis(c.setup), Execute: haft.Millis(took - c.setup),
			Total: haft.Millis(took)},
	}
	if c.session == nil {
		return res
	}
	res.Sandbox.Provider = "remote" // where it runs, and how confined, nobody here can know
	if cmd := c.session.cmd; cmd != nil {
		res.Sandbox = haft.Sandbox{Provider: cmd.place.Name, Isolation: cmd.isolation}
		if cmd.place.Spec.Network == sandbox.NetworkFull {
			res.Sandbox.Isolation.Level = haft.LevelReduced
		}
	}
	return res
}

// failed is a result without a value.
func (c *call) failed(status haft.Status, kind haft.FailureKind, retry haft.Retry, message string) *haft.Result {
	res := c.blank(status)
	res.Error = &haft.Failure{Kind: kind, Message: message, Retry: retry}
	return res
}

// unreached is for a call that was not sent.
func (c *call) unreached(ctx context.Context, err error) (*haft.Result, error) {
	if ctx.Err() != nil {
		return c.stopped(ctx), nil
	}
	name := haft.ServerOf(c.req.Tool)
	if n, ok := errors.AsType[*needLogin](err); ok {
		return c.failed(haft.StatusError, haft.FailLogin, haft.RetryNever, n.Error()), nil
	}
	if f, ok := errors.AsType[*Failed](err); ok {
		kind := map[Fault]haft.FailureKind{FaultNetwork: haft.FailNetwork, FaultProtocol: haft.FailProtocol,
			FaultCommand: haft.FailRuntime}[f.Fault]
		if f.Broken {
			kind = haft.FailBroken
		}
		res := c.failed(haft.StatusError, kind, haft.RetrySame, fmt.Sprintf("MCP server %s: %s", name, f.Message))
		res.Error.RetryAfter = haft.Millis(f.After)
		return res, nil
	}
	e, ok := errors.AsType[*haft.Error](err)
	if !ok {
		return nil, fmt.Errorf("reach the MCP server: %w", err)
	}
	switch e.Code {
	case haft.CodeDenied:
		return c.failed(haft.StatusDenied, haft.FailDenied, haft.RetryNever, e.Message), nil
	case haft.CodeNotFound, haft.CodeInvalid:
		return c.failed(haft.StatusError, haft.FailRuntime, haft.RetryNever, e.Message), nil
	}
	return nil, err
}

// stopped is for a call whose time is over, or that nobody wants any more.
func (c *call) stopped(ctx context.Context) *haft.Result {
	if errors.Is(context.Cause(ctx), context.DeadlineExceeded) {
		return c.failed(haft.StatusTimeout, haft.FailTimeout, haft.RetrySame, "the MCP server did not answer in time")
	}
	return c.failed(haft.StatusCancelled, haft.FailCancelled, haft.RetrySame, "the call was cancelled")
}

// refused is for what the protocol calls an error.
func (c *call) refused(wire *jsonrpc.Error) *haft.Result {
	retry := haft.RetryNever
	if wire.Code == jsonrpc.CodeInvalidParams {
		retry = haft.RetryChanged
	}
	return c.failed(haft.StatusError, haft.FailProtocol, retry,
		fmt.Sprintf("the MCP server refuses the call: %s (%d)", cut(c.session.hide.Text(wire.Message), 2000),
			wire.Code))
}

// broken is for a connection that failed: before the call was sent, or nobody
// knows when.
func (c *call) broken(err error) (*haft.Result, error) {
	if _, ok := errors.AsType[*needLogin](err); ok {
		return c.unreached(context.Background(), err) //nolint:forbidigo // it has not ended
	}
	var op *net.OpError
	var dns *net.DNSError
	if errors.As(err, &op) && op.Op == "dial" || errors.As(err, &dns) {
		return c.failed(haft.StatusError, haft.FailNetwork, haft.RetrySame, "the MCP server cannot be connected to"),
			nil
	}
	if e, ok := errors.AsType[*haft.Error](err); ok && e.Code == haft.CodeDenied {
		return c.failed(haft.StatusDenied, haft.FailDenied, haft.RetryNever, e.Message), nil
	}
	return nil, fmt.Errorf("%w: %w", executor.ErrMaybeRan, err)
}

// result makes a result of what a tool gave.
func (c *call) result(r *mcp.CallToolResult) *haft.Result {
	parts := &contents{limits: c.limits}
	for _, content := range r.Content {
		parts.take(content)
	}
	parts.cover(c.session.covered)
	res := c.blank(haft.StatusSuccess)
	res.Artifacts, res.Truncated.Artifacts = parts.artifacts, parts.left
	res.Stderr = strings.ToValidUTF8(string(c.logs), "\uFFFD")
	res.Usage.Stderr = c.out
	value, beside, err := parts.value(r.StructuredContent, c.req.Returns)
	switch {
	case err != nil:
		return c.failed(haft.StatusError, haft.FailProtocol, haft.RetryNever,
			"the MCP server gave content that cannot be read")
	case int64(len(value)) > c.limits.Result:
		return c.failed(haft.StatusLimit, haft.FailResult, haft.RetryChanged,
			fmt.Sprintf("the MCP server gave more than %d bytes", c.limits.Result))
	}
	if value = json.RawMessage(c.session.covered(string(value))); !json.Valid(value) {
		return c.failed(haft.StatusError, haft.FailFiltered, haft.RetryNever,
			"the MCP server gave its own credentials away")
	}
	res.Stdout = cut(beside, int(min(c.limits.Stdout, 1<<20)))
	if r.IsError {
		res.Status = haft.StatusError
		res.Error = &haft.Failure{Kind: haft.FailException, Type: "ToolError", Retry: haft.RetryChanged,
			Message: cut(firstOf(parts.text(), "the tool failed and did not say why"), 16<<10)}
		return res
	}
	res.Value = value
	return res
}

// List connects to a server and lists its tools anew.
func (p *Pool) List(ctx context.Context, who haft.Principal, ref string,
	vars []secret.Named) (*haft.MCPListing, error) {
	w, err := p.want(ctx, who, ref, vars)
	if err != nil {
		return nil, err
	}
	limit := p.cfg.List
	if d := w.server.List.D(); d > 0 {
		limit = d
	}
	s, err := p.acquire(ctx, w)
	if err != nil {
		return nil, Coded(err)
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	l, err := listing(ctx, s.client, p.cfg)
	s.slot.give(err == nil)
	if err != nil {
		return nil, Coded(s.explain(ctx, err))
	}
	return l, nil
}
