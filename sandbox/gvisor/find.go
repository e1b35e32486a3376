package gvisor

import (
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"

	"haft"
)

// Version is the version of gVisor that Haft was tested with, as the Go module proxy names it.
const Version = "v0.0.0-20260527191743-a81fd9dd382e"

// Config adjusts a [Provider]. The zero value is good where runsc is installed.
type Config struct {
	// Program is the path of runsc. The default is the one that [Install] made, else the one in PATH.
	Program string
	// Cache is the directory of [Install]. The default is that of the user.
	Cache string
	// Dir is as in package local.
	Dir string
	// Logger gets messages that an operator can act on. Nil discards them.
	Logger *slog.Logger
}

// Find returns the path of runsc.
func Find(config Config) (string, error) {
	if config.Program != "" {
		return filepath.Abs(config.Program)
	}
	if p, err := exec.LookPath("runsc"); err == nil {
		return filepath.Abs(p)
	}
	return "", &haft.Error{Code: haft.CodeDenied, Message: "gVisor is not installed", Err: os.ErrNotExist}
}
