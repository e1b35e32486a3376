package rented

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"sync"
	"syscall"
	"time"

	"haft"
	"haft/sandbox"
	"haft/sandbox/internal/collect"
)

// The bounds of what a relay sends. Everything in a machine is hostile once a tool has run there.
const (
	maxLine   = 256 << 10
	maxQueued = 4 << 20 // of one stream, that nobody has read yet
	maxCuts   = 100
	window    = 1 << 20
	piece     = 48 << 10
	// unsentTime is how long the stream has to end by itself when nothing can be sent any more.
	unsentTime = 5 * time.Second
)

// An ending is what the relay says at the end.
type ending struct {
	Status int         `json:"status"`
	CPU    float64     `json:"cpu"` // in seconds
	Memory int64       `json:"memory"`
	Stdout int64       `json:"stdout"`
	Stderr int64       `json:"stderr"`
	Cuts   [][2]string `json:"cuts"`
	Clean  bool        `json:"clean"`
	Flood  bool        `json:"flooded"` // more came on the channel than may
}

// cpu is the processor time of the command, as the machine says.
func (e ending) cpu() time.Duration {
	if e.CPU > 0 && e.CPU < math.MaxInt32 {
		return time.Duration(e.CPU * float64(time.Second))
	}
	return 0
}

// A link reads what a relay sends.
type link struct {
	r      *run
	stream Process
	line   []byte
	out    map[byte]*sink
	credit map[byte]*credit

	started, ended, over chan struct{}
	asked                chan struct{}
	once, begin          sync.Once

	// What follows belongs to the reader until ended is closed.
	err       error // nil if the command ended and the relay said how
	end       ending
	artifacts []haft.Artifact
	left      int64 // bytes that artifacts may still have
	named     bool  // the last artifact is one that is kept
	whole     bool  // the stream ended after the command; read it when over is closed
	cuts      []string
}

// newLink makes the link of a run.
func newLink(r *run, s Process) *link {
	l := &link{r: r, stream: s, started: make(chan struct{}), ended: make(chan struct{}),
		over: make(chan struct{}), asked: make(chan struct{}, 1), left: r.limits.ArtBytes,
		credit: map[byte]*credit{'i': newCredit(), 'c': newCredit()}, out: map[byte]*sink{}}
	read := func(kind byte) func(int) {
		return func(n int) { r.in.post('a', fmt.Appendf(nil, `["%c",%d]`, kind, n)) }
	}
	l.out['o'] = newSink(r.spec.Stdout, r.limits.Stdout, read('o'))
	l.out['e'] = newSink(r.spec.Stderr, r.limits.Stderr, read('e'))
	if r.channel != nil {
		l.out['c'] = newSink(r.channel, math.MaxInt64, read('c'))
	}
	return l
}

// fail ends the link with an error, if it has not ended.
func (l *link) fail(err error) {
	l.once.Do(func() {
		l.err = err
		close(l.ended)
		l.r.cancel()
	})
}

// hasEnded reports whether the end of the command, or a failure, is known.
func (l *link) hasEnded() bool {
	select {
	case <-l.ended:
		return true
	default:
		return false
	}
}

// unsent ends the link because input could not be sent. The relay may have ended: then the stream says how, and what
// it has sent before is read first.
func (l *link) unsent(err error) {
	select {
	case <-l.over:
	case <-l.ended:
	case <-time.After(unsentTime):
	}
	l.fail(err)
}

// read reads the stream to its end.
func (l *link) read() {
	defer close(l.over)
	for {
		stdout, stderr, err := l.stream.Next()
		if errors.Is(err, io.EOF) {
			err = errors.New("the relay ended without a word")
			l.whole = l.hasEnded()
		}
		if err == nil {
			err = l.take(stdout)
		}
		if err != nil {
			l.fail(err)
			return
		}
		if len(stderr) > 0 {
			l.r.p.cfg.Logger.Warn("the relay in a rented sandbox failed", "server", l.r.p.cfg.Name, "said",
				string(stderr[max(0, len(stderr)-1000):]))
		}
	}
}

// take takes a part of the standard output of the relay.
func (l *link) take(data []byte) error {
	for {
		text, rest, whole := bytes.Cut(data, []byte("\n"))
		if len(l.line)+len(text) > maxLine {
			return errors.New("a line of the relay is too long")
		}
		l.line = append(l.line, text...)
		if !whole {
			return nil
		}
		if len(l.line) == 0 {
			return errors.New("a line of the relay is empty")
		}
		raw, err := base64.StdEncoding.DecodeString(string(l.line[1:]))
		if err == nil {
			err = l.message(l.line[0], raw)
		}
		if err != nil {
			return fmt.Errorf("a line of the relay is wrong: %w", err)
		}
		l.line, data = l.line[:0], rest
	}
}

