//go:build !unix

package localsocket

import (
	"context"
	"errors"
	"net"
	"os"
)

// lockFile is not supported here, so that no directory is served.
func lockFile(string) (*os.File, error) { return nil, errors.ErrUnsupported }

// connect finds no server, since there can be none.
func connect(context.Context, string) (*net.UnixConn, error) { return nil, ErrNotServed }
