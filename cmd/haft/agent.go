package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"haft"
)

// agentCommand keeps agents.
func agentCommand(std streams) *cobra.Command {
	cmd := group("agent", "Keep agents: their tools, environment and tool rules", `  haft agent create helper
  haft agent attach helper forecast
  haft agent env helper API_KEY=…          the value is never shown again
  haft call forecast --agent helper --arg city=Oslo`)
	p := attach(cmd)
	cmd.AddCommand(
		agentCreate(p, std), agentList(p, std), agentShow(p, std), agentRemove(p, std),
		agentTools(p, std, "attach", "Give an agent tools", func(have []string, name string) []string {
			if slices.Contains(have, name) {
				return have
			}
			return append(have, name)
		}),
		agentTools(p, std, "detach", "Take tools from an agent", func(have []string, name string) []string {
			return slices.DeleteFunc(have, func(n string) bool { return n == name })
		}),
		agentEnv(p, std), agentRules(p, std), agentSwitch(p, std, "enable", false),
		agentSwitch(p, std, "disable", true),
	)
	return cmd
}

// noAgent says what to do about an agent that is not there.
func noAgent(err error) error {
	if haft.CodeOf(err) != haft.CodeNotFound {
		return err
	}
	return advise(err, "see which there are with: haft agent list, and which tools with: haft tool list")
}

// tellAgent prints an agent.
func tellAgent(s *session, a *haft.Agent) error {
	if s.as.json {
		return printJSON(s.std.out, a)
	}
	state := cell{"ready", green}
	if a.Disabled {
		state = cell{"disabled", yellow}
	}
	printFacts(s.std.out, fact{"name", cell{a.Name, bold}}, fact{"id", a.ID}, fact{"state", state},
		fact{"tools", strings.Join(a.Tools, ", ")},
		fact{"environment", strings.Join(slices.Sorted(maps.Keys(a.Env)), ", ")}, fact{"rules", rulesText(a.Rules)},
		fact{"changed", ago(a.Updated, time.Now())})
	return nil
}

// rulesText names rules in a line.
func rulesText(rules []haft.ToolRule) string {
	list := make([]string, 0, len(rules))
	for _, r := range rules {
		list = append(list, fmt.Sprintf("%s %s", r.Type, r.Tool))
	}
	return strings.Join(list, ", ")
}

// agentCreate makes an agent.
func agentCreate(p *persona, std streams) *cobra.Command {
	return p.command(std, "create NAME", "Make an agent", cobra.ExactArgs(1),
		func(ctx context.Context, s *session, args []string) error {
			switch _, err := s.Agent(ctx, s.p, args[0]); {
			case err == nil:
				return advise(&haft.Error{Code: haft.CodeConflict, Message: "there is an agent of that name already"},
					"see it with: haft agent show "+args[0])
			case haft.CodeOf(err) != haft.CodeNotFound:
				return err
			}
			a, err := s.PutAgent(ctx, s.p, haft.Agent{Name: args[0]})
			if err != nil {
				return err
			}
			return tellAgent(s, a)
		})
}

// agentList lists agents.
func agentList(p *persona, std streams) *cobra.Command {
	return p.command(std, "list", "List agents", cobra.NoArgs, func(ctx context.Context, s *session, _ []string) error {
		now := time.Now()
		return printList(s, s.AgentList(ctx, s.p, haft.AgentFilter{}),
			"there are no agents; make one with: haft agent create NAME",
			[]string{"NAME", "ID", "TOOLS", "RULES", "ENVIRONMENT", "CHANGED"}, func(tab *table, a haft.Agent) {
				tab.row(cell{a.Name, bold}, a.ID, strings.Join(a.Tools, " "), len(a.Rules), len(a.Env),
					ago(a.Updated, now))
			})
	})
}

// agentShow shows one agent.
func agentShow(p *persona, std streams) *cobra.Command {
	return p.command(std, "show NAME", "Show an agent, without the values of its environment", cobra.ExactArgs(1),
		func(ctx context.Context, s *session, args []string) error {
			a, err := s.Agent(ctx, s.p, args[0])
			if err != nil {
				return noAgent(err)
			}
			return tellAgent(s, a)
		})
}

