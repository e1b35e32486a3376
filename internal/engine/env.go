package engine

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"

	"haft"
	"haft/internal/secret"
)

// An envBuilder puts the environment of calls together.
type envBuilder struct {
	cfg       *Config
	redaction *redaction
}

// A Vault knows the variables of organisations and of agents.
type Vault interface {
	// Stored returns what calls of an agent are given, or those of no agent.
	Stored(ctx context.Context, org string, agent haft.AgentID) (*Stored, error)
}

// Credentials fetches variables for a call from elsewhere.
type Credentials interface {
	Fetch(ctx context.Context, who haft.Principal, tool haft.Tool, call haft.CallID) ([]secret.Named, error)
}

// Stored is what is stored for calls, low to high. It never changes, so that many
// calls can share it and what is made of it.
type Stored struct {
	Org, Agent []secret.Named
	// Hidden are parts of them that must not be seen either, and no variables.
	Hidden []secret.Named

	once     sync.Once
	redactor *secret.Redactor

	strictOnce sync.Once
	strict     *secret.Redactor // of those that are secrets by name or length
}

// cover returns what removes the stored values. It is made once: that takes longer
// than a short call.
func (s *Stored) cover(personal bool) *secret.Redactor {
	s.once.Do(func() {
		s.redactor = secret.NewRedactor(secret.Config{Values: slices.Concat(s.Org, s.Agent, s.Hidden), Formats: true,
			Personal: personal})
	})
	return s.redactor
}

// A lease is what an execution was given. It keeps it to its end, whatever is stored
// meanwhile.
type lease struct {
	stored  *Stored
	hooked  []secret.Named // of the webhook
	fetched []secret.Named // of the webhook, and tokens
	// blind says that stored values could not be read, so that nobody can tell
	// whether the arguments hold one.
	blind bool
}

// readEnv takes what is stored for the call, once its agent is known.
func (b *envBuilder) readEnv(ctx context.Context, ex *execution) error {
	if b.cfg.Vault != nil {
		var agent haft.AgentID
		if ex.agent != nil {
			agent = ex.agent.ID
		}
		stored, err := b.cfg.Vault.Stored(ctx, ex.call.Principal.Org, agent)
		if ex.lease.blind = err != nil; err != nil {
			return fmt.Errorf("read the stored environment: %w", err)
		}
		if ex.lease.stored = stored; len(stored.Org)+len(stored.Agent) == 0 {
			ex.lease.stored = nil // most calls have none, and need not pay for it
		}
	}
	return b.buildEnv(ex)
}

// buildEnv puts the environment of the call together, low to high: organisation,
// webhook, agent, call; and what removes all that is secret in it from what
// leaves.
func (b *envBuilder) buildEnv(ex *execution) error {
	var own map[string]string // of an agent whose variables are in its row
	if ex.agent != nil {
		own = ex.agent.Env
	}
	for _, layer := range []map[string]string{own, ex.call.Env} {
		for name := range layer {
			if err := secret.CheckEnvName(name); err != nil {
				return err
			}
		}
	}
	l := &ex.lease
	if ex.redactor == nil || l.stored != nil || len(l.fetched) > 0 || len(own) > 0 { // else it covers the call already
		ex.redactor = b.redaction.redactor(l, own, ex.call.Env)
	}
	if len(ex.redactor.Skipped()) > 0 && l.size(own, ex.call.Env) > secret.MaxValues {
		// Those that are merely too short stand in every other word.
		ex.lease.blind = true
		return &haft.Error{Code: haft.CodeInvalid,
			Message: fmt.Sprintf("the variables of the call have more than %d bytes in all, which is more than can "+
				"be kept out of what it prints: remove some", secret.MaxValues)}
	}
	if l.stored == nil && len(l.hooked) == 0 && len(own) == 0 {
		ex.env = ex.call.Env
		return nil
	}
	ex.env, ex.bound = make(map[string]string, len(own)+len(ex.call.Env)+len(l.hooked)+8), nil
	if l.stored != nil {
		ex.overlay(l.stored.Org, true, "")
	}
	ex.overlay(l.hooked, false, "")
	ex.overlayText(own)
	if l.stored != nil && ex.agent != nil {
		ex.overlay(l.stored.Agent, true, ex.agent.ID)
	}
	ex.overlayText(ex.call.Env)
	return nil
}

// size counts the bytes of all that was leased, and of more.
func (l *lease) size(more ...map[string]string) int {
	n := 0
	lists := [][]secret.Named{l.fetched}
	if l.stored != nil {
		lists = append(lists, l.stored.Org, l.stored.Agent, l.stored.Hidden)
	}
	for _, list := range lists {
		for _, v := range list {
			n += len(v.Value.Reveal())
		}
	}
	for _, env := range more {
		for _, text := range env {
			n += len(text)
		}
	}
	return n
}

// reveal writes values to an environment.
func reveal(env map[string]string, values []secret.Named) {
	for _, v := range values {
		env[v.Name] = v.Value.Reveal()
	}
}

// fetch asks for credentials right before the call runs: not for calls that are
// refused, and not before a person has agreed. If there are none to be had, tools
// that said what they need are not run, and others with a notice.
func (b *envBuilder) fetch(ctx context.Context, ex *execution) error {
	needs := ex.tool.Tool.Version.Settings.Secrets
	if b.cfg.Credentials != nil {
		who := ex.call.Principal
		if ex.agent != nil {
			who.Agent = string(ex.agent.ID)
		}
		values, err := b.cfg.Credentials.Fetch(ctx, who, ex.tool.Tool, ex.call.ID)
		switch {
		case err == nil:
			ex.lease.hooked, ex.lease.fetched = values, values
			if err := b.buildEnv(ex); err != nil {
				return err
			}
		case ctx.Err() != nil:
			return context.Cause(ctx)
		default:
			b.redaction.logOf(ex).Warn("credentials of a call cannot be had", "call", ex.call.ID, "org", who.Org,
				"tool",
				ex.tool.Tool.Name, "error", err)
			// What is stored for the organisation is not asked: the webhook's
			// would have replaced it.
			if name := ex.lacks(needs, ex.higher()); name != "" {
				r := refuse(haft.StatusError, haft.FailRuntime, haft.RetrySame,
					"the tool needs the variable "+name+", and "+haft.MessageOf(err))
				r.cause = err
				return r
			}
			ex.notices = append(ex.notices, "credentials: "+haft.MessageOf(err)+"; the tool ran without them")
		}
	}
	if name := ex.lacks(needs, ex.env); name != "" {
		return refuse(haft.StatusError, haft.FailRuntime, haft.RetryNever,
			"the tool needs the variable "+name+", which is not set: set it for the organisation or the agent, or "+
				"give it with the call")
	}
	return nil
}

// higher is the part of the environment that a webhook cannot replace.
func (ex *execution) higher() map[string]string {
	env := map[string]string{}
	if ex.agent != nil {
		maps.Copy(env, ex.agent.Env)
	}
	if ex.lease.stored != nil {
		reveal(env, ex.lease.stored.Agent)
	}
	maps.Copy(env, ex.call.Env)
	return env
}

// lacks returns the first of names that is not in env.
func (ex *execution) lacks(names []string, env map[string]string) string {
	for _, name := range names {
		if _, ok := env[name]; !ok {
			return name
		}
	}
	return ""
}
