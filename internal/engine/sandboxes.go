package engine

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"

	"haft"
	"haft/internal/store"
)

// sandboxConfigs are the sandbox configurations of organisations, by type.
type sandboxConfigs struct {
	cfg   *Config
	store *store.Store

	orgCache[map[haft.SandboxType]*haft.SandboxConfig]
}

// SandboxFor returns what holds for calls of an organisation that run in a sandbox
// of a type; the zero value if nobody said. An empty type is that of calls that
// name none.
func (s *sandboxConfigs) SandboxFor(ctx context.Context, org string, typ haft.SandboxType) (haft.SandboxConfig, error) {
	byType, err := s.get(ctx, org, s.store.Shared(), s.read)
	if err != nil {
		return haft.SandboxConfig{}, err
	}
	if typ == "" || typ == "auto" {
		typ = s.sandboxTypes()[0]
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
func (s *sandboxConfigs) sandboxTypes() []haft.SandboxType {
	if len(s.cfg.Sandboxes) == 0 {
		return []haft.SandboxType{haft.SandboxLocal}
	}
	return s.cfg.Sandboxes
}

// CheckSandbox reports why nothing can run in the sandbox that somebody names: there
// is no such one, or not here. It is the one place that decides it, for calls, tools
// and sandbox configurations. Running elsewhere than where one was told to would be
// running with another isolation. Empty and auto leave the choice to the engine.
func (s *sandboxConfigs) CheckSandbox(name, pointer string) error {
	have := s.sandboxTypes()
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
	return &haft.Error{Code: haft.CodeInvalid, Message: message,
		Misfits: []haft.Misfit{{Pointer: pointer, Message: message}}}
}

// readSandboxConfig finds what the organisation says of the sandbox that the call runs in.
func (s *sandboxConfigs) readSandboxConfig(ctx context.Context, ex *execution) (err error) {
	if err := errors.Join(s.CheckSandbox(ex.call.Sandbox, "/sandbox"),
		s.CheckSandbox(ex.tool.Tool.Version.Settings.Sandbox, "/settings/sandbox")); err != nil {
		return refuse(haft.StatusValidation, haft.FailValidation, haft.RetryChanged, haft.MessageOf(err))
	}
	typ := haft.SandboxType(cmp.Or(ex.call.Sandbox, ex.tool.Tool.Version.Settings.Sandbox))
	ex.config, err = s.SandboxFor(ctx, ex.call.Principal.Org, typ)
	return err
}

// read reads the configurations of an organisation.
func (s *sandboxConfigs) read(ctx context.Context, org string) (map[haft.SandboxType]*haft.SandboxConfig, error) {
	list, err := s.store.SandboxConfigs(ctx, org)
	if err != nil {
		return nil, err
	}
	byType := make(map[haft.SandboxType]*haft.SandboxConfig, len(list))
	for i := range list {
		byType[list[i].Type] = &list[i]
	}
	return byType, nil
}
