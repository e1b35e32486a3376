package layer

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"haft"
)

// What a layer may hold at most, if Config does not say. The largest wheels, those
// for GPUs, have some 3 GiB unpacked.
const (
	defaultMaxBytes = 8 << 30
	defaultMaxFiles = 300_000
)

// Config says where layers are kept. Dir is required.
type Config struct {
	// Dir is made if it is not there.
	Dir string
	// MaxBytes and MaxFiles bound one layer; 0 means 8 GiB and 300,000.
	MaxBytes int64
	MaxFiles int
	// Quick compares sizes instead of hashes before the first use of a layer in
	// this process. It is for a Dir that nobody else can write to.
	Quick bool
}

// A Store keeps layers in a directory, which other processes may use as well. It is
// safe for concurrent use.
type Store struct {
	cfg  Config
	stop context.CancelCauseFunc
	ctx  context.Context // ends with the store: builds run in it
	wg   sync.WaitGroup  // builds

	mu       sync.Mutex
	closed   bool
	builds   map[string]*sharedBuild
	held     map[string]*hold
	verified map[string]string // manifests of layers that were compared with them
}

// hold is a shared lock that the users of one layer in this process have together.
type hold struct {
	lock *os.File
	refs int
	info Info
}

// A Want says which layer. Two wants with equal Kind, Runtime and Lock are one.
type Want struct {
	// Kind is "pip" or "npm".
	Kind string
	// Runtime names the interpreter, by all that its packages depend on: version,
	// binary interface, system and processor.
	Runtime string
	// Lock is the exact list of packages, with hashes.
	Lock []byte
	// Progress, if not nil, gets the output of the build line by line. It must return
	// at once, and is not called after Layer has returned.
	Progress func(line string)
}

// Digest names the layer.
func (w Want) Digest() string {
	h := sha256.New()
	fmt.Fprint(h, "haft layer 1\n")
	for _, part := range []string{w.Kind, w.Runtime, string(w.Lock)} {
		fmt.Fprintf(h, "%d\n%s\n", len(part), part)
	}
	return hex.EncodeToString(h.Sum(nil))
}

// Build fills dir, which is empty, with what becomes the layer. It may leave
// nothing running behind.
type Build func(ctx context.Context, dir string, progress func(line string)) error

// Open makes the directories of a store and removes what builds that ended half-way
// have left.
func Open(cfg Config) (*Store, error) {
	if cfg.Dir == "" {
		return nil, &haft.Error{Code: haft.CodeInvalid, Message: "the layer store needs a directory"}
	}
	dir, err := filepath.Abs(cfg.Dir)
	if err != nil {
		return nil, fmt.Errorf("find the layer store: %w", err)
	}
	cfg.Dir = dir
	if cfg.MaxBytes <= 0 {
		cfg.MaxBytes = defaultMaxBytes
	}
	if cfg.MaxFiles <= 0 {
		cfg.MaxFiles = defaultMaxFiles
	}
	s := &Store{cfg: cfg, builds: map[string]*sharedBuild{}, held: map[string]*hold{}, verified: map[string]string{}}
	// Tools may run as other users than we do, and must reach layers. Half-built
	// ones are open to the sandbox's user, and so nobody else may reach them.
	for name, mode := range map[string]fs.FileMode{"": 0o755, "layers": 0o755, "locks": 0o700, "tmp": 0o700} {
		if err := os.MkdirAll(s.path(name), mode); err != nil {
			return nil, explain("make the layer store", err)
		}
	}
	s.ctx, s.stop = context.WithCancelCause(context.Background()) //nolint:forbidigo // it ends with Close
	if err := s.sweep(); err != nil {
		s.stop(nil)
		return nil, err
	}
	return s, nil
}

// errClosed is why builds end with their store.
var errClosed = &haft.Error{Code: haft.CodeUnavailable, Message: "the layer store is closed"}

