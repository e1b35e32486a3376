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
	"haft/internal/exit"
	"haft/internal/terminal"
	"haft/internal/toolfile"
)

// agentCommand keeps agents.
func agentCommand(*profile) command {
	var unset []string
	fields := &agentFields{}
	return command{
		use: "agent", short: "Keep agents: their instructions, tools, memory, environment and tool rules",
		example: `  haft agent create helper --model claude --instructions @helper.md
  haft agent attach helper forecast
  haft agent env helper API_KEY=…          the value is never shown again
  haft agent block helper human "Ann, from Oslo"
  haft call forecast --agent helper --arg city=Oslo`,
		missing: "see which there are with: haft agent list, and which tools with: haft tool list",
		subs: append(memoryCommands(), []command{
			{use: "create NAME", short: "Make an agent", flags: fields.flags(), run: createAgent(fields)},
			{use: "set NAME", short: "Change the description, instructions, model, workspace or tags of an agent",
				flags: fields.flags(), run: changeAgent(fields.set)},
			{use: "list", short: "List agents",
				run: listFiltered(system.AgentList, &haft.AgentFilter{}, listing[haft.Agent]{
					"NAME,ID,TOOLS,RULES,ENVIRONMENT,CHANGED", func(a haft.Agent) []any {
						return []any{cell{a.Name, bold}, a.ID, strings.Join(a.Tools, " "), len(a.Rules), len(a.Env),
							since(a.Updated)}
					}, "there are no agents; make one with: haft agent create NAME"})},
			{use: "show NAME", short: "Show an agent, without the values of its environment",
				run: showOne(system.Agent, printAgent)},
			{use: "rm NAME", short: "Remove an agent; its calls and audit stay",
				run: removeOne(system.RemoveAgent, "removed ", "")},
			{use: "attach NAME TOOL…", short: "Give an agent tools",
				run: changeAgent(func(_ *session, a *haft.Agent, tools []string) error {
					for _, name := range tools {
						if !slices.Contains(a.Tools, name) {
							a.Tools = append(a.Tools, name)
						}
					}
					return nil
				})},
			{use: "detach NAME TOOL…", short: "Take tools from an agent",
				run: changeAgent(func(_ *session, a *haft.Agent, tools []string) error {
					a.Tools = slices.DeleteFunc(a.Tools, func(n string) bool { return slices.Contains(tools, n) })
					return nil
				})},
			{use: "env NAME [K=V…]", short: "Set or remove variables of an agent's calls; values are never shown",
				flags: []flag{{&unset, "unset", "a variable to remove; may be given again"}},
				run:   agentEnv(&unset)},
			{use: "rules NAME [@FILE]", short: "Replace the tool rules of an agent: a JSON array, as in Letta",
				run: agentRules},
			{use: "enable NAME", short: "Enable an agent's calls", run: switchAgent(false)},
			{use: "disable NAME", short: "Disable an agent's calls", run: switchAgent(true)},
		}...),
	}
}

