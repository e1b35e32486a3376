package layer

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"haft"
)

// A Layer is a directory of packages that stays as it is until Close.
type Layer struct {
	// Dir is the host's path of the packages.
	Dir string
	// Info says what they are.
	Info Info

	once  sync.Once
	close func()
	again func() (*Layer, bool)
}

// Hold returns another handle of the layer, which is closed by itself: for what
// goes on using it after l. It reports false if nobody has the layer any more, and
// it may be gone.
func (l *Layer) Hold() (*Layer, bool) { return l.again() }

// Close gives the layer back. It may be called more than once.
func (l *Layer) Close() error {
	l.once.Do(l.close)
	return nil
}

// sharedBuild is one build, or one wait for that of another process, with its waiters. The
// store's mu guards all fields but done; listeners have a mutex of their own.
type sharedBuild struct {
	want    Want
	build   Build
	digest  string
	cancel  context.CancelCauseFunc
	waiters int
	done    chan struct{}
	ended   bool
	hold    *hold
	err     error

	mu        sync.Mutex
	listeners []*func(string)
}

// errNobody is why a build ends that nobody waits for any more.
var errNobody = errors.New("nobody waits for the build")

// Layer returns the layer that want names. If it is not there, build makes it, once for all
// callers. The build goes on while any caller waits for it. Every returned layer must be
// closed.
func (s *Store) Layer(ctx context.Context, want Want, build Build) (*Layer, error) {
	digest := want.Digest()
	if len(want.Lock) > maxLock {
		return nil, &haft.Error{Code: haft.CodeInvalid,
			Message: fmt.Sprintf("the list of packages has %d bytes, %d is the most", len(want.Lock), maxLock)}
	}
	if err := ctx.Err(); err != nil {
		return nil, context.Cause(ctx)
	}
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return nil, errClosed
	}
	if h := s.held[digest]; h != nil {
		h.refs++
		s.mu.Unlock()
		return s.layer(digest, h), nil
	}
	f := s.builds[digest]
	if f == nil {
		f = s.begin(digest, want, build)
	}
	f.waiters++
	s.mu.Unlock()

	leave := f.listen(want.Progress)
	defer leave()
	select {
	case <-f.done:
	case <-ctx.Done():
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	defer s.left(f)
	switch {
	case !f.ended:
		return nil, context.Cause(ctx)
	case f.err != nil:
		return nil, f.err
	}
	f.hold.refs++
	return s.layer(digest, f.hold), nil
}

// begin starts a build. The store's mu is held.
func (s *Store) begin(digest string, want Want, build Build) *sharedBuild {
	ctx, cancel := context.WithCancelCause(s.ctx)
	f := &sharedBuild{want: want, build: build, digest: digest, cancel: cancel, done: make(chan struct{})}
	s.builds[digest] = f
	s.wg.Go(func() {
		lock, info, err := s.obtain(ctx, f)
		cancel(nil)
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.builds[digest] == f {
			delete(s.builds, digest)
		}
		f.ended = true
		if f.err = err; err == nil {
			// The build itself is the first user, until its last waiter has gone.
			f.hold = s.held[digest]
			if f.hold == nil {
				f.hold = &hold{lock: lock, info: info}
				s.held[digest] = f.hold
			} else {
				lock.Close()
			}
			f.hold.refs++
			if f.waiters == 0 {
				s.release(digest, f.hold)
			}
		}
		close(f.done)
	})
	return f
}

// left counts down the waiters of f. The store's mu is held.
func (s *Store) left(f *sharedBuild) {
	f.waiters--
	switch {
	case f.waiters > 0:
	case !f.ended:
		f.cancel(errNobody)
		if s.builds[f.digest] == f {
			delete(s.builds, f.digest) // who comes now begins anew
		}
	case f.hold != nil:
		s.release(f.digest, f.hold)
	}
}

// release gives up one use. The store's mu is held.
func (s *Store) release(digest string, h *hold) {
	if h.refs--; h.refs > 0 {
		return
	}
	if s.held[digest] == h {
		delete(s.held, digest)
	}
	stamp(h.lock)
	h.lock.Close()
}

// layer returns a handle for one use that is counted already.
func (s *Store) layer(digest string, h *hold) *Layer {
	return &Layer{Dir: s.path("layers", digest, "files"), Info: h.info, close: func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.release(digest, h)
	}, again: func() (*Layer, bool) {
		s.mu.Lock()
		defer s.mu.Unlock()
		if h.refs <= 0 {
			return nil, false
		}
		h.refs++
		return s.layer(digest, h), true
	}}
}

// listen sends progress to fn until leave is called.
func (f *sharedBuild) listen(fn func(string)) (leave func()) {
	if fn == nil {
		return func() {}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.listeners = append(f.listeners, &fn)
	return func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.listeners = slices.DeleteFunc(f.listeners, func(p *func(string)) bool { return p == &fn })
	}
}

