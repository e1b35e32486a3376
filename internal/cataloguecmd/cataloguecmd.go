// Package cataloguecmd has the commands and flags that take MCP servers from a catalogue.
package cataloguecmd

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"

	"golang.org/x/term"

	"haft"
	"haft/internal/cli"
	"haft/internal/daemon"
	"haft/internal/exit"
	"haft/internal/mcpcatalog"
	"haft/internal/secret"
	"haft/internal/terminal"
	"haft/internal/toolfile"
)

// Flags say where MCP servers are described, and which one is added.
type Flags struct {
	file, registry string
	// From is the name of the entry to add; empty means none.
	From   string
	choice mcpcatalog.Choice
	values []string
}

// where are the flags that name the catalogue. One address is a registry of the official format.
func (c *Flags) where() []cli.Flag {
	c.registry = os.Getenv("HAFT_MCP_REGISTRY")
	return []cli.Flag{
		{&c.file, "catalogue", "the `FILE` of a catalogue: a server.json, a list of them, or an answer of a registry"},
		{&c.registry, "registry",
			"the `URL` of a registry that speaks the API of the official one ($HAFT_MCP_REGISTRY)"},
	}
}

// Which are the flags that choose an entry.
func (c *Flags) Which() []cli.Flag {
	return append(c.where(),
		cli.Flag{&c.From, "from", "the `NAME[@VERSION]` of an entry of the catalogue, instead of a command or URL"},
		cli.Flag{&c.choice.Remote, "remote", "take the address of the entry, not its package"},
		cli.Flag{&c.values, "set", "a value `NAME=VALUE` that the entry asks for; may be given again"})
}

// readFile reads the catalogue of --catalogue.
func (c *Flags) readFile() ([]mcpcatalog.Entry, error) {
	if c.file == "" {
		return nil, exit.Misuse(errors.New("name a catalogue with --catalogue FILE, or a registry with --registry " +
			"URL or in $HAFT_MCP_REGISTRY"))
	}
	raw, err := toolfile.ReadBounded(c.file, mcpcatalog.MaxCatalogue)
	if err != nil {
		return nil, exit.Misuse(fmt.Errorf("read the catalogue: %w", err))
	}
	return mcpcatalog.Parse(raw)
}

// online returns the registry, if it is one that is asked.
func (c *Flags) online() (r mcpcatalog.Registry, ok bool) {
	return mcpcatalog.Registry{Client: daemon.IssuerClient(), URL: c.registry}, c.file == "" && c.registry != ""
}

// search returns the entries that may have a text in their names, and whether there are more.
func (c *Flags) search(ctx context.Context, text string) (list []mcpcatalog.Entry, more bool, err error) {
	if r, ok := c.online(); ok {
		return r.Search(ctx, text)
	}
	list, err = c.readFile()
	return list, false, err
}

// entry returns the entry of --from.
func (c *Flags) entry(ctx context.Context) (mcpcatalog.Entry, error) {
	if r, ok := c.online(); ok {
		return r.Entry(ctx, c.From)
	}
	list, err := c.readFile()
	if err != nil {
		return mcpcatalog.Entry{}, err
	}
	return mcpcatalog.Find(list, c.From)
}

// Search lists entries of a catalogue.
func Search() cli.Command {
	var c Flags
	return cli.Command{Use: "search TEXT…", Short: "Look for MCP servers in a catalogue", Flags: c.where(),
		Plain: func(ctx context.Context, p *cli.Profile, args []string) error {
			text := strings.Join(args, " ")
			list, more, err := c.search(ctx, args[0])
			if err != nil {
				return err
			}
			if more {
				fmt.Fprintln(p.Err, "the registry has more servers: add a word, or name more of the first one")
			}
			found := mcpcatalog.Search(list, text)
			return p.Print(found, func() {
				cli.PrintTable(p.Out, found, cli.Listing[mcpcatalog.Entry]{
					"NAME,VERSION,KIND,DESCRIPTION", func(e mcpcatalog.Entry) []any {
						return []any{cli.Shaded(e.Name, terminal.Bold), e.Version, e.Kind(), e.Description}
					}, "the catalogue has no such server"})
			})
		}}
}

// Complete makes the server of the flags that of the entry. It asks for secrets that are not set yet.
func (c *Flags) Complete(ctx context.Context, s *cli.Session, server haft.MCPServer) (haft.MCPServer, error) {
	e, err := c.entry(ctx)
	if err != nil {
		return server, err
	}
	if e.Status == "deprecated" {
		fmt.Fprintln(s.Err, "warning: its author has deprecated this server")
	}
	if c.choice.Values, err = toolfile.Pairs("--set", c.values); err != nil {
		return server, err
	}
	if c.choice.Values == nil {
		c.choice.Values = map[string]string{}
	}
	maps.Copy(c.choice.Values, server.Env)
	maps.Copy(c.choice.Values, server.Headers)
	i, err := e.Install(server.Name, c.choice)
	if err != nil {
		return server, err
	}
	for _, in := range i.Missing {
		err = errors.Join(err, fmt.Errorf("%s is missing: give it with --set %s=VALUE; %s", in.Name, in.Name,
			terminal.OneLine(in.Description, 200)))
	}
	if err != nil {
		return server, exit.Misuse(err)
	}
	own := i.Server
	own.Network, own.Mounts, own.Limits, own.Connect, own.OAuth = server.Network, server.Mounts, server.Limits,
		server.Connect, server.OAuth
	own.Requirements = server.Requirements
	i.Server = own
	fmt.Fprintln(s.Err, terminal.Escape(i.Text()))
	return own, askSecrets(ctx, s, i.Secrets)
}

// askSecrets asks a person for the secrets of an organisation that are not set yet, and does not show them.
func askSecrets(ctx context.Context, s *cli.Session, needed []mcpcatalog.Input) error {
	kept, err := s.Secrets(ctx, s.Who, "")
	if err != nil {
		return err
	}
	in, typed := s.In.(*os.File)
	for _, n := range needed {
		if slices.ContainsFunc(kept, func(i secret.Info) bool { return i.Name == n.Name }) {
			continue
		}
		if !typed || !terminal.Is(s.In) {
			return exit.Advise(&haft.Error{Code: haft.CodeInvalid, Message: "the server needs the secret " + n.Name},
				"set it with: haft secret set "+n.Name)
		}
		fmt.Fprintf(s.Err, "%s (%s; it is not shown): ", n.Name, terminal.OneLine(n.Description, 100))
		text, err := term.ReadPassword(int(in.Fd()))
		if fmt.Fprintln(s.Err); err != nil || len(text) == 0 {
			return exit.Misuse(errors.Join(err, errors.New("there is no value for "+n.Name)))
		}
		if err := s.BindSecret(ctx, s.Who, "", n.Name, secret.New(string(text)), nil); err != nil {
			return err
		}
	}
	return nil
}
