package engine

import (
	"context"

	"haft"
	"haft/internal/authority"
)

// Seen returns the record of a call, if one of the actions lets p have it. What p
// may not see is not there.
func (en *entrance) Seen(ctx context.Context, p haft.Principal, id haft.CallID,
	actions ...haft.Action) (*haft.Record, error) {
	if err := en.authority.Any(p, authority.Resource{}, actions...); err != nil {
		return nil, err
	}
	r, err := en.store.Calls.Record(ctx, p.Org, id)
	if err != nil {
		return nil, err
	}
	if err := en.authority.Any(p, authority.Owned("call", r.Call.Principal), actions...); err != nil {
		return nil, notThere("call", err)
	}
	return r, nil
}

// notThere makes an error say that something is not there, whatever the reason: who
// may not see a thing must not learn whether there is one.
func notThere(kind string, err error) error {
	return &haft.Error{Code: haft.CodeNotFound, Message: "there is no such " + kind, Err: err}
}
