package redo

import (
	"errors"
	"fmt"
	"os"
)

// fill fills a new file with zeros, so that no write to it has to find room on the
// disk, or to be written down in the file system: both would take a second write.
func fill(dir *os.Root, name string) error {
	f, err := dir.OpenFile(name, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	if info.Mode().Perm()&0o077 != 0 {
		if err := f.Chmod(0o600); err != nil {
			return err
		}
	}
	if !info.Mode().IsRegular() {
		return fmt.Errorf("%s is no file", name)
	}
	zeros := make([]byte, 1<<20)
	for at := info.Size() / block * block; at < Size; {
		n, err := f.WriteAt(zeros[:min(int64(len(zeros)), Size-at)], at)
		if err != nil { // a part of a log is of no use, and fills a disk that is full
			return errors.Join(err, f.Truncate(0))
		}
		at += int64(n)
	}
	if info.Size() >= Size {
		return nil
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
