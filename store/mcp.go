package store

import (
	"context"
	"fmt"
	"time"

	"haft"
)

// PutMCPServer adds a server, or replaces the one of that name in its
// organisation, which keeps its id and the time of its creation. It returns what
// is kept. What is secret of a server is not for here.
func (s *Store) PutMCPServer(ctx context.Context, m haft.MCPServer) (*haft.MCPServer, error) {
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
	m.Updated = time.Now().UTC().Truncate(time.Microsecond)
	if m.Created.IsZero() {
		m.Created = m.Updated
	}
	err := s.write(ctx, func(ctx context.Context, t *tx) error {
		rows, err := t.query(ctx, "SELECT doc FROM mcp_servers WHERE org = $1 AND name = $2", column(m.Org), m.Name)
		if err != nil {
			return err
		}
		var old haft.MCPServer
		if err := each(rows, func(r scanner) error {
			var doc string
			if err := r.Scan(&doc); err != nil {
				return err
			}
			return decode(doc, &old)
		}); err != nil {
			return err
		}
		if old.ID != "" {
			m.ID, m.Created = old.ID, old.Created
		}
		doc, err := encode(m)
		if err != nil {
			return err
		}
		if len(doc) > MaxText {
			return invalid("the server has %d bytes, %d is the most", len(doc), MaxText)
		}
		n, err := t.exec(ctx, "INSERT INTO mcp_servers (id, org, name, doc) VALUES ($1, $2, $3, $4) ON CONFLICT (id) DO UPDATE SET doc = excluded.doc WHERE mcp_servers.org = excluded.org AND mcp_servers.name = excluded.name",
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

// SetMCPServer changes a server that is there, in one transaction, and returns
// what is kept. Its organisation, id and name stay. It returns
// [haft.CodeNotFound] if it is gone.
func (s *Store) SetMCPServer(ctx context.Context, org, id string, change func(*haft.MCPServer) error) (*haft.MCPServer, error) {
	var m haft.MCPServer
	err := s.write(ctx, func(ctx context.Context, t *tx) error {
		rows, err := t.query(ctx, "SELECT doc FROM mcp_servers WHERE org = $1 AND id = $2", column(org), column(id))
		if err != nil {
			return err
		}
		m = haft.MCPServer{}
		if err := each(rows, func(r scanner) error {
			var doc string
			if err := r.Scan(&doc); err != nil {
				return err
			}
			return decode(doc, &m)
		}); err != nil {
			return err
		}
		if m.ID == "" {
			return notFound("server")
		}
		name := m.Name
		if err := change(&m); err != nil {
			return err
		}
		m.Org, m.ID, m.Name = org, id, name
		doc, err := encode(m)
		if err != nil {
			return err
		}
		if len(doc) > MaxText {
			return invalid("the server has %d bytes, %d is the most", len(doc), MaxText)
		}
		_, err = t.exec(ctx, "UPDATE mcp_servers SET doc = $3 WHERE org = $1 AND id = $2", column(org), column(id), doc)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("change the server: %w", err)
	}
	return &m, nil
}

// MCPServer returns the server of that id or name, or [haft.CodeNotFound].
func (s *Store) MCPServer(ctx context.Context, org, ref string) (*haft.MCPServer, error) {
	list, err := docs[haft.MCPServer](ctx, s, "SELECT doc FROM mcp_servers WHERE org = $1 AND (id = $2 OR name = $2)", column(org), column(ref))
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
	list, err := docs[haft.MCPServer](ctx, s, "SELECT doc FROM mcp_servers WHERE org = $1 AND name > $2 ORDER BY name LIMIT $3", column(org), column(after), page(limit))
	if err != nil {
		return nil, fmt.Errorf("list servers: %w", err)
	}
	return list, nil
}

// RemoveMCPServer removes the server of that id or name, or returns
// [haft.CodeNotFound]. Its tools are not for here.
func (s *Store) RemoveMCPServer(ctx context.Context, org, ref string) error {
	m, err := s.MCPServer(ctx, org, ref)
	if err != nil {
		return err
	}
	err = s.write(ctx, func(ctx context.Context, t *tx) error {
		n, err := t.exec(ctx, "DELETE FROM mcp_servers WHERE org = $1 AND id = $2", column(org), m.ID)
		if err == nil && n == 0 {
			return notFound("server")
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("remove the server: %w", err)
	}
	return nil
}
