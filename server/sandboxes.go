package server

import (
	"context"
	"iter"
	"net/http"

	"haft"
)

// SandboxBody describes a sandbox configuration to write.
type SandboxBody struct {
	Description string            `json:"description,omitempty" maxLength:"4096"`
	Default     bool              `json:"default,omitempty" doc:"Calls for which nobody names a sandbox run in this one."`
	AllowRemote bool              `json:"allow_remote,omitempty" doc:"Code and data of calls may leave the machine of the server, for sandboxes of this type."`
	Limits      haft.Limits       `json:"limits,omitzero" doc:"Those of tools that name none."`
	Network     []string          `json:"network,omitempty" maxItems:"64" maxLength:"2048" doc:"The hosts that tools may reach which name none themselves."`
	Needs       haft.Requirements `json:"requirements,omitzero" doc:"Packages that every tool has besides its own."`

	Templates []haft.SandboxTemplate `json:"templates,omitempty" maxItems:"64" doc:"Packages of calls that name the template."`
}

// SandboxRef names a sandbox configuration in a path.
type SandboxRef struct {
	Ref string `path:"ref" maxLength:"200" doc:"The type or id of the configuration."`
}

// sandboxHandlers serve the operations on sandbox configurations.
type sandboxHandlers struct{ sandboxes haft.Sandboxes }

// sandboxes registers the operations on sandbox configurations.
func (a *api) sandboxes() {
	h := sandboxHandlers{a.s.cfg.Sandboxes}
	g := a.group("sandboxes", haft.SandboxesRead, haft.SandboxesWrite).
		needs(h.sandboxes != nil, "sandbox configurations")
	register(g.op("GET /v1/sandbox_configs", "list-sandbox-configs", "List sandbox configurations by type"),
		func(ctx context.Context, who Identity, in *Paging) (*Listed[haft.SandboxConfig], error) {
			return pageOf(*in, "sandboxes", func(c haft.SandboxConfig) string { return string(c.Type) },
				func(string) iter.Seq2[haft.SandboxConfig, error] {
					return h.sandboxes.SandboxConfigs(ctx, who.Principal)
				})
		})
	register(g.op("POST /v1/sandbox_configs", "add-sandbox-config", "Add a sandbox configuration").
		answers(http.StatusCreated).conflicts(), h.addSandbox)
	register(g.op("GET /v1/sandbox_configs/{ref}", "show-sandbox-config", "Show a sandbox configuration"),
		h.showSandbox)
	register(g.op("PUT /v1/sandbox_configs/{ref}", "put-sandbox-config",
		"Replace a sandbox configuration, or add it for that type").answers(0, http.StatusCreated).conditional(),
		h.putSandbox)
	register(g.op("DELETE /v1/sandbox_configs/{ref}", "remove-sandbox-config", "Remove a sandbox configuration").
		conditional(), h.removeSandbox)
}

type addSandbox struct {
	Body struct {
		Type haft.SandboxType `json:"type"`
		SandboxBody
	}
}

func (h sandboxHandlers) addSandbox(ctx context.Context, who Identity,
	in *addSandbox) (*stored[haft.SandboxConfig], error) {
	return h.storeSandbox(ctx, who, http.StatusCreated, in.Body.config(in.Body.Type, haft.IfNone))
}

// config makes a configuration of a body.
func (b SandboxBody) config(typ haft.SandboxType, condition string) haft.SandboxConfig {
	return haft.SandboxConfig{Type: typ, Description: b.Description, Default: b.Default, AllowRemote: b.AllowRemote,
		Limits: b.Limits, Network: b.Network, Needs: b.Needs, Templates: b.Templates, If: condition}
}

// storeSandbox writes a configuration.
func (h sandboxHandlers) storeSandbox(ctx context.Context, who Identity, status int,
	c haft.SandboxConfig) (*stored[haft.SandboxConfig], error) {
	out, err := found(h.sandboxes.PutSandboxConfig(ctx, who.Principal, c))
	if err == nil {
		out.Status, out.Location = status, "/v1/sandbox_configs/"+string(out.Body.ID)
	}
	return out, err
}

func (h sandboxHandlers) showSandbox(ctx context.Context, who Identity,
	in *SandboxRef) (*stored[haft.SandboxConfig], error) {
	return found(h.sandboxes.SandboxConfig(ctx, who.Principal, in.Ref))
}

type putSandbox struct {
	SandboxRef
	Condition
	Body SandboxBody
}

func (h sandboxHandlers) putSandbox(ctx context.Context, who Identity,
	in *putSandbox) (*stored[haft.SandboxConfig], error) {
	return replace(in.Condition,
		func() (*haft.SandboxConfig, error) { return h.sandboxes.SandboxConfig(ctx, who.Principal, in.Ref) },
		func(old *haft.SandboxConfig, condition string) (*stored[haft.SandboxConfig], error) {
			typ, status := haft.SandboxType(in.Ref), http.StatusCreated
			if old != nil {
				typ, status = old.Type, http.StatusOK
			}
			return h.storeSandbox(ctx, who, status, in.Body.config(typ, condition))
		})
}

type removeSandbox struct {
	SandboxRef
	RemoveIf
}

func (h sandboxHandlers) removeSandbox(ctx context.Context, who Identity, in *removeSandbox) (*struct{}, error) {
	return remove(in.RemoveIf,
		func() (*haft.SandboxConfig, error) { return h.sandboxes.SandboxConfig(ctx, who.Principal, in.Ref) },
		func(revision string) error {
			return h.sandboxes.RemoveSandboxConfig(ctx, who.Principal, in.Ref, revision)
		})
}
