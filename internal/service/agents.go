package service

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"haft"
	"haft/internal/callenv"
	"haft/internal/engine"
	"haft/internal/jsontree"
	"haft/internal/lettaid"
	"haft/internal/secret"
	"haft/internal/store"
	"haft/internal/toolrule"
	"haft/internal/workspace"
)

// An AgentManager keeps agents and their variables.
type AgentManager struct{ *base }

// putAgent writes an agent and its variables at once. They are in the vault, and
// none of them is in its row. An empty value keeps what is there.
func (m *AgentManager) putAgent(ctx context.Context, a haft.Agent) (*haft.Agent, error) {
	if m.cfg.Vault == nil {
		put, err := m.store.Agents.PutAgent(ctx, a)
		if err != nil {
			return nil, err
		}
		if put.ID != a.ID {
			return nil, &haft.Error{Code: haft.CodeConflict,
				Message: "somebody else made this agent at the same time; try again"}
		}
		return m.shown(ctx, *put)
	}
	have, err := m.cfg.Vault.List(ctx, a.Org, a.ID)
	if err != nil {
		return nil, err
	}
	env := make(map[string]secret.Value, len(a.Env))
	for _, name := range slices.Sorted(maps.Keys(a.Env)) {
		value := a.Env[name]
		if value == callenv.NotKept {
			value = ""
		}
		if value == "" && !slices.ContainsFunc(have, func(i secret.Info) bool { return i.Name == name }) {
			return nil, &haft.Error{Code: haft.CodeInvalid, Message: "the variable " + name + " has no value"}
		}
		env[name] = secret.New(value)
	}
	row := a
	row.Env = nil
	var put *haft.Agent
	err = m.cfg.Vault.PutEnv(ctx, a.Org, a.ID, env, func(s store.OwnSecrets) (err error) {
		put, err = m.store.Agents.PutAgentEnv(ctx, row, s)
		return err
	})
	if err != nil {
		return nil, err
	}
	return m.shown(ctx, *put)
}

// pruneEnv removes the stored variables of an agent that keep does not have.
func (m *AgentManager) pruneEnv(ctx context.Context, org string, agent haft.AgentID, keep map[string]string) error {
	if m.cfg.Vault == nil {
		return nil
	}
	have, err := m.cfg.Vault.List(ctx, org, agent)
	if err != nil {
		return err
	}
	for _, i := range have {
		if _, ok := keep[i.Name]; ok {
			continue
		}
		if err := m.cfg.Vault.Remove(ctx, org, agent, i.Name); err != nil && haft.CodeOf(err) != haft.CodeNotFound {
			return err
		}
	}
	return nil
}

// shown returns an agent with the names of its environment and without the values:
// once stored they can be used and replaced, and not be read.
func (m *AgentManager) shown(ctx context.Context, a haft.Agent) (*haft.Agent, error) {
	env := make(map[string]string, len(a.Env))
	for k := range a.Env {
		env[k] = callenv.NotKept
	}
	if m.cfg.Vault != nil {
		list, err := m.cfg.Vault.List(ctx, a.Org, a.ID)
		if err != nil {
			return nil, err
		}
		for _, i := range list {
			env[i.Name] = callenv.NotKept
		}
	}
	a.Env = env
	return &a, nil
}

// The bounds on an agent; texts are in bytes.
const (
	maxAgentTools       = 1000
	maxAgentRules       = 100
	maxAgentTags        = 50
	maxAgentTag         = 100
	maxAgentModel       = 256
	maxAgentTitle       = 512
	maxAgentValues      = 100      // of its metadata
	maxAgentMetadata    = 64 << 10 // bytes
	maxMetadataDepth    = 64       // of one value
	maxAgentDescription = 10_000
	maxInstructions     = 400_000
)

