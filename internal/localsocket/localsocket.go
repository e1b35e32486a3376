// Package localsocket connects the processes of one user that work on one data directory: the process that has the
// directory listens on a socket in it, and others send their requests there.
//
// A connection begins with one line of JSON from the client ([Hello]) and one from the server ([Welcome]). HTTP
// follows.
//
//	client                               server
//	  │── connect ───────────────────────►│ who is it? uid, namespaces and filters of the kernel
//	  │   is it my user's server?         │
//	  │── {"protocol":1,"principal":…} ──►│
//	  │◄── {"protocol":1,"pid":…} ────────│ only now it is accepted
//	  │── requests ──────────────────────►│
//
// The kernel says who the client is. The user of the server, and root, could open the directory themselves, so they say
// on whose behalf they work, as they do without a server. All others are refused, and so is a process that is more
// confined than the server: a tool in a sandbox may have the same user. Sandboxes do not see the socket in the first
// place, and without namespaces they cannot make sockets that connect; this is a second wall.
//
// A client that has no [Welcome] was not served, whatever happened: it may go elsewhere with its request.
package localsocket

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"haft"
)

// Name is that of the socket in the data directory.
const Name = "socket"

// lockName is the file whose lock the listener has. It is not the lock of the store: servers that share a Postgres have
// none.
const lockName = "socket.lock"

// protocol is the version of the lines before HTTP, and of what a client may expect behind them.
const protocol = 1

const (
	maxLine  = 64 << 10
	patience = 10 * time.Second // for a line of the other side
)

// ErrNotServed says that nobody serves the directory, or that the server was leaving: nothing was done.
var ErrNotServed = errors.New("nobody serves the data directory")

// A Hello is what a client says first.
type Hello struct {
	Protocol int `json:"protocol"`
	// Version is that of the program.
	Version string `json:"version"`
	// Principal is on whose behalf requests are sent. Its organisation, user and roles count.
	Principal haft.Principal `json:"principal"`
	// Yield asks a server that yields to end and leave the directory to the client. The connection is then closed.
	Yield bool `json:"yield,omitempty"`
}

// A Welcome is what a server answers.
type Welcome struct {
	Protocol int    `json:"protocol"`
	Version  string `json:"version"`
	// PID is the process, and Command what it was started as, such as "serve".
	PID     int    `json:"pid"`
	Command string `json:"command"`
	// Reduced says that tools run there without namespaces, and Agents that agents do.
	Reduced bool `json:"reduced,omitempty"`
	Agents  bool `json:"agents,omitempty"`
	// Yields says that the server leaves the directory to a client that asks for it.
	Yields bool `json:"yields,omitempty"`
	// Refused is why the client is not served.
	Refused *Refusal `json:"refused,omitempty"`
}

// A Refusal is an error on the wire.
type Refusal struct {
	Code    haft.Code `json:"code"`
	Message string    `json:"message"`
}

// String names the process for a person.
func (w Welcome) String() string { return fmt.Sprintf("haft %s (pid %d)", w.Command, w.PID) }

// PeerOf returns on whose behalf a request is sent that came by the socket. It is false for all others.
func PeerOf(ctx context.Context) (haft.Principal, bool) {
	a, ok := ctx.Value(http.LocalAddrContextKey).(*address)
	if !ok {
		return haft.Principal{}, false
	}
	return a.principal, true
}

// An address is the local address of a connection whose client is known.
type address struct {
	net.Addr
	principal haft.Principal
}

// Dial connects to the server of a data directory. The error is [ErrNotServed] if there is none, and a [haft.Error] if
// it refuses.
func Dial(ctx context.Context, dir string, h Hello) (_ net.Conn, w Welcome, err error) {
	conn, err := connect(ctx, dir)
	if err != nil {
		return nil, w, err
	}
	defer func() {
		if err != nil {
			_ = conn.Close() // nothing was sent that counts
		}
	}()
	stop := context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Now()) })
	defer stop()
	// Whoever can write to the directory could have put their own socket there.
	uid, err := uidOf(conn)
	if err != nil {
		return nil, w, err
	}
	if me := os.Geteuid(); uid != me && me != 0 {
		return nil, w, &haft.Error{Code: haft.CodeDenied, Message: "the socket in the data directory " + dir +
			" is of another user: make sure that only you can write to the directory"}
	}
	h.Protocol = protocol
	if err := conn.SetDeadline(time.Now().Add(patience)); err != nil {
		return nil, w, unanswered(ctx, err)
	}
	sent := send(conn, h) // a server that refuses may have closed already, and has said why
	if err := receive(conn, &w); err != nil {
		return nil, w, unanswered(ctx, errors.Join(err, sent))
	}
	switch {
	case w.Protocol != protocol:
		return nil, w, &haft.Error{Code: haft.CodeConflict, Message: fmt.Sprintf("%s, which has the data directory, "+
			"is of version %s, and this command of version %s: restart it with this version", w, w.Version, h.Version)}
	case w.Refused != nil:
		return nil, w, &haft.Error{Code: w.Refused.Code, Message: w.Refused.Message}
	}
	return conn, w, conn.SetDeadline(time.Time{})
}

// unanswered is the error of a client that got no line.
func unanswered(ctx context.Context, err error) error {
	switch {
	case ctx.Err() != nil:
		return fmt.Errorf("ask the server of the data directory: %w", context.Cause(ctx))
	case errors.Is(err, os.ErrDeadlineExceeded):
		return &haft.Error{Code: haft.CodeUnavailable, Err: err,
			Message: "the process that has the data directory does not answer: haft doctor says which one it is"}
	}
	return errors.Join(ErrNotServed, err)
}

// send writes a value as a line.
func send(conn net.Conn, v any) error {
	text, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("encode a line: %w", err)
	}
	_, err = conn.Write(append(text, '\n'))
	return err
}

// receive reads a value from a line. The other side sends nothing more before it has an answer.
func receive(conn net.Conn, to any) error {
	in := bufio.NewReaderSize(io.LimitReader(conn, maxLine), 4<<10)
	line, err := in.ReadBytes('\n')
	if err != nil {
		return fmt.Errorf("read a line: %w", err)
	}
	if in.Buffered() > 0 {
		return errors.New("read a line: more follows than one line")
	}
	if err := json.Unmarshal(line, to); err != nil {
		return fmt.Errorf("read a line: %w", err)
	}
	return nil
}

// withShortPath calls do with a path of the socket that fits into an address of the kernel, which has 104 or 108 bytes.
func withShortPath(dir string, do func(path string) error) error {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return fmt.Errorf("name the socket: %w", err)
	}
	const most = 100
	path := filepath.Join(dir, Name)
	if len(path) <= most {
		return do(path)
	}
	short, err := os.MkdirTemp("", "haft-") // which nobody else can write to
	if err != nil {
		return fmt.Errorf("make a short path for the socket: %w", err)
	}
	link := filepath.Join(short, "d")
	if err = os.Symlink(dir, link); err == nil {
		err = do(filepath.Join(link, Name))
	}
	return errors.Join(err, os.RemoveAll(short))
}
