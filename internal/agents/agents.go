// Package agents puts together what agents need: tools that remember and send messages, models, and what runs their
// turns.
package agents

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"time"

	"haft"
	"haft/executor/builtin"
	"haft/internal/agenttool"
	"haft/internal/authority"
	"haft/internal/callenv"
	"haft/internal/conversation"
	"haft/internal/embedding"
	"haft/internal/filetool"
	"haft/internal/memory"
	"haft/internal/memorystore"
	"haft/internal/modelfile"
	"haft/internal/secret"
	"haft/internal/store"
	"haft/internal/workspace"
)

// Config says how agents are run.
type Config struct {
	// Models are those that agents can have. Nil runs no turns: agents only remember, and call tools by themselves.
	Models *modelfile.File
	// Budget is what a turn of an agent may take at most, see [conversation.Config].
	Budget haft.Budget
	// As returns p as another agent, or says why p may not act as that; nil means that managers may.
	As func(ctx context.Context, p haft.Principal, agent haft.AgentID) (haft.Principal, error)
	// Observe begins a span, see [conversation.Config].
	Observe conversation.Observe
}

// An Engine makes the calls of agents.
type Engine interface {
	conversation.Calls
	// Owner names this process in the store now.
	Owner() string
	// Stopped returns why calls are refused, and whether they are.
	Stopped() (string, bool)
}

// A Finder finds agents for those who may see them, and tells what happens in calls.
type Finder interface {
	haft.Watcher
	Agent(ctx context.Context, p haft.Principal, ref string) (*haft.Agent, error)
}

// Parts are what agents work with.
type Parts struct {
	Engine Engine
	Finder Finder
	// Artifacts has the files that calls left.
	Artifacts conversation.Artifacts
	Tools     Tools
	Vault     callenv.Vault
	Rules     authority.Rules
	// Names mean secrets, and Personal says that personal data is one too, see package callenv.
	Names    *secret.Names
	Personal bool
	// Recheck is that of [conversation.Config].
	Recheck func(context.Context, haft.Principal) (haft.Principal, error)
	Logger  *slog.Logger
}

// Agents are the agents of a store. Its tools work from the beginning, the rest when it is open. It is the mailbox of
// its tools.
type Agents struct {
	store  *store.Store
	kept   *memorystore.Store
	vault  callenv.Vault
	rules  authority.Rules
	models *modelfile.Catalog
	index  *embedding.Index
	talks  *conversation.Service
}

// New returns the agents of a store.
func New(s *store.Store) *Agents { return &Agents{store: s, kept: memorystore.New(s)} }

// Memory is what the tools of agents work on.
func (a *Agents) Memory() memory.Tools { return memory.Tools{Store: a.kept, Agents: a.store.Agents} }

// AddTools adds the tools with which agents remember, send messages and work on files.
func (a *Agents) AddTools(set *builtin.Set, files *workspace.Store) error {
	own := a.Memory()
	return errors.Join(agenttool.Add(set, agenttool.Config{Blocks: own, Archive: own, History: own, Mailbox: a}),
		filetool.Add(set, files))
}

// Open runs the turns of agents, if there are models.
func (a *Agents) Open(p Parts, cfg Config) (err error) {
	if cfg.Models == nil {
		return nil
	}
	a.vault, a.rules = p.Vault, p.Rules
	a.models, err = modelfile.NewCatalog(cfg.Models, modelfile.CatalogConfig{Getenv: os.Getenv, Secret: a.key})
	if err != nil {
		return fmt.Errorf("open the models: %w", err)
	}
	if err := a.openIndex(p); err != nil {
		return err
	}
	if cfg.As == nil {
		cfg.As = a.asManager
	}
	a.talks = conversation.New(conversation.Config{
		Turns: a.kept, Claims: a.kept, History: a.kept, Models: a.models, Calls: p.Engine, Owner: p.Engine.Owner,
		Stopped: p.Engine.Stopped, Artifacts: p.Artifacts,
		Agents:    profiles{p.Finder, a.store.Agents, a.kept, p.Tools},
		Authority: p.Rules, Events: p.Finder, As: cfg.As, Recheck: p.Recheck, Observe: cfg.Observe, Budget: cfg.Budget,
		Logger: p.Logger,
	})
	return nil
}

