package script

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"haft"
	"haft/sandbox"
)

// A Runtime is an interpreter of this machine, with what it needs.
type Runtime struct {
	// Kind is python, javascript (which also runs TypeScript) or bash.
	Kind haft.Kind
	// Version is what it says of itself, such as 3.11.2.
	Version string
	// Argv is the interpreter with the flags that it is always given.
	Argv []string
	// Mounts are the parts of the host that it needs, read-only.
	Mounts []sandbox.Mount
	// Paths are the directories of its installed packages.
	Paths []string
	// Digest names this very interpreter with its packages' directories.
	Digest string

	harness string   // what follows Argv to start the harness
	code    []byte   // what that reads from the channel first
	hidden  []string // directories of the host that no text shows
	stamp   string   // of the executable, to see that it was replaced
}

// FinderConfig says where to look.
type FinderConfig struct {
	// Path is the list of directories to search, in the form of $PATH; "" means
	// the usual directories of the system.
	Path string
	// Home is given to interpreters that are shell scripts of a version manager,
	// which need it to find the real one.
	Home string
	// Reader is a Python script that describes a source: its function answer(bytes)
	// returns JSON text, confine() bounds its process. The harness can run it.
	Reader string
	// Cache is a directory, readable by nobody else, in which answers are kept
	// for the next process; "" keeps none.
	Cache string
}

// DefaultPath is where interpreters are looked for if nothing else is said, and
// what the tools see as PATH.
const DefaultPath = "/usr/local/bin:/usr/bin:/bin"

// badFor is how long an interpreter that did not work is not asked again.
const badFor = 5 * time.Second

// maxProbe bounds the answer of an interpreter to our question.
const maxProbe = 1 << 20

// probeTime bounds how long it may think about it.
const probeTime = 15 * time.Second

// A Finder finds interpreters and remembers them. It is safe for concurrent use.
type Finder struct {
	ask sandbox.Provider
	cfg FinderConfig

	mu    sync.Mutex
	found map[string]*finding
}

// A finding is the interpreter for one kind and hint. Its mu is held while the
// interpreter is being asked, so that it is asked once.
type finding struct {
	mu    sync.Mutex
	rt    *Runtime
	err   error
	until time.Time // err holds until then
}

// NewFinder returns a finder that asks interpreters who they are through ask.
// They are programs of the host, which the operator trusts; ask needs
// no isolation and must show them the host's files.
func NewFinder(ask sandbox.Provider, cfg FinderConfig) *Finder {
	if cfg.Path == "" {
		cfg.Path = DefaultPath
	}
	return &Finder{ask: ask, cfg: cfg, found: map[string]*finding{}}
}

// Find returns the interpreter for kind. Hint is "", a name such as python3.12,
// or an absolute path: of an interpreter, or of a virtual environment.
//
// The error has [haft.CodeUnavailable]; its message says what is wrong (missing,
// not executable, too old, talkative), its cause names the file.
func (f *Finder) Find(ctx context.Context, kind haft.Kind, hint string) (*Runtime, error) {
	if kind == haft.KindTypeScript {
		kind = haft.KindJavaScript
	}
	lang, ok := languages[kind]
	if !ok {
		return nil, &haft.Error{Code: haft.CodeInvalid,
			Message: "there is no interpreter for tools of kind " + string(kind)}
	}
	e := f.entry(string(kind) + "\x00" + hint)
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.rt != nil && e.rt.stamp == stamp(e.rt.Argv[0]) {
		return e.rt, nil
	}
	if e.err != nil && time.Now().Before(e.until) {
		return nil, e.err
	}
	e.rt, e.err = f.look(ctx, lang, hint)
	e.until = time.Now().Add(badFor)
	if ctx.Err() != nil {
		e.rt, e.err = nil, nil
		return nil, fmt.Errorf("find %s: %w", lang.name, context.Cause(ctx))
	}
	return e.rt, e.err
}

// known returns the interpreter that Find would return at once, or nil.
func (f *Finder) known(kind haft.Kind, hint string) *Runtime {
	if kind == haft.KindTypeScript {
		kind = haft.KindJavaScript
	}
	e := f.entry(string(kind) + "\x00" + hint)
	if !e.mu.TryLock() {
		return nil // it is being asked
	}
	defer e.mu.Unlock()
	if e.rt == nil || e.rt.stamp != stamp(e.rt.Argv[0]) {
		return nil
	}
	return e.rt
}

// entry returns what is known under key.
func (f *Finder) entry(key string) *finding {
	f.mu.Lock()
	defer f.mu.Unlock()
	e := f.found[key]
	if e == nil {
		e = &finding{}
		f.found[key] = e
	}
	return e
}

