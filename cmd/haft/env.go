package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"haft"
	"haft/app"
	"haft/internal/layer"
	"haft/internal/requirement"
	"haft/internal/supply"
)

// envCommand keeps installed packages.
func envCommand(std streams) *cobra.Command {
	cmd := group("env", "Keep environments: the installed packages that tools share", `  haft env list
  haft env show 3f2a                            what is in it
  haft env build chart                          install what a tool needs, before its first call
  haft env build --requirements requirements.txt
  haft env gc --max-size 5GiB --unused-for 24h`)
	p := attach(cmd)
	cmd.AddCommand(envList(p, std), envShow(p, std), envBuild(p, std), envGC(p, std))
	return cmd
}

// place is a directory with environments, and who uses them.
type place struct {
	name string
	dir  string
}

// places are those of kept tools, and of haft run.
func places(p *persona) ([]place, error) {
	if p.remote() {
		return nil, usage(errors.New("environments are on the machine that runs the tools: use haft env there"))
	}
	dir, err := p.dir()
	if err != nil {
		return nil, err
	}
	list := []place{{"tools", filepath.Join(dir, "layers")}}
	if cache, err := app.CacheDir(); err == nil {
		list = append(list, place{"run", filepath.Join(cache, "layers")})
	}
	return slices.DeleteFunc(list, func(p place) bool {
		_, err := os.Stat(p.dir)
		return err != nil
	}), nil
}

// environment is one that is listed.
type environment struct {
	layer.Info
	// For is who uses it: tools or run.
	For string `json:"for"`
}

// eachStore opens the environments of every place in turn. Other processes may use
// them meanwhile.
func eachStore(p *persona, work func(place, *layer.Store) error) error {
	all, err := places(p)
	if err != nil {
		return err
	}
	for _, pl := range all {
		st, err := layer.Open(layer.Config{Dir: pl.dir, Quick: true})
		if err != nil {
			return err
		}
		if err := errors.Join(work(pl, st), st.Close()); err != nil {
			return err
		}
	}
	return nil
}

// envCmd makes a command on environments.
func envCmd(use, short string, args cobra.PositionalArgs,
	work func(ctx context.Context, args []string) error) *cobra.Command {
	return &cobra.Command{
		Use: use, Short: short,
		Args: func(c *cobra.Command, list []string) error { return usageArgs(args(c, list)) },
		RunE: func(c *cobra.Command, list []string) error { return work(c.Context(), list) },
	}
}

// envList lists environments.
func envList(p *persona, std streams) *cobra.Command {
	return envCmd("list", "List environments, the one used last first", cobra.NoArgs,
		func(ctx context.Context, _ []string) error {
			all := []environment{}
			err := eachStore(p, func(pl place, st *layer.Store) error {
				list, err := st.List(ctx)
				for _, i := range list {
					all = append(all, environment{i, pl.name})
				}
				return err
			})
			if err != nil {
				return err
			}
			if p.json {
				return printJSON(std.out, all)
			}
			if len(all) == 0 {
				fmt.Fprintln(std.err, "there are no environments yet")
				return nil
			}
			t := newTable(std.out, "ID", "KIND", "FOR", "SIZE", "FILES", "LAST USE", "RUNTIME")
			for _, e := range all {
				kind := e.Kind
				if kind == "" {
					kind = "damaged"
				}
				used := e.LastUse.Format(time.DateTime)
				if e.InUse {
					used = "in use"
				}
				t.row(e.Digest[:12], kind, e.For, mebibytes(e.Bytes), e.Files, used, e.Runtime)
			}
			t.print("there are no environments yet")
			return nil
		})
}

// mebibytes writes a size for people.
func mebibytes(n int64) string { return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20)) }

// envShow shows one environment.
func envShow(p *persona, std streams) *cobra.Command {
	verify := false
	cmd := envCmd("show ID", "Show the packages of an environment, by the beginning of its id", cobra.ExactArgs(1),
		func(ctx context.Context, args []string) error {
			found := false
			err := eachStore(p, func(pl place, st *layer.Store) error {
				info, lock, err := st.Show(ctx, args[0])
				if haft.CodeOf(err) == haft.CodeNotFound || found {
					return nil
				}
				if err != nil {
					return err
				}
				found = true
				if verify {
					if err := st.Verify(ctx, info.Digest); err != nil {
						return err
					}
				}
				return showEnvironment(std, p.json, environment{info, pl.name}, lock)
			})
			if err == nil && !found {
				return advise(&haft.Error{Code: haft.CodeNotFound, Message: "there is no such environment"},
					"see which there are with: haft env list")
			}
			return err
		})
	cmd.Flags().BoolVar(&verify, "verify", false, "compare all files with their hashes")
	return cmd
}