// Close stops builds and waits for them. Layers that are given out stay locked until
// they are closed.
func (s *Store) Close() error {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	s.stop(errClosed)
	s.wg.Wait()
	return nil
}

// path returns a path in the store.
func (s *Store) path(parts ...string) string {
	return filepath.Join(append([]string{s.cfg.Dir}, parts...)...)
}

// isDigest reports whether name can be that of a layer.
func isDigest(name string) bool {
	b, err := hex.DecodeString(name)
	return err == nil && len(b) == sha256.Size && strings.ToLower(name) == name
}

// sweep removes what was left in tmp by builds whose locks are free.
func (s *Store) sweep() error {
	entries, err := os.ReadDir(s.path("tmp"))
	if err != nil {
		return explain("look for unfinished layers", err)
	}
	for _, e := range entries {
		digest, _, _ := strings.Cut(e.Name(), ".")
		if !isDigest(digest) {
			continue // not ours
		}
		lock, err := s.open(s.ctx, digest, true, false, nil)
		if err != nil {
			return err
		}
		if lock == nil {
			continue // somebody is at it
		}
		err = removeTree(s.path("tmp", e.Name()))
		s.dropLock(digest, lock)
		if err != nil {
			return explain("remove an unfinished layer", err)
		}
	}
	return nil
}

// dropLock releases an exclusive lock, and removes its file if there is no layer
// that it belongs to.
func (s *Store) dropLock(digest string, lock *os.File) {
	if _, err := os.Lstat(s.path("layers", digest)); errors.Is(err, fs.ErrNotExist) {
		// Whoever has it open finds out that it is gone: see open.
		_ = os.Remove(lock.Name())
	}
	lock.Close()
}

// Scratch makes an empty directory that is removed by done, or, if the process ends
// before, by the next Open. A sandbox may write to it.
func (s *Store) Scratch() (dir string, done func(), err error) {
	var b [sha256.Size]byte
	rand.Read(b[:])
	name := hex.EncodeToString(b[:])
	lock, err := s.open(s.ctx, name, true, true, nil)
	if err != nil {
		return "", nil, err
	}
	dir = s.path("tmp", name+".scratch")
	if err := makeOpen(dir); err != nil {
		s.dropLock(name, lock)
		return "", nil, explain("make a directory", err)
	}
	return dir, func() {
		_ = removeTree(dir) // the next Open tries again
		s.dropLock(name, lock)
	}, nil
}

// makeOpen makes a directory that a sandbox of another user may write to. It lies in
// one that only we can enter.
func makeOpen(dir string) error {
	if err := os.Mkdir(dir, 0o700); err != nil {
		return err
	}
	return os.Chmod(dir, 0o777)
}

// removeTree removes a directory whose directories may be read-only. It follows no
// links.
func removeTree(dir string) error {
	info, err := os.Lstat(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if !info.IsDir() {
		return os.Remove(dir)
	}
	err = filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
		if d != nil && d.IsDir() {
			// WalkDir calls this before it reads the directory.
			if chErr := os.Chmod(name, 0o700); chErr != nil {
				return chErr
			}
			return nil
		}
		return err
	})
	if err != nil {
		return err
	}
	return os.RemoveAll(dir)
}

// explain turns what a file system says into an error with plain words, where
// somebody can do something about it.
func explain(doing string, err error) error {
	switch {
	case err == nil:
		return nil
	case diskFull(err):
		return &haft.Error{Code: haft.CodeUnavailable, Err: fmt.Errorf("%s: %w", doing, err), Message: "" +
			"the disk that holds installed packages is full: free some space, or remove packages that are not used " +
			"with \"haft env gc\""}
	case readOnly(err):
		return &haft.Error{Code: haft.CodeUnavailable, Err: fmt.Errorf("%s: %w", doing, err), Message: "" +
			"the directory that holds installed packages cannot be written to: see to its owner and mode"}
	}
	return fmt.Errorf("%s: %w", doing, err)
}
