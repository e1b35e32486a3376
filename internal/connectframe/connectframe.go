// Package connectframe reads and writes the messages of a stream of the Connect protocol, as JSON: a byte of flags,
// the length in four bytes, and the message.
package connectframe

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// The flags of a frame.
const (
	Compressed = 1
	End        = 2 // the last frame of the server
)

// The faults of a frame. Any other error is of the reader.
var (
	ErrCompressed = errors.New("the message is compressed")
	ErrTooLarge   = errors.New("the message is too large")
)

// Append appends a frame to b.
func Append(b []byte, flag byte, message any) ([]byte, error) {
	raw, err := json.Marshal(message)
	if err != nil {
		return nil, fmt.Errorf("encode a message: %w", err)
	}
	b = append(b, flag)
	b = binary.BigEndian.AppendUint32(b, uint32(len(raw)))
	return append(b, raw...), nil
}

// Head reads the head of a frame whose message has at most a number of bytes. It returns [io.EOF] where there is no
// other frame.
func Head(r io.Reader, most uint32) (flag byte, size uint32, err error) {
	var head [5]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return 0, 0, err
	}
	size = binary.BigEndian.Uint32(head[1:])
	switch {
	case head[0]&Compressed != 0:
		return 0, 0, ErrCompressed
	case size > most:
		return 0, 0, ErrTooLarge
	}
	return head[0], size, nil
}

// Body reads the message after a head. Memory is taken as the bytes come, and not as the head says.
func Body(r io.Reader, size uint32) ([]byte, error) {
	raw, err := io.ReadAll(io.LimitReader(r, int64(size)))
	if err == nil && len(raw) != int(size) {
		err = io.ErrUnexpectedEOF
	}
	return raw, err
}
