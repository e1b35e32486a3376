package backend

import (
	"cmp"
	"context"
	"io"
	"iter"
	"strings"

	"haft"
	"haft/internal/toolfile"
)

// BlockWork works on a block of an agent, which is named by its label.
type BlockWork struct {
	Description      string
	Limit            int
	ReadOnly, Remove bool
	In               io.Reader
}

// Blocks lists the blocks of an agent.
func Blocks(ctx context.Context, s System, p haft.Principal, agent string) iter.Seq2[haft.Block, error] {
	return pages(func(after haft.Block) ([]haft.Block, error) {
		return MemoryOf(s).Blocks(ctx, p, haft.BlockFilter{Agent: agent, After: after.ID})
	})
}

// pages yields what comes in pages, until one is empty.
func pages[T any](next func(after T) ([]T, error)) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		for last := *new(T); ; {
			list, err := next(last)
			if err != nil {
				yield(last, err)
				return
			}
			for _, last = range list {
				if !yield(last, nil) {
					return
				}
			}
			if len(list) == 0 {
				return
			}
		}
	}
}

// Block shows the block of an agent that the arguments name, or sets its value to the third: the text, @FILE, or - for
// the input. One that is not there is made and attached. With Remove the agent loses it, and it is removed if nobody
// else has it.
func (w *BlockWork) Block(ctx context.Context, s System, p haft.Principal, args []string) (*haft.Block, error) {
	m := MemoryOf(s)
	list, err := m.Blocks(ctx, p, haft.BlockFilter{Agent: args[0], Label: args[1]})
	if err != nil {
		return nil, err
	}
	if len(list) == 0 && (len(args) < 3 || w.Remove) {
		return nil, &haft.Error{Code: haft.CodeNotFound, Message: "the agent has no block of that label"}
	}
	if w.Remove {
		return &list[0], w.remove(ctx, m, p, args[0], list[0].ID)
	}
	if len(args) < 3 {
		return &list[0], nil
	}
	raw, err := toolfile.ReadGiven(w.In, args[2])
	if err != nil {
		return nil, err
	}
	text := string(raw)
	if len(list) > 0 {
		return m.ChangeBlock(ctx, p, list[0].ID, haft.BlockChange{Value: &text, Description: given(w.Description),
			Limit: given(w.Limit), ReadOnly: given(w.ReadOnly), Version: list[0].Version})
	}
	b, err := m.AddBlock(ctx, p, haft.Block{Label: args[1], Value: text, Description: w.Description, Limit: w.Limit,
		ReadOnly: w.ReadOnly})
	if err != nil {
		return nil, err
	}
	return b, m.AttachBlock(ctx, p, args[0], b.ID)
}

// given is a value that changes something, or nil if it is not given.
func given[T comparable](v T) *T {
	if v == *new(T) {
		return nil
	}
	return &v
}

// remove takes a block from an agent, and removes it if it was the last that had it.
func (w *BlockWork) remove(ctx context.Context, m Memory, p haft.Principal, agent string, id haft.BlockID) error {
	if err := m.DetachBlock(ctx, p, agent, id); err != nil {
		return err
	}
	if others, err := m.BlockAgents(ctx, p, id); err != nil || len(others) > 0 {
		return err
	}
	return m.RemoveBlock(ctx, p, id)
}

// ShareBlock gives the block that an agent calls by a label to other agents.
func (w *BlockWork) ShareBlock(ctx context.Context, s System, p haft.Principal, args []string) (*haft.Block, error) {
	b, err := (&BlockWork{}).Block(ctx, s, p, args[:2])
	for _, agent := range args[2:] {
		if err == nil {
			err = MemoryOf(s).AttachBlock(ctx, p, agent, b.ID)
		}
	}
	return b, err
}

// Recall lists the passages of an agent that have words, the newest first if there are none.
func Recall(ctx context.Context, s System, p haft.Principal, args, tags []string) iter.Seq2[haft.Passage, error] {
	f := haft.PassageFilter{Query: strings.Join(args[1:], " "), Tags: tags, Limit: 100}
	f.Newest = f.Query == ""
	return once(func() ([]haft.Passage, error) { return MemoryOf(s).Passages(ctx, p, args[0], f) })
}

// Messages lists what was said to an agent and by it, in the order of time; of those that have words the best come
// first.
func Messages(ctx context.Context, s System, p haft.Principal, args []string, limit int) iter.Seq2[haft.Message,
	error] {
	f := haft.MessageFilter{Query: strings.Join(args[1:], " "), Limit: cmp.Or(limit, 50)}
	f.Newest = f.Query == ""
	return once(func() ([]haft.Message, error) {
		l, ok := s.(*Local)
		if !ok {
			talks, err := ConversationsOf(s)
			if err != nil {
				return nil, err
			}
			return talks.Messages(ctx, p, args[0], f)
		}
		a, err := l.Agent(ctx, p, args[0])
		if err != nil {
			return nil, err
		}
		p.Agent = string(a.ID)
		return l.AgentLoop.Memory().Messages(ctx, p, f)
	})
}

// once yields a list.
func once[T any](list func() ([]T, error)) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		all, err := list()
		if err != nil {
			yield(*new(T), err)
		}
		for _, v := range all {
			if !yield(v, nil) {
				return
			}
		}
	}
}
