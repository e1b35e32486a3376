// Package command resolves the command of an MCP server to the program, packages and files
// that run in the sandbox of tools.
package command

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"maps"
	"net"
	"os"
	"path"
	"slices"
	"strings"

	"haft"
	"haft/executor"
	"haft/executor/script"
	"haft/executor/upstream"
	"haft/internal/requirement"
	"haft/policy"
	"haft/sandbox"
	"haft/sandbox/hostpath"
)

// commandMemory is the default memory limit of a command: servers are whole programs, and
// many of them run on Node.js.
const commandMemory = 1 << 30

// Interpreters finds programs of the host.
type Interpreters interface {
	// Runtime finds the interpreter for tools of a kind.
	Runtime(ctx context.Context, kind haft.Kind) (*script.Runtime, error)
	// Program returns the path of a program, or "" if there is no such program.
	Program(name string) string
}

// A Resolver resolves the commands of MCP servers. All fields are required.
type Resolver struct {
	Provider sandbox.Provider
	// Name is the provider's.
	Name         string
	Need         sandbox.Need
	Interpreters Interpreters
	// Packages installs the packages of a set, as [supply.Supply.Provide] does.
	Packages func(ctx context.Context, set requirement.Set, source []byte, renew bool,
		progress func(string)) ([]executor.Layer, func(), error)
	// Rules returns the policy of an organisation.
	Rules func(ctx context.Context, org string) (*policy.Policy, error)
	// Guard has the paths that no command ever sees.
	Guard hostpath.Guard
}

// A Route is the egress session of a command.
type Route struct {
	Serve func(ctx context.Context, conn net.Conn)
	CA    []byte // certificates that the command has to trust
	Close func()
}

// Place returns the sandbox in which the command of an MCP server runs, with the files of
// the host that the program needs, the mounts of the server, and the route. The route is nil
// for a server without hosts.
func (r *Resolver) Place(ctx context.Context, s haft.MCPServer, env map[string]string,
	route *Route) (_ *upstream.Place, err error) {
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
	p := &upstream.Place{Provider: r.Provider, Name: r.Name, Done: done}
	limits := s.Limits
	if limits.Memory == 0 {
		limits.Memory = commandMemory
	}
	p.Spec.Limits, p.Spec.Need = limits.Or(haft.DefaultLimits()), r.Need
	var ca []byte
	if route != nil {
		ends = append(ends, route.Close)
		p.Spec.Network, p.Spec.ServeEgress = sandbox.NetworkEgress, route.Serve
		ca = route.CA
	}
	files, err := r.hostFiles(ctx, s.Org)
	if err != nil {
		return nil, err
	}
	ends = append(ends, files.Close)
	if err := files.rules.MayRun(s.Org, s.Command[0]); err != nil {
		return nil, err // policy has changed since the server was added
	}
	c, err := r.resolve(ctx, s, files)
	if err != nil {
		return nil, err
	}
	if c.release != nil {
		ends = append(ends, c.release)
	}
	outfit, err := script.NewProgramSpec(c.argv[0], c.mounts, p.Spec.Network, ca)
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

// resolved is a command in the form that a sandbox runs.
type resolved struct {
	argv    []string
	env     []string
	mounts  []sandbox.Mount // of the interpreter
	layers  []sandbox.Mount // of packages
	release func()          // gives the packages back
	// programs are the opened files, by their path.
	programs map[string]*hostpath.Path
}

// noCommand is the error about a command.
func noCommand(format string, args ...any) error {
	return &haft.Error{Code: haft.CodeInvalid, Message: "the command of the server: " + fmt.Sprintf(format, args...)}
}

// programDirs have programs of the host that servers call, such as git.
var programDirs = []string{"/usr/bin", "/bin"}

// resolve finds the program of a command. npx and uvx are not run: the package that they
// would fetch at every start is installed once, and its program is started.
func (r *Resolver) resolve(ctx context.Context, s haft.MCPServer, files *hostFiles) (*resolved, error) {
	name, args := s.Command[0], s.Command[1:]
	switch name { // only bare names: a path names a program of its own
	case "npx", "bunx":
		return r.npx(ctx, s, args)
	case "uvx", "pipx":
		return r.uvx(ctx, s, args)
	}
	c := &resolved{}
	needs := s.Requirements
	if kind := interpreterOf(name); kind != "" {
		rt, err := r.Interpreters.Runtime(ctx, kind)
		if err != nil {
			return nil, err
		}
		c.argv, c.mounts = append([]string{rt.Argv[0]}, args...), rt.Mounts
	} else {
		file := r.Interpreters.Program(name)
		if file == "" {
			return nil, noCommand("there is no such program here")
		}
		if err := r.program(ctx, c, files, file, args); err != nil {
			return nil, err
		}
	}
	c.tools()
	return c, r.packages(ctx, c, needs)
}

// tools adds the directories of the programs of the system.
func (c *resolved) tools() {
	for _, dir := range programDirs {
		if info, err := os.Stat(dir); err == nil && info.IsDir() {
			c.mounts = append(c.mounts, sandbox.Mount{Host: dir, Inside: dir})
		}
	}
}

// interpreterOf returns the kind of tools that a program is the interpreter of, or "".
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

// program makes the command for a file: the file itself, or the interpreter in its first
// line.
func (r *Resolver) program(ctx context.Context, c *resolved, files *hostFiles, file string, args []string) error {
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
		rt, err := r.Interpreters.Runtime(ctx, kind)
		if err != nil {
			return err
		}
		c.argv, c.mounts = slices.Concat([]string{rt.Argv[0]}, words[1:], []string{file}, args),
			append(c.mounts, rt.Mounts...)
		return nil
	}
	in := r.Interpreters.Program(words[0])
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

// firstLine reads the first line of a program.
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
