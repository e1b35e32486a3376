package layer_test

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"haft"
	"haft/internal/layer"
	"haft/sandbox"
)

// Code of packages can leave anything where an installer leaves its reports. None of it is
// followed, waited for or read without end, and nothing of the host comes back.
func TestInstaller_follows_nothing_that_build_code_leaves(t *testing.T) {
	const secret = "secret-of-the-host"
	outside := filepath.Join(t.TempDir(), "secret")
	traps := map[string]func(name string) error{
		"link":      func(name string) error { return os.Symlink(outside, name) },
		"pipe":      func(name string) error { return syscall.Mkfifo(name, 0o666) },
		"directory": func(name string) error { return os.Mkdir(name, 0o755) },
		"endless": func(name string) error {
			return errors.Join(os.WriteFile(name, nil, 0o644), os.Truncate(name, 1<<40))
		},
		"link to a device": func(name string) error { return os.Symlink("/dev/zero", name) },
	}
	hash := strings.Repeat("0", 64)
	places := []struct {
		file, kind string
		// holds is what a file of the host holds that would be taken for one of the installer's.
		holds     string
		uv, fails bool
	}{
		{file: "report.json", kind: "pip", holds: `{"install":[{"metadata":{"name":"` + secret + `","version":"1"},` +
			`"download_info":{"archive_info":{"hashes":{"sha256":"` + hash + `"}}}}]}`},
		{file: "pip.log", kind: "pip", fails: true,
			holds: "Could not fetch URL " + secret + ": error: subprocess-exited-with-error"},
		{file: "lock.txt", kind: "pip", uv: true, holds: secret + "==1 --hash=sha256:" + hash + "\n"},
		{file: "project/package-lock.json", kind: "npm",
			holds: `{"lockfileVersion":3,"packages":{"node_modules/` + secret +
				`":{"version":"1.0.0","integrity":"sha512-AAAA"}}}`},
	}
	for _, place := range places {
		for trap, lay := range traps {
			t.Run(place.file+" is a "+trap, func(t *testing.T) {
				if err := os.WriteFile(outside, []byte(place.holds), 0o600); err != nil {
					t.Fatal(err)
				}
				s := open(t, t.TempDir(), layer.Config{})
				in := &layer.Installer{Scratch: s.Scratch, Python: "/usr/bin/python3", NPM: []string{"/usr/bin/npm"},
					Source: true, Inside: "/build",
					Run: func(_ context.Context, c layer.Command) (sandbox.Exit, error) {
						name := filepath.Join(c.Mounts[0].Host, place.file)
						_ = os.Remove(name)
						exit := sandbox.Exit{Cause: sandbox.CauseExit}
						if place.fails {
							exit.Code = 1
						}
						return exit, lay(name)
					}}
				if place.uv {
					in.UV = "/usr/bin/uv"
				}
				done := make(chan error, 1)
				go func() {
					_, err := in.Resolve(t.Context(), place.kind, needs(t, []string{"thing"}, []string{"thing"}), nil)
					done <- err
				}()
				select {
				case err := <-done:
					if err == nil || strings.Contains(err.Error(), secret) ||
						strings.Contains(haft.MessageOf(err), secret) {
						t.Errorf("Resolve = %v", err)
					}
				case <-time.After(3 * time.Minute):
					t.Fatal("it hangs")
				}
			})
		}
	}
}

// What build code leaves in its temporary directory is bounded while it runs.
func TestInstaller_bounds_scratch(t *testing.T) {
	for name, fill := range map[string]func(dir string) error{
		"bytes": func(dir string) error {
			return os.WriteFile(filepath.Join(dir, "tmp", "a"), make([]byte, 3<<20), 0o644)
		},
		"files": func(dir string) error {
			var err error
			for i := range 300 {
				err = errors.Join(err, os.Mkdir(filepath.Join(dir, "tmp", string(rune('a'+i))), 0o755))
			}
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			synctest.Test(t, func(t *testing.T) {
				in := &layer.Installer{Python: "/usr/bin/python3", Inside: "/build",
					Limits:  haft.Limits{Disk: 2 << 20, Inodes: 200},
					Scratch: func() (string, func(), error) { return dir, func() {}, nil },
					Run: func(ctx context.Context, c layer.Command) (sandbox.Exit, error) {
						if err := fill(c.Mounts[0].Host); err != nil {
							return sandbox.Exit{}, err
						}
						<-ctx.Done()
						return sandbox.Exit{Cause: sandbox.CauseCancelled}, nil
					}}
				_, err := in.Resolve(t.Context(), "pip", needs(t, []string{"thing"}, nil), nil)
				if haft.CodeOf(err) != haft.CodeInvalid ||
					!strings.Contains(haft.MessageOf(err), "temporary directory") {
					t.Errorf("Resolve = %v", err)
				}
			})
		})
	}
}

// Only scratch.go works in the directories that code of packages can write to.
func TestScratch_is_touched_in_one_place(t *testing.T) {
	touch := regexp.MustCompile(`\b(os|filepath|ioutil|unix|syscall)\.[A-Z]\w*\([^\n]*\b(st\.scratch|st\.files)\b`)
	err := fs.WalkDir(os.DirFS(".."), ".", func(name string, d fs.DirEntry, err error) error {
		dir := filepath.Dir(name)
		if err != nil || d.IsDir() || dir != "layer" && dir != "supply" || !strings.HasSuffix(name, ".go") ||
			strings.HasSuffix(name, "_test.go") ||
			name == "layer/scratch.go" {
			if d != nil && d.IsDir() && name != "." && name != "layer" && name != "supply" {
				return fs.SkipDir
			}
			return err
		}
		text, err := os.ReadFile(filepath.Join("..", name))
		if err != nil {
			return err
		}
		for _, m := range touch.FindAllString(string(text), -1) {
			t.Errorf("%s has %s: use a method of scratch", name, m)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}
