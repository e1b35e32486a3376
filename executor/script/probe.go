package script

import (
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"haft"
	"haft/sandbox"
	"haft/sandbox/cell"
)

//go:embed harness/probe.py
var pythonProbe string

// question runs a command and returns what it answers on descriptor 3. A command
// that also prints would do so into every tool's output, and does not serve.
func (f *Finder) question(ctx context.Context, argv []string, stdin string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, probeTime)
	defer cancel()
	pool := cell.New(ctx, cell.Config{})
	defer pool.Close()
	limits := haft.DefaultLimits()
	limits.Wall, limits.CPU = haft.Millis(probeTime), haft.Millis(probeTime)
	c, err := pool.Take(ctx, cell.Plan{
		Run: f.ask.Run,
		Spec: sandbox.Spec{
			Argv: argv, Limits: limits, Stdin: strings.NewReader(stdin),
			Env: []string{"PATH=" + f.cfg.Path, "HOME=" + f.cfg.Home, "LC_ALL=C.UTF-8"},
		},
	})
	if err != nil {
		return nil, &flaw{"cannot be started", err}
	}
	defer c.Release(false)
	out := &output{limit: 4 << 10}
	c.Begin(out, io.Discard)
	context.AfterFunc(ctx, func() { c.Cancel(context.Cause(ctx)) })
	read := make(chan []byte, 1)
	go func() {
		// Whatever cut the answer short shows when it is decoded.
		b, _ := io.ReadAll(io.LimitReader(c.Conn, maxProbe))
		read <- b
	}()
	<-c.Ended()
	if err := c.Conn.SetReadDeadline(time.Now().Add(drain)); err != nil {
		return nil, fmt.Errorf("read the answer: %w", err)
	}
	b := <-read
	exit, err := c.Exit()
	switch {
	case err != nil:
		return nil, &flaw{"cannot be started", err}
	case exit.Cause != sandbox.CauseExit || exit.Code != 0 || len(b) == 0:
		return nil, &flaw{"does not work", fmt.Errorf("it ended with %s, status %d, signal %d", exit.Cause, exit.Code,
			exit.Signal)}
	case out.text(false) != "":
		return nil, &flaw{"prints at its start", errors.New("it wrote to standard output before it was asked to")}
	}
	return b, nil
}

// pythonFlags isolate the interpreter from environment and user: no PYTHON*
// variables, no site, no bytecode written, UTF-8 whatever the locale is.
var pythonFlags = []string{"-I", "-S", "-B", "-X", "utf8"}

// pythonFacts is the answer of probe.py.
type pythonFacts struct {
	Version        []int    `json:"version"`
	Implementation string   `json:"implementation"`
	Executable     string   `json:"executable"`
	Prefix         string   `json:"prefix"`
	Stdlib         []string `json:"stdlib"`
	Path           []string `json:"path"`
	Libraries      []string `json:"libraries"`
	Site           []string `json:"site"`
	Harness        []byte   `json:"harness"`
}

// probePython finds out about the interpreter behind file, which may be a link,
// a shell script of a version manager, or that of a virtual environment.
func (f *Finder) probePython(ctx context.Context, file string) (*Runtime, error) {
	who, err := f.askPython(ctx, file, "who")
	if err != nil {
		return nil, err
	}
	if v := who.Version; len(v) == 3 && (v[0] < 3 || v[0] == 3 && v[1] < 9) {
		return nil, &flaw{"is too old", fmt.Errorf("version %d.%d", v[0], v[1])}
	}
	if who.Implementation != "cpython" {
		return nil, &flaw{"is another implementation", fmt.Errorf("%q", who.Implementation)}
	}
	facts, err := f.askPython(ctx, who.Executable, "")
	if err != nil {
		return nil, err
	}
	if len(facts.Version) != 3 || !filepath.IsAbs(facts.Executable) || !filepath.IsAbs(facts.Prefix) ||
		len(facts.Harness) == 0 {
		return nil, &flaw{"does not work", errors.New("its answer is not complete")}
	}
	rt := &Runtime{
		Kind: haft.KindPython, Version: fmt.Sprintf("%d.%d.%d", facts.Version[0], facts.Version[1], facts.Version[2]),
		Argv:    append([]string{facts.Executable}, pythonFlags...),
		harness: pythonStart(len(facts.Harness)), code: facts.Harness,
	}
	rt.Paths = existing(facts.Site)
	extra := []string{}
	if venv := venvOf(file); venv != "" {
		lib := filepath.Join(venv, "lib", fmt.Sprintf("python%d.%d", facts.Version[0], facts.Version[1]),
			"site-packages")
		if !venvSeesSystem(venv) {
			rt.Paths = nil
		}
		rt.Paths = slices.Insert(rt.Paths, 0, lib)
		extra = append(extra, lib)
		if within(facts.Executable, venv) {
			// A copy of the interpreter, not a link, finds its library by this.
			extra = append(extra, filepath.Join(venv, "pyvenv.cfg"))
		}
	}
	extra = append(extra, existing(slices.Concat(facts.Stdlib, facts.Path, rt.Paths))...)
	rt.Mounts = mountsFor(facts.Executable, facts.Prefix, slices.Concat(extra, facts.Libraries))
	rt.hidden = hiddenDirs(slices.Concat(facts.Stdlib, rt.Paths, []string{facts.Prefix}))
	return rt, nil
}

