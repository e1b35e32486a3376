package upstream

import (
	"cmp"
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
	to, err := p.resolve(ctx, req.Principal, req.Server, variables(req))
	if err != nil {
		return c.notSent(ctx, err)
	}
	if req.Origin != "" && to.server.Origin() != req.Origin {
		// The tool that was reviewed belonged to another server with this name.
		return c.failed(haft.StatusDenied, haft.FailDenied, haft.RetryNever,
			"the server of the tool is another than the one that was looked at: list its tools again"), nil
	}
	s, err := p.acquire(ctx, to)
	if err != nil {
		return c.notSent(ctx, err)
	}
	c.session = s
	if s.cmd != nil {
		if err := req.Need.Check(s.cmd.isolation); err != nil {
			s.slot.release(false)
			return c.failed(haft.StatusDenied, haft.FailIsolation, haft.RetryNever, haft.MessageOf(err)), nil
		}
	}
	c.setup = time.Since(began)
	return c.run(ctx)
}

// variables returns the variables of a call. Its environment has only placeholders for
// bound secrets.
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
	out     int64 // bytes of logs within the limit
	logs    []byte
}

// run sends the call and returns its result.
func (c *call) run(ctx context.Context) (*haft.Result, error) {
	s := c.session
	token, done := s.listen(&listener{progress: c.req.Progress, log: c.log})
	args := c.req.Args
	if len(args) == 0 {
		args = json.RawMessage("{}")
	}
	params := &mcp.CallToolParams{Name: c.req.Function, Arguments: args}
	params.SetProgressToken(token)
	res, err := s.client.CallTool(ctx, params)
	done()
	wire := wireError(err)
	s.slot.release(err == nil || wire != nil)
	if why := s.slot.endReason(); err != nil && why != nil && ctx.Err() == nil {
		return c.failed(haft.StatusDenied, haft.FailDenied, haft.RetryNever, haft.MessageOf(why)), nil
	}
	switch {
	case err == nil:
		return c.result(res), nil
	case ctx.Err() != nil:
		// The SDK has sent a cancellation. A server that does not answer a ping either
		// has not read it.
		c.pool.spawn(func() { s.checkHealth(c.pool.ctx) })
		return c.stopped(ctx), nil
	case wire != nil:
		return c.rejected(wire), nil
	}
	return c.connectionLost(err)
}

// sdkError is the code with which the SDK reports errors of its own transports.
const sdkError = -32005

// wireError returns the error that the server itself reported, or nil.
func wireError(err error) *jsonrpc.Error {
	wire, ok := errors.AsType[*jsonrpc.Error](err)
	if !ok || wire.Code == sdkError {
		return nil
	}
	return wire
}

// maxLogs is how many bytes of a server's logs a result keeps.
const maxLogs = 64 << 10

// log keeps and passes on what the server logs during the call.
func (c *call) log(b []byte) {
	if c.out >= c.limits.Stderr {
		return
	}
	b = []byte(c.session.redact(string(b[:min(int64(len(b)), c.limits.Stderr-c.out)])))
	c.out += int64(len(b))
	if left := maxLogs - len(c.logs); left > 0 {
		c.logs = append(c.logs, b[:min(len(b), left)]...)
	}
	if c.req.Stderr != nil {
		c.req.Stderr(b)
	}
}

// blank returns a result with the fields that every result has.
func (c *call) blank(status haft.Status) *haft.Result {
	took := time.Since(c.began)
	res := &haft.Result{
		Call: c.req.Call, Tool: c.req.Tool, Digest: c.req.Digest, Status: status, Value: json.RawMessage("null"),
		Usage:   haft.Usage{Wall: haft.Millis(took)},
		Sandbox: haft.Sandbox{Provider: "none", Isolation: executor.NoIsolation()},
		Timeline: haft.Timeline{Setup: haft.Millis(c.setup), Execute: haft.Millis(took - c.setup),
			Total: haft.Millis(took)},
	}
	if c.session == nil {
		return res
	}
	res.Sandbox.Provider = "remote" // its isolation is not known here
	if cmd := c.session.cmd; cmd != nil {
		res.Sandbox = haft.Sandbox{Provider: cmd.place.Name, Isolation: cmd.isolation}
		if cmd.place.Spec.Network == sandbox.NetworkFull {
			res.Sandbox.Isolation.Level = haft.LevelReduced
		}
	}
	return res
}

