package server

import (
	"context"

	"haft"
)

// retentionHandlers serve the operations on how long calls are stored.
type retentionHandlers struct{ retainer haft.Retainer }

// retention registers the operations on how long calls are stored.
func (a *api) retention() {
	h := retentionHandlers{a.s.cfg.Retainer}
	g := a.group("retention", haft.PoliciesRead, haft.PoliciesWrite).needs(h.retainer != nil, "retention")
	register(g.op("GET /v1/retention", "retention", "Say how long calls are kept, and how many there are"),
		h.showRetention)
	register(g.op("PUT /v1/retention", "set-retention", "Set how long calls are kept").
		about("A manager sets bounds up to `most`; the operator of the server sets any, and `most` with them. A "+
			"bound that is left out, or 0, is that of the server; -1 means none."), h.setRetention)
}

// RetentionOf says whose retention it is.
type RetentionOf struct {
	Org string `query:"org" maxLength:"200" doc:"The organisation, for the operator of the server; that of the caller if it is left out."`
}

// ofOrg reports why the caller may not do an action to an organisation: another one is for
// the operator of the server.
func ofOrg(who Identity, a haft.Action, org string) error {
	if org == "" || org == who.Principal.Org {
		return nil
	}
	return who.operator(a)
}

func (h retentionHandlers) showRetention(ctx context.Context, who Identity,
	in *RetentionOf) (*shown[haft.Kept], error) {
	if err := ofOrg(who, haft.PoliciesRead, in.Org); err != nil {
		return nil, err
	}
	return show(h.retainer.Retention(ctx, who.Principal, in.Org))
}

type setRetention struct {
	RetentionOf
	Body haft.Retention
}

func (h retentionHandlers) setRetention(ctx context.Context, who Identity,
	in *setRetention) (*shown[haft.Kept], error) {
	if err := ofOrg(who, haft.PoliciesWrite, in.Org); err != nil {
		return nil, err
	}
	return show(h.retainer.SetRetention(ctx, who.Principal, in.Org, in.Body))
}
