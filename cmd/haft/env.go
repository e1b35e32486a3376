package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"haft"
	"haft/app"
	"haft/internal/cli"
	"haft/internal/exit"
	"haft/internal/flagvalue"
	"haft/internal/layer"
	"haft/internal/requirement"
	"haft/internal/supply"
	"haft/internal/terminal"
	"haft/internal/toolfile"
)

// envCommand keeps installed packages.
func envCommand(*cli.Profile) cli.Command {
	var (
		verify, upgrade bool
		files, list     []string
		most            flagvalue.Size
		unused          time.Duration
	)
	return cli.Command{
		Use: "env", Short: "Keep environments: the installed packages that tools share",
		Example: `  haft env list
  haft env show 3f2a                            what is in it
  haft env build chart                          install what a tool needs, before its first call
  haft env build --requirements requirements.txt
  haft env gc --max-size 5GiB --unused-for 24h`,
		Subs: []cli.Command{
			{Use: "list", Short: "List environments, the one used last first", Plain: listEnvironments},
			{Use: "show ID", Short: "Show the packages of an environment, by the beginning of its id",
				Flags:   []cli.Flag{{&verify, "verify", "compare all files with their hashes"}},
				Missing: "see which there are with: haft env list",
				Plain: func(ctx context.Context, p *cli.Profile, args []string) error {
					return showEnvironment(ctx, p, args[0], verify)
				}},
			{Use: "build [TOOL…]", Short: "Install what tools need, or what a file names for haft run",
				Flags: []cli.Flag{
					{&files, "requirements", "a `FILE` that names packages: requirements.txt, pyproject.toml or " +
						"package.json; may be given again"},
					{&list, "requirement", "a `PACKAGE`; one of npm is written npm:NAME; may be given again"},
					{&upgrade, "upgrade", "find the newest packages that fit, instead of those of the last time"},
				},
				Missing: noSuchTool,
				Plain: func(ctx context.Context, p *cli.Profile, tools []string) error {
					named := len(files)+len(list) > 0
					if len(tools) == 0 && !named {
						return exit.Misuse(errors.New("name tools, or --requirements FILE, or --requirement PACKAGE"))
					}
					if named {
						if err := buildForRun(ctx, p, files, list, upgrade); err != nil || len(tools) == 0 {
							return err
						}
					}
					return p.Do(ctx, func(ctx context.Context, s *cli.Session) error {
						return buildTools(ctx, s,
							tools)
					})
				}},
			{Use: "gc", Short: "Remove environments that nobody uses, those unused longest first",
				Flags: []cli.Flag{
					{&most, "max-size", "remove until no more than this is left; everything if it is not given"},
					{&unused, "unused-for", "spare those that were used within this time"},
				},
				Plain: func(ctx context.Context, p *cli.Profile, _ []string) error {
					return removeEnvironments(ctx, p, int64(most), unused)
				}},
		},
	}
}

// environment is one that is listed.
type environment struct {
	layer.Info
	// For is who uses it: tools or run.
	For string `json:"for"`
}

// eachStore opens the environments of kept tools and those of haft run in turn. Other processes
// may use them meanwhile.
func eachStore(p *cli.Profile, work func(owner string, st *layer.Store) error) error {
	if p.Remote() {
		return exit.Misuse(errors.New("environments are on the machine that runs the tools: use haft env there"))
	}
	dir, err := p.Dir()
	if err != nil {
		return err
	}
	stores := [][2]string{{"tools", dir}}
	if cache, err := app.CacheDir(); err == nil {
		stores = append(stores, [2]string{"run", cache})
	}
	for _, at := range stores {
		dir := filepath.Join(at[1], "layers")
		if _, err := os.Stat(dir); err != nil {
			continue
		}
		st, err := layer.Open(layer.Config{Dir: dir, Quick: true})
		if err != nil {
			return err
		}
		if err := errors.Join(work(at[0], st), st.Close()); err != nil {
			return err
		}
	}
	return nil
}

// listEnvironments lists environments.
func listEnvironments(ctx context.Context, p *cli.Profile, _ []string) error {
	all := []environment{}
	err := eachStore(p, func(owner string, st *layer.Store) error {
		list, err := st.List(ctx)
		for _, i := range list {
			all = append(all, environment{i, owner})
		}
		return err
	})
	if err != nil {
		return err
	}
	return p.Print(all, func() {
		if len(all) == 0 {
			fmt.Fprintln(p.Err, "there are no environments yet")
			return
		}
		cli.PrintTable(p.Out, all, cli.Listing[environment]{"ID,KIND,FOR,SIZE,FILES,LAST USE,RUNTIME",
			environmentRow, ""})
	})
}

