package app

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"haft"
	"haft/internal/audit"
	"haft/internal/checkpoint"
	"haft/internal/store"
	"haft/internal/store/sqlite"
)

// The files of keys in the data directory; see also pepperFile and masterFile.
const (
	auditFile  = "audit.key"
	digestFile = "digest.key"
)

// siblings are the files that stand in a data directory only beside a database of its
// own. An operator may put others there before the first start, such as master.key.
func siblings() []string { return []string{checkpoint.HeadFile, auditFile, digestFile} }

// used reports whether the database of a data directory has an audit log, and so needs the
// keys that were made before its first entry. Others who share a database have keys of
// their own.
func (s *Service) used(ctx context.Context) (bool, error) {
	if s.Store.Shared() {
		_, err := os.Lstat(filepath.Join(s.data, checkpoint.HeadFile))
		return err == nil, nil
	}
	orgs, err := s.Store.AuditOrgs(ctx)
	return len(orgs) > 0, err
}

// A lostKey says that a key of the data directory is missing, no key, or another one.
type lostKey struct {
	name string
	code haft.Code // unavailable, invalid, or conflict
}

// why says what is wrong with the key.
func (l *lostKey) why() string {
	switch l.code {
	case haft.CodeInvalid:
		return "is not a key of 32 bytes"
	case haft.CodeConflict:
		return "is not the one that this database was used with"
	}
	return "is missing"
}

// Error implements error.
func (l *lostKey) Error() string { return l.name + " " + l.why() }

// consequence says what whoever goes on with another key has to do, or cannot do.
func (l *lostKey) consequence() string {
	switch l.name {
	case pepperFile:
		return "every API key has to be rotated"
	case digestFile:
		return "digests of earlier arguments and results cannot be compared with later ones"
	}
	return "the public key of the lost one has to be in audit.keys"
}

// refusal says what to do about the key.
func (l *lostKey) refusal() error {
	return &haft.Error{Code: l.code, Err: l, Message: l.name + " in the data directory " + l.why() +
		": put back the right file. " +
		"If nobody has it, run: haft restore --accept-loss; then " + l.consequence() + ". Nothing was changed"}
}

// marked reports whether the database has a fingerprint of a key. Servers that share one
// have keys of their own, but for that of the API keys, which all of them have to read.
func (s *Service) marked(name string) bool { return !s.Store.Shared() || name == pepperFile }

// boundKey returns a key of 32 bytes in the data directory, which belongs to the database.
// The key is made if it was not needed yet, and else demanded.
func (s *Service) boundKey(ctx context.Context, dir, name string, needed bool) ([]byte, error) {
	lost, err := s.missingKey(ctx, dir, name, needed)
	if err != nil {
		return nil, err
	}
	if lost != nil {
		return nil, lost.refusal()
	}
	key, err := keyFile(filepath.Join(dir, name), newDigestKey)
	if err != nil || !s.marked(name) {
		return key, err
	}
	mark, err := s.Store.FirstMark(ctx, name, fingerprint(key))
	if err == nil && mark != fingerprint(key) { // another server was first
		err = (&lostKey{name, haft.CodeConflict}).refusal()
	}
	return key, err
}

// missingKey says what is wrong with a key that the database needs, or nil. Nothing is
// changed.
func (s *Service) missingKey(ctx context.Context, dir, name string, needed bool) (*lostKey, error) {
	mark, err := int64(0), error(nil)
	if s.marked(name) {
		if mark, err = s.Store.Mark(ctx, name); err != nil {
			return nil, err
		}
	}
	key, err := keyFile(filepath.Join(dir, name), func() ([]byte, error) { return nil, fs.ErrNotExist })
	switch {
	case errors.Is(err, fs.ErrNotExist) && (needed || mark != 0):
		return &lostKey{name, haft.CodeUnavailable}, nil
	case errors.Is(err, fs.ErrNotExist):
		return nil, nil
	case err != nil:
		return nil, err
	case len(key) != digestKeySize:
		return &lostKey{name, haft.CodeInvalid}, nil
	case mark != 0 && mark != fingerprint(key):
		return &lostKey{name, haft.CodeConflict}, nil
	}
	return nil, nil
}

