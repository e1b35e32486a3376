package servers

import (
	"context"

	"haft"
)

// permit reports why an MCP server may not be used any more: it was removed, disabled or
// changed, or policy no longer allows its command with those mounts. The pool calls it for
// every session after a change; [command.Resolver.Place] checks every start.
func (u *Servers) permit(ctx context.Context, s haft.MCPServer) error {
	now, err := u.cfg.Store.MCPServers.MCPServer(ctx, s.Org, s.ID)
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
	rules := u.cfg.Rules()
	if rules == nil {
		return errNotYet()
	}
	if err := rules.CheckServerNetwork(ctx, s); err != nil {
		return err
	}
	if s.Transport != haft.MCPStdio {
		return nil
	}
	return u.cfg.Commands.Permit(ctx, s)
}
