//go:build linux

package app_test

import (
	"context"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"haft"
	"haft/app"
	"haft/auth"
)

// typescriptClient copies the TypeScript client, with the compiler that is in the test
// environment, to where it can be built. Without a compiler the test is skipped, or
// fails if HAFT_REQUIRE names clients.
func typescriptClient(t *testing.T) string {
	t.Helper()
	compiler, err := filepath.Abs(filepath.Join("..", ".haft", "clientsjs"))
	if err == nil {
		_, err = os.Stat(filepath.Join(compiler, "installed.txt"))
	}
	if err != nil {
		const missing = "the compiler of the TypeScript client is not in .haft/clientsjs: run scripts/setup test"
		if slices.Contains(strings.Split(os.Getenv("HAFT_REQUIRE"), ","), "clients") {
			t.Fatalf("HAFT_REQUIRE names clients, but %s (%v)", missing, err)
		}
		t.Skipf("SKIPPED for want of clients: %s (%v)", missing, err)
	}
	dir := filepath.Join(t.TempDir(), "client")
	from := os.DirFS(filepath.Join("..", "clients", "typescript"))
	err = fs.WalkDir(from, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if slices.Contains([]string{"node_modules", "dist", "build"}, name) {
			if d.IsDir() {
				return fs.SkipDir
			}
			return nil
		}
		if d.IsDir() {
			return os.MkdirAll(filepath.Join(dir, name), 0o755)
		}
		text, err := fs.ReadFile(from, name)
		if err != nil {
			return err
		}
		return os.WriteFile(filepath.Join(dir, name), text, 0o644)
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(filepath.Join(compiler, "node_modules"), filepath.Join(dir, "node_modules")); err != nil {
		t.Fatal(err)
	}
	return dir
}

// runIn runs a program and returns what it printed.
func runIn(t *testing.T, dir string, env []string, program string, args ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute) // for a machine that is busy
	defer cancel()
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), env...)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%s %s: %v\n%s", program, strings.Join(args, " "), err, out)
	}
	return string(out)
}

// The TypeScript client passes its own tests against a real server.
func TestClients_typescript_against_a_server(t *testing.T) {
	open(t, app.Config{})
	client := typescriptClient(t)
	document, err := filepath.Abs(filepath.Join("..", "server", "testdata", "openapi.json"))
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	s, url, stop := startServer(t, dir)
	defer stop()
	key, err := os.ReadFile(filepath.Join(dir, "admin.key"))
	if err != nil {
		t.Fatal(err)
	}
	stranger := haft.Principal{Org: "other", User: "eve", Roles: []string{haft.RoleAdmin}}
	_, other, err := s.Auth.Keyring.Issue(t.Context(), auth.Trusted(stranger), auth.Key{Org: "other", User: "eve", Roles: stranger.Roles})
	if err != nil {
		t.Fatal(err)
	}
	runIn(t, client, nil, "node", "node_modules/typescript/bin/tsc", "-p", "test")
	tests, err := filepath.Glob(filepath.Join(client, "build", "test", "*.test.js"))
	if err != nil || len(tests) == 0 {
		t.Fatalf("there are no tests: %v", err)
	}
	runIn(t, client, []string{"HAFT_SERVER=" + url, "HAFT_KEY=" + strings.TrimSpace(string(key)), "HAFT_KEY_FILE=", "HAFT_OTHER_KEY=" + other.Reveal(), "HAFT_OPENAPI=" + document},
		"node", append([]string{"--test"}, tests...)...)
}