// fingerprint is a number by which a key of random bytes is known again, and never 0.
func fingerprint(key []byte) int64 {
	sum := sha256.Sum256(append([]byte("haft key fingerprint\n"), key...))
	return int64(binary.BigEndian.Uint64(sum[:]) | 1)
}

// lostKeys lists the keys that the database needs and that are not there.
func (s *Service) lostKeys(ctx context.Context) ([]*lostKey, error) {
	used, err := s.used(ctx)
	if err != nil {
		return nil, err
	}
	some, err := s.Store.HasKeys(ctx)
	if err != nil {
		return nil, err
	}
	var list []*lostKey
	if _, err := os.Lstat(filepath.Join(s.data, auditFile)); used && errors.Is(err, fs.ErrNotExist) {
		list = append(list, &lostKey{auditFile, haft.CodeUnavailable})
	}
	for name, needed := range map[string]bool{digestFile: used, pepperFile: some} {
		lost, err := s.missingKey(ctx, s.data, name, needed)
		if err != nil {
			return nil, err
		}
		if lost != nil {
			list = append(list, lost)
		}
	}
	return list, nil
}

// replaceKeys makes new keys in place of those that are lost. Another key that is there is
// taken, and a file that is no key is kept under another name.
func (s *Service) replaceKeys(ctx context.Context, list []*lostKey) error {
	for _, l := range list {
		path := filepath.Join(s.data, l.name)
		if l.code == haft.CodeInvalid {
			if err := os.Rename(path, path+".lost"); err != nil {
				return fmt.Errorf("move %s away: %w", l.name, err)
			}
		}
		if l.name == auditFile {
			if _, err := keyFile(path, newAuditKey); err != nil {
				return err
			}
			continue
		}
		if s.marked(l.name) {
			if err := s.Store.ClearMark(ctx, l.name); err != nil {
				return err
			}
		}
		if _, err := s.boundKey(ctx, s.data, l.name, false); err != nil {
			return err
		}
	}
	return nil
}

// restoredEntry says in the audit that somebody went on without files.
func restoredEntry(p haft.Principal, lost []string) audit.Entry {
	body, err := json.Marshal(map[string]any{"files": lost})
	if err != nil {
		body = nil // texts can be encoded
	}
	return audit.Entry{Org: p.Org, Time: time.Now(), Kind: checkpoint.Kind, Actor: p, Body: body}
}

// openDamaged opens the store for [Restore]: if files of it are missing, ask is asked
// first, and that is written into the audit. It reports whether it was opened.
func (s *Service) openDamaged(ctx context.Context, cfg ServiceConfig, p haft.Principal,
	ask func(lost []string) (bool, error)) (bool, error) {
	err := s.openStore(ctx, cfg)
	log, isLog := errors.AsType[*store.LogLoss](err)
	none, isNone := errors.AsType[*sqlite.NoDatabase](err)
	var lost []string
	switch {
	case isLog:
		lost = []string{log.Error()}
	case isNone:
		lost = []string{none.Error()}
	default:
		return err == nil, err
	}
	if yes, err := ask(lost); err != nil || !yes {
		return false, err
	}
	cfg.acceptLoss = func(l *store.LogLoss) audit.Entry { return restoredEntry(p, []string{l.Error()}) }
	if err := s.openStore(ctx, cfg); err != nil {
		return false, err
	}
	if isNone {
		if err := s.Store.Commit(ctx, store.Batch{Audit: []audit.Entry{restoredEntry(p, lost)}}); err != nil {
			return false, err
		}
	}
	return true, s.forgetAdmin(ctx)
}

// forgetAdmin moves admin.key away if the database has no API keys: it is of one that is
// gone, and the next server makes another.
func (s *Service) forgetAdmin(ctx context.Context) error {
	some, err := s.Store.HasKeys(ctx)
	if err != nil || some {
		return err
	}
	path := filepath.Join(s.data, adminFile)
	if err := os.Rename(path, path+".lost"); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("move %s away: %w", adminFile, err)
	}
	return nil
}
