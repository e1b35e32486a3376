package main

import (
	"bytes"
	"context"
	"slices"
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

// synonyms are words that other programs have for the five verbs. As names from before they work, and no help has them.
var synonyms = map[string]string{"create": "add", "new": "add", "make": "add", "register": "add", "insert": "add",
	"ls": "list", "all": "list", "get": "show", "info": "show", "describe": "show", "inspect": "show", "view": "show",
	"update": "set", "edit": "set", "change": "set", "put": "set", "modify": "set", "configure": "set",
	"rm": "remove", "del": "remove", "delete": "remove", "destroy": "remove", "drop": "remove", "unset": "remove",
	"unregister": "remove"}

// otherWords are the commands whose names look like synonyms, and what they do instead.
var otherWords = map[string]string{
	"haft file get":         "it copies the bytes out; nothing is shown",
	"haft session get":      "it copies a file out of the session",
	"haft session put":      "it copies a file into the session",
	"haft workspace get":    "it copies a file out of the workspace",
	"haft workspace put":    "it copies a file into the workspace",
	"haft workspace delete": "it deletes a file in the workspace; remove removes the workspace",
}

// lacking are the verbs that a group does not have, and why.
var lacking = map[string]struct{ verbs, why string }{
	"haft approvals":  {"add set remove", "calls ask for them, and people answer with approve and deny"},
	"haft audit":      {"add list set remove", "it is one log, which only grows: show reads it"},
	"haft calls":      {"add set remove", "haft call makes them, and retention removes them"},
	"haft config":     {"add", "set makes a profile too"},
	"haft env":        {"add set remove", "build makes what packages need, and gc removes what nothing needs"},
	"haft file":       {"show set", "list has all of a file but its bytes, which do not change"},
	"haft key":        {"show set", "list has all of a key but its secret, which is shown once; rotate replaces it"},
	"haft mcp":        {"add list show set remove", "it is a server, and changes files of other programs"},
	"haft mcp-server": {"set", "add replaces a server of the same name"},
	"haft policy":     {"add list remove", "there is one for an organisation"},
	"haft sandbox":    {"add", "the kinds of sandboxes are known: set has how one is used"},
	"haft secret":     {"add show", "set stores a new one too; values are never shown"},
	"haft session":    {"show set", "list has all of a session, and files lists its files"},
	"haft tool":       {"set", "add again sets what it names, and makes a version of what has changed"},
	"haft webhook":    {"show set", "list has all of a webhook"},
	"haft workspace":  {"set", "files are changed by put and delete"},
}

// otherShort are the commands whose -o is another flag. They have --print without a short form.
var otherShort = map[string]string{
	"haft export":       "-o is the file to write",
	"haft audit export": "-o is the file to write",
}

// Every command that can print JSON also has -o, for all forms of documents.
func TestCommands_with_json_have_the_other_forms(t *testing.T) {
	odd := map[string]bool{}
	walk(newRoot(cli.Streams{}, ""), func(c *cobra.Command) {
		path := c.CommandPath()
		c.InheritedFlags() // which adds the flags of the parents to those that are found by their short form
		if c.Flag("json") == nil {
			if c.Name() == "list" {
				t.Errorf("%q has no --json", path)
			}
			return
		}
		if c.Flag("print") == nil {
			t.Errorf("%q has --json and no --print", path)
		}
		o := c.Flags().ShorthandLookup("o")
		if odd[path] = o != nil && o.Name != "print"; odd[path] != (otherShort[path] != "") || o == nil {
			t.Errorf("%q: -o is not --print, and otherShort has not why", path)
		}
	})
	for path := range otherShort {
		if !odd[path] {
			t.Errorf("otherShort has %q, whose -o is --print", path)
		}
	}
}

// The commands that work on no store print documents in all forms too.
func TestCommands_without_a_store_have_o(t *testing.T) {
	for line, want := range map[string]string{"version -o json": `"platform":"`, "version -o yaml": "platform: ",
		"version --json": `"platform":"`, "doctor -o json --sandbox process": `"provider":"process"`,
		"doctor -o yaml --sandbox process": "provider: process\n"} {
		var out, errs bytes.Buffer
		code := run(t.Context(), strings.Fields(line), cli.Streams{In: strings.NewReader(""), Out: &out, Err: &errs})
		if code != exit.OK || !strings.Contains(out.String(), want) {
			t.Errorf("haft %s ends with %d: %s%s", line, code, out.String(), errs.String())
		}
	}
}

// Every group of commands has the five verbs and no other words for them.
func TestCommands_have_one_grammar(t *testing.T) {
	odd := map[string]bool{}
	walk(newRoot(cli.Streams{}, ""), func(c *cobra.Command) {
		for up := c; up != nil; up = up.Parent() {
			if up.Hidden {
				return
			}
		}
		path := c.CommandPath()
		if verb := synonyms[c.Name()]; verb != "" {
			if odd[path] = true; otherWords[path] == "" {
				t.Errorf("%q is another word for %s: name it so, and keep the old one in Old", path, verb)
			}
		}
		var has []string
		for _, sub := range c.Commands() {
			if !sub.Hidden {
				has = append(has, sub.Name())
			}
		}
		if !c.HasParent() || len(has) == 0 {
			return
		}
		var lacks []string
		for _, verb := range []string{"add", "list", "show", "set", "remove"} {
			if !slices.Contains(has, verb) {
				lacks = append(lacks, verb)
			}
		}
		if got := strings.Join(lacks, " "); got != lacking[path].verbs {
			t.Errorf("%q lacks the verbs %q, and the list of this test has %q", path, got, lacking[path].verbs)
		}
		odd[path] = true
	})
	for path := range otherWords {
		if !odd[path] {
			t.Errorf("there is no %q", path)
		}
	}
	for path := range lacking {
		if !odd[path] {
			t.Errorf("there is no group %q", path)
		}
	}
}
