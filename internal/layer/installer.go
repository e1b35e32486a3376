package layer

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"path"
	"slices"
	"strings"
	"sync"
	"time"

	"haft"
	"haft/internal/requirement"
	"haft/sandbox"
)

// A Command is one step of an installer, to be run in a sandbox.
type Command struct {
	// Step is what it does: "probe", "resolve", "install" or "compile".
	Step string
	// Argv, Env and Limits are those of a [sandbox.Spec].
	Argv, Env []string
	// Mounts are what it needs besides the interpreter and the system's libraries.
	Mounts []sandbox.Mount
	Limits haft.Limits
	// Network says that it talks to the index. The other steps need none.
	Network        bool
	Stdout, Stderr io.Writer
}

// Spec returns the command for a sandbox without network. The caller adds the egress connection
// if c.Network, the mounts of the interpreter, and the isolation that it needs.
func (c Command) Spec() sandbox.Spec {
	return sandbox.Spec{Argv: c.Argv, Env: c.Env, Mounts: c.Mounts, Limits: c.Limits, Stdout: c.Stdout,
		Stderr: c.Stderr}
}

// Run runs a command of an installer as [sandbox.Provider.Run] does.
type Run func(ctx context.Context, c Command) (sandbox.Exit, error)

// Where a sandbox should have layers when a tool runs: compiled Python files name
// their sources so, and Node looks in /node_modules from everywhere.
const (
	PythonDir = "/opt/haft/python"
	NodeDir   = "/node_modules"
)

// An Installer resolves requirements and installs locks. Its fields are set before
// its first use. Run and Scratch are required, and Python or NPM for what is to be
// installed.
type Installer struct {
	Run Run
	// Scratch makes a directory for one step, as [Store.Scratch] does.
	Scratch func() (dir string, done func(), err error)
	// Inside is a directory of the sandbox, such as /build, below which the
	// directories of a step are mounted; "" leaves them at the host's paths, as a
	// plain process needs it.
	Inside string

	// Python is the interpreter, by its path in the sandbox. UV is the program of
	// that name, if it is to be used in place of pip.
	Python, UV string
	// Pip is how pip is started; none means the module of Python.
	Pip []string
	// NPM is how npm is started: node and npm-cli.js, or a program. Node is the
	// interpreter, for probing.
	NPM  []string
	Node string

	Index Index
	// Source also installs packages that are built from source, which runs their
	// code. Otherwise there must be a wheel.
	Source bool
	// Scripts runs what npm packages do after they are installed.
	Scripts bool
	// Limits are for each step; zero fields are what installing takes: 10 minutes,
	// 4 GiB of memory.
	Limits haft.Limits
	// Redact takes out of text what nobody may see; nil leaves it. Credentials in
	// URLs are taken out in any case.
	Redact func(string) string
}

// Index says where packages come from. The zero value is the public index.
type Index struct {
	// URL and Extra are Python indexes; Registry is npm's.
	URL      string
	Extra    []string
	Registry string
	// Wheels are directories with wheels, which are mounted.
	Wheels []string
	// Offline asks no index: what is needed is in Wheels, or in npm's cache.
	Offline bool
	// CA is a file of certificates that are trusted, and is mounted.
	CA string
	// Proxy is the URL of a proxy that all requests go through.
	Proxy string
	// Env is put into the environment of the installer, such as credentials. Build
	// code can read them if Source or Scripts is set: then let the proxy add them.
	Env []string
}

// installLimits are those of a step.
func installLimits() haft.Limits {
	return haft.Limits{
		Wall: haft.Millis(10 * time.Minute), CPU: haft.Millis(20 * time.Minute),
		Memory: 4 << 30, Processes: 256, OpenFiles: 4096,
		FileSize: 4 << 30, Disk: 8 << 30, Inodes: 1 << 19,
		Stdout: 16 << 20, Stderr: 16 << 20, Result: 1 << 10, Artifacts: 1, ArtBytes: 1 << 10,
	}
}

// maxResult bounds the files that an installer writes for us to read.
const maxResult = 64 << 20

