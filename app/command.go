package app

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"haft"
	"haft/executor/script"
	"haft/executor/upstream"
	"haft/internal/requirement"
	"haft/sandbox"
	"haft/sandbox/hostpath"
)

// commandMemory is what the command of an MCP server may use where nothing is
// said: servers are whole programs, and many of them Node's.
const commandMemory = 1 << 30

// place finds where the command of an MCP server runs: in the sandbox of tools,
// with what the program needs of the host, the mounts that it was given, and a way
// out to the hosts that it was given.
func (u *upstreams) place(ctx context.Context, s haft.MCPServer, env map[string]string) (_ *upstream.Place, err error) {
	a := u.service.App
	var ends []func()
	done := func() {
		for _, end := range slices.Backward(ends) {
			end()
		}
	}
	defer func() {
		if err != nil {
			done()
		}
	}()
	p := &upstream.Place{Provider: a.provider, Name: a.name, Done: done}
	limits := s.Limits
	if limits.Memory == 0 {
		limits.Memory = commandMemory
	}
	p.Spec.Limits, p.Spec.Need = limits.Or(haft.DefaultLimits()), a.cfg.Need
	var ca []byte
	if len(s.Network) > 0 {
		way, end, err := u.serverWay(ctx, s, env)
		if err != nil {
			return nil, err
		}
		ends = append(ends, end)
		p.Spec.Network, p.Spec.Outlet = sandbox.NetworkOutlet, way.Passage.Serve
		ca = way.CA
	}
	files, err := u.hostFiles(ctx, s.Org)
	if err != nil {
		return nil, err
	}
	ends = append(ends, files.Close)
	if err := files.rules.MayRun(s.Org, s.Command[0]); err != nil {
		return nil, err // it was allowed when the server was added
	}
	c, err := a.resolve(ctx, s, files)
	if err != nil {
		return nil, err
	}
	if c.release != nil {
		ends = append(ends, c.release)
	}
	outfit, err := script.Outfits(c.argv[0], c.mounts, p.Spec.Network, ca)
	if err != nil {
		return nil, err
	}
	p.Spec.Argv, p.Spec.Files = c.argv, outfit.Files
	p.Spec.Env = slices.Concat(outfit.Env, c.env)
	for _, name := range slices.Sorted(maps.Keys(env)) {
		p.Spec.Env = append(p.Spec.Env, name+"="+env[name])
	}
	p.Spec.Mounts, err = files.place(s, slices.Concat(outfit.Mounts, c.layers), c.programs)
	return p, err
}

// resolved is a command as a sandbox runs it.
type resolved struct {
	argv    []string
	env     []string
	mounts  []sandbox.Mount // of the interpreter
	layers  []sandbox.Mount // of packages
	release func()          // gives the packages back
	// programs are the files that were opened, by the path that names them.
	programs map[string]*hostpath.Path
}

// noCommand says what is wrong with a command.
func noCommand(format string, args ...any) error {
	return &haft.Error{Code: haft.CodeInvalid, Message: "the command of the server: " + fmt.Sprintf(format, args...)}
}

// programs of the host that servers call, such as git.
var programDirs = []string{"/usr/bin", "/bin"}

// resolve finds the program of a command. npx and uvx are not run themselves: what
// they would fetch at every start is installed once, and started.
func (a *App) resolve(ctx context.Context, s haft.MCPServer, files *hostFiles) (*resolved, error) {
	name, args := s.Command[0], s.Command[1:]
	switch name { // a path is a program of its own, whatever it is called
	case "npx", "bunx":
		return a.npx(ctx, s, args)
	case "uvx", "pipx":
		return a.uvx(ctx, s, args)
	}
	c := &resolved{}
	needs := s.Requirements
	if kind := interpreterOf(name); kind != "" {
		rt, err := a.Runtime(ctx, kind)
		if err != nil {
			return nil, err
		}
		c.argv, c.mounts = append([]string{rt.Argv[0]}, args...), rt.Mounts
	} else {
		file := a.finder.Program(name)
		if file == "" {
			return nil, noCommand("there is no such program here")
		}
		if err := a.program(ctx, c, files, file, args); err != nil {
			return nil, err
		}
	}
	c.tools()
	return c, a.packages(ctx, c, needs)
}

// tools adds the programs of the system.
func (c *resolved) tools() {
	for _, dir := range programDirs {
		if info, err := os.Stat(dir); err == nil && info.IsDir() {
			c.mounts = append(c.mounts, sandbox.Mount{Host: dir, Inside: dir})
		}
	}
}

