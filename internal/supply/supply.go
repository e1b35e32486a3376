package supply

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"haft"
	"haft/executor"
	"haft/executor/script"
	"haft/internal/advisory"
	"haft/internal/layer"
	"haft/internal/requirement"
	"haft/sandbox"
)

// Config says where packages come from and where layers are stored. Dir is required.
type Config struct {
	// Dir is the directory of the layers. It is made at first use.
	Dir   string
	Index layer.Index
	// Hosts are more hosts that serve files of the index, as network rules.
	Hosts []string
	// Installer is "auto", "uv" or "pip"; "" means auto.
	Installer string
	// Source allows packages to be built from source, and Scripts allows npm packages to run
	// their scripts. Both run code of the packages, in the sandbox.
	Source, Scripts bool
	// Limits bound each step of an installation; zero fields get defaults.
	Limits haft.Limits
	// Verify compares all files of a layer with their hashes before its first use in this
	// process. Without it only sizes are compared.
	Verify bool
	// MaxBytes is the intended size of all layers together: after a build, unused layers are
	// removed. 0 means 20 GiB.
	MaxBytes int64
	// Need refuses to install with less isolation than this.
	Need sandbox.Need
	// Path is the search path for installers, in the form of $PATH.
	Path string
	// Remember takes the locks of the last time for requirements that an organisation has no lock for, as haft run
	// does, and not the newest packages.
	Remember bool
	// Advisories is a file, a directory or a zip archive of known vulnerabilities in the OSV format.
	Advisories string
	// Logger gets messages that an operator can act on. Nil discards them.
	Logger *slog.Logger
}

// defaultMaxBytes is the default of [Config.MaxBytes].
const defaultMaxBytes = 20 << 30

// spare is how long an unused layer is kept even if all layers together are too large.
const spare = time.Hour

// A Finder finds interpreters, as [script.Finder.Find] does for one configuration.
type Finder func(ctx context.Context, kind haft.Kind) (*script.Runtime, error)

// A Lock is the exact packages of one kind, "pip" or "npm".
type Lock struct {
	Kind string
	Text []byte
}

// A Supply locks and installs packages. It is safe for concurrent use.
//
// Lifecycle: New, anything, Close. Layers that are in use outlive it.
type Supply struct {
	cfg      Config
	provider sandbox.Provider
	find     Finder

	advisories *advisory.Scanner

	opening sync.Mutex
	layers  *layer.Store // nil before its first use
	closed  bool

	mu    sync.Mutex
	tools map[string]*tool // by kind
	kept  map[string]*kept // open layers, by digest
}

// New returns a supply that installs in provider.
func New(provider sandbox.Provider, find Finder, cfg Config) *Supply {
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	if cfg.MaxBytes <= 0 {
		cfg.MaxBytes = defaultMaxBytes
	}
	return &Supply{cfg: cfg, provider: provider, find: find, advisories: advisory.New(cfg.Advisories),
		tools: map[string]*tool{}, kept: map[string]*kept{}}
}

// Store returns the layers, opened if need be.
func (s *Supply) Store() (*layer.Store, error) {
	s.opening.Lock()
	defer s.opening.Unlock()
	switch {
	case s.closed:
		return nil, &haft.Error{Code: haft.CodeUnavailable, Message: "the server is stopping"}
	case s.layers != nil:
		return s.layers, nil
	}
	st, err := layer.Open(layer.Config{Dir: s.cfg.Dir, Quick: !s.cfg.Verify})
	if err != nil {
		return nil, err
	}
	s.layers = st
	return st, nil
}

// Close stops builds and lets go of the layers that nobody uses.
func (s *Supply) Close() error {
	s.opening.Lock()
	s.closed = true
	st := s.layers
	s.opening.Unlock()
	s.mu.Lock()
	kept := s.kept
	s.kept = nil
	s.mu.Unlock()
	for _, k := range kept {
		k.idle.Stop()
		k.layer.Close()
	}
	if st == nil {
		return nil
	}
	return st.Close()
}

// kinds returns the installers that a set needs, in order.
func kinds(set requirement.Set) []string {
	var list []string
	if len(set.Pip) > 0 || len(set.Python) > 0 {
		list = append(list, "pip")
	}
	if len(set.NPM) > 0 {
		list = append(list, "npm")
	}
	return list
}

// Lock finds the exact packages for a set of requirements. Progress, if not nil, is called
// with lines of progress.
func (s *Supply) Lock(ctx context.Context, set requirement.Set, progress func(string)) ([]Lock, error) {
	var locks []Lock
	for _, kind := range kinds(set) {
		in, _, err := s.installer(ctx, kind, progress)
		if err != nil {
			return nil, err
		}
		report(progress, "finding the exact packages ("+kind+")")
		text, err := in.Resolve(ctx, kind, set, progress)
		if err != nil {
			return nil, err
		}
		locks = append(locks, Lock{Kind: kind, Text: text})
	}
	return locks, nil
}

// report passes a line to progress, if it is not nil.
func report(progress func(string), line string) {
	if progress != nil {
		progress(line)
	}
}

