package store

import (
	"context"
	"time"

	"haft"
)

var mcpServers = &named[haft.MCPServer]{
	what: "server", table: "mcp_servers", key: "name",
	head: func(m *haft.MCPServer) head { return head{m.ID, m.Org, m.Name, m.If, m.Created, m.Updated} },
	setHead: func(m *haft.MCPServer, h head) {
		m.ID, m.Org, m.Name, m.If, m.Created, m.Updated = h.id, h.org, h.name, h.condition, h.created, h.updated
	},
}

// PutMCPServer adds a server, or replaces the one of that name in its organisation
// if that is what If says, and else returns [haft.CodeConflict]. That one keeps its
// id and the time of its creation. It returns what is kept. What is secret of a
// server is in own, and written in the same transaction: both are or neither is.
func (s MCPServers) PutMCPServer(ctx context.Context, m haft.MCPServer, own OwnSecrets) (*haft.MCPServer, error) {
	if m.ID == "" {
		m.ID = newID("mcp_")
	}
	var also func(context.Context, *tx, string) error
	if own.Kind != "" {
		var err error
		if also, err = own.write(m.Org, m.ID, "server"); err != nil {
			return nil, err
		}
	}
	m.Updated = time.Time{}
	return mcpServers.put(ctx, s.db, m, also)
}

// SetMCPServer changes a server that is there, in one transaction, and returns
// what is kept. Its organisation, id, name and revision stay: it is for what
// becomes of a server without anybody's doing. It returns [haft.CodeNotFound] if it
// is gone.
func (s MCPServers) SetMCPServer(ctx context.Context, org, id string,
	change func(*haft.MCPServer) error) (*haft.MCPServer, error) {
	var m haft.MCPServer
	err := s.db.write(ctx, "change the server", func(ctx context.Context, t *tx) error {
		now, err := mcpServers.lock(ctx, t, org, id, "")
		if err != nil {
			return err
		}
		m = *now
		if err := change(&m); err != nil {
			return err
		}
		m.Org, m.ID, m.Name, m.Updated = org, id, now.Name, now.Updated
		doc, err := encodeText("the server", m)
		if err != nil {
			return err
		}
		_, err = t.exec(ctx, "UPDATE mcp_servers SET doc = $3 WHERE org = $1 AND id = $2", column(org), column(id), doc)
		return err
	})
	if err != nil {
		return nil, err
	}
	return &m, nil
}

// MCPServer returns the server of that id or name, or [haft.CodeNotFound].
func (s MCPServers) MCPServer(ctx context.Context, org, ref string) (*haft.MCPServer, error) {
	return mcpServers.byRef(ctx, s.db, org, ref)
}

// MCPServers lists the servers of an organisation by name, after that name.
func (s MCPServers) MCPServers(ctx context.Context, org, after string, limit int) ([]haft.MCPServer, error) {
	return mcpServers.list(ctx, s.db, org, after, limit)
}

// ServerParts are what goes with a server.
type ServerParts struct {
	// Tools are its tools.
	Tools []haft.ToolID
	// Kinds are those of the scopes of its secrets. The id of such a scope is that of
	// the server, or begins with it and a slash.
	Kinds []string
}

// RemoveMCPServer removes the server of that id with its parts, or returns
// [haft.CodeNotFound], or [haft.CodeConflict] if its revision is not the one of the
// condition. All of it is removed or nothing is. A tool that is gone already is no
// error.
func (s MCPServers) RemoveMCPServer(ctx context.Context, org, id, condition string, parts ServerParts) error {
	return s.db.write(ctx, "remove the server", func(ctx context.Context, t *tx) error {
		if err := mcpServers.remove(ctx, t, org, id, condition); err != nil {
			return err
		}
		for _, tool := range parts.Tools {
			if err := removeTool(ctx, t, org, tool); err != nil && haft.CodeOf(err) != haft.CodeNotFound {
				return err
			}
		}
		n, err := t.dropSecrets(ctx, org, id, parts.Kinds)
		if err != nil || n == 0 {
			return err
		}
		return t.markSecrets(ctx, org)
	})
}

// dropSecrets removes the secrets of these kinds in the scope of a server and below it, and
// returns how many.
func (t *tx) dropSecrets(ctx context.Context, org, id string, kinds []string) (all int64, err error) {
	for _, kind := range kinds {
		// 0 is what follows the slash.
		n, err := t.exec(ctx,
			"DELETE FROM secrets WHERE org = $1 AND kind = $2 AND (scope = $3 OR scope >= $4 AND scope < $5)",
			column(org), column(kind), column(id), column(id+"/"), column(id+"0"))
		if err != nil {
			return 0, err
		}
		all += n
	}
	return all, nil
}
