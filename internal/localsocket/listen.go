package localsocket

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"sync"
	"time"

	"haft"
)

// maxHandshakes bounds the clients that have connected and are not known yet.
const maxHandshakes = 64

// A Listener accepts clients of the socket of a data directory.
type Listener struct {
	welcome Welcome
	yield   func() // nil means that the server stays
	path    string
	unix    *net.UnixListener
	lock    *os.File
	known   chan *Conn
	done    chan struct{}
	close   func() error
}

// A Conn is a connection whose client is known.
type Conn struct {
	net.Conn
	local *address
}

// LocalAddr implements [net.Conn], for [PeerOf].
func (c *Conn) LocalAddr() net.Addr { return c.local }

// Listen makes the socket of a data directory; a welcome is what clients are answered. The function yield is called
// when a client wants the directory for itself, maybe more than once; nil means that it does not get it. The error is
// [haft.CodeConflict] if another process listens there. What a process left that was killed is replaced.
func Listen(dir string, w Welcome, yield func()) (_ *Listener, err error) {
	l := &Listener{welcome: w, yield: yield, path: filepath.Join(dir, Name), known: make(chan *Conn),
		done: make(chan struct{})}
	l.welcome.Protocol, l.welcome.PID, l.welcome.Refused, l.welcome.Yields = protocol, os.Getpid(), nil, yield != nil
	if l.lock, err = lockFile(filepath.Join(dir, lockName)); err != nil {
		return nil, err
	}
	if err := l.bind(dir); err != nil {
		return nil, errors.Join(fmt.Errorf("make the socket of the data directory: %w", err), l.lock.Close())
	}
	l.close = sync.OnceValue(func() error {
		close(l.done)
		// The lock comes last: who gets it may make another socket.
		return errors.Join(os.Remove(l.path), l.unix.Close(), l.lock.Close())
	})
	go l.accept()
	return l, nil
}

// bind makes the socket. Precondition: nobody else does, since we have the lock.
func (l *Listener) bind(dir string) error {
	info, err := os.Lstat(l.path)
	switch {
	case err == nil && info.Mode().Type() != fs.ModeSocket:
		return &haft.Error{Code: haft.CodeConflict, Message: "the file " + Name +
			" in the data directory is not a socket of Haft: move it away"}
	case err == nil:
		err = os.Remove(l.path)
	case errors.Is(err, fs.ErrNotExist):
		err = nil
	}
	if err != nil {
		return err
	}
	err = withShortPath(dir, func(path string) error {
		l.unix, err = net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
		return err
	})
	if err != nil {
		return err
	}
	l.unix.SetUnlinkOnClose(false) // it would remove a short path
	if err := os.Chmod(l.path, 0o600); err != nil {
		return errors.Join(err, os.Remove(l.path), l.unix.Close())
	}
	return nil
}

// accept finds out who clients are, until the listener is closed.
func (l *Listener) accept() {
	slots := make(chan struct{}, maxHandshakes)
	for {
		conn, err := l.unix.AcceptUnix()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil { // such as too many open files
			select {
			case <-time.After(50 * time.Millisecond):
				continue
			case <-l.done:
				return
			}
		}
		slots <- struct{}{} // everyone in one leaves it after their patience
		go func() {
			defer func() { <-slots }()
			l.meet(conn)
		}()
	}
}

// meet finds out who a client is, and hands its connection to [Listener.Accept].
func (l *Listener) meet(conn *net.UnixConn) {
	met := make(chan struct{})
	defer close(met)
	go func() {
		select {
		case <-l.done:
			_ = conn.SetDeadline(time.Now()) // the client is not waited for
		case <-met:
		}
	}()
	hello, err := l.identify(conn)
	if err != nil || hello.Yield && l.yield != nil {
		w := l.welcome
		if err != nil {
			w.Refused = &Refusal{Code: haft.CodeOf(err), Message: haft.MessageOf(err)}
		}
		_ = send(conn, w) // it may have left
		_ = conn.Close()
		if err == nil {
			go l.yield() // it closes this listener
		}
		return
	}
	select {
	case l.known <- &Conn{conn, &address{l.unix.Addr(), hello.Principal}}:
	case <-l.done:
		_ = conn.Close() // without a welcome, so that the client goes elsewhere
	}
}

// identify returns the line of a client that may work on the server.
func (l *Listener) identify(conn *net.UnixConn) (h Hello, err error) {
	if err := admit(conn); err != nil {
		return h, &haft.Error{Code: haft.CodeDenied, Err: err, Message: l.welcome.String() +
			" has the data directory, and serves only its own user outside of sandboxes: " + err.Error() +
			"; use its address with --server and a key with --key-file"}
	}
	if err := errors.Join(conn.SetDeadline(time.Now().Add(patience)), receive(conn, &h)); err != nil {
		return h, &haft.Error{Code: haft.CodeInvalid, Message: "the first line is not one of a Haft client", Err: err}
	}
	if h.Protocol != protocol { // the client sees ours, and explains it
		return h, &haft.Error{Code: haft.CodeInvalid, Message: "the client is of another version"}
	}
	// Nothing else of it counts: no credential, and no scope.
	h.Principal = haft.Principal{Org: h.Principal.Org, User: h.Principal.User, Roles: h.Principal.Roles}
	return h, errors.Join(h.Principal.Check(), conn.SetDeadline(time.Time{}))
}

// Accept implements [net.Listener]. The client is welcomed only here: one that no server accepts gets nothing.
func (l *Listener) Accept() (net.Conn, error) {
	for {
		select {
		case <-l.done:
			return nil, net.ErrClosed
		case c := <-l.known:
			// The line fits into the buffer of a socket from which nothing was read yet.
			if err := send(c, l.welcome); err != nil {
				_ = c.Close() // it has left
				continue
			}
			return c, nil
		}
	}
}

// Close implements [net.Listener]. It can be called twice.
func (l *Listener) Close() error { return l.close() }

// Addr implements [net.Listener].
func (l *Listener) Addr() net.Addr { return l.unix.Addr() }

// Path is where the socket is.
func (l *Listener) Path() string { return l.path }
