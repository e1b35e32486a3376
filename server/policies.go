package server

import (
	"cmp"
	"context"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"haft"
)

// yaml is the media type of policies (RFC 9512).
const yaml = "application/yaml"

// PolicyRef names a policy in a path.
type PolicyRef struct {
	Of string `path:"of" enum:"organisation,server" doc:"Whose: that of the caller's organisation, or of the whole server."`
}

// policies are the operations on the documents that say who may do what.
func (a *api) policies() {
	const tag = "policies"
	register(a, operation{method: http.MethodGet, path: "/v1/policies/{of}", id: "show-policy",
		action: haft.PoliciesRead, tag: tag, summary: "Show a policy, as it was written"}, a.s.showPolicy)
	register(a, operation{method: http.MethodPut, path: "/v1/policies/{of}", id: "put-policy",
		action: haft.PoliciesWrite, tag: tag, summary: "Replace a policy; one that is wrong changes nothing",
		errors: []int{http.StatusConflict, http.StatusPreconditionFailed}}, a.s.putPolicy)
	register(a, operation{method: http.MethodPost, path: "/v1/policies/explain", id: "explain",
		action: haft.PoliciesRead, tag: tag, summary: "Say what policy would decide about a call, and why",
		errors: []int{http.StatusNotFound}}, a.s.explain)
	item := a.OpenAPI().Paths["/v1/policies/{of}"]
	text := map[string]*huma.MediaType{yaml: {Schema: &huma.Schema{Type: huma.TypeObject,
		Description: "A policy, as YAML."}}}
	item.Get.Responses["200"].Content = text
	item.Put.RequestBody.Content = text
}

type policyText struct {
	Type string `header:"Content-Type"`
	ETag string `header:"ETag"`
	Body []byte
}

// policyOf returns whether a policy is the server's, and why it may not be touched.
func (s *Server) policyOf(who Identity, in PolicyRef, a haft.Action) (bool, error) {
	if s.cfg.Policies == nil {
		return false, absent("policies")
	}
	if in.Of == "server" {
		return true, who.operator(a)
	}
	return false, nil
}

func (s *Server) showPolicy(ctx context.Context, who Identity, in *PolicyRef) (*policyText, error) {
	server, err := s.policyOf(who, *in, haft.PoliciesRead)
	if err != nil {
		return nil, err
	}
	kept, err := s.cfg.Policies.Policy(ctx, who.Principal, server)
	if err != nil {
		return nil, err
	}
	if len(kept.Text) == 0 {
		return nil, &haft.Error{Code: haft.CodeNotFound, Message: "no policy was written for it yet"}
	}
	return &policyText{yaml, quote(kept.Revision()), kept.Text}, nil
}

type putPolicy struct {
	PolicyRef
	Condition
	RawBody []byte `contentType:"application/yaml"`
}

type keptPolicy struct {
	ETag string `header:"ETag"`
}

func (s *Server) putPolicy(ctx context.Context, who Identity, in *putPolicy) (*keptPolicy, error) {
	server, err := s.policyOf(who, in.PolicyRef, haft.PoliciesWrite)
	if err != nil {
		return nil, err
	}
	next := haft.PolicyText{Text: append([]byte(nil), in.RawBody...)} // the library takes its buffer back
	if in.Condition != (Condition{}) {
		now, err := s.cfg.Policies.Policy(ctx, who.Principal, server)
		if err != nil {
			return nil, err
		}
		if next.If, err = in.revision(now.Revision()); err != nil {
			return nil, err
		}
	}
	kept, err := s.cfg.Policies.PutPolicy(ctx, who.Principal, server, next)
	if err != nil {
		return nil, in.failed(err)
	}
	return &keptPolicy{quote(kept.Revision())}, nil
}

type explain struct {
	Body struct {
		CallBody
		User  string   `json:"user,omitempty" maxLength:"200" doc:"As if that user called, which is for managers."`
		Roles []string `json:"roles,omitempty" maxItems:"50" maxLength:"256" doc:"As if with these roles."`
	}
}

type explained struct{ Body any }

func (s *Server) explain(ctx context.Context, who Identity, in *explain) (*explained, error) {
	if s.cfg.Explain == nil {
		return nil, absent("policies")
	}
	p, err := s.as(ctx, who, in.Body.Agent)
	if err != nil {
		return nil, err
	}
	if in.Body.User != "" || in.Body.Roles != nil {
		// What if somebody else called: that shows what others may do.
		if err := who.Permit(haft.PoliciesRead); err != nil {
			return nil, err
		}
		// What their credential is confined to is not known: that of this one says nothing.
		p.User, p.Roles, p.Scope = cmp.Or(in.Body.User, p.User), in.Body.Roles, nil
	}
	decision, err := s.cfg.Explain(ctx, in.Body.call(p, ""))
	if err != nil {
		return nil, err
	}
	return &explained{decision}, nil
}
