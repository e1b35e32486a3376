package app

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"haft"
	"haft/executor"
	"haft/internal/engine"
	"haft/internal/registry"
	"haft/internal/requirement"
	"haft/internal/store"
	"haft/internal/supply"
)

// locker keeps the locks of tools in the store, and gives calls their packages.
//
// What an organisation's set of requirements was resolved to is kept under
// "set:DIGEST", and the lists of packages under "sha256:DIGEST". A version names
// its lists. If its organisation's sandbox configuration asks for more than the
// version was locked with, both are resolved together, once for the version, and
// kept under "version:DIGEST".
type locker struct {
	store  *store.Store
	supply *supply.Supply
	// shared returns what the sandbox configuration of an organisation asks for; nil
	// means nothing.
	shared func(ctx context.Context, org string) (haft.Requirements, error)
	// person, if not nil, is told what goes on, and "" when it is over.
	person func(line string)

	mu    sync.Mutex
	known map[string][]supply.Lock // by what of a version they depend on
}

var _ engine.Packages = (*locker)(nil)

// maxKnown is how many locks are kept in memory.
const maxKnown = 512

// needed returns all that a tool and its organisation ask for.
func needed(kind haft.Kind, needs, more haft.Requirements, source string) (all, own requirement.Set, err error) {
	if own, err = requirement.Parse("the tool", needs.Pip, needs.NPM); err != nil {
		return all, own, err
	}
	if kind == haft.KindPython {
		script, _, err := requirement.ReadScript("the source", source)
		if err != nil {
			return all, own, err
		}
		if own, err = requirement.Merge(own, script); err != nil {
			return all, own, err
		}
	}
	extra, err := requirement.Parse("the sandbox configuration of the organisation", more.Pip, more.NPM)
	if err != nil {
		return all, own, err
	}
	if kind == haft.KindPython {
		extra.NPM = nil
	} else {
		extra.Pip, extra.Python = nil, nil
	}
	all, err = requirement.Merge(own, extra)
	return all, own, err
}

// scripted reports whether tools of a kind have packages.
func scripted(kind haft.Kind) bool {
	return slices.Contains([]haft.Kind{haft.KindPython, haft.KindTypeScript, haft.KindJavaScript}, kind)
}

// Lock is what the registry locks drafts with.
func (l *locker) Lock(ctx context.Context, org string, d haft.Draft) (haft.Requirements, haft.Lock, error) {
	if !scripted(d.Kind) {
		return d.Needs, haft.Lock{}, nil
	}
	var more haft.Requirements
	if l.shared != nil {
		var err error
		if more, err = l.shared(ctx, org); err != nil {
			return d.Needs, haft.Lock{}, err
		}
	}
	all, own, err := needed(d.Kind, d.Needs, more, d.Source)
	if err != nil {
		return d.Needs, haft.Lock{}, err
	}
	var needs haft.Requirements
	needs.Pip, needs.NPM = own.Strings()
	if all.Empty() {
		return needs, haft.Lock{}, nil
	}
	progress, done := l.told(nil)
	defer done()
	lock, err := l.resolve(ctx, org, "set:"+all.Digest(), all, d.Relock, progress)
	return needs, lock, err
}

// told returns what tells also and the person, and what says that it is over.
func (l *locker) told(also func(string)) (progress func(string), done func()) {
	if l.person == nil {
		return also, func() {}
	}
	var said atomic.Bool
	return func(line string) {
			said.Store(true)
			l.person(line)
			if also != nil {
				also(line)
			}
		}, func() {
			if said.Load() {
				l.person("")
			}
		}
}

// resolve returns the lock of a set that is kept under id, or finds and keeps it.
func (l *locker) resolve(ctx context.Context, org, id string, set requirement.Set, renew bool,
	progress func(string)) (haft.Lock, error) {
	var lock haft.Lock
	if !renew {
		switch text, err := l.store.PackageLock(ctx, org, id); {
		case err == nil:
			return lock, decodeLock(text, &lock)
		case haft.CodeOf(err) != haft.CodeNotFound:
			return lock, err
		}
	}
	found, err := l.supply.Lock(ctx, set, progress)
	if err != nil {
		return lock, err
	}
	lock.Set = set.Digest()
	for _, f := range found {
		sum := sha256.Sum256(f.Text)
		digest := "sha256:" + hex.EncodeToString(sum[:])
		if _, err := l.store.PutPackageLock(ctx, org, digest, string(f.Text), false, time.Now()); err != nil {
			return lock, err
		}
		if f.Kind == "npm" {
			lock.NPM = digest
		} else {
			lock.Pip = digest
		}
	}
	text, err := json.Marshal(lock)
	if err != nil {
		return lock, fmt.Errorf("encode a lock: %w", err)
	}
	kept, err := l.store.PutPackageLock(ctx, org, id, string(text), renew, time.Now())
	if err != nil {
		return lock, err
	}
	return lock, decodeLock(kept, &lock)
}

