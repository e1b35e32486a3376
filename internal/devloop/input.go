package devloop

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"slices"

	"golang.org/x/term"

	"haft/internal/terminal"
)

// The colours in use.
const (
	bold   = int(terminal.Bold)
	dim    = int(terminal.Dim)
	red    = int(terminal.Red)
	green  = int(terminal.Green)
	yellow = int(terminal.Yellow)
)

const (
	// maxLine bounds how long a line is that is not typed at a terminal.
	maxLine = 1 << 20
	// ctrlC is the key that a terminal in raw mode sends.
	ctrlC = 3
)

// An input reads what a person types. On a terminal others can write above the line that is typed.
type input struct {
	in         io.Reader
	out        io.Writer
	terminal   *term.Terminal // nil if there is none
	interrupts chan struct{}  // has something if Ctrl-C was pressed
	restore    func() error
	any        bool // there was a line; read when the channel of lines is closed
	asked      string
}

// openInput begins to read. Close it.
func openInput(in io.Reader, out io.Writer) (*input, error) {
	i := &input{in: in, out: out, interrupts: make(chan struct{}, 1), restore: func() error { return nil }}
	f, ok := in.(*os.File)
	if !ok || !terminal.Is(in) || !terminal.Is(out) {
		return i, nil
	}
	old, err := term.MakeRaw(int(f.Fd()))
	if err != nil {
		return nil, fmt.Errorf("open the terminal: %w", err)
	}
	i.restore = func() error { return term.Restore(int(f.Fd()), old) }
	i.terminal = term.NewTerminal(struct {
		io.Reader
		io.Writer
	}{i, out}, "> ")
	i.asked = "> "
	if width := terminal.Width(out); width > 0 {
		if err := i.terminal.SetSize(width, 24); err != nil {
			return nil, fmt.Errorf("open the terminal: %w", err)
		}
	}
	i.out = i.terminal
	return i, nil
}

// close leaves the terminal as it was.
func (i *input) close() error {
	if i.terminal != nil {
		fmt.Fprintln(i.out)
	}
	return i.restore()
}

// Read implements [io.Reader] for the terminal: everything that is typed, except Ctrl-C.
func (i *input) Read(b []byte) (int, error) {
	for {
		n, err := i.in.Read(b)
		kept := slices.DeleteFunc(b[:n], func(c byte) bool { return c == ctrlC })
		if len(kept) < n {
			select {
			case i.interrupts <- struct{}{}:
			default:
			}
		}
		if len(kept) > 0 || err != nil {
			return len(kept), err
		}
	}
}

// read returns the lines that are typed. The channel is closed when the input ends.
func (i *input) read(ctx context.Context) <-chan string {
	next := i.terminalLine
	if i.terminal == nil {
		s := bufio.NewScanner(i.in)
		s.Buffer(nil, maxLine)
		next = func() (string, bool) {
			ok := s.Scan()
			return s.Text(), ok
		}
	}
	lines := make(chan string)
	go func() {
		defer close(lines)
		for {
			line, ok := next()
			if !ok {
				return
			}
			i.any = true
			select {
			case lines <- line:
			case <-ctx.Done():
				return
			}
		}
	}()
	return lines
}

// terminalLine reads a line that is typed.
func (i *input) terminalLine() (string, bool) {
	line, err := i.terminal.ReadLine()
	return line, err == nil
}

// background reports whether an input that has ended never was a person: it is no terminal, and there
// was not one line.
func (i *input) background() bool { return i.terminal == nil && !i.any }

// ask shows the prompt.
func (i *input) ask(prompt string) {
	if i.terminal == nil || prompt == i.asked {
		return
	}
	i.asked = prompt
	i.terminal.SetPrompt(prompt)
	fmt.Fprint(i.terminal, "") // draws it again
}

// paint colours a text on a terminal.
func (i *input) paint(code int, text string) string {
	if i.terminal == nil || os.Getenv("NO_COLOR") != "" {
		return text
	}
	return fmt.Sprintf("\x1b[%dm%s\x1b[0m", code, text)
}

// printf writes to the person. Control characters of values were made visible before.
func (l *loop) printf(format string, args ...any) {
	var b bytes.Buffer
	fmt.Fprintf(&b, format, args...)
	_, _ = l.out.Write(b.Bytes()) // a person who is gone reads nothing
}
