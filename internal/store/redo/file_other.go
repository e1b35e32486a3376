//go:build !linux

package redo

import "os"

// ring is a file that is synchronised after each write.
type ring struct {
	f   *os.File
	buf []byte
}

// openFile opens the file of a log.
func openFile(dir *os.Root, name string) (file, error) {
	if err := fill(dir, name); err != nil {
		return nil, err
	}
	f, err := dir.OpenFile(name, os.O_RDWR, 0)
	if err != nil {
		return nil, err
	}
	return &ring{f: f}, nil
}

// diskSpace is not asked for here.
func diskSpace(*os.Root, int64) error { return nil }

func (r *ring) writeAt(blocks []byte, at int64) error {
	if _, err := r.f.WriteAt(blocks, at); err != nil {
		return err
	}
	return r.f.Sync()
}

func (r *ring) buffer(n int) ([]byte, error) {
	if n > len(r.buf) {
		r.buf = make([]byte, n)
	}
	return r.buf[:n], nil
}

func (r *ring) close() error { return r.f.Close() }
