package mcpserver

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"haft"
)

// callTool passes tools/call to the one tool that is registered with the SDK, with the name of
// the requested tool. A tool that the service does not have is left to the tools of the
// program.
func (v *view) callTool(ctx context.Context, method string, r *mcp.CallToolRequest,
	next mcp.MethodHandler) (mcp.Result, error) {
	name := r.Params.Name
	if name == dispatch {
		return nil, &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: "there is no such tool"}
	}
	has, err := v.has(ctx, name)
	if err != nil {
		return nil, toRPCError(err)
	}
	if !has {
		return next(ctx, method, r)
	}
	params := *r.Params
	params.Name = dispatch
	return next(context.WithValue(ctx, named{}, name), method,
		&mcp.CallToolRequest{Session: r.Session, Params: &params, Extra: r.Extra})
}

// has reports whether the caller has a tool of that name.
func (v *view) has(ctx context.Context, name string) (bool, error) {
	if name == findName || name == callName {
		return v.lazy(ctx)
	}
	if haft.CheckToolName(name) != nil {
		return false, nil // also ids: clients know names
	}
	t, err := v.s.service.Tool(ctx, v.who.Principal, name)
	if haft.CodeOf(err) == haft.CodeNotFound {
		return false, nil
	}
	return err == nil && v.who.Has(*t), err
}

// run runs a tool of the service. It is the handler of the one tool that is registered with the
// SDK.
func (v *view) run(ctx context.Context, r *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
	name, _ := ctx.Value(named{}).(string)
	if r.Params.RequestState != "" {
		return v.resume(ctx, r, name)
	}
	args := r.Params.Arguments
	switch name {
	case findName:
		return v.find(ctx, args)
	case callName:
		var in struct {
			Name      string          `json:"name"`
			Arguments json.RawMessage `json:"arguments"`
		}
		if err := json.Unmarshal(args, &in); err != nil || in.Name == "" {
			return failed("validation_error: name is the name of a tool, and arguments an object"), nil
		}
		has, err := v.has(ctx, in.Name)
		if err != nil {
			return nil, toRPCError(err)
		}
		if !has || in.Name == findName || in.Name == callName {
			return failed("not_found: there is no such tool; find_tools finds those that there are"), nil
		}
		name, args = in.Name, in.Arguments
	}
	return v.call(ctx, r, haft.Call{Tool: name, Args: args, Principal: v.caller(r), Trace: trace(r.Params.Meta)})
}

// trace is the trace that the client's spans are in.
func trace(meta mcp.Meta) string {
	parent, _ := meta["traceparent"].(string)
	if len(parent) > 200 {
		return ""
	}
	return parent
}

// call makes a call and says what became of it.
func (v *view) call(ctx context.Context, r *mcp.CallToolRequest, c haft.Call) (*mcp.CallToolResult, error) {
	tool, err := v.s.service.Tool(ctx, c.Principal, c.Tool)
	if err != nil {
		return nil, toRPCError(err)
	}
	complaint, err := v.giveFiles(ctx, *tool, &c)
	if err != nil {
		return nil, toRPCError(err)
	}
	if complaint != "" {
		return failed("validation_error: the arguments do not fit: " + complaint), nil
	}
	res, err := v.makeCall(ctx, r, c)
	if err != nil {
		return nil, toRPCError(err)
	}
	if res.Status == haft.StatusPending {
		return v.askPerson(ctx, r, *tool, res)
	}
	return v.resultOf(*tool, res), nil
}

// makeCall makes a call, and sends its progress and output to the client if the client
// wants them.
func (v *view) makeCall(ctx context.Context, r *mcp.CallToolRequest, c haft.Call) (*haft.Result, error) {
	token, loud := r.Params.GetProgressToken(), v.wantsLogs(r)
	if v.s.cfg.Stream == nil || token == nil && !loud {
		return v.s.service.Call(ctx, c)
	}
	h := notifier{session: r.Session, token: token, last: -1}
	res, _, err := v.s.cfg.Stream(ctx, c, func(e haft.Event) {
		if h.err == nil {
			h.err = h.notify(ctx, e) // no more notifications are sent; the call goes on
		}
	})
	return res, err
}

