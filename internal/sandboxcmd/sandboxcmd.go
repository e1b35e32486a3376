// Package sandboxcmd has the commands about the kinds of sandboxes, and about machines that Haft rents.
package sandboxcmd

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"haft"
	"haft/app"
	"haft/internal/backend"
	"haft/internal/cli"
	"haft/internal/exit"
	"haft/internal/place"
	"haft/sandbox/e2b"
)

// A listing is what haft sandbox list prints.
type listing struct {
	Sandboxes []place.Info `json:"sandboxes"`
	Running   []machine    `json:"running"`
	// Unknown says why the running machines of a kind are not known.
	Unknown string `json:"unknown,omitempty"`
}

// Names are what haft sandbox show takes.
func (l listing) Names() []string {
	var all []string
	for _, k := range l.Sandboxes {
		all = append(all, string(k.Type))
	}
	for _, m := range l.Running {
		all = append(all, m.ID)
	}
	return all
}

// A machine is one elsewhere, and of what kind it is.
type machine struct {
	e2b.Info
	Sandbox haft.SandboxType `json:"sandbox"`
}

// Command is haft sandbox.
func Command(p *cli.Profile) cli.Command {
	var allow, preferred bool
	return cli.Command{
		Use: "sandbox", Short: "See and choose where tools run, and end rented machines",
		Example: `  haft sandbox list
  haft sandbox show e2b
  haft sandbox set e2b --allow-remote
  haft sandbox remove i4kq2v7x9m1n3b5c8d0f`,
		Missing: "see which there are with: haft sandbox list",
		Subs: []cli.Command{
			{Use: "list", Short: "List the kinds of sandboxes, and machines elsewhere that run", Plain: list,
				Flags: []cli.Flag{cli.ReducedFlag(&p.Reduced)}},
			{Use: "show NAME", Short: "Show a kind of sandbox, or a machine by its id", Plain: show,
				Flags: []cli.Flag{cli.ReducedFlag(&p.Reduced)}},
			{Use: "set NAME", Short: "Say what calls of the organisation may do with a kind of sandbox",
				Run: func(ctx context.Context, s *cli.Session, args []string) error {
					return set(ctx, s, args[0], allow, preferred)
				},
				Flags: []cli.Flag{
					{&allow, "allow-remote", "allow code, arguments and variables to leave this machine for it"},
					{&preferred, "default", "run calls there for which neither call, tool nor agent names a sandbox"},
				}},
			{Use: "remove ID", Old: []string{"rm"}, Short: "End a machine elsewhere", Plain: remove},
		},
	}
}

// look opens what a server could use here, and asks for what runs elsewhere.
func look(ctx context.Context, p *cli.Profile) (listing, error) {
	if p.Remote() {
		fmt.Fprintln(p.Err, "this machine's sandboxes, and the machines of its keys; the server is not asked")
	}
	a, err := app.Open(ctx, app.Config{AllowReduced: p.Reduced, Keep: true})
	if err != nil {
		return listing{}, err
	}
	defer a.Close() // it has run nothing
	l := listing{Sandboxes: a.Sandboxes.Kinds(ctx), Running: []machine{}}
	all := a.Sandboxes.Machines()
	var unknown []string
	for _, kind := range slices.Sorted(maps.Keys(all)) {
		list, err := all[kind].List(ctx)
		if err != nil {
			unknown = append(unknown, haft.MessageOf(err))
		}
		for _, info := range list {
			l.Running = append(l.Running, machine{info, kind})
		}
	}
	l.Unknown = strings.Join(unknown, "; ")
	return l, nil
}

func list(ctx context.Context, p *cli.Profile, _ []string) error {
	l, err := look(ctx, p)
	if err != nil {
		return err
	}
	return p.Print(l, func() {
		cli.PrintTable(p.Out, l.Sandboxes, cli.Listing[place.Info]{Head: "NAME,ISOLATION,WHERE,STATE",
			Row: func(k place.Info) []any { return []any{k.Type, k.Isolation.Level, where(k), state(k)} }})
		if l.Unknown != "" {
			cli.PrintFacts(p.Out, "machines", l.Unknown)
		}
		if len(l.Running) > 0 {
			cli.PrintTable(p.Out, l.Running, cli.Listing[machine]{Head: "ID,SANDBOX,TEMPLATE,STARTED,ENDS",
				Row: func(i machine) []any {
					return []any{i.ID, i.Sandbox, i.Template, i.Started.Format(time.DateTime),
						i.Ends.Format(time.DateTime)}
				}})
		}
	})
}

