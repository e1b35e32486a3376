package layer_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"haft"
	"haft/internal/layer"
	"haft/sandbox/local"
)

func TestMain(m *testing.M) {
	local.Init()
	if dir := os.Getenv("HAFT_LAYER_TEST_DIR"); dir != "" {
		child(dir, os.Getenv("HAFT_LAYER_TEST_MODE"))
		return
	}
	goleak.VerifyTestMain(m)
}

// tempDir is one that can be removed though what is in it is read-only.
func tempDir(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	t.Cleanup(func() {
		err := filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
			if err == nil && d.IsDir() {
				return os.Chmod(name, 0o700)
			}
			return nil
		})
		if err != nil {
			t.Errorf("make all of %s removable: %v", dir, err)
		}
	})
	return dir
}

func want(lock string) layer.Want {
	return layer.Want{Kind: "pip", Runtime: "cpython 3.11", Lock: []byte(lock)}
}

func open(t *testing.T, dir string, cfg layer.Config) *layer.Store {
	t.Helper()
	cfg.Dir = dir
	s, err := layer.Open(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

// files returns a build that writes files, and a count of how often it ran.
func files(list map[string]string) (layer.Build, *atomic.Int32) {
	var n atomic.Int32
	return func(_ context.Context, dir string, progress func(string)) error {
		n.Add(1)
		progress("writing")
		for name, text := range list {
			p := filepath.Join(dir, name)
			if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
				return err
			}
			mode := fs.FileMode(0o644)
			if strings.HasPrefix(name, "bin/") {
				mode = 0o755
			}
			if err := os.WriteFile(p, []byte(text), mode); err != nil {
				return err
			}
		}
		return nil
	}, &n
}

func TestStore_builds_once_for_fifty_callers(t *testing.T) {
	s := open(t, tempDir(t), layer.Config{})
	build, built := files(map[string]string{"a/b.py": "x = 1\n", "bin/run": "#!/bin/sh\n"})
	release := make(chan struct{})
	slow := func(ctx context.Context, dir string, progress func(string)) error {
		<-release
		return build(ctx, dir, progress)
	}
	var wg sync.WaitGroup
	var reported atomic.Int32
	for range 50 {
		wg.Go(func() {
			w := want("numpy==1")
			w.Progress = func(string) { reported.Add(1) }
			l, err := s.Layer(t.Context(), w, slow)
			if err != nil {
				t.Error(err)
				return
			}
			defer l.Close()
			if text, err := os.ReadFile(filepath.Join(l.Dir, "a/b.py")); err != nil || string(text) != "x = 1\n" {
				t.Errorf("%q, %v", text, err)
			}
		})
	}
	close(release)
	wg.Wait()
	if built.Load() != 1 {
		t.Errorf("it was built %d times", built.Load())
	}
	if reported.Load() == 0 {
		t.Error("no progress was reported")
	}
	l, err := s.Layer(t.Context(), want("numpy==1"), nil)
	if err != nil {
		t.Fatal(err)
	}
	for name, mode := range map[string]fs.FileMode{"a": 0o555 | fs.ModeDir, "a/b.py": 0o444, "bin/run": 0o555,
		".": 0o555 | fs.ModeDir} {
		if st, err := os.Lstat(filepath.Join(l.Dir, name)); err != nil || st.Mode() != mode {
			t.Errorf("%s has mode %v, %v; want %v", name, st.Mode(), err, mode)
		}
	}
	l.Close()
	l.Close()
}

func TestStore_build_goes_on_while_anybody_waits(t *testing.T) {
	s := open(t, tempDir(t), layer.Config{})
	building, finish := make(chan struct{}), make(chan struct{})
	build := func(ctx context.Context, dir string, _ func(string)) error {
		close(building)
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-finish:
			return nil
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	first := make(chan error, 1)
	go func() {
		_, err := s.Layer(ctx, want("x"), build)
		first <- err
	}()
	<-building
	second := make(chan error, 1)
	joined := make(chan struct{})
	go func() {
		w := want("x")
		w.Progress = func(string) {}
		close(joined)
		l, err := s.Layer(t.Context(), w, func(context.Context, string,
			func(string)) error {
			return errors.New("built twice")
		})
		if err == nil {
			l.Close()
		}
		second <- err
	}()
	<-joined
	// The second has joined when a third, cancelled at once, cannot end the build.
	for range 100 {
		gone, stop := context.WithCancel(t.Context())
		stop()
		_, _ = s.Layer(gone, want("x"), build)
	}
	waitFor(t, func() bool { return s.WaitersOf(want("x").Digest()) == 2 })
	cancel()
	if err := <-first; !errors.Is(err, context.Canceled) {
		t.Errorf("the first got %v", err)
	}
	close(finish)
	if err := <-second; err != nil {
		t.Errorf("the second got %v", err)
	}
}

func TestStore_build_ends_when_nobody_waits(t *testing.T) {
	dir := tempDir(t)
	s := open(t, dir, layer.Config{})
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	_, err := s.Layer(ctx, want("x"), func(ctx context.Context, _ string, _ func(string)) error {
		cancel()
		<-ctx.Done()
		ended <- context.Cause(ctx)
		return context.Cause(ctx)
	})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	if <-ended == nil {
		t.Error("the build was not asked to end")
	}
	build, _ := files(map[string]string{"a": "a"})
	l, err := s.Layer(t.Context(), want("x"), build)
	if err != nil {
		t.Fatalf("after a build that was given up: %v", err)
	}
	l.Close()
	empty(t, dir, "tmp")
}

func empty(t *testing.T, dir, name string) {
	t.Helper()
	entries, err := os.ReadDir(filepath.Join(dir, name))
	if err != nil || len(entries) > 0 {
		t.Errorf("%s holds %v, %v", name, entries, err)
	}
}

func waitFor(t *testing.T, cond func() bool) {
	t.Helper()
	for end := time.Now().Add(time.Minute); !cond(); {
		if time.Now().After(end) {
			t.Fatal("it does not come about")
		}
		time.Sleep(time.Millisecond) //nolint:forbidigo // polls a state that tells nobody when it changes
	}
}

func TestStore_failed_build_leaves_nothing(t *testing.T) {
	dir := tempDir(t)
	s := open(t, dir, layer.Config{})
	boom := errors.New("boom")
	for range 2 {
		_, err := s.Layer(t.Context(), want("x"), func(_ context.Context, dir string, _ func(string)) error {
			return errors.Join(os.WriteFile(filepath.Join(dir, "half"), nil, 0o644), boom)
		})
		if !errors.Is(err, boom) {
			t.Errorf("got %v", err)
		}
	}
	for _, name := range []string{"tmp", "layers", "locks"} {
		empty(t, dir, name)
	}
}

func TestStore_damage_is_found_and_repaired(t *testing.T) {
	build, built := files(map[string]string{"a/b.py": "x = 1\n", "c": "c"})
	for name, harm := range map[string]func(dir string) error{
		"content": func(d string) error { return rewrite(filepath.Join(d, "files/a/b.py"), "x = 2\n") },
		"size":    func(d string) error { return rewrite(filepath.Join(d, "files/a/b.py"), "import os") },
		"mode":    func(d string) error { return os.Chmod(filepath.Join(d, "files/c"), 0o666) },
		"setuid":  func(d string) error { return os.Chmod(filepath.Join(d, "files/c"), 0o444|fs.ModeSetuid) },
		"removed": func(d string) error {
			return change(filepath.Join(d, "files"), func(p string) error { return os.Remove(p + "/c") })
		},
		"added": func(d string) error {
			return change(filepath.Join(d, "files/a"),
				func(p string) error { return os.WriteFile(p+"/evil.py", nil, 0o444) })
		},
		"link": func(d string) error {
			return change(filepath.Join(d, "files"),
				func(p string) error { return errors.Join(os.Remove(p+"/c"), os.Symlink("/etc/passwd", p+"/c")) })
		},
		"info": func(d string) error { return rewrite(filepath.Join(d, "info.json"), "{}") },
		"no info": func(d string) error {
			return change(d,
				func(p string) error { return os.Remove(p + "/info.json") })
		},
		"manifest": func(d string) error { return rewrite(filepath.Join(d, "manifest.jsonl"), "") },
		"lock":     func(d string) error { return rewrite(filepath.Join(d, "lock"), "other") },
		"everything": func(d string) error {
			return change(d, func(p string) error { return os.Rename(p+"/files", p+"/elsewhere") })
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := tempDir(t)
			s := open(t, dir, layer.Config{})
			l, err := s.Layer(t.Context(), want("x"), build)
			if err != nil {
				t.Fatal(err)
			}
			digest := l.Info.Digest
			l.Close()
			if err := s.Verify(t.Context(), digest); err != nil {
				t.Fatalf("whole: %v", err)
			}
			if err := harm(filepath.Join(dir, "layers", digest)); err != nil {
				t.Fatal(err)
			}
			if err := s.Verify(t.Context(), digest); haft.CodeOf(err) != haft.CodeConflict {
				t.Errorf("Verify says %v", err)
			}
			before := built.Load()
			fresh := open(t, dir, layer.Config{}) // as another process would
			l, err = fresh.Layer(t.Context(), want("x"), build)
			if err != nil {
				t.Fatal(err)
			}
			defer l.Close()
			if built.Load() != before+1 {
				t.Error("it was not built anew")
			}
			if err := fresh.Verify(t.Context(), digest); err != nil {
				t.Errorf("after that: %v", err)
			}
		})
	}
}

func rewrite(name, text string) error {
	return errors.Join(os.Chmod(name, 0o644), os.WriteFile(name, []byte(text), 0o644), os.Chmod(name, 0o444))
}

func change(dir string, do func(string) error) error {
	err := errors.Join(os.Chmod(dir, 0o755), do(dir))
	return errors.Join(err, os.Chmod(dir, 0o555))
}

func TestStore_refuses_what_cannot_be_kept(t *testing.T) {
	for name, tt := range map[string]struct {
		make func(dir string) error
		says string
	}{
		"a link out": {func(d string) error { return os.Symlink("../../x", filepath.Join(d, "l")) },
			"link that leads out"},
		"an absolute link": {func(d string) error { return os.Symlink("/etc/passwd", filepath.Join(d, "l")) },
			"link that leads out"},
		"a link by a link": {func(d string) error { return os.Symlink("s/../x", filepath.Join(d, "l")) },
			"link that leads out"},
		"a pipe": {func(d string) error { return syscall.Mkfifo(filepath.Join(d, "p"), 0o644) },
			"neither a file"},
		"a name that is noise": {func(d string) error { return os.WriteFile(filepath.Join(d, "a\nb"), nil, 0o644) },
			"name is not plain"},
		"too much": {func(d string) error {
			return os.WriteFile(filepath.Join(d, "a"), make([]byte, 2<<20),
				0o644)
		}, "more than 1 MiB"},
		"too many": {func(d string) error {
			for i := range 30 {
				if err := os.Mkdir(filepath.Join(d, fmt.Sprint(i)), 0o755); err != nil {
					return err
				}
			}
			return nil
		}, "more than 20 files"},
		"a full disk": {func(string) error { return fmt.Errorf("write: %w", syscall.ENOSPC) },
			"the disk that holds installed packages is full"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := tempDir(t)
			s := open(t, dir, layer.Config{MaxBytes: 1 << 20, MaxFiles: 20})
			_, err := s.Layer(t.Context(), want("x"),
				func(_ context.Context, dir string, _ func(string)) error { return tt.make(dir) })
			if !strings.Contains(haft.MessageOf(err), tt.says) {
				t.Errorf("got %v, want %q", err, tt.says)
			}
			empty(t, dir, "tmp")
			empty(t, dir, "layers")
		})
	}
}

