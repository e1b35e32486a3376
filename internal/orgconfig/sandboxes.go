package orgconfig

import (
	"context"
	"slices"
	"strings"

	"haft"
)

// Sandbox returns what holds for calls of an organisation that run in a sandbox
// of a type; the zero value if nobody said. An empty type is that of calls that
// name none.
func (r *Reader) Sandbox(ctx context.Context, org string, typ haft.SandboxType) (haft.SandboxConfig, error) {
	byType, err := r.sandboxes.get(ctx, org, r.cfg.Shared, r.readSandboxes)
	if err != nil {
		return haft.SandboxConfig{}, err
	}
	if typ == "" || typ == "auto" {
		typ = r.sandboxTypes()[0]
		if byType[typ] == nil {
			typ = haft.SandboxLocal // as it was before there were others
		}
	}
	if c := byType[typ]; c != nil {
		return *c, nil
	}
	return haft.SandboxConfig{}, nil
}

// sandboxTypes are those that tools can run in.
func (r *Reader) sandboxTypes() []haft.SandboxType {
	if len(r.cfg.Types) == 0 {
		return []haft.SandboxType{haft.SandboxLocal}
	}
	return r.cfg.Types
}

// CheckSandbox reports why nothing can run in the sandbox that somebody names: there
// is no such one, or not here. It is the one place that decides it, for calls, tools
// and sandbox configurations. To run in another sandbox than the named one would be to
// run with another isolation. Empty and auto leave the choice to the engine.
func (r *Reader) CheckSandbox(name, pointer string) error {
	have := r.sandboxTypes()
	if name == "" || name == "auto" || slices.Contains(have, haft.SandboxType(name)) {
		return nil
	}
	what := "there is no such sandbox on this server"
	if haft.SandboxType(name).Check() == nil {
		what = "the sandbox " + name + " is not available on this server"
	}
	names := make([]string, len(have))
	for i := range have {
		names[i] = string(have[i])
	}
	message := what + "; it has " + strings.Join(names, ", ")
	if t := haft.SandboxType(name); t == haft.SandboxE2B || t == haft.SandboxModal {
		message += ". Haft has no client for " + name + ", and runs nothing there"
	}
	return &haft.Error{Code: haft.CodeInvalid, Message: message,
		Misfits: []haft.Misfit{{Pointer: pointer, Message: message}}}
}

// readSandboxes reads the sandbox configurations of an organisation.
func (r *Reader) readSandboxes(ctx context.Context, org string) (map[haft.SandboxType]*haft.SandboxConfig, error) {
	list, err := r.cfg.Sandboxes.SandboxConfigs(ctx, org)
	if err != nil {
		return nil, err
	}
	byType := make(map[haft.SandboxType]*haft.SandboxConfig, len(list))
	for i := range list {
		byType[list[i].Type] = &list[i]
	}
	return byType, nil
}
