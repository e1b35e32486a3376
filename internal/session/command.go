package session

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"sync"
	"syscall"
	"time"

	"haft"
	"haft/sandbox"
)

// A Command is a program that is started in a session.
type Command struct {
	// Argv is the program and its arguments. A program without a slash is looked for in
	// PATH.
	Argv []string
	// Env is added to the environment of the session. Dir is the working directory; empty
	// means /work.
	Env map[string]string
	Dir string
	// Stdin says that the command gets input; otherwise it has none.
	Stdin bool
	// Terminal gives the command a terminal of this size.
	Terminal *Size
	// Stdout and Stderr get what it prints as it comes. With a terminal, all is Stdout.
	// They must not wait for long: meanwhile the command waits, too.
	Stdout, Stderr func([]byte)
}

// A Size is that of a terminal.
type Size struct {
	Rows int `json:"rows"`
	Cols int `json:"cols"`
}

// A Process is a running command. Its output is read by Wait, which must be called.
type Process struct {
	// PID is what the command is known by inside the session.
	PID     int
	session *Session
	cmd     Command
	r       *request
	end     func()
	takes   bool       // input of others than who started it; set by Attach
	feeding sync.Mutex // held while one input is sent
}

// killGrace is how long a command has after SIGTERM, and code after an interrupt.
const killGrace = 2 * time.Second

// Start starts a command.
func (s *Session) Start(ctx context.Context, cmd Command) (*Process, error) {
	if len(cmd.Argv) == 0 {
		return nil, &haft.Error{Code: haft.CodeInvalid, Message: "the command is empty"}
	}
	fields := map[string]any{"argv": cmd.Argv, "env": cmd.Env, "cwd": cmd.Dir, "stdin": cmd.Stdin}
	if cmd.Terminal != nil {
		fields["pty"] = cmd.Terminal
	}
	end := s.use()
	r, err := s.ch.start("exec", fields)
	if err != nil {
		end()
		return nil, s.why(err)
	}
	m, err := r.await(ctx, "started")
	if err != nil {
		_ = r.stop(syscall.SIGKILL) // it may start yet; the agent does one after the other
		r.close()
		end()
		return nil, s.why(err)
	}
	return &Process{PID: m.PID, session: s, cmd: cmd, r: r, end: end}, nil
}

// Wait hands on the output of the command until it ends, and returns its status: that of
// exit, or minus the number of the signal that ended it. When ctx ends, the command gets
// SIGTERM, and SIGKILL a moment later. If that does not end it, the session ends.
func (p *Process) Wait(ctx context.Context) (int, error) {
	defer p.end()
	defer p.r.close()
	waiting, killed := ctx, false
	for {
		it, err := p.r.next(waiting)
		switch {
		case err != nil && waiting.Err() != nil && killed:
			p.session.end("a command could not be ended")
			return 0, p.session.why(err)
		case err != nil && waiting.Err() != nil && waiting != ctx:
			killed = true // it had its time
			if err := p.r.stop(syscall.SIGKILL); err != nil {
				return 0, err
			}
			timed, cancel := context.WithTimeout(context.WithoutCancel(ctx), sendTime)
			defer cancel()
			waiting = timed
			continue
		case err != nil && ctx.Err() != nil && waiting == ctx:
			if err := p.r.stop(syscall.SIGTERM); err != nil {
				return 0, err
			}
			timed, cancel := context.WithTimeout(context.WithoutCancel(ctx), killGrace)
			defer cancel()
			waiting = timed
			continue
		case err != nil:
			return 0, p.session.why(err)
		case it.event == nil:
			p.output(it)
		case it.event.Event == "exited":
			var code int
			if json.Unmarshal(it.event.Code, &code) != nil {
				return 0, errProtocol
			}
			if ctx.Err() != nil {
				return code, context.Cause(ctx)
			}
			return code, nil
		}
	}
}

// output hands on what the command printed.
func (p *Process) output(it item) {
	to := p.cmd.Stdout
	if it.stream == streamErr {
		to = p.cmd.Stderr
	}
	if to != nil {
		to(it.data)
	}
}

// Write sends input to the command, as fast as it reads.
func (p *Process) Write(ctx context.Context, data []byte) error { return p.r.write(ctx, data) }