// checkTexts reports which text of an agent cannot be kept.
func checkTexts(a haft.Agent) error {
	texts := []struct {
		name, text string
		most       int
	}{{"description", a.Description, maxAgentDescription}, {"instructions", a.Instructions, maxInstructions},
		{"model", a.Model, maxAgentModel}, {"title", a.Title, maxAgentTitle}}
	for _, tag := range a.Tags[:min(len(a.Tags), maxAgentTags)] {
		texts = append(texts, struct {
			name, text string
			most       int
		}{"tags", tag, maxAgentTag})
	}
	for _, t := range texts {
		if len(t.text) > t.most || !utf8.ValidString(t.text) || strings.IndexByte(t.text, 0) >= 0 {
			return &haft.Error{Code: haft.CodeInvalid, Message: fmt.Sprintf("the %s of an agent: expected at most %d "+
				"bytes of UTF-8 text without NUL characters", t.name, t.most)}
		}
	}
	if strings.ContainsFunc(a.Title, hidesText) {
		return &haft.Error{Code: haft.CodeInvalid, Message: "the title of an agent: expected one line of text " +
			"without control characters and characters that change the direction of writing"}
	}
	size := 0
	for name, value := range a.Metadata {
		size += len(name) + len(value)
		_, err := jsontree.Decode(value, jsontree.Limits{Bytes: maxAgentMetadata, Depth: maxMetadataDepth})
		if err != nil || !utf8.ValidString(name) || strings.IndexByte(name, 0) >= 0 {
			return &haft.Error{Code: haft.CodeInvalid, Err: err, Message: fmt.Sprintf("the metadata of an agent: "+
				"expected values of JSON in UTF-8 of at most %d bytes, nested at most %d deep", maxAgentMetadata,
				maxMetadataDepth)}
		}
	}
	if len(a.Metadata) > maxAgentValues || size > maxAgentMetadata {
		return &haft.Error{Code: haft.CodeInvalid, Message: fmt.Sprintf("the metadata of an agent: expected at most "+
			"%d values of %d bytes together", maxAgentValues, maxAgentMetadata)}
	}
	if len(a.Tags) > maxAgentTags {
		return &haft.Error{Code: haft.CodeInvalid, Message: fmt.Sprintf("an agent has at most %d tags", maxAgentTags)}
	}
	return nil
}

// hidesText reports whether a character makes a text look like another one, or like more than one line.
func hidesText(r rune) bool {
	return unicode.IsControl(r) || unicode.In(r, unicode.Bidi_Control, unicode.Zl, unicode.Zp)
}

// Agent implements [haft.Agents].
func (m *AgentManager) Agent(ctx context.Context, p haft.Principal, ref string) (*haft.Agent, error) {
	if err := m.authority.MayFind(p, haft.AgentsRead); err != nil {
		return nil, err
	}
	a, err := m.store.Agents.Agent(ctx, p.Org, ref)
	if err != nil {
		return nil, err
	}
	return m.shown(ctx, *a)
}

// AgentList implements [haft.Agents].
func (m *AgentManager) AgentList(ctx context.Context, p haft.Principal, f haft.AgentFilter) iter.Seq2[haft.Agent,
	error] {
	return func(yield func(haft.Agent, error) bool) {
		if err := m.authority.MayFind(p, haft.AgentsRead); err != nil {
			yield(haft.Agent{}, err)
			return
		}
		after := f.After
		for n := 0; ; {
			list, err := m.store.Agents.Agents(ctx, p.Org, after, page)
			if err != nil {
				yield(haft.Agent{}, err)
				return
			}
			for _, a := range list {
				if after = a.Name; !listed(a, f) {
					continue
				}
				s, err := m.shown(ctx, a)
				if err != nil {
					yield(haft.Agent{}, err)
					return
				}
				if n++; !yield(*s, nil) || n == f.Limit {
					return
				}
			}
			if len(list) < page {
				return
			}
		}
	}
}

// listed reports whether an agent fits a filter, wherever it stands.
func listed(a haft.Agent, f haft.AgentFilter) bool {
	return strings.HasPrefix(a.Name, f.Prefix) && (f.Tool == "" || slices.Contains(a.Tools, f.Tool)) &&
		(f.Enabled == nil || *f.Enabled == !a.Disabled)
}

