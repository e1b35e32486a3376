package store

import (
	"context"
	"fmt"
	"time"

	"haft"
)

// PutMCPServer adds a server, or replaces the one of that name in its organisation
// if that is what If says, and else returns [haft.CodeConflict]. That one keeps its
// id and the time of its creation. It returns what is kept. What is secret of a
// server is in own, and written in the same transaction: both are or neither is.
func (s *Store) PutMCPServer(ctx context.Context, m haft.MCPServer, own OwnSecrets) (*haft.MCPServer, error) {
	if m.Org == "" {
		return nil, invalid("a server belongs to an organisation")
	}
	if err := need("the name of the server", m.Name); err != nil {
		return nil, err
	}
	if m.ID == "" {
		m.ID = newID("mcp_")
	}
	if err := need("the id of the server", m.ID); err != nil {
		return nil, err
	}
	if err := own.check(m.Org, m.ID); err != nil {
		return nil, err
	}
	condition, id := m.If, m.ID
	m.If = ""
	err := s.write(ctx, func(ctx context.Context, t *tx) error {
		old, err := locked[haft.MCPServer](ctx, t, "SELECT doc FROM mcp_servers WHERE org = $1 AND name = $2",
			column(m.Org), m.Name)
		if err != nil {
			return err
		}
		kept, before := "", time.Time{}
		if old != nil {
			kept, before = old.Revision(), old.Updated
			m.ID, m.Created = old.ID, old.Created
		}
		if err := holds(condition, kept); err != nil {
			return err
		}
		if own.Kind != "" {
			if m.ID != id {
				return conflict("somebody else made this server at the same time; try again")
			}
			if err := t.putOwn(ctx, m.Org, m.ID, &own); err != nil {
				return err
			}
			if err := dropSecrets(ctx, t, m.Org, m.ID, own.Drop); err != nil {
				return err
			}
		}
		if m.Updated = stamp(time.Time{}, before); m.Created.IsZero() {
			m.Created = m.Updated
		}
		doc, err := serverDoc(m)
		if err != nil {
			return err
		}
		n, err := t.exec(ctx, "INSERT INTO mcp_servers (id, org, name, doc) VALUES ($1, $2, $3, $4) ON CONFLICT "+
			"(id) DO UPDATE SET doc = excluded.doc WHERE mcp_servers.org = excluded.org AND mcp_servers.name = "+
			"excluded.name",
			m.ID, column(m.Org), m.Name, doc)
		if err == nil && n == 0 {
			return conflict("another server has that id")
		}
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("keep the server: %w", err)
	}
	return &m, nil
}

// serverDoc is what is kept of a server.
func serverDoc(m haft.MCPServer) (string, error) {
	doc, err := encode(m)
	if err == nil && len(doc) > MaxText {
		return "", invalid("the server has %d bytes, %d is the most", len(doc), MaxText)
	}
	return doc, err
}

// SetMCPServer changes a server that is there, in one transaction, and returns
// what is kept. Its organisation, id, name and revision stay: it is for what
// becomes of a server without anybody's doing. It returns [haft.CodeNotFound] if it
// is gone.
func (s *Store) SetMCPServer(ctx context.Context, org, id string,
	change func(*haft.MCPServer) error) (*haft.MCPServer, error) {
	var m haft.MCPServer
	err := s.write(ctx, func(ctx context.Context, t *tx) error {
		now, err := t.mcpServer(ctx, org, id, "")
		if err != nil {
			return err
		}
		m = *now
		if err := change(&m); err != nil {
			return err
		}
		m.Org, m.ID, m.Name, m.Updated = org, id, now.Name, now.Updated
		doc, err := serverDoc(m)
		if err != nil {
			return err
		}
		_, err = t.exec(ctx, "UPDATE mcp_servers SET doc = $3 WHERE org = $1 AND id = $2", column(org), column(id), doc)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("change the server: %w", err)
	}
	return &m, nil
}

// mcpServer returns a server that nobody else changes before the end, if it is what
// the condition says.
func (t *tx) mcpServer(ctx context.Context, org, id, condition string) (*haft.MCPServer, error) {
	now, err := locked[haft.MCPServer](ctx, t, "SELECT doc FROM mcp_servers WHERE org = $1 AND id = $2", column(org),
		column(id))
	if err != nil {
		return nil, err
	}
	if now == nil {
		return nil, notFound("server")
	}
	return now, holds(condition, now.Revision())
}

// MCPServer returns the server of that id or name, or [haft.CodeNotFound].
func (s *Store) MCPServer(ctx context.Context, org, ref string) (*haft.MCPServer, error) {
	list, err := docs[haft.MCPServer](ctx, s, "SELECT doc FROM mcp_servers WHERE org = $1 AND (id = $2 OR name = $2)",
		column(org), column(ref))
	switch {
	case err != nil:
		return nil, fmt.Errorf("find the server: %w", err)
	case len(list) == 0:
		return nil, notFound("server")
	case len(list) == 2 && list[1].ID == ref: // an id is nobody else's name
		return &list[1], nil
	}
	return &list[0], nil
}

// MCPServers lists the servers of an organisation by name, after that name.
func (s *Store) MCPServers(ctx context.Context, org, after string, limit int) ([]haft.MCPServer, error) {
	list, err := docs[haft.MCPServer](ctx, s, "SELECT doc FROM mcp_servers WHERE org = $1 AND name > $2 ORDER BY "+
		"name LIMIT $3", column(org), column(after), page(limit))
	if err != nil {
		return nil, fmt.Errorf("list servers: %w", err)
	}
	return list, nil
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
func (s *Store) RemoveMCPServer(ctx context.Context, org, id, condition string, parts ServerParts) error {
	err := s.write(ctx, func(ctx context.Context, t *tx) error {
		if _, err := t.mcpServer(ctx, org, id, condition); err != nil {
			return err
		}
		for _, tool := range parts.Tools {
			if err := t.removeTool(ctx, org, tool); err != nil && haft.CodeOf(err) != haft.CodeNotFound {
				return err
			}
		}
		if err := dropSecrets(ctx, t, org, id, parts.Kinds); err != nil {
			return err
		}
		_, err := t.exec(ctx, "DELETE FROM mcp_servers WHERE org = $1 AND id = $2", column(org), column(id))
		return err
	})
	if err != nil {
		return fmt.Errorf("remove the server: %w", err)
	}
	return nil
}

// dropSecrets removes the secrets of these kinds in the scope of a server and below it.
func dropSecrets(ctx context.Context, t *tx, org, id string, kinds []string) error {
	secrets := int64(0)
	for _, kind := range kinds {
		// 0 is what follows the slash.
		n, err := t.exec(ctx,
			"DELETE FROM secrets WHERE org = $1 AND kind = $2 AND (scope = $3 OR scope >= $4 AND scope < $5)",
			column(org), column(kind), column(id), column(id+"/"), column(id+"0"))
		if err != nil {
			return err
		}
		secrets += n
	}
	if secrets == 0 {
		return nil
	}
	return markSecrets(ctx, t, org)
}