// interpreterOf says for which kind of tools a program is the interpreter.
func interpreterOf(name string) haft.Kind {
	if strings.Contains(name, "/") {
		return ""
	}
	switch {
	case name == "node" || name == "nodejs":
		return haft.KindJavaScript
	case name == "python" || name == "python3":
		return haft.KindPython
	case name == "bash":
		return haft.KindBash
	}
	return ""
}

// program makes the command of a file: of itself, or of the interpreter that its
// first line names.
func (a *App) program(ctx context.Context, c *resolved, files *hostFiles, file string, args []string) error {
	p, err := files.program(file)
	if err != nil {
		return err
	}
	line, err := firstLine(p)
	if err != nil {
		return noCommand("the program cannot be read")
	}
	c.programs = map[string]*hostpath.Path{file: p}
	c.mounts = append(c.mounts, sandbox.Mount{Host: file, Inside: file})
	shebang, ok := strings.CutPrefix(line, "#!")
	if !ok {
		c.argv = append([]string{file}, args...)
		return nil
	}
	words := strings.Fields(shebang)
	if len(words) > 1 && path.Base(words[0]) == "env" {
		words = words[1:]
	}
	if len(words) == 0 {
		return noCommand("its first line names no interpreter")
	}
	if kind := interpreterOf(path.Base(words[0])); kind != "" {
		rt, err := a.Runtime(ctx, kind)
		if err != nil {
			return err
		}
		c.argv, c.mounts = slices.Concat([]string{rt.Argv[0]}, words[1:], []string{file}, args),
			append(c.mounts, rt.Mounts...)
		return nil
	}
	in := a.finder.Program(words[0])
	if in == "" || !files.mayInterpret(words[0], in) {
		return noCommand("the interpreter that its first line names is not here, or may not be used")
	}
	if c.programs[in], err = files.program(in); err != nil {
		return err
	}
	c.argv = slices.Concat([]string{in}, words[1:], []string{file}, args)
	c.mounts = append(c.mounts, sandbox.Mount{Host: in, Inside: in})
	return nil
}

// firstLine reads the beginning of a program.
func firstLine(p *hostpath.Path) (string, error) {
	f, err := p.Read()
	if err != nil {
		return "", err
	}
	defer f.Close() // only read
	line, err := bufio.NewReader(io.LimitReader(f, 512)).ReadString('\n')
	if err != nil && err != io.EOF { //nolint:errorlint // of a reader that wraps nothing
		return "", err
	}
	return strings.TrimSpace(line), nil
}

// packages adds what a server requires.
func (a *App) packages(ctx context.Context, c *resolved, needs haft.Requirements) error {
	if len(needs.Pip)+len(needs.NPM) == 0 {
		return nil
	}
	layers, release, err := a.installed(ctx, needs)
	if err != nil {
		return err
	}
	c.layers, c.release = layers, release
	for _, l := range layers {
		if path.Base(l.Inside) != "node_modules" {
			c.env = append(c.env, "PYTHONPATH="+l.Inside)
		}
	}
	return nil
}

// npx is `npx [-y] [-p PACKAGE] PACKAGE[@VERSION] ARGS…`.
func (a *App) npx(ctx context.Context, s haft.MCPServer, args []string) (*resolved, error) {
	pkg, bin := "", ""
	for len(args) > 0 && pkg == "" {
		switch arg := args[0]; {
		case arg == "-y" || arg == "--yes" || arg == "-q" || arg == "--quiet" || arg == "--":
		case (arg == "-p" || arg == "--package") && len(args) > 1:
			pkg, args = args[1], args[1:]
			for len(args) > 1 && (args[1] == "-y" || args[1] == "--yes" || args[1] == "--") {
				args = args[1:]
			}
			if len(args) > 1 {
				bin, args = args[1], args[1:]
			}
		case strings.HasPrefix(arg, "-"):
			return nil, noCommand("npx is not given %s here: only -y, -p and a package", arg)
		default:
			pkg = arg
		}
		args = args[1:]
	}
	if pkg == "" {
		return nil, noCommand("npx needs the name of a package")
	}
	rt, err := a.Runtime(ctx, haft.KindJavaScript)
	if err != nil {
		return nil, err
	}
	c := &resolved{mounts: slices.Clone(rt.Mounts)}
	needs := s.Requirements
	needs.NPM = append([]string{pkg}, needs.NPM...)
	if err := a.packages(ctx, c, needs); err != nil {
		return nil, err
	}
	name := pkg
	if i := strings.LastIndexByte(pkg, '@'); i > 0 {
		name = pkg[:i]
	}
	for _, l := range c.layers {
		if path.Base(l.Inside) != "node_modules" {
			continue
		}
		entry, err := binOf(filepath.Join(l.Host, name), bin)
		if err != nil {
			c.release()
			return nil, err
		}
		c.argv = slices.Concat([]string{rt.Argv[0], path.Join(l.Inside, name, entry)}, args)
	}
	if c.argv == nil {
		c.release()
		return nil, noCommand("the package was not installed")
	}
	c.tools()
	return c, nil
}

