//go:build !unix

package sqlite

import (
	"errors"
	"os"
)

// tryLock is not supported here, and without it the store is not safe.
func tryLock(*os.File) error { return errors.ErrUnsupported }
