package engine

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"haft/internal/filestore"
	"maps"
	"slices"

	"haft"
	"haft/internal/limit"
)

// maxVariables is how many variables a request for approval lists.
const maxVariables = 200

// terms returns everything that changes the effect of a call besides its arguments. It
// is the one place that says what an approver is shown and what an approval binds. What
// the credentials webhook gives is not known yet: it is asked when the call runs, and
// not before a person has agreed.
func (au *authorizer) terms(ctx context.Context, ex *execution) (*haft.Terms, error) {
	v := ex.tool.Tool.Version
	t := &haft.Terms{
		Digest: v.Digest, Requirements: v.Requirements.And(ex.call.Requirements), Lock: v.Lock,
		Sandbox: cmp.Or(ex.place.Shown, ex.call.Sandbox, v.Settings.Sandbox), MinIsolation: au.isolation(ex),
		Limits: au.runLimits(ex).Shown(), Network: ex.wants(), Webhook: au.cfg.Credentials != nil,
		Files: filestore.WithoutContent(ex.call.Files), Programs: v.Settings.Programs,
		Workspace: ex.call.Workspace, OrgRequirements: ex.place.Config.Needs,
	}
	if ex.agent != nil {
		t.Agent = string(ex.agent.ID)
	}
	for _, n := range ex.decision.Networks {
		t.Within = append(t.Within, n.Hosts)
	}
	revision := ""
	if v.Kind == haft.KindMCP {
		var err error
		if t.Server, revision, err = au.termsServer(ctx, ex); err != nil {
			return nil, err
		}
	}
	t.Env = ex.env.Variables(ex.agent, ex.call.Env)
	raw, err := json.Marshal(t)
	if err != nil {
		return nil, fmt.Errorf("encode the terms of a call: %w", err)
	}
	t.Binds = au.digests.Digest("terms", json.RawMessage(limit.Key(string(raw), revision,
		limit.Key(ex.env.Values()...))+filestore.Digest(ex.call.Files)))
	if n := len(t.Env) - maxVariables; n > 0 {
		t.Env, t.MoreEnv = t.Env[:maxVariables], n
	}
	return t, nil
}

// termsServer returns what an approver has to know of the server of an MCP tool, and
// its revision, which changes also with what is not shown.
func (au *authorizer) termsServer(ctx context.Context, ex *execution) (*haft.TermsServer, string, error) {
	name := ex.tool.Tool.Version.Server
	s, err := au.store.MCPServers.MCPServer(ctx, ex.call.Principal.Org, name)
	if haft.CodeOf(err) == haft.CodeNotFound {
		return &haft.TermsServer{Name: name}, "", nil
	}
	if err != nil {
		return nil, "", err
	}
	return &haft.TermsServer{
		Name: s.Name, URL: s.URL, Command: s.Command, Mounts: s.Mounts, Network: s.Network,
		Requirements: s.Requirements,
		Env:          slices.Sorted(maps.Keys(s.Env)), Headers: slices.Sorted(maps.Keys(s.Headers)),
	}, s.Revision(), nil
}

// wants are the hosts that the run would be given if policy allows them.
func (ex *execution) wants() []string {
	v := ex.tool.Tool.Version
	if len(v.Settings.Network) == 0 && v.Kind != haft.KindBuiltin && v.Kind != haft.KindMCP {
		return ex.place.Config.Network
	}
	return v.Settings.Network
}

// bindsTerms is the digest that ties an approval to a version, its arguments and its
// terms.
func (au *authorizer) bindsTerms(ex *execution, t *haft.Terms) string {
	return au.digests.Digest("binds-terms", json.RawMessage(limit.Key(t.Digest, t.Binds, string(ex.args))))
}

// shownTerms returns terms as an approver may see them: without stored values, which
// a command or an address may hold.
func (ex *execution) shownTerms(t *haft.Terms) (*haft.Terms, error) {
	raw, err := json.Marshal(t)
	if err != nil {
		return nil, fmt.Errorf("encode the terms of a call: %w", err)
	}
	clean, _ := ex.env.Redactor.JSON(raw)
	shown := &haft.Terms{}
	if err := json.Unmarshal(clean, shown); err != nil {
		return nil, fmt.Errorf("read the terms of a call: %w", err)
	}
	shown.Digest, shown.Binds = t.Digest, t.Binds
	return shown, nil
}

// agreedTo reports whether an approval is for the call as it is now, with terms t. An
// approval of before there were terms counts only for a call that brings nothing that
// was not shown then.
func (au *authorizer) agreedTo(ex *execution, a *haft.Approval, t *haft.Terms) bool {
	if a.Terms != nil {
		return a.Binds == au.bindsTerms(ex, t)
	}
	brings := len(ex.call.Env) > 0 || len(ex.call.Files) > 0 || ex.call.Workspace != nil || ex.call.Sandbox != "" ||
		ex.call.Template != "" || !ex.call.Requirements.Empty() || ex.call.Limits != haft.Limits{}
	return !brings && a.Binds == au.digests.Binds(ex.tool.Tool.Version.Digest, ex.args)
}