// memoryCommands work on what agents remember.
func memoryCommands() []command {
	var tags []string
	block := &backend.BlockWork{}
	return []command{
		{use: "blocks NAME", short: "List the blocks of memory that an agent has before it", run: agentBlocks},
		{use: "block NAME LABEL [TEXT]", short: "Show or set a block of memory; TEXT may be @FILE or - for the input",
			flags: []flag{{&block.Description, "description", "what the block is for, for the model"},
				{&block.Limit, "limit", "how many characters it may have"},
				{&block.ReadOnly, "read-only", "let no tool change it"},
				{&block.Remove, "rm", "take it from the agent, and remove it if nobody else has it"}},
			run: onBlock(block, block.Block)},
		{use: "share NAME LABEL AGENT…", short: "Give a block of an agent to others, who then have the same",
			run: onBlock(block, block.ShareBlock)},
		{use: "remember NAME TEXT", short: "Keep a text in the archive of an agent", flags: tagFlag(&tags),
			run: func(ctx context.Context, s *session, args []string) error {
				passage, err := backend.MemoryOf(s.system).AddPassage(ctx, s.p, args[0], args[1], tags)
				if err != nil {
					return err
				}
				return s.printLine(passage, "kept as "+string(passage.ID))
			}},
		{use: "recall NAME [WORD…]", short: "Search the archive of an agent", flags: tagFlag(&tags),
			run: func(ctx context.Context, s *session, args []string) error {
				return printList(s.profile, backend.Recall(ctx, s.system, s.p, args, tags), listing[haft.Passage]{
					"KEPT,TAGS,TEXT", func(x haft.Passage) []any {
						return []any{since(x.Created), strings.Join(x.Tags, " "), terminal.OneLine(x.Text, 100)}
					}, "nothing is kept that fits"})
			}},
		{use: "messages NAME [WORD…]", short: "List or search what you and an agent said to each other",
			run: func(ctx context.Context, s *session, args []string) error {
				return printList(s.profile, backend.Messages(ctx, s.system, s.p, args, 0), listing[haft.Message]{
					"SAID,WHO,TEXT", func(x haft.Message) []any {
						return []any{since(x.Created), cell{string(x.Role), bold}, terminal.OneLine(x.Text, 100)}
					}, "nothing was said that fits"})
			}},
	}
}

// tagFlag is the flag of tags of passages.
func tagFlag(tags *[]string) []flag { return []flag{{tags, "tag", "a tag; may be given again"}} }

// agentBlocks lists the blocks of an agent.
func agentBlocks(ctx context.Context, s *session, args []string) error {
	return printList(s.profile, backend.Blocks(ctx, s.system, s.p, args[0]), listing[haft.Block]{
		"LABEL,ID,SIZE,CHANGED,TEXT", func(b haft.Block) []any {
			return []any{cell{b.Label, bold}, b.ID, fmt.Sprintf("%d of %d", utf8.RuneCountInString(b.Value), b.Limit),
				since(b.Updated), terminal.OneLine(b.Value, 60)}
		}, "the agent has no blocks; make one with: haft agent block NAME LABEL TEXT"})
}

// onBlock does something with a block of an agent, and prints it.
func onBlock(w *backend.BlockWork, do func(context.Context, system, haft.Principal, []string) (*haft.Block,
	error)) work {
	return func(ctx context.Context, s *session, args []string) error {
		w.In = s.in
		b, err := do(ctx, s.system, s.p, args)
		if err != nil {
			return err
		}
		return s.printLine(b, safe(s.out, b.Value))
	}
}

// printAgent prints an agent.
func printAgent(s *session, a *haft.Agent) {
	state := cell{"ready", green}
	if a.Disabled {
		state = cell{"disabled", yellow}
	}
	rules := make([]string, len(a.Rules))
	for i, r := range a.Rules {
		rules[i] = fmt.Sprintf("%s %s", r.Type, r.Tool)
	}
	printFacts(s.out, "name", cell{a.Name, bold}, "id", a.ID, "state", state, "description", a.Description,
		"model", a.Model, "tags", strings.Join(a.Tags, ", "), "instructions", a.Instructions,
		"tools", strings.Join(a.Tools, ", "), "workspace", a.Workspace,
		"environment", strings.Join(slices.Sorted(maps.Keys(a.Env)), ", "), "rules", strings.Join(rules, ", "),
		"changed", since(a.Updated))
}

// agentFields are the flags that describe an agent.
type agentFields struct {
	description, instructions, model, workspace string
	tags                                        []string
}

func (f *agentFields) flags() []flag {
	return []flag{
		{&f.description, "description", "what the agent is for"},
		{&f.instructions, "instructions", "what its model gets first: `TEXT`, @FILE, or - for standard input"},
		{&f.model, "model", "the `NAME` of the model that it uses"},
		{&f.workspace, "workspace", "the `NAME[:ro]` of the workspace of its calls which name none; it must be shared"},
		{&f.tags, "tag", "a tag; may be given again, and replaces those that are there"},
	}
}

