package gvisor

import (
	"context"
	_ "embed" // for the version
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"haft"
)

// Config adjusts a [Provider]. The zero value is good where runsc is installed.
type Config struct {
	// Program is the path of runsc. The default is what [Find] finds.
	Program string
	// Dir and UIDs are as in package local.
	Dir  string
	UIDs uint32
	// Logger gets messages that an operator can act on. Nil discards them.
	Logger *slog.Logger
}

//go:embed version.txt
var version string

// Version is the version of gVisor that Haft was tested with, as the Go module proxy names it. It is of gVisor's
// branch "go", the only one that the go command can build.
func Version() string { return strings.TrimSpace(version) }

// cached is where [Install] puts runsc.
func cached() (string, error) {
	dir, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("find the directory for caches: %w", err)
	}
	return filepath.Join(dir, "haft", "gvisor", Version(), "runsc"), nil
}

// Find returns the path of runsc: of the one that [Install] made, else of the one in PATH.
func Find() (string, error) {
	if name, err := cached(); err == nil {
		if err := check(name); err == nil || !errors.Is(err, fs.ErrNotExist) {
			return name, err
		}
	}
	if name, err := exec.LookPath("runsc"); err == nil && filepath.IsAbs(name) {
		return name, check(name)
	}
	return "", &haft.Error{Code: haft.CodeDenied, Err: fs.ErrNotExist, Message: "gVisor is not installed: " +
		"haft doctor --fix builds its program runsc, which needs Go, or put runsc into PATH"}
}

// check refuses a program that others may have changed: it runs outside of what it confines.
func check(name string) error {
	info, err := os.Stat(name)
	if err != nil {
		return fmt.Errorf("look at runsc: %w", err)
	}
	if !info.Mode().IsRegular() || info.Mode()&0o111 == 0 || info.Mode()&0o022 != 0 || !ownedByUs(info) {
		return &haft.Error{Code: haft.CodeDenied, Message: name + " is not a program that only this user or root can " +
			"change: remove it, and run haft doctor --fix"}
	}
	return nil
}

// Install builds runsc with the go command, which gets the source from the Go module proxy and checks it by the
// checksum database. It returns the path. What the go command says goes to out; it takes some minutes.
func Install(ctx context.Context, out io.Writer) (_ string, err error) {
	tool, err := exec.LookPath("go")
	if err != nil {
		return "", &haft.Error{Code: haft.CodeUnavailable, Err: err,
			Message: "building gVisor needs the go command: install Go, or put runsc into PATH"}
	}
	name, err := cached()
	if err != nil {
		return "", err
	}
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		return "", fmt.Errorf("install gVisor: %w", err)
	}
	dir, err := os.MkdirTemp(filepath.Dir(name), "build-")
	if err != nil {
		return "", fmt.Errorf("install gVisor: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	cmd := exec.CommandContext(ctx, tool, "install", "-trimpath", "-ldflags=-s -w",
		"gvisor.dev/gvisor/runsc@"+Version())
	cmd.Dir, cmd.Stdout, cmd.Stderr = dir, out, out
	cmd.Env = append(os.Environ(), "GOBIN="+dir, "CGO_ENABLED=0", "GOFLAGS=", "GOWORK=off")
	if err := cmd.Run(); err != nil {
		return "", &haft.Error{Code: haft.CodeUnavailable, Err: err, Message: "gVisor could not be built: " +
			"the go command says above why; it needs the Go module proxy"}
	}
	built := filepath.Join(dir, "runsc")
	if err := os.Chmod(built, 0o755); err != nil {
		return "", fmt.Errorf("install gVisor: %w", err)
	}
	if err := os.Rename(built, name); err != nil {
		return "", fmt.Errorf("install gVisor: %w", err)
	}
	return name, nil
}
