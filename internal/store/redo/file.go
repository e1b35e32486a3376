package redo

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
)

// Erase overwrites the records of a log with zeros, if there is one. It may be open: then
// everything that it holds is trimmed, and nobody appends meanwhile.
func Erase(dir *os.Root, name string) error {
	f, err := dir.OpenFile(name, os.O_RDWR, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("erase the log: %w", err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err == nil {
		err = eraseRecords(f, info.Size())
	}
	if err = errors.Join(err, f.Sync()); err != nil {
		return fmt.Errorf("erase the log: %w", err)
	}
	return nil
}

// eraseRecords keeps the head, which notes first that the records are not there.
func eraseRecords(f *os.File, size int64) error {
	raw := make([]byte, header)
	if _, err := f.ReadAt(raw, 0); err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	h, ok := parseHead(raw)
	if !ok {
		return zero(f, 0, size)
	}
	h.Erased = h.Last
	if err := writeHead(f, h); err != nil {
		return err
	}
	if err := f.Sync(); err != nil {
		return err
	}
	return zero(f, block, size)
}

// zero writes zeros.
func zero(f *os.File, from, to int64) error {
	zeros := make([]byte, 1<<20)
	for from < to {
		n, err := f.WriteAt(zeros[:min(int64(len(zeros)), to-from)], from)
		if err != nil {
			return err
		}
		from += int64(n)
	}
	return nil
}

// fill fills a new file with zeros, so that no write to it has to find room on the
// disk, or to be written down in the file system: both would take a second write.
// A log leaves the disk as much as it takes: one that took the last of it for a moment
// would fail who writes to the database then.
func fill(dir *os.Root, name string) error {
	if info, err := dir.Stat(name); errors.Is(err, fs.ErrNotExist) || err == nil && info.Size() < Size {
		if err := diskSpace(dir, 2*Size); err != nil {
			return err
		}
	}
	f, err := dir.OpenFile(name, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	if !info.Mode().IsRegular() {
		return fmt.Errorf("%s is no file", name)
	}
	if info.Mode().Perm()&0o077 != 0 {
		if err := f.Chmod(0o600); err != nil {
			return err
		}
	}
	if info.Size() >= Size {
		return nil
	}
	if err := zero(f, info.Size()/block*block, Size); err != nil {
		// A part of a log is of no use, and fills a disk that is full.
		return errors.Join(err, f.Truncate(0))
	}
	if err := f.Sync(); err != nil {
		return err
	}
	d, err := dir.Open(".")
	if err != nil {
		return err
	}
	defer d.Close()
	return d.Sync()
}
