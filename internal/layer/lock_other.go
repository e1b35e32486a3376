//go:build !unix

package layer

import (
	"errors"
	"os"
)

// tryLock reports that there is no flock here.
func tryLock(*os.File, bool) (bool, error) { return false, errors.ErrUnsupported }

// links returns 1.
func links(os.FileInfo) uint64 { return 1 }

// noRoom reports whether the disk is full, which cannot be told here.
func noRoom(error) bool { return false }

// noWriting reports whether we may not write.
func noWriting(err error) bool { return errors.Is(err, os.ErrPermission) }
