// Package cli is what the commands of haft are made of: a table of commands with their flags
// ([Command]), who works where ([Profile]), the system that a command works on ([Session]), and how
// results are printed. The commands themselves are in cmd/haft.
package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"haft"
	"haft/internal/exit"
)

// A Command describes one command: its help, its flags and what it does. It is either a leaf,
// which has run or plain, or a group, which has subs.
type Command struct {
	// Use is the name and the arguments. The number of arguments is checked against it.
	Use, Short, Long, Example string
	// Aliases are further names.
	Aliases []string
	// Old are names from before. They still work, and no list has them.
	Old []string
	// Hidden says that no list has the command.
	Hidden bool
	// Names completes NAME or TOOL, the first argument, in a shell. The commands of a group inherit it.
	Names func(ctx context.Context, s *Session) ([]string, error)
	Flags []Flag
	// Env names flags that the environment sets where the command line does not: --key-file is
	// $HAFT_KEY_FILE, and a list is separated by commas.
	Env []string
	// Alone says that the command has none of the flags of a profile. It counts for the first
	// level only: the flags of a profile are inherited.
	Alone bool
	// Missing is what to do if something does not exist. The commands of a group inherit it.
	Missing string
	// Check checks the arguments instead of use.
	Check func(args []string) error
	// Run works on an open system, plain on nothing that is kept.
	Run   Work
	Plain func(ctx context.Context, p *Profile, args []string) error
	Subs  []Command
	// renamed is the name that replaces this one, of a command that is made for one of Old.
	renamed string
}

// Work is what a command does on a system that is open.
type Work = func(ctx context.Context, s *Session, args []string) error

// Build makes the command and the commands below it, with the flags of a profile.
func (c Command) Build(p *Profile) *cobra.Command {
	p.command, _, _ = strings.Cut(c.Use, " ")
	cmd := c.buildTree(p, c.Alone)
	if !c.Alone {
		Declare(cmd.PersistentFlags(), p.Flags(), profileEnv...)
	}
	return cmd
}

// profileEnv are the flags of a profile that the environment sets.
var profileEnv = []string{"database", "server", "key-file", "org", "user", "agent", "lock-wait", "profile"}

// buildTree makes the command and the commands below it.
func (c Command) buildTree(p *Profile, alone bool) *cobra.Command {
	cmd := &cobra.Command{Use: c.Use, Short: c.Short, Long: c.Long, Example: c.Example, Aliases: c.Aliases,
		Hidden: c.Hidden}
	Declare(cmd.Flags(), c.Flags, c.Env...)
	if !alone || cmd.Flags().Lookup("json") != nil {
		c.declareFormat(cmd, p)
	}
	if !alone {
		c.completeNames(cmd, p)
	}
	cmd.Args = func(cmd *cobra.Command, args []string) error { return c.checkArguments(cmd, args) }
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := c.prepare(cmd, p, alone); err != nil {
			return err
		}
		c.warnOld(cmd, p)
		err := c.do(cmd, p, args)
		if code := haft.CodeOf(err); code == haft.CodeDenied || code == haft.CodeUnauthenticated {
			if advice := p.environmentAdvice(); advice != "" {
				return exit.Advise(err, advice)
			}
		}
		if c.Missing != "" && haft.CodeOf(err) == haft.CodeNotFound && exit.NextStep(err) == "" {
			return exit.Advise(err, c.Missing)
		}
		return err
	}
	for _, sub := range c.Subs {
		sub.Missing = cmp.Or(sub.Missing, c.Missing)
		if sub.Names == nil {
			sub.Names = c.Names
		}
		cmd.AddCommand(sub.buildTree(p, alone))
		for _, old := range sub.Old {
			name, arguments, _ := strings.Cut(sub.Use, " ")
			before := sub
			before.Use, before.renamed = strings.TrimSpace(old+" "+arguments), name
			hidden := before.buildTree(p, alone)
			hidden.Hidden, hidden.Short = true, "The name of "+name+" before"
			cmd.AddCommand(hidden)
		}
	}
	return cmd
}

// prepare sets the flags that the command line does not have: from the environment, and then from
// the profile of the user's configuration.
func (c Command) prepare(cmd *cobra.Command, p *Profile, alone bool) error {
	f := cmd.Flags()
	p.Given = f.Changed
	if alone {
		return errors.Join(setFromEnv(f, c.Env), p.chooseFormat())
	}
	if err := setFromEnv(f, slices.Concat(c.Env, profileEnv)); err != nil {
		return err
	}
	if err := p.setFromConfig(f); err != nil {
		return err
	}
	return p.chooseFormat()
}

