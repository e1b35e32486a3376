package supply

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"haft/executor"
	"haft/internal/requirement"
)

// safeName makes a file name of any text.
func safeName(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:16])
}

// LockOnce is Lock for callers that store nothing: it remembers the locks of a set beside
// the layers, for the interpreter and the index that they were found with. With renew it
// finds them again.
func (s *Supply) LockOnce(ctx context.Context, set requirement.Set, renew bool, progress func(string)) ([]Lock, error) {
	var locks []Lock
	for _, kind := range kinds(set) {
		_, runtime, err := s.installer(ctx, kind, progress)
		if err != nil {
			return nil, err
		}
		part := requirement.Set{Pip: set.Pip, Python: set.Python}
		if kind == "npm" {
			part = requirement.Set{NPM: set.NPM}
		}
		ix := s.cfg.Index
		name := "lock-" +
			safeName(fmt.Sprintf("%q %q %q %q %q %q %v %v", kind, runtime, part.Digest(), ix.URL, ix.Extra, ix.Registry,
				ix.Wheels, s.cfg.Source))
		if text, ok := s.recall(name); ok && !renew {
			locks = append(locks, Lock{Kind: kind, Text: text})
			continue
		}
		found, err := s.Lock(ctx, part, progress)
		if err != nil {
			return nil, err
		}
		for _, l := range found {
			s.remember(name, l.Text)
		}
		locks = append(locks, found...)
	}
	return locks, nil
}

// Provide installs the packages of a set for a source and returns them, as [Supply.Open]
// does. It remembers the locks of the set, as [Supply.LockOnce] does.
func (s *Supply) Provide(ctx context.Context, set requirement.Set, source []byte, renew bool,
	progress func(string)) ([]executor.Layer, func(), error) {
	if set.Empty() {
		return nil, func() {}, nil
	}
	locks, err := s.LockOnce(ctx, set, renew, progress)
	if err != nil {
		return nil, nil, err
	}
	return s.Open(ctx, locks, string(source), progress)
}

// recall returns the text that was remembered under a name. The directory is trusted, like
// the layers.
func (s *Supply) recall(name string) ([]byte, bool) {
	f, err := os.Open(filepath.Join(s.cfg.Dir, "known", name))
	if err != nil {
		return nil, false
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, requirement.MaxLock+1))
	if err != nil || len(text) > requirement.MaxLock {
		return nil, false
	}
	// The first line is the hash of the rest: a file that a crash cut short does not count.
	sum, rest, ok := strings.Cut(string(text), "\n")
	if want := sha256.Sum256([]byte(rest)); !ok || sum != hex.EncodeToString(want[:]) {
		return nil, false
	}
	return []byte(rest), true
}

// remember stores a text. If that fails, the next process finds it out again.
func (s *Supply) remember(name string, text []byte) {
	dir := filepath.Join(s.cfg.Dir, "known")
	err := os.MkdirAll(dir, 0o700)
	if err != nil && !errors.Is(err, fs.ErrExist) {
		return
	}
	tmp, err := os.CreateTemp(dir, ".new-*")
	if err != nil {
		return
	}
	sum := sha256.Sum256(text)
	_, err = tmp.WriteString(hex.EncodeToString(sum[:]) + "\n" + string(text))
	if closed := tmp.Close(); err == nil {
		err = closed
	}
	if err == nil {
		err = os.Rename(tmp.Name(), filepath.Join(dir, name))
	}
	if err != nil {
		_ = os.Remove(tmp.Name()) // a leftover, and harmless
	}
}