// failed returns a result without a value.
func (c *call) failed(status haft.Status, kind haft.FailureKind, retry haft.Retry, message string) *haft.Result {
	res := c.blank(status)
	res.Error = &haft.Failure{Kind: kind, Message: message, Retry: retry}
	return res
}

// notSent returns the result of a call that was not sent.
func (c *call) notSent(ctx context.Context, err error) (*haft.Result, error) {
	if ctx.Err() != nil {
		return c.stopped(ctx), nil
	}
	if f, ok := errors.AsType[*Failed](err); ok {
		if f.Fault == FaultLogin {
			return c.failed(haft.StatusError, haft.FailLogin, haft.RetryNever, f.Message), nil
		}
		kind := map[Fault]haft.FailureKind{FaultNetwork: haft.FailNetwork, FaultProtocol: haft.FailProtocol,
			FaultCommand: haft.FailRuntime}[f.Fault]
		if f.Broken {
			kind = haft.FailBroken
		}
		res := c.failed(haft.StatusError, kind, haft.RetrySame,
			fmt.Sprintf("MCP server %s: %s", haft.ServerOf(c.req.Tool), f.Message))
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

// stopped returns the result of a call that timed out or was cancelled.
func (c *call) stopped(ctx context.Context) *haft.Result {
	if errors.Is(context.Cause(ctx), context.DeadlineExceeded) {
		return c.failed(haft.StatusTimeout, haft.FailTimeout, haft.RetrySame, "the MCP server did not answer in time")
	}
	return c.failed(haft.StatusCancelled, haft.FailCancelled, haft.RetrySame, "the call was cancelled")
}

// rejected returns the result of a call that the server answered with a protocol error.
func (c *call) rejected(wire *jsonrpc.Error) *haft.Result {
	retry := haft.RetryNever
	if wire.Code == jsonrpc.CodeInvalidParams {
		retry = haft.RetryChanged
	}
	return c.failed(haft.StatusError, haft.FailProtocol, retry,
		fmt.Sprintf("the MCP server refuses the call: %s (%d)", cut(c.session.redactAll.Text(wire.Message), 2000),
			wire.Code))
}

// connectionLost returns the result of a call whose connection failed: before the call
// was sent, or at an unknown time.
func (c *call) connectionLost(err error) (*haft.Result, error) {
	if NeedsLogin(err) {
		return c.notSent(context.Background(), err) //nolint:forbidigo // the call's context has not ended
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

// result converts the result of a tool.
func (c *call) result(r *mcp.CallToolResult) *haft.Result {
	parts := &contents{limits: c.limits}
	for _, content := range r.Content {
		parts.add(content)
	}
	parts.redact(c.session.redact)
	res := c.blank(haft.StatusSuccess)
	res.Artifacts, res.Truncated.Artifacts = parts.artifacts, parts.leftOut
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
	if value = json.RawMessage(c.session.redact(string(value))); !json.Valid(value) {
		return c.failed(haft.StatusError, haft.FailFiltered, haft.RetryNever,
			"the MCP server gave its own credentials away")
	}
	res.Stdout = cut(beside, int(min(c.limits.Stdout, 1<<20)))
	if r.IsError {
		res.Status = haft.StatusError
		res.Error = &haft.Failure{Kind: haft.FailException, Type: "ToolError", Retry: haft.RetryChanged,
			Message: cut(cmp.Or(parts.text(), "the tool failed and did not say why"), 16<<10)}
		return res
	}
	res.Value = value
	return res
}

// List connects to a server and lists its tools anew.
func (p *Pool) List(ctx context.Context, who haft.Principal, ref string,
	vars []secret.Named) (*haft.MCPListing, error) {
	to, err := p.resolve(ctx, who, ref, vars)
	if err != nil {
		return nil, err
	}
	s, err := p.acquire(ctx, to)
	if err != nil {
		return nil, Coded(err)
	}
	ctx, cancel := context.WithTimeout(ctx, p.listLimit(to.server))
	defer cancel()
	l, err := listTools(ctx, s.client, p.cfg)
	s.slot.release(err == nil)
	if err != nil {
		return nil, Coded(s.explain(ctx, err))
	}
	return l, nil
}

// listLimit is how long listing the tools of a server may take.
func (p *Pool) listLimit(s haft.MCPServer) time.Duration {
	if d := s.List.D(); d > 0 {
		return d
	}
	return p.cfg.List
}
