package server

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"haft"
	"haft/internal/modelapi"
)

// maxWait bounds how long one request waits for a call.
const maxWait = 10 * time.Minute

// Wait says how long a request waits for its call: true until there is a result, false not
// at all, and a number that many seconds.
type Wait struct {
	set   bool
	until time.Duration // 0 means not at all and less than 0 until it is there
}

// Schema implements huma.SchemaProvider.
func (Wait) Schema(huma.Registry) *huma.Schema {
	zero, most := 0.0, maxWait.Seconds()
	return &huma.Schema{OneOf: []*huma.Schema{{Type: huma.TypeBoolean},
		{Type: huma.TypeNumber, Minimum: &zero, Maximum: &most}},
		Description: "true waits until there is a result, false does not wait, and a number waits so many seconds."}
}

// UnmarshalJSON implements [json.Unmarshaler].
func (w *Wait) UnmarshalJSON(b []byte) error {
	switch s := string(bytes.TrimSpace(b)); s {
	case "null":
		return nil
	case "true":
		*w = Wait{true, -1}
		return nil
	case "false":
		*w = Wait{true, 0}
		return nil
	}
	var seconds float64
	if err := json.Unmarshal(b, &seconds); err != nil || seconds < 0 || seconds > maxWait.Seconds() {
		return &haft.Error{Code: haft.CodeInvalid, Message: "wait is true, false or a number of seconds", Err: err}
	}
	*w = Wait{true, time.Duration(seconds * float64(time.Second))}
	return nil
}

// MarshalJSON implements [json.Marshaler].
func (w Wait) MarshalJSON() ([]byte, error) {
	if w.until < 0 || !w.set {
		return []byte("true"), nil
	}
	return json.Marshal(w.until.Seconds())
}

// CallBody asks for one call. It is a [haft.Call] without the fields that a client cannot
// set: its id and its principal.
type CallBody struct {
	Tool           string            `json:"tool" minLength:"1" maxLength:"200" doc:"The name or id of the tool."`
	Digest         string            `json:"digest,omitempty" maxLength:"200" doc:"The version to run; the current one if it is left out."`
	Args           json.RawMessage   `json:"args,omitempty" doc:"The arguments: an object, or the text of one as models write it."`
	Agent          string            `json:"agent,omitempty" maxLength:"200" doc:"The agent that calls, by name or id. The credential must be for it."`
	Env            map[string]string `json:"env,omitempty" doc:"Added to the environment of the run."`
	Files          []FileBody        `json:"files,omitempty" maxItems:"64" doc:"Files that the tool finds in its working directory."`
	Workspace      *WorkspaceBody    `json:"workspace,omitempty" doc:"A directory that outlives the call."`
	IdempotencyKey string            `json:"idempotency_key,omitempty" maxLength:"200" doc:"A second call with the same key and arguments gets the result of the first."`
	Turn           string            `json:"turn,omitempty" maxLength:"200" doc:"Groups the calls of one loop of an agent, which its tool rules look at."`
	Sandbox        string            `json:"sandbox,omitempty" maxLength:"64"`
	Template       string            `json:"template,omitempty" maxLength:"64" doc:"A template of the sandbox configuration, whose packages the call gets besides."`
	Limits         haft.Limits       `json:"limits,omitzero"`
	Deadline       time.Time         `json:"deadline,omitzero"`
}

// newCall is a call, and how long to wait for it.
type newCall struct {
	CallBody
	Wait Wait `json:"wait,omitzero"`
}

type makeCall struct {
	IdempotencyKey string `header:"Idempotency-Key" maxLength:"200" doc:"The same as idempotency_key."`
	Prefer         string `header:"Prefer" maxLength:"200" doc:"respond-async is the same as wait: false (RFC 7240)."`
	Trace          string `header:"Traceparent" maxLength:"8192" doc:"A W3C trace context that the call continues."`
	Body           newCall
}

// Called is a result, or the state of a call that has none yet.
type Called struct {
	ID haft.CallID `json:"id" doc:"The same as call_id."`
	haft.Result
}

type answered struct {
	Status     int
	Location   string `header:"Location"`
	RetryAfter string `header:"Retry-After" doc:"Seconds to wait before the same call, with 429."`
	Body       Called
}

// callHandlers serve the operations on calls.
type callHandlers struct {
	calls    haft.Calls
	operator haft.Operator
	agents   haft.Agents
	streams  *streams
	engine   Engine // may be nil
}

