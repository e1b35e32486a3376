package main

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"haft"
	"haft/sandbox/local"
)

func TestMain(m *testing.M) {
	local.Init()
	testscript.Main(m, map[string]func(){
		"haft": func() {
			os.Exit(run(context.Background(), os.Args[1:], streams{os.Stdin, os.Stdout, os.Stderr}))
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
			return nil
		},
		RequireExplicitExec: true,
		UpdateScripts:       os.Getenv("UPDATE_SCRIPTS") != "",
	})
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
