package redo

import (
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

// ErrDamaged: a record is missing that others follow.
var ErrDamaged = errors.New("the log is damaged")

// maxFile bounds what is read of a file that somebody else may have made.
const maxFile = 64 << 20

// Read returns the records of an epoch that follow the one with that number, in
// order. A record that was being written when the machine stopped was never
// acknowledged, and is left out. No file means no records.
func Read(dir *os.Root, name string, epoch, after uint64) ([]Record, error) {
	f, err := dir.Open(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("open the log: %w", err)
	}
	defer f.Close()
	raw, err := io.ReadAll(io.LimitReader(f, maxFile))
	if err != nil {
		return nil, fmt.Errorf("read the log: %w", err)
	}
	return records(raw, epoch, after)
}

// records finds the records in the bytes of a file.
func records(raw []byte, epoch, after uint64) ([]Record, error) {
	var list []Record
	for at := 0; at+header <= len(raw); {
		r, n, ok := parse(raw[at:], epoch)
		if !ok {
			at += block
			continue
		}
		if r.Number > after {
			list = append(list, r)
		}
		at += n
	}
	slices.SortFunc(list, func(a, b Record) int {
		if a.Number < b.Number {
			return -1
		}
		return 1 // numbers are used once
	})
	for i, r := range list {
		if r.Number != after+1+uint64(i) {
			return nil, fmt.Errorf("record %d is missing: %w", after+1+uint64(i), ErrDamaged)
		}
	}
	return list, nil
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
	r := Record{Number: binary.LittleEndian.Uint64(raw[20:]), Version: binary.LittleEndian.Uint32(raw[4:]), Payload: raw[header:end:end]}
	return r, (end + block - 1) / block * block, true
}