// where says whether a kind is on this machine.
func where(k place.Info) string {
	if k.Remote {
		return "elsewhere"
	}
	return "here"
}

// state says whether a kind can be used.
func state(k place.Info) string {
	if k.Missing != "" {
		return "missing: " + k.Missing
	}
	return "available"
}

func show(ctx context.Context, p *cli.Profile, args []string) error {
	l, err := look(ctx, p)
	if err != nil {
		return err
	}
	if i := slices.IndexFunc(l.Sandboxes, func(k place.Info) bool { return string(k.Type) == args[0] }); i >= 0 {
		k := l.Sandboxes[i]
		return p.Print(k, func() {
			var have, lack []string
			for _, c := range k.Isolation.Controls {
				have = append(have, string(c))
			}
			for _, g := range k.Isolation.Missing {
				lack = append(lack, string(g.Control))
			}
			cli.PrintFacts(p.Out, "name", k.Type, "state", state(k), "where", where(k), "isolation", k.Isolation.Level,
				"controls", strings.Join(have, ", "), "not stated", strings.Join(lack, ", "))
		})
	}
	if i := slices.IndexFunc(l.Running, func(i machine) bool { return i.ID == args[0] }); i >= 0 {
		m := l.Running[i]
		return p.Print(m, func() {
			cli.PrintFacts(p.Out, "id", m.ID, "sandbox", m.Sandbox, "template", m.Template, "owner", m.Owner,
				"configuration", m.State, "started", m.Started.Format(time.DateTime),
				"ends", m.Ends.Format(time.DateTime))
		})
	}
	return &haft.Error{Code: haft.CodeNotFound,
		Message: "there is no such kind of sandbox, and no such machine of Haft"}
}

func remove(ctx context.Context, p *cli.Profile, args []string) error {
	a, err := app.Open(ctx, app.Config{AllowReduced: true})
	if err != nil {
		return err
	}
	defer a.Close() // it has run nothing
	all := a.Sandboxes.Machines()
	if len(all) == 0 {
		return exit.Misuse(errors.New("no sandboxes elsewhere are configured: set E2B_API_KEY, or MODAL_TOKEN_ID and " +
			"MODAL_TOKEN_SECRET"))
	}
	for _, kind := range slices.Sorted(maps.Keys(all)) {
		failed := all[kind].Remove(ctx, args[0])
		if failed == nil {
			err = nil
			break
		}
		if err == nil || haft.CodeOf(err) == haft.CodeNotFound {
			err = failed
		}
	}
	if err != nil {
		return err
	}
	return p.Print(map[string]string{"removed": args[0]}, func() { cli.PrintFacts(p.Out, "ended", args[0]) })
}

// set changes what an organisation says of a kind of sandbox. Flags that are not given change nothing.
func set(ctx context.Context, s *cli.Session, name string, allow, preferred bool) error {
	all := backend.SandboxesOf(s.System)
	c, err := all.SandboxConfig(ctx, s.Who, name)
	next := haft.SandboxConfig{Type: haft.SandboxType(name), If: haft.IfNone}
	switch {
	case err == nil:
		next = *c
		next.If = c.Revision()
	case haft.CodeOf(err) != haft.CodeNotFound:
		return err
	}
	if s.Given("allow-remote") {
		next.AllowRemote = allow
	}
	if s.Given("default") {
		next.Default = preferred
	}
	kept, err := all.PutSandboxConfig(ctx, s.Who, next)
	if err != nil {
		return err
	}
	return s.Print(kept, func() {
		cli.PrintFacts(s.Out, "sandbox", kept.Type, "may leave the machine", kept.AllowRemote, "default", kept.Default)
	})
}
