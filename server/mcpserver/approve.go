package mcpserver

import (
	"bytes"
	"context"
	"crypto/hmac"
	"encoding/json"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"haft"
)

// question is the name of what a client is asked.
const question = "approval"

// maxShown bounds the arguments that a person is shown.
const maxShown = 4000

// statelessVersion is the first version of the protocol in which the server asks clients
// by an answer and not by a request.
const statelessVersion = "2026-07-28"

// askPerson asks the person at the client to approve a waiting call, if policy lets that
// person answer and the client can ask. Otherwise the result says how to continue.
func (v *view) askPerson(ctx context.Context, r *mcp.CallToolRequest, t haft.Tool,
	res *haft.Result) (*mcp.CallToolResult, error) {
	form, ok := v.elicitation(ctx, r, res)
	if !ok {
		return v.resultOf(t, res), nil
	}
	if r.ProtocolVersion() >= statelessVersion {
		return &mcp.CallToolResult{InputRequests: mcp.InputRequestMap{question: form}, RequestState: v.state(res)}, nil
	}
	answer, err := r.Session.Elicit(ctx, form)
	if err != nil {
		// The client says that it can ask, and does not: the call goes on waiting.
		v.s.cfg.Logger.Debug("a client could not be asked", "call", res.Call, "err", err)
		return v.resultOf(t, res), nil
	}
	return v.decide(ctx, t, res, answer)
}

// elicitation returns the question for the person, if there is a person to ask.
func (v *view) elicitation(ctx context.Context, r *mcp.CallToolRequest, res *haft.Result) (*mcp.ElicitParams, bool) {
	caps := r.ClientCapabilities()
	if v.s.cfg.Wait == nil || v.who.Person.Org == "" || v.who.Person.Org != v.who.Principal.Org ||
		v.who.Person.Agent != "" ||
		caps == nil || caps.Elicitation == nil || caps.Elicitation.Form == nil && caps.Elicitation.URL != nil {
		return nil, false
	}
	for a, err := range v.s.service.Approvals(ctx, v.who.Person, haft.ApprovalFilter{}) {
		if err != nil {
			return nil, false
		}
		if a.ID != res.Approval {
			continue
		}
		return &mcp.ElicitParams{
			Message: "May the tool " + a.Tool + " be called with these arguments?\n" + shownArgs(a.Args) +
				shownTerms(a.Terms),
			RequestedSchema: json.RawMessage(`{"type":"object","properties":{` +
				`"approve":{"type":"boolean","title":"Agree","description":"Agree to exactly this call","default":false},` +
				`"reason":{"type":"string","title":"Reason","description":"Why, for the record","maxLength":500}},"required":["approve"]}`),
		}, true
	}
	return nil, false
}

// shownArgs are the arguments as a person reads them.
func shownArgs(args json.RawMessage) string {
	var b bytes.Buffer
	if json.Indent(&b, args, "", "  ") != nil {
		return "(they cannot be shown)"
	}
	return clip(b.String(), "haft approvals")
}

// clip cuts a text that is too long to be shown, and names the command that shows all.
func clip(text, command string) string {
	if len(text) > maxShown {
		text = strings.ToValidUTF8(text[:maxShown], "") + "\n… and more: look at all of it with " + command
	}
	return text
}

// shownTerms are what else changes the effect of a call and is not as usual, as a
// person reads it.
func shownTerms(t *haft.Terms) string {
	if t == nil {
		return ""
	}
	var b strings.Builder
	line := func(what string, list []string) {
		if len(list) > 0 {
			b.WriteString("\n" + what + ": " + strings.Join(list, ", "))
		}
	}
	var env []string
	for _, v := range t.Env {
		env = append(env, v.String())
	}
	line("Environment", env)
	line("Network", t.Network)
	line("Packages", append(append([]string{}, t.Requirements.Pip...), t.Requirements.NPM...))
	if t.Sandbox != "" {
		line("Sandbox", []string{t.Sandbox})
	}
	if t.Server != nil {
		line("Server", []string{t.Server.Name, t.Server.URL + strings.Join(t.Server.Command, " ")})
		for _, m := range t.Server.Mounts {
			line("Mount", []string{m.Dir})
		}
	}
	return clip(b.String(), "haft approvals show")
}