func TestStore_keeps_links_and_parts_hard_links(t *testing.T) {
	s := open(t, tempDir(t), layer.Config{})
	outside := filepath.Join(tempDir(t), "cache")
	if err := os.WriteFile(outside, []byte("shared"), 0o644); err != nil {
		t.Fatal(err)
	}
	l, err := s.Layer(t.Context(), want("x"), func(_ context.Context, dir string, _ func(string)) error {
		return errors.Join(os.Mkdir(filepath.Join(dir, ".bin"), 0o755),
			os.Symlink("../tool.js", filepath.Join(dir, ".bin/tool")),
			os.WriteFile(filepath.Join(dir, "tool.js"), []byte("x"), 0o4755),
			os.Link(outside, filepath.Join(dir, "linked")))
	})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if text, err := os.ReadFile(filepath.Join(l.Dir, ".bin/tool")); err != nil || string(text) != "x" {
		t.Errorf("through the link: %q, %v", text, err)
	}
	if err := os.WriteFile(outside, []byte("changed"), 0o644); err != nil {
		t.Errorf("the mode of a file outside was changed: %v", err)
	}
	if text, _ := os.ReadFile(filepath.Join(l.Dir, "linked")); string(text) != "shared" {
		t.Errorf("a file outside is a file of the layer: %q", text)
	}
	if err := s.Verify(t.Context(), l.Info.Digest); err != nil {
		t.Error(err)
	}
}

