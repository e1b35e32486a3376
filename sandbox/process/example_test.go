package process_test

import (
	"bytes"
	"context"
	"fmt"

	"haft"
	"haft/sandbox"
	"haft/sandbox/process"
)

// Run a command by the provider that isolates nothing. It is for development, and it says so.
func ExampleOpen() {
	p, err := process.Open(process.Config{})
	if err != nil {
		fmt.Println(err)
		return
	}
	var out bytes.Buffer
	exit, err := p.Run(context.Background(), sandbox.Spec{
		Argv: []string{"/bin/sh", "-c", "echo hello; exit 3"}, Limits: haft.DefaultLimits(), Stdout: &out,
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	isolation, _ := p.Isolation(context.Background())
	fmt.Print(out.String())
	fmt.Println(exit.Cause, exit.Code, isolation.Level)
	// Output:
	// hello
	// exit 3 none
}
