package process_test

import (
	"context"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"haft"
	"haft/sandbox"
	"haft/sandbox/process"
	"haft/sandbox/sandboxtest"
)

func TestProcess(t *testing.T) {
	sandboxtest.Run(t, func(t *testing.T) sandbox.Provider { return open(t, process.Config{}) })
}

// open returns a provider.
func open(t *testing.T, cfg process.Config) *process.Provider {
	t.Helper()
	p, err := process.Open(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// run runs a shell script and returns its exit and what it printed.
func run(t *testing.T, p *process.Provider, script string, change func(*sandbox.Spec)) (sandbox.Exit, string) {
	t.Helper()
	var out strings.Builder
	spec := sandbox.Spec{Argv: []string{"/bin/sh", "-c", script}, Env: []string{"PATH=/usr/bin:/bin"}, Stdout: &out}
	if change != nil {
		change(&spec)
	}
	exit, err := p.Run(t.Context(), spec)
	if err != nil {
		t.Fatalf("Run(%q): %v", script, err)
	}
	return exit, out.String()
}

func TestProvider_names_the_work_directory(t *testing.T) {
	dir := t.TempDir()
	exit, out := run(t, open(t, process.Config{Dir: dir}),
		`echo "$HAFT_WORK"; pwd; echo "$1"; echo "$OTHER"; cat "$HAFT_WORK/f"`, func(s *sandbox.Spec) {
			s.Argv = append(s.Argv, "sh", "/work/f")
			s.Env = append(s.Env, "HAFT_WORK=/work", "OTHER=/workshop")
			s.Files = []sandbox.File{{Name: "f", Data: []byte("content\n")}}
		})
	lines := strings.Split(out, "\n")
	if exit.Code != 0 || len(lines) != 6 {
		t.Fatalf("exit %+v, printed %q", exit, out)
	}
	work := lines[0]
	if filepath.Dir(work) != dir || lines[1] != work || lines[2] != work+"/f" || lines[3] != "/workshop" ||
		lines[4] != "content" {
		t.Errorf("printed %q, want the work directory below %s thrice", lines, dir)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) != 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

func TestProvider_says_that_it_isolates_nothing(t *testing.T) {
	iso, err := open(t, process.Config{}).Isolation(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if iso.Level != haft.LevelNone || len(iso.Controls) != 0 || len(iso.Missing) != len(haft.Controls()) {
		t.Errorf("Isolation() = %+v, want none and everything missing", iso)
	}
}

func TestProvider_refuses_a_mount_at_another_place(t *testing.T) {
	spec := sandbox.Spec{Argv: []string{"/bin/sh"}, Mounts: []sandbox.Mount{{Host: "/usr", Inside: "/elsewhere"}}}
	_, err := open(t, process.Config{}).Run(t.Context(), spec)
	if haft.CodeOf(err) != haft.CodeDenied {
		t.Errorf("Run = %v, want code %q", err, haft.CodeDenied)
	}
}

func TestProvider_refuses_egress(t *testing.T) {
	spec := sandbox.Spec{Argv: []string{"/bin/true"}, Network: sandbox.NetworkEgress,
		ServeEgress: func(context.Context, net.Conn) {}}
	_, err := open(t, process.Config{}).Run(t.Context(), spec)
	if haft.CodeOf(err) != haft.CodeDenied {
		t.Errorf("Run = %v, want code %q", err, haft.CodeDenied)
	}
}

func TestProvider_grace_is_the_time_to_say_goodbye(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var out strings.Builder
	p := open(t, process.Config{})
	exit, err := p.Run(ctx, sandbox.Spec{
		Argv: []string{"/bin/sh", "-c",
			`trap 'sleep 0.2; echo bye; exit 0' TERM; echo ready; while :; do sleep 0.01; done`},
		Env: []string{"PATH=/usr/bin:/bin"}, Stdout: onWrite{&out, cancel},
		Limits: haft.Limits{Grace: haft.Millis(5 * time.Second)},
	})
	if err != nil || exit.Cause != sandbox.CauseCancelled || out.String() != "ready\nbye\n" {
		t.Errorf("Run = %+v, %v, printed %q", exit, err, out.String())
	}
}

// onWrite calls f at every write.
type onWrite struct {
	to *strings.Builder
	f  func()
}

func (w onWrite) Write(p []byte) (int, error) {
	w.f()
	return w.to.Write(p)
}

func TestOpen_refuses_a_directory_that_is_none(t *testing.T) {
	file := filepath.Join(t.TempDir(), "f")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{file, file + "-missing"} {
		if _, err := process.Open(process.Config{Dir: dir}); err == nil {
			t.Errorf("Open(%s) = nil, want an error", dir)
		}
	}
}
