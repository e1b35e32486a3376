package app

import (
	"context"

	"haft"
)

// permit reports why an MCP server may not be used any more as it was: it was removed,
// disabled or changed, or it is a command that policy does not let its organisation run
// with those directories. The pool asks it about every session whenever something has
// changed; [upstreams.place] decides about every start.
func (u *upstreams) permit(ctx context.Context, s haft.MCPServer) error {
	now, err := u.service.Store.MCPServer(ctx, s.Org, s.ID)
	switch {
	case haft.CodeOf(err) == haft.CodeNotFound:
		return &haft.Error{Code: haft.CodeDenied, Message: "the server was removed"}
	case err != nil:
		return err
	case now.Disabled:
		return &haft.Error{Code: haft.CodeDenied, Message: "the server was disabled"}
	case now.Revision() != s.Revision():
		return &haft.Error{Code: haft.CodeDenied, Message: "the server was changed"}
	}
	if err := u.service.Engine.CheckServerNetwork(ctx, s); err != nil {
		return err
	}
	if s.Transport != haft.MCPStdio {
		return nil
	}
	h, err := u.hostFiles(ctx, s.Org)
	if err != nil {
		return err
	}
	defer h.Close()
	if err := h.rules.MayRun(s.Org, s.Command[0]); err != nil {
		return err
	}
	for _, m := range s.Mounts {
		// What was mounted was opened by this path, which had no link in it.
		if err := h.rules.MayMount(s.Org, m.Dir); err != nil {
			return aboutMount(m, err)
		}
	}
	return nil
}