// Resolve finds the exact packages that a set needs, of one kind ("pip" or "npm"),
// as a lock with hashes.
func (in *Installer) Resolve(ctx context.Context, kind string, set requirement.Set,
	progress func(string)) ([]byte, error) {
	if err := in.fits(ctx, kind, set); err != nil {
		return nil, err
	}
	st, done, err := in.step(kind, progress)
	if err != nil {
		return nil, err
	}
	defer done()
	if err := st.checkIndex(); err != nil {
		return nil, err
	}
	st.set = set
	p := st.program()
	if err := p.ask(set); err != nil {
		return nil, err
	}
	err = st.run(ctx, Command{Step: "resolve", Network: !in.Index.Offline, Env: p.env, Argv: p.resolve})
	if err != nil {
		return nil, err
	}
	text, err := st.scratch.read(p.result, maxResult)
	if err != nil {
		return nil, fmt.Errorf("read what %s resolved: %w", p.name, err)
	}
	return p.lock(text)
}

// A program is pip, uv or npm: what differs between them.
type program struct {
	name             string
	env              []string
	resolve, install []string // command lines
	result           string   // the file in scratch that resolve writes
	// ask writes the requirements for resolve, and lock makes a lock of its result.
	ask  func(requirement.Set) error
	lock func([]byte) ([]byte, error)
	// prepare checks a lock and writes it for install; empty means that there is nothing to
	// install. finish ends an installation.
	prepare func(lock []byte) (empty bool, err error)
	finish  func(context.Context) error
}

// program returns the one that installs packages of the step's kind.
func (st *step) program() program {
	switch {
	case st.kind == "npm":
		return st.npm()
	case st.in.UV != "":
		return st.uv()
	}
	return st.pip()
}

// fits refuses a set that needs another Python than there is.
func (in *Installer) fits(ctx context.Context, kind string, set requirement.Set) error {
	if kind != "pip" || len(set.Python) == 0 {
		return nil
	}
	runtime, err := in.Runtime(ctx, kind)
	if err != nil {
		return err
	}
	have := PythonVersion(runtime)
	for _, s := range set.Python {
		if !requirement.Fits([]requirement.Spec{s}, have) {
			return &haft.Error{Code: haft.CodeInvalid,
				Message: fmt.Sprintf("%s asks for Python %s%s, and here it is %.20s", s.From, s.Op, s.Version, have)}
		}
	}
	return nil
}

// Install returns the [Build] that installs a lock.
func (in *Installer) Install(kind string, lock []byte) Build {
	return func(ctx context.Context, dir string, progress func(string)) error {
		st, done, err := in.step(kind, progress)
		if err != nil {
			return err
		}
		defer done()
		if err := st.checkIndex(); err != nil {
			return err
		}
		st.files = scratch(dir)
		p := st.program()
		if empty, err := p.prepare(lock); err != nil || empty {
			return err
		}
		if err := st.run(ctx, Command{Step: "install", Network: !in.Index.Offline, Env: p.env,
			Argv: p.install}); err != nil {
			return err
		}
		return p.finish(ctx)
	}
}

// Runtime asks the interpreter of a kind for what [Want.Runtime] is to be.
func (in *Installer) Runtime(ctx context.Context, kind string) (string, error) {
	st, done, err := in.step(kind, nil)
	if err != nil {
		return "", err
	}
	defer done()
	argv := []string{in.Python, "-I", "-S", "-c", pythonProbe}
	if kind == "npm" {
		argv = []string{in.Node, "-p", nodeProbe}
	}
	var out bytes.Buffer
	if err := st.run(ctx, Command{Step: "probe", Argv: argv, Stdout: &out}); err != nil {
		return "", err
	}
	text := strings.TrimSpace(out.String())
	if text == "" || len(text) > 300 || strings.ContainsAny(text, "\n\r") {
		return "", fmt.Errorf("the interpreter for %s does not say what it is", kind)
	}
	if kind == "npm" && in.Scripts {
		text += " scripts" // they leave other files behind than the lock says
	}
	return text, nil
}

