package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"haft"
)

// unbounded is what a bound is called that does not bound.
const unbounded = "none"

// An age is a flag for how long something is kept, such as 90d.
type age haft.Millis

// String implements [pflag.Value].
func (a *age) String() string { return ageText(haft.Millis(*a)) }

// Type is what the help calls the value.
func (a *age) Type() string { return "age" }

// Set reads an age.
func (a *age) Set(text string) error {
	if text == unbounded {
		*a = -age(time.Millisecond)
		return nil
	}
	if days, ok := strings.CutSuffix(text, "d"); ok {
		if n, err := strconv.Atoi(days); err == nil && n > 0 && n < 36500 {
			*a = age(time.Duration(n) * 24 * time.Hour)
			return nil
		}
	}
	if d, err := time.ParseDuration(text); err == nil && d > 0 {
		*a = age(d)
		return nil
	}
	return errors.New("an age is written 90d or 12h, or none for no bound")
}

// ageText writes an age in days, if it is whole days.
func ageText(m haft.Millis) string {
	switch d := m.D(); {
	case m == 0:
		return ""
	case m < 0:
		return unbounded
	case d%(24*time.Hour) == 0:
		return fmt.Sprintf("%dd", d/(24*time.Hour))
	default:
		return d.String()
	}
}

// A number is a flag for how many of something are kept.
type number int64

// String implements [pflag.Value].
func (n *number) String() string { return numberText(int64(*n)) }

// Type is what the help calls the value.
func (n *number) Type() string { return "count" }

// Set reads a number.
func (n *number) Set(text string) error {
	if text == unbounded {
		*n = -1
		return nil
	}
	got, err := strconv.ParseInt(text, 10, 64)
	if err != nil || got <= 0 || got > math.MaxInt32 {
		return errors.New("a count is a positive number, or none for no bound")
	}
	*n = number(got)
	return nil
}

func numberText(n int64) string {
	switch {
	case n == 0:
		return ""
	case n < 0:
		return unbounded
	}
	return strconv.FormatInt(n, 10)
}

// keepFlags adds flags for a retention, each with a prefix. It returns their names.
func keepFlags(f *pflag.FlagSet, r *haft.Retention, prefix string) []string {
	add := func(v pflag.Value, name, what string) string { f.Var(v, prefix+name, what); return prefix + name }
	return []string{
		add((*age)(&r.Refused), "refused", "prune calls that were refused after this `AGE`"),
		add((*number)(&r.RefusedCount), "refused-count",
			"keep the newest `N` refused calls of each status of an organisation"),
		add((*age)(&r.Calls), "calls", "prune calls that have ended after this `AGE`; a day at least"),
		add((*number)(&r.CallsCount), "calls-count", "keep the newest `N` calls of an organisation"),
	}
}

// serveKeep adds the flags of a server, which the environment fills in.
func serveKeep(f *pflag.FlagSet, r *haft.Retention) func() error {
	*r = haft.DefaultRetention()
	names := keepFlags(f, r, "keep-")
	for _, name := range names {
		f.Lookup(name).Usage += " ($" + variable(name) + ")"
	}
	return func() error {
		for _, name := range names {
			if v := os.Getenv(variable(name)); v != "" && !f.Changed(name) {
				if err := f.Set(name, v); err != nil {
					return usage(fmt.Errorf("%s: %w", variable(name), err))
				}
			}
		}
		if err := r.Check(); err != nil {
			return usage(err)
		}
		return nil
	}
}

// callsRetention shows and sets how long calls are kept.
func callsRetention(p *persona, std streams) *cobra.Command {
	var (
		r   haft.Retention
		of  string
		cmd *cobra.Command
	)
	names := []string{}
	cmd = p.command(std, "retention", "Show or set how long the calls of an organisation are kept", cobra.NoArgs,
		func(ctx context.Context, s *session, _ []string) error {
			show := s.Retention
			for _, name := range names {
				if cmd.Flags().Changed(name) {
					show = func(ctx context.Context, p haft.Principal, org string) (*haft.Kept, error) {
						return s.SetRetention(ctx, p, org, r)
					}
				}
			}
			k, err := show(ctx, s.p, of)
			if err != nil {
				return err
			}
			if s.as.json {
				return printJSON(s.std.out, k)
			}
			tab := newTable(s.std.out, "WHAT", "NOW", "AGE", "COUNT", "MOST")
			most := func(age haft.Millis, count int64) string { return ageText(age) + ", " + numberText(count) }
			tab.row("refused", k.Refused, ageText(k.Retention.Refused), numberText(k.Retention.RefusedCount),
				most(k.Most.Refused, k.Most.RefusedCount))
			tab.row("calls", k.Calls, ageText(k.Retention.Calls), numberText(k.Retention.CallsCount),
				most(k.Most.Calls, k.Most.CallsCount))
			tab.print("")
			return nil
		})
	cmd.Example = `  haft calls retention                              what holds, and how many calls there are
  haft calls retention --refused 1d --calls 30d     what is not given is as the server has it
  haft calls retention --of acme --calls none       for the operator: keep the calls of acme for ever`
	names = keepFlags(cmd.Flags(), &r, "")
	cmd.Flags().StringVar(&of, "of", "", "another `ORGANISATION`, for the operator of the server")
	return cmd
}
