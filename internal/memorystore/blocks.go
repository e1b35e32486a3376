package memorystore

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"haft"
	"haft/internal/store"
)

// blockPrefix begins the id of every block.
const blockPrefix = "block-"

// blockColumns are those that scanBlock reads.
const blockColumns = "SELECT b.id, b.label, b.value, b.description, b.max_chars, b.read_only, b.version, b.created, " +
	"b.updated FROM "

// scanBlock returns what reads a block of an organisation.
func scanBlock(org string) func(store.Scanner) (haft.Block, error) {
	return func(r store.Scanner) (haft.Block, error) {
		b := haft.Block{Org: org}
		var readOnly, created, updated int64
		err := r.Scan(&b.ID, &b.Label, &b.Value, &b.Description, &b.Limit, &readOnly, &b.Version, &created, &updated)
		b.ReadOnly, b.Created, b.Updated = readOnly != 0, fromMicros(created), fromMicros(updated)
		return b, err
	}
}

// checkBlock reports what is wrong with a block.
func checkBlock(b *haft.Block) error {
	switch {
	case !validLabel(b.Label):
		return invalid("/label", fmt.Sprintf("expected a label of 1 to %d letters, digits, dots, underscores and "+
			"hyphens", maxLabel))
	case b.Limit < 1 || b.Limit > haft.MaxBlockLimit:
		return invalid("/limit", fmt.Sprintf("expected a limit of 1 to %d characters", haft.MaxBlockLimit))
	}
	return cmp.Or(checkText("/value", b.Value, b.Limit), checkText("/description", b.Description, maxDescription))
}

// validLabel reports whether a label is plain: tools and paths of the API name it.
func validLabel(label string) bool {
	return label != "" && len(label) <= maxLabel && strings.Trim(label,
		"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.-") == ""
}

// AddBlock adds a block, and attaches it to agents in the same transaction. A limit of 0 means the default.
func (s *Store) AddBlock(ctx context.Context, b haft.Block, agents ...haft.AgentID) (*haft.Block, error) {
	b.Limit = cmp.Or(b.Limit, haft.DefaultBlockLimit)
	if err := checkBlock(&b); err != nil {
		return nil, err
	}
	b.Created = now()
	b.ID = haft.BlockID(newID(blockPrefix, b.Created))
	return write(ctx, s, "add a block", func(ctx context.Context, t store.Tx) (*haft.Block, error) {
		b.Version = 0
		err := writeBlock(ctx, t, &b)
		for _, agent := range slices.Sorted(slices.Values(agents)) {
			if err == nil {
				err = attach(ctx, t, b.Org, agent, b.ID)
			}
		}
		return &b, err
	})
}

func number(b bool) int64 {
	if b {
		return 1
	}
	return 0
}

// byID selects a block of an organisation.
func byID(org string, id haft.BlockID) store.Query {
	return query(blockColumns+"blocks b WHERE b.id = ? AND b.org = ?", store.Column(string(id)),
		store.Column(org))
}

// Block returns a block, or [haft.CodeNotFound].
func (s *Store) Block(ctx context.Context, org string, id haft.BlockID) (*haft.Block, error) {
	return one(ctx, s, "block", scanBlock(org), byID(org, id))
}

// Blocks lists blocks of an organisation, or of one agent of it if f names one by id.
func (s *Store) Blocks(ctx context.Context, org string, f haft.BlockFilter) ([]haft.Block, error) {
	q := query(blockColumns+"blocks b WHERE b.org = ?", store.Column(org))
	if f.Agent != "" {
		q = query(blockColumns+"agent_blocks a JOIN blocks b ON b.id = a.block WHERE a.agent = ? AND b.org = ?",
			store.Column(f.Agent), store.Column(org))
	}
	if f.Label != "" {
		q.Add(" AND b.label = ?", store.Column(f.Label))
	}
	if f.After != "" { // SQLite makes a new plan for each value that a range begins at
		q.Add(" AND b.id > ?", store.Column(string(f.After)))
	}
	q.Add(" ORDER BY b.id LIMIT ?", page(f.Limit))
	return list(ctx, s, scanBlock(org), q)
}

