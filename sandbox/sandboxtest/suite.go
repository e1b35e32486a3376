package sandboxtest

import (
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"haft/sandbox"
)

// Run runs the conformance suite against the provider that open returns, one subtest a case. Cases
// that measure time run one by one, the others side by side. At the end nothing
// may be left: no descriptor of ours, and no file in the directory for temporary
// files, which is a fresh one for the whole test; so the test itself cannot be
// parallel to others.
func Run(t *testing.T, open func(t *testing.T) sandbox.Provider) {
	t.Helper()
	run(t, open, Cases())
}

// RunSome runs the cases that keep picks, for what has no other promise to make: a session is as
// confined as a run, but is no provider.
func RunSome(t *testing.T, open func(t *testing.T) sandbox.Provider, keep func(Case) bool) {
	t.Helper()
	run(t, open, slices.DeleteFunc(Cases(), func(c Case) bool { return !keep(c) }))
}

// run runs some cases against a provider.
func run(t *testing.T, open func(t *testing.T) sandbox.Provider, cases []Case) {
	t.Helper()
	tmp := openTemp(t)
	t.Setenv("TMPDIR", tmp)
	b, err := openBench(t.Context(), open(t))
	if err != nil {
		t.Fatal(err)
	}
	sum := &summary{cases: map[string]Verdict{}}
	t.Cleanup(func() {
		if err := b.host.close(); err != nil {
			t.Errorf("clean the host: %v", err)
		}
		t.Log(sum)
		for line := range strings.Lines(b.figures.String()) {
			t.Log("conformance: " + strings.TrimSpace(line))
		}
		if err := sum.write(t.Name(), b.iso, len(cases)); err != nil {
			t.Error(err)
		}
	})
	b.Run(t.Context(), sh("exit 0"), nil) // what a provider allocates once is allocated now
	t.Cleanup(nothingLeft(t, tmp))
	slices.SortStableFunc(cases, func(x, y Case) int { return order(x) - order(y) })
	for _, c := range cases {
		t.Run(c.Name, func(t *testing.T) {
			if order(c) > 0 {
				t.Parallel()
			}
			verdict, err := b.judge(t.Context(), c)
			sum.add(c.Name, verdict)
			switch verdict {
			case Broken:
				t.Errorf("BROKEN: %s\n\t%v", c.Story, err)
			case Skipped:
				Require(t, "python", err.Error())
			case Stated:
				t.Logf("stated: %v", err)
			}
		})
	}
}

// openTemp makes a directory that other users can pass through, as they can
// through the system's. That of t.TempDir is for its owner alone.
func openTemp(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "haft-case-")
	if err == nil {
		err = os.Chmod(dir, 0o755)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	return dir
}

// order puts cases that run alone first.
func order(c Case) int {
	if c.Alone || c.Timed {
		return 0
	}
	return 1
}

// nothingLeft remembers what is there and returns a check that it is all there
// is. A provider may take a moment to let go of what Run has returned from.
func nothingLeft(t *testing.T, tmp string) func() {
	t.Helper()
	fds, err := openDescriptors()
	if err != nil {
		t.Fatal(err)
	}
	files := listing(tmp)
	return func() {
		deadline := time.Now().Add(2 * time.Second)
		for {
			now, err := openDescriptors()
			if err != nil {
				t.Error(err)
				return
			}
			// The listeners of the host may have had their first poll since.
			fdsOK, filesOK := now <= fds+2, listing(tmp) == files
			if fdsOK && filesOK {
				return
			}
			if time.Now().After(deadline) {
				if !fdsOK {
					t.Errorf("%d descriptors were open before all runs, %d are after", fds, now)
				}
				if !filesOK {
					t.Errorf("temporary files before all runs:\n%s\nafter:\n%s", files, listing(tmp))
				}
				return
			}
			time.Sleep(20 * time.Millisecond) //nolint:forbidigo // there is no event for "it is gone"
		}
	}
}

// listing names what is in a directory.
func listing(dir string) string {
	list, err := os.ReadDir(dir)
	if err != nil {
		return err.Error()
	}
	var names []string
	for _, d := range list {
		names = append(names, d.Name())
	}
	return strings.Join(names, "\n")
}
