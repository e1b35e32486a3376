package registry

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"haft"
	"haft/internal/store"
	"haft/schema"
)

// A Source is the text of a tool from which a signature is derived.
type Source struct {
	Name     string // of the tool, where the text does not say
	Kind     haft.Kind
	Text     []byte
	Function string // "" lets the rules of the language choose
	// Untyped accepts parameters of any type.
	Untyped bool
	// Org and Lock say which packages the source will run with.
	Org  string
	Lock haft.Lock
}

// A Derived is what a source says about its tool, and how to call it.
type Derived struct {
	*schema.Signature
	// Function is what to call in the source.
	Function string
	// Pass is what the function is given, as in [haft.Version].
	Pass []haft.Argument
	// Output is what the source says about how its output is read.
	Output haft.OutputType
}

// A Verdict is the answer of policy to the findings of a review. Any other text than
// the constants means [Refuse].
type Verdict string

// The verdicts, mildest first.
const (
	Pass   Verdict = "pass"   // keep the version
	Warn   Verdict = "warn"   // keep it and warn the author
	Ask    Verdict = "ask"    // keep it, and a person has to accept it before it runs
	Refuse Verdict = "refuse" // do not keep it
)

// Config says what a registry does with drafts. Every function may be called by
// several goroutines at once.
type Config struct {
	// Derive reads the signature of a tool from its source, without running it. The source need not
	// be documented.
	// Nil means that drafts must bring a schema and name their function.
	Derive func(ctx context.Context, src Source) (*Derived, error)
	// Review looks for what is dangerous in a source, before it is kept. A source
	// that cannot be reviewed, which is every one if Review is nil, is refused. Several says
	// that it is one of several files of a tool.
	Review func(ctx context.Context, kind haft.Kind, source string, several bool) ([]haft.Finding, error)
	// Judge decides what findings in a version of a tool mean. Nil means
	// [DefaultJudge].
	Judge func(t haft.Tool, findings []haft.Finding) Verdict
	// SelfReview reports whether the author of a version may accept it. Nil means never.
	SelfReview func(ctx context.Context, author haft.Principal) bool
	// Builtin are the tools of this binary. They are there in every organisation.
	Builtin []haft.Tool
	// Unavailable says why a caller cannot use a built-in tool now, or "". Nil means that all can be used.
	Unavailable func(ctx context.Context, p haft.Principal, name string) string
	// Lock finds the exact packages that a draft and its source name. It returns all
	// of those requirements, and the lock. Nil locks nothing.
	Lock func(ctx context.Context, org string, d haft.Draft) (haft.Requirements, haft.Lock, error)
	// Scan finds known vulnerabilities in the packages of a lock. Nil finds none.
	Scan func(ctx context.Context, org string, lock haft.Lock) ([]haft.Finding, error)
	// CanIsolate reports why no sandbox here gives a level of isolation. Nil means that nobody looks
	// before a call.
	CanIsolate func(ctx context.Context, level haft.Level) error
	// HasProgram reports whether the host has a program that tools can name. Nil means that
	// nobody looks before a call.
	HasProgram func(name string) bool
	// Reserved reports names that drafts may not have; nil reserves none but
	// those of the built-in tools.
	Reserved func(name string) bool
	// Cache is how many compiled tools are kept at most; 0 means 4096.
	Cache int
}

// DefaultJudge refuses critical findings, asks about high ones and warns of the
// others. It is the same for every organisation and tool.
func DefaultJudge(_ haft.Tool, findings []haft.Finding) Verdict {
	v := Pass
	for _, f := range findings {
		switch {
		case f.Severity.AtLeast(haft.SeverityCritical):
			return Refuse
		case f.Severity.AtLeast(haft.SeverityHigh):
			v = Ask
		case v == Pass:
			v = Warn
		}
	}
	return v
}

// A Registry knows the tools of every organisation. It is safe for concurrent
// use.
type Registry struct {
	store   *store.Store
	shared  bool // other processes write too
	cfg     Config
	cache   *cache
	builtin map[string]*builtinTool // by name and by id
	names   []string                // of the built-in tools, in order

	// writes is held while the store is read and then written, so that no other write
	// of this process and organisation happens in between. Nothing is compiled
	// meanwhile. Shared stores check conditions themselves.
	writes orgLocks
}

// A builtinTool is a tool of this binary.
type builtinTool struct {
	haft.Tool
	// compile compiles it when it is first called: compiling all of them takes a fifth of the time of a short
	// command.
	compile func() (*Compiled, error)
}

// New makes a registry over a store. It panics if a built-in tool is invalid: that
// is a mistake of the programmer. Its schemas are compiled when it is first called, with [Registry.Resolve].
func New(s *store.Store, cfg Config) *Registry {
	if cfg.SelfReview == nil {
		cfg.SelfReview = func(context.Context, haft.Principal) bool { return false }
	}
	if cfg.Judge == nil {
		cfg.Judge = DefaultJudge
	}
	if cfg.Reserved == nil {
		cfg.Reserved = func(string) bool { return false }
	}
	r := &Registry{store: s, shared: s.Shared(), cfg: cfg, cache: newCache(cfg.Cache),
		builtin: map[string]*builtinTool{}}
	for _, t := range cfg.Builtin {
		b, err := newBuiltin(t)
		if err != nil {
			panic(fmt.Sprintf("registry: built-in tool %q: %v", t.Name, err))
		}
		if r.builtin[b.Name] != nil || r.builtin[string(b.ID)] != nil {
			panic(fmt.Sprintf("registry: two built-in tools are called %q", t.Name))
		}
		r.builtin[b.Name], r.builtin[string(b.ID)] = b, b
		r.names = append(r.names, b.Name)
	}
	slices.Sort(r.names)
	return r
}

// newBuiltin fills in what a built-in tool leaves out.
func newBuiltin(t haft.Tool) (*builtinTool, error) {
	if err := haft.CheckToolName(t.Name); err != nil {
		return nil, err
	}
	t.Org = ""
	if t.ID == "" {
		t.ID = haft.ToolID("builtin." + t.Name)
	}
	v := &t.Version
	v.Kind, v.Number = haft.KindBuiltin, max(v.Number, 1)
	if v.Digest == "" { // else it is the program's own, which its executor knows
		v.Digest = Digest(*v)
	}
	if v.Digest == "" {
		return nil, fmt.Errorf("its schemas are not JSON")
	}
	if v.Health.Status == "" {
		tree, err := schema.Decode(v.Parameters)
		if err != nil {
			return nil, err
		}
		v.Health = schema.Health(tree)
	}
	return &builtinTool{t, sync.OnceValues(func() (*Compiled, error) { return Compile(t) })}, nil
}

// taken reports whether a name is that of a built-in tool, or so close that a
// model or a person would take it for one.
func (r *Registry) taken(name string) bool {
	if r.builtin[name] != nil {
		return true
	}
	return slices.ContainsFunc(r.names, func(n string) bool { return plain(n) == plain(name) })
}

// plain is a name without the differences that readers overlook.
func plain(name string) string { return strings.ReplaceAll(strings.ToLower(name), "-", "_") }

// now is the time as stores keep it.
func now() time.Time { return time.Now().UTC().Truncate(time.Microsecond) }
