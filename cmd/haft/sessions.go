package main

import (
	"context"
	"time"

	"haft"
	"haft/internal/backend"
)

// sessionCommand lists and ends sessions.
func sessionCommand(*profile) command {
	return command{
		use: "session", short: "List and end the sandboxes that live for many calls",
		example: `  haft call run_code --args '{"language": "python", "code": "x = 1", "session": "mine"}'
  haft call run_code --args '{"language": "python", "code": "x + 1", "session": "mine"}'
  haft session end mine`,
		missing: "see which there are with: haft session list",
		subs: []command{
			{use: "list", short: "List sessions, the oldest first", run: listAll(
				backend.EachSession, listing[haft.Session]{"ID,NAME,OWNER,USED,EXPIRES", func(x haft.Session) []any {
					return []any{x.ID, cell{x.Name, bold}, x.Owner, x.Used.Format(time.DateTime),
						x.Expires.Format(time.DateTime)}
				}, "there are no sessions; a call of run_code with session makes one"})},
			{use: "end ID", short: "End a session, by its id or by its name",
				run: removeOne(func(s system, ctx context.Context, p haft.Principal, id, _ string) error {
					return backend.SessionsOf(s).EndSession(ctx, p, id)
				}, "ended ", "")},
		},
	}
}
