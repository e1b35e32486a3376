package chat

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"slices"
	"sync"
	"time"
	"unicode"
	"unicode/utf8"

	"golang.org/x/term"
)

// errInterrupted says that somebody pressed Ctrl-C.
var errInterrupted = errors.New("interrupted")

// The bounds of the keyboard.
const (
	maxTyped   = 1 << 20 // bytes that wait to be read, and about as many more
	maxHistory = 200
	readTime   = 300 * time.Millisecond // what is typed sooner after a question was typed before it was read
)

// The marks that a terminal puts around what is pasted, the one that asks it to, and the key Ctrl-C.
const (
	pasteBegin = "\x1b[200~"
	pasteEnd   = "\x1b[201~"
	pasteOn    = "\x1b[?2004h"
	pasteOff   = "\x1b[?2004l"
	ctrlC      = 3
)

// clearLine are the keys that end a paste, empty the line and end it.
const clearLine = pasteEnd + "\x05\x15\r"

// A keyboard reads what a person types, also while nobody asks for it: a terminal in raw mode sends Ctrl-C as a
// character.
type keyboard struct {
	ctx        context.Context // the life of the session
	interrupts chan struct{}   // has something if Ctrl-C was pressed

	mu      sync.Mutex
	typed   []byte
	err     error         // why nothing more comes
	changed chan struct{} // has something if typed or err changed
	taken   chan struct{} // has something if typed was read

	raw     bool   // it is a terminal in raw mode
	part    []byte // the beginning of a character or key
	pasting bool
	left    error // why the line that is read was given up; of the goroutine that reads
}

func newKeyboard(ctx context.Context) *keyboard {
	return &keyboard{ctx: ctx, interrupts: make(chan struct{}, 1), changed: make(chan struct{}, 1),
		taken: make(chan struct{}, 1)}
}

// signal puts something into a channel that has room for one.
func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// listen reads until the input or the session ends. The read that is under way then ends with the input only.
func (k *keyboard) listen(in io.Reader) {
	b := make([]byte, 4096)
	for k.ctx.Err() == nil {
		n, err := in.Read(b)
		k.mu.Lock()
		k.take(b[:n])
		k.err = err
		full := len(k.typed) > maxTyped
		k.mu.Unlock()
		if signal(k.changed); err != nil {
			return
		}
		if full {
			select {
			case <-k.taken:
			case <-k.ctx.Done():
			}
		}
	}
}

// take keeps what is typed. Preconditions: mu is held.
func (k *keyboard) take(b []byte) {
	if !k.raw {
		k.typed = append(k.typed, b...)
		return
	}
	k.part = append(k.part, b...)
	for len(k.part) > 0 {
		n, keep := k.key(k.part)
		if n == 0 {
			return
		}
		if keep {
			k.typed = append(k.typed, k.part[:n]...)
		}
		k.part = k.part[n:]
	}
}

// key returns how long the key is that b begins with, 0 if more has to arrive, and whether it is one for the editor.
// That shows what is pasted as it is, which is why no control characters are let through there.
func (k *keyboard) key(b []byte) (n int, keep bool) {
	begin, end := []byte(pasteBegin), []byte(pasteEnd)
	switch {
	case b[0] == ctrlC:
		signal(k.interrupts)
		k.typed, k.pasting = nil, false // what was typed before is given up too
		return 1, false
	case bytes.HasPrefix(b, begin) || bytes.HasPrefix(b, end):
		k.pasting = bytes.HasPrefix(b, begin)
		return len(begin), true
	case b[0] == 0x1b && (bytes.HasPrefix(begin, b) || bytes.HasPrefix(end, b)), !utf8.FullRune(b):
		return 0, false
	}
	r, n := utf8.DecodeRune(b)
	switch {
	case r == '\r' || r == '\n' || r == '\t' || r == '\u200c' || r == '\u200d':
		return n, true
	case r < ' ' || r == 0x7f:
		return n, !k.pasting
	}
	return n, r != utf8.RuneError && !unicode.In(r, unicode.Cc, unicode.Cf, unicode.Zl, unicode.Zp)
}

