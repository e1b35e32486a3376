package supply

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"haft"
	"haft/executor/script"
	"haft/internal/layer"
	"haft/internal/requirement"
	"haft/sandbox"
)

// inside is the path of the directories of an installer in its sandbox.
const inside = "/build"

// tool is an installer for one interpreter.
type tool struct {
	installer *layer.Installer
	runtime   string // what layers are built for
	digest    string // of the interpreter
}

// installer returns the installer of a kind, and the runtime that its layers are built for.
func (s *Supply) installer(ctx context.Context, kind string, progress func(string)) (*layer.Installer, string, error) {
	rt, err := s.find(ctx, map[string]haft.Kind{"pip": haft.KindPython, "npm": haft.KindJavaScript}[kind])
	if err != nil {
		return nil, "", err
	}
	s.mu.Lock()
	t := s.tools[kind]
	s.mu.Unlock()
	if t != nil && t.digest == rt.Digest {
		return t.installer, t.runtime, nil
	}
	st, err := s.Store()
	if err != nil {
		return nil, "", err
	}
	in := &layer.Installer{
		Scratch: st.Scratch, Index: s.cfg.Index, Source: s.cfg.Source, Scripts: s.cfg.Scripts, Limits: s.cfg.Limits,
		Redact: s.redactor(),
	}
	confines := s.confines(ctx)
	if confines {
		in.Inside = inside
		in.Index.Proxy = "http://" + sandbox.EgressAddr
	} else if s.cfg.Source || s.cfg.Scripts {
		return nil, "", &haft.Error{Code: haft.CodeDenied,
			Message: "packages may run code when they are installed, and this sandbox confines neither files nor " +
				"network: install built packages only, or use a sandbox that has namespaces"}
	}
	mounts, err := s.equip(in, kind, rt)
	if err != nil {
		return nil, "", err
	}
	in.Run = s.runner(kind, confines, mounts)
	runtime, err := s.runtime(ctx, in, kind, rt.Digest)
	if err != nil {
		return nil, "", err
	}
	if kind == "pip" && s.cfg.Installer == "uv" && in.UV == "" {
		if err := s.fetchUV(ctx, in, runtime, mounts, progress); err != nil {
			return nil, "", err
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.tools[kind] = &tool{installer: in, runtime: runtime, digest: rt.Digest}
	return in, runtime, nil
}

// confines reports whether the sandbox has files and a network of its own.
func (s *Supply) confines(ctx context.Context) bool {
	iso, err := s.provider.Isolation(ctx)
	return err == nil && iso.Has(haft.ControlMountNS) && iso.Has(haft.ControlNetNS)
}

// equip finds the programs of an installer, and returns their mounts.
func (s *Supply) equip(in *layer.Installer, kind string, rt *script.Runtime) ([]sandbox.Mount, error) {
	var need []string
	if kind == "npm" {
		file, dir := s.findNPM(rt.Argv[0])
		if file == "" {
			return nil, &haft.Error{Code: haft.CodeUnavailable,
				Message: "npm packages cannot be installed: Node.js is here, but npm was not found; install it, or " +
					"put it on the path"}
		}
		in.Node, in.NPM = rt.Argv[0], []string{rt.Argv[0], file}
		need = append(need, dir)
	} else {
		in.Python, in.Pip = rt.Argv[0], []string{rt.Argv[0], "-I", "-c", pipStart(rt.Paths)}
		need = append(need, bundledWheels)
		if s.cfg.Installer != "pip" {
			if in.UV = s.lookPath("uv"); in.UV != "" {
				need = append(need, in.UV)
			}
		}
	}
	mounts := slices.Clone(rt.Mounts)
	for _, n := range need {
		if _, err := os.Stat(n); err == nil && !slices.ContainsFunc(mounts,
			func(m sandbox.Mount) bool { return n == m.Host || strings.HasPrefix(n, m.Host+"/") }) {
			mounts = append(mounts, sandbox.Mount{Host: n, Inside: n})
		}
	}
	return mounts, nil
}

// bundledWheels is where Debian has the wheels that ensurepip installs.
const bundledWheels = "/usr/share/python-wheels"

// pipStart is the program that starts pip: the pip of the interpreter, or else the wheel of
// ensurepip, which can be run directly.
func pipStart(paths []string) string {
	return fmt.Sprintf(`
import sys, os, glob, runpy
for p in %s:
    if p not in sys.path:
        sys.path.append(p)
try:
    import pip
except ImportError:
    found = []
    try:
        import ensurepip
        found += glob.glob(os.path.join(os.path.dirname(ensurepip.__file__), "_bundled", "pip-*.whl"))
    except ImportError:
        pass
    found += glob.glob(%q)
    if not found:
        sys.exit("No module named pip")
    sys.path.insert(0, sorted(found)[-1])
sys.argv[0] = "pip"
runpy.run_module("pip", run_name="__main__", alter_sys=True)
`, pyList(paths), bundledWheels+"/pip-*.whl")
}

// pyList writes texts as a Python list. Paths of the host come from its interpreter; %q of
// Go is a Python literal for printable text.
func pyList(list []string) string {
	var quoted []string
	for _, p := range list {
		quoted = append(quoted, fmt.Sprintf("%+q", p))
	}
	return "[" + strings.Join(quoted, ", ") + "]"
}

// lookPath returns the path of a program, or "".
func (s *Supply) lookPath(name string) string {
	for _, dir := range filepath.SplitList(s.cfg.Path) {
		file := filepath.Join(dir, name)
		if info, err := os.Stat(file); err == nil && filepath.IsAbs(file) && info.Mode().IsRegular() &&
			info.Mode()&0o111 != 0 {
			if real, err := filepath.EvalSymlinks(file); err == nil && !isScript(real) {
				return real
			}
		}
	}
	return ""
}

// isScript reports whether a file is a script, such as the shims of version managers, which
// do not work in a sandbox.
func isScript(file string) bool {
	f, err := os.Open(file)
	if err != nil {
		return true
	}
	defer f.Close()
	var head [2]byte
	n, err := f.Read(head[:])
	return err != nil || string(head[:n]) == "#!"
}

// findNPM returns the path of npm-cli.js, and the directory that it needs.
func (s *Supply) findNPM(node string) (file, dir string) {
	var list []string
	for _, d := range filepath.SplitList(s.cfg.Path) {
		if real, err := filepath.EvalSymlinks(filepath.Join(d, "npm")); err == nil && filepath.IsAbs(real) {
			list = append(list, real)
		}
	}
	list = append(list, filepath.Join(filepath.Dir(filepath.Dir(node)), "lib/node_modules/npm/bin/npm-cli.js"),
		"/usr/lib/node_modules/npm/bin/npm-cli.js", "/usr/share/nodejs/npm/bin/npm-cli.js",
		"/usr/share/npm/bin/npm-cli.js")
	for _, f := range list {
		info, err := os.Stat(f)
		if err != nil || !info.Mode().IsRegular() || !strings.HasSuffix(f, ".js") {
			continue
		}
		// Debian has the packages that npm needs beside it.
		if strings.HasPrefix(f, "/usr/share/nodejs/") {
			return f, "/usr/share/nodejs"
		}
		return f, filepath.Dir(filepath.Dir(f))
	}
	return "", ""
}

// runner returns a function that runs the commands of an installer.
func (s *Supply) runner(kind string, confines bool, mounts []sandbox.Mount) layer.Run {
	return func(ctx context.Context, c layer.Command) (sandbox.Exit, error) {
		spec := c.Spec()
		spec.Mounts = append(slices.Clone(mounts), spec.Mounts...)
		spec.Need = s.cfg.Need
		if !confines && c.Network {
			spec.Network = sandbox.NetworkFull // no code of a package runs: see installer
		}
		if confines && c.Network {
			proxy, err := s.cfg.proxy(kind)
			if err != nil {
				return sandbox.Exit{}, err
			}
			defer proxy.Close()
			spec.Network = sandbox.NetworkEgress
			spec.ServeEgress = func(ctx context.Context, conn net.Conn) {
				if err := proxy.ServeConn(ctx, conn); err != nil {
					s.cfg.Logger.Debug("a connection of an installer ended", "err", err)
				}
			}
		}
		return s.provider.Run(ctx, spec)
	}
}

// redactor returns a function that removes the credentials of the index from texts.
func (s *Supply) redactor() func(string) string {
	hidden := s.cfg.hidden()
	return func(text string) string {
		for _, h := range hidden {
			text = strings.ReplaceAll(text, h, "[secret]")
		}
		return text
	}
}

// runtime asks an interpreter for the runtime that layers are built for, or remembers it.
func (s *Supply) runtime(ctx context.Context, in *layer.Installer, kind, digest string) (string, error) {
	name := fmt.Sprintf("runtime-%s-%s-%t", kind, digest, s.cfg.Scripts)
	if text, ok := s.recall(name); ok {
		return string(text), nil
	}
	text, err := in.Runtime(ctx, kind)
	if err != nil {
		return "", err
	}
	s.remember(name, []byte(text))
	return text, nil
}

// uvNeeds is the requirement for uv, if it is configured and not installed.
const uvNeeds = "uv>=0.5"

// uvInside is the path of uv in a sandbox. The path of the layer may be one that a sandbox
// uses itself, such as below /tmp.
const uvInside = "/opt/haft/uv"

// fetchUV installs uv into a layer with pip, and makes in use it.
func (s *Supply) fetchUV(ctx context.Context, in *layer.Installer, runtime string, mounts []sandbox.Mount,
	progress func(string)) error {
	set, err := requirement.Parse("the installer", []string{uvNeeds}, nil)
	if err != nil {
		return err
	}
	text, known := s.recall("uv-" + safeName(runtime))
	if !known {
		report(progress, "fetching uv")
		if text, err = in.Resolve(ctx, "pip", set, progress); err != nil {
			return err
		}
		s.remember("uv-"+safeName(runtime), text)
	}
	st, err := s.Store()
	if err != nil {
		return err
	}
	want := layer.Want{Kind: "pip", Runtime: runtime, Lock: text, Progress: progress}
	l, err := st.Layer(ctx, want, in.Install("pip", text))
	if err != nil {
		return err
	}
	s.keep(want.Digest(), l, nil)
	l.Close()
	file := filepath.Join(l.Dir, "bin", "uv")
	if _, err := os.Stat(file); err != nil {
		return fmt.Errorf("look for uv in its layer: %w", err)
	}
	if in.UV = file; in.Inside != "" {
		in.UV = uvInside
	}
	in.Run = s.runner("pip", in.Inside != "", append(slices.Clone(mounts), sandbox.Mount{Host: file, Inside: in.UV}))
	return nil
}
