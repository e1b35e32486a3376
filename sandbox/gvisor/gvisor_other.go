//go:build !linux

package gvisor

import (
	"context"
	"io/fs"
	"runtime"

	"haft"
	"haft/sandbox"
)

// A Provider runs nothing here: it cannot be opened.
type Provider struct{}

// Open says that gVisor needs Linux.
func Open(context.Context, Config) (*Provider, error) { return nil, unsupported() }

// Close does nothing here.
func (*Provider) Close() error { return nil }

// Isolation says that there is none.
func (*Provider) Isolation(context.Context) (haft.Isolation, error) {
	return haft.Isolation{Level: haft.LevelNone}, unsupported()
}

// Run refuses.
func (*Provider) Run(context.Context, sandbox.Spec) (sandbox.Exit, error) {
	return sandbox.Exit{}, unsupported()
}

// ownedByUs does not matter here, where nothing that is found can be opened.
func ownedByUs(fs.FileInfo) bool { return true }

// unsupported names the system.
func unsupported() error {
	return &haft.Error{Code: haft.CodeDenied, Message: "gVisor needs Linux, and this is " + runtime.GOOS}
}