const (
	pythonProbe = "import sys, sysconfig; print(sys.implementation.name, '%d.%d.%d' % sys.version_info[:3], " +
		"sysconfig.get_config_var('SOABI'), sysconfig.get_platform())"
	nodeProbe = "['node', process.versions.node, process.versions.modules, process.platform, process.arch].join(' ')"
)

// PythonVersion returns the version that a runtime of Python names, or "".
func PythonVersion(runtime string) string {
	if f := strings.Fields(runtime); len(f) > 1 {
		return f[1]
	}
	return ""
}

// step is one task of an installer.
type step struct {
	in       *Installer
	kind     string
	progress func(string)
	scratch  scratch
	files    scratch // "" if nothing is installed
	set      requirement.Set
}

// step checks the configuration and makes a place to work.
func (in *Installer) step(kind string, progress func(string)) (*step, func(), error) {
	var mu sync.Mutex // both outputs of a command come at once
	report := func(line string) {
		mu.Lock()
		defer mu.Unlock()
		if progress != nil {
			progress(line)
		}
	}
	have := in.Python != ""
	if kind == "npm" {
		have = len(in.NPM) > 0
	}
	switch {
	case kind != "pip" && kind != "npm":
		return nil, nil, fmt.Errorf("there is no installer of the kind %q", kind)
	case !have:
		return nil, nil, &haft.Error{Code: haft.CodeUnavailable, Message: map[string]string{
			"pip": "Python packages cannot be installed: no Python with pip was found, and no uv",
			"npm": "npm packages cannot be installed: npm was not found"}[kind]}
	}
	dir, done, err := in.Scratch()
	if err != nil {
		return nil, nil, err
	}
	for _, sub := range []string{"tmp", "home"} {
		if err := scratch(dir).mkdir(sub); err != nil {
			done()
			return nil, nil, explain("make a directory", err)
		}
	}
	return &step{in: in, kind: kind, progress: report, scratch: scratch(dir)}, done, nil
}

// inside returns where a path below scratch is in the sandbox.
func (st *step) inside(name string) string {
	if st.in.Inside == "" {
		return st.scratch.join(name)
	}
	return path.Join(st.in.Inside, "scratch", name)
}

// target returns where the layer is in the sandbox.
func (st *step) target() string {
	if st.in.Inside == "" {
		return string(st.files)
	}
	return path.Join(st.in.Inside, "files")
}

// put writes a file for the installer to read.
func (st *step) put(name string, data []byte) error {
	return explain("write for the installer", st.scratch.put(name, data))
}

// checkIndex refuses an index that cannot be given to an installer safely.
func (st *step) checkIndex() error {
	ix := st.in.Index
	secret := len(ix.Env) > 0 ||
		credentials().MatchString(strings.Join(append([]string{ix.URL, ix.Registry, ix.Proxy}, ix.Extra...), " "))
	if secret && (st.kind == "pip" && st.in.Source || st.kind == "npm" && st.in.Scripts) {
		return &haft.Error{Code: haft.CodeDenied, Message: "" +
			"packages that run code when they are installed could read the credentials of the index: give the " +
			"credentials to the proxy, or install built packages only"}
	}
	for _, w := range slices.Concat(ix.Extra, ix.Wheels) {
		if strings.ContainsAny(w, " \t\n,") {
			return &haft.Error{Code: haft.CodeInvalid,
				Message: "an extra index or a directory of wheels has a space or a comma in its name, which pip " +
					"takes for two"}
		}
	}
	return nil
}

// mounts are the directories of the step and of the index.
func (st *step) mounts() []sandbox.Mount {
	out := []sandbox.Mount{{Host: string(st.scratch), Inside: st.inside(""), Writable: true}}
	if st.files != "" {
		out = append(out, sandbox.Mount{Host: string(st.files), Inside: st.target(), Writable: true})
	}
	for i, w := range st.wheels() {
		out = append(out, sandbox.Mount{Host: st.in.Index.Wheels[i], Inside: w})
	}
	if ca := st.ca(); ca != "" {
		out = append(out, sandbox.Mount{Host: st.in.Index.CA, Inside: ca})
	}
	return out
}

