package builtin

import (
	"context"
	"fmt"
	"maps"
	"sync"

	"haft"
	"haft/executor"
	"haft/internal/session"
)

// Bounds on what run_command takes.
const (
	maxCommandArgs = 1024
	maxCommandEnv  = 256
)

// commandIn are the arguments of run_command.
type commandIn struct {
	Session string            `json:"session" jsonschema:"the name of a session, which is made if there is none: files and what the command leaves running stay until it was not used for a while"`
	Command string            `json:"command,omitempty" jsonschema:"a command line for Bash"`
	Argv    []string          `json:"argv,omitempty" jsonschema:"in place of command: a program and its arguments, without a shell; an empty list runs nothing, and only makes the session"`
	Cwd     string            `json:"cwd,omitempty" jsonschema:"the working directory; /work if it is left out"`
	Env     map[string]string `json:"env,omitempty" jsonschema:"added to its environment"`
	Stdin   string            `json:"stdin,omitempty" jsonschema:"what it reads from its standard input"`
	Input   bool              `json:"input,omitempty" jsonschema:"true if the caller sends it input while it runs"`
	TTY     bool              `json:"tty,omitempty" jsonschema:"true gives it a terminal, which takes input; the session must be made with it"`
	Timeout float64           `json:"timeout_seconds,omitempty" jsonschema:"after how many seconds to stop it, within what the caller is allowed"`
}

// commandStarted is the progress that run_command reports when its command runs. From then on it
// takes input.
type commandStarted struct {
	PID   int  `json:"pid"`
	Input bool `json:"input"`
}

// RunCommand adds the tool run_command, which runs programs in sessions.
func RunCommand(s *Set, sessions Sessions) error {
	r := codeRunner{cfg: CodeConfig{Sessions: sessions}}
	no := false
	return AddRaw[commandIn, codeOut](s, Def{
		Name: "run_command", Version: "1", Category: "code", Tags: []string{"code", "bash", "shell"}, RunsCode: true,
		Description: "Runs a command in a session, which is a sandbox with its own files, and returns what it " +
			"prints, its exit code and the files that it leaves in the directory out. Processes that it leaves " +
			"running stay until the session ends. There is no network unless the operator allows it.",
		Annotations: haft.Annotations{Title: "Run a command", ReadOnly: &no},
		Settings:    haft.Settings{Parallel: true, Output: haft.Output{MaxChars: 2 * haft.DefaultMaxChars}},
	}, r.command)
}

// command is run_command.
func (r codeRunner) command(ctx context.Context, req executor.Request, in commandIn) (*haft.Result, error) {
	if err := in.check(); err != nil {
		return invalid(err)
	}
	argv := in.Argv
	if in.Command != "" {
		argv = []string{"bash", "-c", in.Command}
	}
	env := map[string]string{}
	if in.TTY {
		env["TERM"] = "xterm-256color"
	}
	maps.Copy(env, in.Env)
	maps.Copy(env, req.Env) // it has the id of the call
	cmd := session.Command{Argv: argv, Env: env, Dir: in.Cwd, Stdin: in.Input || in.Stdin != ""}
	if in.TTY {
		cmd.Terminal = &session.Size{Rows: 24, Cols: 80}
	}
	req.Terminals = in.TTY
	return r.work(ctx, req, sessionUse{session: in.Session, timeout: in.Timeout},
		func(ctx context.Context, s *session.Session, run *sessionRun) (func() codeOut, error) {
			if in.runsNothing() {
				return func() codeOut { return run.exited(0) }, nil
			}
			cmd.Stdout, cmd.Stderr = run.print(req)
			code, ran, err := r.start(ctx, req, s, cmd, in)
			if !ran && ctx.Err() == nil && s.Why() == nil && haft.CodeOf(err) != haft.CodeInternal {
				out := codeOut{}
				out.failed(codeError{Kind: haft.FailExit, Message: "it cannot be started: " + haft.MessageOf(err)})
				return func() codeOut { return out }, nil
			}
			if !ran {
				return nil, err
			}
			return func() codeOut { return run.exited(code) }, err
		})
}

// start starts a command, and waits for it. It reports whether it ran.
func (r codeRunner) start(ctx context.Context, req executor.Request, s *session.Session, cmd session.Command,
	in commandIn) (code int, ran bool, err error) {
	p, err := s.Start(ctx, cmd)
	if err != nil {
		return 0, false, err
	}
	takes := in.Input || in.TTY
	defer r.cfg.Sessions.Attach(req.Call, p, takes)() // without input it still takes signals
	if req.Progress != nil {
		if b, err := executor.EncodeJSON(commandStarted{p.PID, takes}); err == nil {
			req.Progress(b)
		}
	}
	feeding, stop := context.WithCancel(ctx)
	var feeder sync.WaitGroup
	defer feeder.Wait()
	defer stop()
	if in.Stdin != "" {
		feeder.Go(func() {
			// A command that has ended, or does not read, lacks nothing.
			if err := p.Write(feeding, []byte(in.Stdin)); err == nil && !takes {
				_ = p.CloseInput()
			}
		})
	}
	code, err = p.Wait(ctx)
	return code, true, err
}

// check checks the arguments.
func (in commandIn) check() error {
	bad := func(format string, args ...any) error {
		return &haft.Error{Code: haft.CodeInvalid, Message: fmt.Sprintf(format, args...)}
	}
	size := len(in.Command)
	for _, a := range in.Argv {
		size += len(a)
	}
	for k, v := range in.Env {
		size += len(k) + len(v)
	}
	switch {
	case (in.Command == "") == (in.Argv == nil):
		return bad("give either command or argv")
	case in.runsNothing() && (in.Stdin != "" || in.Input):
		return bad("an empty argv runs nothing that could read input")
	case size > maxCode || len(in.Argv) > maxCommandArgs || len(in.Env) > maxCommandEnv:
		return bad("the command has more than %d bytes, %d arguments or %d variables", maxCode, maxCommandArgs,
			maxCommandEnv)
	case len(in.Stdin) > maxFileBytes:
		return bad("the input is %d bytes large, %d is the most", len(in.Stdin), maxFileBytes)
	case !(in.Timeout >= 0 && in.Timeout <= maxTimeout):
		return bad("timeout_seconds is more than 0 and at most %d", maxTimeout)
	}
	return session.CheckEnv(in.Env)
}

// runsNothing reports whether only the session is wanted.
func (in commandIn) runsNothing() bool { return in.Command == "" && len(in.Argv) == 0 }

// exited says what became of a command.
func (r *sessionRun) exited(code int) codeOut {
	out := codeOut{Status: haft.StatusSuccess}
	out.Stdout = out.shown("stdout", r.res.Stdout, shownStdout, r.res.Truncated.Stdout)
	out.Stderr = out.shown("stderr", r.res.Stderr, shownStderr, r.res.Truncated.Stderr)
	if code >= 0 {
		out.exited(code)
	} else {
		out.failed(codeError{Kind: haft.FailExit, Message: fmt.Sprintf("it was ended by signal %d", -code)})
	}
	return out
}
