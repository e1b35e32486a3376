package redo

import (
	"errors"
	"fmt"
	"io"
	"os"
	"syscall"
)

// ring is a file whose writes go to the disk and nowhere else. The kernel demands
// that what is written begins at a page: the buffer is mapped and not allocated.
type ring struct {
	f   *os.File
	buf []byte
}

// openFile opens the file of a log, past the page cache if the file system can.
// One write of O_DIRECT and O_DSYNC is one request to the disk; write and
// fdatasync are two waits.
func openFile(dir *os.Root, name string) (file, error) {
	if err := fill(dir, name); err != nil {
		return nil, err
	}
	f, err := dir.OpenFile(name, os.O_RDWR|syscall.O_DSYNC|syscall.O_DIRECT, 0)
	if errors.Is(err, syscall.EINVAL) {
		f, err = dir.OpenFile(name, os.O_RDWR|syscall.O_DSYNC, 0)
	}
	if err != nil {
		return nil, err
	}
	return &ring{f: f}, nil
}

// diskSpace reports that a disk has less than n bytes left for us.
func diskSpace(dir *os.Root, n int64) error {
	d, err := dir.Open(".")
	if err != nil {
		return err
	}
	defer d.Close()
	var stat syscall.Statfs_t
	if err := syscall.Fstatfs(int(d.Fd()), &stat); err != nil {
		return fmt.Errorf("ask how full the disk is: %w", err)
	}
	if stat.Blocks > 0 && stat.Bavail < uint64(n/stat.Bsize) { // some that have no end say 0 of 0
		return fmt.Errorf("less than %d bytes are left: %w", n, syscall.ENOSPC)
	}
	return nil
}

func (r *ring) writeAt(blocks []byte, at int64) error {
	n, err := r.f.WriteAt(blocks, at)
	if err == nil && n < len(blocks) {
		err = io.ErrShortWrite
	}
	return err
}

func (r *ring) buffer(n int) ([]byte, error) {
	if n <= len(r.buf) {
		return r.buf[:n], nil
	}
	size := max(64<<10, len(r.buf))
	for size < n {
		size *= 2
	}
	buf, err := syscall.Mmap(-1, 0, size, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_PRIVATE|syscall.MAP_ANON)
	if err != nil {
		return nil, fmt.Errorf("map %d bytes: %w", size, err)
	}
	if r.buf != nil {
		if err := syscall.Munmap(r.buf); err != nil {
			return nil, errors.Join(fmt.Errorf("unmap the buffer: %w", err), syscall.Munmap(buf))
		}
	}
	r.buf = buf
	return buf[:n], nil
}

func (r *ring) close() error {
	err := r.f.Close()
	if r.buf != nil {
		err = errors.Join(err, syscall.Munmap(r.buf))
		r.buf = nil
	}
	return err
}
