// Command mutate turns off one refusal after another and runs the tests that reach it: a refusal whose absence no
// test notices is printed. A refusal is an if statement that ends by returning from its function.
//
//	make mutate PKG=./policy
//	make mutate PKG=./internal/egress/route TESTS=./internal/egress RUN='^TestGuard'
//
// The package is compiled once, with a switch in each refusal (switches.go). Each test runs once alone, to record which
// refusals it reaches; a refusal that no test reaches survives without a further run.
package main

import (
	"cmp"
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

const (
	// recordTimeout is how long one test may run while nothing is turned off.
	recordTimeout = 10 * time.Minute
	// groupTime bounds the tests that run as one process, the fastest first, so that what a fast test notices takes
	// no slow one.
	groupTime = 3 * time.Second
)

func main() {
	tests := flag.String("tests", "", "the package whose tests run; the mutated one if empty")
	run := flag.String("run", "", "only tests that match, as go test -run")
	lines := flag.String("only", "", "try only refusals whose file:line contains one of these words, comma-separated")
	every := flag.Int("every", 1, "try only each n-th refusal")
	flag.Parse()
	if *tests == "" {
		*tests = flag.Arg(0)
	}
	survivors, err := mutate(context.Background(), flag.Arg(0), *tests, *run, *lines, *every)
	if err != nil {
		fmt.Fprintln(os.Stderr, "mutate:", err)
		os.Exit(2)
	}
	if survivors > 0 {
		os.Exit(1)
	}
}

// program is a compiled test program and what its tests reached.
type program struct {
	path, dir string
	// subtests is what follows the first slash of -run, with it, or empty.
	subtests string
	tests    []test
}

// test is a test of a program, the time that it took, and the refusals that it reached.
type test struct {
	name    string
	took    time.Duration
	reached []string
}

// mutate tries the refusals of package pkg by the tests of another, or of itself, and returns how many no test notices.
func mutate(ctx context.Context, pkg, tests, run, lines string, every int) (survivors int, err error) {
	temp, err := os.MkdirTemp("", "mutate")
	if err != nil {
		return 0, fmt.Errorf("make a directory: %w", err)
	}
	defer os.RemoveAll(temp) //nolint:errcheck // a directory for temporary files is cleaned by the system too
	// A test may start programs as another user.
	if err := os.Chmod(temp, 0o711); err != nil {
		return 0, fmt.Errorf("open the directory: %w", err)
	}
	refusals, err := compile(ctx, temp, pkg, tests)
	if err != nil {
		return 0, err
	}
	run, subtests, found := strings.Cut(run, "/")
	p := &program{path: filepath.Join(temp, "tests"), dir: tests}
	if found {
		p.subtests = "/" + subtests
	}
	if err := p.record(ctx, run, filepath.Join(temp, "reached")); err != nil {
		return 0, err
	}
	tried, unreached := 0, 0
	for i, r := range refusals {
		if i%every != 0 || !wanted(lines, r.where) {
			continue
		}
		tried++
		reaching := p.reaching(r.number)
		if len(reaching) > 0 && p.notices(ctx, r.number, reaching) {
			continue
		}
		survivors++
		how := "no test notices that this refusal is gone"
		if len(reaching) == 0 {
			unreached++
			how = "no test reaches this refusal"
		}
		fmt.Printf("%s: %s: %s\n", r.where, how, r.cond)
	}
	fmt.Printf("%s: %d refusals, %d survive, of which no test reaches %d\n", pkg, tried, survivors, unreached)
	return survivors, nil
}

// wanted reports whether where contains one of the words, or there are none.
func wanted(words, where string) bool {
	return slices.ContainsFunc(strings.Split(words, ","), func(w string) bool { return strings.Contains(where, w) })
}

// record runs each matching test alone, with nothing turned off, and keeps what it reached. A test that fails like this
// says nothing about refusals: it is reported and left out.
func (p *program) record(ctx context.Context, run, file string) error {
	listed, err := p.command(ctx, "-test.list", cmp.Or(run, ".")).Output()
	if err != nil {
		return fmt.Errorf("list the tests of %s: %w", p.dir, err)
	}
	for name := range strings.Lines(string(listed)) {
		name = strings.TrimSpace(name)
		if strings.HasPrefix(name, "Benchmark") {
			continue
		}
		if err := emptyFile(file); err != nil {
			return fmt.Errorf("empty the record: %w", err)
		}
		start := time.Now()
		if !p.passes(ctx, recordTimeout, "^"+name+"$", recordVariable+"="+file) {
			fmt.Printf("%s: left out: it fails with nothing turned off\n", name)
			continue
		}
		text, err := os.ReadFile(file)
		if err != nil {
			return fmt.Errorf("read the record: %w", err)
		}
		p.tests = append(p.tests, test{name: name, took: time.Since(start), reached: strings.Fields(string(text))})
	}
	slices.SortStableFunc(p.tests, func(a, b test) int { return int(a.took - b.took) })
	return nil
}

// emptyFile makes an empty file that every user may write: a test may start programs as another user.
func emptyFile(name string) error {
	if err := os.WriteFile(name, nil, 0o600); err != nil {
		return err
	}
	return os.Chmod(name, 0o666) //nolint:gosec // it holds numbers, for minutes
}

// reaching returns the tests that reached a refusal, the fastest first.
func (p *program) reaching(number string) []test {
	var found []test
	for _, t := range p.tests {
		if slices.Contains(t.reached, number) {
			found = append(found, t)
		}
	}
	return found
}

// notices reports whether one of the tests fails with a refusal turned off. A test that does not end counts.
func (p *program) notices(ctx context.Context, number string, tests []test) bool {
	for len(tests) > 0 {
		var names []string
		var took time.Duration
		for len(tests) > 0 && (took == 0 || took+tests[0].took < groupTime) {
			names, took = append(names, tests[0].name), took+tests[0].took
			tests = tests[1:]
		}
		if !p.passes(ctx, 10*took+30*time.Second, "^("+strings.Join(names, "|")+")$", switchVariable+"="+number) {
			return true
		}
	}
	return false
}

// passes reports whether the matching tests pass in time with one more variable in their environment.
func (p *program) passes(ctx context.Context, within time.Duration, run, variable string) bool {
	ctx, cancel := context.WithTimeout(ctx, within+time.Minute)
	defer cancel()
	cmd := p.command(ctx, "-test.failfast", "-test.timeout", within.String(), "-test.run", run+p.subtests)
	cmd.Env = append(os.Environ(), variable)
	return cmd.Run() == nil
}

// command returns a run of the test program in its directory.
func (p *program) command(ctx context.Context, args ...string) *exec.Cmd {
	// Without a bound that was turned off, a test may ask for all memory of the machine.
	shell := []string{"-c", `ulimit -v 6000000; exec "$@"`, "mutate", p.path}
	cmd := exec.CommandContext(ctx, "bash", append(shell, args...)...)
	cmd.Dir = p.dir
	return cmd
}