// Read implements [io.Reader] for the editor of lines. It returns the keys of one line at most, so that no other
// question is answered by the rest.
func (k *keyboard) Read(b []byte) (int, error) {
	for {
		k.mu.Lock()
		n, err := min(len(b), len(k.typed)), k.err
		if end := bytes.IndexAny(k.typed[:n], "\r\n"); end >= 0 && k.raw {
			n = end + 1
			if n < len(k.typed) && n < len(b) && k.typed[end] == '\r' && k.typed[n] == '\n' {
				n++
			}
		}
		copy(b, k.typed[:n])
		k.typed = k.typed[n:]
		k.mu.Unlock()
		switch signal(k.taken); {
		case n > 0:
			return n, nil
		case err != nil:
			return 0, err
		}
		select {
		case <-k.changed:
		case <-k.interrupts:
			if !k.raw {
				return 0, errInterrupted
			}
			k.left = errInterrupted
			return copy(b, clearLine), nil
		case <-k.ctx.Done():
			return 0, context.Cause(k.ctx)
		}
	}
}

// discard forgets what was typed before a question could be read.
func (k *keyboard) discard() {
	read := time.NewTimer(readTime)
	defer read.Stop()
	for {
		k.mu.Lock()
		k.typed = nil
		k.mu.Unlock()
		select {
		case <-k.changed:
		case <-read.C:
			return
		case <-k.ctx.Done():
			return
		}
	}
}

// An editor reads lines from a person.
type editor struct {
	keys *keyboard
	view *screen
	term *term.Terminal
}

func newEditor(keys *keyboard, view *screen) *editor {
	t := term.NewTerminal(struct {
		io.Reader
		io.Writer
	}{keys, view.out}, "")
	t.History = &history{}
	return &editor{keys, view, t}
}

// readLine asks for a line. pasted says that the line was pasted and that more of the paste follows.
func (e *editor) readLine(prompt string) (line string, pasted bool, err error) {
	e.view.end()
	e.view.clearStatus()
	e.view.b.WriteString(wrapOn + pasteOn)
	e.view.flush()
	defer func() { e.view.b.WriteString(pasteOff + wrapOff); e.view.flush() }()
	if err := e.term.SetSize(max(e.view.width(), minText), 24); err != nil {
		return "", false, err
	}
	e.term.SetPrompt(prompt)
	line, err = e.term.ReadLine()
	if left := e.keys.left; left != nil {
		e.keys.left = nil
		return "", false, left
	}
	if errors.Is(err, term.ErrPasteIndicator) {
		return line, true, nil
	}
	return line, false, err
}

// A history keeps the lines that somebody has typed, for the keys that bring them back. It implements [term.History].
type history []string

// Add implements [term.History].
func (h *history) Add(line string) {
	if line != "" && (len(*h) == 0 || (*h)[0] != line) {
		*h = slices.Insert(*h, 0, line)[:min(len(*h)+1, maxHistory)]
	}
}

// Len implements [term.History].
func (h *history) Len() int { return len(*h) }

// At implements [term.History].
func (h *history) At(i int) string { return (*h)[i] }

// The sequences that say what a terminal does with text beyond its edge: continue in the next line, or not. While
// others write it does not, so that text leaves no gutter even if the terminal draws it wider than we think.
const (
	wrapOn  = "\x1b[?7h"
	wrapOff = "\x1b[?7l"
)

// makeRaw has a terminal send every key as it is typed. The function that it returns undoes that.
func makeRaw(in io.Reader) (restore func() error, err error) {
	f, ok := in.(*os.File)
	if !ok || !term.IsTerminal(int(f.Fd())) {
		return func() error { return nil }, nil
	}
	old, err := term.MakeRaw(int(f.Fd()))
	return func() error { return term.Restore(int(f.Fd()), old) }, err
}
