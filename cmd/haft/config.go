package main

import (
	"context"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"

	"haft/internal/cli"
	"haft/internal/exit"
	"haft/internal/userconfig"
)

// configCommand keeps the profiles of the user.
func configCommand(p *cli.Profile) cli.Command {
	list := func(_ context.Context, p *cli.Profile, _ []string) error { return listProfiles(p) }
	return cli.Command{
		Alone: true,
		Use:   "config", Short: "Keep profiles: the server, the key and the defaults that commands use",
		Long: `config keeps profiles in a file of yours. Commands use the one that --profile or $HAFT_PROFILE names,
or else the one in use. What the command line or the environment says wins over it.`,
		Example: `  haft config set work server=https://haft.example.com key-file=$HOME/.haft-work.key
  haft config use work
  haft tool list --profile work`,
		Flags: []cli.Flag{{&p.JSON, "json", "print one JSON document"}},
		Plain: list,
		Subs: []cli.Command{
			{Use: "list", Short: "List the profiles", Flags: []cli.Flag{{&p.JSON, "json", "print one JSON " +
				"document"}}, Plain: list},
			{Use: "show [NAME]", Short: "Show a profile, or the one in use",
				Flags: []cli.Flag{{&p.JSON, "json", "print one JSON document"}}, Plain: showProfile},
			{Use: "set NAME KEY=VALUE…", Short: "Set what a profile has: server, key-file, org, user, agent, data, " +
				"database, print; KEY= removes it",
				Plain: changeConfig(func(c *userconfig.Config, args []string) error {
					return c.Set(args[0],
						args[1:])
				})},
			{Use: "use NAME", Short: "Use a profile from now on; none means no profile",
				Plain: changeConfig(func(c *userconfig.Config, args []string) error {
					if c.Use = args[0]; args[0] == "none" {
						c.Use = ""
					}
					_, err := c.Profile("")
					return err
				})},
			{Use: "remove NAME", Old: []string{"rm"}, Short: "Remove a profile",
				Plain: changeConfig(func(c *userconfig.Config, args []string) error {
					if _, err := c.Profile(args[0]); err != nil {
						return err
					}
					if delete(c.Profiles, args[0]); c.Use == args[0] {
						c.Use = ""
					}
					return nil
				})},
		},
	}
}

// changeConfig makes a command that changes the file.
func changeConfig(change func(c *userconfig.Config, args []string) error) func(context.Context, *cli.Profile,
	[]string) error {
	return func(_ context.Context, _ *cli.Profile, args []string) error {
		path := userconfig.Path(os.Getenv)
		c, err := userconfig.Load(path)
		if err == nil {
			err = change(&c, args)
		}
		if err != nil {
			return exit.Misuse(err)
		}
		return c.Save(path)
	}
}

// listProfiles lists the profiles, without what is in them but the server.
func listProfiles(p *cli.Profile) error {
	c, err := userconfig.Load(userconfig.Path(os.Getenv))
	if err != nil {
		return exit.Misuse(err)
	}
	return p.Print(c, func() {
		cli.PrintTable(p.Out, c.Names(), cli.Listing[string]{"PROFILE,IN USE,WHERE",
			func(name string) []any {
				used, where := "", c.Profiles[name]["server"]
				if name == c.Use {
					used = "yes"
				}
				if where == "" {
					where = strings.TrimSpace("data " + c.Profiles[name]["data"])
				}
				return []any{cli.Shaded(name, bold), used, where}
			}, "there are no profiles; add one with: haft config set NAME server=URL key-file=FILE"})
	})
}

// showProfile shows one profile.
func showProfile(_ context.Context, p *cli.Profile, args []string) error {
	c, err := userconfig.Load(userconfig.Path(os.Getenv))
	if err != nil {
		return exit.Misuse(err)
	}
	settings, err := c.Profile(strings.Join(args, ""))
	if err != nil {
		return exit.Misuse(err)
	}
	return p.Print(settings, func() {
		for _, key := range slices.Sorted(maps.Keys(settings)) {
			fmt.Fprintf(p.Out, "%s  %s\n", paint(p.Out, dim, fmt.Sprintf("%-10s", key)), safe(p.Out, settings[key]))
		}
	})
}