// showEnvironment prints one environment and its lock.
func showEnvironment(std streams, asJSON bool, e environment, lock []byte) error {
	if asJSON {
		return printJSON(std.out, struct {
			environment
			Lock string `json:"lock"`
		}{e, string(lock)})
	}
	printFacts(std.out, fact{"id", cell{e.Digest, bold}}, fact{"kind", e.Kind}, fact{"for", e.For},
		fact{"runtime", e.Runtime},
		fact{"size", fmt.Sprintf("%s, %d files", mebibytes(e.Bytes), e.Files)},
		fact{"made", e.Created.Format(time.DateTime) + " in " + e.Took.D().Round(time.Millisecond).String()},
		fact{"last use", e.LastUse.Format(time.DateTime)})
	fmt.Fprintln(std.out, "lock:")
	_, err := fmt.Fprintln(std.out, strings.TrimRight(string(lock), "\n"))
	return err
}

// envBuild installs packages ahead of their use.
func envBuild(p *persona, std streams) *cobra.Command {
	var files, list []string
	upgrade := false
	cmd := envCmd("build [TOOL…]", "Install what tools need, or what a file names for haft run", cobra.ArbitraryArgs,
		func(ctx context.Context, tools []string) error {
			if len(tools) == 0 && len(files)+len(list) == 0 {
				return usage(errors.New("name tools, or --requirements FILE, or --requirement PACKAGE"))
			}
			if len(files)+len(list) > 0 {
				if err := buildForRun(ctx, std, files, list, upgrade, p.reduced); err != nil {
					return err
				}
			}
			if len(tools) == 0 {
				return nil
			}
			return p.do(ctx, std, func(ctx context.Context, s *session) error { return buildTools(ctx, s, tools) })
		})
	f := cmd.Flags()
	f.StringArrayVar(&files, "requirements", nil,
		"a `FILE` that names packages: requirements.txt, pyproject.toml or package.json; may be given again")
	f.StringArrayVar(&list, "requirement", nil, "a `PACKAGE`; one of npm is written npm:NAME; may be given again")
	f.BoolVar(&upgrade, "upgrade", false, "find the newest packages that fit, instead of those of the last time")
	return cmd
}

// buildTools installs what kept tools need.
func buildTools(ctx context.Context, s *session, tools []string) error {
	local, ok := s.system.(*embedded)
	if !ok {
		return usage(errors.New("a server installs packages itself, at the first call"))
	}
	for _, name := range tools {
		v, err := local.Build(ctx, s.p, name)
		if err != nil {
			return noTool(err)
		}
		word := "ready    "
		if v.Lock == (haft.Lock{}) {
			word = "needs none"
		}
		fmt.Fprintf(s.std.out, "%s %s\n", paint(s.std.out, green, word), safe(s.std.out, name))
	}
	return nil
}

// buildForRun installs packages where haft run finds them.
func buildForRun(ctx context.Context, std streams, files, list []string, upgrade, reduced bool) error {
	n := needs(haft.KindPython, list)
	set, err := requirement.Parse("the command line", n.Pip, n.NPM)
	if err != nil {
		return err
	}
	sets := []requirement.Set{set}
	for _, name := range files {
		s, err := readNeeds(name)
		if err != nil {
			return err
		}
		sets = append(sets, s)
	}
	if set, err = requirement.Merge(sets...); err != nil {
		return err
	}
	a, err := app.Open(ctx, app.Config{Packages: supply.FromEnv(os.Getenv), AllowReduced: reduced})
	if err != nil {
		return err
	}
	defer a.Close()
	said := newProgress(std.err)
	layers, release, err := a.Supply.Provide(ctx, set, nil, upgrade, said.line)
	said.clear()
	if err != nil {
		return err
	}
	defer release()
	for _, l := range layers {
		fmt.Fprintf(std.out, "%s %s\n", paint(std.out, green, "ready    "), l.Digest[:12])
	}
	return nil
}

// envGC removes environments.
func envGC(p *persona, std streams) *cobra.Command {
	var most size
	var unused time.Duration
	cmd := envCmd("gc", "Remove environments that nobody uses, those unused longest first", cobra.NoArgs,
		func(ctx context.Context, _ []string) error {
			type done struct {
				For   string `json:"for"`
				Count int    `json:"removed"`
				Bytes int64  `json:"bytes"`
				Left  int64  `json:"left"`
				InUse int    `json:"in_use"`
			}
			all := []done{}
			err := eachStore(p, func(pl place, st *layer.Store) error {
				swept, err := st.GC(ctx, int64(most), unused)
				all = append(all, done{pl.name, len(swept.Removed), swept.Bytes, swept.Left, swept.InUse})
				return err
			})
			if p.json {
				return errors.Join(printJSON(std.out, all), err)
			}
			for _, d := range all {
				fmt.Fprintf(std.out, "%s: removed %d environments (%s), %s left, %d in use\n", d.For, d.Count,
					mebibytes(d.Bytes), mebibytes(d.Left), d.InUse)
			}
			return err
		})
	cmd.Flags().Var(&most, "max-size", "remove until no more than this is left; everything if it is not given")
	cmd.Flags().DurationVar(&unused, "unused-for", 0, "spare those that were used within this time")
	return cmd
}