// Open returns the layers of locks, and installs missing ones. Source is that of the tool,
// for its imports. Release gives the layers back when the call has ended.
func (s *Supply) Open(ctx context.Context, locks []Lock, source string,
	progress func(string)) (list []executor.Layer, release func(), err error) {
	var done []func()
	free := func() {
		for _, d := range done {
			d()
		}
	}
	defer func() {
		if err != nil {
			free()
		}
	}()
	for _, lock := range locks {
		l, names, err := s.open(ctx, lock, progress)
		if err != nil {
			return nil, nil, err
		}
		done = append(done, func() { l.Close() })
		e := executor.Layer{Digest: l.Info.Digest, Dir: l.Dir, Hold: func() (func(), bool) {
			again, ok := l.Hold()
			if !ok {
				return nil, false
			}
			return func() { again.Close() }, true
		}}
		e.Inside = layer.PythonDir
		if lock.Kind == "npm" {
			e.Dir, e.Inside = filepath.Join(l.Dir, "node_modules"), layer.NodeDir
		} else {
			e.Imports = imports(source, names)
		}
		if !s.confines(ctx) {
			e.Inside = e.Dir
		}
		list = append(list, e)
	}
	return list, free, nil
}

// Ready reports whether all layers of locks are open already.
func (s *Supply) Ready(locks []Lock) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return !slices.ContainsFunc(locks, func(l Lock) bool {
		t := s.tools[l.Kind]
		return t == nil || s.kept[l.want(t.runtime).Digest()] == nil
	})
}

// want identifies the layer of a lock.
func (l Lock) want(runtime string) layer.Want {
	return layer.Want{Kind: l.Kind, Runtime: runtime, Lock: l.Text}
}

// kept is a layer that stays open for a while after its last use. That is longer than
// sandboxes stay idle, so that those can be replaced without a call.
type kept struct {
	layer *layer.Layer
	names []string // what can be imported from it
	idle  *time.Timer
}

// keepFor is how long an unused layer stays open.
const keepFor = 15 * time.Minute

// open returns a layer for one use, and its modules.
func (s *Supply) open(ctx context.Context, lock Lock, progress func(string)) (*layer.Layer, []string, error) {
	in, runtime, err := s.installer(ctx, lock.Kind, progress)
	if err != nil {
		return nil, nil, err
	}
	want := lock.want(runtime)
	digest := want.Digest()
	if l, names := s.held(digest); l != nil {
		return l, names, nil
	}
	st, err := s.Store()
	if err != nil {
		return nil, nil, err
	}
	want.Progress = progress
	built := false
	l, err := st.Layer(ctx, want, func(ctx context.Context, dir string, progress func(string)) error {
		built = true
		progress("installing packages (" + lock.Kind + ")")
		return in.Install(lock.Kind, lock.Text)(ctx, dir, progress)
	})
	if err != nil {
		return nil, nil, err
	}
	names := moduleNames(l.Dir)
	s.keep(digest, l, names)
	if built {
		s.tidy(ctx, st)
	}
	return l, names, nil
}

// held returns an open layer for one more use, or nil.
func (s *Supply) held(digest string) (*layer.Layer, []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	k := s.kept[digest]
	if k == nil {
		return nil, nil
	}
	l, ok := k.layer.Hold()
	if !ok {
		return nil, nil
	}
	k.idle.Reset(keepFor)
	return l, k.names
}

// keep keeps a layer open.
func (s *Supply) keep(digest string, l *layer.Layer, names []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.kept == nil || s.kept[digest] != nil {
		return // closed, or another goroutine was faster
	}
	own, ok := l.Hold()
	if !ok {
		return
	}
	k := &kept{layer: own, names: names}
	k.idle = time.AfterFunc(keepFor, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.kept[digest] == k {
			delete(s.kept, digest)
			own.Close()
		}
	})
	s.kept[digest] = k
}

// tidy removes unused layers if all together are too large.
func (s *Supply) tidy(ctx context.Context, st *layer.Store) {
	swept, err := st.GC(ctx, s.cfg.MaxBytes, spare)
	if err != nil {
		s.cfg.Logger.Warn("installed packages that are not used could not be removed", "err", err)
		return
	}
	if len(swept.Removed) > 0 {
		s.cfg.Logger.Info("removed installed packages that were not used", "layers", len(swept.Removed), "bytes",
			swept.Bytes)
	}
}

// moduleNames lists the modules that Python can import from a directory.
func moduleNames(dir string) []string {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil // then no module is imported ahead
	}
	var list []string
	for _, e := range entries {
		name := e.Name()
		base, rest, file := strings.Cut(name, ".")
		if e.IsDir() && !file || file && (rest == "py" || strings.HasSuffix(rest, ".so") || rest == "so") {
			list = append(list, base)
		}
	}
	return list
}

// maxSource is how much of a source is searched for imports.
const maxSource = 64 << 10

// imports lists the modules in import statements at the beginning of a line, if their
// package is in names.
func imports(source string, names []string) []string {
	var list []string
	add := func(module string) {
		module = strings.TrimSpace(module)
		top, _, _ := strings.Cut(module, ".")
		if slices.Contains(names, top) && identifier(module) && !slices.Contains(list, module) {
			list = append(list, module)
		}
	}
	for line := range strings.Lines(source[:min(len(source), maxSource)]) {
		switch word, rest, _ := strings.Cut(strings.TrimRight(line, "\r\n"), " "); word {
		case "import":
			rest, _, _ = strings.Cut(rest, "#")
			for part := range strings.SplitSeq(rest, ",") {
				module, _, _ := strings.Cut(strings.TrimSpace(part), " ")
				add(module)
			}
		case "from":
			if module, _, ok := strings.Cut(rest, " import "); ok {
				add(module)
			}
		}
	}
	return list
}

// identifier reports whether a text is a dotted name of a module.
func identifier(text string) bool {
	for part := range strings.SplitSeq(text, ".") {
		if part == "" || strings.Trim(part, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_") != "" {
			return false
		}
	}
	return true
}

// Dir is the directory of the layers.
func (s *Supply) Dir() string { return s.cfg.Dir }
