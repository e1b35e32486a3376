package upstream

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"haft"
	"haft/sandbox"
)

// The bounds on what a command writes and does not read.
const (
	maxUnread        = 4 << 20 // bytes that were sent to it
	stderrPerSecond  = 1 << 20 // bytes
	noticesPerSecond = 1000    // notifications
	floodSeconds     = 10      // in a row, with too many of them
)

// errFlood ends a server that sends notifications without end.
var errFlood = errors.New("the server sends notifications without end")

// A command is a server that runs in a sandbox and is spoken to over its standard
// streams.
type command struct {
	place     *Place
	isolation haft.Isolation
	in        *inputBuffer
	out       *io.PipeReader
	stderr    *stderrTail
	cancel    context.CancelFunc
	closing   chan struct{}
	once      sync.Once

	done chan struct{} // closed when the command is gone
	exit sandbox.Exit
	err  error
}

// startCommand starts the command of a place. It lives until it is stopped, even if the
// call that started it ends. Log gets what it writes to stderr.
func startCommand(ctx context.Context, place *Place, log func([]byte)) (*command, error) {
	isolation, err := place.Provider.Isolation(ctx)
	if err != nil {
		if place.Done != nil {
			place.Done()
		}
		return nil, fmt.Errorf("find the isolation of the sandbox: %w", err)
	}
	closing := make(chan struct{})
	out, stdout := io.Pipe()
	c := &command{
		place: place, isolation: isolation, closing: closing, done: make(chan struct{}),
		in: newInputBuffer(maxUnread), out: out,
		stderr: &stderrTail{throttle: &throttle{most: stderrPerSecond, done: closing}, log: log},
	}
	life, cancel := context.WithCancel(context.WithoutCancel(ctx))
	c.cancel = cancel
	spec := place.Spec
	spec.Limits = sandbox.Lasting(spec.Limits)
	spec.Stdin, spec.Stdout, spec.Stderr = c.in, stdout, c.stderr
	go func() {
		defer close(c.done)
		c.exit, c.err = place.Provider.Run(life, spec)
		_, _ = c.in.Close(), stdout.Close() // neither ever fails
		if place.Done != nil {
			place.Done()
		}
	}()
	return c, nil
}

// stop ends the command and waits until it is gone.
func (c *command) stop() {
	c.once.Do(func() {
		close(c.closing)
		_, _ = c.in.Close(), c.out.Close() // neither ever fails
		c.cancel()
	})
	<-c.done
}

// awaitEnd waits a moment for the end of a command whose stream has ended with err, and
// says how it ended, or "".
func (c *command) awaitEnd(err error) string {
	if !errors.Is(err, context.DeadlineExceeded) {
		select {
		case <-c.done:
		case <-time.After(time.Second):
		}
	}
	return c.ended()
}

// ended says how the command ended, for the person who added the server, or returns "".
func (c *command) ended() string {
	select {
	case <-c.done:
	default:
		return ""
	}
	if c.err != nil {
		return haft.MessageOf(c.err)
	}
	switch c.exit.Cause {
	case sandbox.CauseExit:
		return fmt.Sprintf("its command ended with code %d", c.exit.Code)
	case sandbox.CauseSignal:
		return fmt.Sprintf("its command died of signal %d", c.exit.Signal)
	case sandbox.CauseLimit:
		return "its command hit the limit " + string(c.exit.Limit)
	case sandbox.CauseBlocked:
		return "its command made a forbidden system call"
	}
	return "its command ended"
}

// transport returns the command as a transport of the SDK. Handle gets notifications
// first, in their order, and reports whether it has handled one: the SDK would handle it
// concurrently with the answer that follows.
func (c *command) transport(maxMessage int, handle func(*jsonrpc.Request) bool) mcp.Transport {
	return &stdioTransport{c: c, handle: handle, io: &mcp.IOTransport{Reader: c.out, Writer: c.in,
		MaxLineLength: maxMessage}}
}

// A stdioTransport limits the rate of notifications.
type stdioTransport struct {
	c      *command
	io     *mcp.IOTransport
	handle func(*jsonrpc.Request) bool
}

// Connect implements [mcp.Transport].
func (t *stdioTransport) Connect(ctx context.Context) (mcp.Connection, error) {
	conn, err := t.io.Connect(ctx)
	if err != nil {
		return nil, err
	}
	return &throttledConn{conn, t.handle, &throttle{most: noticesPerSecond, done: t.c.closing}}, nil
}

// A throttledConn limits the rate of notifications, which the SDK queues without a bound.
type throttledConn struct {
	mcp.Connection
	handle   func(*jsonrpc.Request) bool
	throttle *throttle
}

// Read implements [mcp.Connection].
func (t *throttledConn) Read(ctx context.Context) (jsonrpc.Message, error) {
	for {
		msg, err := t.Connection.Read(ctx)
		if err != nil {
			return nil, err
		}
		r, ok := msg.(*jsonrpc.Request)
		if !ok || r.IsCall() {
			return msg, nil
		}
		if t.throttle.wait(1) > floodSeconds {
			return nil, errFlood
		}
		if !t.handle(r) {
			return msg, nil
		}
	}
}
