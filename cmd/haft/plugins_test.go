package main

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"haft/internal/skiptest"
)

// The plug-in of pytest and the function for vitest run test files of tools by the real command.
func TestClients_plugins(t *testing.T) {
	haft, err := haftCommand(t)
	if err != nil {
		t.Fatal(err)
	}
	env := append(os.Environ(), "HAFT_BINARY="+haft, "HAFT_ALLOW_REDUCED=1", "PYTHONDONTWRITEBYTECODE=1")
	run := func(t *testing.T, dir string, more []string, args ...string) string {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute) // for a machine that is busy
		defer cancel()
		c := exec.CommandContext(ctx, args[0], args[1:]...) //nolint:gosec // programs of the test environment
		c.Dir, c.Env = dir, append(env, more...)
		out, err := c.CombinedOutput()
		if err != nil {
			t.Fatalf("%s: %v\n%s", strings.Join(args, " "), err, out)
		}
		return string(out)
	}
	t.Run("pytest", func(t *testing.T) {
		t.Parallel()
		python := filepath.Join(skiptest.Part(t, "clients", "clientspy"), "bin", "python")
		client, err := filepath.Abs("../../clients/python")
		if err != nil {
			t.Fatal(err)
		}
		out := run(t, client, []string{"PYTHONPATH=" + filepath.Join(client, "src")}, python, "-m", "pytest", "-q",
			"-p", "no:cacheprovider", "tests/test_pytest_plugin.py", "tests/test_testing.py", "-k", "the_real_command")
		if !strings.Contains(out, "2 passed") {
			t.Error(out)
		}
	})
	t.Run("vitest", func(t *testing.T) {
		t.Parallel()
		modules := filepath.Join(skiptest.Part(t, "clients", "clientsjs"), "node_modules")
		dir := t.TempDir()
		for _, name := range []string{"package.json", "tsconfig.json", "src/testing.ts", "test/testing.test.ts"} {
			text, err := os.ReadFile(filepath.Join("../../clients/typescript", name)) //nolint:gosec // of the repository
			if err == nil {
				err = os.MkdirAll(filepath.Join(dir, filepath.Dir(name)), 0o700)
			}
			if err == nil {
				err = os.WriteFile(filepath.Join(dir, name), text, 0o600)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		if err := os.Symlink(modules, filepath.Join(dir, "node_modules")); err != nil {
			t.Fatal(err)
		}
		run(t, dir, nil, "node", filepath.Join(modules, "typescript/bin/tsc"), "--target", "es2022", "--module",
			"nodenext", "--types", "node", "--skipLibCheck", "--outDir", "build", "src/testing.ts",
			"test/testing.test.ts")
		out := run(t, dir, nil, "node", "--test", "--test-reporter", "tap", "build/test/testing.test.js")
		for _, want := range []string{"the real command runs a tool", "the real command runs a suite"} {
			if !regexp.MustCompile(`(?m)^ok \d+ - ` + want + `$`).MatchString(out) {
				t.Errorf("%q did not run:\n%s", want, out)
			}
		}
		out = runVitest(t, dir, modules, run)
		if !regexp.MustCompile(`(?m)^ *Tests +1 failed \| 1 passed \| 1 skipped \(3\)$`).MatchString(out) ||
			!strings.Contains(out, "add_test.yaml:3: wrong failed") {
			t.Error(out)
		}
	})
}

// inVitest makes tests of vitest of the test files of a directory, one of which fails.
const inVitest = `import { test } from "vitest";
import { haftTests } from "./src/testing.js";

haftTests("tools", { test, command: process.env.HAFT_BINARY });
`

// runVitest runs a suite of vitest in a directory with the client, and returns what vitest prints.
func runVitest(t *testing.T, dir, modules string, run func(*testing.T, string, []string, ...string) string) string {
	t.Helper()
	for name, text := range map[string]string{
		"tools.spec.ts": inVitest,
		"tools/add.ts": "/**\n * Add.\n * @param a One.\n */\n" +
			"export function add(a: number): number {\n  return a + 1;\n}\n",
		"tools/add_test.yaml": "cases:\n- {name: right, args: {a: 1}, expect: {value: 2}}\n" +
			"- {name: wrong, args: {a: 1}, expect: {value: 3}}\n- {name: left out, skip: no network}\n",
	} {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return run(t, dir, []string{"NO_COLOR=1", "CI=1"}, "sh", "-c", `node "$0" run --root . tools.spec.ts || [ $? = 1 ]`,
		filepath.Join(modules, "vitest/vitest.mjs"))
}