// decodeLock reads a lock as it is kept.
func decodeLock(text string, lock *haft.Lock) error {
	*lock = haft.Lock{}
	if err := json.Unmarshal([]byte(text), lock); err != nil {
		return fmt.Errorf("read a lock: %w", err)
	}
	return nil
}

// texts reads the lists of packages that a lock names.
func (l *locker) texts(ctx context.Context, org string, lock haft.Lock) ([]supply.Lock, error) {
	var list []supply.Lock
	for _, e := range []supply.Lock{{Kind: "pip", Text: []byte(lock.Pip)}, {Kind: "npm", Text: []byte(lock.NPM)}} {
		if len(e.Text) == 0 {
			continue
		}
		text, err := l.store.PackageLock(ctx, org, string(e.Text))
		if err != nil {
			return nil, err
		}
		list = append(list, supply.Lock{Kind: e.Kind, Text: []byte(text)})
	}
	return list, nil
}

// Open implements [engine.Packages].
func (l *locker) Open(ctx context.Context, org string, v haft.Version, more haft.Requirements,
	progress func(string)) ([]executor.Layer, func(), error) {
	none := func() {}
	if !scripted(v.Kind) {
		return nil, none, nil
	}
	progress, done := l.told(progress)
	defer done()
	locks, err := l.locks(ctx, org, v, more, progress)
	if err != nil || len(locks) == 0 {
		return nil, none, err
	}
	if l.supply.Ready(locks) {
		progress = nil
	}
	return l.supply.Open(ctx, locks, v.Source, progress)
}

// locks returns the locks that a version runs with now.
func (l *locker) locks(ctx context.Context, org string, v haft.Version, more haft.Requirements,
	progress func(string)) ([]supply.Lock, error) {
	plain := len(more.Pip)+len(more.NPM) == 0
	if plain && v.Lock == (haft.Lock{}) && len(v.Requirements.Pip)+len(v.Requirements.NPM) == 0 {
		return nil, nil
	}
	key := fmt.Sprintf("%q %s %q", org, v.Digest, more)
	l.mu.Lock()
	locks, ok := l.known[key]
	l.mu.Unlock()
	if ok {
		return locks, nil
	}
	lock, err := l.lockOf(ctx, org, v, more, progress)
	if err != nil {
		return nil, err
	}
	if locks, err = l.texts(ctx, org, lock); err != nil {
		return nil, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.known == nil || len(l.known) >= maxKnown {
		l.known = map[string][]supply.Lock{}
	}
	l.known[key] = locks
	return locks, nil
}

// lockOf returns the lock of a version: its own, or one for all that it and the
// organisation ask for.
func (l *locker) lockOf(ctx context.Context, org string, v haft.Version, more haft.Requirements,
	progress func(string)) (haft.Lock, error) {
	if len(more.Pip)+len(more.NPM) == 0 && v.Lock != (haft.Lock{}) {
		return v.Lock, nil
	}
	all, _, err := needed(v.Kind, v.Requirements, more, v.Source)
	switch {
	case err != nil || all.Empty():
		return haft.Lock{}, err
	case v.Lock.Set == all.Digest():
		return v.Lock, nil
	}
	sum := sha256.Sum256([]byte(v.Digest + "\n" + all.Digest()))
	return l.resolve(ctx, org, "version:"+hex.EncodeToString(sum[:]), all, false, progress)
}

// layersOf returns what gives a source that is being registered its packages.
func (l *locker) layersOf(src registry.Source) func(context.Context) ([]executor.Layer, error) {
	if src.Lock == (haft.Lock{}) {
		return nil
	}
	return func(ctx context.Context) ([]executor.Layer, error) {
		locks, err := l.texts(ctx, src.Org, src.Lock)
		if err != nil {
			return nil, err
		}
		progress, done := l.told(nil)
		defer done()
		layers, release, err := l.supply.Open(ctx, locks, string(src.Text), progress)
		if err != nil {
			return nil, err
		}
		// The supply itself keeps them for longer than a schema takes to be derived.
		release()
		return layers, nil
	}
}
