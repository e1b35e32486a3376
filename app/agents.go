package app

import (
	"context"
	"fmt"
	"os"
	"time"

	"haft"
	"haft/executor/builtin"
	"haft/internal/agenttool"
	"haft/internal/authority"
	"haft/internal/conversation"
	"haft/internal/engine"
	"haft/internal/memory"
	"haft/internal/memorystore"
	"haft/internal/modelfile"
	"haft/internal/profile"
	"haft/internal/secret"
)

// AgentsConfig says how agents are run.
type AgentsConfig struct {
	// Models are those that agents can have. Nil runs no turns: agents only remember, and call tools by themselves.
	Models *modelfile.File
	// Budget is what a turn of an agent may take at most, see [conversation.Config].
	Budget haft.Budget
	// As returns p as another agent, or says why p may not act as that; nil means that managers may.
	As func(ctx context.Context, p haft.Principal, agent haft.AgentID) (haft.Principal, error)
	// Observe begins a span, see [conversation.Config].
	Observe conversation.Observe
}

// leaveWait is how long the calls of turns may take to end when a service closes. The turns go on in the next process.
const leaveWait = 5 * time.Second

// AgentMemory is what the tools of agents work on.
func (s *Service) AgentMemory() memory.Tools {
	return memory.Tools{Store: memorystore.New(s.Store), Agents: s.Store.Agents}
}

// agentTools adds the tools with which agents remember and send messages.
func (s *Service) agentTools(set *builtin.Set) error {
	own := s.AgentMemory()
	return agenttool.Add(set, agenttool.Config{Blocks: own, Archive: own, History: own, Mailbox: mailbox{s}})
}

// openConversations runs the turns of agents, if there are models.
func (s *Service) openConversations(cfg AgentsConfig, ec engine.Config) error {
	if cfg.Models == nil {
		return nil
	}
	rules := authority.Rules{Managers: ec.Managers, Operators: ec.Operators}
	models, err := modelfile.NewCatalog(cfg.Models, modelfile.CatalogConfig{Getenv: os.Getenv, Secret: s.modelKey})
	if err != nil {
		return fmt.Errorf("open the models: %w", err)
	}
	if cfg.As == nil {
		cfg.As = func(_ context.Context, p haft.Principal, agent haft.AgentID) (haft.Principal, error) {
			if p.Agent = ""; !rules.Manages(p) {
				return p, &haft.Error{Code: haft.CodeDenied, Message: "only managers act as other agents"}
			}
			p.Agent = string(agent)
			return p, nil
		}
	}
	kept := memorystore.New(s.Store)
	s.conversations = conversation.New(conversation.Config{
		Turns: kept, Claims: kept, History: kept, Models: models, Calls: s.Engine, Owner: s.Engine.Owner,
		Agents:    profile.Agents{Finder: s.API, Rows: s.Store.Agents, Blocks: kept, Tools: s.Registry},
		Authority: rules, Events: s.API, As: cfg.As, Observe: cfg.Observe, Budget: cfg.Budget, Logger: ec.Logger,
		Recheck: func(ctx context.Context, p haft.Principal) (haft.Principal, error) {
			now, _, err := ec.Recheck(ctx, p)
			return now, err
		},
	})
	s.Models = listed{models, rules}
	s.closers = append(s.closers, func() error {
		ctx, cancel := context.WithTimeout(context.Background(), leaveWait) //nolint:forbidigo // it is the end of all
		defer cancel()
		return s.conversations.Close(ctx)
	})
	return nil
}

// modelKey reads the key of a model that an organisation has stored. One that is bound goes to the hosts of its binding
// only, by the egress of calls.
func (s *Service) modelKey(ctx context.Context, org, name string) (secret.Value, error) {
	has, err := s.vault.Stored(ctx, org, "")
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

// listed are the models that are shown to those who may read agents.
type listed struct {
	*modelfile.Catalog
	rules authority.Rules
}

// Models implements [haft.Models].
func (l listed) Models(ctx context.Context, p haft.Principal) ([]haft.Model, error) {
	if err := l.rules.Authorize(p, haft.AgentsRead, authority.Resource{}); err != nil {
		return nil, err
	}
	return l.List(ctx, p.Org), nil
}

// Conversations returns what runs the turns of agents, or nil if this process runs none.
func (s *Service) Conversations() haft.Conversations {
	if s.conversations == nil {
		return nil
	}
	return s.conversations
}

// A mailbox delivers messages between agents where conversations run.
type mailbox struct{ *Service }

// Deliver implements [agenttool.Mailbox].
func (m mailbox) Deliver(ctx context.Context, from haft.Principal, turn haft.TurnID, agent, text string) error {
	if m.conversations == nil {
		return errNoAgents()
	}
	return m.conversations.Deliver(ctx, from, turn, agent, text)
}

// Reply implements [agenttool.Mailbox].
func (m mailbox) Reply(ctx context.Context, from haft.Principal, turn haft.TurnID, agent, text string) (string, error) {
	if m.conversations == nil {
		return "", errNoAgents()
	}
	return m.conversations.Reply(ctx, from, turn, agent, text)
}

func errNoAgents() error {
	return &haft.Error{Code: haft.CodeUnavailable, Message: "this process runs no agents: start haft serve or haft chat"}
}
