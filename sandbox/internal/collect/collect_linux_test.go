package collect_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"haft/sandbox/internal/collect"
)

// fill makes a directory work/out and fills it.
func fill(t *testing.T, make func(dir string) error) *os.File {
	t.Helper()
	root := t.TempDir()
	out := filepath.Join(root, "work", "out")
	if err := os.MkdirAll(out, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := make(out); err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(root)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.Close() })
	return f
}

func TestArtifacts(t *testing.T) {
	write := func(dir, name, data string) error {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o755); err != nil {
			return err
		}
		return os.WriteFile(filepath.Join(dir, name), []byte(data), 0o644)
	}
	tests := []struct {
		name  string
		make  func(dir string) error
		n     int
		size  int64
		files []string
		cuts  int
	}{
		{"nothing", func(string) error { return nil }, 9, 99, nil, 0},
		{"no directory", func(dir string) error { return os.Remove(dir) }, 9, 99, nil, 0},
		{"a file", func(dir string) error { return write(dir, "a", "x") }, 9, 99, []string{"a"}, 0},
		{"below", func(dir string) error { return write(dir, "d/e/a", "x") }, 9, 99, []string{"d/e/a"}, 0},
		{"link to a file of the host",
			func(dir string) error { return os.Symlink("/etc/passwd", filepath.Join(dir, "a")) }, 9, 99, nil, 1},
		{"link to a directory of the host",
			func(dir string) error { return os.Symlink("/etc", filepath.Join(dir, "a")) }, 9, 99, nil, 1},
		{"link to a neighbour", func(dir string) error {
			return joined(write(dir, "a", "x"), os.Symlink("a", filepath.Join(dir, "b")))
		}, 9, 99, []string{"a"}, 1},
		{"out is a link", func(dir string) error { return joined(os.Remove(dir), os.Symlink("/etc", dir)) }, 9, 99, nil,
			1},
		{"two names", func(dir string) error {
			return joined(write(dir, "a", "x"), os.Link(filepath.Join(dir, "a"), filepath.Join(dir, "b")))
		}, 9, 99, nil, 2},
		{"pipe", func(dir string) error { return unix.Mkfifo(filepath.Join(dir, "a"), 0o644) }, 9, 99, nil, 1},
		{"too many", func(dir string) error { return joined(write(dir, "a", "x"), write(dir, "b", "x")) }, 1, 99,
			[]string{"a"}, 1},
		{"too large", func(dir string) error { return joined(write(dir, "a", "xxx"), write(dir, "b", "x")) }, 9, 2,
			[]string{"b"}, 1},
		{"newline", func(dir string) error { return write(dir, "a\nb", "x") }, 9, 99, nil, 1},
		{"not UTF-8", func(dir string) error { return write(dir, "\xff", "x") }, 9, 99, nil, 1},
		{"turned around", func(dir string) error { return write(dir, "a\u202egpj.exe", "x") }, 9, 99, nil, 1},
		{"option", func(dir string) error { return write(dir, "-rf", "x") }, 9, 99, []string{"-rf"}, 0},
		{"outside of out", func(dir string) error {
			return joined(write(dir, "a", "x"), write(dir, "../b", "x"), write(dir, "../d/c", "x"))
		}, 9, 99, []string{"a", "b", "d/c"}, 0},
		{"given", func(dir string) error {
			return joined(write(dir, "../in", "x"), write(dir, "../data/in", "x"), write(dir, "../data/new", "x"),
				write(dir, "in", "x"))
		}, 9, 99, []string{"in", "data/new"}, 0},
		{"two of one name", func(dir string) error {
			return joined(write(dir, "a", "x"), write(dir, "../a", "y"))
		}, 9, 99, []string{"a"}, 1},
		{"home of programs", func(dir string) error {
			return joined(write(dir, "../.cache/a", "x"), write(dir, "../m/__pycache__/a", "x"),
				write(dir, "../node_modules/a/b", "x"), write(dir, ".kept", "x"))
		}, 9, 99, []string{".kept"}, 0},
		{"link outside of out",
			func(dir string) error { return os.Symlink("/etc/passwd", filepath.Join(dir, "../a")) }, 9, 99, nil, 1},
		{"hole", func(dir string) error {
			return joined(write(dir, "../a", "x"), os.Truncate(filepath.Join(dir, "../a"), 10<<30))
		}, 9, 99, nil, 1},
		{"too deep", func(dir string) error { return write(dir, strings.Repeat("d/", 30)+"a", "x") }, 9, 99, nil, 1},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, cuts := collect.Artifacts(fill(t, tt.make), "work", []string{"in", "data/in"}, tt.n, tt.size)
			var names []string
			for _, a := range got {
				names = append(names, a.Name)
			}
			if diff := cmp.Diff(tt.files, names); diff != "" || len(cuts) != tt.cuts {
				t.Errorf("-want +got:\n%s\ncuts %q, want %d", diff, cuts, tt.cuts)
			}
		})
	}
}

// joined returns the first error.
func joined(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// A name that changes between a file and a link to the host's, as fast as it can,
// is never followed.
func TestArtifacts_are_not_outrun(t *testing.T) {
	var dir string
	root := fill(t, func(d string) error { dir = d; return nil })
	secret := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(secret, []byte("sesame"), 0o644); err != nil {
		t.Fatal(err)
	}
	stop := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		for i := 0; ; i++ {
			select {
			case <-stop:
				return
			default:
			}
			tmp := filepath.Join(dir, fmt.Sprint(".", i))
			if i%2 == 0 {
				_ = os.Symlink(secret, tmp)
			} else {
				_ = os.WriteFile(tmp, []byte("mine"), 0o644)
			}
			_ = os.Rename(tmp, filepath.Join(dir, "a"))
		}
	})
	for range 3000 {
		files, _ := collect.Artifacts(root, "work", nil, 9, 999)
		for _, f := range files {
			if strings.Contains(string(f.Data), "sesame") {
				t.Fatal("a link was followed")
			}
		}
	}
	close(stop)
	wg.Wait()
}

// A tree of very many files is not walked to its end, and says so.
func TestArtifacts_walk_is_bounded(t *testing.T) {
	root := fill(t, func(dir string) error {
		for i := range 12000 {
			f, err := os.Create(filepath.Join(dir, "..", fmt.Sprint(i)))
			if err != nil {
				return err
			}
			_ = f.Close()
		}
		return nil
	})
	files, cuts := collect.Artifacts(root, "work", nil, 5, 99)
	if len(files) != 5 || len(cuts) != 101 || cuts[100] != "and more" {
		t.Errorf("%d files, %d cuts", len(files), len(cuts))
	}
}

// Any looks at what Artifacts would take, and no more.
func TestAny(t *testing.T) {
	for name, tt := range map[string]struct {
		file string
		want bool
	}{
		"nothing": {"", false}, "given": {"in", false}, "hidden": {".cache", false}, "left": {"a", true},
		"in out": {"out/.a", true}, "below": {"data", true},
	} {
		t.Run(name, func(t *testing.T) {
			root := fill(t, func(dir string) error {
				if tt.file == "" {
					return nil
				}
				return os.WriteFile(filepath.Join(dir, "..", tt.file), nil, 0o600)
			})
			if got := collect.Any(root, "work", []string{"in"}); got != tt.want {
				t.Errorf("Any is %v, want %v", got, tt.want)
			}
		})
	}
}
