// Package agenttool has the built-in tools with which agents remember: they edit the blocks of memory that an agent has
// before it, keep and find passages in its archive, find what was said, and send messages.
//
// Names, arguments and the wording of errors are those of Letta, which models and prompts were made for. A tool acts
// for the agent of its call, and for nobody else; a call without an agent is refused.
package agenttool

import (
	"context"
	"errors"

	"haft"
	"haft/executor/builtin"
)

// A BlockEditor changes the blocks of agents. Edit is given the block as it is, and its answer is kept in the same
// transaction.
type BlockEditor interface {
	EditBlock(ctx context.Context, p haft.Principal, label string, edit func(haft.Block) (string, error)) error
}

// An Archive keeps the passages of agents.
type Archive interface {
	AddPassage(ctx context.Context, p haft.Principal, text string, tags []string) (*haft.Passage, error)
	Passages(ctx context.Context, p haft.Principal, f haft.PassageFilter) ([]haft.Passage, error)
}

// A History is what users and agents said to each other.
type History interface {
	Messages(ctx context.Context, p haft.Principal, f haft.MessageFilter) ([]haft.Message, error)
}

// A Mailbox takes messages that agents send to other agents in their turns. Reply waits for the answer.
type Mailbox interface {
	Deliver(ctx context.Context, from haft.Principal, turn haft.TurnID, agent, text string) error
	Reply(ctx context.Context, from haft.Principal, turn haft.TurnID, agent, text string) (string, error)
}

// Config is what the tools work on. All of it acts for the agent of the principal, and for its user.
type Config struct {
	Blocks  BlockEditor
	Archive Archive
	History History
	Mailbox Mailbox
}

// category is that of all tools here.
const category = "memory"

// Add adds the tools.
func Add(s *builtin.Set, cfg Config) error {
	return errors.Join(addBlockTools(s, cfg.Blocks), addArchiveTools(s, cfg.Archive), addHistoryTools(s, cfg.History),
		addMessageTools(s, cfg.Mailbox))
}

// agentOf is the principal of a call that an agent made.
func agentOf(c builtin.Call) (haft.Principal, error) {
	if c.Principal.Agent == "" {
		return haft.Principal{}, &haft.Error{Code: haft.CodeInvalid,
			Message: "the tool works on the memory of an agent, and this call is not of an agent: name one, as " +
				"in --agent"}
	}
	return c.Principal, nil
}
