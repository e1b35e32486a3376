package engine

import (
	"context"

	"haft"
	"haft/internal/authority"
)

// Authorize reports why p may not do an action to a resource. Every method of the
// engine that somebody calls asks it first; nothing else here decides by roles,
// scopes or ownership. Whether p may call a tool is decided by the authorize stage.
func (e *Engine) Authorize(p haft.Principal, a haft.Action, res authority.Resource) error {
	return e.authority.Authorize(p, a, res)
}

// May is Authorize for what belongs to the organisation as a whole.
func (e *Engine) May(p haft.Principal, a haft.Action) error { return e.may(p, a) }

// may is Authorize for what belongs to the organisation.
func (e *Engine) may(p haft.Principal, a haft.Action) error {
	return e.authority.Authorize(p, a, authority.Resource{})
}

// Manage has do run if p may do the action, and writes to the audit that it was
// done, with what do returns.
func (e *Engine) Manage(ctx context.Context, p haft.Principal, a haft.Action, kind string,
	do func(context.Context) (any, error)) error {
	if err := e.may(p, a); err != nil {
		return err
	}
	body, err := do(ctx)
	if err != nil {
		return err
	}
	return e.log(ctx, p, kind, body)
}

// seen returns the record of a call, if one of the actions lets p have it. What p
// may not see is not there.
func (e *Engine) seen(ctx context.Context, p haft.Principal, id haft.CallID,
	actions ...haft.Action) (*haft.Record, error) {
	if err := e.authority.Any(p, authority.Resource{}, actions...); err != nil {
		return nil, err
	}
	r, err := e.store.Record(ctx, p.Org, id)
	if err != nil {
		return nil, err
	}
	if err := e.authority.Any(p, authority.Owned("call", r.Call.Principal), actions...); err != nil {
		return nil, notThere("call", err)
	}
	return r, nil
}

// approvalFor returns a request for approval that p may see, for an action. One that
// p may not see is not there, also for who would answer it.
func (e *Engine) approvalFor(ctx context.Context, p haft.Principal, id haft.ApprovalID,
	a haft.Action) (*haft.Approval, error) {
	if err := e.may(p, a); err != nil {
		return nil, err
	}
	found, err := e.store.Approval(ctx, p.Org, id)
	if err != nil {
		return nil, err
	}
	if !e.asked(ctx, p, *found) {
		return nil, notThere("approval", nil)
	}
	return found, nil
}

// asked reports whether p may see a request for approval: it is p's own, p sees
// those of everybody, or a rule has p answer it.
func (e *Engine) asked(ctx context.Context, p haft.Principal, a haft.Approval) bool {
	return e.Authorize(unconfined(p), haft.ApprovalsRead, authority.Owned("approval", a.Requester)) == nil ||
		e.answerable(ctx, p, a)
}

// notThere makes an error say that something is not there, whatever the reason: who
// may not see a thing must not learn whether there is one.
func notThere(kind string, err error) error {
	return &haft.Error{Code: haft.CodeNotFound, Message: "there is no such " + kind, Err: err}
}

// mayFind is may for tools, agents and MCP servers, which other actions look up by
// name: who may write a tool, or call one on behalf of an agent, finds it without
// the scope to read them all. The entry point has asked for the scope.
func (e *Engine) mayFind(p haft.Principal, a haft.Action) error { return e.may(unconfined(p), a) }

// unconfined returns p without what its credential is confined to.
func unconfined(p haft.Principal) haft.Principal {
	p.Actions = nil
	return p
}
