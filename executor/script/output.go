package script

import (
	"strings"
	"sync"
	"time"
	"unicode/utf8"
)

// output keeps the beginning of a stream and passes it on as it comes.
type output struct {
	limit int64
	pass  func([]byte)

	mu      sync.Mutex
	kept    []byte
	dropped int64
	passed  int // of kept
}

// Write never fails: what is too much is counted and dropped.
func (o *output) Write(b []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	fits := min(int64(len(b)), o.limit-int64(len(o.kept)))
	o.dropped += int64(len(b)) - fits
	if fits > 0 {
		o.kept = append(o.kept, b[:fits]...)
		o.passOn(completeRunes(o.kept))
	}
	return len(b), nil
}

// passOn passes on what was kept before end. Preconditions: mu is held.
func (o *output) passOn(end int) {
	if o.pass != nil && end > o.passed {
		o.pass(o.kept[o.passed:end:end])
		o.passed = end
	}
}

// finish passes on the rest, which ends within a character.
func (o *output) finish() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.passOn(len(o.kept))
}

// completeRunes returns the length of b without an incomplete character at its end.
func completeRunes(b []byte) int {
	for i := 1; i < utf8.UTFMax && i <= len(b); i++ {
		if utf8.RuneStart(b[len(b)-i]) {
			if !utf8.FullRune(b[len(b)-i:]) {
				return len(b) - i
			}
			break
		}
	}
	return len(b)
}

// text returns what was kept as valid UTF-8 without NUL. Cut says that the stream
// went on.
func (o *output) text(cut bool) string {
	o.mu.Lock()
	defer o.mu.Unlock()
	b := o.kept
	if cut || o.dropped > 0 {
		// The cut may be in the middle of a character, which is our doing.
		b = b[:completeRunes(b)]
	}
	return clean(string(b))
}

// over returns how many bytes were dropped.
func (o *output) over() int64 {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.dropped
}

// settle waits until output has stopped coming, but not for long. A process that
// is used again does not end, so nothing else says that all of it has arrived.
func settle(outs ...*output) {
	const quiet, patience = 2 * time.Millisecond, 50 * time.Millisecond
	size := func() (n int64) {
		for _, o := range outs {
			o.mu.Lock()
			n += int64(len(o.kept)) + o.dropped
			o.mu.Unlock()
		}
		return n
	}
	for end := time.Now().Add(patience); time.Now().Before(end); {
		before := size()
		<-time.After(quiet)
		if size() == before {
			return
		}
	}
}

// clean makes s safe as text: valid UTF-8, no NUL.
func clean(s string) string {
	return strings.ReplaceAll(strings.ToValidUTF8(s, "\uFFFD"), "\x00", "\uFFFD")
}
