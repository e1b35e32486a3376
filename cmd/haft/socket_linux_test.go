package main

import (
	"bufio"
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
)

// An editor is a client that has started haft mcp.
type editor struct {
	t   *testing.T
	cmd *exec.Cmd
	in  io.WriteCloser
	out *bufio.Scanner
	n   int
}

// newEditor starts haft mcp.
func newEditor(t *testing.T, d desk) *editor {
	t.Helper()
	e := &editor{t: t, cmd: exec.CommandContext(t.Context(), d.haft, "mcp")}
	e.cmd.Env, e.cmd.Stderr = d.env, os.Stderr
	var err error
	if e.in, err = e.cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	out, err := e.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	e.out = bufio.NewScanner(out)
	e.out.Buffer(nil, 16<<20)
	if err := e.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	e.ask("initialize", map[string]any{"protocolVersion": "2025-06-18", "capabilities": map[string]any{},
		"clientInfo": map[string]any{"name": "editor", "version": "1"}})
	e.send(map[string]any{"jsonrpc": "2.0", "method": "notifications/initialized"})
	return e
}

// send sends a message.
func (e *editor) send(v any) {
	e.t.Helper()
	text, err := json.Marshal(v)
	if err == nil {
		_, err = e.in.Write(append(text, '\n'))
	}
	if err != nil {
		e.t.Fatal(err)
	}
}

// begin sends a request.
func (e *editor) begin(method string, params any) {
	e.t.Helper()
	e.n++
	e.send(map[string]any{"jsonrpc": "2.0", "id": e.n, "method": method, "params": params})
}

// answer returns the answer to the last request.
func (e *editor) answer() string {
	e.t.Helper()
	for e.out.Scan() {
		var m struct{ ID int }
		if err := json.Unmarshal(e.out.Bytes(), &m); err != nil {
			e.t.Fatal(err)
		}
		if m.ID == e.n {
			return e.out.Text()
		}
	}
	e.t.Fatalf("haft mcp ended: %v", e.out.Err())
	return ""
}

func (e *editor) ask(method string, params any) string {
	e.t.Helper()
	e.begin(method, params)
	return e.answer()
}

// adds makes a call, which must succeed.
func (e *editor) adds() {
	e.t.Helper()
	got := e.ask("tools/call", map[string]any{"name": "add", "arguments": map[string]int{"a": 40, "b": 2}})
	if !strings.Contains(got, `"structuredContent":{"result":42}`) {
		e.t.Errorf("the call gives %s", got)
	}
}

// leave ends haft mcp as editors do.
func (e *editor) leave() {
	e.t.Helper()
	if err := e.in.Close(); err != nil {
		e.t.Error(err)
	}
	if err := e.cmd.Wait(); err != nil {
		e.t.Errorf("haft mcp ended with %v", err)
	}
}

// holder returns the process that serves the directory.
func (d desk) holder(t *testing.T) (pid int, command string) {
	t.Helper()
	var found struct {
		Served struct {
			PID     int
			Command string
		}
	}
	if err := json.Unmarshal([]byte(d.run(t, "doctor", "--json")), &found); err != nil {
		t.Fatal(err)
	}
	return found.Served.PID, found.Served.Command
}

// Several editors use one directory at once. The first haft mcp has it; when it ends, in whatever way, the next one
// takes over, and a server that is started gets it. A call that was under way in a process that was killed is reported
// as one that may have run, and is not made again.
func TestMCP_several(t *testing.T) {
	d := newDesk(t)
	first, second := newEditor(t, d), newEditor(t, d)
	first.adds()
	second.adds()
	if pid, command := d.holder(t); pid != first.cmd.Process.Pid || command != "mcp" {
		t.Errorf("the directory is served by %d, %s", pid, command)
	}
	d.run(t, "tool", "list") // no command has to wait

	second.begin("tools/call", map[string]any{"name": "stick", "arguments": map[string]any{}})
	running := func(status string) int {
		return strings.Count(d.run(t, "calls", "--tool", "stick", "--status", status), "stick")
	}
	for running("running") == 0 {
		continue // until the call is under way
	}
	if err := first.cmd.Process.Signal(syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	_ = first.cmd.Wait() // it was killed
	if got := second.answer(); !strings.Contains(got, "not known") {
		t.Errorf("a call in a process that was killed gives %s", got)
	}
	second.adds()
	if pid, _ := d.holder(t); pid != second.cmd.Process.Pid {
		t.Errorf("the directory is served by %d, not by the second", pid)
	}
	if n := running("unknown"); n != 1 {
		t.Errorf("the call that was cut is recorded %d times as unknown", n)
	}

	third := newEditor(t, d)
	third.adds()
	second.leave()
	third.adds()
	d.serve(t)
	if _, command := d.holder(t); command != "serve" {
		t.Errorf("the directory is served by haft %s", command)
	}
	third.adds()
	third.leave()
	d.run(t, "audit", "verify")
}
