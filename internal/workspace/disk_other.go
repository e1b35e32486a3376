//go:build !linux

package workspace

import (
	"os"
	"syscall"
)

// syncTree writes everything to the disk. Other systems than Linux have no call for one file system.
func syncTree(*os.Root) error {
	syscall.Sync()
	return nil
}
