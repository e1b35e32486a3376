// Command haft runs the tools that AI agents call.
//
// It is flags, output and exit codes; package app is the program. Every command is an entry of a
// table (see command), and works on a system, which is in this process or a server (see system).
package main

import (
	"context"
	"os"
	"os/signal"
	"runtime"
	"runtime/debug"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"haft/internal/cli"
	"haft/internal/exit"
	"haft/internal/sandboxcmd"
	"haft/internal/tooltest"
	"haft/sandbox/local"
)

// version is set by the linker.
var version = "dev"

func main() {
	local.Init() // does not return in a process that is a sandbox's init

	tuneForShortCommand()
	ctx := untilSignal()
	os.Exit(run(ctx, os.Args[1:], cli.Streams{In: os.Stdin, Out: os.Stdout, Err: os.Stderr}))
}

// untilSignal returns a context that the first SIGINT or SIGTERM ends. A second one
// kills the process, unless the command listens for it.
func untilSignal() context.Context {
	ctx, restore := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, restore)
	return ctx
}

// The Go runtime collects garbage when the heap has doubled, or at 4 MB. The heap of Haft is
// small, so that happens while a short command still starts, and dozens of times a second in a
// server.
const (
	// shortPercent lets the heap of a short command grow to 36 MB first.
	shortPercent = 800
	// ballastSize is memory that is never touched, and so never resident: with it the heap of a
	// server grows by that much before a collection.
	ballastSize = 32 << 20
)

// tuneForShortCommand sets the collector for a command that ends soon. $GOGC overrides it.
func tuneForShortCommand() {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(shortPercent)
	}
}

// tuneForServer sets the collector for a command that runs for long, until the function that it
// returns is called. $GOGC overrides it.
func tuneForServer() func() {
	if os.Getenv("GOGC") != "" {
		return func() {}
	}
	ballast := make([]byte, ballastSize)
	debug.SetGCPercent(100)
	return func() { runtime.KeepAlive(ballast) }
}

// run runs one command line and returns its exit code.
func run(ctx context.Context, args []string, std cli.Streams) int {
	root := newRoot(std, strings.Join(args[:min(len(args), 1)], ""))
	root.SetArgs(args)
	cmd, err := root.ExecuteContextC(ctx)
	if err != nil {
		cli.Report(std.Err, err)
		cli.ReportJSON(cmd, std.Out, err)
	}
	return exit.CodeOf(err)
}

// commands lists the commands of haft by their names.
func commands() map[string]func(*cli.Profile) cli.Command {
	return map[string]func(*cli.Profile) cli.Command{
		"schema": schemaCommand, "run": runCommand, "doctor": doctorCommand, "bench": benchCommand,
		"serve": serveCommand, "tool": toolCommand, "call": callCommand, "calls": callsCommand,
		"approvals": approvalsCommand, "policy": policyCommand, "audit": auditCommand, "restore": restoreCommand,
		"backup": backupCommand, "export": exportCommand, "erase": eraseCommand, "agent": agentCommand,
		"file": fileCommand, "session": sessionCommand, "sandbox": sandboxcmd.Command, "workspace": workspaceCommand,
		"secret": secretCommand, "key": keyCommand, "webhook": webhookCommand, "mcp-server": mcpServerCommand,
		"mcp": mcpCommand, "env": envCommand, "chat": chatCommand,
		"logs": logsCommand, "events": eventsCommand, "top": topCommand, "config": configCommand,
		"version": versionCommand, "man": manCommand,
		"dev": devCommand, "init": initCommand, "test": tooltest.Command,
	}
}

// newRoot makes the command tree, or only the branch that the first word of the
// command line names: to declare the flags of all branches takes a millisecond.
func newRoot(std cli.Streams, first string) *cobra.Command {
	root := &cobra.Command{
		Use:   "haft",
		Short: "Run the tools that AI agents call: checked, confined, limited, recorded and fast",
		Long: `Haft runs the tools that AI agents call. Give it a Python function, a TypeScript or
shell script: it gives the model a correct schema, and gives you an execution that
is checked, confined, limited and fast.

` + exit.Help,
		Example: `  haft init tools                           write a small project to begin with
  haft dev tools                            register files when they are saved, and call them
  haft schema weather.py                    the schema that a model sees
  haft run weather.py --arg city=Oslo       run it in the sandbox
  haft tool add weather.py                  keep it, with its versions
  haft call forecast --arg city=Oslo        call it: checked, limited, recorded
  haft doctor                               what this machine can promise`,
		Version:       version,
		SilenceErrors: true,
		SilenceUsage:  true,
		Args:          cli.NoCommand,
		RunE:          func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	root.SetIn(std.In)
	root.SetOut(std.Out)
	root.SetErr(std.Err)
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return cli.FlagError(err) })
	all := commands()
	if one := all[first]; one != nil {
		all = map[string]func(*cli.Profile) cli.Command{first: one}
	}
	root.SetHelpCommand(cli.Help(root))
	for _, describe := range all {
		p := &cli.Profile{Streams: std, Version: version}
		root.AddCommand(describe(p).Build(p)) // shown in alphabetical order
	}
	return root
}
