package main

import (
	"context"
	"fmt"
	"runtime"
	"runtime/debug"

	"haft/internal/cli"
)

// versionCommand says which program this is.
func versionCommand(p *cli.Profile) cli.Command {
	return cli.Command{
		Alone: true, Use: "version", Short: "Show which haft this is",
		Flags: []cli.Flag{{&p.JSON, "json", "print one JSON document"}},
		Plain: func(_ context.Context, p *cli.Profile, _ []string) error {
			v := map[string]string{"version": version, "go": runtime.Version(),
				"platform": runtime.GOOS + "/" + runtime.GOARCH}
			if info, ok := debug.ReadBuildInfo(); ok {
				for _, s := range info.Settings {
					if s.Key == "vcs.revision" {
						v["commit"] = s.Value
					}
				}
			}
			return p.Print(v, func() {
				fmt.Fprintf(p.Out, "haft %s (%s, %s)\n", v["version"], v["platform"], v["go"])
			})
		},
	}
}

// manCommand writes the manual pages, for packages.
func manCommand(*cli.Profile) cli.Command {
	return cli.Command{
		Alone: true, Hidden: true,
		Use: "man DIR", Short: "Write the manual pages into a directory",
		Plain: func(_ context.Context, p *cli.Profile, args []string) error {
			n, err := cli.WriteManuals(newRoot(cli.Streams{}, ""), version, args[0])
			if err == nil {
				fmt.Fprintln(p.Out, n, "pages written to", args[0])
			}
			return err
		},
	}
}
