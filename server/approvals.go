package server

import (
	"cmp"
	"context"
	"encoding/json"
	"strconv"
	"time"

	"haft"
)

// approvalHandlers serve the operations on requests that wait for a person.
type approvalHandlers struct {
	approver haft.Approver
	agents   haft.Agents
}

// approvals registers the operations on requests that wait for a person.
func (a *api) approvals() {
	h, g := approvalHandlers{a.s.service, a.s.service}, a.group("approvals", haft.ApprovalsRead, haft.ApprovalsWrite)
	register(g.op("GET /v1/approvals", "list-approvals",
		"List the requests for approval, oldest first; if nothing else is said, those that wait"), h.listApprovals)
	register(g.op("GET /v1/approvals/{id}", "show-approval", "Show a request, whatever became of it"), h.showApproval)
	register(g.op("POST /v1/approvals/{id}/approve", "approve",
		"Agree to a call, once, with the arguments that were shown or others").conflicts(), h.approve)
	register(g.op("POST /v1/approvals/{id}/deny", "deny", "Refuse a call").conflicts(), h.deny)
}

type listApprovals struct {
	Paging
	State   string          `query:"state" enum:"pending,approved,denied,expired,used,any" default:"pending"`
	Tool    string          `query:"tool" maxLength:"200" doc:"The name of a tool."`
	User    string          `query:"user" maxLength:"200" doc:"Who asks."`
	Agent   string          `query:"agent" maxLength:"200" doc:"The agent that asks, by name or id."`
	After   time.Time       `query:"after" doc:"When a request was made: only those behind it are listed. The cursor of a page does the same."`
	AfterID haft.ApprovalID `query:"after_id" maxLength:"200" doc:"With after: the id of that request."`
}

func (h approvalHandlers) listApprovals(ctx context.Context, who Identity,
	in *listApprovals) (*Listed[haft.Approval], error) {
	at, err := in.at("approvals")
	if err != nil {
		return nil, err
	}
	// The last request of the previous page may be answered by now. So the cursor has its time
	// and id, and the request itself is not looked up.
	id, after, err := splitTime(at, in.After)
	if err != nil {
		return nil, err
	}
	f := haft.ApprovalFilter{State: haft.ApprovalState(in.State), Tool: in.Tool, User: in.User,
		Agent: agentID(ctx, h.agents, who, in.Agent),
		After: after, AfterID: cmp.Or(haft.ApprovalID(id), in.AfterID), Limit: in.Limit + 1}
	if in.State == "any" {
		f.State, f.Any = "", true
	}
	return collect(h.approver.Approvals(ctx, who.Principal, f), in.Paging, "approvals", nil,
		func(a haft.Approval) string {
			return strconv.FormatInt(a.Created.UnixMicro(), 10) + "." + string(a.ID)
		})
}

func (h approvalHandlers) showApproval(ctx context.Context, who Identity,
	in *ApprovalRef) (*shown[haft.Approval], error) {
	return show(h.approver.Approval(ctx, who.Principal, in.ID))
}

// ApprovalRef names a request for approval in a path.
type ApprovalRef struct {
	ID haft.ApprovalID `path:"id" maxLength:"200"`
}

type approve struct {
	ApprovalRef
	Body *struct {
		Reason string          `json:"reason,omitempty" maxLength:"2000"`
		Args   json.RawMessage `json:"args,omitempty" doc:"Arguments that replace those that were asked for."`
	}
}

type deny struct {
	ApprovalRef
	Body *struct {
		Reason string `json:"reason,omitempty" maxLength:"2000"`
	}
}

func (h approvalHandlers) approve(ctx context.Context, who Identity, in *approve) (*shown[haft.Approval], error) {
	answer := haft.Answer{Approve: true}
	if in.Body != nil {
		answer.Reason, answer.Args = in.Body.Reason, in.Body.Args
	}
	return show(h.approver.Decide(ctx, who.Principal, in.ID, answer))
}

func (h approvalHandlers) deny(ctx context.Context, who Identity, in *deny) (*shown[haft.Approval], error) {
	answer := haft.Answer{}
	if in.Body != nil {
		answer.Reason = in.Body.Reason
	}
	return show(h.approver.Decide(ctx, who.Principal, in.ID, answer))
}
