package main

import (
	"context"
	"os"
	"time"

	"haft"
	"haft/internal/backend"
	"haft/internal/exit"
)

// sessionCommand works in sessions.
func sessionCommand(*profile) command {
	var w backend.SessionWork
	return command{
		use: "session", short: "Work in sandboxes that live for many calls",
		example: `  haft call run_code --args '{"language": "python", "code": "x = 1", "session": "mine"}'
  haft session exec mine -- ls -l
  haft session end mine`,
		missing: "see which there are with: haft session list",
		subs: []command{
			{use: "add [NAME]", short: "Make a session", run: inSession(&w, w.Add), flags: []flag{
				{&w.New.TTL, "ttl", "how long it lives at the most"},
				{&w.New.Idle, "idle", "after how long without use it ends"},
				{&w.New.Language, "language", "the language of a context to start with it"},
				{&w.New.TTY, "tty", "let commands of the session have terminals"}}},
			{use: "list", short: "List sessions, the oldest first", run: listAll(
				backend.EachSession, listing[haft.Session]{"ID,NAME,OWNER,USED,EXPIRES", func(x haft.Session) []any {
					return []any{x.ID, cell{x.Name, bold}, x.Owner, x.Used.Format(time.DateTime),
						x.Expires.Format(time.DateTime)}
				}, "there are no sessions; a call of run_code with session makes one"})},
			{use: "end ID", short: "End a session, by its id or by its name",
				run: removeOne(func(s system, ctx context.Context, p haft.Principal, id, _ string) error {
					return backend.SessionsOf(s).EndSession(ctx, p, id)
				}, "ended ", "")},
			{use: "exec NAME COMMAND [ARG…]", short: "Run a command in a session, with input, and end as it ends",
				flags: []flag{{&w.TTY, "tty", "give the command a terminal; what it prints is not made harmless"}},
				run:   inSession(&w, w.Exec)},
			{use: "files NAME [PATH]", short: "List a directory of a session", run: inSession(&w, w.Files)},
			{use: "get NAME PATH", short: "Print a file of a session", run: inSession(&w, w.Get)},
			{use: "put NAME FILE [PATH]", short: "Copy a file into a session", run: inSession(&w, w.Put)},
		},
	}
}

// inSession does something in a session, with the streams of the command.
func inSession(w *backend.SessionWork, do func(context.Context, system, haft.Principal, []string) (int, error)) work {
	return func(ctx context.Context, s *session, args []string) error {
		w.In, w.Out, w.Err, w.Show, w.Print = os.Stdin, s.out, s.err, safe, s.print
		code, err := do(ctx, s.system, s.p, args)
		if err == nil && w.Result != nil {
			return s.printCall(w.Result, true)
		}
		if err == nil {
			err = exit.With(code)
		}
		return err
	}
}
