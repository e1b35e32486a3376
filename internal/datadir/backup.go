package datadir

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
	"syscall"

	"haft"
	"haft/internal/audit"
	"haft/internal/checkpoint"
	"haft/internal/store"
	"haft/internal/store/sqlite"
)

// dbFile is the database in a data directory and in a backup.
const dbFile = "haft.db"

// backupFiles are copied besides the database. audit.head comes first: it may be older
// than the database, and not newer.
func backupFiles() []string {
	return []string{checkpoint.HeadFile, AuditFile, trustFile, DigestFile, PepperFile, AdminFile, MasterFile,
		MasterFile + ".old"}
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

// Backup copies a data directory, and returns the names of the files that it made. They
// are consistent with each other.
func Backup(ctx context.Context, cfg BackupConfig) (made []string, err error) {
	to, err := emptyDir(cfg.To)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, to.Close()) }()
	if err := ownDir(to); err != nil {
		return nil, err
	}
	from, err := os.OpenRoot(cfg.Data)
	if err != nil {
		return nil, &haft.Error{Code: haft.CodeInvalid, Message: "the data directory cannot be opened", Err: err}
	}
	defer func() { err = errors.Join(err, from.Close()) }()
	defer func() { // half a backup is useless, and nobody would look after its keys
		if err != nil {
			err = errors.Join(err, removeFiles(to, append(made, dbFile)))
		}
	}()
	names := backupFiles()
	if cfg.NoMasterKey {
		names = slices.DeleteFunc(names, func(n string) bool { return n == MasterFile || n == MasterFile+".old" })
	}
	for range backupTries {
		if made, err = copyKeys(from, to, names); err != nil {
			return made, err
		}
		if cfg.FilesOnly {
			return made, SyncDir(cfg.To)
		}
		if err := sqlite.Backup(ctx, cfg.Data, filepath.Join(cfg.To, dbFile)); err != nil {
			return made, err
		}
		same, err := sameKeys(from, to, names[1:])
		if err != nil {
			return made, err
		}
		if same {
			return append(made, dbFile), SyncDir(cfg.To)
		}
		if err := removeFiles(to, append(made, dbFile)); err != nil {
			return made, err
		}
	}
	return nil, &haft.Error{Code: haft.CodeUnavailable,
		Message: "the keys of the data directory are being replaced: try again"}
}

// emptyDir makes and opens a directory. One that is not empty is an error.
func emptyDir(dir string) (*os.Root, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, &haft.Error{Code: haft.CodeInvalid, Message: "the directory to write to cannot be made", Err: err}
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, &haft.Error{Code: haft.CodeInvalid, Message: "the directory to write to cannot be opened", Err: err}
	}
	list, err := fs.ReadDir(root.FS(), ".")
	if err == nil && len(list) > 0 {
		err = &haft.Error{Code: haft.CodeConflict,
			Message: "the directory to write to is not empty: name a new one; nothing was changed"}
	}
	if err != nil {
		return nil, errors.Join(err, root.Close())
	}
	return root, nil
}

// ownDir refuses a directory in which other users could place links before files are copied.
func ownDir(dir *os.Root) error {
	info, err := dir.Stat(".")
	if err != nil {
		return err
	}
	st, ok := info.Sys().(*syscall.Stat_t)
	if info.Mode().Perm()&0o022 != 0 || ok && st.Uid != 0 && int(st.Uid) != os.Geteuid() {
		return &haft.Error{Code: haft.CodeInvalid,
			Message: "others can write to the directory of the backup: name a new one in it, which is made; nothing " +
				"was changed"}
	}
	return nil
}

