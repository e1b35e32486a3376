//go:build unix

package storetest

import (
	"errors"
	"os"
	"os/exec"
	"os/user"
	"strconv"
	"syscall"
)

// asOther makes cmd run in a group of its own and, if we are root, as somebody
// else: Postgres refuses to run as root.
func (s *server) asOther(cmd *exec.Cmd) error {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if os.Geteuid() != 0 {
		return nil
	}
	var who *user.User
	var err error
	for _, name := range []string{"postgres", "nobody"} {
		if who, err = user.Lookup(name); err == nil {
			break
		}
	}
	if err != nil {
		return err
	}
	uid, err1 := strconv.ParseUint(who.Uid, 10, 32)
	gid, err2 := strconv.ParseUint(who.Gid, 10, 32)
	if err := errors.Join(err1, err2); err != nil {
		return err
	}
	cmd.SysProcAttr.Credential = &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
	return os.Chown(s.dir, int(uid), int(gid))
}
