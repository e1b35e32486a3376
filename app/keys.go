package app

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"haft"
	"haft/internal/audit"
	"haft/internal/checkpoint"
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

// auditKeys returns the key that signs the audit and those that are trusted: its own, and
// the public ones in audit.keys, of other servers or of earlier times. A key that is gone
// is not replaced in silence if the database was used with one, or if a file is there that
// it signed.
func auditKeys(dir string, used bool) (*audit.Signer, audit.Keys, error) {
	pem, err := keyFile(filepath.Join(dir, auditFile), func() ([]byte, error) {
		if _, err := os.Lstat(filepath.Join(dir, checkpoint.HeadFile)); err == nil || used {
			return nil, (&lostKey{auditFile, haft.CodeUnavailable}).refusal()
		}
		return newAuditKey()
	})
	if err != nil {
		return nil, nil, err
	}
	signer, err := audit.ParseSigner(pem)
	if err != nil {
		return nil, nil, fmt.Errorf("read the key of the audit: %w", err)
	}
	keys := audit.MakeKeys(signer.Public())
	text, err := trustedFile(filepath.Join(dir, "audit.keys"))
	if err != nil || text == nil {
		return signer, keys, err
	}
	more, err := audit.ParseKeys(text)
	if err != nil {
		return nil, nil, fmt.Errorf("read audit.keys in the data directory: %w", err)
	}
	for id, key := range more {
		keys[id] = key
	}
	return signer, keys, nil
}

// trustedFile reads a file that only its owner may write; nil means that there is none.
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
	err = createFile(path, key)
	if errors.Is(err, fs.ErrExist) { // another process was first
		return keyFile(path, make)
	}
	if err != nil {
		return nil, fmt.Errorf("keep a key: %w", err)
	}
	return key, nil
}
