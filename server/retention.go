package server

import (
	"context"
	"net/http"

	"haft"
)

// retention is how long calls are kept.
func (a *api) retention() {
	const tag = "retention"
	register(a, operation{method: http.MethodGet, path: "/v1/retention", id: "retention", action: haft.PoliciesRead,
		tag:     tag,
		summary: "Say how long calls are kept, and how many there are"}, a.s.showRetention)
	register(a, operation{method: http.MethodPut, path: "/v1/retention", id: "set-retention",
		action: haft.PoliciesWrite, tag: tag,
		summary: "Set how long calls are kept",
		about: "A manager sets bounds up to `most`; the operator of the server sets any, and `most` with them. A " +
			"bound that is left out, or 0, is that of the server; -1 means none."}, a.s.setRetention)
}

// RetentionOf says whose retention it is.
type RetentionOf struct {
	Org string `query:"org" maxLength:"200" doc:"The organisation, for the operator of the server; that of the caller if it is left out."`
}

// ofOrg reports why who may not do an action to an organisation: another one is for the
// operator of the server.
func ofOrg(who Identity, a haft.Action, org string) error {
	if org == "" || org == who.Principal.Org {
		return nil
	}
	return who.operator(a)
}

type kept struct{ Body *haft.Kept }

func (s *Server) showRetention(ctx context.Context, who Identity, in *RetentionOf) (*kept, error) {
	if s.cfg.Retainer == nil {
		return nil, absent("retention")
	}
	if err := ofOrg(who, haft.PoliciesRead, in.Org); err != nil {
		return nil, err
	}
	k, err := s.cfg.Retainer.Retention(ctx, who.Principal, in.Org)
	return &kept{k}, err
}

type setRetention struct {
	RetentionOf
	Body haft.Retention
}

func (s *Server) setRetention(ctx context.Context, who Identity, in *setRetention) (*kept, error) {
	if s.cfg.Retainer == nil {
		return nil, absent("retention")
	}
	if err := ofOrg(who, haft.PoliciesWrite, in.Org); err != nil {
		return nil, err
	}
	k, err := s.cfg.Retainer.SetRetention(ctx, who.Principal, in.Org, in.Body)
	return &kept{k}, err
}
