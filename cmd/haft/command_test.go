package main

import (
	"bytes"
	"context"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"haft"
	"haft/internal/cli"
	"haft/internal/exit"
	"haft/internal/terminal"
)

// walk visits a command and all below it.
func walk(c *cobra.Command, visit func(*cobra.Command)) {
	visit(c)
	for _, child := range c.Commands() { // those with old names too
		walk(child, visit)
	}
}

func TestCommands_are_documented(t *testing.T) {
	walk(newRoot(cli.Streams{}, ""), func(c *cobra.Command) {
		if c.Short == "" {
			t.Errorf("%q does not say what it does", c.CommandPath())
		}
		if c.RunE == nil {
			t.Errorf("%q does nothing", c.CommandPath())
		}
		c.LocalFlags().VisitAll(func(f *pflag.Flag) {
			if f.Usage == "" {
				t.Errorf("%q: --%s does not say what it does", c.CommandPath(), f.Name)
			}
		})
	})
}

func TestCommands_that_are_not_there_are_usage_errors(t *testing.T) {
	for _, line := range []string{"tool frob", "calls frob", "approvals frob", "policy frob", "audit frob",
		"agent frob", "tool add", "calls show", "tool list --frob", "frob"} {
		var out, errs bytes.Buffer
		code := run(context.Background(), strings.Fields(line), cli.Streams{In: strings.NewReader(""), Out: &out,
			Err: &errs})
		if code != exit.Usage && line != "frob" || code == exit.OK {
			t.Errorf("haft %s ends with %d, want %d", line, code, exit.Usage)
		}
		if errs.Len() == 0 {
			t.Errorf("haft %s says nothing", line)
		}
	}
}

func TestAgo(t *testing.T) {
	now := time.Date(2026, 3, 4, 12, 0, 0, 0, time.UTC)
	for d, want := range map[time.Duration]string{
		0: "now", 30 * time.Second: "30 s ago", 90 * time.Minute: "1 h ago", 47 * time.Hour: "47 h ago",
		72 * time.Hour:   "3 days ago",
		-5 * time.Minute: "in 5 min", -time.Millisecond: "in a moment",
	} {
		if got := terminal.Ago(now.Add(-d), now); got != want {
			t.Errorf("%v before is %q, want %q", d, got, want)
		}
	}
	if got := terminal.Ago(time.Time{}, now); got != "never" {
		t.Errorf("no time is %q", got)
	}
}

func TestTable_aligns_and_hides_nothing_dangerous(t *testing.T) {
	var b bytes.Buffer
	tab := cli.NewTable(&b, "NAME", "TEXT")
	tab.Row("ä", "a\x1b[31mb\nc")
	tab.Row("longer", cli.Shaded(strings.Repeat("x", 100), red))
	tab.Print("nothing")
	want := "NAME    TEXT\nä       a\\x1b[31mb c\nlonger  " + strings.Repeat("x", cli.MaxCell-1) + "…\n"
	if diff := cmp.Diff(want, b.String()); diff != "" {
		t.Errorf("the table differs (-want +got):\n%s", diff)
	}
	b.Reset()
	cli.NewTable(&b, "NAME").Print("there is nothing")
	if b.String() != "there is nothing\n" {
		t.Errorf("an empty table is %q", b.String())
	}
}

func TestProfile_roles_are_replaced_not_added(t *testing.T) {
	t.Setenv("HAFT_ROLES", "")
	p := &cli.Profile{Org: "local", User: "ann"}
	if got := p.Principal().Roles; !cmp.Equal(got, []string{haft.RoleAdmin, haft.RoleApprover}) {
		t.Errorf("the local operator has the roles %v", got)
	}
	t.Setenv("HAFT_ROLES", "reader, writer,")
	if got := p.Principal().Roles; !cmp.Equal(got, []string{"reader", "writer"}) {
		t.Errorf("with HAFT_ROLES the roles are %v", got)
	}
	p.Roles = []string{"one"}
	if got := p.Principal().Roles; !cmp.Equal(got, []string{"one"}) {
		t.Errorf("with --role the roles are %v", got)
	}
}

func TestCommands_are_found_by_their_names(t *testing.T) {
	for name, describe := range commands() {
		p := &cli.Profile{}
		if got := describe(p).Build(p).Name(); got != name {
			t.Errorf("the command %s is listed as %s", got, name)
		}
	}
}

func TestUsageText(t *testing.T) {
	for want, u := range map[string]haft.Usage{
		"1ms on the clock, unknown processor time, unknown memory": {Wall: 1e6},
		"1ms on the clock, 400µs of a processor, 1 MiB":            {Wall: 1e6, CPU: 400e3, MaxRSS: 4096},
		"1ms on the clock, 2ms of a processor, 20 MiB":             {Wall: 1e6, CPU: 2e6, MaxRSS: 20 << 20},
	} {
		if got := usageText(u); got != want {
			t.Errorf("usageText(%+v) = %q, want %q", u, got, want)
		}
	}
}
