// Package callenv puts the environment of calls together: variables of the organisation, the
// credentials webhook, the agent and the call. It knows which of them are secrets, which of those
// the program of a call must not have, and makes the redactor that removes them from what leaves.
package callenv

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"haft"
	"haft/internal/secret"
)

// NotKept replaces a value that is not kept.
const NotKept = "[not kept]"

// longValue is the length in bytes from which a value of a call's environment counts as
// a secret whatever its name. Shorter ones are words such as "production", and to
// remove those from a result would destroy it.
const longValue = 16

// A Vault knows the variables of organisations and of agents.
type Vault interface {
	// Stored returns what calls of an agent are given, or those of no agent.
	Stored(ctx context.Context, org string, agent haft.AgentID) (*Stored, error)
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

// A Builder puts environments together. It is safe for concurrent use.
type Builder struct {
	vault    Vault
	names    *secret.Names
	personal bool
	plain    *secret.Redactor // for calls without secrets of their own
}

// New makes a builder. A nil vault has nothing. Names are those that mean a secret, and
// personal says that redactors remove personal data too.
func New(vault Vault, names *secret.Names, personal bool) *Builder {
	return &Builder{vault: vault, names: names, personal: personal,
		plain: secret.NewRedactor(secret.Config{Formats: true, Personal: personal})}
}

// An Env is the environment of one call. The zero value is that of a call with no variables whose
// redactor has yet to be set.
type Env struct {
	Vars     map[string]string
	Bound    map[string]Bound // those of Vars that the program must not have
	Redactor *secret.Redactor // removes the secrets of the call
	// Blind says that stored values could not be read, so that nobody can know
	// whether the arguments hold one.
	Blind bool

	// What Vars and Redactor are made of. The call keeps it to its end, whatever is stored meanwhile.
	stored  *Stored
	hooked  []secret.Named // of the credentials webhook
	fetched []secret.Named // of the webhook, and tokens
}

// Secretive reports whether a variable that came with a call is treated as a secret.
func (b *Builder) Secretive(name, value string) bool {
	return !b.names.Public(name) && (b.names.Sensitive(name) || len(value) >= longValue)
}

// secrets returns values without those of public variables.
func (b *Builder) secrets(lists ...[]secret.Named) []secret.Named {
	return slices.DeleteFunc(slices.Concat(lists...), func(v secret.Named) bool { return b.names.Public(v.Name) })
}

// Plain returns the redactor for calls without secrets of their own.
func (b *Builder) Plain() *secret.Redactor { return b.plain }

// New returns the environment of a call before anything else is known than what came with it.
func (b *Builder) New(call map[string]string) Env {
	e := Env{Vars: call}
	e.Redactor = b.redactor(&e, nil, call)
	return e
}

// Read takes what is stored for a call, once its agent is known, and builds its environment.
func (b *Builder) Read(ctx context.Context, e *Env, org string, agent *haft.Agent, call map[string]string) error {
	if b.vault != nil {
		var id haft.AgentID
		if agent != nil {
			id = agent.ID
		}
		stored, err := b.Stored(ctx, org, id)
		if e.Blind = err != nil; err != nil {
			return err
		}
		if e.stored = stored; len(stored.Org)+len(stored.Agent) == 0 {
			e.stored = nil // most calls have none, and need not pay for it
		}
	}
	return b.build(e, agent, call)
}

// AddFetched adds the variables that the credentials webhook has for the call.
func (b *Builder) AddFetched(e *Env, values []secret.Named, agent *haft.Agent, call map[string]string) error {
	e.hooked, e.fetched = values, values
	return b.build(e, agent, call)
}

// build puts the environment together, low to high: organisation, webhook, agent, call; and
// the redactor of all that is secret in it.
func (b *Builder) build(e *Env, agent *haft.Agent, call map[string]string) error {
	own := ownVars(agent)
	for _, layer := range []map[string]string{own, call} {
		for name := range layer {
			if err := secret.CheckEnvName(name); err != nil {
				return err
			}
		}
	}
	if e.Redactor == nil || e.stored != nil || len(e.fetched) > 0 || len(own) > 0 { // else it covers the call already
		e.Redactor = b.redactor(e, own, call)
	}
	if len(e.Redactor.Skipped()) > 0 && e.size(own, call) > secret.MaxValues {
		// Those that are merely too short stand in every other word.
		e.Blind = true
		return &haft.Error{Code: haft.CodeInvalid,
			Message: fmt.Sprintf("the variables of the call have more than %d bytes in all, which is more than can "+
				"be kept out of what it prints: remove some", secret.MaxValues)}
	}
	if e.stored == nil && len(e.hooked) == 0 && len(own) == 0 {
		e.Vars = call
		return nil
	}
	e.Vars, e.Bound = make(map[string]string, len(own)+len(call)+len(e.hooked)+8), nil
	if e.stored != nil {
		e.overlay(e.stored.Org, true, "")
	}
	e.overlay(e.hooked, false, "")
	e.overlayText(own)
	if e.stored != nil && agent != nil {
		e.overlay(e.stored.Agent, true, agent.ID)
	}
	e.overlayText(call)
	return nil
}

// ownVars are the variables of an agent that are in its row.
func ownVars(agent *haft.Agent) map[string]string {
	if agent == nil {
		return nil
	}
	return agent.Env
}

// size counts the bytes of all that the environment was made of, and of more.
func (e *Env) size(more ...map[string]string) int {
	n := 0
	lists := [][]secret.Named{e.fetched}
	if e.stored != nil {
		lists = append(lists, e.stored.Org, e.stored.Agent, e.stored.Hidden)
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

// AboveWebhook is the part of the environment that the credentials webhook cannot replace.
func (e *Env) AboveWebhook(agent *haft.Agent, call map[string]string) map[string]string {
	env := map[string]string{}
	maps.Copy(env, ownVars(agent))
	if e.stored != nil {
		for _, v := range e.stored.Agent {
			env[v.Name] = v.Value.Reveal()
		}
	}
	maps.Copy(env, call)
	return env
}

// LearnSecrets takes over which secrets another environment of the same call knows, and not its
// variables.
func (e *Env) LearnSecrets(other Env) {
	e.Redactor, e.Blind = other.Redactor, other.Blind
	e.stored, e.hooked, e.fetched = other.stored, other.hooked, other.fetched
}

// AddTokens has values that were fetched while the call runs removed from what leaves, too.
func (b *Builder) AddTokens(e *Env, values []secret.Named, agent *haft.Agent, call map[string]string) {
	values = slices.DeleteFunc(slices.Clone(values), func(v secret.Named) bool {
		return slices.ContainsFunc(e.fetched, func(h secret.Named) bool { return h.Value.Equal(v.Value) })
	})
	if len(values) == 0 {
		return
	}
	e.fetched = slices.Concat(e.fetched, values)
	e.Redactor = b.redactor(e, ownVars(agent), call)
}

// redactor returns what removes the secrets of a call from all that leaves: all
// that was stored or fetched for it, the variables of its agent, what is secretive in its
// own, and what looks like a key wherever it comes from.
func (b *Builder) redactor(e *Env, agent, call map[string]string) *secret.Redactor {
	values := slices.Clone(e.fetched)
	for name, text := range agent {
		values = append(values, secret.Named{Name: name, Value: secret.New(text)})
	}
	for name, text := range call {
		if b.Secretive(name, text) {
			values = append(values, secret.Named{Name: name, Value: secret.New(text)})
		}
	}
	switch {
	case len(values) == 0:
		return b.Cover(e.stored)
	case e.stored != nil:
		values = slices.Concat(values, e.stored.Org, e.stored.Agent, e.stored.Hidden)
	}
	return secret.NewRedactor(secret.Config{Values: b.secrets(values), Formats: true, Personal: b.personal})
}

// Stored returns what is stored for calls of an agent, or nil without a vault.
func (b *Builder) Stored(ctx context.Context, org string, agent haft.AgentID) (*Stored, error) {
	if b.vault == nil {
		return nil, nil
	}
	stored, err := b.vault.Stored(ctx, org, agent)
	if err != nil {
		return nil, fmt.Errorf("read the stored environment: %w", err)
	}
	return stored, nil
}

// Cover returns what removes stored values, or nothing but what looks like a key if there are none.
// It is made once: that takes longer than a short call.
func (b *Builder) Cover(s *Stored) *secret.Redactor {
	if s == nil {
		return b.plain
	}
	s.once.Do(func() {
		s.redactor = secret.NewRedactor(secret.Config{Values: b.secrets(s.Org, s.Agent, s.Hidden), Formats: true,
			Personal: b.personal})
	})
	return s.redactor
}

// Strict returns what finds the stored values that are secrets by their name or
// their length, or nil if nothing is stored. It is made once.
func (b *Builder) Strict(s *Stored) *secret.Redactor {
	if s == nil {
		return nil
	}
	s.strictOnce.Do(func() {
		var values []secret.Named
		for _, v := range slices.Concat(s.Org, s.Agent, s.Hidden) {
			if b.Secretive(v.Name, v.Value.Reveal()) {
				values = append(values, v)
			}
		}
		s.strict = secret.NewRedactor(secret.Config{Values: values})
	})
	return s.strict
}

// StrictOf returns what finds the stored secrets of an organisation, or nil if there
// are none, or if they cannot be read: what is done to manage a server that has lost
// its key must still be recorded.
func (b *Builder) StrictOf(ctx context.Context, org string) *secret.Redactor {
	if b.vault == nil || org == "" {
		return nil
	}
	stored, err := b.vault.Stored(ctx, org, "")
	if err != nil {
		return nil
	}
	return b.Strict(stored)
}

// Holds returns a function that reports whether a text holds a stored secret, in whatever form a
// redactor would find it, or a secret of the call's own environment. It returns nil if there is
// no secret.
func (b *Builder) Holds(s *Stored, call map[string]string) func(text string) bool {
	if s == nil && len(call) == 0 {
		return nil
	}
	known := b.Strict(s)
	return func(text string) bool {
		if known.ContainsValue(text) {
			return true
		}
		for name, value := range call {
			if len(value) >= secret.MinValue && b.Secretive(name, value) && strings.Contains(text, value) {
				return true
			}
		}
		return false
	}
}

// HoldsOf is [Builder.Holds] with what is stored for the call of the environment.
func (b *Builder) HoldsOf(e *Env, call map[string]string) func(text string) bool {
	return b.Holds(e.stored, call)
}

// Clean returns variables as they may be kept: without stored values, which may come by another
// name. It does not change the map, which others share.
func (e *Env) Clean(env map[string]string) map[string]string {
	var out map[string]string
	for name, text := range env {
		if e.Blind || e.Redactor.Text(text) != text {
			if out == nil {
				out = maps.Clone(env)
			}
			out[name] = NotKept
		}
	}
	if out == nil {
		return env
	}
	return out
}

// Kept returns the variables of a call as they may be kept before what is stored is known, and
// whether that is less than the whole: secretive ones are replaced.
func (b *Builder) Kept(call map[string]string) (kept map[string]string, less bool) {
	if len(call) == 0 {
		return call, false
	}
	kept = make(map[string]string, len(call))
	for k, v := range call {
		if kept[k] = v; b.Secretive(k, v) {
			kept[k], less = NotKept, true
		}
	}
	return kept, less
}

// Missing returns the first of names that is not in env, or "".
func Missing(names []string, env map[string]string) string {
	for _, name := range names {
		if _, ok := env[name]; !ok {
			return name
		}
	}
	return ""
}
