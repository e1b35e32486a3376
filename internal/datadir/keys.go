package datadir

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"os"
	"path/filepath"

	"haft"
	"haft/internal/audit"
	"haft/internal/checkpoint"
	"haft/internal/store"
)

// The files in a data directory besides the database and [checkpoint.HeadFile].
const (
	AuditFile  = "audit.key"  // signs the audit
	DigestFile = "digest.key" // makes digests of arguments and results
	PepperFile = "auth.key"   // the pepper of API keys: those in the store are useless without it
	AdminFile  = "admin.key"  // the text of the first administrator's key
	MasterFile = "master.key" // encrypts the keys of secrets
	trustFile  = "audit.keys" // public keys, of other servers or of earlier times
)

// A Dir is a data directory with its database, which may be a Postgres.
type Dir struct {
	Path  string
	Store *store.Store
}

// Siblings are the files that stand in a data directory only beside a database of its
// own. An operator may put others there before the first start, such as master.key.
func Siblings() []string { return []string{checkpoint.HeadFile, AuditFile, DigestFile} }

// Used reports whether the database of a data directory has an audit log, and so needs the
// keys that were made before its first entry. Other servers that share a database have
// their own keys.
func (d *Dir) Used(ctx context.Context) (bool, error) {
	if d.Store.Shared() {
		_, err := os.Lstat(filepath.Join(d.Path, checkpoint.HeadFile))
		return err == nil, nil
	}
	orgs, err := d.Store.Audit.AuditOrgs(ctx)
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

// consequence says what an operator must do, or loses, who continues with another key.
func (l *lostKey) consequence() string {
	switch l.name {
	case PepperFile:
		return "every API key has to be rotated"
	case DigestFile:
		return "digests of earlier arguments and results cannot be compared with later ones"
	}
	return "the public key of the lost one has to be in audit.keys"
}

// refusal is the error that says what to do about the key.
func (l *lostKey) refusal() error {
	return &haft.Error{Code: l.code, Err: l, Message: l.name + " in the data directory " + l.why() +
		": put back the right file. " +
		"If nobody has it, run: haft restore --accept-loss; then " + l.consequence() + ". Nothing was changed"}
}

// marked reports whether the database has a fingerprint of a key. Servers that share a
// database have their own keys, except the pepper, which all of them need.
func (d *Dir) marked(name string) bool { return !d.Store.Shared() || name == PepperFile }

// Key returns a key of 32 bytes in the data directory, which belongs to the database.
// It makes the key if nothing needed it yet; otherwise a missing key is an error.
func (d *Dir) Key(ctx context.Context, name string, needed bool) ([]byte, error) {
	lost, err := d.missingKey(ctx, name, needed)
	if err != nil {
		return nil, err
	}
	if lost != nil {
		return nil, lost.refusal()
	}
	key, err := readOrMake(filepath.Join(d.Path, name), NewKey)
	if err != nil || !d.marked(name) {
		return key, err
	}
	mark, err := d.Store.Settings.FirstMark(ctx, name, fingerprint(key))
	if err == nil && mark != fingerprint(key) { // another server was faster
		err = (&lostKey{name, haft.CodeConflict}).refusal()
	}
	return key, err
}

// missingKey returns what is wrong with a key that the database needs, or nil. It changes
// nothing.
func (d *Dir) missingKey(ctx context.Context, name string, needed bool) (*lostKey, error) {
	mark, err := int64(0), error(nil)
	if d.marked(name) {
		if mark, err = d.Store.Settings.Mark(ctx, name); err != nil {
			return nil, err
		}
	}
	key, err := ReadKey(filepath.Join(d.Path, name))
	switch {
	case errors.Is(err, fs.ErrNotExist) && (needed || mark != 0):
		return &lostKey{name, haft.CodeUnavailable}, nil
	case errors.Is(err, fs.ErrNotExist):
		return nil, nil
	case err != nil:
		return nil, err
	case len(key) != keySize:
		return &lostKey{name, haft.CodeInvalid}, nil
	case mark != 0 && mark != fingerprint(key):
		return &lostKey{name, haft.CodeConflict}, nil
	}
	return nil, nil
}

// fingerprint is a number that identifies a key of random bytes. It is never 0.
func fingerprint(key []byte) int64 {
	sum := sha256.Sum256(append([]byte("haft key fingerprint\n"), key...))
	return int64(binary.BigEndian.Uint64(sum[:]) | 1)
}

// lostKeys lists the keys that the database needs and that are missing or wrong.
func (d *Dir) lostKeys(ctx context.Context) ([]*lostKey, error) {
	used, err := d.Used(ctx)
	if err != nil {
		return nil, err
	}
	some, err := d.Store.Keys.HasKeys(ctx)
	if err != nil {
		return nil, err
	}
	var list []*lostKey
	if _, err := os.Lstat(filepath.Join(d.Path, AuditFile)); used && errors.Is(err, fs.ErrNotExist) {
		list = append(list, &lostKey{AuditFile, haft.CodeUnavailable})
	}
	for name, needed := range map[string]bool{DigestFile: used, PepperFile: some} {
		lost, err := d.missingKey(ctx, name, needed)
		if err != nil {
			return nil, err
		}
		if lost != nil {
			list = append(list, lost)
		}
	}
	return list, nil
}

// replaceKeys makes new keys in place of lost ones. A key of another database is accepted,
// and a file that is no key is renamed.
func (d *Dir) replaceKeys(ctx context.Context, list []*lostKey) error {
	for _, l := range list {
		path := filepath.Join(d.Path, l.name)
		if l.code == haft.CodeInvalid {
			if err := os.Rename(path, path+".lost"); err != nil {
				return fmt.Errorf("move %s away: %w", l.name, err)
			}
		}
		if l.name == AuditFile {
			if _, err := readOrMake(path, newAuditKey); err != nil {
				return err
			}
			continue
		}
		if d.marked(l.name) {
			if err := d.Store.Settings.ClearMark(ctx, l.name); err != nil {
				return err
			}
		}
		if _, err := d.Key(ctx, l.name, false); err != nil {
			return err
		}
	}
	return nil
}

// AuditKeys returns the key that signs the audit and those that are trusted: its own, and
// the public ones in audit.keys, of other servers or of earlier times. A key that is gone
// is not replaced in silence if the database was used with one, or if a file is there that
// it signed.
func (d *Dir) AuditKeys(used bool) (*audit.Signer, audit.Keys, error) {
	pem, err := readOrMake(filepath.Join(d.Path, AuditFile), func() ([]byte, error) {
		if _, err := os.Lstat(filepath.Join(d.Path, checkpoint.HeadFile)); err == nil || used {
			return nil, (&lostKey{AuditFile, haft.CodeUnavailable}).refusal()
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
	text, err := trustedFile(filepath.Join(d.Path, trustFile))
	if err != nil || text == nil {
		return signer, keys, err
	}
	more, err := audit.ParseKeys(text)
	if err != nil {
		return nil, nil, fmt.Errorf("read audit.keys in the data directory: %w", err)
	}
	maps.Copy(keys, more)
	return signer, keys, nil
}

// AuditLog returns the audit of the database, for whoever only looks at it.
func (d *Dir) AuditLog(ctx context.Context) (*checkpoint.AuditLog, error) {
	used, err := d.Used(ctx)
	if err != nil {
		return nil, err
	}
	_, keys, err := d.AuditKeys(used)
	return &checkpoint.AuditLog{Store: d.Store, Dir: d.Path, Keys: keys}, err
}

// Checkpoints returns what signs the audit of the database, which goes on with the
// keys that are there, and copies checkpoints to a sink; "" means to none.
func (d *Dir) Checkpoints(sink string, used bool, logger *slog.Logger) (c checkpoint.Config, err error) {
	c = checkpoint.Config{Store: d.Store, Dir: d.Path, Logger: logger}
	if c.Signer, c.Keys, err = d.AuditKeys(used); err == nil && sink != "" {
		c.Sink, err = checkpoint.OpenSink(sink)
	}
	return c, err
}

// Owner tells the Haft of a data directory from others that use the same account of a server. Hosts of two deployments
// can have the same name and the same directory, but not the same key of digests. It is "" without a directory.
func Owner(dir string, key []byte) string {
	if dir == "" {
		return ""
	}
	sum := sha256.Sum256(append([]byte("haft owner\n"), key...))
	return filepath.Clean(dir) + "\x00" + hex.EncodeToString(sum[:8])
}
