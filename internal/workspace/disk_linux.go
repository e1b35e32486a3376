package workspace

import (
	"os"

	"golang.org/x/sys/unix"
)

// syncTree writes everything of a tree to the disk: one call for the file system instead of one for
// each file.
func syncTree(tree *os.Root) error {
	f, err := tree.Open(".")
	if err != nil {
		return err
	}
	defer f.Close() // only read
	return unix.Syncfs(int(f.Fd()))
}