// notifier sends the progress and output of one call to one client.
type notifier struct {
	session *mcp.ServerSession
	token   any
	last    float64 // progress that was sent; it has to rise
	err     error   // why no more notifications are sent
}

// notify sends one event.
func (t *notifier) notify(ctx context.Context, e haft.Event) error {
	switch e.Type {
	case haft.EventProgress:
		if t.token == nil {
			return nil
		}
		p := progressOf(e.Data, t.last)
		if p.Progress <= t.last {
			return nil
		}
		t.last, p.ProgressToken = p.Progress, t.token
		return t.session.NotifyProgress(ctx, p)
	case haft.EventOutput:
		var out struct{ Stream, Text string }
		if json.Unmarshal(e.Data, &out) != nil || out.Text == "" {
			return nil
		}
		//nolint:staticcheck // deprecated for the newer wire, where clients ask for it request by request
		return t.session.Log(ctx, &mcp.LoggingMessageParams{Level: "info", Logger: e.Tool + "." + out.Stream,
			Data: strings.TrimSuffix(out.Text, "\n")})
	}
	return nil
}

// maxSaid bounds the message beside a progress.
const maxSaid = 2000

// progressOf reads what a tool says about how far it is: a number, an object with
// progress, total and message, or anything, which is then the message.
func progressOf(data json.RawMessage, last float64) *mcp.ProgressNotificationParams {
	p := &mcp.ProgressNotificationParams{}
	var o struct {
		Progress *float64 `json:"progress"`
		Total    float64  `json:"total"`
		Message  string   `json:"message"`
		// Item is one of a generator.
		Item json.RawMessage `json:"item"`
	}
	var text string
	switch {
	case json.Unmarshal(data, &p.Progress) == nil:
	case json.Unmarshal(data, &text) == nil:
		p.Progress, p.Message = last+1, text
	case json.Unmarshal(data, &o) == nil && o.Progress != nil:
		p.Progress, p.Total, p.Message = *o.Progress, o.Total, cmp.Or(o.Message, string(o.Item))
	default:
		p.Progress, p.Message = last+1, string(data)
		if o.Message != "" {
			p.Message = o.Message
		}
	}
	if len(p.Message) > maxSaid {
		p.Message = strings.ToValidUTF8(p.Message[:maxSaid], "")
	}
	return p
}

// rpcCodes are the codes of JSON-RPC for ours; others are internal errors.
var rpcCodes = map[haft.Code]int64{
	haft.CodeInvalid: jsonrpc.CodeInvalidParams, haft.CodeNotFound: jsonrpc.CodeInvalidParams,
	haft.CodeConflict: jsonrpc.CodeInvalidParams, haft.CodeUnauthenticated: -32001, haft.CodeDenied: -32003,
	haft.CodeRateLimited: -32004, haft.CodeUnavailable: -32005,
}

// toRPCError converts an error to one of JSON-RPC, with only the text that is meant for
// clients.
func toRPCError(err error) error {
	if err == nil {
		return nil
	}
	if _, ok := errors.AsType[*jsonrpc.Error](err); ok {
		return err
	}
	code := haft.CodeOf(err)
	out := &jsonrpc.Error{Code: cmp.Or(rpcCodes[code], jsonrpc.CodeInternalError), Message: haft.MessageOf(err)}
	if errors.Is(err, context.Canceled) {
		out.Message = "the request was cancelled"
	}
	data := map[string]any{"code": code}
	if wait := haft.RetryAfterOf(err); wait > 0 {
		data["retry_after_ms"] = wait
	}
	if raw, err := json.Marshal(data); err == nil {
		out.Data = raw
	}
	return out
}
