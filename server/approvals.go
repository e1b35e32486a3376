package server

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"

	"haft"
)

// approvals are the operations on requests that wait for a person.
func (a *api) approvals() {
	const tag = "approvals"
	register(a, operation{method: http.MethodGet, path: "/v1/approvals", id: "list-approvals", action: ApprovalsRead, tag: tag, summary: "List the requests that wait for a person"}, a.s.listApprovals)
	register(a, operation{method: http.MethodPost, path: "/v1/approvals/{id}/approve", id: "approve", action: ApprovalsWrite, tag: tag, summary: "Agree to a call, once, with the arguments that were shown or others", errors: []int{http.StatusConflict}}, a.s.approve)
	register(a, operation{method: http.MethodPost, path: "/v1/approvals/{id}/deny", id: "deny", action: ApprovalsWrite, tag: tag, summary: "Refuse a call", errors: []int{http.StatusConflict}}, a.s.deny)
}

func (s *Server) listApprovals(ctx context.Context, who Identity, in *Paging) (*listed[haft.Approval], error) {
	after, err := in.at("approvals")
	if err != nil {
		return nil, err
	}
	// The one that the page before ended with may be answered by now, so that it is
	// not looked for but passed.
	return collect(s.service.Approvals(ctx, who.Principal, haft.ApprovalFilter{}), *in, "approvals",
		func(a haft.Approval) bool { return asked(a) <= after }, asked)
}

// asked is a text by which requests are ordered as they are listed: oldest first.
func asked(a haft.Approval) string {
	return fmt.Sprintf("%020d.%s", a.Created.UnixMicro(), a.ID)
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

type oneApproval struct{ Body haft.Approval }

func (s *Server) approve(ctx context.Context, who Identity, in *approve) (*oneApproval, error) {
	answer := haft.Answer{Approve: true}
	if in.Body != nil {
		answer.Reason, answer.Args = in.Body.Reason, in.Body.Args
	}
	return s.decide(ctx, who, in.ID, answer)
}

func (s *Server) deny(ctx context.Context, who Identity, in *deny) (*oneApproval, error) {
	answer := haft.Answer{}
	if in.Body != nil {
		answer.Reason = in.Body.Reason
	}
	return s.decide(ctx, who, in.ID, answer)
}

func (s *Server) decide(ctx context.Context, who Identity, id haft.ApprovalID, answer haft.Answer) (*oneApproval, error) {
	a, err := s.service.Decide(ctx, who.Principal, id, answer)
	if err != nil {
		return nil, err
	}
	return &oneApproval{*a}, nil
}
