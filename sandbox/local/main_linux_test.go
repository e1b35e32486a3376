package local_test

import (
	"bytes"
	"context"
	"os"
	"strings"
	"testing"

	"haft/sandbox"
	"haft/sandbox/local"
)

func TestMain(m *testing.M) {
	local.Init()
	os.Exit(m.Run())
}

// open gives a provider that is closed with the test.
func open(t testing.TB, config local.Config) *local.Provider {
	t.Helper()
	if config.Dir == "" {
		config.Dir = t.TempDir()
	}
	p, err := local.Open(context.Background(), config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	})
	return p
}

// system are the mounts that most programs need.
func system() []sandbox.Mount {
	var ms []sandbox.Mount
	for _, dir := range []string{"/usr", "/bin", "/sbin", "/lib", "/lib64"} {
		if _, err := os.Lstat(dir); err == nil {
			ms = append(ms, sandbox.Mount{Host: dir, Inside: dir})
		}
	}
	return ms
}

// sh runs a shell script and returns what it wrote.
func sh(t testing.TB, p sandbox.Provider, script string, change ...func(*sandbox.Spec)) (sandbox.Exit, string) {
	t.Helper()
	var out bytes.Buffer
	spec := sandbox.Spec{
		Argv: []string{"/bin/bash", "-c", script}, Mounts: system(), Stdout: &out, Stderr: &out,
		Env: []string{"PATH=/usr/bin:/bin", "HOME=/work"},
	}
	for _, c := range change {
		c(&spec)
	}
	exit, err := p.Run(t.Context(), spec)
	if err != nil {
		t.Fatalf("run %q: %v", script, err)
	}
	return exit, out.String()
}

func TestSmoke(t *testing.T) {
	p := open(t, local.Config{})
	e, out := sh(t, p, os.Getenv("SCRIPT"))
	t.Logf("%+v\n%s", e, strings.TrimSpace(out))
}
