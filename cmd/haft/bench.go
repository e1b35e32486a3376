package main

import (
	"context"
	"fmt"
	"os"
	"time"

	"haft/internal/bench"
	"haft/internal/cli"
	"haft/internal/supply"
)

// benchCommand measures Haft beside other ways to run a tool.
func benchCommand(p *cli.Profile) cli.Command {
	var (
		cfg   = bench.Config{Peers: ".haft/bench"}
		quick bool
	)
	return cli.Command{
		Alone: true,
		Use:   "bench", Short: "Measure ours beside what people use otherwise, in one run",
		Flags: []cli.Flag{
			{&cfg.Rounds, "rounds", "how often each way is timed (200)"},
			{&cfg.Slice, "slice", "how long a slice of the throughput row lasts (3s)"},
			{&cfg.Sleepers, "sleepers", "how many calls sleep at once (1000); -1 for none"},
			{&cfg.Peers, "peers", "a `DIR` with what is compared, of scripts/setup bench (.haft/bench)"},
			{&cfg.Python, "python", "the interpreter: a name or a path"},
			cli.ReducedFlag(&cfg.AllowReduced),
			{&quick, "quick", "a short run: rougher figures"},
			{&cfg.Chart, "chart", "write the times as an SVG picture to this `FILE`"},
			{&cfg.Grow, "growth", "also measure what grows with tools, history, tenants, output and callers"},
			{&cfg.Page, "doc", "write tables and charts into this page, between its marks; with --growth and all rows"},
			{&p.JSON, "json", "print one JSON object"},
		},
		Plain: func(ctx context.Context, p *cli.Profile, _ []string) error {
			defer tuneForServer()()
			if quick {
				cfg.Rounds, cfg.Slice, cfg.Sleepers, cfg.Most = 40, time.Second, 100, 1000
			}
			self, err := os.Executable()
			if err != nil {
				return fmt.Errorf("find this program: %w", err)
			}
			cfg.Version = version
			cfg.Self, cfg.Packages, cfg.Numpy = self, supply.FromEnv(os.Getenv), true
			cfg.Server = []string{"npx", "-y", "@modelcontextprotocol/server-everything@2026.8.31"}
			cfg.Progress = func(what string) { fmt.Fprintln(p.Err, paint(p.Err, dim, "measuring: "+what)) }
			rep, err := bench.Run(ctx, cfg)
			if err != nil {
				return fmt.Errorf("measure: %w", err)
			}
			return p.Print(rep, func() { rep.Print(p.Out) })
		},
	}
}