// CloseInput ends the input of the command.
func (p *Process) CloseInput() error { return p.r.control("eof", nil) }

// Signal sends a signal to the command and what it started in its process group.
func (p *Process) Signal(n syscall.Signal) error {
	return p.r.control("signal", map[string]any{"signal": int(n)})
}

// stop sends a signal to a command or code that was cancelled. When it has ended, the agent kills
// what it has left running, as far as that can be told from what others left.
func (r *request) stop(n syscall.Signal) error {
	return r.control("signal", map[string]any{"signal": int(n), "sweep": true})
}

// Resize sets the size of the terminal.
func (p *Process) Resize(size Size) error {
	return p.r.control("resize", map[string]any{"rows": size.Rows, "cols": size.Cols})
}

// Dial connects to a TCP port inside the session, or to the UNIX socket that stands for it. The port of
// egress is not one of them: who may use a port of the session may not thereby use its hosts.
func (s *Session) Dial(ctx context.Context, port int) (io.ReadWriteCloser, error) {
	if port == sandbox.EgressPort {
		return nil, &haft.Error{Code: haft.CodeInvalid,
			Message: fmt.Sprintf("port %d of a session is its own way out", port)}
	}
	end := s.use()
	r, err := s.ch.start("dial", map[string]any{"port": port})
	if err == nil {
		if _, err = r.await(ctx, "started"); err != nil {
			r.close()
		}
	}
	if err != nil {
		end()
		return nil, s.why(err)
	}
	return &stream{ctx: ctx, r: r, end: end}, nil
}

// DialPort is Dial for whoever wants a [net.Conn]. It is closed when ctx ends. It has no
// deadlines.
func (s *Session) DialPort(ctx context.Context, port int) (net.Conn, error) {
	ctx, cancel := context.WithCancel(ctx)
	c, err := s.Dial(ctx, port)
	if err != nil {
		cancel()
		return nil, err
	}
	return &portConn{c, cancel}, nil
}

// A portConn is a connection to a port of a session.
type portConn struct {
	io.ReadWriteCloser
	cancel func()
}

// Close implements [net.Conn]. It ends a Read and a Write, too.
func (c *portConn) Close() error {
	c.cancel()
	return c.ReadWriteCloser.Close()
}

// The rest of [net.Conn], which a connection to a port does not have.

// LocalAddr implements [net.Conn].
func (c *portConn) LocalAddr() net.Addr { return &net.TCPAddr{} }

// RemoteAddr implements [net.Conn].
func (c *portConn) RemoteAddr() net.Addr { return &net.TCPAddr{} }

// SetDeadline implements [net.Conn].
func (c *portConn) SetDeadline(time.Time) error { return nil }

// SetReadDeadline implements [net.Conn].
func (c *portConn) SetReadDeadline(time.Time) error { return nil }

// SetWriteDeadline implements [net.Conn].
func (c *portConn) SetWriteDeadline(time.Time) error { return nil }

// A stream is a connection to a port, or a file that is read.
type stream struct {
	ctx  context.Context // of who opened it
	r    *request
	left []byte
	end  func()
}

// Read implements [io.Reader].
func (c *stream) Read(b []byte) (int, error) {
	for len(c.left) == 0 {
		it, err := c.r.next(c.ctx)
		switch {
		case err != nil:
			return 0, err
		case it.event == nil:
			c.left = it.data
		case it.event.Event == "done":
			return 0, io.EOF
		case it.event.Event == "refused":
			return 0, refusal(it.event)
		}
	}
	n := copy(b, c.left)
	c.left = c.left[n:]
	return n, nil
}

// Write implements [io.Writer].
func (c *stream) Write(b []byte) (int, error) {
	if err := c.r.write(c.ctx, b); err != nil {
		return 0, err
	}
	return len(b), nil
}

// CloseWrite says that nothing more is written.
func (c *stream) CloseWrite() error { return c.r.control("eof", nil) }

// Close implements [io.Closer].
func (c *stream) Close() error {
	defer c.end()
	defer c.r.close()
	err := c.r.control("signal", map[string]any{"signal": int(syscall.SIGKILL)})
	if haft.CodeOf(err) == haft.CodeNotFound {
		return nil // the session is gone, and the connection with it
	}
	return err
}
