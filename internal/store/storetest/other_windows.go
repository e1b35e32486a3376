package storetest

import (
	"errors"
	"os/exec"
)

// asOther is not supported here.
func (s *server) asOther(*exec.Cmd) error { return errors.ErrUnsupported }
