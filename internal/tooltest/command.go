package tooltest

import (
	"context"
	"errors"
	"fmt"
	"regexp"

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
  haft test tools --tags fast --repeat 5`,
		Flags: []cli.Flag{
			{&f.run, "run", "run only the cases whose FILE/NAME has a match of the `REGEXP`"},
			{&f.tags, "tags", "run only the cases with one of the `TAGS`, separated by commas"},
			{&f.cfg.Repeat, "repeat", "run each case so often, and report those that pass only sometimes"},
			{&f.cfg.Parallel, "parallel", "how many cases run at once; 0 means two for each processor"},
			{&f.sandboxes, "sandbox", "run all cases in each of the `SANDBOXES`, separated by commas: auto, local, process"},
			{&f.verbose, "verbose,v", "show a line for every case"},
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
	if f.run != "" {
		var err error
		if f.cfg.Run, err = regexp.Compile(f.run); err != nil {
			return exit.Misuse(fmt.Errorf("--run: %w", err))
		}
	}
	if len(names) == 0 {
		names = []string{"."}
	}
	f.cfg.Tags, f.cfg.Sandboxes = f.tags, f.sandboxes
	report, err := f.once(ctx, p, names)
	if err != nil {
		return err
	}
	if !report.Good() {
		return exit.With(exit.Tool)
	}
	return nil
}

// once runs the tests one time.
func (f *flags) once(ctx context.Context, p *cli.Profile, names []string) (*Report, error) {
	paths, err := Find(names)
	if err != nil {
		return nil, err
	}
	files := make([]*File, len(paths))
	for i, path := range paths {
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
	return report, p.Print(report, func() { printer.Summary(report) })
}
