package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"haft"
	"haft/app"
	"haft/executor"
	"haft/internal/backend"
	"haft/internal/cli"
	"haft/internal/egress"
	"haft/internal/egress/route"
	"haft/internal/exit"
	"haft/internal/flagvalue"
	"haft/internal/supply"
	"haft/internal/terminal"
	"haft/internal/toolfile"
	"haft/internal/toolsource"
	"haft/sandbox"
	"haft/schema"
)

// runFlags are the flags of haft run.
type runFlags struct {
	argumentFlags
	env, files, requirements, ranges, programs []string
	packages                                   []string
	out                                        string
	timeout                                    time.Duration
	grace                                      haft.Millis
	memory                                     flagvalue.Memory
	network, sandbox, python                   string
	isolation                                  haft.Level
	output                                     haft.OutputType
	workspace                                  string
	workdir, upgrade, loose                    bool
}

// runCommand runs a tool from a file.
func runCommand(p *cli.Profile) cli.Command {
	f := runFlags{timeout: 30 * time.Second, network: "none", sandbox: "auto"}
	return cli.Command{
		Alone: true,
		Use:   "run FILE[:FUNCTION]|DIR",
		Short: "Run a tool in the sandbox",
		Long: `Run a tool in a sandbox of its own. The value goes to stdout, everything else to
stderr; with --json the whole result goes to stdout as one object. A DIR with a haft.toml
is one tool of several files.

` + exit.Help,
		Example: `  haft run weather.py --arg city=Oslo --arg days=2
  haft run weather.py:forecast --args '{"city": "Oslo"}' --json
  haft run report.ts --args @args.json --timeout 10s --memory 256MiB
  haft run chart.py --requirements requirements.txt --arg days=7`,
		Flags: append(f.argumentFlags.flags(), []cli.Flag{
			{&f.env, "env", "a variable for the tool, `K=V`"},
			{&f.files, "file", "a `FILE[:NAME]` or directory to put into the tool's directory; may be given again"},
			{&f.out, "out", "the `DIR` to save the files in that the tool leaves in its working directory"},
			{&f.workspace, "workspace", "the `NAME[:ro]` of a workspace of the data directory ($HAFT_DATA): the tool " +
				"finds it at /workspace; :ro is read-only"},
			{&f.workdir, "workdir", "make the workspace the working directory of the tool"},
			{&f.packages, "requirement", "a package it needs, such as requests==2.32.3; may be given again"},
			{&f.requirements, "requirements", "install what a `FILE` names: requirements.txt, pyproject.toml or " +
				"package.json; may be given again"},
			{&f.upgrade, "upgrade",
				"find the newest packages that fit the requirements, instead of those of the last time"},
			{&f.timeout, "timeout", "how long it may take"},
			{&f.grace, "grace", "how long it has to clean up after SIGTERM, when it is stopped (50ms)"},
			{&f.memory, "memory", "how much memory it may use, such as 512MiB"},
			{&f.network, "network", "none, full for every public host, host for the machine's own network, or the " +
				"`HOSTS`, such as api.example.com,*.example.org:8443"},
			{&f.ranges, "allow-range", "a `CIDR` of addresses that are not public and may be reached all the same"},
			{&f.programs, "program", programUsage},
			{&f.sandbox, "sandbox", "auto, local, gvisor, process, e2b or modal; the last two send the tool and its " +
				"arguments away"},
			cli.ReducedFlag(&p.Reduced),
			{&f.isolation, "isolation", "refuse to run with less: reduced, namespaces, kernel or machine"},
			{&f.python, "python", "the Python interpreter: a name, a path, or a virtual environment"},
			{&f.output, "output", "read what it gives back as json, text, number, boolean or list"},
			{&f.loose, "descriptions-optional", "do not warn of functions and parameters without documentation"},
			{&p.JSON, "json", "print the whole result as one JSON object"},
		}...),
		Plain: func(ctx context.Context, p *cli.Profile, args []string) error { return f.run(ctx, p, args[0]) },
	}
}

