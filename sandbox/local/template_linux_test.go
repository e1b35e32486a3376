package local_test

import (
	"bytes"
	"os"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"haft/sandbox"
	"haft/sandbox/local"
)

// python is a spec for templates.
func python() sandbox.Spec {
	return sandbox.Spec{Argv: []string{"/usr/bin/python3", "-I", "-S"}, Mounts: system(), Env: []string{"LANG=C.UTF-8"}}
}

// template starts a template that is closed with the test.
func template(t testing.TB, p *local.Provider, boot string) sandbox.Template {
	t.Helper()
	tpl, err := p.Template(t.Context(), python(), boot)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := tpl.Close(); err != nil {
			t.Error(err)
		}
	})
	return tpl
}

func TestTSmoke(t *testing.T) {
	p := open(t, local.Config{})
	tpl := template(t, p, "import os, sys, time, random\ndef main(fd):\n    exec(os.environ.get('X') or SCRIPT)\nSCRIPT='''"+os.Getenv("SCRIPT")+"'''")
	for range 3 {
		var out bytes.Buffer
		s := time.Now()
		e, err := tpl.Run(t.Context(), sandbox.Spec{Stdout: &out, Stderr: &out})
		t.Log(time.Since(s))
		if err != nil {
			t.Fatal(err)
		}
		t.Logf("%+v\n%s", e, strings.TrimSpace(out.String()))
	}
}

// parked starts a run that waits, and returns the channel and what ends it.
func BenchmarkTemplate(b *testing.B) {
	p := open(b, local.Config{})
	tpl := template(b, p, "import os\ndef main(fd):\n    os.write(fd, b'x'); os.read(fd, 1)\n")
	for b.Loop() {
		fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
		if err != nil {
			b.Fatal(err)
		}
		ours, theirs := os.NewFile(uintptr(fds[0]), "a"), os.NewFile(uintptr(fds[1]), "b")
		finish := make(chan struct{})
		done := make(chan error, 1)
		go func() {
			_, err := tpl.Run(b.Context(), sandbox.Spec{Channel: theirs, Finish: finish})
			done <- err
		}()
		if _, err := ours.Read(make([]byte, 1)); err != nil {
			b.Fatal(err, <-done)
		}
		close(finish)
		if err := <-done; err != nil {
			b.Fatal(err)
		}
		ours.Close()
	}
}