// maxPackage bounds the description of a package.
const maxPackage = 1 << 20

// binOf returns the program of an installed npm package.
func binOf(dir, bin string) (string, error) {
	f, err := os.Open(filepath.Join(dir, "package.json"))
	if err != nil {
		return "", noCommand("the package was not installed")
	}
	defer f.Close() // only read
	raw, err := io.ReadAll(io.LimitReader(f, maxPackage))
	if err != nil {
		return "", fmt.Errorf("read the description of a package: %w", err)
	}
	var pkg struct {
		Name string          `json:"name"`
		Bin  json.RawMessage `json:"bin"`
	}
	if err := json.Unmarshal(raw, &pkg); err != nil {
		return "", noCommand("the description of the package cannot be read")
	}
	one, many := "", map[string]string{}
	if json.Unmarshal(pkg.Bin, &one) == nil && one != "" {
		many[path.Base(pkg.Name)] = one
	} else if err := json.Unmarshal(pkg.Bin, &many); err != nil || len(many) == 0 {
		return "", noCommand("the package has no program")
	}
	file, ok := many[bin]
	if bin == "" {
		if file, ok = many[path.Base(pkg.Name)]; !ok && len(many) == 1 {
			for _, file = range many {
				ok = true
			}
		}
	}
	if !ok {
		return "", noCommand("the package has several programs: say which with -p PACKAGE PROGRAM")
	}
	if clean := path.Clean(file); !filepath.IsLocal(clean) {
		return "", noCommand("the program of the package is outside of it")
	}
	return path.Clean(file), nil
}

// runEntry runs what a Python package installs as a program. First it takes the working
// directory off the path, as -P does since Python 3.11: what is written or mounted there
// must not stand for a module of the program. sys itself is built in.
const runEntry = `import sys
if not getattr(sys.flags, "safe_path", False):
    del sys.path[0]
from importlib.metadata import entry_points
name = sys.argv[1]
del sys.argv[1]
sys.argv[0] = name
try:
    found = entry_points(group="console_scripts")
except TypeError:
    found = entry_points().get("console_scripts", [])
for e in found:
    if e.name == name:
        sys.exit(e.load()())
sys.exit("the package has no program " + name)
`

// uvx is `uvx [--from PACKAGE] PROGRAM[@VERSION] ARGS…`.
func (a *App) uvx(ctx context.Context, s haft.MCPServer, args []string) (*resolved, error) {
	from := ""
	if len(args) > 0 && args[0] == "run" {
		args = args[1:] // of pipx
	}
	for len(args) > 1 && args[0] == "--from" {
		from, args = args[1], args[2:]
	}
	if len(args) == 0 || strings.HasPrefix(args[0], "-") {
		return nil, noCommand("uvx is given [--from PACKAGE] and a program here, and nothing else before it")
	}
	name, version, pinned := strings.Cut(args[0], "@")
	if from == "" {
		if from = name; pinned && version != "latest" {
			from += "==" + version
		}
	}
	rt, err := a.Runtime(ctx, haft.KindPython)
	if err != nil {
		return nil, err
	}
	needs := s.Requirements
	needs.Pip = append([]string{from}, needs.Pip...)
	c := &resolved{mounts: slices.Clone(rt.Mounts)}
	c.argv = slices.Concat([]string{rt.Argv[0], "-c", runEntry, name}, args[1:])
	c.tools()
	return c, a.packages(ctx, c, needs)
}

// installed has packages installed, and returns where they are.
func (a *App) installed(ctx context.Context, needs haft.Requirements) ([]sandbox.Mount, func(), error) {
	set, err := requirement.Parse("the server", needs.Pip, needs.NPM)
	if err != nil {
		return nil, nil, err
	}
	layers, release, err := a.Supply.Provide(ctx, set, nil, false, func(string) {})
	if err != nil {
		return nil, nil, err
	}
	var mounts []sandbox.Mount
	for _, l := range layers {
		mounts = append(mounts, sandbox.Mount{Host: l.Dir, Inside: l.Inside})
	}
	return mounts, release, nil
}
