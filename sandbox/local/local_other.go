//go:build !linux

package local

import (
	"context"
	"fmt"
	"runtime"

	"haft"
	"haft/sandbox"
)

// Init does nothing here.
func Init() {}

// A Provider confines nothing here: it cannot be opened.
type Provider struct{}

// Open says that local sandboxes need Linux.
func Open(context.Context, Config) (*Provider, error) {
	return nil, &haft.Error{Code: haft.CodeDenied, Message: "the local sandbox is not supported here",
		Err: fmt.Errorf("it needs Linux, this is %s", runtime.GOOS)}
}

// Close does nothing here.
func (*Provider) Close() error { return nil }

// Isolation says that there is none.
func (*Provider) Isolation(context.Context) (haft.Isolation, error) {
	return haft.Isolation{Level: haft.LevelNone}, nil
}

// Run refuses.
func (*Provider) Run(context.Context, sandbox.Spec) (sandbox.Exit, error) {
	return sandbox.Exit{}, &haft.Error{Code: haft.CodeDenied, Message: "the local sandbox is not supported here"}
}
