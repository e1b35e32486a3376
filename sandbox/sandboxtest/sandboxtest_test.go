package sandboxtest_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"haft"
	"haft/sandbox"
	"haft/sandbox/process"
	"haft/sandbox/sandboxtest"
)

func TestCases_are_well_formed(t *testing.T) {
	name := regexp.MustCompile(`^[a-z0-9]+(_[a-z0-9]+)+$`)
	seen := map[string]bool{}
	count := map[sandboxtest.Group]int{}
	for _, c := range sandboxtest.Cases() {
		count[c.Group]++
		switch {
		case !name.MatchString(c.Name) || seen[c.Name]:
			t.Errorf("the name %q is twice, or does not say a behaviour", c.Name)
		case !slices.Contains(sandboxtest.Groups(), c.Group):
			t.Errorf("%s is of no group: %q", c.Name, c.Group)
		case !strings.HasSuffix(c.Story, "."):
			t.Errorf("%s has no story: %q", c.Name, c.Story)
		case (c.Do == nil) == (c.Check == nil):
			t.Errorf("%s must have either Do or Check", c.Name)
		case c.Check != nil && c.Program.Source == "":
			t.Errorf("%s has no program", c.Name)
		}
		seen[c.Name] = true
	}
	for _, g := range sandboxtest.Groups() {
		if count[g] < 8 {
			t.Errorf("group %s has %d cases", g, count[g])
		}
	}
	t.Logf("%d cases: %v", len(seen), count)
}

func TestGrade_of_no_isolation(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	p, err := process.Open(process.Config{})
	if err != nil {
		t.Fatal(err)
	}
	rows := 0
	rep, err := sandboxtest.Grade(t.Context(), p, func(sandboxtest.Row) { rows++ })
	if err != nil {
		t.Fatal(err)
	}
	if rep.Grade != "D" || rows != len(sandboxtest.Cases()) || rep.Count(sandboxtest.Broken) != 0 {
		var out bytes.Buffer
		_ = rep.Write(&out)
		t.Errorf("grade %q after %d rows, want D:\n%s", rep.Grade, rows, &out)
	}
}

func TestFake(t *testing.T) {
	closed := make(chan struct{})
	close(closed)
	wait := func(ctx context.Context, _ sandboxtest.Command) int { <-ctx.Done(); return 9 }
	tests := []struct {
		name   string
		main   func(context.Context, sandboxtest.Command) int
		change func(*sandbox.Spec)
		cause  sandbox.Cause
		code   int
	}{
		{"exits with 0 by itself", nil, func(*sandbox.Spec) {}, sandbox.CauseExit, 0},
		{"exits with a code", func(context.Context, sandboxtest.Command) int { return 3 }, func(*sandbox.Spec) {},
			sandbox.CauseExit, 3},
		{"times out", wait, func(s *sandbox.Spec) { s.Limits.Wall = haft.Millis(time.Millisecond) },
			sandbox.CauseTimeout, 0},
		{"times out after begin", wait, func(s *sandbox.Spec) {
			s.Begin, s.Limits.Wall = closed,
				haft.Millis(time.Millisecond)
		}, sandbox.CauseTimeout, 0},
		{"finishes before begin", wait, func(s *sandbox.Spec) {
			s.Begin, s.Finish, s.Limits.Wall = make(chan struct{}), closed, haft.Millis(time.Nanosecond)
		}, sandbox.CauseFinished, 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			f := &sandboxtest.Fake{Main: tt.main}
			ended := 0
			spec := sandbox.Spec{Argv: []string{"/bin/true"}, Ended: func(sandbox.Exit) { ended++ }}
			tt.change(&spec)
			exit, err := f.Run(t.Context(), spec)
			if err != nil || exit.Cause != tt.cause || exit.Code != tt.code || ended != 1 || len(f.Specs()) != 1 {
				t.Errorf("Run = %+v, %v with %d ends, want %q and %d", exit, err, ended, tt.cause, tt.code)
			}
		})
	}
}

func TestFake_speaks(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	f := &sandboxtest.Fake{Main: func(_ context.Context, c sandboxtest.Command) int {
		in, _ := io.ReadAll(c.Stdin)
		fmt.Fprintf(c.Stdout, "out %s", in)
		fmt.Fprint(c.Stderr, "err")
		fmt.Fprint(c.Channel, "three")
		return 0
	}}
	var out, errs bytes.Buffer
	_, err = f.Run(t.Context(), sandbox.Spec{Argv: []string{"/x"}, Stdin: strings.NewReader("in"), Stdout: &out,
		Stderr: &errs, Channel: w})
	got, readErr := io.ReadAll(r)
	if err != nil || readErr != nil || out.String() != "out in" || errs.String() != "err" || string(got) != "three" {
		t.Errorf("Run: %v, %v; got %q, %q, %q", err, readErr, out.String(), errs.String(), got)
	}
}

func TestFake_refuses(t *testing.T) {
	f := &sandboxtest.Fake{}
	if _, err := f.Run(t.Context(), sandbox.Spec{}); haft.CodeOf(err) != haft.CodeInvalid {
		t.Errorf("an empty spec gives %v", err)
	}
	need := sandbox.Need{Level: haft.LevelNamespaces}
	if _, err := f.Run(t.Context(), sandbox.Spec{Argv: []string{"/x"}, Need: need}); haft.CodeOf(
		err) != haft.CodeDenied {
		t.Errorf("a need gives %v", err)
	}
}

// quiet is a TB that notes how a test ended.
type quiet struct {
	testing.TB
	how string
}

func (q *quiet) Helper()               {}
func (q *quiet) Skipf(string, ...any)  { q.how = "skipped" }
func (q *quiet) Fatalf(string, ...any) { q.how = "failed"; panic(q) }

func TestRequire(t *testing.T) {
	for list, want := range map[string]string{"": "skipped", "sandbox": "failed", "python, sandbox": "failed",
		"sandboxes": "skipped"} {
		t.Run(list, func(t *testing.T) {
			t.Setenv("HAFT_REQUIRE", list)
			q := &quiet{}
			func() {
				defer func() { _ = recover() }()
				sandboxtest.Require(q, "sandbox", "no kernel")
			}()
			if q.how != want {
				t.Errorf("HAFT_REQUIRE=%q: %s, want %s", list, q.how, want)
			}
		})
	}
}
