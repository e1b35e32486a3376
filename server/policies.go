package server

import (
	"cmp"
	"context"

	"github.com/danielgtaylor/huma/v2"

	"haft"
)

// yaml is the media type of policies (RFC 9512).
const yaml = "application/yaml"

// PolicyRef names a policy in a path.
type PolicyRef struct {
	Of string `path:"of" enum:"organisation,server" doc:"Whose: that of the caller's organisation, or of the whole server."`
}

// policyHandlers serve the operations on policies.
type policyHandlers struct {
	policies Policies
	engine   Engine
	agents   haft.Agents
}

// policies registers the operations on policies.
func (a *api) policies() {
	h := policyHandlers{a.s.cfg.Policies, a.s.cfg.Engine, a.s.service}
	g := a.group("policies", haft.PoliciesRead, haft.PoliciesWrite).needs(h.policies != nil, "policies")
	explain := a.group("policies", haft.PoliciesRead, haft.PoliciesRead).needs(h.engine != nil, "policies")
	text := mediaTypes{yaml: {Schema: &huma.Schema{Type: huma.TypeObject, Description: "A policy, as YAML."}}}
	register(g.op("GET /v1/policies/{of}", "show-policy", "Show a policy, as it was written").writes(text),
		h.showPolicy)
	register(g.op("PUT /v1/policies/{of}", "put-policy", "Replace a policy; one that is wrong changes nothing").
		conditional(), h.putPolicy)
	register(explain.op("POST /v1/policies/explain", "explain", "Say what policy would decide about a call, and why"),
		h.explain)
	a.OpenAPI().Paths["/v1/policies/{of}"].Put.RequestBody.Content = text
}

type policyText struct {
	Type string `header:"Content-Type"`
	ETag string `header:"ETag"`
	Body []byte
}

// policyOf returns whether a policy is the server's, and why it may not be touched.
func policyOf(who Identity, in PolicyRef, a haft.Action) (bool, error) {
	if in.Of == "server" {
		return true, who.operator(a)
	}
	return false, nil
}

func (h policyHandlers) showPolicy(ctx context.Context, who Identity, in *PolicyRef) (*policyText, error) {
	server, err := policyOf(who, *in, haft.PoliciesRead)
	if err != nil {
		return nil, err
	}
	kept, err := h.policies.Policy(ctx, who.Principal, server)
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

func (h policyHandlers) putPolicy(ctx context.Context, who Identity, in *putPolicy) (*keptPolicy, error) {
	server, err := policyOf(who, in.PolicyRef, haft.PoliciesWrite)
	if err != nil {
		return nil, err
	}
	next := haft.PolicyText{Text: append([]byte(nil), in.RawBody...)} // the library takes its buffer back
	if in.Condition != (Condition{}) {
		now, err := h.policies.Policy(ctx, who.Principal, server)
		if err != nil {
			return nil, err
		}
		if next.If, err = in.revision(now.Revision()); err != nil {
			return nil, err
		}
	}
	kept, err := h.policies.PutPolicy(ctx, who.Principal, server, next)
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

func (h policyHandlers) explain(ctx context.Context, who Identity, in *explain) (*shown[any], error) {
	p, err := who.As(ctx, h.agents, in.Body.Agent)
	if err != nil {
		return nil, err
	}
	if in.Body.User != "" || in.Body.Roles != nil {
		// The decision for another user shows what that user may do.
		if err := who.Permit(haft.PoliciesRead); err != nil {
			return nil, err
		}
		// The scope of the other user's credential is not known, and that of this one does not
		// apply.
		p.User, p.Roles, p.Scope = cmp.Or(in.Body.User, p.User), in.Body.Roles, nil
	}
	decision, err := h.engine.Explain(ctx, in.Body.call(p, ""))
	if err != nil {
		return nil, err
	}
	return &shown[any]{decision}, nil
}
