package command

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"haft"
	"haft/internal/requirement"
	"haft/sandbox"
)

// packages installs the packages that a server requires.
func (r *Resolver) packages(ctx context.Context, c *resolved, needs haft.Requirements) error {
	if len(needs.Pip)+len(needs.NPM) == 0 {
		return nil
	}
	layers, release, err := r.installed(ctx, needs)
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

// npx resolves `npx [-y] [-p PACKAGE] PACKAGE[@VERSION] ARGS…`.
func (r *Resolver) npx(ctx context.Context, s haft.MCPServer, args []string) (*resolved, error) {
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
	rt, err := r.Interpreters.Runtime(ctx, haft.KindJavaScript)
	if err != nil {
		return nil, err
	}
	c := &resolved{mounts: slices.Clone(rt.Mounts)}
	needs := s.Requirements
	needs.NPM = append([]string{pkg}, needs.NPM...)
	if err := r.packages(ctx, c, needs); err != nil {
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

// maxPackage bounds the size of a package.json.
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

// runEntry runs a console script of a Python package. First it removes the working directory
// from sys.path, as -P does since Python 3.11: a file that is written or mounted there must
// not replace a module of the program. sys itself is built in.
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

// uvx resolves `uvx [--from PACKAGE] PROGRAM[@VERSION] ARGS…`.
func (r *Resolver) uvx(ctx context.Context, s haft.MCPServer, args []string) (*resolved, error) {
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
	rt, err := r.Interpreters.Runtime(ctx, haft.KindPython)
	if err != nil {
		return nil, err
	}
	needs := s.Requirements
	needs.Pip = append([]string{from}, needs.Pip...)
	c := &resolved{mounts: slices.Clone(rt.Mounts)}
	c.argv = slices.Concat([]string{rt.Argv[0], "-c", runEntry, name}, args[1:])
	c.tools()
	return c, r.packages(ctx, c, needs)
}

// installed installs packages, and returns their mounts.
func (r *Resolver) installed(ctx context.Context, needs haft.Requirements) ([]sandbox.Mount, func(), error) {
	set, err := requirement.Parse("the server", needs.Pip, needs.NPM)
	if err != nil {
		return nil, nil, err
	}
	layers, release, err := r.Packages(ctx, set, nil, false, func(string) {})
	if err != nil {
		return nil, nil, err
	}
	var mounts []sandbox.Mount
	for _, l := range layers {
		mounts = append(mounts, sandbox.Mount{Host: l.Dir, Inside: l.Inside})
	}
	return mounts, release, nil
}
