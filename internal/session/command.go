package session

import (
	"context"
	"encoding/json"
	"io"
	"syscall"
	"time"

	"haft"
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
	PID int
	cmd Command
	r   *request
	end func()
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
		r.close()
		end()
		return nil, s.why(err)
	}
	return &Process{PID: m.PID, cmd: cmd, r: r, end: end}, nil
}

// Wait hands on the output of the command until it ends, and returns its status: that of
// exit, or minus the number of the signal that ended it. When ctx ends, the command gets
// SIGTERM, and SIGKILL a moment later.
func (p *Process) Wait(ctx context.Context) (int, error) {
	defer p.end()
	defer p.r.close()
	waiting, killed := ctx, false
	for {
		it, err := p.r.next(waiting)
		switch {
		case err != nil && waiting.Err() != nil && !killed && waiting != ctx:
			killed = true // it had its time
			if err := p.Signal(syscall.SIGKILL); err != nil {
				return 0, err
			}
			waiting = context.WithoutCancel(ctx)
			continue
		case err != nil && ctx.Err() != nil && waiting == ctx:
			if err := p.Signal(syscall.SIGTERM); err != nil {
				return 0, err
			}
			timed, cancel := context.WithTimeout(context.WithoutCancel(ctx), killGrace)
			defer cancel()
			waiting = timed
			continue
		case err != nil:
			return 0, err
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

// Resize sets the size of the terminal.
func (p *Process) Resize(size Size) error {
	return p.r.control("resize", map[string]any{"rows": size.Rows, "cols": size.Cols})
}

// Dial connects to a TCP port inside the session.
func (s *Session) Dial(ctx context.Context, port int) (io.ReadWriteCloser, error) {
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
