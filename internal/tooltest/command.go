package tooltest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"

	"haft"
	"haft/internal/cli"
	"haft/internal/exit"
	"haft/internal/terminal"
)

// flags are those of haft test.
type flags struct {
	cfg       Config
	run       string
	tags      cli.CommaList
	sandboxes cli.CommaList
	verbose   bool
	watch     bool
	listed    bool
	notes     bool
	junit     string
	html      string
}

// Command is haft test.
func Command(p *cli.Profile) cli.Command {
	f := &flags{}
	return cli.Command{
		Alone: true,
		Use:   "test [FILE|DIR…]",
		Short: "Test tools as models meet them: checked, confined and limited",
		Long: `Run the cases of test files: of each FILE, and of every NAME_test.yaml and NAME.test.yaml
below each DIR (this directory if none is named). Each file names its tools. They are
registered on a real system in a directory of its own, which is removed afterwards, and
called in the sandbox. docs/testing.md says what a test file has.

Exit codes: 0 all cases passed; 1 a case failed, is flaky, or a gate is closed; 2 the
command line is wrong or names no test file; 3 a test file or a tool is not valid;
70 Haft or the machine failed.`,
		Example: `  haft test
  haft test weather_test.yaml --run sunny -v
  haft test tools --tags fast --repeat 5
  haft test --watch
  haft test --junit report.xml --html report.html --annotations`,
		Flags: []cli.Flag{
			{&f.run, "run", "run only the cases whose FILE/NAME has a match of the `REGEXP`"},
			{&f.tags, "tags", "run only the cases with one of the `TAGS`, separated by commas"},
			{&f.cfg.Repeat, "repeat", "run each case so often, and report those that pass only sometimes"},
			{&f.cfg.Parallel, "parallel", "how many cases run at once; 0 means two for each processor"},
			{&f.sandboxes, "sandbox", "run all cases in each of the `SANDBOXES`, separated by commas: auto, local, " +
				"gvisor, e2b, process"},
			{&f.cfg.RealNetwork, "real-network", "allow cases with network: real to reach the network"},
			{&f.cfg.Record, "record", "ask the real APIs once, and keep their answers in the files that cases name"},
			{&f.verbose, "verbose,v", "show a line for every case"},
			{&f.cfg.Advisories, "advisories", "fail for packages that a `FILE` of advisories (OSV) is about"},
			{&f.cfg.Learn, "learn", "observe the calls, and print the least settings that they need as YAML"},
			{&f.cfg.Coverage, "coverage", "count which lines of tools in Python, TypeScript and JavaScript run"},
			{&f.cfg.Profile, "profile", "show where the slowest cases spend their time"},
			{&f.listed, "list", "show the cases and run none"},
			{&f.watch, "watch", "run again the test files that a change is about, until interrupted"},
			{&f.junit, "junit", "write a report in JUnit's XML to a `FILE`"},
			{&f.html, "html", "write a report to a `FILE`, as one page"},
			{&f.notes, "annotations", "print commands for GitHub's runners, which show failures in the diff"},
			cli.ReducedFlag(&f.cfg.Reduced),
			{&p.JSON, "json", "print the whole report as one JSON object"},
		},
		Plain: f.test,
	}
}

// test runs the tests.
func (f *flags) test(ctx context.Context, p *cli.Profile, names []string) error {
	if f.cfg.Repeat < 0 || f.cfg.Parallel < 0 {
		return exit.Misuse(errors.New("--repeat and --parallel must not be negative"))
	}
	if f.cfg.Profile && f.cfg.Coverage {
		return exit.Misuse(errors.New("--profile would measure what --coverage takes: leave one out"))
	}
	if f.run != "" {
		var err error
		if f.cfg.Run, err = regexp.Compile(f.run); err != nil {
			return exit.Misuse(fmt.Errorf("--run: %w", err))
		}
	}
	if len(names) == 0 {
		names = []string{"."}
	}
	for _, name := range f.sandboxes { // now, and not after the cases have run in those before it
		if err := haft.SandboxType(name).Check(); err != nil && name != "auto" {
			return exit.Misuse(fmt.Errorf("--sandbox: %s; or auto", haft.MessageOf(err)))
		}
	}
	f.cfg.Tags, f.cfg.Sandboxes = f.tags, f.sandboxes
	if f.watch {
		if p.JSON {
			return exit.Misuse(errors.New("--watch never ends, and --json prints one document: leave one out"))
		}
		return watch(ctx, names, func(paths []string) {
			if _, err := f.once(ctx, p, paths); err != nil && ctx.Err() == nil {
				cli.Report(p.Err, err)
			}
			fmt.Fprintln(p.Err, terminal.Paint(p.Err, terminal.Dim, "watching; Ctrl-C ends it"))
		})
	}
	paths, err := Find(names)
	if err != nil {
		return err
	}
	if f.listed {
		return f.list(p, paths)
	}
	report, err := f.once(ctx, p, paths)
	if err != nil {
		return err
	}
	if !report.Good() {
		return exit.With(exit.Tool)
	}
	return nil
}

// once runs the tests of files one time.
func (f *flags) once(ctx context.Context, p *cli.Profile, paths []string) (*Report, error) {
	files := make([]*File, len(paths))
	for i, path := range paths {
		var err error
		if files[i], err = Load(path); err != nil {
			return nil, err
		}
	}
	shown, printer := terminal.NewProgress(p.Err), &Printer{Out: p.Out, Verbose: f.verbose}
	cfg := f.cfg
	cfg.Progress = shown.Line
	if !p.JSON {
		cfg.Done = printer.Show
	}
	report, err := Run(ctx, files, cfg)
	shown.Line("")
	if err != nil {
		return nil, err
	}
	if err := p.Print(report, func() { printer.Summary(report) }); err != nil {
		return nil, err
	}
	if f.notes {
		WriteAnnotations(p.Out, report)
	}
	return report, errors.Join(write(f.junit, report, WriteJUnit), write(f.html, report, WriteHTML))
}

// write writes a report to a file, if one is named.
func write(path string, r *Report, to func(io.Writer, *Report) error) error {
	if path == "" {
		return nil
	}
	f, err := os.Create(path)
	if err != nil {
		return exit.Misuse(fmt.Errorf("write the report: %w", err))
	}
	return errors.Join(to(f, r), f.Close())
}
