package egress

import (
	"compress/flate"
	"encoding/binary"
	"errors"
	"io"
)

// errZip is the error for a zip file that cannot be looked into.
var errZip = errors.New("egress: a zip file that cannot be read from its beginning")

// The parts of a zip file by their signatures.
const (
	zipFile       = "PK\x03\x04"
	zipDescriptor = "PK\x07\x08"
	zipDirectory  = "PK\x01\x02"
	zipEnd        = "PK\x05\x06"
)

// unzipper reads the content of the files of a zip file, one after the other, from its
// beginning: it does not need the directory at the end. It ends where the directory
// begins.
type unzipper struct {
	from *recordingReader
	file io.Reader // nil between files
	late bool      // the sizes of the file stand behind it
}

// Read implements [io.Reader].
func (u *unzipper) Read(p []byte) (int, error) {
	for {
		if u.file == nil {
			if err := u.next(); err != nil {
				return 0, err
			}
		}
		n, err := u.file.Read(p)
		if err == io.EOF { //nolint:errorlint // readers return it as it is
			u.file, err = nil, u.descriptor()
		}
		if n > 0 || err != nil {
			return n, err
		}
	}
}

// next goes to the data of the next file. It returns io.EOF behind the last.
func (u *unzipper) next() error {
	var h [30]byte
	if _, err := io.ReadFull(u.from, h[:4]); err != nil {
		return errZip
	}
	switch string(h[:4]) {
	case zipDirectory, zipEnd:
		return io.EOF
	case zipFile:
	default:
		return errZip
	}
	if _, err := io.ReadFull(u.from, h[4:]); err != nil {
		return errZip
	}
	flags, method := binary.LittleEndian.Uint16(h[6:]), binary.LittleEndian.Uint16(h[8:])
	size := binary.LittleEndian.Uint32(h[18:])
	names := int64(binary.LittleEndian.Uint16(h[26:])) + int64(binary.LittleEndian.Uint16(h[28:]))
	if _, err := io.CopyN(io.Discard, u.from, names); err != nil {
		return errZip
	}
	u.late = flags&8 != 0
	switch {
	case flags&(1|1<<13) != 0: // encrypted
		return errZip
	case method == 8:
		u.file = flate.NewReader(u.from)
	case method == 0 && !u.late && size != 1<<32-1:
		u.file = io.LimitReader(u.from, int64(size))
	default:
		return errZip
	}
	return nil
}

// descriptor passes over the sizes behind a file, with or without a signature, of 32
// or 64 bits. What follows says which.
func (u *unzipper) descriptor() error {
	if !u.late {
		return nil
	}
	for _, n := range []int{16, 12, 24, 20} {
		b, err := u.from.from.Peek(n + 4)
		if err != nil {
			continue
		}
		if (string(b[:4]) == zipDescriptor) != (n == 16 || n == 24) {
			continue
		}
		if next := string(b[n:]); next == zipFile || next == zipDirectory {
			_, err := io.CopyN(io.Discard, u.from, int64(n))
			return err
		}
	}
	return errZip
}
