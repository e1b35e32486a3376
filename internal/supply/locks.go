package supply

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
	"haft/internal/advisory"
	"haft/internal/requirement"
)

// A LockStore stores texts about packages, by organisation and id.
type LockStore interface {
	// PackageLock returns a text, or [haft.CodeNotFound].
	PackageLock(ctx context.Context, org, id string) (string, error)
	// PutPackageLock stores a text, and returns the stored one: without renew that is the
	// text that was there before.
	PutPackageLock(ctx context.Context, org, id, text string, renew bool, now time.Time) (string, error)
}

// A Locker keeps the locks of tools in the store, and opens the packages of calls.
//
// The lock of a set of requirements is stored under "set:DIGEST", and lock files under
// "sha256:DIGEST". A version names its lock files. If the sandbox configuration of its
// organisation requires more than the version was locked with, both are resolved together,
// once for the version, and stored under "version:DIGEST".
type Locker struct {
	Store  LockStore
	Supply *Supply
	// Shared returns the requirements in the sandbox configuration of an organisation; nil
	// means none.
	Shared func(ctx context.Context, org string) (haft.Requirements, error)
	// Progress, if not nil, is called with lines of progress, and with "" at the end: for the
	// person at the terminal.
	Progress func(line string)

	mu    sync.Mutex
	known map[string][]Lock // by what of a version they depend on
}

// maxKnown is the number of cached locks.
const maxKnown = 512

// needed returns the requirements of a tool together with those of its organisation, and its
// own.
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

// scripted reports whether tools of a kind can have packages.
func scripted(kind haft.Kind) bool {
	return slices.Contains([]haft.Kind{haft.KindPython, haft.KindTypeScript, haft.KindJavaScript}, kind)
}

// Lock locks a draft for the registry.
func (l *Locker) Lock(ctx context.Context, org string, d haft.Draft) (haft.Requirements, haft.Lock, error) {
	if !scripted(d.Kind) {
		return d.Needs, haft.Lock{}, nil
	}
	var more haft.Requirements
	if l.Shared != nil {
		var err error
		if more, err = l.Shared(ctx, org); err != nil {
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
	progress, done := l.progress(nil)
	defer done()
	lock, err := l.resolve(ctx, org, "set:"+all.Digest(), all, d.Relock, progress)
	return needs, lock, err
}

// progress returns a function that reports lines to also and to l.Progress, and one that
// reports the end.
func (l *Locker) progress(also func(string)) (progress func(string), done func()) {
	if l.Progress == nil {
		return also, func() {}
	}
	var said atomic.Bool
	return func(line string) {
			said.Store(true)
			l.Progress(line)
			if also != nil {
				also(line)
			}
		}, func() {
			if said.Load() {
				l.Progress("")
			}
		}
}

// resolve returns the lock that is stored under id, or finds and stores it.
func (l *Locker) resolve(ctx context.Context, org, id string, set requirement.Set, renew bool,
	progress func(string)) (haft.Lock, error) {
	var lock haft.Lock
	if !renew {
		switch text, err := l.Store.PackageLock(ctx, org, id); {
		case err == nil:
			return lock, decodeLock(text, &lock)
		case haft.CodeOf(err) != haft.CodeNotFound:
			return lock, err
		}
	}
	find := l.Supply.Lock
	if l.Supply.cfg.Remember {
		find = func(ctx context.Context, set requirement.Set, progress func(string)) ([]Lock, error) {
			return l.Supply.LockOnce(ctx, set, renew, progress)
		}
	}
	found, err := find(ctx, set, progress)
	if err != nil {
		return lock, err
	}
	lock.Set = set.Digest()
	for _, f := range found {
		sum := sha256.Sum256(f.Text)
		digest := "sha256:" + hex.EncodeToString(sum[:])
		if _, err := l.Store.PutPackageLock(ctx, org, digest, string(f.Text), false, time.Now()); err != nil {
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
	kept, err := l.Store.PutPackageLock(ctx, org, id, string(text), renew, time.Now())
	if err != nil {
		return lock, err
	}
	return lock, decodeLock(kept, &lock)
}

// decodeLock reads a stored lock.
func decodeLock(text string, lock *haft.Lock) error {
	*lock = haft.Lock{}
	if err := json.Unmarshal([]byte(text), lock); err != nil {
		return fmt.Errorf("read a lock: %w", err)
	}
	return nil
}

// texts reads the lock files that a lock names.
func (l *Locker) texts(ctx context.Context, org string, lock haft.Lock) ([]Lock, error) {
	var list []Lock
	for _, e := range []Lock{{Kind: "pip", Text: []byte(lock.Pip)}, {Kind: "npm", Text: []byte(lock.NPM)}} {
		if len(e.Text) == 0 {
			continue
		}
		text, err := l.Store.PackageLock(ctx, org, string(e.Text))
		if err != nil {
			return nil, err
		}
		list = append(list, Lock{Kind: e.Kind, Text: []byte(text)})
	}
	return list, nil
}

// Scan returns the advisories about the packages of a lock.
func (l *Locker) Scan(ctx context.Context, org string, lock haft.Lock) ([]haft.Finding, error) {
	if !l.Supply.advisories.Configured() {
		return nil, nil
	}
	locks, err := l.texts(ctx, org, lock)
	if err != nil {
		return nil, err
	}
	var all []advisory.Package
	for _, lock := range locks {
		list, err := advisory.Packages(lock.Kind, lock.Text)
		if err != nil {
			return nil, err
		}
		all = append(all, list...)
	}
	return l.Supply.advisories.Scan(all)
}

// Open implements [engine.Packages].
func (l *Locker) Open(ctx context.Context, org string, v haft.Version, more haft.Requirements,
	progress func(string)) ([]executor.Layer, func(), error) {
	none := func() {}
	if !scripted(v.Kind) {
		return nil, none, nil
	}
	progress, done := l.progress(progress)
	defer done()
	locks, err := l.Locks(ctx, org, v, more, progress)
	if err != nil || len(locks) == 0 {
		return nil, none, err
	}
	if l.Supply.Ready(locks) {
		progress = nil
	}
	return l.Supply.Open(ctx, locks, v.Source, progress)
}

// Locks returns the lock files that a version runs with now.
func (l *Locker) Locks(ctx context.Context, org string, v haft.Version, more haft.Requirements,
	progress func(string)) ([]Lock, error) {
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
		l.known = map[string][]Lock{}
	}
	l.known[key] = locks
	return locks, nil
}

// lockOf returns the lock of a version: its own, or one for its requirements together with
// those of the organisation.
func (l *Locker) lockOf(ctx context.Context, org string, v haft.Version, more haft.Requirements,
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

// LayersOf returns a function that opens the packages of a source that is being registered
// with a lock, or nil if it needs none.
func (l *Locker) LayersOf(org string, lock haft.Lock,
	source []byte) func(context.Context) ([]executor.Layer, error) {
	if lock == (haft.Lock{}) {
		return nil
	}
	return func(ctx context.Context) ([]executor.Layer, error) {
		locks, err := l.texts(ctx, org, lock)
		if err != nil {
			return nil, err
		}
		progress, done := l.progress(nil)
		defer done()
		layers, release, err := l.Supply.Open(ctx, locks, string(source), progress)
		if err != nil {
			return nil, err
		}
		// The supply keeps them open for longer than deriving a schema takes.
		release()
		return layers, nil
	}
}
