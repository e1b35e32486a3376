package e2b

import (
	"context"
	"crypto/rand"
	"fmt"
	"iter"
	"net/http"
	"path"
	"strings"
	"sync"
	"time"

	"haft"
)

// Bounds on what is watched in a sandbox.
const (
	maxWatchers = 32
	maxEvents   = 4096 // that a client has not asked for yet
)

// watchRequest is the message of WatchDir and CreateWatcher.
type watchRequest struct {
	Path      string `json:"path"`
	Recursive bool   `json:"recursive"`
	Entry     bool   `json:"includeEntry"`
}

// fileEvent is what happened to a file.
type fileEvent struct {
	Name  string     `json:"name"`
	Type  string     `json:"type"`
	Entry *entryInfo `json:"entry,omitempty"`
}

// watch yields what happens in a directory. The files are looked at before it returns: what happens
// later is seen.
func (a fileHandlers) watch(ctx context.Context, p haft.Principal, s *sandbox,
	in watchRequest) (iter.Seq2[fileEvent, error], error) {
	at, err := place(in.Path)
	if err != nil {
		return nil, err
	}
	f, err := a.describe(ctx, p, s, at)
	if err != nil {
		return nil, err
	}
	if f.Type != "dir" {
		return nil, invalid("only a directory can be watched")
	}
	changes := a.cfg.Worker.WatchFiles(ctx, p, s.session, at)
	return func(yield func(fileEvent, error) bool) {
		for c, err := range changes {
			name := strings.TrimPrefix(strings.TrimPrefix(c.File.Path, at), "/")
			if err == nil && (name == "" || !in.Recursive && path.Dir(name) != ".") {
				continue
			}
			ev := fileEvent{Name: name, Type: "EVENT_TYPE_" + strings.ToUpper(c.Type)}
			if in.Entry && c.Type != "remove" {
				e := entry(c.File)
				ev.Entry = &e
			}
			if !yield(ev, err) || err != nil {
				return
			}
		}
	}, nil
}

func (a fileHandlers) watchDir(ctx context.Context, p haft.Principal, s *sandbox, in watchRequest, r *http.Request,
	out *stream) error {
	if d := clientTime(r); d > 0 {
		timed, cancel := context.WithTimeoutCause(ctx, d, errDeadline)
		defer cancel()
		ctx = timed
	}
	w, err := a.newWatcher(ctx, p, s, in)
	if err != nil {
		return err
	}
	defer w.stop()
	if err := out.send(0, map[string]any{"start": struct{}{}}); err != nil {
		return err
	}
	beat := time.NewTicker(keepalive(r))
	defer beat.Stop()
	for {
		events, err := w.take()
		for _, ev := range events {
			if err := out.send(0, map[string]any{"filesystem": ev}); err != nil {
				return err
			}
		}
		if err != nil {
			return err
		}
		select {
		case <-w.more:
		case <-beat.C:
			if err := out.send(0, map[string]any{"keepalive": struct{}{}}); err != nil {
				return err
			}
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// A watcher collects what happens in a directory until a client asks.
type watcher struct {
	stop func()
	more chan struct{} // has an element when there is something to take

	mu     sync.Mutex
	events []fileEvent
	err    error
}

// newWatcher starts a watcher, which ends with ctx.
func (a fileHandlers) newWatcher(ctx context.Context, p haft.Principal, s *sandbox, in watchRequest) (*watcher, error) {
	w := &watcher{more: make(chan struct{}, 1)}
	id := rand.Text()
	s.mu.Lock()
	full := len(s.watchers) >= maxWatchers
	if !full {
		s.watchers[id] = w
	}
	s.mu.Unlock()
	if full {
		return nil, &haft.Error{Code: haft.CodeRateLimited,
			Message: fmt.Sprintf("a sandbox has at most %d watchers: end one", maxWatchers)}
	}
	ctx, cancel := context.WithCancel(ctx)
	w.stop = func() {
		cancel()
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.watchers, id)
	}
	events, err := a.watch(ctx, p, s, in)
	if err != nil {
		w.stop()
		return nil, err
	}
	go func() {
		for ev, err := range events {
			w.put(ev, err)
		}
	}()
	return w, nil
}

// put keeps an event, or why there are no more.
func (w *watcher) put(ev fileEvent, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case err != nil:
		w.err = err
	case len(w.events) < maxEvents:
		w.events = append(w.events, ev)
	default:
		w.err = &haft.Error{Code: haft.CodeRateLimited, Message: "there were more changes than are kept: watch anew"}
	}
	select {
	case w.more <- struct{}{}:
	default:
	}
}

// take returns the events since the last time.
func (w *watcher) take() ([]fileEvent, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	events := w.events
	w.events = nil
	return events, w.err
}

// watcherRef names a watcher.
type watcherRef struct {
	ID string `json:"watcherId"`
}

func (a fileHandlers) createWatcher(_ context.Context, p haft.Principal, s *sandbox, in watchRequest) (any, error) {
	w, err := a.newWatcher(s.ctx, p, s, in) // it outlives the request
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for id, other := range s.watchers {
		if other == w {
			return watcherRef{id}, nil
		}
	}
	return nil, missing("the watcher has ended")
}

// watcher returns a watcher of the sandbox.
func (s *sandbox) watcher(id string) (*watcher, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if w := s.watchers[id]; w != nil {
		return w, nil
	}
	return nil, missing("there is no such watcher")
}

func (a fileHandlers) watcherEvents(_ context.Context, _ haft.Principal, s *sandbox, in watcherRef) (any, error) {
	w, err := s.watcher(in.ID)
	if err != nil {
		return nil, err
	}
	events, err := w.take()
	if events == nil {
		events = []fileEvent{}
	}
	return map[string]any{"events": events}, err
}

func (a fileHandlers) removeWatcher(_ context.Context, _ haft.Principal, s *sandbox, in watcherRef) (any, error) {
	w, err := s.watcher(in.ID)
	if err != nil {
		return nil, err
	}
	w.stop()
	return struct{}{}, nil
}
