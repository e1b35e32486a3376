package registry

import (
	"context"
	"iter"

	"haft"
)

// A Store keeps tools.
type Store interface {
	// Shared reports whether other processes may write too.
	Shared() bool
}

type cache struct{}

func newCache(int) *cache { return &cache{} }

func missing() error { return &haft.Error{Code: haft.CodeUnavailable, Message: "not there yet"} }

// Resolve returns the tool of that name or id, ready to be called.
func (r *Registry) Resolve(ctx context.Context, org, ref, digest string) (*Compiled, error) {
	if c := r.builtin[ref]; c != nil {
		return c, nil
	}
	return nil, missing()
}

// Put makes a version of a draft.
func (r *Registry) Put(ctx context.Context, p haft.Principal, d haft.Draft) (*haft.Change, error) {
	return nil, missing()
}

// Set changes what is not part of a version.
func (r *Registry) Set(ctx context.Context, p haft.Principal, ref string, s haft.ToolState) (*haft.Tool, error) {
	return nil, missing()
}

// Remove removes a tool with its versions.
func (r *Registry) Remove(ctx context.Context, p haft.Principal, ref string) error { return missing() }

// Tool returns the tool of that name or id.
func (r *Registry) Tool(ctx context.Context, p haft.Principal, ref string) (*haft.Tool, error) {
	return nil, missing()
}

// Tools lists tools.
func (r *Registry) Tools(ctx context.Context, p haft.Principal, f haft.ToolFilter) iter.Seq2[haft.Tool, error] {
	return func(yield func(haft.Tool, error) bool) { yield(haft.Tool{}, missing()) }
}

// Versions lists the versions of a tool, newest first.
func (r *Registry) Versions(ctx context.Context, p haft.Principal, ref string) iter.Seq2[haft.Version, error] {
	return func(yield func(haft.Version, error) bool) { yield(haft.Version{}, missing()) }
}
