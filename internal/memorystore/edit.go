package memorystore

import (
	"context"
	"fmt"
	"slices"

	"haft"
	"haft/internal/store"
)

// ChangeBlock changes a block for somebody who manages it: one that is read-only too. It returns
// [haft.CodeConflict] if the version is not the one that the change replaces.
func (s *Store) ChangeBlock(ctx context.Context, org string, id haft.BlockID, c haft.BlockChange) (*haft.Block, error) {
	return write(ctx, s, "change a block", func(ctx context.Context, t store.Tx) (*haft.Block, error) {
		kept, err := one(ctx, locked{t}, "block", scanBlock(org), byID(org, id))
		if err != nil {
			return nil, err
		}
		if c.Version != 0 && c.Version != kept.Version {
			return nil, conflict("the block was changed by somebody else: read it again first")
		}
		was := *kept
		set(&kept.Label, c.Label)
		set(&kept.Value, c.Value)
		set(&kept.Description, c.Description)
		set(&kept.Limit, c.Limit)
		set(&kept.ReadOnly, c.ReadOnly)
		if err := checkBlock(kept); err != nil || *kept == was {
			return kept, err
		}
		if kept.Label != was.Label {
			if err := relabel(ctx, t, kept); err != nil {
				return nil, err
			}
		}
		return kept, writeBlock(ctx, t, kept)
	})
}

// set sets a field that a change has.
func set[T any](field, to *T) {
	if to != nil {
		*field = *to
	}
}

// relabel renames a block for the agents that have it, unless one of them has another block of that label.
func relabel(ctx context.Context, t store.Tx, b *haft.Block) error {
	taken := 0
	if err := t.Each(ctx, func(r store.Scanner) error { return r.Scan(&taken) }, "SELECT COUNT(*) FROM agent_blocks "+
		"WHERE label = $1 AND agent IN (SELECT agent FROM agent_blocks WHERE block = $2)", b.Label,
		string(b.ID)); err != nil {
		return err
	}
	if taken > 0 {
		return conflict(fmt.Sprintf("%d agents that have this block have another one with this label", taken))
	}
	_, err := t.Exec(ctx, "UPDATE agent_blocks SET label = $1 WHERE block = $2", b.Label, string(b.ID))
	return err
}

// writeBlock writes a block that is new or locked.
func writeBlock(ctx context.Context, t store.Tx, b *haft.Block) error {
	b.Version++
	b.Updated = now()
	_, err := t.Exec(ctx, `INSERT INTO blocks (id, org, label, value, description, max_chars, read_only, version, created,
		updated) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10) ON CONFLICT (id) DO UPDATE SET label = excluded.label,
		value = excluded.value, description = excluded.description, max_chars = excluded.max_chars,
		read_only = excluded.read_only, version = excluded.version, updated = excluded.updated`,
		string(b.ID), store.Column(b.Org), b.Label, b.Value, b.Description, b.Limit, number(b.ReadOnly), b.Version,
		b.Created.UnixMicro(), b.Updated.UnixMicro())
	return err
}

// EditBlock has edit make the next value of the block that an agent calls label, for a tool: one that is read-only is
// [haft.CodeDenied]. Nobody else changes the block meanwhile, so that no change is lost.
//
// edit must not use the database, has to be quick, and may be called more than once.
func (s *Store) EditBlock(ctx context.Context, org string, agent haft.AgentID, label string,
	edit func(haft.Block) (string, error)) (*haft.Block, error) {
	edited, err := s.EditBlocks(ctx, org, agent, []string{label}, func(b []haft.Block) ([]string, error) {
		value, err := edit(b[0])
		return []string{value}, err
	})
	if err != nil {
		return nil, err
	}
	return &edited[0], nil
}

// EditBlocks is [Store.EditBlock] for several blocks at once: all are changed or none. edit gets the blocks, and
// returns their values, in the order of labels.
func (s *Store) EditBlocks(ctx context.Context, org string, agent haft.AgentID, labels []string,
	edit func([]haft.Block) ([]string, error)) ([]haft.Block, error) {
	distinct := slices.Compact(slices.Sorted(slices.Values(labels)))
	if n := len(labels); n == 0 || n > haft.MaxBlocks || len(distinct) != n {
		return nil, invalid("/labels", fmt.Sprintf("expected 1 to %d different labels", haft.MaxBlocks))
	}
	return write(ctx, s, "edit blocks", func(ctx context.Context, t store.Tx) ([]haft.Block, error) {
		// All who lock several blocks do it in the order of their ids, and each block before its attachment.
		q := query(blockColumns+"blocks b JOIN agent_blocks a ON a.block = b.id WHERE a.agent = ? AND b.org = ? AND "+
			"a.label IN ", store.Column(string(agent)), store.Column(org))
		q.In(anys(labels, store.Column))
		q.Add(" ORDER BY b.id")
		found, cut, err := some(ctx, locked{t}, scanBlock(org), q)
		if err == nil && cut {
			err = invalid("/labels", fmt.Sprintf("expected blocks of less than %d bytes together", maxRead))
		}
		if err != nil {
			return nil, err
		}
		var edited []haft.Block
		for _, label := range labels {
			i := slices.IndexFunc(found, func(b haft.Block) bool { return b.Label == label })
			if i < 0 {
				return nil, missing("block: the agent has none with this label")
			}
			edited = append(edited, found[i])
		}
		values, err := edit(slices.Clone(edited))
		if err == nil && len(values) != len(edited) {
			err = fmt.Errorf("%d values are given for %d blocks", len(values), len(edited))
		}
		if err == nil {
			err = writeValues(ctx, t, edited, values)
		}
		return edited, err
	})
}

// writeValues writes the values of blocks that differ from what they are.
func writeValues(ctx context.Context, t store.Tx, blocks []haft.Block, values []string) error {
	for i := range blocks {
		b := &blocks[i]
		if b.Value == values[i] {
			continue
		}
		if b.ReadOnly {
			return &haft.Error{Code: haft.CodeDenied, Message: "the block " + b.Label + " is read-only"}
		}
		if err := checkText("/value", values[i], b.Limit); err != nil {
			return err
		}
		b.Value = values[i]
		if err := writeBlock(ctx, t, b); err != nil {
			return err
		}
	}
	return nil
}