// progress sends a line to everyone who waits.
func (f *sharedBuild) progress(line string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, fn := range f.listeners {
		(*fn)(line)
	}
}

// obtain returns the shared lock of a layer that is there and whole.
func (s *Store) obtain(ctx context.Context, f *sharedBuild) (*os.File, Info, error) {
	waiting := func() { f.progress("waiting for another process that builds the same packages") }
	for range 5 {
		lock, err := s.open(ctx, f.digest, false, true, waiting)
		if err != nil {
			return nil, Info{}, err
		}
		info, damage := s.present(ctx, f.digest)
		if damage == nil {
			stamp(lock)
			return lock, info, nil
		}
		lock.Close()
		if err := ctx.Err(); err != nil {
			return nil, Info{}, context.Cause(ctx)
		}
		missing := errors.Is(damage, fs.ErrNotExist)
		// A damaged layer that others use is not waited for: they may run for days.
		lock, err = s.open(ctx, f.digest, true, missing, waiting)
		if err != nil {
			return nil, Info{}, err
		}
		if lock == nil {
			return nil, Info{}, &haft.Error{Code: haft.CodeUnavailable, Err: damage,
				Message: "installed packages were changed on the disk, and are in use, so that they cannot be " +
					"built anew"}
		}
		if _, err := os.Lstat(s.path("layers", f.digest)); err == nil && missing {
			lock.Close() // another has built it meanwhile
			continue
		}
		if err := s.make(ctx, f); err != nil {
			s.dropLock(f.digest, lock)
			return nil, Info{}, err
		}
		stamp(lock)
		lock.Close() // and take it shared: if another removes it between, it is built again
	}
	return nil, Info{}, &haft.Error{Code: haft.CodeUnavailable,
		Message: "installed packages are removed as fast as they are built: the space for them is too small"}
}

// present reports what the layer is, or what is wrong with it. The lock is held.
func (s *Store) present(ctx context.Context, digest string) (Info, error) {
	info, err := s.info(digest)
	if err != nil {
		return Info{}, err
	}
	s.mu.Lock()
	known := s.verified[digest]
	s.mu.Unlock()
	if known == info.Manifest {
		return info, nil
	}
	if err := s.verify(ctx, digest, s.cfg.Quick); err != nil {
		return Info{}, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.verified[digest] = info.Manifest
	return info, nil
}

// make builds a layer. The exclusive lock is held: what there is of it is of no use.
func (s *Store) make(ctx context.Context, f *sharedBuild) error {
	if err := s.discard(f.digest); err != nil {
		return err
	}
	tmp := s.path("tmp", f.digest+".build")
	if err := removeTree(tmp); err != nil {
		return explain("remove an unfinished layer", err)
	}
	if err := os.Mkdir(tmp, 0o700); err != nil {
		return explain("make a layer", err)
	}
	info, err := s.fill(ctx, f, tmp)
	if err == nil {
		err = s.publish(tmp, f.digest)
	}
	if err != nil {
		_ = removeTree(tmp) // and if not now, then by the next Open
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.verified[f.digest] = info.Manifest // its hashes were taken a moment ago
	return nil
}

// fill runs the build in tmp/files and seals what it leaves.
func (s *Store) fill(ctx context.Context, f *sharedBuild, tmp string) (Info, error) {
	files := filepath.Join(tmp, "files")
	if err := makeOpen(files); err != nil {
		return Info{}, explain("make a layer", err)
	}
	bounded, cancel := context.WithCancelCause(ctx)
	var wg sync.WaitGroup
	wg.Go(func() { scratch(files).watch(bounded, s.bounds, cancel) })
	started := time.Now()
	err := f.build(bounded, files, f.progress)
	cause := context.Cause(bounded)
	cancel(nil)
	wg.Wait()
	if err != nil {
		if e, ok := errors.AsType[*haft.Error](cause); ok && ctx.Err() == nil {
			return Info{}, e // it grew too large
		}
		if diskFull(err) {
			return Info{}, explain("build a layer", err)
		}
		return Info{}, err
	}
	if err := ctx.Err(); err != nil {
		return Info{}, context.Cause(ctx)
	}
	f.progress("checking and keeping what was installed")
	return s.seal(ctx, tmp, f.want, started)
}

// bounds reports what is too large.
func (s *Store) bounds(size int64, count int) error {
	if size > s.cfg.MaxBytes {
		return &haft.Error{Code: haft.CodeInvalid, Message: fmt.Sprintf(
			"the packages take more than %d MiB when installed, which is the most: ask for fewer or smaller ones",
			s.cfg.MaxBytes>>20)}
	}
	if count > s.cfg.MaxFiles {
		return &haft.Error{Code: haft.CodeInvalid, Message: fmt.Sprintf(
			"the packages have more than %d files, which is the most: ask for fewer", s.cfg.MaxFiles)}
	}
	return nil
}
