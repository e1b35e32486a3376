package local_test

import (
	"context"
	"fmt"
	"os"

	"haft"
	"haft/sandbox"
	"haft/sandbox/local"
)

// Run a command in namespaces of its own. A program that uses this package calls [local.Init] first in
// main: the sandbox starts the program again as its supervisor. The example has no output because it
// needs a kernel that allows namespaces.
func ExampleOpen() {
	local.Init()
	p, err := local.Open(context.Background(), local.Config{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer p.Close()
	exit, err := p.Run(context.Background(), sandbox.Spec{
		Argv: []string{"/bin/echo", "hello"}, Limits: haft.DefaultLimits(), Stdout: os.Stdout,
		Need: sandbox.Need{Level: haft.LevelNamespaces},
		Mounts: []sandbox.Mount{{Host: "/bin", Inside: "/bin"}, {Host: "/lib", Inside: "/lib"},
			{Host: "/lib64", Inside: "/lib64"}},
	})
	fmt.Println(exit.Cause, exit.Code, err)
}