// wheels returns where the directories of wheels are in the sandbox.
func (st *step) wheels() []string {
	out := slices.Clone(st.in.Index.Wheels)
	for i := range out {
		if st.in.Inside != "" {
			out[i] = path.Join(st.in.Inside, fmt.Sprintf("wheels%d", i))
		}
	}
	return out
}

// ca returns where the file of certificates is in the sandbox, or "".
func (st *step) ca() string {
	if st.in.Inside != "" && st.in.Index.CA != "" {
		return path.Join(st.in.Inside, "ca.pem")
	}
	return st.in.Index.CA
}

// run runs one command and explains its failure.
func (st *step) run(ctx context.Context, c Command) error {
	c.Limits = st.in.Limits.Or(installLimits())
	if c.Mounts == nil {
		c.Mounts = st.mounts()
	}
	c.Env = append(st.env(c.Network), c.Env...)
	out := &output{st: st, also: c.Stdout}
	words := &output{st: st}
	c.Stdout, c.Stderr = out, words
	if c.Step == "probe" {
		out.silent, words.silent = true, true
	}
	// The sandbox has its own clock; this one is for one that does not end.
	bounded, cancel := context.WithTimeoutCause(ctx, c.Limits.Wall.D()+30*time.Second, errTooLong)
	defer cancel()
	bounded, stop := context.WithCancelCause(bounded)
	var guard sync.WaitGroup
	guard.Go(func() {
		st.scratch.watch(bounded, func(size int64, count int) error {
			if size <= c.Limits.Disk && int64(count) <= c.Limits.Inodes {
				return nil
			}
			return &haft.Error{Code: haft.CodeInvalid, Message: fmt.Sprintf(
				"the installer left more than %d MiB or %d files in its temporary directory, which is the most",
				c.Limits.Disk>>20, c.Limits.Inodes)}
		}, stop)
	})
	exit, err := st.in.Run(bounded, c)
	tooLarge, large := errors.AsType[*haft.Error](context.Cause(bounded))
	stop(nil)
	guard.Wait()
	out.flush()
	words.flush()
	if large && ctx.Err() == nil {
		return tooLarge
	}
	if err != nil {
		if errors.Is(context.Cause(bounded), errTooLong) {
			return st.failed(c.Step, sandbox.Exit{Cause: sandbox.CauseTimeout}, "")
		}
		return fmt.Errorf("run the installer: %w", err)
	}
	if err := ctx.Err(); err != nil {
		return context.Cause(ctx)
	}
	if exit.Cause == sandbox.CauseExit && exit.Code == 0 {
		return nil
	}
	return st.failed(c.Step, exit, words.tail()+"\n"+out.tail())
}

// errTooLong is why a step is given up that its sandbox did not end.
var errTooLong = errors.New("the installer does not end")

// env is what every command gets. Nothing is inherited.
func (st *step) env(network bool) []string {
	ix := st.in.Index
	bin := path.Dir(st.in.Python)
	if st.kind == "npm" {
		bin = path.Dir(st.in.NPM[0])
		if st.in.Node != "" {
			bin = path.Dir(st.in.Node)
		}
	}
	env := []string{
		"PATH=" + bin + ":/usr/local/bin:/usr/bin:/bin", "HOME=" + st.inside("home"), "TMPDIR=" + st.inside("tmp"),
		"LANG=C.UTF-8", "LC_ALL=C.UTF-8", "NO_COLOR=1", "CI=1", "PYTHONDONTWRITEBYTECODE=1", "PYTHONNOUSERSITE=1",
	}
	if ca := st.ca(); ca != "" {
		env = append(env, "SSL_CERT_FILE="+ca, "REQUESTS_CA_BUNDLE="+ca, "PIP_CERT="+ca, "NODE_EXTRA_CA_CERTS="+ca,
			"npm_config_cafile="+ca)
	}
	if !network {
		return env
	}
	if ix.Proxy != "" {
		env = append(env, "HTTP_PROXY="+ix.Proxy, "HTTPS_PROXY="+ix.Proxy, "http_proxy="+ix.Proxy,
			"https_proxy="+ix.Proxy,
			"npm_config_proxy="+ix.Proxy, "npm_config_https_proxy="+ix.Proxy)
	}
	return append(env, ix.Env...)
}
