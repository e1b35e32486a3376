package pyschema_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"haft/internal/skiptest"
	"haft/schema/pyschema"
)

// A python is an interpreter on this machine.
type python struct {
	path         string
	major, minor int
}

func (p python) String() string { return fmt.Sprintf("%d.%d", p.major, p.minor) }

func (p python) atLeast(minor int) bool { return p.major > 3 || p.minor >= minor }

// pythons finds the interpreters that can read source, oldest first, one of a
// version: those in HAFT_TEST_PYTHONS, or else $PYTHON, python3 and what pyenv has.
var pythons = sync.OnceValue(func() []python {
	var paths []string
	if list := os.Getenv("HAFT_TEST_PYTHONS"); list != "" {
		paths = filepath.SplitList(list)
	} else {
		root := os.Getenv("PYENV_ROOT")
		if root == "" {
			home, _ := os.UserHomeDir() // without one there is no pyenv
			root = filepath.Join(home, ".pyenv")
		}
		found, _ := filepath.Glob(filepath.Join(root, "versions", "3.*", "bin", "python3")) // the pattern is fine
		paths = append([]string{os.Getenv("PYTHON"), "python3", "/usr/bin/python3"}, found...)
	}
	var all []python
	for _, path := range paths {
		if path == "" {
			continue
		}
		out, err := exec.CommandContext(context.Background(), path, "-I", "-S", "-c",
			"import sys; print(*sys.version_info[:2])").Output()
		var p python
		if _, scanErr := fmt.Sscan(string(out), &p.major, &p.minor); err != nil || scanErr != nil {
			continue
		}
		p.path = path
		same := func(q python) bool { return q.String() == p.String() }
		if p.major == 3 && p.minor >= 9 && !slices.ContainsFunc(all, same) {
			all = append(all, p)
		}
	}
	slices.SortFunc(all, func(a, b python) int { return a.minor - b.minor })
	return all
})

// needPython returns the oldest and the newest interpreter, or skips.
func needPython(t testing.TB) []python {
	t.Helper()
	all := pythons()
	if len(all) == 0 {
		skiptest.Lacking(t, "python",
			"there is no Python 3.9 or newer; set PYTHON, or HAFT_TEST_PYTHONS to a list of interpreters")
	}
	if len(all) > 1 {
		return []python{all[0], all[len(all)-1]}
	}
	return all
}

// fresh reads each source in a process of its own, as the product does.
func fresh(p python) pyschema.Reader {
	return func(ctx context.Context, source []byte) ([]byte, error) {
		cmd := exec.CommandContext(ctx, p.path, "-I", "-S", "-c", pyschema.Script())
		cmd.Stdin = bytes.NewReader(source)
		out, err := cmd.Output()
		if exit, ok := errors.AsType[*exec.ExitError](err); ok {
			return nil, fmt.Errorf("%w: %w", pyschema.ErrReaderDied, exit)
		}
		return out, err
	}
}

// loop keeps the script's answer function in one process, for speed.
const loop = `
import struct, sys
space = {"__name__": "reader"}
exec(compile(sys.argv[1], "reader.py", "exec"), space)
while True:
    head = sys.stdin.buffer.read(4)
    if len(head) < 4:
        break
    source = sys.stdin.buffer.read(struct.unpack(">I", head)[0])
    text = space["answer"](source).encode()
    sys.stdout.buffer.write(struct.pack(">I", len(text)) + text)
    sys.stdout.buffer.flush()
`

// A lasting reader is one process for many sources. One that dies is replaced.
type lasting struct {
	python python
	mu     sync.Mutex
	cmd    *exec.Cmd
	in     io.WriteCloser
	out    *bufio.Reader
}

// newLasting returns a reader that ends with the test.
func newLasting(t testing.TB, p python) *lasting {
	l := &lasting{python: p}
	t.Cleanup(func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.stop()
	})
	return l
}

func (l *lasting) stop() {
	if l.cmd != nil {
		l.in.Close()
		_ = l.cmd.Wait() // it ends with its input; how does not matter
		l.cmd = nil
	}
}

func (l *lasting) start() error {
	l.cmd = exec.CommandContext(context.Background(), l.python.path, "-I", "-S", "-c", loop, pyschema.Script())
	in, err := l.cmd.StdinPipe()
	if err != nil {
		return err
	}
	out, err := l.cmd.StdoutPipe()
	if err != nil {
		return err
	}
	l.in, l.out = in, bufio.NewReader(out)
	return l.cmd.Start()
}

// read is a pyschema.Reader.
func (l *lasting) read(_ context.Context, source []byte) ([]byte, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.cmd == nil {
		if err := l.start(); err != nil {
			return nil, err
		}
	}
	head := binary.BigEndian.AppendUint32(nil, uint32(len(source)))
	_, err := l.in.Write(append(head, source...))
	size := make([]byte, 4)
	if err == nil {
		_, err = io.ReadFull(l.out, size)
	}
	out := make([]byte, binary.BigEndian.Uint32(size))
	if err == nil {
		_, err = io.ReadFull(l.out, out)
	}
	if err != nil {
		l.stop()
		return nil, fmt.Errorf("%w: %w", pyschema.ErrReaderDied, err)
	}
	return out, nil
}

// needs returns the minor version of Python that a golden asks for.
func needs(comment []byte) int {
	_, after, ok := strings.Cut(string(comment), "needs python 3.")
	if !ok {
		return 0
	}
	digits := strings.TrimRight(strings.Fields(after)[0], ".,;")
	n, err := strconv.Atoi(digits)
	if err != nil {
		return 0
	}
	return n
}
