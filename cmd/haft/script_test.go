package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"haft"
	"haft/sandbox/local"
)

func TestMain(m *testing.M) {
	local.Init()
	testscript.Main(m, map[string]func(){
		"haft": func() {
			ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
			code := run(ctx, os.Args[1:], streams{os.Stdin, os.Stdout, os.Stderr})
			stop()
			os.Exit(code)
		},
	})
}

// TestScript runs the command as a person would: one script for each feature and
// each attack, in testdata/script.
func TestScript(t *testing.T) {
	examples, err := filepath.Abs("../../examples")
	if err != nil {
		t.Fatal(err)
	}
	testscript.Run(t, testscript.Params{
		Dir: "testdata/script",
		Setup: func(e *testscript.Env) error {
			// The interpreters of the machine are found through PATH and HOME.
			e.Setenv("HOME", os.Getenv("HOME"))
			e.Setenv("EXAMPLES", examples)
			// Kept state is the script's own. A command may have to wait for one
			// that runs in the background.
			e.Setenv("HAFT_DATA", filepath.Join(e.WorkDir, "data"))
			e.Setenv("HAFT_LOCK_WAIT", "60s")
			e.Setenv("HAFT_USER", "olga")
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"exits": exits, "grab": grab, "await": await, "same": same,
		},
		Condition: func(name string) (bool, error) {
			if name == "root" {
				return os.Getuid() == 0, nil
			}
			return false, fmt.Errorf("there is no condition %q", name)
		},
		RequireExplicitExec: true,
		UpdateScripts:       os.Getenv("UPDATE_SCRIPTS") != "",
	})
}

// exits runs a command that must end with a code: exits CODE PROGRAM ARGS…
func exits(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: exits CODE PROGRAM ARGS…")
	}
	code := 0
	if err := ts.Exec(args[1], args[2:]...); err != nil {
		e, ok := errors.AsType[*exec.ExitError](err)
		if !ok {
			ts.Fatalf("%v", err)
		}
		code = e.ExitCode()
	}
	if want := args[0]; strconv.Itoa(code) != want {
		ts.Fatalf("the exit code is %d, want %s", code, want)
	}
}

// grab puts what the group of a pattern matches in the last output into a
// variable: grab NAME PATTERN
func grab(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: grab NAME PATTERN")
	}
	m := regexp.MustCompile(args[1]).FindStringSubmatch(ts.ReadFile("stdout"))
	if len(m) != 2 {
		ts.Fatalf("%s does not match in the output", args[1])
	}
	ts.Setenv(args[0], m[1])
}

// await waits until a file is there, which a program in the background writes.
func await(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: await FILE")
	}
	for range 1200 {
		if info, err := os.Stat(ts.MkAbs(args[0])); err == nil && info.Size() > 0 {
			return
		}
		time.Sleep(50 * time.Millisecond) // another process writes it: there is nothing to wait on
	}
	ts.Fatalf("%s is not there", args[0])
}

// same compares texts: same A B
func same(ts *testscript.TestScript, neg bool, args []string) {
	if len(args) != 2 {
		ts.Fatalf("usage: same A B")
	}
	if (args[0] == args[1]) == neg {
		ts.Fatalf("%q and %q: want equal to be %v", args[0], args[1], !neg)
	}
}

func TestExits_cover_every_status_and_code(t *testing.T) {
	for _, s := range haft.Statuses() {
		if _, ok := statusExits[s]; !ok {
			t.Errorf("status %q has no exit code", s)
		}
	}
	for _, c := range haft.Codes() {
		if _, ok := codeExits[c]; !ok {
			t.Errorf("code %q has no exit code", c)
		}
	}
}

func TestSize(t *testing.T) {
	for text, want := range map[string]size{"512MiB": 512 << 20, "1G": 1 << 30, "10": 10, "3MB": 3e6, "7 KiB": 7 << 10} {
		var s size
		if err := s.Set(text); err != nil || s != want {
			t.Errorf("size %q is %d, %v; want %d", text, s, err, want)
		}
	}
	for _, bad := range []string{"", "MiB", "-1", "0", "1TiB", "9999999999GiB", "1.5G"} {
		var s size
		if err := s.Set(bad); err == nil {
			t.Errorf("size %q is read as %d", bad, s)
		}
	}
}

func TestEscape_makes_control_characters_visible(t *testing.T) {
	got := escape("a\x1b]0;title\x07b\u202ec\nd\te\u200b")
	want := `a\x1b]0;title\ab\u202ec` + "\nd\te" + `\u200b`
	if got != want {
		t.Errorf("escape gives %q, want %q", got, want)
	}
}
