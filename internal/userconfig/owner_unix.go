//go:build unix

package userconfig

import (
	"errors"
	"io/fs"
	"os"
	"syscall"
)

// ownerOnly refuses a file of somebody else than the user and root: it says where a key is sent.
func ownerOnly(info fs.FileInfo) error {
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok || stat.Uid != 0 && int(stat.Uid) != os.Geteuid() {
		return errors.New("the file is of another user, and a server in it would get your key: remove it, or name " +
			"yours in $HAFT_CONFIG")
	}
	return nil
}
