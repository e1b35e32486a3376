package sandboxtest

import (
	"bufio"
	"bytes"
	"context"
	"crypto/rand"
	_ "embed"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"haft"
	"haft/sandbox"
)

//go:embed prelude.py
var prelude string

// caseTime is the most that one case may take, whatever the provider does.
const caseTime = 30 * time.Second

// caseLimits are the limits of a case that does not change them: small, so that a
// hostile program hits them at once.
func caseLimits() haft.Limits {
	return haft.Limits{
		Wall: haft.Millis(10 * time.Second), CPU: haft.Millis(8 * time.Second),
		Memory: 256 << 20, Processes: 32, OpenFiles: 64,
		FileSize: 16 << 20, Disk: 32 << 20, Inodes: 512,
		Stdout: 1 << 20, Stderr: 1 << 20, Result: 1 << 20,
		Artifacts: 8, ArtBytes: 1 << 20,
	}
}

// A Bench runs the programs of one case on one provider.
type Bench struct {
	provider      sandbox.Provider
	iso           haft.Isolation
	host          *host
	shell, python interpreter
	pythonErr     error
	// guest has looked for the kernel that a provider promises.
	guest    sync.Once
	guestErr error
	// figures are what cases measured, one line each.
	figures buffer
}

// openBench looks for interpreters and prepares the host.
func openBench(ctx context.Context, p sandbox.Provider) (*Bench, error) {
	iso, err := p.Isolation(ctx)
	if err != nil {
		return nil, fmt.Errorf("ask for isolation: %w", err)
	}
	b := &Bench{provider: p, iso: iso}
	if b.shell, err = findShell(); err != nil {
		return nil, err
	}
	b.python, b.pythonErr = findPython()
	if b.host, err = openHost(ctx); err != nil {
		return nil, fmt.Errorf("prepare the host: %w", err)
	}
	return b, nil
}

// spec returns the run of a program, and the token that marks its processes.
func (b *Bench) spec(p Program) (sandbox.Spec, string) {
	token := "haft-case-" + rand.Text()
	in, source := b.shell, p.Source
	if p.Language == "python" {
		in, source = b.python, prelude+numbers()+p.Source
	}
	return sandbox.Spec{
		Argv:   append(slices.Clone(in.argv), source, token),
		Env:    b.host.env(),
		Mounts: in.mounts,
		Limits: caseLimits(),
	}, token
}

// Run runs a program to its end.
func (b *Bench) Run(ctx context.Context, p Program, change func(*sandbox.Spec)) Outcome {
	live, err := b.Start(ctx, p, change)
	if err != nil {
		return Outcome{Err: err}
	}
	return live.Wait()
}

// A Live is a program that is running.
type Live struct {
	token   string
	pipe    *os.File
	lines   chan string
	done    chan struct{}
	out     Outcome
	stdout  buffer
	stderr  buffer
	channel buffer
}

// Start runs a program in the background. Its descriptor 3 is connected to the
// [Live].
func (b *Bench) Start(ctx context.Context, p Program, change func(*sandbox.Spec)) (*Live, error) {
	spec, token := b.spec(p)
	ours, theirs, err := socketPair()
	if err != nil {
		return nil, err
	}
	l := &Live{token: token, pipe: ours, lines: make(chan string, 64), done: make(chan struct{})}
	var mu sync.Mutex
	ended := 0
	spec.Stdout, spec.Stderr, spec.Channel = &l.stdout, &l.stderr, theirs
	spec.Ended = func(sandbox.Exit) {
		mu.Lock()
		defer mu.Unlock()
		ended++
	}
	if change != nil {
		change(&spec)
	}
	go l.listen()
	go func() {
		defer close(l.done)
		begun := time.Now()
		l.out.Exit, l.out.Err = b.provider.Run(ctx, spec)
		l.out.Took = time.Since(begun)
		mu.Lock()
		defer mu.Unlock()
		l.out.Ended = ended
	}()
	return l, nil
}

// maxChannel bounds what is kept of descriptor 3.
const maxChannel = 64 << 10

// listen keeps the beginning of what comes from descriptor 3. It ends with the
// connection.
func (l *Live) listen() {
	defer close(l.lines)
	r := bufio.NewReaderSize(l.pipe, 4096)
	for n := 0; ; {
		line, err := r.ReadSlice('\n')
		if n += len(line); n <= maxChannel && len(line) > 0 {
			_, _ = l.channel.Write(line) // never fails
			select {
			case l.lines <- strings.TrimSuffix(string(line), "\n"):
			default: // no case needs more lines than the buffer holds
			}
		}
		if err != nil && !errors.Is(err, bufio.ErrBufferFull) {
			return
		}
	}
}

// Line waits for a line from the program.
func (l *Live) Line(ctx context.Context) (string, error) {
	select {
	case s, ok := <-l.lines:
		if ok {
			return s, nil
		}
		<-l.done
		return "", fmt.Errorf("the program ended without a word: %v", l.Wait())
	case <-ctx.Done():
		return "", fmt.Errorf("wait for the program: %w", ctx.Err())
	}
}

