package redo

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
)

// A Record is what was appended.
type Record struct {
	Number  uint64
	Version uint32
	Payload []byte
}

// A Content is what the file of a log holds.
type Content struct {
	// Size is that of the file; -1 means that there is none.
	Size int64
	// Head is nil if the file has none: it is of an earlier version, or was overwritten.
	Head *Head
	// Records are those of the epoch behind a number, in order, up to the first that is
	// missing. A record that was being written when the machine stopped was never
	// acknowledged, and is left out.
	Records []Record
	// Last is the highest number of a record of the epoch; 0 means that there is none.
	Last uint64
}

// maxFile bounds what is read of a file that somebody else may have made.
const maxFile = 64 << 20

// ReadHead reads the head of a log, or nil if there is none.
func ReadHead(dir *os.Root, name string) (*Head, error) {
	f, err := dir.Open(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("open the log: %w", err)
	}
	defer f.Close()
	raw := make([]byte, header)
	n, err := f.ReadAt(raw, 0)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("read the log: %w", err)
	}
	if h, ok := parseHead(raw[:n]); ok {
		return &h, nil
	}
	return nil, nil
}

// Read reads a log: the records of an epoch that follow the one with a number.
func Read(dir *os.Root, name string, epoch, after uint64) (Content, error) {
	f, err := dir.Open(name)
	if errors.Is(err, fs.ErrNotExist) {
		return Content{Size: -1}, nil
	}
	if err != nil {
		return Content{}, fmt.Errorf("open the log: %w", err)
	}
	defer f.Close()
	raw, err := io.ReadAll(io.LimitReader(f, maxFile))
	if err != nil {
		return Content{}, fmt.Errorf("read the log: %w", err)
	}
	return content(raw, epoch, after), nil
}

// content finds the head and the records in the bytes of a file.
func content(raw []byte, epoch, after uint64) Content {
	c := Content{Size: int64(len(raw))}
	if h, ok := parseHead(raw); ok {
		c.Head = &h
	}
	var list []Record
	for at := 0; at+header <= len(raw); {
		r, n, ok := parse(raw[at:], epoch)
		if !ok {
			at += block
			continue
		}
		c.Last = max(c.Last, r.Number)
		if r.Number > after {
			list = append(list, r)
		}
		at += n
	}
	slices.SortFunc(list, func(a, b Record) int { return cmp.Compare(a.Number, b.Number) })
	n := 0
	for n < len(list) && list[n].Number == after+1+uint64(n) {
		n++
	}
	c.Records = list[:n]
	return c
}

// parse reads the record that raw begins with, if it does, and how many blocks'
// bytes it takes.
func parse(raw []byte, epoch uint64) (Record, int, bool) {
	if binary.LittleEndian.Uint32(raw) != magic || binary.LittleEndian.Uint64(raw[12:]) != epoch {
		return Record{}, 0, false
	}
	size := int64(binary.LittleEndian.Uint32(raw[8:]))
	if size > MaxPayload || header+size > int64(len(raw)) {
		return Record{}, 0, false
	}
	end := header + int(size)
	if binary.LittleEndian.Uint32(raw[28:]) != sum(raw[:end]) {
		return Record{}, 0, false
	}
	r := Record{Number: binary.LittleEndian.Uint64(raw[20:]), Version: binary.LittleEndian.Uint32(raw[4:]),
		Payload: raw[header:end:end]}
	return r, (end + block - 1) / block * block, true
}
