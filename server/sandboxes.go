package server

import (
	"context"
	"net/http"

	"haft"
)

// SandboxBody is what somebody says of the sandboxes of a type.
type SandboxBody struct {
	Description string            `json:"description,omitempty" maxLength:"4096"`
	Limits      haft.Limits       `json:"limits,omitzero" doc:"Those of tools that name none."`
	Network     []string          `json:"network,omitempty" maxItems:"64" maxLength:"2048" doc:"The hosts that tools may reach which name none themselves."`
	Needs       haft.Requirements `json:"requirements,omitzero" doc:"Packages that every tool has besides its own."`
}

// SandboxRef names a sandbox configuration in a path.
type SandboxRef struct {
	Ref string `path:"ref" maxLength:"200" doc:"The type or id of the configuration."`
}

type oneSandbox struct {
	Status   int
	ETag     string `header:"ETag"`
	Location string `header:"Location"`
	Body     haft.SandboxConfig
}

// sandboxes are the operations on sandbox configurations.
func (a *api) sandboxes() {
	const tag = "sandboxes"
	condition := []int{http.StatusConflict, http.StatusPreconditionFailed}
	register(a, operation{method: http.MethodGet, path: "/v1/sandbox_configs", id: "list-sandbox-configs",
		action: haft.SandboxesRead, tag: tag, summary: "List sandbox configurations by type",
		errors: []int{http.StatusNotFound}}, a.s.listSandboxes)
	register(a, operation{method: http.MethodPost, path: "/v1/sandbox_configs", id: "add-sandbox-config",
		action: haft.SandboxesWrite, tag: tag, summary: "Add a sandbox configuration", status: http.StatusCreated,
		errors: []int{http.StatusConflict, http.StatusNotFound}}, a.s.addSandbox)
	register(a, operation{method: http.MethodGet, path: "/v1/sandbox_configs/{ref}", id: "show-sandbox-config",
		action: haft.SandboxesRead, tag: tag, summary: "Show a sandbox configuration"}, a.s.showSandbox)
	register(a, operation{method: http.MethodPut, path: "/v1/sandbox_configs/{ref}", id: "put-sandbox-config",
		action: haft.SandboxesWrite, tag: tag, summary: "Replace a sandbox configuration, or add it for that type",
		also: []int{http.StatusCreated}, errors: condition}, a.s.putSandbox)
	register(a, operation{method: http.MethodDelete, path: "/v1/sandbox_configs/{ref}", id: "remove-sandbox-config",
		action: haft.SandboxesWrite, tag: tag, summary: "Remove a sandbox configuration", errors: condition},
		a.s.removeSandbox)
}

func (s *Server) listSandboxes(ctx context.Context, who Identity, in *Paging) (*listed[haft.SandboxConfig], error) {
	if s.cfg.Sandboxes == nil {
		return nil, absent("sandbox configurations")
	}
	after, err := in.at("sandboxes")
	if err != nil {
		return nil, err
	}
	return collect(s.cfg.Sandboxes.SandboxConfigs(ctx, who.Principal), *in, "sandboxes",
		func(c haft.SandboxConfig) bool { return string(c.Type) <= after },
		func(c haft.SandboxConfig) string { return string(c.Type) })
}

type addSandbox struct {
	Body struct {
		Type haft.SandboxType `json:"type"`
		SandboxBody
	}
}

func (s *Server) addSandbox(ctx context.Context, who Identity, in *addSandbox) (*oneSandbox, error) {
	return s.keepSandbox(ctx, who, http.StatusCreated, in.Body.config(in.Body.Type, haft.IfNone))
}

// config makes a configuration of a body.
func (b SandboxBody) config(typ haft.SandboxType, condition string) haft.SandboxConfig {
	return haft.SandboxConfig{Type: typ, Description: b.Description, Limits: b.Limits, Network: b.Network,
		Needs: b.Needs, If: condition}
}

// keepSandbox writes a configuration.
func (s *Server) keepSandbox(ctx context.Context, who Identity, status int, c haft.SandboxConfig) (*oneSandbox, error) {
	if s.cfg.Sandboxes == nil {
		return nil, absent("sandbox configurations")
	}
	kept, err := s.cfg.Sandboxes.PutSandboxConfig(ctx, who.Principal, c)
	if err != nil {
		return nil, err
	}
	return &oneSandbox{Status: status, ETag: quote(kept.Revision()), Location: "/v1/sandbox_configs/" + string(kept.ID),
		Body: *kept}, nil
}

func (s *Server) showSandbox(ctx context.Context, who Identity, in *SandboxRef) (*oneSandbox, error) {
	if s.cfg.Sandboxes == nil {
		return nil, absent("sandbox configurations")
	}
	c, err := s.cfg.Sandboxes.SandboxConfig(ctx, who.Principal, in.Ref)
	if err != nil {
		return nil, err
	}
	return &oneSandbox{Status: http.StatusOK, ETag: quote(c.Revision()), Body: *c}, nil
}

type putSandbox struct {
	SandboxRef
	Condition
	Body SandboxBody
}

func (s *Server) putSandbox(ctx context.Context, who Identity, in *putSandbox) (*oneSandbox, error) {
	if s.cfg.Sandboxes == nil {
		return nil, absent("sandbox configurations")
	}
	typ, status, revision := haft.SandboxType(in.Ref), http.StatusCreated, ""
	switch c, err := s.cfg.Sandboxes.SandboxConfig(ctx, who.Principal, in.Ref); {
	case err == nil:
		typ, status, revision = c.Type, http.StatusOK, c.Revision()
	case haft.CodeOf(err) != haft.CodeNotFound:
		return nil, err
	}
	condition, err := in.revision(revision)
	if err != nil {
		return nil, err
	}
	out, err := s.keepSandbox(ctx, who, status, in.Body.config(typ, condition))
	return out, in.failed(err)
}

type removeSandbox struct {
	SandboxRef
	RemoveIf
}

func (s *Server) removeSandbox(ctx context.Context, who Identity, in *removeSandbox) (*struct{}, error) {
	if s.cfg.Sandboxes == nil {
		return nil, absent("sandbox configurations")
	}
	return nil, in.remove(func() (string, error) {
		c, err := s.cfg.Sandboxes.SandboxConfig(ctx, who.Principal, in.Ref)
		if err != nil {
			return "", err
		}
		return c.Revision(), nil
	}, func(revision string) error {
		return s.cfg.Sandboxes.RemoveSandboxConfig(ctx, who.Principal, in.Ref, revision)
	})
}
