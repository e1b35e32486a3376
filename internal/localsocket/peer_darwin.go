package localsocket

import (
	"errors"
	"fmt"
	"net"
	"os"

	"golang.org/x/sys/unix"
)

// uidOf returns the user of the other side.
func uidOf(conn *net.UnixConn) (uid int, err error) {
	raw, err := conn.SyscallConn()
	if err != nil {
		return 0, fmt.Errorf("look at the connection: %w", err)
	}
	var cred *unix.Xucred
	if controlled := raw.Control(func(fd uintptr) {
		cred, err = unix.GetsockoptXucred(int(fd), unix.SOL_LOCAL, unix.LOCAL_PEERCRED)
	}); errors.Join(controlled, err) != nil {
		return 0, fmt.Errorf("ask who the other side is: %w", errors.Join(controlled, err))
	}
	return int(cred.Uid), nil
}

// admit reports why the client of a connection may not work on this server. There are no sandboxes on this system that
// it could be in.
func admit(conn *net.UnixConn) error {
	uid, err := uidOf(conn)
	if err != nil {
		return err
	}
	if uid != os.Geteuid() && uid != 0 {
		return errors.New("this process is of another user")
	}
	return nil
}