// agentRemove removes an agent.
func agentRemove(p *persona, std streams) *cobra.Command {
	return p.command(std, "rm NAME", "Remove an agent; its calls and audit stay", cobra.ExactArgs(1),
		func(ctx context.Context, s *session, args []string) error {
			if err := s.RemoveAgent(ctx, s.p, args[0], ""); err != nil {
				return noAgent(err)
			}
			return tell(s, map[string]string{"removed": args[0]}, "removed "+args[0])
		})
}

// change reads an agent, changes it and writes it back.
func change(ctx context.Context, s *session, ref string, how func(*haft.Agent) error) error {
	a, err := s.Agent(ctx, s.p, ref)
	if err != nil {
		return noAgent(err)
	}
	if err := how(a); err != nil {
		return err
	}
	if a, err = s.PutAgent(ctx, s.p, *a); err != nil {
		return noAgent(err)
	}
	return tellAgent(s, a)
}

// agentTools changes what an agent may call.
func agentTools(p *persona, std streams, use, short string,
	how func(have []string, name string) []string) *cobra.Command {
	return p.command(std, use+" NAME TOOL…", short, cobra.MinimumNArgs(2),
		func(ctx context.Context, s *session, args []string) error {
			return change(ctx, s, args[0], func(a *haft.Agent) error {
				for _, name := range args[1:] {
					a.Tools = how(a.Tools, name)
				}
				return nil
			})
		})
}

// agentEnv changes the environment of an agent's calls.
func agentEnv(p *persona, std streams) *cobra.Command {
	var unset []string
	cmd := p.command(std, "env NAME [K=V…]", "Set or remove variables of an agent's calls; values are never shown",
		cobra.MinimumNArgs(1),
		func(ctx context.Context, s *session, args []string) error {
			if len(args) == 1 && len(unset) == 0 {
				a, err := s.Agent(ctx, s.p, args[0])
				if err != nil {
					return noAgent(err)
				}
				names := slices.Sorted(maps.Keys(a.Env))
				if s.as.json {
					return printJSON(s.std.out, append([]string{}, names...))
				}
				for _, name := range names {
					fmt.Fprintln(s.std.out, name)
				}
				return nil
			}
			set, err := pairs("a variable", args[1:])
			if err != nil {
				return err
			}
			for k, v := range set {
				if v == "" {
					return usage(fmt.Errorf("%s has no value: give one, or remove it with --unset %s", k, k))
				}
			}
			return change(ctx, s, args[0], func(a *haft.Agent) error {
				if a.Env == nil {
					a.Env = map[string]string{}
				}
				for _, k := range unset {
					if _, ok := a.Env[k]; !ok {
						return usage(fmt.Errorf("%s is not set; see what is with: haft agent env %s", k, args[0]))
					}
					delete(a.Env, k)
				}
				maps.Copy(a.Env, set)
				return nil
			})
		})
	cmd.Flags().StringArrayVar(&unset, "unset", nil, "a variable to remove; may be given again")
	return cmd
}

// agentRules replaces the tool rules of an agent.
func agentRules(p *persona, std streams) *cobra.Command {
	return p.command(std, "rules NAME @FILE", "Replace the tool rules of an agent: a JSON array, as in Letta",
		cobra.RangeArgs(1, 2),
		func(ctx context.Context, s *session, args []string) error {
			if len(args) == 1 {
				a, err := s.Agent(ctx, s.p, args[0])
				if err != nil {
					return noAgent(err)
				}
				return printJSON(s.std.out, append([]haft.ToolRule{}, a.Rules...))
			}
			if !strings.HasPrefix(args[1], "@") && !strings.HasPrefix(strings.TrimSpace(args[1]), "[") &&
				args[1] != "-" {
				return usage(errors.New("the rules are @FILE, - for standard input, or a JSON array"))
			}
			var rules []haft.ToolRule
			if err := readJSONFile(s, "the file of rules", args[1], &rules); err != nil {
				return err
			}
			return change(ctx, s, args[0], func(a *haft.Agent) error {
				a.Rules = rules
				return nil
			})
		})
}

// agentSwitch enables or disables an agent.
func agentSwitch(p *persona, std streams, name string, disabled bool) *cobra.Command {
	return p.command(std, name+" NAME", strings.ToUpper(name[:1])+name[1:]+" an agent's calls", cobra.ExactArgs(1),
		func(ctx context.Context, s *session, args []string) error {
			return change(ctx, s, args[0], func(a *haft.Agent) error {
				a.Disabled = disabled
				return nil
			})
		})
}