// decide passes the answer of the person on, and waits for the end of the call. Policy decides
// again whether the person may answer.
func (v *view) decide(ctx context.Context, t haft.Tool, res *haft.Result,
	given *mcp.ElicitResult) (*mcp.CallToolResult, error) {
	if given.Action != "accept" && given.Action != "decline" {
		return v.resultOf(t, res), nil // put off: another person may answer
	}
	answer := haft.Answer{}
	if given.Action == "accept" {
		answer.Approve, _ = given.Content["approve"].(bool)
	}
	answer.Reason, _ = given.Content["reason"].(string)
	answer.Reason = strings.ToValidUTF8(answer.Reason[:min(len(answer.Reason), 500)], "")
	if _, err := v.s.service.Decide(ctx, v.who.Person, res.Approval, answer); err != nil {
		if code := haft.CodeOf(err); code == haft.CodeDenied || code == haft.CodeInvalid {
			return v.resultOf(t, res), nil // not for this person to say: it goes on waiting
		} else if code != haft.CodeConflict {
			return nil, toRPCError(err)
		}
		// Another person answered first, and that answer counts.
	}
	done, err := v.s.cfg.Wait(ctx, v.who.Principal, res.Call)
	if ctx.Err() != nil {
		if err := v.s.service.Cancel(context.WithoutCancel(ctx), v.who.Principal, res.Call); err != nil {
			v.s.cfg.Logger.Debug("a call could not be cancelled", "call", res.Call, "err", err)
		}
	}
	if err != nil {
		return nil, toRPCError(err)
	}
	return v.resultOf(t, done), nil
}

// A state is what a client brings back with the answer.
type state struct {
	Call     haft.CallID     `json:"c"`
	Approval haft.ApprovalID `json:"a"`
}

// state vouches that the call is one of this caller's that waits.
func (v *view) state(res *haft.Result) string {
	raw, err := json.Marshal(state{res.Call, res.Approval})
	if err != nil { // cannot happen: the types are ours
		return ""
	}
	return string(raw) + "." + v.mac("state", string(raw))
}

// resume goes on with a call about which the client asked its person.
func (v *view) resume(ctx context.Context, r *mcp.CallToolRequest, name string) (*mcp.CallToolResult, error) {
	invalid := &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: "requestState is not one of this caller's"}
	text := r.Params.RequestState
	i := strings.LastIndexByte(text, '.')
	if i < 0 || !hmac.Equal([]byte(text[i+1:]), []byte(v.mac("state", text[:i]))) {
		return nil, invalid
	}
	var st state
	if err := json.Unmarshal([]byte(text[:i]), &st); err != nil {
		return nil, invalid
	}
	who := v.who.Principal
	who.Actions = nil // it is the caller's own call, which the state vouches for: no scope to read calls is needed
	rec, err := v.s.service.Record(ctx, who, st.Call)
	if err != nil {
		return nil, toRPCError(err)
	}
	if name != callName && rec.Call.Tool != name {
		return nil, invalid
	}
	t, err := v.s.service.Tool(ctx, v.who.Principal, rec.Call.Tool)
	if err != nil {
		return nil, toRPCError(err)
	}
	waiting := &haft.Result{Call: st.Call, Tool: rec.Call.Tool, Status: haft.StatusPending, Approval: st.Approval,
		Value: json.RawMessage("null")}
	given, ok := r.Params.InputResponses[question].(*mcp.ElicitResult)
	if !ok || given == nil {
		form, ok := v.elicitation(ctx, r, waiting)
		if !ok {
			return v.resultOf(*t, waiting), nil
		}
		return &mcp.CallToolResult{InputRequests: mcp.InputRequestMap{question: form}, RequestState: text}, nil
	}
	return v.decide(ctx, *t, waiting, given)
}
