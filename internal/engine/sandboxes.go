package engine

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"time"

	"haft"
)

// configs are the sandbox configurations of organisations, read once and kept.
type configs struct {
	mu  sync.Mutex
	all map[string]readConfigs
	// writes counts what was changed here, so that what was read before a change is
	// not kept after it.
	writes int
}

// readConfigs are those of one organisation, and when they were read.
type readConfigs struct {
	byType map[haft.SandboxType]*haft.SandboxConfig
	at     time.Time
}

// maxConfigs is of how many organisations the configurations are kept.
const maxConfigs = 10_000

// SandboxFor returns what holds for calls of an organisation that run in a sandbox
// of a type; the zero value if nobody said. An empty type is that of calls that
// name none.
func (e *Engine) SandboxFor(ctx context.Context, org string, typ haft.SandboxType) (haft.SandboxConfig, error) {
	e.sandboxes.mu.Lock()
	k, ok := e.sandboxes.all[org]
	writes := e.sandboxes.writes
	e.sandboxes.mu.Unlock()
	if !ok || e.store.Shared() && time.Since(k.at) >= policyFresh {
		list, err := e.store.SandboxConfigs(ctx, org)
		if err != nil {
			return haft.SandboxConfig{}, err
		}
		k = readConfigs{make(map[haft.SandboxType]*haft.SandboxConfig, len(list)), time.Now()}
		for i := range list {
			k.byType[list[i].Type] = &list[i]
		}
		e.sandboxes.mu.Lock()
		if e.sandboxes.all == nil || len(e.sandboxes.all) > maxConfigs {
			e.sandboxes.all = make(map[string]readConfigs)
		}
		if writes == e.sandboxes.writes {
			e.sandboxes.all[org] = k
		}
		e.sandboxes.mu.Unlock()
	}
	if typ == "" || typ == "auto" {
		typ = e.sandboxTypes()[0]
		if k.byType[typ] == nil {
			typ = haft.SandboxLocal // as it was before there were others
		}
	}
	if c := k.byType[typ]; c != nil {
		return *c, nil
	}
	return haft.SandboxConfig{}, nil
}

// sandboxTypes are those that tools can run in.
func (e *Engine) sandboxTypes() []haft.SandboxType {
	if len(e.cfg.Sandboxes) == 0 {
		return []haft.SandboxType{haft.SandboxLocal}
	}
	return e.cfg.Sandboxes
}

// CheckSandbox reports why nothing can run in the sandbox that somebody names: there
// is no such one, or not here. It is the one place that decides it, for calls, tools
// and sandbox configurations. Running elsewhere than where one was told to would be
// running with another isolation. Empty and auto leave the choice to the engine.
func (e *Engine) CheckSandbox(name, pointer string) error {
	have := e.sandboxTypes()
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

// house finds what the organisation says of the sandbox that the call runs in.
func (e *Engine) readSandboxConfig(ctx context.Context, ex *execution) (err error) {
	if err := errors.Join(e.CheckSandbox(ex.call.Sandbox, "/sandbox"),
		e.CheckSandbox(ex.tool.Tool.Version.Settings.Sandbox, "/settings/sandbox")); err != nil {
		return refuse(haft.StatusValidation, haft.FailValidation, haft.RetryChanged, haft.MessageOf(err))
	}
	typ := haft.SandboxType(cmp.Or(ex.call.Sandbox, ex.tool.Tool.Version.Settings.Sandbox))
	ex.config, err = e.SandboxFor(ctx, ex.call.Principal.Org, typ)
	return err
}

// forgetSandboxes has the configurations of an organisation read again, or of all if it is
// empty.
func (e *Engine) forgetSandboxes(org string) {
	e.sandboxes.mu.Lock()
	if org == "" {
		e.sandboxes.all = nil
	} else {
		delete(e.sandboxes.all, org)
	}
	e.sandboxes.writes++
	e.sandboxes.mu.Unlock()
}
