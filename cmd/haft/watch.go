package main

import (
	"context"
	"errors"
	"time"

	"haft"
	"haft/internal/backend"
	"haft/internal/cli"
	"haft/internal/exit"
	"haft/internal/follow"
	"haft/internal/terminal"
)

// logsCommand shows what tools print.
func logsCommand(*cli.Profile) cli.Command {
	f, goOn := callFilter{}, false
	f.Limit = 50
	return cli.Command{
		Use: "logs [TOOL]", Short: "Show what tools print and what becomes of their calls, also as it happens",
		Example: `  haft logs                        of the last 50 calls
  haft logs forecast -f            of one tool, and go on with the calls to come`,
		Names: toolNames,
		Flags: append(f.listFlags()[:1:1], append(f.listFlags()[2:],
			cli.Flag{&goOn, "follow,f", "go on with the calls to come"})...),
		Run: func(ctx context.Context, s *cli.Session, args []string) error {
			if s.JSON {
				return exit.Misuse(errors.New("logs are lines for people: for documents use haft events or haft calls"))
			}
			if err := elsewhere(s, goOn); err != nil {
				return err
			}
			which, err := f.read(ctx, s)
			if err != nil {
				return err
			}
			if len(args) == 1 {
				which.Tool = args[0]
				if err := checkLogged(ctx, s, which.Tool); err != nil {
					return err
				}
			}
			return follow.Logs{Out: s.Out, Filter: which, Follow: goOn}.Show(ctx, s, s.Who)
		},
	}
}

// checkLogged refuses the name of a tool that does not exist and that has no calls: a tool that was removed has some.
func checkLogged(ctx context.Context, s *cli.Session, name string) error {
	_, err := s.Tool(ctx, s.Who, name)
	if haft.CodeOf(err) != haft.CodeNotFound {
		return err
	}
	for _, failed := range s.Records(ctx, s.Who, haft.CallFilter{Tool: name, Limit: 1}) {
		return failed
	}
	return didYouMean(ctx, s, name, err)
}

// eventsCommand shows what happens.
func eventsCommand(*cli.Profile) cli.Command {
	var types []string
	var which haft.EventFilter
	after := 0
	return cli.Command{
		Use: "events", Short: "Watch what happens to all calls, until Ctrl-C",
		Example: `  haft events                                  from now on
  haft events --type approval_requested        only requests for approval
  haft events --after 0 --json                 all that are kept, one JSON object a line`,
		Flags: []cli.Flag{
			{&types, "type", "only events of a type; may be given again"},
			{&which.Tool, "tool", "only of a tool"},
			{&which.User, "of-user", "only of a user"},
			{&which.Agent, "of-agent", "only of an agent"},
			{&after, "after", "from the event after this cursor on; 0 means all that are kept, -1 only those to " +
				"come (-1)"},
		},
		Run: func(ctx context.Context, s *cli.Session, _ []string) error {
			if err := elsewhere(s, true); err != nil {
				return err
			}
			for _, t := range types {
				which.Types = append(which.Types, haft.EventType(t))
			}
			which.Agent = s.AgentID(ctx, which.Agent)
			start := int64(after)
			if !s.Given("after") {
				start = -1
			}
			return follow.Events(ctx, s.Out, s, s.Who, which, start, s.JSON)
		},
	}
}

// topCommand shows what runs.
func topCommand(*cli.Profile) cli.Command {
	every, once, lines := time.Second, false, 0
	return cli.Command{
		Use: "top", Short: "Show what runs, waits and has just ended, again every second; q ends it",
		Flags: []cli.Flag{
			{&every, "every", "the time between two looks"},
			{&once, "once", "look once, and end; so it is where the output is no terminal"},
			{&lines, "lines", "how many calls are shown; 0 means 20"},
		},
		Run: func(ctx context.Context, s *cli.Session, _ []string) error {
			if err := elsewhere(s, !once); err != nil {
				return err
			}
			if every < 100*time.Millisecond {
				return exit.Misuse(errors.New("--every is 100ms at least"))
			}
			if once || !terminal.Is(s.Out) {
				every = 0
			}
			return follow.Top{In: s.In, Out: s.Out, Every: every, Lines: lines,
				Sessions: func(ctx context.Context) ([]haft.Session, error) {
					return backend.SessionsOf(s.System).Sessions(ctx, s.Who)
				}}.Show(ctx, s, s.Who)
		},
	}
}

// elsewhere refuses to wait for what happens in a system that this command has for itself: nothing
// can happen there.
func elsewhere(s *cli.Session, waits bool) error {
	if _, ok := s.System.(*backend.Local); ok && waits {
		return exit.Advise(exit.Misuse(errors.New("no server runs here, so nothing will happen while this waits")),
			"start one with: haft serve")
	}
	return nil
}

// toolNames completes the name of a tool.
func toolNames(ctx context.Context, s *cli.Session) (names []string, err error) {
	for t, err := range s.Tools(ctx, s.Who, haft.ToolFilter{}) {
		if err != nil {
			return nil, err
		}
		names = append(names, t.Name)
	}
	return names, nil
}