// removeFiles removes the files that exist.
func removeFiles(dir *os.Root, names []string) error {
	var errs []error
	for _, name := range names {
		if err := dir.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// copyKeys copies the files that exist. Only their owner can read the copies.
func copyKeys(from, to *os.Root, names []string) (made []string, err error) {
	for _, name := range names {
		err := copyFile(from, to, name)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		made = append(made, name)
		if err != nil {
			return made, fmt.Errorf("copy %s: %w", name, err)
		}
	}
	return made, nil
}

// copyFile copies a file to a new one that nobody else can read, and brings it to the disk.
// It follows no links.
func copyFile(from, to *os.Root, name string) (err error) {
	info, err := from.Lstat(name)
	if err != nil {
		return err
	}
	if !info.Mode().IsRegular() {
		return &haft.Error{Code: haft.CodeInvalid, Message: name + " is a link, or no file"}
	}
	in, err := from.Open(name)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, in.Close()) }()
	out, err := to.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	return errors.Join(err, out.Sync(), out.Close())
}

// sameKeys reports whether the files still equal their copies.
func sameKeys(from, to *os.Root, names []string) (bool, error) {
	for _, name := range names {
		var both [2][]byte
		for i, dir := range []*os.Root{from, to} {
			b, err := dir.ReadFile(name)
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

// PutBack copies a backup into a data directory that is new or empty, and verifies the
// audit of all organisations in it. It writes into the audit that p restored a backup, and
// returns the number of entries.
func PutBack(ctx context.Context, from, data string, p haft.Principal) (entries int64, err error) {
	if err := copyBack(from, data); err != nil {
		return 0, err
	}
	db, err := sqlite.Open(ctx, sqlite.Config{Dir: data, Siblings: Siblings()})
	if err != nil {
		return 0, fmt.Errorf("open the store: %w", err)
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	log, err := (&Dir{data, db}).AuditLog(ctx)
	if err != nil {
		return 0, err
	}
	orgs, err := db.Audit.AuditOrgs(ctx)
	if err != nil {
		return 0, err
	}
	// Organisations without any entry left are only in the signed file. The verification
	// finds out if that is forged.
	if heads, err := checkpoint.ReadHeads(data, log.Keys); err == nil && heads != nil {
		for _, m := range heads.Marks {
			orgs = append(orgs, m.Org)
		}
	}
	slices.Sort(orgs)
	for _, org := range slices.Compact(orgs) {
		rep, err := log.VerifyAudit(ctx, haft.Principal{Org: org, User: p.User, Roles: []string{haft.RoleAdmin}}, nil)
		if err != nil {
			return 0, err
		}
		if !rep.Sound() {
			return 0, &haft.Error{Code: haft.CodeConflict, Message: fmt.Sprintf(
				"the audit log of organisation %q in the backup is not what was written: %s. Look at it with: haft "+
					"audit verify", org, rep.Problems[0])}
		}
		entries += rep.Entries
	}
	entry := restoredEntry(p, []string{"all files were put back from a backup"})
	return entries, db.Commit(ctx, store.Batch{Audit: []audit.Entry{entry}})
}

// copyBack copies the files of a backup into a data directory, all or none.
func copyBack(backup, data string) (err error) {
	from, err := os.OpenRoot(backup)
	if err != nil {
		return &haft.Error{Code: haft.CodeInvalid, Message: "the backup cannot be opened", Err: err}
	}
	defer func() { err = errors.Join(err, from.Close()) }()
	if _, err := from.Stat(dbFile); err != nil {
		return &haft.Error{Code: haft.CodeInvalid, Message: "there is no " + dbFile + " in the backup", Err: err}
	}
	if info, err := from.Lstat(dbFile + "-wal"); err == nil && info.Size() > 0 {
		return &haft.Error{Code: haft.CodeInvalid,
			Message: "this is a copy of a data directory that was in use, and its newest data is in " + dbFile +
				"-wal: copy the whole directory, and start haft with the copy; nothing was changed"}
	}
	to, err := emptyDir(data)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, to.Close()) }()
	made, err := copyKeys(from, to, append(backupFiles(), dbFile))
	if err == nil {
		err = SyncDir(data)
	}
	if err != nil {
		err = errors.Join(err, removeFiles(to, made))
	}
	return err
}
