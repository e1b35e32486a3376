package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"haft"
	"haft/internal/cli"
	"haft/internal/exit"
	"haft/internal/skiptest"
	"haft/internal/store/storetest"
	"haft/internal/terminal"
	"haft/sandbox/local"
	"haft/sandbox/sandboxtest"
)

func TestMain(m *testing.M) {
	local.Init()
	testscript.Main(m, map[string]func(){
		"haft": func() {
			tuneForShortCommand()
			ctx := untilSignal()
			if err := impersonate(ctx, os.Args[1:]); err != nil {
				fmt.Fprintln(os.Stderr, "impersonate:", err)
				os.Exit(99)
			}
			os.Exit(run(ctx, os.Args[1:], cli.Streams{In: os.Stdin, Out: os.Stdout, Err: os.Stderr}))
		},
	})
}

// TestScript runs the command as a person would: one script for each feature and
// each attack, in testdata/script.
func TestScript(t *testing.T) {
	testscript.Run(t, params(t, testscript.Params{Dir: "testdata/script"}, nil))
}

// TestScript_formats runs the scripts of testdata/formats with models that speak the formats of three vendors.
func TestScript_formats(t *testing.T) {
	for _, format := range []string{"openai", "anthropic", "gemini"} {
		t.Run(format, func(t *testing.T) {
			t.Parallel()
			testscript.Run(t, params(t, testscript.Params{Dir: "testdata/formats"}, func(e *testscript.Env) {
				e.Setenv("MODEL_FORMAT", format)
			}))
		})
	}
}

// TestScript_postgres runs those scripts that are about calls on a Postgres too.
func TestScript_postgres(t *testing.T) {
	storetest.Postgres(t) // skips where there is none
	p := testscript.Params{}
	for _, name := range []string{"approvals", "approvals_attacker", "batch", "cache", "cancel_stop", "chain", "events",
		"idempotency", "limits_restart", "replay", "tool_lifecycle", "tool_review"} {
		p.Files = append(p.Files, filepath.Join("testdata/script", name+".txtar"))
	}
	testscript.Run(t, params(t, p, func(e *testscript.Env) {
		e.Setenv("HAFT_DATABASE", storetest.Postgres(t))
	}))
}

// TestPackages_in_scripts runs the scripts that install packages from the indexes which
// this machine is configured for. They share what was installed.
func TestPackages_in_scripts(t *testing.T) {
	if testing.Short() {
		t.Skip("short: nothing is fetched from an index")
	}
	cache, lasting := packageCache(t)
	testscript.Run(t, params(t, testscript.Params{Dir: "testdata/index"}, func(e *testscript.Env) {
		e.Setenv("XDG_CACHE_HOME", cache)
		e.Setenv("LASTING_CACHE", lasting)
		for _, kv := range os.Environ() {
			name, v, _ := strings.Cut(kv, "=")
			if strings.HasPrefix(name, "PIP_") || strings.HasPrefix(name, "HAFT_PIP") ||
				strings.HasPrefix(name, "HAFT_NPM") || strings.HasSuffix(name, "_PROXY") || name == "SSL_CERT_FILE" {
				e.Setenv(name, v)
			}
		}
	}))
}

// packageCache returns two directories for packages: one for this test, and one for large packages, which is kept for
// the next time in $HAFT_TEST_CACHE, if that is set. It skips the test where nothing can be installed.
func packageCache(t *testing.T) (cache, lasting string) {
	t.Helper()
	cache, lasting = t.TempDir(), t.TempDir()
	if dir := os.Getenv("HAFT_TEST_CACHE"); dir != "" {
		dir = filepath.Join(dir, strconv.Itoa(os.Getuid())) // a user cannot write what root has installed
		if os.MkdirAll(dir, 0o755) == nil {
			lasting = dir
		}
	}
	cmd := exec.CommandContext(t.Context(), os.Args[0], "env", "build", "--requirement", "six")
	cmd.Env = append(os.Environ(), "XDG_CACHE_HOME="+cache)
	haft, err := haftCommand(t)
	if err != nil {
		t.Fatal(err)
	}
	cmd.Path, cmd.Args[0] = haft, haft
	if out, err := cmd.CombinedOutput(); err != nil {
		sandboxtest.Require(t, "index", "packages cannot be installed here: "+string(out))
	}
	return cache, lasting
}

// haftCommand makes a name under which this test program is the command haft.
func haftCommand(t *testing.T) (string, error) {
	self, err := os.Executable()
	if err != nil {
		return "", err
	}
	name := filepath.Join(t.TempDir(), "haft")
	return name, os.Symlink(self, name)
}

// withoutGVisor is a search path without the directories that have runsc.
func withoutGVisor(path string) string {
	return strings.Join(slices.DeleteFunc(filepath.SplitList(path), func(dir string) bool {
		_, err := os.Stat(filepath.Join(dir, "runsc"))
		return err == nil
	}), string(filepath.ListSeparator))
}

