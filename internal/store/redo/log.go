package redo

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"os"
	"sync"
)

// The format. A header is magic, version, length, epoch, number and checksum.
const (
	block  = 4096
	magic  = 0x68616674 // "haft"
	header = 4 + 4 + 4 + 8 + 8 + 4
)

// Size is how large a log is that [Open] makes.
const Size = 8 << 20

// MaxPayload is the longest record: a log holds several of them.
const MaxPayload = Size/8 - header

var (
	// ErrFull: there is no room until something is trimmed.
	ErrFull = errors.New("the log is full")
	// ErrTooLong: the payload is longer than [MaxPayload].
	ErrTooLong = errors.New("the record is too long for the log")
)

// A file is where a log is. A write is on the disk when it returns.
type file interface {
	writeAt(blocks []byte, at int64) error
	// buffer returns room for n bytes that may be written. The next call may
	// return the same.
	buffer(n int) ([]byte, error)
	close() error
}

// A Log takes records. One goroutine may append while others trim.
//
// Lifecycle: [Open], then Append and Trim, then Close.
type Log struct {
	f       file
	note    *os.File // for the head, through the page cache
	size    int64
	version uint32
	epoch   uint64
	number  uint64 // of the last record, whether or not it could be written
	broken  error

	mu   sync.Mutex
	live []extent // what is not trimmed, oldest first
	used int64    // bytes of live
	head int64    // where the next record goes
}

// An extent is where a record is.
type extent struct {
	number uint64
	at, n  int64
}

// Open opens a log for records of an epoch, and makes the file if it is not there.
// What is in it from before does not count any more: see [Read]. version is that
// of the payloads.
func Open(dir *os.Root, name string, version uint32, epoch uint64) (*Log, error) {
	f, err := openFile(dir, name)
	if err != nil {
		return nil, fmt.Errorf("open the log: %w", err)
	}
	l := &Log{f: f, size: Size, head: block, version: version, epoch: epoch}
	if l.note, err = dir.OpenFile(name, os.O_RDWR, 0); err == nil {
		if err = writeHead(l.note, Head{Epoch: epoch}); err == nil {
			err = l.note.Sync()
		}
	}
	if err != nil {
		return nil, fmt.Errorf("open the log: %w", errors.Join(err, l.Close()))
	}
	return l, nil
}

// Append adds a record and returns its number. It is on the disk then. After an
// error that is none of this package's, nobody knows whether it is, and the log
// takes no more.
func (l *Log) Append(payload []byte) (uint64, error) {
	if l.broken != nil {
		return 0, l.broken
	}
	if len(payload) > MaxPayload {
		return 0, ErrTooLong
	}
	n := (header + len(payload) + block - 1) / block * block
	at, ok := l.place(int64(n))
	if !ok {
		return 0, ErrFull
	}
	buf, err := l.f.buffer(n)
	if err != nil {
		return 0, fmt.Errorf("find room for a record: %w", err)
	}
	l.number++
	binary.LittleEndian.PutUint32(buf[0:], magic)
	binary.LittleEndian.PutUint32(buf[4:], l.version)
	binary.LittleEndian.PutUint32(buf[8:], uint32(len(payload)))
	binary.LittleEndian.PutUint64(buf[12:], l.epoch)
	binary.LittleEndian.PutUint64(buf[20:], l.number)
	end := header + copy(buf[header:], payload)
	clear(buf[end:n])
	binary.LittleEndian.PutUint32(buf[28:], sum(buf[:end]))
	l.mu.Lock()
	l.live = append(l.live, extent{l.number, at, int64(n)})
	l.head, l.used = at+int64(n), l.used+int64(n)
	l.mu.Unlock()
	if err := l.f.writeAt(buf[:n], at); err != nil {
		l.broken = fmt.Errorf("write to the log: %w", err)
		return 0, l.broken
	}
	// Without this note the record is as safe, and only its removal less noticed.
	_ = writeHead(l.note, Head{Epoch: l.epoch, Last: l.number})
	return l.number, nil
}

// sum is the checksum of a record, over all of it but the checksum.
func sum(record []byte) uint32 {
	c := crc32.Update(0, castagnoli, record[:28])
	return crc32.Update(c, castagnoli, record[header:])
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// place finds room for n bytes in one piece. It never overwrites the last record, also
// if that is trimmed: one that is cut off by a loss of power must leave the one before.
func (l *Log) place(n int64) (int64, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	tail := l.head - 1 // nothing is in the way up to the end of the file
	if len(l.live) > 0 {
		tail = l.live[0].at
	}
	switch {
	case tail >= l.head: // it went around, or is full
		return l.head, n <= tail-l.head
	case n <= l.size-l.head:
		return l.head, true
	case len(l.live) == 0:
		return block, true
	}
	return block, n <= tail-block
}

// Err returns why the log takes no more, or nil.
func (l *Log) Err() error { return l.broken }

// Trim makes the room of all records up to that one free. They must be on the disk
// elsewhere.
func (l *Log) Trim(number uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := 0
	for n < len(l.live) && l.live[n].number <= number {
		l.used -= l.live[n].n
		n++
	}
	l.live = append(l.live[:0], l.live[n:]...)
}

// Filled reports whether more than half of the log is in use.
func (l *Log) Filled() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.used > l.size/2
}

// Close closes the file. What is in it stays.
func (l *Log) Close() error {
	err := l.f.close()
	if l.note != nil {
		err = errors.Join(err, l.note.Close())
	}
	return err
}