// openIndex has passages found by their vectors, if the models have an endpoint for that. Secrets are removed from
// texts as from what a call gives to a model.
func (a *Agents) openIndex(p Parts) error {
	source, err := a.models.Embedder()
	if err != nil || source == nil {
		return err
	}
	environ := callenv.New(p.Vault, p.Names, p.Personal)
	redact := func(ctx context.Context, org string, agent haft.AgentID) (func(string) string, error) {
		stored, err := environ.Stored(ctx, org, agent)
		if err != nil {
			return nil, err
		}
		return environ.Cover(stored).Text, nil
	}
	vectors := memorystore.VectorsOf(a.kept)
	a.index = embedding.New(embedding.Config{Store: vectors, Source: source, Redact: redact, Logger: p.Logger})
	vectors.Embed(a.index)
	return nil
}

// asManager returns a manager as another agent.
func (a *Agents) asManager(_ context.Context, p haft.Principal, agent haft.AgentID) (haft.Principal, error) {
	// What a credential is for is known to servers.
	if p.Agent = ""; p.Credential != "" || !a.rules.Manages(p) {
		return p, &haft.Error{Code: haft.CodeDenied, Message: "only managers act as other agents"}
	}
	p.Agent = string(agent)
	return p, nil
}

// leaveWait is how long the calls of turns may take to end when a process ends. The turns go on in the next one.
const leaveWait = 5 * time.Second

// Leave begins no more steps and leaves the turns to the next process. It waits for the calls that are under way until
// ctx ends, and must come before the engine refuses calls: what it refuses would be an answer to the model.
func (a *Agents) Leave(ctx context.Context) error {
	if a.talks == nil {
		return nil
	}
	return a.talks.Close(ctx)
}

// Close is [Agents.Leave] at the end of everything.
func (a *Agents) Close() error {
	ctx, cancel := context.WithTimeout(context.Background(), leaveWait) //nolint:forbidigo // it is the end of all
	defer cancel()
	err := a.Leave(ctx)
	if a.index != nil {
		a.index.Close()
	}
	return err
}

// key reads the key of a model that an organisation has stored. One that is bound goes to the hosts of its binding
// only, by the egress of calls.
func (a *Agents) key(ctx context.Context, org, name string) (secret.Value, error) {
	has, err := a.vault.Stored(ctx, org, "")
	if err != nil {
		return secret.Value{}, err
	}
	for _, v := range has.Org {
		if v.Name == name && v.Bound == nil {
			return v.Value, nil
		}
	}
	return secret.Value{}, &haft.Error{Code: haft.CodeNotFound, Message: "there is no such secret that is not bound"}
}

// Models implements [haft.Models].
func (a *Agents) Models(ctx context.Context, p haft.Principal) ([]haft.Model, error) {
	if err := a.rules.Authorize(p, haft.AgentsRead, authority.Resource{}); err != nil {
		return nil, err
	}
	return a.models.List(ctx, p.Org), nil
}

// Conversations returns what runs the turns of agents, or nil if this process runs none.
func (a *Agents) Conversations() haft.Conversations {
	if a.talks == nil {
		return nil
	}
	return a.talks
}

// Deliver implements [agenttool.Mailbox].
func (a *Agents) Deliver(ctx context.Context, from haft.Principal, turn haft.TurnID, agent, text string) error {
	if a.talks == nil {
		return errNone()
	}
	return a.talks.Deliver(ctx, from, turn, agent, text)
}

// Reply implements [agenttool.Mailbox].
func (a *Agents) Reply(ctx context.Context, from haft.Principal, turn haft.TurnID, agent, text string) (string, error) {
	if a.talks == nil {
		return "", errNone()
	}
	return a.talks.Reply(ctx, from, turn, agent, text)
}

func errNone() error {
	return &haft.Error{Code: haft.CodeUnavailable, Message: "this process runs no agents: start haft serve or " +
		"haft chat"}
}
