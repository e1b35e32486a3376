package main

import (
	"cmp"
	"context"
	"os"
	"time"

	"haft"
	"haft/internal/backend"
	"haft/internal/cli"
	"haft/internal/exit"
)

// sessionCommand works in sessions.
func sessionCommand(*cli.Profile) cli.Command {
	var w backend.SessionWork
	return cli.Command{
		Use: "session", Short: "Work in sandboxes that live for many calls",
		Example: `  haft call run_code --args '{"language": "python", "code": "x = 1", "session": "mine"}'
  haft session exec mine -- ls -l
  haft session remove mine`,
		Missing: "see which there are with: haft session list",
		Subs: []cli.Command{
			{Use: "add [NAME]", Short: "Make a session", Run: inSession(&w, w.Add), Flags: []cli.Flag{
				{&w.New.TTL, "ttl", "how long it lives at the most"},
				{&w.New.Idle, "idle", "after how long without use it ends"},
				{&w.New.Language, "language", "the language of a context to start with it"},
				{&w.New.TTY, "tty", "let commands of the session have terminals"},
				{&w.New.Sandbox, "sandbox", "the sandbox it runs in, one of the server's machine"},
				{&w.Workspace, "workspace", "the `NAME[:ro]` of a workspace for it"},
				{&w.Packages, "requirement", "a package it needs, such as requests==2.32.3; may be given again"}}},
			{Use: "list", Short: "List sessions, the oldest first", Run: cli.ListAll(
				backend.EachSession, cli.Listing[haft.Session]{"ID,NAME,OWNER,USED,EXPIRES",
					func(x haft.Session) []any {
						return []any{x.ID, cli.Shaded(x.Name, bold), x.Owner, x.Used.Format(time.DateTime),
							x.Expires.Format(time.DateTime)}
					}, "there are no sessions; a call of run_code with session makes one"})},
			{Use: "remove ID", Old: []string{"end", "rm"}, Short: "End a session, by its id or by its name",
				Run: cli.RemoveOne(func(s cli.System, ctx context.Context, p haft.Principal, id, _ string) error {
					return backend.SessionsOf(s).EndSession(ctx, p, id)
				}, "ended ", "")},
			{Use: "exec NAME COMMAND [ARG…]", Short: "Run a command in a session, with input, and end as it ends",
				Flags: []cli.Flag{{&w.TTY, "tty", "give the command a terminal; what it prints is not made harmless"}},
				Run:   inSession(&w, w.Exec)},
			{Use: "files NAME [PATH]", Short: "List a directory of a session", Run: inSession(&w, w.Files)},
			{Use: "get NAME PATH", Short: "Print a file of a session", Run: inSession(&w, w.Get)},
			{Use: "put NAME FILE [PATH]", Short: "Copy a file into a session", Run: inSession(&w, w.Put)},
		},
	}
}

// inSession does something in a session, with the streams of the command.
func inSession(w *backend.SessionWork, do func(context.Context, cli.System, haft.Principal, []string) (int,
	error)) cli.Work {
	return func(ctx context.Context, s *cli.Session, args []string) error {
		w.In, w.Out, w.Err, w.Show, w.Print = os.Stdin, s.Out, s.Err, safe, s.Print
		code, err := do(ctx, s.System, s.Who, args)
		if err != nil || w.Result == nil {
			return cmp.Or(err, exit.With(code))
		}
		return printCall(s, w.Result, true)
	}
}
