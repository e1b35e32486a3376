package app

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"haft"
	"haft/audit"
)

// digestKeySize is that of the key for digests of arguments and results.
const digestKeySize = 32

// maxKeyFile bounds what is read.
const maxKeyFile = 64 << 10

// newDigestKey makes a key that nobody can guess.
func newDigestKey() ([]byte, error) {
	key := make([]byte, digestKeySize)
	if _, err := rand.Read(key); err != nil {
		return nil, fmt.Errorf("make a key: %w", err)
	}
	return key, nil
}

// newAuditKey makes a key that signs the audit.
func newAuditKey() ([]byte, error) {
	s, err := audit.NewKey()
	if err != nil {
		return nil, err
	}
	return s.PEM()
}

// keyFile reads a key, and makes it where there is none. One that others can read
// is refused: it may be known to anybody.
func keyFile(path string, make func() ([]byte, error)) ([]byte, error) {
	info, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return newKeyFile(path, make)
	}
	if err != nil {
		return nil, fmt.Errorf("look at a key: %w", err)
	}
	name := filepath.Base(path)
	if !info.Mode().IsRegular() || info.Size() > maxKeyFile {
		return nil, &haft.Error{Code: haft.CodeInvalid, Message: name + " in the data directory is not a key"}
	}
	if info.Mode().Perm()&0o077 != 0 {
		return nil, &haft.Error{Code: haft.CodeInvalid, Message: name + " in the data directory can be read by others; change its mode to 0600, and make a new one if it may be known"}
	}
	key, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read a key: %w", err)
	}
	return key, nil
}

// newKeyFile makes a key and its file, whole or not at all.
func newKeyFile(path string, make func() ([]byte, error)) (_ []byte, err error) {
	key, err := make()
	if err != nil {
		return nil, err
	}
	f, err := os.CreateTemp(filepath.Dir(path), ".key-*") // 0600
	if err != nil {
		return nil, fmt.Errorf("keep a key: %w", err)
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.Remove(f.Name()))
		}
	}()
	_, err = f.Write(key)
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return nil, fmt.Errorf("keep a key: %w", err)
	}
	if err = os.Rename(f.Name(), path); err != nil {
		return nil, fmt.Errorf("keep a key: %w", err)
	}
	return key, nil
}
