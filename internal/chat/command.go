package chat

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"haft"
)

// A command is what a line that begins with a slash does.
type command struct {
	name, args, short string
	run               func(ctx context.Context, words string) error
}

// commands are those of the session.
func (s *session) commands() []command {
	list := []command{
		{"help", "", "show the commands", func(context.Context, string) error { s.help(); return nil }},
		{"history", "[WORDS]", "show the last messages, or those that have the words", s.history},
		{"model", "[NAME]", "show or choose the model of the next turns", s.chooseModel},
		{"cancel", "", "cancel the turn that is under way", s.cancelOpen},
		{"exit", "", "leave", func(context.Context, string) error { return errLeave }},
	}
	if s.Memory != nil {
		list = append(list, command{"memory", "", "show the memory of the agent", s.memory})
	}
	if s.Agents != nil {
		list = append(list, command{"tools", "", "show the tools of the agent", s.tools})
	}
	return list
}

// command does what a line says.
func (s *session) command(ctx context.Context, line string) error {
	name, words, _ := strings.Cut(strings.TrimSpace(line), " ")
	list := s.commands()
	i := slices.IndexFunc(list, func(c command) bool { return c.name == name })
	if i < 0 {
		s.view.problem("there is no command /"+name, "/help shows the commands; // sends a message that begins with /")
		return nil
	}
	return list[i].run(ctx, strings.TrimSpace(words))
}

// help shows the commands.
func (s *session) help() {
	for _, c := range s.commands() {
		s.view.line(fmt.Sprintf("  /%-18s %s", strings.TrimSpace(c.name+" "+c.args), c.short))
	}
	s.view.note("a backslash at the end of a line continues the message; // sends a message that begins with /")
	s.view.note("Ctrl-C cancels the turn, and leaves at the prompt or a second time; Ctrl-D leaves")
}

// history shows messages.
func (s *session) history(ctx context.Context, words string) error {
	list, err := s.Conversations.Messages(ctx, s.Principal, s.Agent, haft.MessageFilter{Query: words, Newest: true,
		Limit: recentMessages})
	for _, m := range slices.Backward(list) {
		s.view.message(m)
	}
	if err == nil && len(list) == 0 {
		s.view.note("there are no such messages")
	}
	return err
}

// chooseModel shows or chooses the model.
func (s *session) chooseModel(_ context.Context, name string) error {
	if name != "" {
		s.Model = name
	}
	s.view.note("the next turns use " + cmp.Or(s.Model, "the model of the agent"))
	return nil
}

// cancelOpen cancels the turn that is under way, such as one that another terminal has begun.
func (s *session) cancelOpen(ctx context.Context, _ string) error {
	_, turn, err := s.recent(ctx)
	if err != nil {
		return err
	}
	if turn == nil {
		s.view.note("no turn is under way")
		return nil
	}
	if err := s.Conversations.CancelTurn(ctx, s.Principal, turn.ID); err != nil {
		return err
	}
	s.open = ""
	s.view.note("the turn is cancelled")
	return nil
}

// memory shows the blocks of the agent.
func (s *session) memory(ctx context.Context, _ string) error {
	list, err := s.Memory.Blocks(ctx, s.Principal, haft.BlockFilter{Agent: s.Agent, Limit: haft.MaxBlocks})
	for _, b := range list {
		s.view.line(fmt.Sprintf("block %s (%d of %d characters)", oneLine(b.Label, 60), len([]rune(b.Value)), b.Limit))
		s.view.text(b.Value, false)
		s.view.end()
	}
	if err == nil && len(list) == 0 {
		s.view.note("the agent has no memory")
	}
	return err
}

// tools shows the tools of the agent.
func (s *session) tools(ctx context.Context, _ string) error {
	a, err := s.Agents.Agent(ctx, s.Principal, s.Agent)
	if err != nil {
		return err
	}
	for _, name := range a.Tools {
		s.view.line("  " + oneLine(name, s.view.width()-3))
	}
	if len(a.Tools) == 0 {
		s.view.note("the agent has no tools")
	}
	return nil
}