// set puts what flags give into an agent.
func (f *agentFields) set(s *session, a *haft.Agent, _ []string) error {
	text, err := toolfile.ReadGiven(s.in, f.instructions)
	if err != nil {
		return err
	}
	f.instructions = string(text)
	for name, to := range map[string][2]*string{"description": {&a.Description, &f.description},
		"instructions": {&a.Instructions, &f.instructions}, "model": {&a.Model, &f.model},
		"workspace": {&a.Workspace, &f.workspace}} {
		if s.given(name) {
			*to[0] = *to[1]
		}
	}
	if s.given("tag") {
		a.Tags = slices.DeleteFunc(slices.Clone(f.tags), func(tag string) bool { return tag == "" })
	}
	return nil
}

// createAgent makes an agent.
func createAgent(fields *agentFields) work {
	return func(ctx context.Context, s *session, args []string) error {
		switch _, err := s.Agent(ctx, s.p, args[0]); {
		case err == nil:
			return exit.Advise(&haft.Error{Code: haft.CodeConflict, Message: "there is an agent of that name already"},
				"see it with: haft agent show "+args[0])
		case haft.CodeOf(err) != haft.CodeNotFound:
			return err
		}
		a := &haft.Agent{Name: args[0]}
		err := fields.set(s, a, nil)
		if err == nil {
			a, err = s.PutAgent(ctx, s.p, *a)
		}
		if err != nil {
			return err
		}
		return s.print(a, func() { printAgent(s, a) })
	}
}

// changeAgent changes the agent that the first argument names, and prints it. The change has the
// other arguments.
func changeAgent(change func(s *session, a *haft.Agent, args []string) error) work {
	return func(ctx context.Context, s *session, args []string) error {
		a, err := s.Agent(ctx, s.p, args[0])
		if err != nil {
			return err
		}
		if err := change(s, a, args[1:]); err != nil {
			return err
		}
		if a, err = s.PutAgent(ctx, s.p, *a); err != nil {
			return err
		}
		return s.print(a, func() { printAgent(s, a) })
	}
}

// agentEnv changes the environment of an agent's calls, or lists the names of its variables.
func agentEnv(unset *[]string) work {
	change := changeAgent(func(_ *session, a *haft.Agent, args []string) error {
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
	return func(ctx context.Context, s *session, args []string) error {
		if len(args) > 1 || len(*unset) > 0 {
			return change(ctx, s, args)
		}
		a, err := s.Agent(ctx, s.p, args[0])
		if err != nil {
			return err
		}
		names := append([]string{}, slices.Sorted(maps.Keys(a.Env))...)
		return s.print(names, func() {
			for _, name := range names {
				fmt.Fprintln(s.out, name)
			}
		})
	}
}

// agentRules replaces the tool rules of an agent, or prints them.
func agentRules(ctx context.Context, s *session, args []string) error {
	if len(args) == 1 {
		a, err := s.Agent(ctx, s.p, args[0])
		if err != nil {
			return err
		}
		return printJSON(s.out, append([]haft.ToolRule{}, a.Rules...))
	}
	if text := strings.TrimSpace(args[1]); text != "-" && (text == "" || !strings.ContainsAny(text[:1], "@[")) {
		return exit.Misuse(errors.New("the rules are @FILE, - for standard input, or a JSON array"))
	}
	var rules []haft.ToolRule
	if err := toolfile.ReadDocument(s.in, "the file of rules", args[1], &rules); err != nil {
		return err
	}
	return changeAgent(func(_ *session, a *haft.Agent, _ []string) error {
		a.Rules = rules
		return nil
	})(ctx, s, args)
}

// switchAgent enables or disables an agent.
func switchAgent(disabled bool) work {
	return changeAgent(func(_ *session, a *haft.Agent, _ []string) error {
		a.Disabled = disabled
		return nil
	})
}