// message takes a message of the relay.
func (l *link) message(kind byte, data []byte) error {
	if l.hasEnded() {
		return errors.New("it comes after the end")
	}
	switch kind {
	case 'o', 'e', 'c':
		if l.out[kind] == nil {
			return errors.New("there is no channel")
		}
		return l.out[kind].put(data)
	case 'a':
		var of []any
		if err := json.Unmarshal(data, &of); err != nil || len(of) != 2 {
			return errors.New("an acknowledgement is none")
		}
		name, _ := of[0].(string)
		n, _ := of[1].(float64)
		if len(name) != 1 || l.credit[name[0]] == nil || n < 0 || n > window {
			return errors.New("an acknowledgement is none")
		}
		l.credit[name[0]].add(int(n))
	case 'r':
		l.begin.Do(func() { close(l.started) })
	case 'w':
		select {
		case l.asked <- struct{}{}:
		default:
		}
	case 'f', 'd':
		return l.artifact(kind, data)
	case 'x':
		return l.finished(data)
	case '!':
		select {
		case <-l.started: // a tool may write where the relay does: what has begun is never said not to have
			return errors.New("the command had begun")
		default:
		}
		var why struct {
			Step  string `json:"step"`
			Errno int    `json:"errno"`
		}
		if err := json.Unmarshal(data, &why); err != nil {
			return err
		}
		setup := &sandbox.SetupError{Step: "exec", Path: l.r.spec.Argv[0], Err: syscall.Errno(why.Errno)}
		if why.Step != "exec" {
			setup.Step, setup.Path = "prepare", ""
		}
		l.fail(setup)
	default:
		return errors.New("it has no known kind")
	}
	return nil
}

// artifact takes the name of a file that the command left, or a part of its content.
func (l *link) artifact(kind byte, data []byte) error {
	if !l.r.spec.Collect {
		return errors.New("nobody asked for files")
	}
	if kind == 'f' {
		l.sealArtifact()
		var name string
		if err := json.Unmarshal(data, &name); err != nil {
			return err
		}
		if l.named = collect.Clean(name) && len(l.artifacts) < l.r.limits.Artifacts; l.named {
			l.artifacts = append(l.artifacts, haft.Artifact{Name: name})
		} else {
			l.cut(name, "has a name that cannot be given back")
		}
		return nil
	}
	if l.left -= int64(len(data)); l.left < 0 {
		return errors.New("files are larger than they may be")
	}
	if l.named {
		last := &l.artifacts[len(l.artifacts)-1]
		last.Data = append(last.Data, data...)
	}
	return nil
}

// sealArtifact completes the last artifact.
func (l *link) sealArtifact() {
	if l.named {
		last := &l.artifacts[len(l.artifacts)-1]
		last.Size, last.ContentType = int64(len(last.Data)), collect.ContentType(last.Name, last.Data)
	}
	l.named = false
}

// cut notes a file that is left out.
func (l *link) cut(name, why string) {
	if len(l.cuts) < maxCuts {
		l.cuts = append(l.cuts, fmt.Sprintf("%q %s", name[:min(len(name), 1024)], why))
	}
}

// finished takes the end of the command.
func (l *link) finished(data []byte) error {
	if err := json.Unmarshal(data, &l.end); err != nil {
		return err
	}
	select {
	case <-l.started:
	default:
		return errors.New("it ends before it has begun")
	}
	l.sealArtifact()
	for _, c := range l.end.Cuts {
		l.cut(c[0], c[1][:min(len(c[1]), 100)])
	}
	l.once.Do(func() { close(l.ended) })
	return nil
}

// feed sends the input and the channel to the command.
func (l *link) feed(stdin io.Reader, channel *net.UnixConn) {
	send := func(kind byte, from io.Reader) {
		defer l.r.in.post(kind, nil)
		buf := make([]byte, piece)
		for {
			n, err := from.Read(buf[:l.credit[kind].wait(piece)])
			if n > 0 {
				l.credit[kind].add(-n)
				l.r.in.post(kind, buf[:n])
			}
			if err != nil || l.credit[kind].over() {
				return
			}
		}
	}
	if stdin != nil {
		go send('i', stdin)
	}
	if channel != nil {
		go send('c', channel)
	}
}

// finish waits until everything that the command wrote has been passed on.
func (l *link) finish() {
	if c := l.out['c']; c != nil {
		// Nobody may read it any more.
		_ = l.r.channel.SetWriteDeadline(time.Now().Add(time.Second))
	}
	for _, s := range l.out {
		s.finish()
	}
}

// close ends what the link has started.
func (l *link) close() {
	for _, c := range l.credit {
		c.close()
	}
	for _, s := range l.out {
		s.drop()
	}
	if l.r.channel != nil {
		_ = l.r.channel.SetDeadline(time.Now()) // feed ends
	}
}

