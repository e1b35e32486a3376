// Package stored has times and documents as columns of a database have them: in microseconds, and as JSON text.
package stored

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"haft"
)

// Micros is how a time is kept: UTC in microseconds, 0 for none.
func Micros(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMicro()
}

// Time is the inverse of Micros.
func Time(us int64) time.Time {
	if us == 0 {
		return time.Time{}
	}
	return time.UnixMicro(us).UTC()
}

// Encode returns v as JSON text that every database takes. Raw JSON inside keeps
// its numbers as they are written.
func Encode(v any) (string, error) {
	b := buffers.Get().(*bytes.Buffer)
	defer func() {
		if b.Cap() <= maxBuffer {
			b.Reset()
			buffers.Put(b)
		}
	}()
	e := json.NewEncoder(b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return "", fmt.Errorf("encode what is to be kept: %w", err)
	}
	return Text(bytes.TrimSuffix(b.Bytes(), []byte("\n"))), nil
}

// buffers are what Encode writes to: several times for each call.
var buffers = sync.Pool{New: func() any { return new(bytes.Buffer) }}

// maxBuffer is the largest buffer that is kept.
const maxBuffer = 64 << 10

// Text returns b as text that every database takes. JSON that came from outside may hold bytes that are
// not UTF-8 and still pass for JSON in Go.
func Text(b []byte) string {
	if utf8.Valid(b) {
		return string(b)
	}
	return strings.ToValidUTF8(string(b), string(utf8.RuneError))
}

// Decode reads what Encode wrote.
func Decode(text string, v any) error {
	if err := json.Unmarshal([]byte(text), v); err != nil {
		return fmt.Errorf("read what was kept: %w", err)
	}
	return nil
}

// MicrosUp is the first microsecond that is not before t.
func MicrosUp(t time.Time) int64 {
	us := t.UnixMicro()
	if t.After(time.UnixMicro(us)) {
		us++
	}
	return us
}

// Equal reports whether a and b are kept alike.
func Equal(a, b any) bool {
	x, err := json.Marshal(a)
	y, err2 := json.Marshal(b)
	return err == nil && err2 == nil && string(x) == string(y)
}

// Bool returns b as it is kept.
func Bool(b bool) int64 {
	if b {
		return 1
	}
	return 0
}

// Listed returns a scan of tools for lists, without the content of their files: a page of tools would have hundreds of
// megabytes.
func Listed[R any](scan func(R) (haft.Tool, error)) func(R) (haft.Tool, error) {
	return func(row R) (haft.Tool, error) {
		t, err := scan(row)
		for i, f := range t.Version.Files {
			t.Version.Files[i] = haft.ToolFile{Path: strings.Clone(f.Path), Omitted: true}
		}
		return t, err
	}
}
