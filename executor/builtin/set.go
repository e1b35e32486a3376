package builtin

import (
	"cmp"
	"context"
	"log/slog"
	"net"
	"net/http"
	"slices"

	"haft"
	"haft/executor"
)

// Provider is what results call the place where built-in tools run.
const Provider = "builtin"

// A Set holds built-in tools and runs them. It implements [executor.Executor]. The
// zero value is an empty set. It is safe for concurrent use once everything is
// added.
type Set struct {
	// Logger gets faults in tools. Nil discards them.
	Logger *slog.Logger

	tools map[string]*tool
}

// New returns an empty set.
func New() *Set { return &Set{} }

// A Def describes a tool.
type Def struct {
	// Name is what models call it by.
	Name string
	// Description is for the model.
	Description string
	Category    string
	Tags        []string
	// Version is part of the digest: change it when the tool does something else
	// than before, so that approvals of the old one do not count for the new.
	Version     string
	Annotations haft.Annotations
	Settings    haft.Settings
	// Enums are the values that a property of the arguments may have.
	Enums map[string][]string
	// Defaults are the values of those properties where they are not given.
	Defaults map[string]string
	// RunsCode says that it runs code of its callers, in the sandbox that the request names. A call can name one then.
	RunsCode bool
	// Unavailable says why callers cannot use the tool, and what to do about it, or "". It is asked which variables
	// they have. Nil means that everybody can.
	Unavailable func(has func(variable string) bool) string
}

// A Call is what a tool knows about its call besides the arguments.
type Call struct {
	ID        haft.CallID
	Principal haft.Principal
	// Turn is what the call says about the turn of an agent that it belongs to. Whoever makes calls can say it.
	Turn string
	// Workspace is that of the call; nil means none. Haft has checked that the caller may use it like that.
	Workspace *haft.CallWorkspace
	// Env is what the caller set. It is not the environment of this process.
	Env map[string]string
	// Bound is that of [executor.Request]: only requests of [Call.Outside] are given
	// the values.
	Bound map[string]bool
	// Limits are those that hold, none of them zero.
	Limits haft.Limits
	// Progress reports how far the tool is, as JSON. It may be
	// called at any time, and does nothing when the call is over.
	Progress func(v any)
	// Stdout adds to what the tool prints. It may be called at any time, and does
	// nothing when the call is over.
	Stdout func(text []byte)

	// egress, ca and egress are those of [executor.Request].
	serveEgress func(context.Context, net.Conn)
	ca          []byte
	egress      func(http.RoundTripper) http.RoundTripper
}

// A tool is one entry of a Set.
type tool struct {
	tool        haft.Tool
	unavailable func(has func(variable string) bool) string // nil if it never is
	defaults    haft.Limits
	// run calls the function. Raw tools give a result of their own, the others the
	// encoded value.
	run      func(ctx context.Context, e *execution) error
	raw      bool
	runsCode bool
}

// Tools lists the tools, ordered by name. They belong to no organisation, which
// means to all. Their schemas and tags are shared and not to be changed.
func (s *Set) Tools() []haft.Tool {
	all := make([]haft.Tool, 0, len(s.tools))
	for _, t := range s.tools {
		all = append(all, t.tool)
	}
	slices.SortFunc(all, func(a, b haft.Tool) int { return cmp.Compare(a.Name, b.Name) })
	return all
}

// Unavailable says why callers with certain variables cannot use a tool, or returns "". It does not bound calls, which
// may bring more variables.
func (s *Set) Unavailable(name string, has func(variable string) bool) string {
	t := s.tools[name]
	if t == nil || t.unavailable == nil {
		return ""
	}
	return t.unavailable(has)
}

// RunsCode reports whether a tool runs code of its callers in the sandbox that its request names.
func (s *Set) RunsCode(name string) bool { return s.tools[name] != nil && s.tools[name].runsCode }

// logger never returns nil.
func (s *Set) logger() *slog.Logger {
	if s.Logger == nil {
		return slog.New(slog.DiscardHandler)
	}
	return s.Logger
}

var _ executor.Executor = (*Set)(nil)
