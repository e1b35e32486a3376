package datadir

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"haft"
	"haft/internal/audit"
)

// keySize is the size of the keys that are random bytes: digest.key and auth.key.
const keySize = 32

// maxKeyFile bounds the size of a key file.
const maxKeyFile = 64 << 10

// NewKey makes a random key.
func NewKey() ([]byte, error) {
	key := make([]byte, keySize)
	if _, err := rand.Read(key); err != nil {
		return nil, fmt.Errorf("make a key: %w", err)
	}
	return key, nil
}

// trustedFile reads a file that only its owner can write, or returns nil if there is none.
func trustedFile(path string) ([]byte, error) {
	info, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("look at a file of keys: %w", err)
	}
	if !info.Mode().IsRegular() || info.Size() > 1<<20 || info.Mode().Perm()&0o022 != 0 {
		return nil, &haft.Error{Code: haft.CodeInvalid,
			Message: filepath.Base(path) + " in the data directory is not a file that only its owner writes, or " +
				"too large"}
	}
	return os.ReadFile(path)
}

// newAuditKey makes a key that signs the audit.
func newAuditKey() ([]byte, error) {
	s, err := audit.NewKey()
	if err != nil {
		return nil, err
	}
	return s.PEM()
}

// ReadKey reads a key file. One that others can read is refused: anybody may know it.
func ReadKey(path string) ([]byte, error) {
	return readOrMake(path, func() ([]byte, error) { return nil, fs.ErrNotExist })
}

// readOrMake is [ReadKey], which makes the key where there is none.
func readOrMake(path string, make func() ([]byte, error)) ([]byte, error) {
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
		return nil, &haft.Error{Code: haft.CodeInvalid,
			Message: name + " in the data directory can be read by others; change its mode to 0600, and make a new " +
				"one if it may be known"}
	}
	key, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read a key: %w", err)
	}
	return key, nil
}

// newKeyFile makes a key and its file, whole or not at all.
func newKeyFile(path string, make func() ([]byte, error)) ([]byte, error) {
	key, err := make()
	if err != nil {
		return nil, err
	}
	err = CreateFile(path, key)
	if errors.Is(err, fs.ErrExist) { // another process was faster
		return readOrMake(path, make)
	}
	if err != nil {
		return nil, fmt.Errorf("keep a key: %w", err)
	}
	return key, nil
}

// CreateFile writes a file that nobody else can read, whole or not at all. It
// fails with [fs.ErrExist] if there is one.
func CreateFile(path string, data []byte) error {
	linked := false
	err := PlaceFile(path, data, func(from, to string) error {
		err := os.Link(from, to)
		linked = err == nil
		return err
	})
	if linked && err != nil {
		return errors.Join(err, os.Remove(path))
	}
	return err
}

// PlaceFile writes a file beside path that nobody else can read, brings it to the disk,
// and has place put it at path: [os.Link] fails with [fs.ErrExist] if there is one, and
// [os.Rename] replaces it.
func PlaceFile(path string, data []byte, place func(from, to string) error) (err error) {
	f, err := os.CreateTemp(filepath.Dir(path), ".key-*") // 0600
	if err != nil {
		return err
	}
	defer func() {
		if rm := os.Remove(f.Name()); rm != nil && !errors.Is(rm, fs.ErrNotExist) {
			err = errors.Join(err, rm)
		}
	}()
	_, err = f.Write(data)
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return err
	}
	if err = place(f.Name(), path); err != nil {
		return err
	}
	return SyncDir(filepath.Dir(path))
}

// SyncDir brings the names of a directory to the disk.
func SyncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
