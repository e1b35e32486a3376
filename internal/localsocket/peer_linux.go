package localsocket

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// control calls do with the descriptor of a connection.
func control(conn *net.UnixConn, do func(fd int) error) error {
	raw, err := conn.SyscallConn()
	if err != nil {
		return fmt.Errorf("look at the connection: %w", err)
	}
	var done error
	if err := raw.Control(func(fd uintptr) { done = do(int(fd)) }); err != nil {
		return fmt.Errorf("look at the connection: %w", err)
	}
	return done
}

// uidOf returns the user of the other side.
func uidOf(conn *net.UnixConn) (uid int, err error) {
	err = control(conn, func(fd int) error {
		cred, err := unix.GetsockoptUcred(fd, unix.SOL_SOCKET, unix.SO_PEERCRED)
		if err != nil {
			return fmt.Errorf("ask who the other side is: %w", err)
		}
		uid = int(cred.Uid)
		return nil
	})
	return uid, err
}

// admit reports why the client of a connection may not work on this server. The error says nothing of the server.
func admit(conn *net.UnixConn) error {
	return control(conn, func(fd int) error {
		cred, err := unix.GetsockoptUcred(fd, unix.SOL_SOCKET, unix.SO_PEERCRED)
		if err != nil {
			return fmt.Errorf("the kernel does not say who this process is: %w", err)
		}
		me := os.Geteuid()
		switch uid := int(cred.Uid); {
		case uid == 0 && me != 0:
			// No sandbox has the machine's root. Its files in /proc are not for us.
			return nil
		case uid != me:
			return errors.New("this process is of another user")
		case cred.Pid <= 0:
			return errors.New("this process is in a pid namespace that the server does not see")
		}
		return unconfined(fd, int(cred.Pid))
	})
}

// unconfined reports why a process must be taken for one in a sandbox: it is in other namespaces than we are, or has
// more filters of system calls.
func unconfined(socket, pid int) error {
	// A descriptor of the process proves in the end that what was read is not of another one with the same number.
	fd, err := unix.GetsockoptInt(socket, unix.SOL_SOCKET, unix.SO_PEERPIDFD)
	if errors.Is(err, unix.ENOPROTOOPT) { // before Linux 6.5
		fd, err = unix.PidfdOpen(pid, 0)
	}
	if err != nil {
		return errors.New("this process has ended")
	}
	defer unix.Close(fd) //nolint:errcheck // it is only looked at
	own, err := stateOf("self")
	if err != nil {
		return err
	}
	peer, err := stateOf(strconv.Itoa(pid))
	if err != nil {
		return err
	}
	if err := unix.PidfdSendSignal(fd, 0, nil, 0); err != nil {
		return errors.New("this process has ended")
	}
	switch {
	case peer.user != own.user || peer.pid != own.pid:
		return errors.New("this process is in other namespaces than the server")
	case peer.filters > own.filters:
		return errors.New("this process has more filters of system calls than the server")
	}
	return nil
}

// A state is how a process is confined.
type state struct {
	user, pid string // namespaces
	filters   int    // of system calls
}

// stateOf reads the state of a process. What cannot be read is an error.
func stateOf(process string) (s state, err error) {
	dir := "/proc/" + process
	unreadable := errors.New("it cannot be seen how this process is confined")
	if s.user, err = os.Readlink(dir + "/ns/user"); err != nil {
		return s, unreadable
	}
	if s.pid, err = os.Readlink(dir + "/ns/pid"); err != nil {
		return s, unreadable
	}
	text, err := os.ReadFile(dir + "/status")
	if err != nil {
		return s, unreadable
	}
	_, rest, found := bytes.Cut(text, []byte("\nSeccomp_filters:"))
	line, _, _ := bytes.Cut(rest, []byte("\n"))
	if s.filters, err = strconv.Atoi(string(bytes.TrimSpace(line))); !found || err != nil {
		return s, unreadable
	}
	return s, nil
}
