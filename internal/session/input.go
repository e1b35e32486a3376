package session

import (
	"context"
	"strings"
	"syscall"
	"time"

	"haft"
)

// MaxInput bounds the data of one input.
const MaxInput = 64 << 10

// inputTime is how long a command may take to read its input before the sender is refused.
const inputTime = 10 * time.Second

// signals are those that can be sent to a command.
var signals = map[string]syscall.Signal{
	"SIGHUP": syscall.SIGHUP, "SIGINT": syscall.SIGINT, "SIGQUIT": syscall.SIGQUIT, "SIGKILL": syscall.SIGKILL,
	"SIGUSR1": syscall.SIGUSR1, "SIGUSR2": syscall.SIGUSR2, "SIGTERM": syscall.SIGTERM, "SIGCONT": syscall.SIGCONT,
	"SIGSTOP": syscall.SIGSTOP, "SIGTSTP": syscall.SIGTSTP, "SIGWINCH": syscall.SIGWINCH,
}

// Attach lets a command be sent signals, and input if it takes some, by the id of the call that started
// it, until detach is called.
func (m *Manager) Attach(call haft.CallID, p *Process, takes bool) (detach func()) {
	m.mu.Lock()
	defer m.mu.Unlock()
	p.takes = takes
	m.running[call] = p
	return func() {
		m.mu.Lock()
		defer m.mu.Unlock()
		if m.running[call] == p {
			delete(m.running, call)
		}
	}
}

// Runs reports whether a call is a command that takes input or signals.
func (m *Manager) Runs(call haft.CallID) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.running[call] != nil
}

// Input sends input to the command of a call that its owner has made.
func (m *Manager) Input(ctx context.Context, by haft.Principal, call haft.CallID, in haft.CommandInput) error {
	bad := func(message string) error { return &haft.Error{Code: haft.CodeInvalid, Message: message} }
	number, known := signals[in.Signal]
	switch {
	case len(in.Data) > MaxInput:
		return bad("one input has at most 64 KiB: send the rest in another")
	case in.Signal != "" && !known:
		return bad("there is no such signal; they are named like SIGINT, SIGTERM or SIGKILL")
	case in.Rows < 0 || in.Cols < 0 || in.Rows > 4096 || in.Cols > 4096 || (in.Rows > 0) != (in.Cols > 0):
		return bad("a terminal has from 1 to 4096 rows and columns")
	}
	p, err := m.taking(by, call)
	if err != nil {
		return err
	}
	if !p.takes && (len(in.Data) > 0 || in.Close || in.Rows > 0) {
		return &haft.Error{Code: haft.CodeConflict,
			Message: "the command was started without input: it takes signals only"}
	}
	return p.input(ctx, in, number)
}

// Takes reports why a call takes no input from somebody.
func (m *Manager) Takes(by haft.Principal, call haft.CallID) error {
	_, err := m.taking(by, call)
	return err
}

// taking returns the command of a call that takes input from somebody.
func (m *Manager) taking(by haft.Principal, call haft.CallID) (*Process, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	p := m.running[call]
	switch {
	case p == nil:
		return nil, &haft.Error{Code: haft.CodeConflict,
			Message: "the call is no command that runs here and takes input"}
	case p.session.owner.Org != by.Org || owner(p.session.owner) != owner(by):
		return nil, &haft.Error{Code: haft.CodeDenied, Message: "input for a command comes from who made the call"}
	}
	return p, nil
}

// input does what an input says.
func (p *Process) input(ctx context.Context, in haft.CommandInput, number syscall.Signal) error {
	ctx, cancel := context.WithTimeoutCause(ctx, inputTime, &haft.Error{Code: haft.CodeUnavailable,
		Message: "the command does not read its input; a part of this one may have been sent"})
	defer cancel()
	if in.Rows > 0 {
		if err := p.Resize(Size{Rows: in.Rows, Cols: in.Cols}); err != nil {
			return err
		}
	}
	if len(in.Data) > 0 || in.Close { // a signal does not wait for what is not read
		p.feeding.Lock()
		defer p.feeding.Unlock()
		if err := p.Write(ctx, in.Data); err != nil {
			return p.session.why(err)
		}
		if in.Close {
			if err := p.endInput(ctx); err != nil {
				return err
			}
		}
	}
	if in.Signal != "" {
		return p.Signal(number)
	}
	return nil
}

// endInput ends the input of the command. On a terminal that is ^D.
func (p *Process) endInput(ctx context.Context) error {
	if p.cmd.Terminal != nil {
		return p.Write(ctx, []byte{4})
	}
	return p.CloseInput()
}

// CheckEnv refuses variables that no program can have.
func CheckEnv(env map[string]string) error {
	for k, v := range env {
		if k == "" || strings.ContainsAny(k, "=\x00") || strings.ContainsRune(v, 0) {
			return &haft.Error{Code: haft.CodeInvalid,
				Message: "a variable of the environment has no name, or holds NUL"}
		}
	}
	return nil
}