// PutAgent implements [haft.Agents]. A value of the environment that is empty
// keeps the one that is there. The condition is looked at first, and again in the
// transaction that writes the agent and its variables.
func (m *AgentManager) PutAgent(ctx context.Context, p haft.Principal, a haft.Agent) (*haft.Agent, error) {
	if err := m.authority.May(p, haft.AgentsWrite); err != nil {
		return nil, err
	}
	a.Org = p.Org
	if err := haft.CheckToolName(a.Name); err != nil {
		return nil, &haft.Error{Code: haft.CodeInvalid, Message: "the name of an agent is made like that of a tool",
			Err: err}
	}
	if _, _, lettas := lettaid.Read(lettaid.AgentWord, lettaid.AgentPrefix, a.Name); lettas || haft.IsAgentID(a.Name) {
		return nil, &haft.Error{Code: haft.CodeInvalid,
			Message: "the name of an agent must not look like the id of one"}
	}
	if len(a.Tools) > maxAgentTools || len(a.Rules) > maxAgentRules || len(a.Env) > engine.MaxEnv {
		return nil, &haft.Error{Code: haft.CodeInvalid, Message: "an agent has too many tools, rules or variables"}
	}
	if err := cmp.Or(checkTexts(a), workspace.CheckRef(a.Workspace)); err != nil {
		return nil, err
	}
	if err := m.decisions.CheckSandbox(a.Sandbox, "/sandbox"); err != nil {
		return nil, err
	}
	for name := range a.Env {
		if err := secret.CheckEnvName(name); err != nil {
			return nil, err
		}
	}
	parameters, err := m.parameters(ctx, p, a.Tools)
	if err != nil {
		return nil, err
	}
	if err := toolrule.Check(a.Rules, func(tool string) bool { return slices.Contains(a.Tools, tool) }); err != nil {
		return nil, err
	}
	now := time.Now()
	a.Updated = now
	old, err := m.store.Agents.Agent(ctx, p.Org, a.Name)
	if a.Workspace != "" && (err != nil || a.Workspace != old.Workspace) {
		if err := m.authority.May(p, workspace.RefAction(a.Workspace)); err != nil {
			return nil, err
		}
	}
	if err != nil || !reflect.DeepEqual(a.Rules, old.Rules) { // those that were set stay when a tool has changed
		if err := toolrule.CheckArgs(a.Rules, parameters); err != nil {
			return nil, err
		}
	}
	switch {
	case err == nil:
		if a.If != "" && a.If != old.Revision() {
			return nil, &haft.Error{Code: haft.CodeConflict,
				Message: "the agent is not what you say it is; look again first"}
		}
		a.ID, a.Created, a.CreatedBy = old.ID, old.Created, old.CreatedBy
		for k, v := range a.Env {
			if was, ok := old.Env[k]; ok && (v == "" || v == callenv.NotKept) {
				a.Env[k] = was
			}
		}
	case haft.CodeOf(err) == haft.CodeNotFound:
		if a.If != "" && a.If != haft.IfNone {
			return nil, &haft.Error{Code: haft.CodeConflict, Message: "there is no such agent any more"}
		}
		a.ID, a.Created = haft.AgentID(haft.AgentIDPrefix+rand.Text()[:haft.RandomID]), now
		a.CreatedBy = p.User
	default:
		return nil, err
	}
	put, err := m.putAgent(ctx, a)
	if err != nil {
		return nil, err
	}
	return put, m.log(ctx, p, "agent.put", map[string]any{"agent": a.Name, "id": a.ID, "tools": a.Tools,
		"rules": len(a.Rules), "env": len(a.Env), "workspace": a.Workspace})
}

// parameters returns the JSON Schemas of tools for an agent, or which of them there is not.
func (m *AgentManager) parameters(ctx context.Context, p haft.Principal, tools []string) (map[string]json.RawMessage,
	error) {
	all := make(map[string]json.RawMessage, len(tools))
	for _, name := range tools {
		t, err := m.registry.Tool(ctx, p, name)
		if err != nil {
			return nil, &haft.Error{Code: haft.CodeOf(err),
				Message: "the tool " + name + " of the agent: " + haft.MessageOf(err), Err: err}
		}
		all[name] = t.Version.Parameters
	}
	return all, nil
}

// RemoveAgent implements [haft.Agents].
func (m *AgentManager) RemoveAgent(ctx context.Context, p haft.Principal, ref, revision string) error {
	if err := m.authority.May(p, haft.AgentsWrite); err != nil {
		return err
	}
	a, err := m.store.Agents.Agent(ctx, p.Org, ref)
	if err != nil {
		return err
	}
	if err := m.store.Agents.RemoveAgent(ctx, p.Org, string(a.ID), revision); err != nil {
		return err
	}
	ctx = context.WithoutCancel(ctx) // who has left meanwhile has still removed it
	return errors.Join(m.log(ctx, p, "agent.remove", map[string]any{"agent": a.Name, "id": a.ID}),
		m.pruneEnv(ctx, p.Org, a.ID, nil)) // the housekeeping removes its memory
}
