package layer_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"haft"
	"haft/internal/layer"
	"haft/sandbox/sandboxtest"
)

func TestStore_full_disk(t *testing.T) {
	dir := t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=1m"); err != nil {
		sandboxtest.Require(t, "mount", "a file system of its own cannot be mounted (root can): "+err.Error())
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(dir, syscall.MNT_DETACH); err != nil {
			t.Errorf("unmount: %v", err)
		}
	})
	s := open(t, dir, layer.Config{})
	big, built := files(map[string]string{"a": strings.Repeat("a", 3<<20)})
	if _, err := s.Layer(t.Context(), want("big"), big); haft.CodeOf(err) != haft.CodeUnavailable ||
		!strings.Contains(haft.MessageOf(err), "is full") {
		t.Errorf("got %v", err)
	}
	empty(t, dir, "tmp")
	small, _ := files(map[string]string{"a": "a"})
	l, err := s.Layer(t.Context(), want("small"), small)
	if err != nil || built.Load() != 1 {
		t.Fatalf("with space again: %v", err)
	}
	l.Close()
}

func TestStore_build_that_grows_is_stopped(t *testing.T) {
	dir := tempDir(t)
	synctest.Test(t, func(t *testing.T) {
		s, err := layer.Open(layer.Config{Dir: dir, MaxBytes: 1 << 20})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		began := time.Now()
		_, err = s.Layer(t.Context(), want("x"), func(ctx context.Context, dir string, _ func(string)) error {
			if err := os.WriteFile(filepath.Join(dir, "a"), make([]byte, 2<<20), 0o644); err != nil {
				return err
			}
			<-ctx.Done() // an installer that goes on for ever
			return context.Cause(ctx)
		})
		if !strings.Contains(haft.MessageOf(err), "more than 1 MiB") || time.Since(began) > 90*time.Second {
			t.Errorf("got %v after %s", err, time.Since(began))
		}
	})
}