// params completes what scripts are run with.
func params(t *testing.T, p testscript.Params, more func(*testscript.Env)) testscript.Params {
	t.Helper()
	examples, err := filepath.Abs("../../examples")
	if err != nil {
		t.Fatal(err)
	}
	p.Setup = func(e *testscript.Env) error {
		// The interpreters of the machine are found through PATH and HOME.
		e.Setenv("HOME", os.Getenv("HOME"))
		if filepath.Base(e.Getenv("WORK")) != "script-gvisor" { // the others hold what Haft says without gVisor
			e.Setenv("PATH", withoutGVisor(e.Getenv("PATH")))
		}
		e.Setenv("EXAMPLES", examples)
		e.Setenv("WHEELS", filepath.Join(filepath.Dir(examples), ".haft", "wheels"))
		// Kept state is the script's own. A command may have to wait for one
		// that runs in the background.
		e.Setenv("HAFT_DATA", filepath.Join(e.WorkDir, "data"))
		e.Setenv("HAFT_LOCK_WAIT", "60s")
		e.Setenv("HAFT_READY_WAIT", "0s")   // no load balancer has to notice
		e.Setenv("HAFT_ALLOW_REDUCED", "1") // what a machine gives is what is tried
		e.Setenv("HAFT_USER", "olga")
		e.Values[peersKey{}] = &peers{}
		if _, err := startModel(e); err != nil {
			return err
		}
		if more != nil {
			more(e)
		}
		return nil
	}
	p.Cmds = map[string]func(*testscript.TestScript, bool, []string){"exits": exits, "grab": grab,
		"eventually": eventually, "model": modelCmd, "asked": askedCmd, "sent": sentCmd}
	for name, do := range peerCommands {
		p.Cmds[name] = do
	}
	p.Condition = func(name string) (bool, error) {
		switch name {
		case "root":
			return os.Getuid() == 0, nil
		case "wheels":
			_, err := os.Stat(filepath.Join(filepath.Dir(examples), ".haft", "wheels", "installed.txt"))
			if err != nil && skiptest.Required("wheels") {
				return false, fmt.Errorf("wheels are required by HAFT_REQUIRE: %w", err)
			}
			return err == nil, nil
		}
		return false, fmt.Errorf("there is no condition %q", name)
	}
	p.RequireExplicitExec = true
	p.UpdateScripts = os.Getenv("UPDATE_SCRIPTS") != ""
	return p
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

// eventually runs a command until its output matches: what a server does in the
// background has then been done. eventually PATTERN PROGRAM ARGS…
func eventually(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: eventually PATTERN PROGRAM ARGS…")
	}
	pattern := regexp.MustCompile("(?m)" + args[0])
	for end := time.Now().Add(time.Minute); ; {
		err := ts.Exec(args[1], args[2:]...)
		if err == nil && pattern.MatchString(ts.ReadFile("stdout")) {
			return
		}
		if time.Now().After(end) {
			ts.Fatalf("the output never matches %s: %v", args[0], err)
		}
		<-time.After(50 * time.Millisecond)
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

func TestExits_cover_every_status_and_code(t *testing.T) {
	for _, s := range haft.Statuses() {
		if _, ok := exit.OfStatus[s]; !ok {
			t.Errorf("status %q has no exit code", s)
		}
	}
	for _, c := range haft.Codes() {
		if _, ok := exit.OfCode[c]; !ok {
			t.Errorf("code %q has no exit code", c)
		}
	}
}

func TestEscape_makes_control_characters_visible(t *testing.T) {
	got := terminal.Escape("a\x1b]0;title\x07b\u202ec\nd\te\u200b")
	want := `a\x1b]0;title\ab\u202ec` + "\nd\te" + `\u200b`
	if got != want {
		t.Errorf("escape gives %q, want %q", got, want)
	}
}

// A variable in a pattern may hold any text, such as a base64 secret with "++":
// unquoted it is a regular expression that fails by chance.
func TestScripts_quote_variables_in_patterns(t *testing.T) {
	pattern := regexp.MustCompile(`^!?\s*(stdout|stderr|grep|eventually|grab)\s+('[^']*'|\S)*\$(\w+|\{\w+\})`)
	names, err := filepath.Glob("testdata/*/*.txtar")
	if err != nil || len(names) == 0 {
		t.Fatalf("no scripts: %v", err)
	}
	for _, name := range names {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		script, _, _ := strings.Cut(string(text), "\n-- ")
		for i, line := range strings.Split(script, "\n") {
			if pattern.MatchString(line) {
				t.Errorf("%s:%d: write ${NAME@R} for a variable in a pattern", name, i+1)
			}
		}
	}
}
