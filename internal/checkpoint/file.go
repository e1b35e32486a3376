package checkpoint

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"haft"
	"haft/internal/audit"
)

// HeadFile is the name of the file that says what was signed last.
const HeadFile = "audit.head"

// ReadHeads reads the file in dir. Without one it returns nil.
func ReadHeads(dir string, keys audit.Keys) (*audit.Heads, error) {
	data, err := readFile(dir, HeadFile, audit.MaxHeads)
	if err != nil || data == nil {
		return nil, err
	}
	h, err := audit.ParseHeads(data, keys)
	if err != nil {
		return nil, &haft.Error{Code: haft.CodeConflict, Err: &Mismatch{Damaged: err.Error()},
			Message: HeadFile + " in the data directory cannot be believed: " + err.Error() +
				"; put back " + HeadFile +
				" and audit.key of the same moment, or add the public key that signed it to audit.keys in the data " +
				"directory; " +
				"if nobody has the right file and the database is the right one, run: haft restore --accept-loss"}
	}
	return &h, nil
}

// readFile reads a file of dir that is nobody else's to write; nil means that there is
// none. It follows no symlink.
func readFile(dir, name string, most int64) (_ []byte, err error) {
	root, err := os.OpenRoot(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("open the data directory: %w", err)
	}
	defer func() { err = errors.Join(err, root.Close()) }()
	info, err := root.Lstat(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("look at %s: %w", name, err)
	}
	if !info.Mode().IsRegular() || info.Size() > most || info.Mode().Perm()&0o022 != 0 {
		return nil, &haft.Error{Code: haft.CodeInvalid,
			Message: name + " in the data directory is not a file that only its owner writes, or too large"}
	}
	f, err := root.Open(name)
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", name, err)
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	data, err := io.ReadAll(io.LimitReader(f, most+1))
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", name, err)
	}
	if data == nil {
		data = []byte{}
	}
	return data, nil
}

// writeFile replaces a file of dir, whole or not at all, and returns when it is on the
// disk.
func writeFile(dir, name string, data []byte) (err error) {
	f, err := os.CreateTemp(dir, "."+name+"-*") // 0600
	if err != nil {
		return fmt.Errorf("write %s: %w", name, err)
	}
	defer func() {
		if err != nil {
			err = errors.Join(fmt.Errorf("write %s: %w", name, err), os.Remove(f.Name()))
		}
	}()
	_, err = f.Write(data)
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return err
	}
	if err = os.Rename(f.Name(), filepath.Join(dir, name)); err != nil {
		return err
	}
	return syncDir(dir)
}

// syncDir brings the names in a directory to the disk.
func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return fmt.Errorf("open the data directory: %w", err)
	}
	if err := errors.Join(d.Sync(), d.Close()); err != nil {
		return fmt.Errorf("bring the data directory to the disk: %w", err)
	}
	return nil
}
