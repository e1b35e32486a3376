package sandbox_test

import (
	"context"
	"errors"
	"fmt"

	"haft"
	"haft/sandbox"
)

// refusing is a provider on a machine that cannot isolate anything.
type refusing struct{}

// Run implements [sandbox.Provider].
func (refusing) Run(context.Context, sandbox.Spec) (sandbox.Exit, error) {
	return sandbox.Exit{}, &sandbox.SetupError{Step: "unshare", Err: errors.New("operation not permitted")}
}

// Isolation implements [sandbox.Provider].
func (refusing) Isolation(context.Context) (haft.Isolation, error) {
	return haft.Isolation{Level: haft.LevelNone}, nil
}

// A command that fails has an [sandbox.Exit] and no error. An error means that it did not run.
func ExampleProvider() {
	var p sandbox.Provider = refusing{}
	_, err := p.Run(context.Background(), sandbox.Spec{Argv: []string{"/bin/true"}})
	var setup *sandbox.SetupError
	fmt.Println(errors.As(err, &setup), setup.Step)
	// Output: true unshare
}