// run runs the tool of ref and prints its result.
func (f runFlags) run(ctx context.Context, p *cli.Profile, ref string) error {
	of, err := toolfile.ReadTool(ref)
	if err != nil {
		return err
	}
	src := of.Source
	r, err := f.request(p)
	if err != nil {
		return err
	}
	r.Files = append(of.Files, r.Files...)
	r.Beside = toolfile.Beside(of.Path, src.Kind, string(src.Text), toolfile.Names(r.Files))
	packages, err := toolfile.Requirements(src, append(of.Requirements, f.requirements...), f.packages)
	if err != nil {
		return err
	}
	a, err := app.Open(ctx, app.Config{
		Sandbox: f.sandbox, Need: sandbox.Need{Level: f.isolation}, Soon: src.Kind,
		Interpreters: map[haft.Kind]string{haft.KindPython: f.python}, Packages: supply.FromEnv(os.Getenv),
		AllowReduced: p.Reduced,
	})
	if err != nil {
		return err
	}
	defer a.Close()
	shown := terminal.NewProgress(p.Err)
	layers, release, err := a.Supply.Provide(ctx, packages, src.Text, f.upgrade, shown.Line)
	shown.Line("")
	if err != nil {
		return err
	}
	defer release()
	r.Layers = layers
	src.Layers = func(context.Context) ([]executor.Layer, error) { return layers, nil }
	a.Expect(ctx, src.Kind, r)
	t, err := a.Prepare(ctx, src, schema.Options{OneTool: true, DescriptionsOptional: true},
		haft.Output{Type: f.output})
	if _, ok := errors.AsType[*schema.SourceError](schema.InFile(of.Path, err)); ok {
		return printResult(p, toolsource.Unusable(src, err))
	}
	if haft.CodeOf(err) == haft.CodeUnavailable && f.python != "" {
		return exit.Misuse(fmt.Errorf("--python: %s", haft.MessageOf(err)))
	}
	if err != nil {
		return err
	}
	if !f.loose {
		warnOf(p.Streams, of.Path, t.Derived.Undocumented)
	}
	warnOf(p.Streams, of.Path, t.Derived.Warnings)
	if r.Args, err = f.pairs.AsDeclared(r.Args, t.Derived.Parameters); err != nil {
		return err
	}
	if !p.JSON {
		r.Stdout = func(b []byte) { shown.Output(string(b)) }
		r.Stderr, r.Progress = r.Stdout, shown.Report
	}
	mounted, err := f.mount(ctx, p, src.Kind)
	if err != nil {
		return err
	}
	defer mounted.Close() // what was written is kept by Finish
	r.Workspace = mounted.Workspace
	res, err := a.Call(mounted.Watch(ctx), t, r)
	shown.Line("")
	if err == nil {
		err = mounted.Finish(ctx, res)
	}
	if err != nil {
		return err
	}
	if err := saveArtifacts(ctx, p, nil, haft.Principal{}, res, f.out); err != nil {
		return err
	}
	return printResult(p, res)
}

// mount opens the workspace that a flag names, of the local organisation or that of $HAFT_ORG.
func (f runFlags) mount(ctx context.Context, p *cli.Profile, kind haft.Kind) (*app.Mount, error) {
	p.Flags() // which sets the defaults
	p.Org, p.User = cmp.Or(os.Getenv("HAFT_ORG"), p.Org), os.Getenv("HAFT_USER")
	dir, err := p.Dir()
	if err != nil {
		return nil, err
	}
	cfg := app.ServiceConfig{Data: dir, Database: os.Getenv("HAFT_DATABASE"), Wait: p.LockWait}
	m, err := app.MountWorkspace(ctx, cfg, haft.Call{Principal: p.Principal(),
		Workspace: backend.CallWorkspace(f.workspace, f.workdir)}, kind)
	if app.InUse(err) {
		return nil, &haft.Error{Code: haft.CodeConflict, Err: err, Message: haft.MessageOf(err) + "; or have a " +
			"server there call the tool: haft tool add FILE, then haft call NAME --workspace " + f.workspace}
	}
	return m, err
}

// request reads what the flags say about the call.
func (f runFlags) request(p *cli.Profile) (r app.Run, err error) {
	r.Programs = f.programs
	r.Limits = haft.Limits{Wall: haft.Millis(f.timeout), Grace: f.grace, Memory: int64(f.memory)}
	if err := checkSandbox(f.sandbox); err != nil {
		return r, err
	}
	if f.isolation != "" && !f.isolation.AtLeast(haft.LevelNone) {
		return r, exit.Misuse(fmt.Errorf("--isolation is one of %s", oneOf(haft.Levels())))
	}
	if f.timeout <= 0 {
		return r, exit.Misuse(errors.New("--timeout must be positive"))
	}
	if r.Args, err = f.read(p.In); err != nil {
		return r, err
	}
	if r.Env, err = toolfile.Pairs("--env", f.env); err != nil {
		return r, err
	}
	switch f.network {
	case "none":
	case "host":
		r.Network = sandbox.NetworkFull
	default:
		r.Hosts = strings.Split(f.network, ",")
		for _, h := range r.Hosts {
			if _, err := egress.ParseRule(h); err != nil && h != route.NetworkFull {
				return r, exit.Misuse(fmt.Errorf("--network is none, full, host or hosts: %s", haft.MessageOf(err)))
			}
		}
	}
	if r.Ranges, err = toolfile.Prefixes("--allow-range", f.ranges); err != nil {
		return r, err
	}
	if f.output != "" && !slices.Contains(haft.OutputTypes(), f.output) {
		return r, exit.Misuse(fmt.Errorf("--output is one of %s", oneOf(haft.OutputTypes())))
	}
	r.Files, err = toolfile.ReadFiles(f.files)
	return r, err
}

// checkSandbox refuses names of sandboxes that do not exist, before anything is opened. Empty is the default.
func checkSandbox(names string) error {
	if names == "" || names == "auto" {
		return nil
	}
	for name := range strings.SplitSeq(names, ",") {
		if !slices.Contains(haft.SandboxTypes(), haft.SandboxType(strings.TrimSpace(name))) {
			return exit.Misuse(fmt.Errorf("--sandbox is auto, or one of %s", oneOf(haft.SandboxTypes())))
		}
	}
	return nil
}

// oneOf lists values that a flag can have.
func oneOf[T ~string](values []T) string {
	return joined(values, ", ", func(v T) string { return string(v) })
}

// printResult prints a result and returns its exit code as an error.
func printResult(p *cli.Profile, res *haft.Result) error {
	if err := p.Print(res, func() { terminal.PrintResult(p.Out, p.Err, res) }); err != nil {
		return err
	}
	return exit.With(exit.OfStatus[res.Status])
}
