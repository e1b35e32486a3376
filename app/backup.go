package app

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"haft"
	"haft/audit"
	"haft/checkpoint"
	"haft/store"
	"haft/store/sqlite"
)

// dbFile is the database in a data directory and in a backup.
const dbFile = "haft.db"

// backupFiles are copied besides the database. audit.head comes first: it may be behind
// the database, and not ahead of it.
func backupFiles() []string {
	return []string{checkpoint.HeadFile, auditFile, "audit.keys", digestFile, pepperFile, adminFile, masterFile, masterFile + ".old"}
}

// BackupConfig says what to copy. Data and To are needed.
type BackupConfig struct {
	// Data is the data directory, which a server may be using.
	Data string
	// To is a directory that is made, or is empty.
	To string
	// FilesOnly leaves out the database: it is in a Postgres.
	FilesOnly bool
	// NoMasterKey leaves out the key that secrets are encrypted with.
	NoMasterKey bool
}

// backupTries is how often a backup begins again because a key was replaced meanwhile.
const backupTries = 3

// Backup copies a data directory, and returns the names of the files that it made. They are
// of one moment.
func Backup(ctx context.Context, cfg BackupConfig) ([]string, error) {
	if err := emptyDir(cfg.To); err != nil {
		return nil, err
	}
	names := backupFiles()
	if cfg.NoMasterKey {
		names = slices.DeleteFunc(names, func(n string) bool { return n == masterFile || n == masterFile+".old" })
	}
	for range backupTries {
		made, err := copyKeys(cfg.Data, cfg.To, names)
		if err != nil {
			return nil, err
		}
		if cfg.FilesOnly {
			return made, syncDir(cfg.To)
		}
		file := filepath.Join(cfg.To, dbFile)
		if err := sqlite.Backup(ctx, cfg.Data, file); err != nil {
			return nil, err
		}
		same, err := sameKeys(cfg.Data, cfg.To, names[1:])
		if err != nil {
			return nil, err
		}
		if same {
			return append(made, dbFile), syncDir(cfg.To)
		}
		if err := os.Remove(file); err != nil {
			return nil, fmt.Errorf("begin again: %w", err)
		}
	}
	return nil, &haft.Error{Code: haft.CodeUnavailable, Message: "the keys of the data directory are being replaced: try again"}
}

// emptyDir makes a directory, or reports that it has something in it.
func emptyDir(dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return &haft.Error{Code: haft.CodeInvalid, Message: "the directory to write to cannot be made", Err: err}
	}
	list, err := os.ReadDir(dir)
	if err != nil {
		return &haft.Error{Code: haft.CodeInvalid, Message: "the directory to write to cannot be read", Err: err}
	}
	if len(list) > 0 {
		return &haft.Error{Code: haft.CodeConflict, Message: "the directory to write to is not empty: name a new one; nothing was changed"}
	}
	return nil
}

// copyKeys copies those of the files that there are, for nobody else to read.
func copyKeys(from, to string, names []string) (made []string, err error) {
	for _, name := range names {
		err := copyFile(filepath.Join(from, name), filepath.Join(to, name))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return made, fmt.Errorf("copy %s: %w", name, err)
		}
		made = append(made, name)
	}
	return made, nil
}

// copyFile copies a file to one that nobody else can read, and brings it to the disk.
func copyFile(from, to string) (err error) {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, in.Close()) }()
	out, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	return errors.Join(err, out.Sync(), out.Close())
}

// sameKeys reports whether the files are what was copied of them.
func sameKeys(from, to string, names []string) (bool, error) {
	for _, name := range names {
		var both [2][]byte
		for i, dir := range []string{from, to} {
			b, err := os.ReadFile(filepath.Join(dir, name))
			if err != nil && !errors.Is(err, fs.ErrNotExist) {
				return false, fmt.Errorf("look again at %s: %w", name, err)
			}
			both[i] = b
		}
		if !bytes.Equal(both[0], both[1]) {
			return false, nil
		}
	}
	return true, nil
}

// PutBack copies a backup into a data directory that is made, or is empty, and verifies the
// audit of all organisations in it. That it was put back is written into the audit as done
// by p. It returns how many entries there are.
func PutBack(ctx context.Context, from, data string, p haft.Principal) (entries int64, err error) {
	if _, err := os.Stat(filepath.Join(from, dbFile)); err != nil {
		return 0, &haft.Error{Code: haft.CodeInvalid, Message: "there is no " + dbFile + " in the backup", Err: err}
	}
	if err := emptyDir(data); err != nil {
		return 0, err
	}
	if _, err := copyKeys(from, data, backupFiles()); err != nil {
		return 0, err
	}
	if err := errors.Join(copyFile(filepath.Join(from, dbFile), filepath.Join(data, dbFile)), syncDir(data)); err != nil {
		return 0, fmt.Errorf("copy the database: %w", err)
	}
	s, err := OpenEvidence(ctx, ServiceConfig{Data: data})
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	orgs, err := s.Store.AuditOrgs(ctx)
	if err != nil {
		return 0, err
	}
	for _, org := range orgs {
		rep, err := s.VerifyAudit(ctx, haft.Principal{Org: org, User: p.User, Roles: []string{haft.RoleAdmin}}, nil)
		if err != nil {
			return 0, err
		}
		if !rep.Sound() {
			return 0, &haft.Error{Code: haft.CodeConflict, Message: fmt.Sprintf(
				"the audit log of organisation %q in the backup is not what was written: %s. Look at it with: haft audit verify", org, rep.Problems[0])}
		}
		entries += rep.Entries
	}
	return entries, s.Store.Commit(ctx, store.Batch{Audit: []audit.Entry{restoredEntry(p, []string{"all files were put back from a backup"})}})
}
