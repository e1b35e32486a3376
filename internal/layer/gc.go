package layer

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"time"

	"haft"
)

// List returns all layers, the most recently used first. Damaged layers have no Kind.
// Other files in the directory are left out.
func (s *Store) List(ctx context.Context) ([]Info, error) {
	entries, err := os.ReadDir(s.path("layers"))
	if err != nil {
		return nil, explain("list layers", err)
	}
	var out []Info
	for _, e := range entries {
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		if !isDigest(e.Name()) {
			continue
		}
		info, err := s.look(e.Name())
		if errors.Is(err, fs.ErrNotExist) {
			continue // removed meanwhile
		}
		if err != nil {
			return nil, err
		}
		out = append(out, info)
	}
	slices.SortFunc(out, func(a, b Info) int { return b.LastUse.Compare(a.LastUse) })
	return out, nil
}

// look reads about one layer, damaged or not.
func (s *Store) look(digest string) (Info, error) {
	info, err := s.info(digest)
	if errors.Is(err, fs.ErrNotExist) {
		return Info{}, err
	}
	if err != nil {
		info = Info{Digest: digest}
	}
	if st, err := os.Stat(s.path("locks", digest)); err == nil {
		info.LastUse = st.ModTime().UTC()
	}
	lock, err := s.open(s.ctx, digest, true, false, nil)
	if err != nil {
		return Info{}, err
	}
	info.InUse = lock == nil
	if lock != nil {
		if !info.LastUse.IsZero() { // making the lock file was not a use
			lock.Close()
			return info, nil
		}
		_ = os.Chtimes(lock.Name(), info.Created, info.Created)
		info.LastUse = info.Created
		lock.Close()
	}
	return info, nil
}

// Show returns one layer and its lock, by its digest or the beginning of it that no
// other has.
func (s *Store) Show(ctx context.Context, prefix string) (Info, []byte, error) {
	list, err := s.List(ctx)
	if err != nil {
		return Info{}, nil, err
	}
	list = slices.DeleteFunc(list, func(i Info) bool {
		return len(prefix) < 4 || len(prefix) > len(i.Digest) || i.Digest[:len(prefix)] != prefix
	})
	if len(list) != 1 {
		return Info{}, nil, &haft.Error{Code: haft.CodeNotFound, Message: fmt.Sprintf(
			"%d environments have a digest that begins so; give at least 4 digits, and enough to tell one from "+
				"the others", len(list))}
	}
	lock, err := readFile(s.path("layers", list[0].Digest, lockFile), maxLock)
	if err != nil {
		return list[0], nil, damaged("their list cannot be read")
	}
	return list[0], lock, nil
}

// Verify compares all files of a layer with their hashes. An error with
// [haft.CodeConflict] says what differs.
func (s *Store) Verify(ctx context.Context, digest string) error {
	if !isDigest(digest) {
		return notThere()
	}
	lock, err := s.open(ctx, digest, false, true, nil)
	if err != nil {
		return err
	}
	defer s.dropShared(digest, lock)
	err = s.verify(ctx, digest, false)
	if errors.Is(err, fs.ErrNotExist) {
		return notThere()
	}
	return err
}

// notThere says that there is no such layer.
func notThere() error {
	return &haft.Error{Code: haft.CodeNotFound, Message: "there is no such environment"}
}

// dropShared releases a lock that was taken to verify a layer. If that made the lock file,
// dropShared removes it.
func (s *Store) dropShared(digest string, lock *os.File) {
	if _, err := os.Lstat(s.path("layers", digest)); errors.Is(err, fs.ErrNotExist) {
		if ok, err := tryLock(lock, true); ok && err == nil {
			s.dropLock(digest, lock)
			return
		}
	}
	lock.Close()
}

// Remove removes a layer that is not in use. The error has [haft.CodeConflict] if it
// is.
func (s *Store) Remove(ctx context.Context, digest string) error {
	if !isDigest(digest) {
		return notThere()
	}
	if _, err := os.Lstat(s.path("layers", digest)); errors.Is(err, fs.ErrNotExist) {
		return notThere()
	}
	removed, err := s.remove(ctx, digest, time.Now())
	if err == nil && !removed {
		err = &haft.Error{Code: haft.CodeConflict, Message: "the environment is in use"}
	}
	return err
}

// remove reports whether nobody used the layer since then, so that it is gone.
func (s *Store) remove(ctx context.Context, digest string, then time.Time) (bool, error) {
	lock, err := s.open(ctx, digest, true, false, nil)
	if err != nil || lock == nil {
		return false, err
	}
	if st, err := lock.Stat(); err == nil && st.ModTime().After(then) {
		lock.Close()
		return false, nil
	}
	err = s.discard(digest)
	s.dropLock(digest, lock)
	return err == nil, err
}

// Swept says what [Store.GC] did.
type Swept struct {
	Removed []Info
	// Bytes is what the removed layers had, Left what those have that remain.
	Bytes, Left int64
	// InUse is how many of those that remain could not be removed for being used.
	InUse int
	// Unknown are names in the directory that are not of layers. They are left alone.
	Unknown []string
}

// GC removes layers, the least recently used first, until all together have at most most
// bytes. It keeps layers that any process uses, and those used within the last least.
func (s *Store) GC(ctx context.Context, most int64, least time.Duration) (Swept, error) {
	var out Swept
	list, err := s.List(ctx)
	if err != nil {
		return out, err
	}
	for _, i := range list {
		out.Left += i.Bytes
	}
	now := time.Now()
	for _, i := range slices.Backward(list) {
		if i.Kind != "" && (out.Left <= most || now.Sub(i.LastUse) < least) {
			continue
		}
		if ctx.Err() != nil {
			return out, context.Cause(ctx)
		}
		gone, err := s.remove(ctx, i.Digest, i.LastUse)
		if err != nil {
			return out, err
		}
		if !gone {
			out.InUse++
			continue
		}
		out.Removed = append(out.Removed, i)
		out.Bytes += i.Bytes
		out.Left -= i.Bytes
	}
	entries, err := os.ReadDir(s.path("layers"))
	if err != nil {
		return out, explain("list layers", err)
	}
	for _, e := range entries {
		if !isDigest(e.Name()) && len(out.Unknown) < 100 {
			out.Unknown = append(out.Unknown, e.Name())
		}
	}
	return out, s.sweep()
}
