//go:build linux

package app_test

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"haft"
	"haft/app"
	"haft/internal/auth"
	"haft/internal/skiptest"
)

// typescriptClient copies the TypeScript client, with the packages of a part of the test
// environment, the compiler among them, to where it can be built. Without them the test is
// skipped, or fails if HAFT_REQUIRE names clients.
func typescriptClient(t *testing.T, part string) string {
	t.Helper()
	packages := skiptest.Part(t, "clients", part)
	for _, program := range []string{"node", "npm"} {
		if _, err := exec.LookPath(program); err != nil {
			skiptest.Lacking(t, "clients", err.Error())
		}
	}
	dir := filepath.Join(t.TempDir(), "client")
	from := os.DirFS(filepath.Join("..", "clients", "typescript"))
	err := fs.WalkDir(from, ".", func(name string, d fs.DirEntry, err error) error {
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
	if err := os.Symlink(filepath.Join(packages, "node_modules"), filepath.Join(dir, "node_modules")); err != nil {
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
	client := typescriptClient(t, "clientsjs")
	document, err := filepath.Abs(filepath.Join("..", "server", "testdata", "openapi.json"))
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	s, url, stop := startServerWith(t,
		app.ServerConfig{ServiceConfig: app.ServiceConfig{Data: dir, Upstream: nearMCP()}})
	defer stop()
	key, err := os.ReadFile(filepath.Join(dir, "admin.key"))
	if err != nil {
		t.Fatal(err)
	}
	stranger := haft.Principal{Org: "other", User: "eve", Roles: []string{haft.RoleAdmin}}
	_, other, err := s.Auth.Keyring.Issue(t.Context(), auth.Trusted(stranger),
		auth.Key{Org: "other", User: "eve", Roles: stranger.Roles})
	if err != nil {
		t.Fatal(err)
	}
	runIn(t, client, nil, "node", "node_modules/typescript/bin/tsc", "-p", "test")
	tests, err := filepath.Glob(filepath.Join(client, "build", "test", "*.test.js"))
	if err != nil || len(tests) == 0 {
		t.Fatalf("there are no tests: %v", err)
	}
	runIn(t, client, []string{"HAFT_SERVER=" + url, "HAFT_KEY=" + strings.TrimSpace(string(key)), "HAFT_KEY_FILE=",
		"HAFT_OTHER_KEY=" + other.Reveal(), "HAFT_OPENAPI=" + document, "HAFT_MCP_URL=" + url + "/mcp"},
		"node", append([]string{"--test"}, tests...)...)
}

// Agents of frameworks run their tools on a real server, and the programs of docs/clients.md
// do what they say.
func TestClients_typescript_with_agent_frameworks(t *testing.T) {
	open(t, app.Config{})
	client := typescriptClient(t, "frameworksjs")
	env := clientServer(t)
	page, err := os.ReadFile(filepath.Join("..", "docs", "clients.md"))
	if err != nil {
		t.Fatal(err)
	}
	shown := 0
	for _, block := range regexp.MustCompile("(?s)\n```ts\n(.*?)```").FindAllStringSubmatch(string(page), -1) {
		if !strings.Contains(block[1], "openai") {
			continue
		}
		file := filepath.Join(client, "frameworks", fmt.Sprintf("shown_%d.ts", shown))
		text := strings.Replace(block[1], `"@haft/client"`, `"../src/index.js"`, 1)
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		shown++
	}
	if shown != 2 {
		t.Fatalf("the page has %d programs for frameworks", shown)
	}
	runIn(t, client, nil, "node", "node_modules/typescript/bin/tsc", "-p", "frameworks")
	out := runIn(t, client, env, "node", "--test", "build/frameworks/docs.test.js",
		"build/frameworks/frameworks.test.js")
	if !strings.Contains(out, "program 1 of the documents runs") {
		t.Errorf("the programs did not run:\n%s", out)
	}
}

// The README is true: it installs as it says, from the directory and as a package, and
// its programs compile and do what they say.
func TestClients_typescript_as_its_README_says(t *testing.T) {
	open(t, app.Config{})
	client := typescriptClient(t, "clientsjs")
	dir := t.TempDir()
	_, url, stop := startServer(t, dir)
	defer stop()
	readme, err := os.ReadFile(filepath.Join(client, "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	blocks := regexp.MustCompile("(?s)\n```ts\n(.*?)```").FindAllStringSubmatch(string(readme), -1)
	if len(blocks) != 3 {
		t.Fatalf("the README has %d programs", len(blocks))
	}
	env := []string{"HAFT_SERVER=" + url, "HAFT_KEY=", "HAFT_KEY_FILE=" + filepath.Join(dir, "admin.key"),
		"npm_config_cache=" + t.TempDir()}
	install := func(from string, files map[string]string) string {
		work := t.TempDir()
		for name, text := range files {
			if err := os.WriteFile(filepath.Join(work, name), []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		runIn(t, work, env, "npm", "install", "--offline", "--no-audit", "--no-fund", from)
		return work
	}
	const manifest = `{"private": true, "type": "module"}`
	linked := install(client, map[string]string{
		"package.json": manifest, "tools.ts": blocks[0][1], "agent.ts": blocks[1][1],
		"rest.ts": "declare const request: { headers: Headers; body: string };\n" + blocks[2][1],
	})
	modules := filepath.Join(client, "node_modules")
	runIn(t, linked, nil, "node", filepath.Join(modules, "typescript", "bin", "tsc"), "--module", "nodenext",
		"--target", "es2022", "--lib", "es2023", "--sourceMap", "--strict",
		"--types", "node", "--typeRoots", filepath.Join(modules, "@types"), "tools.ts", "agent.ts", "rest.ts")
	files := map[string]string{"package.json": manifest}
	for _, name := range []string{"tools.ts", "tools.js", "tools.js.map", "agent.js"} {
		text, err := os.ReadFile(filepath.Join(linked, name))
		if err != nil {
			t.Fatal(err)
		}
		files[name] = string(text)
	}
	file := strings.Fields(runIn(t, client, env, "npm", "pack", "--offline", "--silent"))
	packed := install(filepath.Join(client, file[len(file)-1]), files)
	if _, err := os.Stat(filepath.Join(packed, "node_modules", "@haft", "client", "dist", "index.d.ts")); err != nil {
		t.Errorf("the package has no types: %v", err)
	}
	for _, work := range []string{linked, packed} {
		if out := runIn(t, work, env, "node", "agent.js"); out != "3\n3\n" {
			t.Errorf("agent.js printed %q", out)
		}
	}
}
