package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"

	"haft"
	"haft/internal/backend"
	"haft/internal/cli"
	"haft/internal/exit"
	"haft/internal/terminal"
	"haft/internal/toolfile"
)

// agentCommand keeps agents.
func agentCommand(*cli.Profile) cli.Command {
	var unset []string
	fields := &agentFields{}
	return cli.Command{
		Use: "agent", Short: "Keep agents: their instructions, tools, memory, environment and tool rules",
		Example: `  haft agent add helper --model claude --instructions @helper.md
  haft agent attach helper forecast
  haft agent env helper API_KEY=…          the value is never shown again
  haft agent block helper human "Ann, from Oslo"
  haft call forecast --agent helper --arg city=Oslo`,
		Missing: "see which there are with: haft agent list, and which tools with: haft tool list",
		Subs: append(memoryCommands(), []cli.Command{
			{Use: "add NAME", Old: []string{"create"}, Short: "Make an agent", Flags: fields.flags(),
				Run: createAgent(fields)},
			{Use: "set NAME", Short: "Change the description, instructions, model, workspace or tags of an agent",
				Flags: fields.flags(), Run: changeAgent(fields.set)},
			{Use: "list", Short: "List agents",
				Run: cli.ListFiltered(cli.System.AgentList, &haft.AgentFilter{}, cli.Listing[haft.Agent]{
					"NAME,ID,TOOLS,RULES,ENVIRONMENT,CHANGED", func(a haft.Agent) []any {
						return []any{cli.Shaded(a.Name, bold), a.ID, strings.Join(a.Tools, " "), len(a.Rules),
							len(a.Env),
							cli.Since(a.Updated)}
					}, "there are no agents; make one with: haft agent add NAME"})},
			{Use: "show NAME", Short: "Show an agent, without the values of its environment",
				Run: cli.ShowOne(cli.System.Agent, printAgent)},
			{Use: "remove NAME", Old: []string{"rm"}, Short: "Remove an agent; its calls and audit stay",
				Run: cli.RemoveOne(cli.System.RemoveAgent, "removed ", "")},
			{Use: "attach NAME TOOL…", Short: "Give an agent tools",
				Run: changeAgent(func(_ *cli.Session, a *haft.Agent, tools []string) error {
					for _, name := range tools {
						if !slices.Contains(a.Tools, name) {
							a.Tools = append(a.Tools, name)
						}
					}
					return nil
				})},
			{Use: "detach NAME TOOL…", Short: "Take tools from an agent",
				Run: changeAgent(func(_ *cli.Session, a *haft.Agent, tools []string) error {
					a.Tools = slices.DeleteFunc(a.Tools, func(n string) bool { return slices.Contains(tools, n) })
					return nil
				})},
			{Use: "env NAME [K=V…]", Short: "Set or remove variables of an agent's calls; values are never shown",
				Flags: []cli.Flag{{&unset, "unset", "a variable to remove; may be given again"}},
				Run:   agentEnv(&unset)},
			{Use: "rules NAME [@FILE]", Short: "Replace the tool rules of an agent: a JSON array, as in Letta",
				Run: agentRules},
			{Use: "enable NAME", Short: "Enable an agent's calls", Run: switchAgent(false)},
			{Use: "disable NAME", Short: "Disable an agent's calls", Run: switchAgent(true)},
		}...),
	}
}