// Say sends a line to the program.
func (l *Live) Say(line string) error {
	_, err := l.pipe.WriteString(line + "\n")
	if err != nil {
		return fmt.Errorf("write to the program: %w", err)
	}
	return nil
}

// Wait returns the outcome.
func (l *Live) Wait() Outcome {
	<-l.done
	// A process that still holds the other end has escaped; do not wait for it.
	_ = l.pipe.SetReadDeadline(time.Now().Add(200 * time.Millisecond))
	for range l.lines {
	}
	_ = l.pipe.Close() // closed before if Wait was called twice
	o := l.out
	o.Stdout, o.Stderr, o.Channel = l.stdout.String(), l.stderr.String(), l.channel.String()
	return o
}

// String describes an outcome in one line, for error messages.
func (o Outcome) String() string {
	cut := func(s string) string {
		if len(s) > 300 {
			return s[:200] + "…" + s[len(s)-100:]
		}
		return s
	}
	return fmt.Sprintf("cause %q code %d signal %d limit %q err %v took %v wall %v stdout %q stderr %q",
		o.Exit.Cause, o.Exit.Code, o.Exit.Signal, o.Exit.Limit, o.Err, o.Took.Round(time.Millisecond),
		o.Exit.Usage.Wall.D().Round(time.Millisecond), cut(o.Stdout), cut(o.Stderr))
}

// judge runs one case and returns its verdict. The error explains a verdict of Broken,
// Skipped or Stated.
func (b *Bench) judge(ctx context.Context, c Case) (Verdict, error) {
	ctx, cancel := context.WithTimeout(ctx, caseTime+2*c.Lasts)
	defer cancel()
	if lack := c.Lacking(b.iso); len(lack) > 0 {
		if err := b.stated(ctx, lack); err != nil {
			return Broken, err
		}
		return Stated, fmt.Errorf("the provider says that it lacks %v", lack)
	}
	if c.Guest != "" && b.iso.Has(haft.ControlKernel) {
		b.guest.Do(func() { b.guestErr = otherKernel(ctx, b) })
		if b.guestErr != nil {
			return Broken, b.guestErr
		}
		return Stated, errors.New(c.Guest)
	}
	if b.pythonErr != nil && (c.Do != nil || c.Program.Language == "python") {
		return Skipped, b.pythonErr
	}
	err := b.try(ctx, c)
	for tries := 1; err != nil && c.Timed && tries < 10 && ctx.Err() == nil; tries++ {
		if again := b.try(ctx, c); ctx.Err() == nil || again == nil {
			err = again // otherwise it failed at its deadline, which explains nothing
		}
	}
	if err = errors.Join(err, b.host.unchanged()); err != nil {
		return Broken, err
	}
	return Held, nil
}

// try runs a case once.
func (b *Bench) try(ctx context.Context, c Case) error {
	if c.Do != nil {
		return c.Do(ctx, b)
	}
	live, err := b.Start(ctx, c.Program, c.Spec)
	if err != nil {
		return err
	}
	o := live.Wait()
	if c.Timed && o.Exit.Cause == sandbox.CauseTimeout {
		fmt.Fprintf(&b.figures, "%s: ran %v\n", c.Name, o.Exit.Usage.Wall.D().Round(time.Millisecond))
	}
	if err := c.Check(o); err != nil {
		return fmt.Errorf("%w\n\t%v", err, o)
	}
	return left(live.token)
}

// stated checks that the provider reports the missing controls, and refuses a run that
// requires them.
func (b *Bench) stated(ctx context.Context, lack []haft.Control) error {
	for _, c := range lack {
		if !slices.ContainsFunc(b.iso.Missing, func(g haft.Gap) bool { return g.Control == c && g.Reason != "" }) {
			return fmt.Errorf("%q is neither among the controls nor, with a reason, among the missing", c)
		}
		spec, _ := b.spec(sh("exit 0"))
		spec.Need.Controls = controls(c)
		if _, err := b.provider.Run(ctx, spec); haft.CodeOf(err) != haft.CodeDenied {
			return fmt.Errorf("a run that demands %q gives %w, want an error with code %q", c, err, haft.CodeDenied)
		}
	}
	return nil
}

// socketPair returns two connected sockets. The first is ours and has deadlines.
func socketPair() (ours, theirs *os.File, err error) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM, 0)
	if err != nil {
		return nil, nil, fmt.Errorf("make a socket pair: %w", err)
	}
	for _, fd := range fds {
		unix.CloseOnExec(fd)
	}
	if err := unix.SetNonblock(fds[0], true); err != nil {
		return nil, nil, fmt.Errorf("make a socket pair: %w", err)
	}
	return os.NewFile(uintptr(fds[0]), "channel"), os.NewFile(uintptr(fds[1]), "channel of the program"), nil
}

// A buffer is a bytes.Buffer for several goroutines.
type buffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

// Write implements [io.Writer].
func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

// String returns what was written.
func (b *buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}
