package registry

import (
	"context"
	"fmt"

	"haft"
)

// Resolve returns the tool of that name or id, ready to be called: the current
// version, or the one with that digest, with the current one beside it. The error is [haft.CodeNotFound] if there
// is no such tool or version in the organisation, and [haft.CodeDenied] if it is
// disabled, or the version waits for review or was refused.
func (r *Registry) Resolve(ctx context.Context, org, ref, digest string) (*Compiled, error) {
	if b := r.builtin[ref]; b != nil {
		if digest != "" && digest != b.Version.Digest {
			return nil, noVersion()
		}
		return b.compile()
	}
	if org == "" || ref == "" {
		return nil, noTool()
	}
	var fresh *stamp
	if r.shared {
		id, number, updated, err := r.store.Tools.ToolStamp(ctx, org, ref)
		if err != nil {
			return nil, fmt.Errorf("look up a tool: %w", err)
		}
		fresh = &stamp{id, number, updated.UnixMicro()}
	}
	k := key{org, ref, digest}
	e, err := r.cache.entry(ctx, k, fresh, func(ctx context.Context) (*entry, error) { return r.load(ctx, k) })
	switch {
	case err != nil:
		return nil, err
	case e.disabled:
		return nil, &haft.Error{Code: haft.CodeDenied, Message: "the tool is disabled"}
	case e.err != nil:
		return nil, e.err
	}
	return e.compiled, nil
}

func noTool() error { return &haft.Error{Code: haft.CodeNotFound, Message: "there is no such tool"} }
func noVersion() error {
	return &haft.Error{Code: haft.CodeNotFound, Message: "the tool has no version with that digest"}
}

// load reads a tool and compiles the version that is asked for.
func (r *Registry) load(ctx context.Context, k key) (*entry, error) {
	t, err := r.store.Tools.Tool(ctx, k.org, k.ref)
	if err != nil {
		return nil, fmt.Errorf("read a tool: %w", err)
	}
	e := &entry{key: k, name: t.Name, stamp: stampOf(*t), disabled: t.Disabled, cost: 1 << 10}
	if r.builtin[t.Name] != nil {
		// It was registered before this binary had a built-in tool of that name.
		return nil, noTool()
	}
	var current *haft.Version
	if k.digest != "" && (t.Version.Number == 0 || t.Version.Digest != k.digest) {
		v, err := r.store.Tools.VersionByDigest(ctx, k.org, t.ID, k.digest)
		if haft.CodeOf(err) == haft.CodeNotFound {
			return nil, noVersion()
		}
		if err != nil {
			return nil, fmt.Errorf("read a version: %w", err)
		}
		now := t.Version
		if now.Number == 0 {
			// Nobody may call the tool: not in an older version either.
			e.err, err = r.idle(ctx, k.org, t.ID)
			return e, err
		}
		if e.err = runnable(now); e.err != nil {
			return e, nil
		}
		t.Version, current = *v, &now
	}
	if t.Version.Number == 0 {
		e.err, err = r.idle(ctx, k.org, t.ID)
		return e, err
	}
	if e.err = runnable(t.Version); e.err != nil {
		return e, nil
	}
	if e.compiled, err = Compile(*t); err != nil {
		return nil, fmt.Errorf("compile tool %s: %w", t.ID, err)
	}
	e.compiled.Current = current
	e.cost += int64(len(t.Version.Source) + 16*(len(t.Version.Parameters)+len(t.Version.Returns)))
	for _, f := range t.Version.Files {
		e.cost += int64(len(f.Text) + len(f.Data))
	}
	return e, nil
}

// runnable reports why a version must not run.
func runnable(v haft.Version) error {
	switch v.Review.State {
	case haft.ReviewNone, haft.ReviewPassed:
		return nil
	case haft.ReviewWaiting:
		return &haft.Error{Code: haft.CodeDenied, Message: "the version waits for review"}
	}
	return &haft.Error{Code: haft.CodeDenied, Message: "the version was refused at its review"}
}

// idle returns the reason why a tool has no version to call.
func (r *Registry) idle(ctx context.Context, org string, id haft.ToolID) (denied, err error) {
	last, err := r.newest(ctx, org, id)
	if err != nil {
		return nil, err
	}
	if last != nil {
		if why := runnable(*last); why != nil {
			return why, nil
		}
	}
	return &haft.Error{Code: haft.CodeDenied, Message: "the tool has no version that may be called"}, nil
}
