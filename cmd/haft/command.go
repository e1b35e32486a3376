package main

import (
	"cmp"
	"context"
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

// A command describes one command: its help, its flags and what it does. It is either a leaf,
// which has run or plain, or a group, which has subs.
type command struct {
	// use is the name and the arguments. The number of arguments is checked against it.
	use, short, long, example string
	// aliases are further names.
	aliases []string
	flags   []flag
	// env names flags that the environment sets where the command line does not: --key-file is
	// $HAFT_KEY_FILE, and a list is separated by commas.
	env []string
	// alone says that the command has none of the flags of a profile. It counts for the first
	// level only: the flags of a profile are inherited.
	alone bool
	// missing is what to do if something does not exist. The commands of a group inherit it.
	missing string
	// check checks the arguments instead of use.
	check func(args []string) error
	// run works on an open system, plain on nothing that is kept.
	run   work
	plain func(ctx context.Context, p *profile, args []string) error
	subs  []command
}

// work is what a command does on a system that is open.
type work = func(ctx context.Context, s *session, args []string) error

// build makes the command and the commands below it, with the flags of a profile.
func (c command) build(p *profile) *cobra.Command {
	cmd := c.buildTree(p)
	if !c.alone {
		declare(cmd.PersistentFlags(), p.flags(), profileEnv...)
	}
	return cmd
}

// profileEnv are the flags of a profile that the environment sets.
var profileEnv = []string{"database", "server", "key-file", "org", "user", "agent", "lock-wait"}

// buildTree makes the command and the commands below it.
func (c command) buildTree(p *profile) *cobra.Command {
	cmd := &cobra.Command{Use: c.use, Short: c.short, Long: c.long, Example: c.example, Aliases: c.aliases}
	declare(cmd.Flags(), c.flags, c.env...)
	cmd.Args = func(cmd *cobra.Command, args []string) error { return c.checkArguments(cmd, args) }
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		f := cmd.Flags()
		p.given = f.Changed
		env := c.env
		if !c.alone {
			env = slices.Concat(env, profileEnv)
		}
		if err := setFromEnv(f, env); err != nil {
			return err
		}
		err := c.do(cmd, p, args)
		if c.missing != "" && haft.CodeOf(err) == haft.CodeNotFound && exit.NextStep(err) == "" {
			return exit.Advise(err, c.missing)
		}
		return err
	}
	for _, sub := range c.subs {
		sub.missing = cmp.Or(sub.missing, c.missing)
		cmd.AddCommand(sub.buildTree(p))
	}
	return cmd
}

// do runs the command. A group that does nothing itself prints its help.
func (c command) do(cmd *cobra.Command, p *profile, args []string) error {
	switch ctx := cmd.Context(); {
	case c.plain != nil:
		return c.plain(ctx, p, args)
	case c.run != nil:
		return p.do(ctx, func(ctx context.Context, s *session) error { return c.run(ctx, s, args) })
	}
	return cmd.Help()
}

// checkArguments refuses a wrong number of arguments.
func (c command) checkArguments(cmd *cobra.Command, args []string) error {
	if c.check != nil {
		return c.check(args)
	}
	if len(c.subs) > 0 && len(args) > 0 {
		return exit.Misuse(fmt.Errorf("there is no command %q of haft %s: see haft %s --help", args[0], c.use, c.use))
	}
	least, most := argumentCount(c.use)
	if len(args) >= least && (most < 0 || len(args) <= most) {
		return nil
	}
	_, names, _ := strings.Cut(c.use, " ")
	return exit.Misuse(fmt.Errorf("expected %s, found %d arguments: see %s --help", cmp.Or(names, "no arguments"),
		len(args), cmd.CommandPath()))
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

// A flag is one flag of a command. Its type is that of the variable it sets, and its default the
// value that the variable has. A name of "output,o" has a short form.
type flag struct {
	to         any
	name, help string
}

// A commaList is a list whose flag takes several items, separated by commas.
type commaList []string

// declare adds flags to a set. The help of those that env names says which variable sets them.
func declare(f *pflag.FlagSet, flags []flag, env ...string) {
	for _, fl := range flags {
		name, short, _ := strings.Cut(fl.name, ",")
		switch to := stringPointer(fl.to).(type) {
		case *string:
			f.StringVarP(to, name, short, *to, fl.help)
		case *bool:
			f.BoolVarP(to, name, short, *to, fl.help)
		case *int:
			f.IntVarP(to, name, short, *to, fl.help)
		case *time.Duration:
			f.DurationVarP(to, name, short, *to, fl.help)
		case *haft.Millis:
			f.DurationVarP((*time.Duration)(to), name, short, to.D(), fl.help)
		case *[]string:
			f.StringArrayVarP(to, name, short, *to, fl.help)
		case *commaList:
			f.StringSliceVarP((*[]string)(to), name, short, *to, fl.help)
		case pflag.Value:
			f.VarP(to, name, short, fl.help)
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
