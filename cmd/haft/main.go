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
	"syscall"

	"github.com/spf13/cobra"

	"haft"
	"haft/sandbox/local"
)

// version is set by the linker.
var version = "dev"

func main() {
	local.Init() // does not return in a process that is a sandbox's init

	short()
	ctx := untilSignal()
	os.Exit(run(ctx, os.Args[1:], streams{os.Stdin, os.Stdout, os.Stderr}))
}

// untilSignal returns a context that the first SIGINT or SIGTERM ends. A second one
// kills the process, unless the command listens for it.
func untilSignal() context.Context {
	ctx, restore := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, restore)
	return ctx
}

// streams are where a command reads and writes.
type streams struct {
	in       io.Reader
	out, err io.Writer
}

// run runs one command line and returns its exit code.
func run(ctx context.Context, args []string, std streams) int {
	var first string
	if len(args) > 0 {
		first = args[0]
	}
	root := newRoot(std, first)
	root.SetArgs(args)
	cmd, err := root.ExecuteContextC(ctx)
	if err != nil {
		report(std.err, err)
		reportJSON(cmd, std.out, err)
	}
	return exitCode(err)
}

// commands are what haft can do.
func commands() map[string]func(streams) *cobra.Command {
	return map[string]func(streams) *cobra.Command{
		"schema": schemaCommand, "run": runCommand, "doctor": doctorCommand, "bench": benchCommand,
		"serve": serveCommand,
		"tool":  toolCommand, "call": callCommand, "calls": callsCommand, "approvals": approvalsCommand,
		"policy": policyCommand, "audit": auditCommand, "restore": restoreCommand, "backup": backupCommand,
		"export": exportCommand, "erase": eraseCommand, "agent": agentCommand, "secret": secretCommand,
		"key": keyCommand, "webhook": webhookCommand, "mcp-server": mcpServerCommand, "mcp": mcpCommand,
		"env": envCommand,
	}
}

// newRoot makes the command tree, or only the branch that the first word of the
// command line names: all their flags take a millisecond.
func newRoot(std streams, first string) *cobra.Command {
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
	all := commands()
	if one := all[first]; one != nil {
		root.AddCommand(one(std))
		return root
	}
	for _, c := range all {
		root.AddCommand(c(std)) // shown in alphabetical order
	}
	return root
}

// reportJSON prints an error in the form of the HTTP API if the command was asked for
// JSON: a script that reads its output must not find none.
func reportJSON(cmd *cobra.Command, w io.Writer, err error) {
	msg := errorText(err)
	if asked, flagErr := cmd.Flags().GetBool("json"); flagErr != nil || !asked || msg == "" {
		return
	}
	body := map[string]string{"code": string(haft.CodeOf(err)), "message": msg}
	if next := nextStep(err); next != "" {
		body["next"] = next
	}
	_ = printJSON(w, map[string]any{"error": body}) // stderr has it too
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