// pythonStart is the program that receives the compiled harness, of n bytes, over the
// channel, and runs it. It is too long for an argument (MAX_ARG_STRLEN), and to
// unpack it from one would take longer than to load it.
func pythonStart(n int) string {
	return fmt.Sprintf(`import marshal,posix
b=b""
while len(b)<%[1]d:
 d=posix.read(3,%[1]d-len(b))
 d or posix._exit(1)
 b+=d
c=marshal.loads(b);exec(c[0]);_reader=c[1];exec("m(3)",{"m":main})`, n)
}

// askPython runs the probe in one interpreter. With who, it runs only the first part.
func (f *Finder) askPython(ctx context.Context, file, who string) (*pythonFacts, error) {
	argv := slices.Concat([]string{file}, pythonFlags, []string{"-c", pythonProbe})
	if who != "" {
		argv = append(argv, who)
	}
	b, err := f.question(ctx, argv, pythonHarness()+"\x00"+f.cfg.Reader)
	if err != nil {
		return nil, err
	}
	var facts pythonFacts
	if err := json.Unmarshal(b, &facts); err != nil {
		return nil, &flaw{"does not work", fmt.Errorf("its answer cannot be read: %w", err)}
	}
	return &facts, nil
}

// venvOf returns the virtual environment that file is the interpreter of, or "".
func venvOf(file string) string {
	dir := filepath.Dir(filepath.Dir(file))
	if _, err := os.Stat(filepath.Join(dir, "pyvenv.cfg")); err != nil {
		return ""
	}
	return dir
}

// seesSystem is the line of pyvenv.cfg that lets the packages of the system in.
var seesSystem = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`(?mi)^\s*include-system-site-packages\s*=\s*true\s*$`)
})

// venvSeesSystem reports whether a virtual environment adds to the packages of
// its base rather than replacing them.
func venvSeesSystem(venv string) bool {
	f, err := os.Open(filepath.Join(venv, "pyvenv.cfg"))
	if err != nil {
		return false
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, 64<<10))
	return err == nil && seesSystem().Match(b)
}

// existing returns the directories and files of list that are there.
func existing(list []string) []string {
	var out []string
	for _, p := range list {
		if _, err := os.Stat(p); err == nil && filepath.IsAbs(p) && !slices.Contains(out, p) {
			out = append(out, p)
		}
	}
	return out
}

// nodeProbe answers with version, file and libraries.
const nodeProbe = `const fs=require("fs");let libs=[];
try{libs=[...new Set(fs.readFileSync("/proc/self/maps","utf8").split("\n").map(l=>l.slice(73).trim()).filter(l=>l.includes(".so")))]}catch{}
fs.writeSync(3,JSON.stringify({version:process.versions.node,executable:fs.realpathSync(process.execPath),libraries:libs}))`

// probeNode finds out about a Node.js.
func (f *Finder) probeNode(ctx context.Context, file string) (*Runtime, error) {
	b, err := f.question(ctx, []string{file, "-e", nodeProbe}, "")
	if err != nil {
		return nil, err
	}
	var facts struct {
		Version    string   `json:"version"`
		Executable string   `json:"executable"`
		Libraries  []string `json:"libraries"`
	}
	if err := json.Unmarshal(b, &facts); err != nil || !filepath.IsAbs(facts.Executable) {
		return nil, &flaw{"does not work", errors.New("its answer cannot be read")}
	}
	return &Runtime{
		Kind: haft.KindJavaScript, Version: facts.Version,
		Argv:    []string{facts.Executable},
		Mounts:  mountsFor(facts.Executable, "", append(existing(openssl), facts.Libraries...)),
		harness: nodeHarness,
	}, nil
}

// bashProbe answers with the version and, line by line, its libraries.
const bashProbe = `{ echo "$BASH_VERSION"; while read -r _ _ _ _ _ f; do case $f in *.so*) echo "$f";; esac; done </proc/self/maps; } >&3`

// probeBash finds out about a Bash. Its tools need the programs of the system
// around it.
func (f *Finder) probeBash(ctx context.Context, file string) (*Runtime, error) {
	file, err := filepath.EvalSymlinks(file)
	if err != nil {
		return nil, &flaw{"is not installed", err}
	}
	b, err := f.question(ctx, []string{file, "--noprofile", "--norc", "-c", bashProbe}, "")
	if err != nil {
		return nil, err
	}
	lines := strings.Split(strings.TrimSpace(string(b)), "\n")
	system := existing(append(filepath.SplitList(DefaultPath), programData...))
	return &Runtime{
		Kind: haft.KindBash, Version: lines[0],
		Argv:   []string{file, "--noprofile", "--norc"},
		Mounts: mountsFor(file, "", slices.Concat(system, existing(openssl), lines[1:])),
	}, nil
}