// A credit is how many bytes may be sent before the other side has read.
type credit struct {
	mu     sync.Mutex
	free   *sync.Cond
	n      int
	closed bool
}

// newCredit returns a credit of one window.
func newCredit() *credit {
	c := &credit{n: window}
	c.free = sync.NewCond(&c.mu)
	return c
}

// wait returns how many bytes may be sent, at most so many: at least one, also when it is over.
func (c *credit) wait(most int) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	for c.n <= 0 && !c.closed {
		c.free.Wait()
	}
	return max(1, min(most, c.n))
}

// add adds what was read, or takes what was sent.
func (c *credit) add(n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.n = min(c.n+n, window)
	c.free.Broadcast()
}

// over reports whether nothing more is sent.
func (c *credit) over() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.closed
}

// close ends waiting.
func (c *credit) close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed = true
	c.free.Broadcast()
}

// A sender sends lines to the relay, as many at a time as have come.
type sender struct {
	mu   sync.Mutex
	left []byte
	more chan struct{}
}

// newSender starts a sender. It ends with ctx, or with the first failure.
func newSender(ctx context.Context, send func(context.Context, []byte) error, fail func(error)) *sender {
	s := &sender{more: make(chan struct{}, 1)}
	go func() {
		for {
			select {
			case <-s.more:
			case <-ctx.Done():
				return
			}
			for b := s.next(); len(b) > 0; b = s.next() {
				if err := send(ctx, b); err != nil {
					fail(err)
					return
				}
			}
		}
	}()
	return s
}

// maxInput is how much of the input of a process is sent at once.
const maxInput = 512 << 10

// next returns what to send.
func (s *sender) next() []byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := min(len(s.left), maxInput)
	b := s.left[:n:n]
	s.left = s.left[n:]
	return b
}

// post adds a line. It never waits: windows bound what is sent.
func (s *sender) post(kind byte, data []byte) {
	s.mu.Lock()
	s.left = append(s.left, kind)
	s.left = base64.StdEncoding.AppendEncode(s.left, data)
	s.left = append(s.left, '\n')
	s.mu.Unlock()
	select {
	case s.more <- struct{}{}:
	default:
	}
}

// A sink passes a stream of the command on, so that a reader who is slow delays nobody else.
type sink struct {
	to      io.Writer
	read    func(n int) // says what was passed on
	limit   int64
	written int64 // passed on, or dropped because the writer failed

	mu     sync.Mutex
	more   *sync.Cond
	queue  []byte
	ended  bool
	ending bool // the command has closed its end
	done   chan struct{}
}

// newSink starts a sink. A nil writer discards.
func newSink(to io.Writer, limit int64, read func(int)) *sink {
	if to == nil {
		to = io.Discard
	}
	s := &sink{to: to, limit: limit, read: read, done: make(chan struct{})}
	s.more = sync.NewCond(&s.mu)
	go s.pass()
	return s
}

// put adds what the command wrote; nothing means that it closed its end.
func (s *sink) put(data []byte) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.queue)+len(data) > maxQueued {
		return errors.New("more is sent than was asked for")
	}
	s.queue = append(s.queue, data...)
	s.ending = s.ending || len(data) == 0
	s.more.Signal()
	return nil
}

// pass is the goroutine that writes. A writer that fails gets no more.
func (s *sink) pass() {
	defer close(s.done)
	unread, broken := 0, false
	for {
		s.mu.Lock()
		for len(s.queue) == 0 && !s.ended && !s.ending {
			s.more.Wait()
		}
		data, closing, ended := s.queue, s.ending, s.ended
		s.queue, s.ending = nil, false
		s.mu.Unlock()
		if keep := max(0, min(int64(len(data)), s.limit-s.written)); keep > 0 && !broken {
			_, err := s.to.Write(data[:keep])
			broken = err != nil
		}
		s.written += max(0, min(int64(len(data)), s.limit-s.written))
		if half, ok := s.to.(interface{ CloseWrite() error }); ok && closing {
			_ = half.CloseWrite() // who does not read any more needs no end
		}
		if unread += len(data); unread > window/4 {
			s.read(unread)
			unread = 0
		}
		if ended && len(data) == 0 {
			return
		}
	}
}

// finish waits until everything was passed on.
func (s *sink) finish() {
	s.mu.Lock()
	s.ended = true
	s.more.Signal()
	s.mu.Unlock()
	<-s.done
}

// drop ends the sink without waiting.
func (s *sink) drop() {
	s.mu.Lock()
	s.ended, s.queue = true, nil
	s.more.Signal()
	s.mu.Unlock()
}

// dropped is how much of all that the command wrote was not kept.
func (s *sink) dropped(all int64) int64 { return max(0, all-s.written) }