// calls registers the operations on calls.
func (a *api) calls() {
	g := a.group("calls", haft.CallsRead, haft.CallsWrite)
	h := callHandlers{a.s.service, a.s.service, a.s.service, a.s.streams, a.s.cfg.Engine}
	other := []int{http.StatusAccepted, http.StatusForbidden, http.StatusTooManyRequests}
	register(g.op("POST /v1/calls", "call", "Call a tool").about("200 has the result, also if the tool failed: "+
		"`status` says so. 202 means that it goes on: it is asynchronous, or waits for a "+
		"person. 403 and 429 as application/json have the result of a call that a rule forbids (`permission_denied`) "+
		"or that came too early (`rate_limited`), and nothing ran for it unless `tries` says so; as "+
		"application/problem+json there is no call. 429 and 503 have Retry-After.").
		answers(0, other...).conflicts(), h.makeCall)
	register(g.op("GET /v1/calls", "list-calls", "List calls, newest first"), h.listCalls)
	register(g.op("POST /v1/calls/batch", "batch", "Make several calls, beside each other where their tools allow it"),
		h.batch)
	register(g.op("POST /v1/calls/cancel", "cancel-calls", "Cancel all calls of a user or an agent, or one's own"),
		h.cancelAll)
	register(g.op("GET /v1/calls/{id}", "show-call", "Show what is kept of a call"), h.showCall)
	register(g.op("POST /v1/calls/{id}/cancel", "cancel-call", "Cancel a call; one that has ended stays as it is"),
		h.cancelCall)
	register(g.op("POST /v1/calls/{id}/replay", "replay-call", "Call the same version with the same arguments again").
		answers(0, other...).conflicts(), h.replayCall)
	register(g.op("POST /v1/tool_calls", rawOperation, "Run what a model returned, and get the messages to append"),
		h.toolCalls)
}

// call makes a call of a body.
func (b CallBody) call(p haft.Principal, trace string) haft.Call {
	return haft.Call{
		Tool: b.Tool, Digest: b.Digest, Args: b.Args, Principal: p, IdempotencyKey: b.IdempotencyKey,
		Deadline: b.Deadline,
		Env:      b.Env, Files: callFiles(b.Files), Workspace: b.Workspace.call(),
		Sandbox: b.Sandbox, Template: b.Template, Limits: b.Limits, Turn: b.Turn,
		Trace: traceparent(trace),
	}
}

// traceparent returns h if it is a W3C trace context, and "" otherwise: a broken header
// must not fail a call.
func traceparent(h string) string {
	parts := strings.Split(h, "-")
	if len(parts) != 4 || len(parts[0]) != 2 || len(parts[1]) != 32 || len(parts[2]) != 16 || len(parts[3]) != 2 ||
		parts[0] == "ff" {
		return ""
	}
	if strings.ContainsFunc(strings.Join(parts, ""),
		func(r rune) bool { return (r < '0' || r > '9') && (r < 'a' || r > 'f') }) {
		return ""
	}
	return h
}

func (h callHandlers) makeCall(ctx context.Context, who Identity, in *makeCall) (*answered, error) {
	b := in.Body
	switch {
	case b.IdempotencyKey == "":
		b.IdempotencyKey = in.IdempotencyKey
	case in.IdempotencyKey != "" && in.IdempotencyKey != b.IdempotencyKey:
		return nil, &haft.Error{Code: haft.CodeInvalid,
			Message: "the header Idempotency-Key and idempotency_key differ"}
	}
	if !b.Wait.set && strings.Contains(in.Prefer, "respond-async") {
		b.Wait = Wait{true, 0}
	}
	p, err := who.As(ctx, h.agents, b.Agent)
	if err != nil {
		return nil, err
	}
	c := b.call(p, in.Trace)
	if !b.Wait.set || b.Wait.until < 0 {
		res, err := h.calls.Call(ctx, c)
		if err != nil {
			return nil, listsTools(err)
		}
		return answer(res), nil
	}
	if b.Wait.until > 0 { // before the call is made: a caller that gets 429 sends it again
		leave, err := h.streams.count(who.Principal)
		if err != nil {
			return nil, err
		}
		defer leave()
	}
	rec, err := h.calls.Submit(ctx, c)
	if err != nil {
		return nil, listsTools(err)
	}
	return h.await(ctx, p, rec, b.Wait.until)
}

// listsTools adds to the error of a call whose tool is not there where to look. That a tool is there which the caller
// may not see is not said.
func listsTools(err error) error {
	if haft.CodeOf(err) != haft.CodeNotFound || !strings.HasSuffix(haft.MessageOf(err), "no such tool") {
		return err
	}
	return &haft.Error{Code: haft.CodeNotFound, Err: err,
		Message: haft.MessageOf(err) + "; GET /v1/tools lists the tools that you can call"}
}