// warnOld says which name replaces the one that was used. A program that asked for a document is told nothing.
func (c Command) warnOld(cmd *cobra.Command, p *Profile) {
	if c.renamed == "" || p.JSON || p.as != "" {
		return
	}
	fmt.Fprintf(p.Err, "note: %s is now %s %s\n", cmd.CommandPath(), cmd.Parent().CommandPath(), c.renamed)
}

// declareFormat adds the flag that says in which form to print. Its short form is -o, unless the
// command has another flag of that form.
func (c Command) declareFormat(cmd *cobra.Command, p *Profile) {
	name := "print,o"
	if cmd.Flags().ShorthandLookup("o") != nil {
		name = "print"
	}
	if cmd.Flags().Lookup("print") == nil {
		Declare(cmd.Flags(), []Flag{{&p.as, name, "how to print: table, json, yaml or name"}})
	}
}

// completeWait is how long a shell waits for another process that has the data directory.
const completeWait = 500 * time.Millisecond

// kept reports whether there is a system, so that a shell which completes a name makes none.
func (p *Profile) kept() bool {
	dir, err := p.Dir()
	if err != nil || p.Remote() || p.Database != "" {
		return err == nil
	}
	_, err = os.Stat(dir)
	return err == nil
}

// completeNames lets a shell complete the first argument. What goes wrong completes nothing.
func (c Command) completeNames(cmd *cobra.Command, p *Profile) {
	if c.Names == nil || !strings.Contains(c.Use, " NAME") && !strings.Contains(c.Use, "TOOL") {
		return
	}
	cmd.ValidArgsFunction = func(cmd *cobra.Command, args []string, start string) (found []string,
		_ cobra.ShellCompDirective) {
		if len(args) > 0 || c.prepare(cmd, p, false) != nil || !p.kept() {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		p.LockWait = completeWait
		_ = p.Do(cmd.Context(), func(ctx context.Context, s *Session) error {
			names, err := c.Names(ctx, s)
			for _, name := range names {
				if strings.HasPrefix(name, start) {
					found = append(found, name)
				}
			}
			return err
		})
		return found, cobra.ShellCompDirectiveNoFileComp
	}
}

// do runs the command. A group that does nothing itself prints its help.
func (c Command) do(cmd *cobra.Command, p *Profile, args []string) error {
	switch ctx := cmd.Context(); {
	case c.Plain != nil:
		return c.Plain(ctx, p, args)
	case c.Run != nil:
		return p.Do(ctx, func(ctx context.Context, s *Session) error { return c.Run(ctx, s, args) })
	}
	return cmd.Help()
}

// checkArguments refuses a wrong number of arguments.
func (c Command) checkArguments(cmd *cobra.Command, args []string) error {
	if c.Check != nil {
		return c.Check(args)
	}
	if len(c.Subs) > 0 && len(args) > 0 {
		return NoCommand(cmd, args)
	}
	least, most := argumentCount(c.Use)
	if len(args) >= least && (most < 0 || len(args) <= most) {
		return nil
	}
	_, names, _ := strings.Cut(c.Use, " ")
	return exit.Misuse(fmt.Errorf("expected %s, found %d arguments: see %s --help", cmp.Or(names, "no arguments"),
		len(args), cmd.CommandPath()))
}

// NoCommand refuses arguments of a group: they name a command that it does not have.
func NoCommand(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	cmd.SuggestionsMinimumDistance = 2
	near := cmd.SuggestionsFor(args[0])
	for _, sub := range cmd.Commands() { // haft remove means haft tool remove
		if below, _, err := sub.Find(args[:1]); len(near) == 0 && err == nil && below != sub && sub.Name() == "tool" {
			near = []string{sub.Name() + " " + below.Name()}
		}
	}
	slices.Sort(near)
	return exit.NoCommand(cmd.CommandPath(), args[0], near)
}

// FlagError says how to write a flag that cannot be read, without its value.
func FlagError(err error) error {
	bad, ok := errors.AsType[*pflag.InvalidValueError](err)
	if !ok {
		return exit.Misuse(err)
	}
	why := bad.Unwrap().Error()
	switch kind := bad.GetFlag().Value.Type(); {
	case strings.Contains(why, "time: missing unit in duration"):
		why = "write a unit, such as 5s or 2m"
	case kind == "duration":
		why = "it must be a duration, such as 5s, 2m or 24h"
	case kind == "bool":
		why = "it must be true or false"
	case strings.HasPrefix(kind, "int") || strings.HasPrefix(kind, "uint"):
		why = "it must be a whole number"
	case strings.HasPrefix(kind, "float"):
		why = "it must be a number"
	}
	return exit.Misuse(fmt.Errorf("--%s: %s", bad.GetFlag().Name, why))
}

// Help returns the command that prints the help of another one, or of those that words are about. Words that no help
// has are an error.
func Help(root *cobra.Command) *cobra.Command {
	return &cobra.Command{Use: "help [COMMAND|WORD…]", Short: "Help about a command, or search the help for words",
		Example: "  haft help tool add\n  haft help give a tool a file",
		RunE: func(_ *cobra.Command, args []string) error {
			cmd, rest, err := root.Find(args)
			if err == nil && len(rest) > 0 && (cmd == root || cmd.HasSubCommands()) {
				err = NoCommand(cmd, rest)
			}
			if err != nil || len(rest) > 0 {
				typo := cmd != root && cmd.HasSubCommands() && len(rest) == 1 // such as: haft help tool lisst
				if !typo && searchHelp(root.OutOrStdout(), root, args) {
					return nil
				}
				return exit.Advise(cmp.Or(err, NoCommand(root, args)),
					"see haft help, or the index of all pages in docs/README.md")
			}
			cmd.InitDefaultHelpFlag()
			return cmd.Help()
		}}
}

// argumentCount returns how many arguments a use line such as "rollback NAME [VERSION]" names.
// Those in brackets may be left out, and a most of -1 means any number.
func argumentCount(use string) (least, most int) {
	optional, unbounded := false, false
	for _, word := range strings.Fields(use)[1:] {
		optional = optional || strings.ContainsAny(word[:1], "[{")
		if name := strings.Trim(word, "[]{}|"); name != "" && !strings.HasPrefix(name, "-") {
			if most++; !optional {
				least++
			}
			unbounded = unbounded || strings.Contains(name, "…")
		}
		optional = optional && !strings.ContainsAny(word[len(word)-1:], "]}")
	}
	if unbounded {
		return least, -1
	}
	return least, most
}

// A Flag is one flag of a command. Its type is that of the variable it sets, and its default the
// value that the variable has. A name of "output,o" has a short form. It is an alias, so that other
// packages may leave the names of its fields out, as a table of flags does.
type Flag = struct {
	To         any
	Name, Help string
}

// A CommaList is a list whose flag takes several items, separated by commas.
type CommaList []string

// Declare adds flags to a set. The help of those that env names says which variable sets them.
func Declare(f *pflag.FlagSet, flags []Flag, env ...string) {
	for _, fl := range flags {
		name, short, _ := strings.Cut(fl.Name, ",")
		switch to := stringPointer(fl.To).(type) {
		case *string:
			f.StringVarP(to, name, short, *to, fl.Help)
		case *bool:
			f.BoolVarP(to, name, short, *to, fl.Help)
		case *int:
			f.IntVarP(to, name, short, *to, fl.Help)
		case *time.Duration:
			f.DurationVarP(to, name, short, *to, fl.Help)
		case *haft.Millis:
			f.DurationVarP((*time.Duration)(to), name, short, to.D(), fl.Help)
		case *[]string:
			f.StringArrayVarP(to, name, short, *to, fl.Help)
		case *CommaList:
			f.StringSliceVarP((*[]string)(to), name, short, *to, fl.Help)
		case pflag.Value:
			f.VarP(to, name, short, fl.Help)
		default:
			panic(fmt.Sprintf("flag --%s has the type %T", name, to))
		}
	}
	for _, name := range env {
		f.Lookup(name).Usage += " ($" + variable(name) + ")"
	}
}

// stringPointer makes *string of a pointer to a type whose underlying type is string, and returns
// everything else as it is.
func stringPointer(to any) any {
	v := reflect.ValueOf(to)
	if _, ok := to.(pflag.Value); ok || v.Elem().Kind() != reflect.String {
		return to
	}
	return v.Convert(reflect.TypeFor[*string]()).Interface()
}

// variable is the name of a flag in the environment.
func variable(flag string) string {
	return "HAFT_" + strings.ToUpper(strings.ReplaceAll(flag, "-", "_"))
}

// setFromEnv sets flags that the command line does not have from the environment. They do not
// count as given.
func setFromEnv(f *pflag.FlagSet, names []string) error {
	for _, name := range names {
		text, fl := os.Getenv(variable(name)), f.Lookup(name)
		if text == "" || fl == nil || fl.Changed {
			continue
		}
		set := fl.Value.Set
		if list, ok := fl.Value.(pflag.SliceValue); ok {
			set = func(text string) error {
				return list.Replace(strings.FieldsFunc(text, func(r rune) bool { return r == ',' }))
			}
		}
		if err := set(text); err != nil {
			return exit.Misuse(fmt.Errorf("$%s: %w", variable(name), err))
		}
	}
	return nil
}