func TestStore_unknown_files_and_permissions(t *testing.T) {
	file := filepath.Join(tempDir(t), "file")
	if err := os.WriteFile(file, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := layer.Open(layer.Config{Dir: file}); err == nil {
		t.Error("a file is no store")
	}
	if _, err := layer.Open(layer.Config{}); haft.CodeOf(err) != haft.CodeInvalid {
		t.Errorf("no directory: %v", err)
	}
	dir := tempDir(t)
	s := open(t, dir, layer.Config{})
	os.WriteFile(filepath.Join(dir, "tmp", "notes"), nil, 0o644)
	open(t, dir, layer.Config{})
	if _, err := os.Stat(filepath.Join(dir, "tmp", "notes")); err != nil {
		t.Error("a file that is not ours was removed")
	}
	if err := s.Verify(t.Context(), "../../etc"); haft.CodeOf(err) != haft.CodeNotFound {
		t.Errorf("Verify of a path: %v", err)
	}
	if err := s.Verify(t.Context(), want("none").Digest()); haft.CodeOf(err) != haft.CodeNotFound {
		t.Errorf("Verify of nothing: %v", err)
	}
	if err := s.Remove(t.Context(), want("none").Digest()); haft.CodeOf(err) != haft.CodeNotFound {
		t.Errorf("Remove of nothing: %v", err)
	}
	empty(t, dir, "locks")
	s.Close()
	if _, err := s.Layer(t.Context(), want("x"), nil); haft.CodeOf(err) != haft.CodeUnavailable {
		t.Errorf("after Close: %v", err)
	}
}

func TestStore_hammer(t *testing.T) {
	s := open(t, tempDir(t), layer.Config{Quick: true})
	build, _ := files(map[string]string{"a": "a", "b/c": "c"})
	var wg sync.WaitGroup
	for g := range 8 {
		wg.Go(func() {
			for i := range 40 {
				ctx, cancel := context.WithCancel(t.Context())
				if (g+i)%7 == 0 {
					cancel()
				}
				l, err := s.Layer(ctx, want(fmt.Sprint(i%3)), build)
				if err != nil && !errors.Is(err, context.Canceled) && haft.CodeOf(err) != haft.CodeUnavailable {
					t.Errorf("Layer: %v", err)
				}
				if err == nil {
					if _, err := os.ReadFile(filepath.Join(l.Dir, "b/c")); err != nil {
						t.Errorf("a layer in use is not whole: %v", err)
					}
					l.Close()
				}
				if g == 0 {
					if _, err := s.GC(t.Context(), 0, 0); err != nil {
						t.Errorf("GC: %v", err)
					}
				}
				cancel()
			}
		})
	}
	wg.Wait()
}

func TestWant_Digest_distinguishes_parts(t *testing.T) {
	a := layer.Want{Kind: "pip", Runtime: "ab", Lock: []byte("c")}
	b := layer.Want{Kind: "pip", Runtime: "a", Lock: []byte("bc")}
	if a.Digest() == b.Digest() {
		t.Error("the digest runs parts together")
	}
}