// await waits for a submitted call and answers with its state then. If it waits, the
// caller has counted the request among the streams.
func (h callHandlers) await(ctx context.Context, p haft.Principal, rec *haft.Record,
	most time.Duration) (*answered, error) {
	if most > 0 && h.engine != nil && !rec.Status.Final() {
		waiting, cancel := context.WithTimeout(ctx, most)
		res, err := h.engine.Wait(waiting, p, rec.Call.ID)
		cancel()
		if err == nil {
			return answer(res), nil
		}
		if !errors.Is(err, context.DeadlineExceeded) || ctx.Err() != nil {
			return nil, err
		}
	}
	if rec.Result != nil {
		return answer(rec.Result), nil
	}
	return answer(&haft.Result{Call: rec.Call.ID, Tool: rec.Call.Tool, Digest: rec.Digest, Status: rec.Status,
		Value: json.RawMessage("null"),
		Sandbox: haft.Sandbox{Provider: "none", Isolation: haft.Isolation{Level: haft.LevelNone,
			Controls: []haft.Control{}}}}), nil
}

// answer answers with a result.
func answer(res *haft.Result) *answered {
	status, wait := resultStatus(res)
	return &answered{Status: status, Location: "/v1/calls/" + string(res.Call), RetryAfter: haft.RetrySeconds(wait),
		Body: Called{res.Call, *res}}
}

type listCalls struct {
	Paging
	User   string       `query:"user" maxLength:"200"`
	Agent  string       `query:"agent" maxLength:"200"`
	Tool   string       `query:"tool" maxLength:"200"`
	Turn   string       `query:"turn" maxLength:"200"`
	Parent haft.CallID  `query:"parent" maxLength:"200"`
	Status []string     `query:"status" maxItems:"20" enum:"success,error,timeout,limit,validation_error,permission_denied,rate_limited,queued,running,pending_approval,denied_by_approver,cancelled,unknown" doc:"Any of these, with commas between."`
	Chain  haft.ChainID `query:"chain" maxLength:"200" doc:"The chain of which they are steps."`
	Sort   string       `query:"sort" enum:"-created,created" default:"-created" doc:"Newest or oldest first."`
	Since  time.Time    `query:"since"`
	Until  time.Time    `query:"until"`
	Before haft.CallID  `query:"before" maxLength:"200" doc:"The id of a call: only those that were made before it are listed. The cursor of a page does the same."`
}

func (h callHandlers) listCalls(ctx context.Context, who Identity, in *listCalls) (*Listed[haft.Record], error) {
	before, err := in.at("calls")
	if err != nil {
		return nil, err
	}
	f := haft.CallFilter{
		User: in.User, Agent: agentID(ctx, h.agents, who, in.Agent), Tool: in.Tool, Turn: in.Turn, Parent: in.Parent,
		Chain: in.Chain, Oldest: in.Sort == "created", Since: in.Since, Until: in.Until,
		Before: cmp.Or(haft.CallID(before), in.Before), Limit: in.Limit + 1,
	}
	for _, status := range in.Status {
		f.Status = append(f.Status, haft.Status(status))
	}
	return collect(h.calls.Records(ctx, who.Principal, f), in.Paging, "calls", nil,
		func(r haft.Record) string { return string(r.Call.ID) })
}

// agentID returns the id of an agent for filters, since calls and events have ids. The id
// of a removed agent is returned unchanged.
func agentID(ctx context.Context, agents haft.Agents, who Identity, ref string) string {
	if ref == "" || ref == who.Principal.Agent {
		return ref
	}
	if a, err := agents.Agent(ctx, who.Principal, ref); err == nil {
		return string(a.ID)
	}
	return ref
}

// CallRef names a call in a path.
type CallRef struct {
	ID haft.CallID `path:"id" maxLength:"200"`
}

type showCall struct {
	CallRef
	Wait float64 `query:"wait" minimum:"0" maximum:"600" doc:"Wait so many seconds for the end of the call."`
}

func (h callHandlers) showCall(ctx context.Context, who Identity, in *showCall) (*shown[haft.Record], error) {
	r, err := h.calls.Record(ctx, who.Principal, in.ID)
	if err != nil {
		return nil, err
	}
	if in.Wait > 0 && h.engine != nil && !r.Status.Final() && r.Status != haft.StatusPending {
		leave, err := h.streams.count(who.Principal)
		if err != nil {
			return nil, err
		}
		defer leave()
		waiting, cancel := context.WithTimeout(ctx, time.Duration(in.Wait*float64(time.Second)))
		_, err = h.engine.Wait(waiting, who.Principal, in.ID)
		cancel()
		if err != nil && !errors.Is(err, context.DeadlineExceeded) {
			return nil, err
		}
		if r, err = h.calls.Record(ctx, who.Principal, in.ID); err != nil {
			return nil, err
		}
	}
	return &shown[haft.Record]{*r}, nil
}

