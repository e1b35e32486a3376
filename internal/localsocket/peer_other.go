//go:build !linux && !darwin

package localsocket

import (
	"errors"
	"net"
)

// uidOf is not supported here, so that nobody is connected.
func uidOf(*net.UnixConn) (int, error) { return 0, errors.ErrUnsupported }

// admit is not supported here, so that nobody is served.
func admit(*net.UnixConn) error { return errors.ErrUnsupported }