// A language knows the names and questions of one kind of interpreter.
type language struct {
	name  string // for people
	names []string
	least string
	probe func(f *Finder, ctx context.Context, file string) (*Runtime, error)
}

// languages are the kinds that have interpreters.
var languages = map[haft.Kind]language{
	haft.KindPython:     {"Python", []string{"python3", "python"}, "3.9", (*Finder).probePython},
	haft.KindJavaScript: {"Node.js", []string{"node", "nodejs"}, "18", (*Finder).probeNode},
	haft.KindBash:       {"Bash", []string{"bash"}, "4", (*Finder).probeBash},
}

// A flaw is why one candidate does not serve, in words for a caller. Err names
// the file, for the operator.
type flaw struct {
	why string
	err error
}

// Error returns the reason.
func (e *flaw) Error() string { return e.why + ": " + e.err.Error() }

// Unwrap returns the cause.
func (e *flaw) Unwrap() error { return e.err }

// look tries the candidates in order and returns the first that serves.
func (f *Finder) look(ctx context.Context, lang language, hint string) (*Runtime, error) {
	var flaws []error
	why := "is not installed"
	candidates := f.candidates(lang, hint)
	if rt := f.recall(lang, candidates); rt != nil {
		return rt, nil
	}
	for _, file := range candidates {
		rt, err := f.tryOne(ctx, lang, file)
		if err == nil {
			f.remember(lang, candidates, rt)
			return rt, nil
		}
		if fl, ok := errors.AsType[*flaw](err); ok && len(flaws) == 0 {
			why = fl.why
		}
		flaws = append(flaws, fmt.Errorf("%s: %w", file, err))
	}
	return nil, &haft.Error{
		Code: haft.CodeUnavailable, Err: errors.Join(flaws...),
		Message: fmt.Sprintf("%s %s or newer is needed to run this tool, and it %s here", lang.name, lang.least, why),
	}
}

// candidates lists the files to try. A file that is named is tried alone.
func (f *Finder) candidates(lang language, hint string) []string {
	if filepath.IsAbs(hint) {
		if st, err := os.Stat(hint); err == nil && st.IsDir() {
			var in []string
			for _, n := range lang.names {
				in = append(in, filepath.Join(hint, "bin", n))
			}
			return in[:1]
		}
		return []string{hint}
	}
	names := lang.names
	if hint != "" {
		names = []string{hint}
	}
	var all []string
	for _, n := range names {
		for _, dir := range filepath.SplitList(f.cfg.Path) {
			file := filepath.Join(dir, n)
			if _, err := os.Stat(file); err == nil && filepath.IsAbs(file) && !slices.Contains(all, file) {
				all = append(all, file)
			}
		}
	}
	return all
}

// tryOne looks at one candidate.
func (f *Finder) tryOne(ctx context.Context, lang language, file string) (*Runtime, error) {
	st, err := os.Stat(file)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, &flaw{"is not installed", err}
	case err != nil:
		return nil, &flaw{"cannot be looked at", err}
	case st.IsDir() || st.Mode()&0o111 == 0:
		return nil, &flaw{"is not executable", fmt.Errorf("mode %s", st.Mode())}
	}
	rt, err := lang.probe(f, ctx, file)
	if err != nil {
		return nil, err
	}
	if older(rt.Version, lang.least) {
		return nil, &flaw{"is too old", fmt.Errorf("version %s", rt.Version)}
	}
	rt.stamp = stamp(rt.Argv[0])
	sum := sha256.Sum256(
		[]byte(strings.Join(append([]string{rt.stamp, rt.Version, rt.harness, string(rt.code)},
			append(rt.Argv, rt.Paths...)...), "\x00")))
	rt.Digest = hex.EncodeToString(sum[:16])
	return rt, nil
}

// older reports whether version a is before b, number by number.
func older(a, b string) bool {
	as, bs := strings.Split(a, "."), strings.Split(b, ".")
	for i, want := range bs {
		if i >= len(as) {
			return true
		}
		var x, y int
		// What is no number counts as 0, which is the oldest.
		_, _ = fmt.Sscanf(as[i], "%d", &x)
		_, _ = fmt.Sscanf(want, "%d", &y)
		if x != y {
			return x < y
		}
	}
	return false
}

// stamp changes when a file is replaced.
func stamp(file string) string {
	st, err := os.Stat(file)
	if err != nil {
		return ""
	}
	return fmt.Sprintf("%s %d %d", file, st.Size(), st.ModTime().UnixNano())
}