// environmentRow is the line of an environment in a list. One whose description cannot be read has
// no kind.
func environmentRow(e environment) []any {
	kind, used := e.Kind, e.LastUse.Format(time.DateTime)
	if kind == "" {
		kind = "damaged"
	}
	if e.InUse {
		used = "in use"
	}
	return []any{e.Digest[:12], kind, e.For, mebibytes(e.Bytes), e.Files, used, e.Runtime}
}

// mebibytes writes a size for people.
func mebibytes(n int64) string { return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20)) }

// showEnvironment shows the first environment whose id begins so.
func showEnvironment(ctx context.Context, p *cli.Profile, id string, verify bool) error {
	found := false
	err := eachStore(p, func(owner string, st *layer.Store) error {
		info, lock, err := st.Show(ctx, id)
		if haft.CodeOf(err) == haft.CodeNotFound || found {
			return nil
		}
		if found = err == nil; found && verify {
			err = st.Verify(ctx, info.Digest)
		}
		if err != nil {
			return err
		}
		return printEnvironment(p, environment{info, owner}, string(lock))
	})
	if err == nil && !found {
		return &haft.Error{Code: haft.CodeNotFound, Message: "there is no such environment"}
	}
	return err
}

// printEnvironment prints one environment and its lock.
func printEnvironment(p *cli.Profile, e environment, lock string) error {
	return p.Print(struct {
		environment
		Lock string `json:"lock"`
	}{e, lock}, func() {
		cli.PrintFacts(p.Out, "id", cli.Shaded(e.Digest, bold), "kind", e.Kind, "for", e.For, "runtime", e.Runtime,
			"size", fmt.Sprintf("%s, %d files", mebibytes(e.Bytes), e.Files),
			"made", e.Created.Format(time.DateTime)+" in "+e.Took.D().Round(time.Millisecond).String(),
			"last use", e.LastUse.Format(time.DateTime))
		fmt.Fprintln(p.Out, "lock:")
		fmt.Fprintln(p.Out, strings.TrimRight(lock, "\n"))
	})
}

// buildTools installs the packages of kept tools.
func buildTools(ctx context.Context, s *cli.Session, tools []string) error {
	local, err := s.Local("a server installs packages itself, at the first call")
	if err != nil {
		return err
	}
	for _, name := range tools {
		v, err := local.Build(ctx, s.Who, name)
		if err != nil {
			return err
		}
		word := "ready    "
		if v.Lock == (haft.Lock{}) {
			word = "needs none"
		}
		fmt.Fprintf(s.Out, "%s %s\n", paint(s.Out, green, word), safe(s.Out, name))
	}
	return nil
}

// buildForRun installs packages where haft run finds them.
func buildForRun(ctx context.Context, p *cli.Profile, files, list []string, upgrade bool) error {
	n := haft.SplitRequirements(haft.KindPython, list)
	set, err := requirement.Parse("the command line", n.Pip, n.NPM)
	if err != nil {
		return err
	}
	if set, err = toolfile.ReadRequirements(files, set); err != nil {
		return err
	}
	a, err := app.Open(ctx, app.Config{Packages: supply.FromEnv(os.Getenv), AllowReduced: p.Reduced})
	if err != nil {
		return err
	}
	defer a.Close()
	shown := terminal.NewProgress(p.Err)
	layers, release, err := a.Supply.Provide(ctx, set, nil, upgrade, shown.Line)
	shown.Line("")
	if err != nil {
		return err
	}
	defer release()
	for _, l := range layers {
		fmt.Fprintf(p.Out, "%s %s\n", paint(p.Out, green, "ready    "), l.Digest[:12])
	}
	return nil
}

// removeEnvironments removes environments until at most so many bytes are left.
func removeEnvironments(ctx context.Context, p *cli.Profile, most int64, unused time.Duration) error {
	type removed struct {
		For   string `json:"for"`
		Count int    `json:"removed"`
		Bytes int64  `json:"bytes"`
		Left  int64  `json:"left"`
		InUse int    `json:"in_use"`
	}
	all := []removed{}
	err := eachStore(p, func(owner string, st *layer.Store) error {
		swept, err := st.GC(ctx, most, unused)
		all = append(all, removed{owner, len(swept.Removed), swept.Bytes, swept.Left, swept.InUse})
		return err
	})
	return errors.Join(err, p.Print(all, func() {
		for _, d := range all {
			fmt.Fprintf(p.Out, "%s: removed %d environments (%s), %s left, %d in use\n", d.For, d.Count,
				mebibytes(d.Bytes), mebibytes(d.Left), d.InUse)
		}
	}))
}
