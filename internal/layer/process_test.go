package layer_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"haft"
	"haft/internal/layer"
)

// child is another process that uses the store of a test.
func child(dir, mode string) {
	s, err := layer.Open(layer.Config{Dir: dir})
	if err != nil {
		fmt.Println("error:", err)
		os.Exit(1)
	}
	l, err := s.Layer(context.Background(), want("shared"),
		func(_ context.Context, files string, _ func(string)) error {
			if err := os.WriteFile(filepath.Join(files, "half"), []byte("half"), 0o644); err != nil {
				return err
			}
			if mode == "hang" {
				fmt.Println("building")
				select {}
			}
			f, err := os.OpenFile(filepath.Join(dir, "builds"), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
			if err != nil {
				return err
			}
			defer f.Close()
			_, err = fmt.Fprintln(f, "built")
			return err
		})
	if err != nil {
		fmt.Println("error:", err)
		os.Exit(1)
	}
	fmt.Println("have", filepath.Base(filepath.Dir(l.Dir)))
	if mode == "hold" {
		var b [1]byte
		_, _ = os.Stdin.Read(b[:]) // until the parent lets go
	}
	l.Close()
	s.Close()
}

func start(t *testing.T, dir, mode string) (*exec.Cmd, *os.File, *os.File) {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), "HAFT_LAYER_TEST_DIR="+dir, "HAFT_LAYER_TEST_MODE="+mode)
	outR, outW, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	inR, inW, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stdout, cmd.Stderr, cmd.Stdin = outW, os.Stderr, inR
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	outW.Close()
	inR.Close()
	t.Cleanup(func() {
		outR.Close()
		inW.Close()
		_ = cmd.Process.Kill() // it may be gone
		_ = cmd.Wait()
	})
	return cmd, outR, inW
}

func expect(t *testing.T, out *os.File, prefix string) {
	t.Helper()
	buf := make([]byte, 4096)
	n, err := out.Read(buf)
	if err != nil || !strings.HasPrefix(string(buf[:n]), prefix) {
		t.Fatalf("the other process said %q, %v; want %q", buf[:n], err, prefix)
	}
}

func TestStore_killed_in_the_middle(t *testing.T) {
	dir := tempDir(t)
	cmd, out, _ := start(t, dir, "hang")
	expect(t, out, "building")
	if entries, _ := os.ReadDir(filepath.Join(dir, "tmp")); len(entries) != 1 {
		t.Fatalf("the build is not under way: %v", entries)
	}
	// While it lives, its work is not touched, and others wait for it.
	s := open(t, dir, layer.Config{})
	if entries, _ := os.ReadDir(filepath.Join(dir, "tmp")); len(entries) != 1 {
		t.Fatal("another's build was removed")
	}
	short, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	build, built := files(map[string]string{"whole": "whole"})
	if _, err := s.Layer(short, want("shared"), build); !errors.Is(err, context.DeadlineExceeded) || built.Load() != 0 {
		t.Fatalf("beside another's build: %v, built %d times", err, built.Load())
	}

	if err := cmd.Process.Kill(); err != nil { // SIGKILL
		t.Fatal(err)
	}
	_ = cmd.Wait() // it was killed
	again := open(t, dir, layer.Config{})
	empty(t, dir, "tmp")
	empty(t, dir, "layers")
	l, err := again.Layer(t.Context(), want("shared"), build)
	if err != nil || built.Load() != 1 {
		t.Fatalf("after the crash: %v, built %d times", err, built.Load())
	}
	defer l.Close()
	if _, err := os.Stat(filepath.Join(l.Dir, "half")); err == nil {
		t.Error("the layer holds what the crash left")
	}
}

func TestStore_builds_once_among_processes(t *testing.T) {
	dir := tempDir(t)
	var outs []*os.File
	for range 5 {
		_, out, _ := start(t, dir, "")
		outs = append(outs, out)
	}
	for _, out := range outs {
		expect(t, out, "have "+want("shared").Digest())
	}
	text, err := os.ReadFile(filepath.Join(dir, "builds"))
	if err != nil || string(text) != "built\n" {
		t.Errorf("builds: %q, %v", text, err)
	}
}

func TestStore_GC_spares_what_is_in_use(t *testing.T) {
	dir := tempDir(t)
	s := open(t, dir, layer.Config{})
	_, out, in := start(t, dir, "hold")
	expect(t, out, "have")
	build, _ := files(map[string]string{"a": strings.Repeat("a", 1000)})
	var mine []*layer.Layer
	for i := range 4 {
		l, err := s.Layer(t.Context(), want(fmt.Sprint("lock ", i)), build)
		if err != nil {
			t.Fatal(err)
		}
		mine = append(mine, l)
	}
	swept, err := s.GC(t.Context(), 0, 0)
	if err != nil || len(swept.Removed) != 0 || swept.InUse != 5 {
		t.Fatalf("all are in use: %+v, %v", swept, err)
	}
	old := time.Now().Add(-time.Hour)
	for i, l := range mine[:3] {
		l.Close()
		when := old.Add(time.Duration(i) * time.Minute)
		if err := os.Chtimes(filepath.Join(dir, "locks", l.Info.Digest), when, when); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "layers", "notes.txt"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	// 4 × 1000 and 4 bytes: to have 3000 the oldest two must go.
	swept, err = s.GC(t.Context(), 3000, time.Minute)
	if err != nil || len(swept.Removed) != 2 || swept.Removed[0].Digest != mine[0].Info.Digest ||
		swept.Removed[1].Digest != mine[1].Info.Digest {
		t.Errorf("GC to 3000 bytes: %+v, %v", swept, err)
	}
	if len(swept.Unknown) != 1 || swept.Unknown[0] != "notes.txt" {
		t.Errorf("unknown: %v", swept.Unknown)
	}
	if swept, err = s.GC(t.Context(), 0, 24*time.Hour); err != nil || len(swept.Removed) != 0 {
		t.Errorf("GC of what is young: %+v, %v", swept, err)
	}
	if err := s.Remove(t.Context(), mine[3].Info.Digest); haft.CodeOf(err) != haft.CodeConflict {
		t.Errorf("Remove of what is in use: %v", err)
	}
	in.Close()
	mine[3].Close()
	waitFor(t, func() bool {
		swept, err = s.GC(t.Context(), 0, 0)
		list, _ := s.List(t.Context())
		return err == nil && len(list) == 0
	})
	empty(t, dir, "locks")
	empty(t, dir, "tmp")
}