// AllBlocks returns all blocks of an agent.
func AllBlocks(ctx context.Context, s *Store, org string, agent haft.AgentID) (all []haft.Block, err error) {
	for f := (haft.BlockFilter{Agent: string(agent)}); ; f.After = all[len(all)-1].ID {
		list, err := s.Blocks(ctx, org, f)
		all = append(all, list...)
		if err != nil || len(list) == 0 || len(list) < maxPage && valueBytes(list) < maxRead/2 { // it is the last page
			return all, err
		}
	}
}

// valueBytes is how much the values of blocks have, without what is small.
func valueBytes(list []haft.Block) (n int) {
	for i := range list {
		n += len(list[i].Value) + len(list[i].Description)
	}
	return n
}

// RemoveBlock removes a block from all agents that have it, or returns [haft.CodeNotFound].
func (s *Store) RemoveBlock(ctx context.Context, org string, id haft.BlockID) error {
	return s.db.Write(ctx, "remove a block", func(ctx context.Context, t store.Tx) error {
		b, err := one(ctx, locked{t}, "block", scanBlock(org), byID(org, id))
		if err != nil {
			return err
		}
		if _, err := t.Exec(ctx, "DELETE FROM agent_blocks WHERE block = $1", string(b.ID)); err != nil {
			return err
		}
		_, err = t.Exec(ctx, "DELETE FROM blocks WHERE id = $1", string(b.ID))
		return err
	})
}

// AttachBlock gives a block to an agent. It can be done twice.
func (s *Store) AttachBlock(ctx context.Context, org string, agent haft.AgentID, id haft.BlockID) error {
	return s.db.Write(ctx, "attach a block", func(ctx context.Context, t store.Tx) error {
		return attach(ctx, t, org, agent, id)
	})
}

// attach locks the row of the agent and then the block: others who lock both do it in this order.
func attach(ctx context.Context, t store.Tx, org string, agent haft.AgentID, id haft.BlockID) error {
	if _, err := touch(ctx, t, org, agent, counts{}); err != nil {
		return err
	}
	b, err := one(ctx, locked{t}, "block", scanBlock(org), byID(org, id))
	if err != nil {
		return err
	}
	blocks := map[string]haft.BlockID{} // of the agent by label
	if err := t.Each(ctx, func(r store.Scanner) error {
		var label string
		var id haft.BlockID
		err := r.Scan(&label, &id)
		blocks[label] = id
		return err
	}, "SELECT label, block FROM agent_blocks WHERE agent = $1", string(agent)); err != nil {
		return err
	}
	agents := 0
	if err := t.Each(ctx, func(r store.Scanner) error { return r.Scan(&agents) },
		"SELECT COUNT(*) FROM agent_blocks WHERE block = $1", string(id)); err != nil {
		return err
	}
	switch other, taken := blocks[b.Label]; {
	case other == id:
		return nil
	case taken:
		return conflict("the agent has another block with this label: detach that one first")
	case len(blocks) >= haft.MaxBlocks:
		return conflict(fmt.Sprintf("the agent has %d blocks, which is the most: detach one first", haft.MaxBlocks))
	case agents >= haft.MaxBlockAgents:
		return conflict(fmt.Sprintf("%d agents have this block, which is the most", haft.MaxBlockAgents))
	}
	_, err = t.Exec(ctx, "INSERT INTO agent_blocks (agent, label, block) VALUES ($1, $2, $3)", string(agent), b.Label,
		string(id))
	return err
}

// DetachBlock takes a block from an agent. It can be done twice.
func (s *Store) DetachBlock(ctx context.Context, org string, agent haft.AgentID, id haft.BlockID) error {
	return s.db.Write(ctx, "detach a block", func(ctx context.Context, t store.Tx) error {
		_, err := t.Exec(ctx, "DELETE FROM agent_blocks WHERE agent = $1 AND block IN (SELECT id FROM blocks WHERE id "+
			"= $2 AND org = $3)", store.Column(string(agent)), store.Column(string(id)), store.Column(org))
		return err
	})
}

// BlockAgents lists the agents that have a block.
func (s *Store) BlockAgents(ctx context.Context, org string, id haft.BlockID) ([]haft.AgentID, error) {
	return list(ctx, s, text[haft.AgentID], query("SELECT a.agent FROM agent_blocks a JOIN blocks b ON b.id = a.block "+
		"WHERE a.block = ? AND b.org = ? ORDER BY a.agent", store.Column(string(id)), store.Column(org)))
}