// memoryCommands work on what agents remember.
func memoryCommands() []cli.Command {
	var tags []string
	block := &backend.BlockWork{}
	return []cli.Command{
		{Use: "blocks NAME", Short: "List the blocks of memory that an agent has before it", Run: agentBlocks},
		{Use: "block NAME LABEL [TEXT]", Short: "Show or set a block of memory; TEXT may be @FILE or - for the input",
			Flags: []cli.Flag{{&block.Description, "description", "what the block is for, for the model"},
				{&block.Limit, "limit", "how many characters it may have"},
				{&block.ReadOnly, "read-only", "let no tool change it"},
				{&block.Remove, "rm", "take it from the agent, and remove it if nobody else has it"}},
			Run: onBlock(block, block.Block)},
		{Use: "share NAME LABEL AGENT…", Short: "Give a block of an agent to others, who then have the same",
			Run: onBlock(block, block.ShareBlock)},
		{Use: "remember NAME TEXT", Short: "Keep a text in the archive of an agent", Flags: tagFlag(&tags),
			Run: func(ctx context.Context, s *cli.Session, args []string) error {
				passage, err := backend.MemoryOf(s.System).AddPassage(ctx, s.Who, args[0], args[1], tags)
				if err != nil {
					return err
				}
				return s.PrintLine(passage, "kept as "+string(passage.ID))
			}},
		{Use: "recall NAME [WORD…]", Short: "Search the archive of an agent", Flags: tagFlag(&tags),
			Run: func(ctx context.Context, s *cli.Session, args []string) error {
				return cli.PrintList(s.Profile, backend.Recall(ctx, s.System, s.Who, args, tags),
					cli.Listing[haft.Passage]{
						"KEPT,TAGS,TEXT", func(x haft.Passage) []any {
							return []any{cli.Since(x.Created), strings.Join(x.Tags, " "), terminal.OneLine(x.Text, 100)}
						}, "nothing is kept that fits"})
			}},
		{Use: "messages NAME [WORD…]", Short: "List or search what you and an agent said to each other",
			Run: func(ctx context.Context, s *cli.Session, args []string) error {
				return cli.PrintList(s.Profile, backend.Messages(ctx, s.System, s.Who, args, 0),
					cli.Listing[haft.Message]{
						"SAID,WHO,TEXT", func(x haft.Message) []any {
							return []any{cli.Since(x.Created), cli.Shaded(string(x.Role), bold),
								terminal.OneLine(x.Text, 100)}
						}, "nothing was said that fits"})
			}},
	}
}

// tagFlag is the flag of tags of passages.
func tagFlag(tags *[]string) []cli.Flag {
	return []cli.Flag{{tags, "tag", "a tag; may be given again"}}
}

// agentBlocks lists the blocks of an agent.
func agentBlocks(ctx context.Context, s *cli.Session, args []string) error {
	return cli.PrintList(s.Profile, backend.Blocks(ctx, s.System, s.Who, args[0]), cli.Listing[haft.Block]{
		"LABEL,ID,SIZE,CHANGED,TEXT", func(b haft.Block) []any {
			return []any{cli.Shaded(b.Label, bold), b.ID, fmt.Sprintf("%d of %d", utf8.RuneCountInString(b.Value),
				b.Limit),
				cli.Since(b.Updated), terminal.OneLine(b.Value, 60)}
		}, "the agent has no blocks; make one with: haft agent block NAME LABEL TEXT"})
}

// onBlock does something with a block of an agent, and prints it.
func onBlock(w *backend.BlockWork, do func(context.Context, cli.System, haft.Principal, []string) (*haft.Block,
	error)) cli.Work {
	return func(ctx context.Context, s *cli.Session, args []string) error {
		w.In = s.In
		b, err := do(ctx, s.System, s.Who, args)
		if err != nil {
			return err
		}
		return s.PrintLine(b, safe(s.Out, b.Value))
	}
}

// printAgent prints an agent.
func printAgent(s *cli.Session, a *haft.Agent) {
	state := cli.Shaded("ready", green)
	if a.Disabled {
		state = cli.Shaded("disabled", yellow)
	}
	rules := make([]string, len(a.Rules))
	for i, r := range a.Rules {
		rules[i] = fmt.Sprintf("%s %s", r.Type, r.Tool)
	}
	cli.PrintFacts(s.Out, "name", cli.Shaded(a.Name, bold), "id", a.ID, "state", state, "description", a.Description,
		"model", a.Model, "tags", strings.Join(a.Tags, ", "), "instructions", a.Instructions,
		"tools", strings.Join(a.Tools, ", "), "workspace", a.Workspace, "sandbox", a.Sandbox,
		"environment", strings.Join(slices.Sorted(maps.Keys(a.Env)), ", "), "rules", strings.Join(rules, ", "),
		"changed", cli.Since(a.Updated))
}

// agentFields are the flags that describe an agent.
type agentFields struct {
	description, instructions, model, workspace, sandbox string
	tags                                                 []string
}

func (f *agentFields) flags() []cli.Flag {
	return []cli.Flag{
		{&f.description, "description", "what the agent is for"},
		{&f.instructions, "instructions", "what its model gets first: `TEXT`, @FILE, or - for standard input"},
		{&f.model, "model", "the `NAME` of the model that it uses"},
		{&f.workspace, "workspace", "the `NAME[:ro]` of the workspace of its calls which name none; it must be shared"},
		{&f.sandbox, "sandbox", "the sandbox of its calls for which neither call nor tool names one"},
		{&f.tags, "tag", "a tag; may be given again, and replaces those that are there"},
	}
}

