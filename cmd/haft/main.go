// Command haft runs the tools that AI agents call.
//
// It is flags, output and exit codes; package app is the program.
package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime"
	"syscall"

	"github.com/spf13/cobra"

	"haft/sandbox/local"
)

// version is set by the linker.
var version = "dev"

func main() {
	local.Init() // does not return in a process that is a sandbox's init

	ballast := make([]byte, ballastSize)
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := run(ctx, os.Args[1:], streams{os.Stdin, os.Stdout, os.Stderr})
	stop()
	runtime.KeepAlive(ballast)
	os.Exit(code)
}

// ballastSize is memory that is never touched, and so never there. The runtime
// collects garbage when the heap has doubled: with the few megabytes that live in
// it, that is while a short command still starts, and dozens of times a second in
// a server. With this in the heap it waits for as much again.
const ballastSize = 32 << 20

// streams are where a command reads and writes.
type streams struct {
	in       io.Reader
	out, err io.Writer
}

// run runs one command line and returns its exit code.
func run(ctx context.Context, args []string, std streams) int {
	root := newRoot(std)
	root.SetArgs(args)
	err := root.ExecuteContext(ctx)
	if err != nil {
		report(std.err, err)
	}
	return exitCode(err)
}

// newRoot makes the command tree.
func newRoot(std streams) *cobra.Command {
	root := &cobra.Command{
		Use:   "haft",
		Short: "Run the tools that AI agents call: checked, confined, limited, recorded and fast",
		Long: `Haft runs the tools that AI agents call. Give it a Python function, a TypeScript or
shell script: it gives the model a correct schema, and gives you an execution that
is checked, confined, limited and fast.`,
		Example: `  haft schema weather.py                    the schema that a model sees
  haft run weather.py --arg city=Oslo       run it in the sandbox
  haft tool add weather.py                  keep it, with its versions
  haft call forecast --arg city=Oslo        call it: checked, limited, recorded
  haft doctor                               what this machine can promise`,
		Version:       version,
		SilenceErrors: true,
		SilenceUsage:  true,
		Args:          cobra.NoArgs,
		RunE:          func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	root.SetIn(std.in)
	root.SetOut(std.out)
	root.SetErr(std.err)
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return usage(err) })
	root.CompletionOptions.HiddenDefaultCmd = true
	root.AddCommand(schemaCommand(std), runCommand(std), doctorCommand(std), benchCommand(std))
	root.AddCommand(serveCommand(std), mcpCommand(std))
	root.AddCommand(toolCommand(std), callCommand(std), callsCommand(std), approvalsCommand(std))
	root.AddCommand(policyCommand(std), auditCommand(std), agentCommand(std), secretCommand(std))
	root.AddCommand(keyCommand(std), mcpServerCommand(std), envCommand(std))
	return root
}

// report prints an error for a person.
func report(w io.Writer, err error) {
	if msg := errorText(err); msg != "" {
		fmt.Fprintln(w, paint(w, red, "haft:"), safe(w, msg))
		if next := nextStep(err); next != "" {
			fmt.Fprintln(w, paint(w, dim, "  next: "+safe(w, next)))
		}
	}
}
