package wire

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"

	"golang.org/x/sys/unix"
)

// The bounds of a message.
const (
	MaxSize = 256 << 20
	MaxFDs  = 253 // SCM_MAX_FD
)

// A Conn is one end of a stream socket. Any number of goroutines may send, one
// may receive.
type Conn struct {
	f  *os.File
	mu sync.Mutex // held while sending
}

// Pair makes a connection: our end, and the other one as a descriptor.
func Pair() (*Conn, *os.File, error) {
	p, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return nil, nil, fmt.Errorf("make socket pair: %w", err)
	}
	if err := unix.SetNonblock(p[1], false); err != nil {
		return nil, nil, errors.Join(fmt.Errorf("make socket pair: %w", err), unix.Close(p[0]), unix.Close(p[1]))
	}
	return New(os.NewFile(uintptr(p[0]), "sandbox")), os.NewFile(uintptr(p[1]), "sandbox"), nil
}

// New makes a Conn of a socket.
func New(f *os.File) *Conn { return &Conn{f: f} }

// Close closes the connection.
func (c *Conn) Close() error { return c.f.Close() }

// Go sends the single byte that a fork waits for.
func (c *Conn) Go() error {
	_, err := c.f.Write([]byte{1})
	return err
}

// Send sends v and descriptors.
func (c *Conn) Send(v any, fds ...int) error {
	body, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("encode message: %w", err)
	}
	return c.SendBytes(append(binary.LittleEndian.AppendUint32(nil, uint32(len(body))), body...), fds...)
}

// SendBytes sends a message that has its length in it, and descriptors beside its beginning.
func (c *Conn) SendBytes(b []byte, fds ...int) error {
	if len(b) > MaxSize || len(fds) > MaxFDs {
		return fmt.Errorf("send message of %d bytes and %d descriptors: %w", len(b), len(fds), unix.E2BIG)
	}
	var rights []byte
	if len(fds) > 0 {
		rights = unix.UnixRights(fds...)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	n, err := c.sendmsg(b[:min(len(b), 32<<10)], rights)
	if err == nil && n < len(b) {
		_, err = c.f.Write(b[n:])
	}
	if err != nil {
		return fmt.Errorf("send message: %w", err)
	}
	return nil
}

// sendmsg sends once. It waits until the socket is writable.
func (c *Conn) sendmsg(b, rights []byte) (n int, err error) {
	raw, err := c.f.SyscallConn()
	if err != nil {
		return 0, err
	}
	werr := raw.Write(func(fd uintptr) bool {
		n, err = unix.SendmsgN(int(fd), b, rights, nil, unix.MSG_NOSIGNAL)
		return err != unix.EAGAIN && err != unix.EINTR
	})
	if werr != nil {
		return 0, werr
	}
	return n, err
}

// Recv receives into v and returns the descriptors that came along, close-on-exec.
// It returns io.EOF when the other side is gone.
func (c *Conn) Recv(v any) ([]int, error) {
	var head [4]byte
	n, fds, err := c.recvmsg(head[:])
	if err == nil && n == 0 {
		err = io.EOF
	}
	if err == nil && n < len(head) {
		_, err = io.ReadFull(c.f, head[n:])
	}
	if err != nil {
		CloseAll(fds)
		return nil, fmt.Errorf("receive message: %w", err)
	}
	size := binary.LittleEndian.Uint32(head[:])
	if size > MaxSize {
		CloseAll(fds)
		return nil, fmt.Errorf("receive message of %d bytes: %w", size, unix.E2BIG)
	}
	body := make([]byte, size)
	if _, err = io.ReadFull(c.f, body); err == nil {
		err = json.Unmarshal(body, v)
	}
	if err != nil {
		CloseAll(fds)
		return nil, fmt.Errorf("receive message: %w", err)
	}
	return fds, nil
}

// recvmsg receives once. It waits until there is data.
func (c *Conn) recvmsg(b []byte) (n int, fds []int, err error) {
	raw, err := c.f.SyscallConn()
	if err != nil {
		return 0, nil, err
	}
	oob := make([]byte, unix.CmsgSpace(MaxFDs*4))
	var oobn int
	rerr := raw.Read(func(fd uintptr) bool {
		n, oobn, _, _, err = unix.Recvmsg(int(fd), b, oob, unix.MSG_CMSG_CLOEXEC)
		return err != unix.EAGAIN && err != unix.EINTR
	})
	if rerr != nil {
		return 0, nil, rerr
	}
	if err != nil || oobn == 0 {
		return n, nil, err
	}
	msgs, err := unix.ParseSocketControlMessage(oob[:oobn])
	if err != nil {
		return n, nil, err
	}
	for i := range msgs {
		got, err := unix.ParseUnixRights(&msgs[i])
		if err != nil {
			CloseAll(fds)
			return n, nil, err
		}
		fds = append(fds, got...)
	}
	return n, fds, nil
}

// CloseAll closes descriptors that are not needed any more.
func CloseAll(fds []int) {
	for _, fd := range fds {
		_ = unix.Close(fd) // nothing was written
	}
}