// set puts what flags give into an agent.
func (f *agentFields) set(s *cli.Session, a *haft.Agent, _ []string) error {
	text, err := toolfile.ReadGiven(s.In, f.instructions)
	if err != nil {
		return err
	}
	f.instructions = string(text)
	for name, to := range map[string][2]*string{"description": {&a.Description, &f.description},
		"instructions": {&a.Instructions, &f.instructions}, "model": {&a.Model, &f.model},
		"workspace": {&a.Workspace, &f.workspace}, "sandbox": {&a.Sandbox, &f.sandbox}} {
		if s.Given(name) {
			*to[0] = *to[1]
		}
	}
	if s.Given("tag") {
		a.Tags = slices.DeleteFunc(slices.Clone(f.tags), func(tag string) bool { return tag == "" })
	}
	return nil
}

// createAgent makes an agent.
func createAgent(fields *agentFields) cli.Work {
	return func(ctx context.Context, s *cli.Session, args []string) error {
		switch _, err := s.Agent(ctx, s.Who, args[0]); {
		case err == nil:
			return exit.Advise(&haft.Error{Code: haft.CodeConflict, Message: "there is an agent of that name already"},
				"see it with: haft agent show "+args[0])
		case haft.CodeOf(err) != haft.CodeNotFound:
			return err
		}
		a := &haft.Agent{Name: args[0]}
		err := fields.set(s, a, nil)
		if err == nil {
			a, err = s.PutAgent(ctx, s.Who, *a)
		}
		if err != nil {
			return err
		}
		return s.Print(a, func() { printAgent(s, a) })
	}
}

// changeAgent changes the agent that the first argument names, and prints it. The change has the
// other arguments.
func changeAgent(change func(s *cli.Session, a *haft.Agent, args []string) error) cli.Work {
	return func(ctx context.Context, s *cli.Session, args []string) error {
		a, err := s.Agent(ctx, s.Who, args[0])
		if err != nil {
			return err
		}
		if err := change(s, a, args[1:]); err != nil {
			return err
		}
		if a, err = s.PutAgent(ctx, s.Who, *a); err != nil {
			return err
		}
		return s.Print(a, func() { printAgent(s, a) })
	}
}

// agentEnv changes the environment of an agent's calls, or lists the names of its variables.
func agentEnv(unset *[]string) cli.Work {
	change := changeAgent(func(_ *cli.Session, a *haft.Agent, args []string) error {
		set, err := toolfile.Pairs("a variable", args)
		if err != nil {
			return err
		}
		for k, v := range set {
			if v == "" {
				return exit.Misuse(fmt.Errorf("%s has no value: give one, or remove it with --unset %s", k, k))
			}
		}
		if a.Env == nil {
			a.Env = map[string]string{}
		}
		for _, k := range *unset {
			if _, ok := a.Env[k]; !ok {
				return exit.Misuse(fmt.Errorf("%s is not set; see what is with: haft agent env %s", k, a.Name))
			}
			delete(a.Env, k)
		}
		maps.Copy(a.Env, set)
		return nil
	})
	return func(ctx context.Context, s *cli.Session, args []string) error {
		if len(args) > 1 || len(*unset) > 0 {
			return change(ctx, s, args)
		}
		a, err := s.Agent(ctx, s.Who, args[0])
		if err != nil {
			return err
		}
		names := append([]string{}, slices.Sorted(maps.Keys(a.Env))...)
		return s.Print(names, func() {
			for _, name := range names {
				fmt.Fprintln(s.Out, name)
			}
		})
	}
}

// agentRules replaces the tool rules of an agent, or prints them.
func agentRules(ctx context.Context, s *cli.Session, args []string) error {
	if len(args) == 1 {
		a, err := s.Agent(ctx, s.Who, args[0])
		if err != nil {
			return err
		}
		return cli.PrintJSON(s.Out, append([]haft.ToolRule{}, a.Rules...))
	}
	if text := strings.TrimSpace(args[1]); text != "-" && (text == "" || !strings.ContainsAny(text[:1], "@[")) {
		return exit.Misuse(errors.New("the rules are @FILE, - for standard input, or a JSON array"))
	}
	var rules []haft.ToolRule
	if err := toolfile.ReadDocument(s.In, "the file of rules", args[1], &rules); err != nil {
		return err
	}
	return changeAgent(func(_ *cli.Session, a *haft.Agent, _ []string) error {
		a.Rules = rules
		return nil
	})(ctx, s, args)
}

// switchAgent enables or disables an agent.
func switchAgent(disabled bool) cli.Work {
	return changeAgent(func(_ *cli.Session, a *haft.Agent, _ []string) error {
		a.Disabled = disabled
		return nil
	})
}