func (h callHandlers) cancelCall(ctx context.Context, who Identity, in *CallRef) (*struct{}, error) {
	return nil, h.calls.Cancel(ctx, who.Principal, in.ID)
}

func (h callHandlers) replayCall(ctx context.Context, who Identity, in *CallRef) (*answered, error) {
	res, err := h.calls.Replay(ctx, who.Principal, in.ID)
	if err != nil {
		return nil, err
	}
	return answer(res), nil
}

type batch struct {
	Trace string `header:"Traceparent" maxLength:"8192"`
	Body  struct {
		Calls []CallBody `json:"calls" minItems:"1" maxItems:"128" nullable:"false"`
	}
}

type batched struct {
	Body struct {
		Results []*haft.Result `json:"results" nullable:"false"`
	}
}

func (h callHandlers) batch(ctx context.Context, who Identity, in *batch) (*batched, error) {
	calls := make([]haft.Call, len(in.Body.Calls))
	for i, b := range in.Body.Calls {
		if ctx.Err() != nil {
			return nil, context.Cause(ctx) // the client has left
		}
		p, err := who.As(ctx, h.agents, b.Agent)
		if err != nil {
			return nil, err
		}
		calls[i] = b.call(p, in.Trace)
	}
	results, err := h.calls.Batch(ctx, calls)
	if err != nil {
		return nil, err
	}
	out := &batched{}
	out.Body.Results = results
	return out, nil
}

type cancelAll struct {
	Body struct {
		User  string `json:"user,omitempty" maxLength:"200" doc:"Whose calls; one's own if neither is given."`
		Agent string `json:"agent,omitempty" maxLength:"200"`
		All   bool   `json:"all,omitempty" doc:"All calls of the organisation, which is for managers."`
	}
}

type cancelled struct {
	Body struct {
		Cancelled int `json:"cancelled"`
	}
}

func (h callHandlers) cancelAll(ctx context.Context, who Identity, in *cancelAll) (*cancelled, error) {
	of := haft.Principal{Org: who.Principal.Org, User: in.Body.User, Agent: in.Body.Agent}
	if in.Body.All && (of.User != "" || of.Agent != "") {
		return nil, &haft.Error{Code: haft.CodeInvalid,
			Message: "either all calls are meant, or those of a user or an agent"}
	}
	if !in.Body.All && of.User == "" && of.Agent == "" {
		of.User, of.Agent, of.Credential = who.Principal.User, who.Principal.Agent, who.Principal.Credential
	}
	if who.Principal.Agent != "" && (of.User != who.Principal.User || of.Agent != who.Principal.Agent) {
		return nil, &haft.Error{Code: haft.CodeDenied, Message: "an agent cancels its own calls only"}
	}
	if of.Agent != "" && of.Agent != who.Principal.Agent {
		a, err := h.agents.Agent(ctx, who.Principal, of.Agent)
		if err != nil {
			return nil, err
		}
		of.Agent = string(a.ID)
	}
	n, err := h.operator.CancelAll(ctx, who.Principal, of)
	if err != nil {
		return nil, err
	}
	out := &cancelled{}
	out.Body.Cancelled = n
	return out, nil
}

type toolCalls struct {
	Format string          `query:"format" enum:"openai,openai-responses,anthropic,gemini" doc:"The form of the body, where it does not show it itself."`
	Agent  string          `query:"agent" maxLength:"200" doc:"The agent that calls, by name or id."`
	Turn   string          `query:"turn" maxLength:"200"`
	Whole  bool            `query:"whole" doc:"Answer with {format, messages, calls}, the same for every vendor: a list of messages to append, and each call with its id, name and result."`
	Trace  string          `header:"Traceparent" maxLength:"8192"`
	Body   json.RawMessage `doc:"What the model returned, unchanged."`
}

func (h callHandlers) toolCalls(ctx context.Context, who Identity, in *toolCalls) (*shown[json.RawMessage], error) {
	p, err := who.As(ctx, h.agents, in.Agent)
	if err != nil {
		return nil, err
	}
	raw, err := modelapi.Answer(in.Body, in.Format, in.Whole, func(calls []haft.Call) ([]*haft.Result, error) {
		for i := range calls {
			calls[i].Principal, calls[i].Turn, calls[i].Trace = p, in.Turn, traceparent(in.Trace)
		}
		return h.calls.Batch(ctx, calls)
	})
	if err != nil {
		return nil, err
	}
	return &shown[json.RawMessage]{raw}, nil
}
