package upstream

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"haft"
	"haft/sandbox"
)

// The bounds on what a command says and does not read.
const (
	maxUnread        = 4 << 20 // of what it is sent
	maxAhead         = 1 << 20 // of what it sends, before it has to wait
	stderrPerSecond  = 1 << 20 // bytes
	noticesPerSecond = 1000    // notifications
	floodSeconds     = 10      // of too many of them, in a row
	stopTime         = 5 * time.Second
)

// errFlood is the end of a server that sends notifications without end.
var errFlood = errors.New("the server sends notifications without end")

// A command is a server that runs in a sandbox and is spoken to on its standard
// streams.
type command struct {
	place     *Place
	isolation haft.Isolation
	in, out   *stream
	stderr    *tail
	cancel    context.CancelFunc
	closing   chan struct{}
	once      sync.Once

	done chan struct{} // closed when nothing of it is left
	exit sandbox.Exit
	err  error
}

// start starts the command of a place. It lives until it is stopped, whatever
// becomes of the call that wanted it.
func start(ctx context.Context, place *Place) (*command, error) {
	isolation, err := place.Provider.Isolation(ctx)
	if err != nil {
		if place.Done != nil {
			place.Done()
		}
		return nil, fmt.Errorf("ask the sandbox what it promises: %w", err)
	}
	closing := make(chan struct{})
	c := &command{
		place: place, isolation: isolation, closing: closing, done: make(chan struct{}),
		in: newStream(maxUnread, false), out: newStream(maxAhead, true),
		stderr: &tail{pace: &pace{most: stderrPerSecond, done: closing}},
	}
	life, cancel := context.WithCancel(context.WithoutCancel(ctx))
	c.cancel = cancel
	spec := place.Spec
	spec.Limits = sandbox.Lasting(spec.Limits)
	spec.Stdin, spec.Stdout, spec.Stderr = c.in, c.out, c.stderr
	go func() {
		defer close(c.done)
		c.exit, c.err = place.Provider.Run(life, spec)
		_, _ = c.in.Close(), c.out.Close() // which never fails
		if place.Done != nil {
			place.Done()
		}
	}()
	return c, nil
}

// stop ends the command and waits until nothing of it is left.
func (c *command) stop() {
	c.once.Do(func() {
		close(c.closing)
		_, _ = c.in.Close(), c.out.Close() // which never fails
		c.cancel()
	})
	<-c.done
}

// ended says how the command ended, in words for the one who added the server.
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

// transport is the command as the SDK sees it. Hear is shown notifications first,
// in the order in which they come, and takes those for which it returns true: the
// SDK would handle them beside the answer that follows.
func (c *command) transport(maxMessage int, hear func(*jsonrpc.Request) bool) mcp.Transport {
	return &stdioTransport{c: c, hear: hear, io: &mcp.IOTransport{Reader: c.out, Writer: c.in,
		MaxLineLength: maxMessage}}
}

// A stdioTransport watches over what comes.
type stdioTransport struct {
	c    *command
	io   *mcp.IOTransport
	hear func(*jsonrpc.Request) bool
}

// Connect implements [mcp.Transport].
func (t *stdioTransport) Connect(ctx context.Context) (mcp.Connection, error) {
	conn, err := t.io.Connect(ctx)
	if err != nil {
		return nil, err
	}
	return &watched{Connection: conn, hear: t.hear, pace: &pace{most: noticesPerSecond, done: t.c.closing}}, nil
}

// watched is a connection of which notifications come at a bounded pace: the SDK
// queues them without a bound.
type watched struct {
	mcp.Connection
	pace *pace
	hear func(*jsonrpc.Request) bool
}

// Read implements [mcp.Connection].
func (w *watched) Read(ctx context.Context) (jsonrpc.Message, error) {
	for {
		msg, err := w.Connection.Read(ctx)
		if err != nil {
			return nil, err
		}
		r, ok := msg.(*jsonrpc.Request)
		if !ok || r.IsCall() {
			return msg, nil
		}
		if w.pace.take(1) > floodSeconds {
			return nil, errFlood
		}
		if !w.hear(r) {
			return msg, nil
		}
	}
}
