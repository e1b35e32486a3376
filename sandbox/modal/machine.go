package modal

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/modal-labs/modal-client/go"

	"haft/sandbox/internal/rented"
)

// piece is how much of a file or of output is sent at once.
const piece = 1 << 20

// A machine is a sandbox of Modal. It implements [rented.Machine].
type machine struct {
	sb   *modal.Sandbox
	ends time.Time
}

// ID implements [rented.Machine].
func (m *machine) ID() string { return m.sb.SandboxID }

// Last implements [rented.Machine]. The life of a sandbox of Modal cannot be extended.
func (m *machine) Last(_ context.Context, d time.Duration) error {
	if time.Until(m.ends) < d {
		return gone()
	}
	return nil
}

// Detach closes the connection to the sandbox.
func (m *machine) Detach() error { return m.sb.Detach() }

// Start implements [rented.Machine].
func (m *machine) Start(ctx context.Context, argv []string) (rented.Process, error) {
	// What the relay says on standard error is said by its end, too. A hostile command could write there.
	cp, err := m.sb.Exec(ctx, argv, &modal.SandboxExecParams{Stderr: modal.Ignore})
	if err != nil {
		return nil, m.failed(ctx, err)
	}
	return &process{cp: cp, buf: make([]byte, piece)}, nil
}

// failed says why a machine does not start a command: it may have ended meanwhile.
func (m *machine) failed(ctx context.Context, err error) error {
	ours := problem(err)
	if errors.Is(ours, rented.ErrGone) || isBusy(err) {
		return ours
	}
	ctx, cancel := context.WithTimeout(ctx, answerTime)
	defer cancel()
	code, pollErr := m.sb.Poll(ctx, nil)
	if code != nil || errors.Is(problem(pollErr), rented.ErrGone) {
		return gone()
	}
	return ours
}

// Upload implements [rented.Machine].
func (m *machine) Upload(ctx context.Context, path string, data io.Reader) error {
	ctx, cancel := context.WithTimeout(ctx, uploadTime)
	defer cancel()
	return m.do(ctx, []string{"/bin/sh", "-c", `mkdir -p "${0%/*}" && cat > "$0"`, path}, data)
}

// do runs a command to its end, with an input.
func (m *machine) do(ctx context.Context, argv []string, input io.Reader) error {
	cp, err := m.sb.Exec(ctx, argv, &modal.SandboxExecParams{Stdout: modal.Ignore, Stderr: modal.Ignore})
	if err != nil {
		return m.failed(ctx, err)
	}
	done := make(chan error, 1)
	go func() { done <- feed(cp.Stdin, input) }() // the SDK's writes do not end with ctx
	select {
	case err = <-done:
	case <-ctx.Done():
		err = ctx.Err()
	}
	if err != nil {
		return problem(err)
	}
	code, err := cp.Wait(ctx, nil)
	if err == nil && code != 0 {
		return broken(fmt.Sprintf("a sandbox of Modal could not be prepared: exit status %d", code))
	}
	return problem(err)
}

// feed writes an input, and ends it.
func feed(to io.WriteCloser, input io.Reader) error {
	for buf := make([]byte, piece); ; {
		n, err := io.ReadFull(input, buf)
		if n > 0 {
			if _, err := to.Write(buf[:n]); err != nil {
				return err
			}
		}
		switch {
		case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
			return to.Close()
		case err != nil:
			return err
		}
	}
}

// A process is a command in a sandbox of Modal. It implements [rented.Process].
type process struct {
	cp  *modal.ContainerProcess
	buf []byte
}

// Next implements [rented.Process]. A stream that is cut goes on where it was: that is done by the SDK.
func (p *process) Next() (stdout, stderr []byte, err error) {
	n, err := p.cp.Stdout.Read(p.buf)
	if err != nil && !errors.Is(err, io.EOF) {
		err = problem(err)
	}
	return p.buf[:n], nil, err
}

// Send implements [rented.Process]. The SDK's writes do not end with ctx: nothing is sent after one that was given up.
func (p *process) Send(ctx context.Context, data []byte) error {
	if err := ctx.Err(); err != nil {
		return problem(err)
	}
	ctx, cancel := context.WithTimeout(ctx, answerTime)
	defer cancel()
	done := make(chan error, 1)
	go func() {
		_, err := p.cp.Stdin.Write(data)
		done <- err
	}()
	select {
	case err := <-done:
		return problem(err)
	case <-ctx.Done():
		return problem(ctx.Err())
	}
}

// Close implements [rented.Process].
func (p *process) Close() { _ = p.cp.Stdout.Close() } // only read
