package service

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"time"

	"haft"
	"haft/internal/audit"
	"haft/internal/event"
	"haft/internal/filestore"
	"haft/internal/registry"
	"haft/internal/store"
)

// Export implements [haft.Eraser].
func (d *DataManager) Export(ctx context.Context, p haft.Principal, of haft.Subject, w io.Writer) error {
	of, err := d.subject(p, haft.DataExport, of)
	if err != nil {
		return err
	}
	if err := d.noteExport(ctx, p, of); err != nil {
		return err
	}
	if err := haft.WriteExport(w, "subject", of); err != nil {
		return err
	}
	if err := d.exportCalls(ctx, of, w); err != nil {
		return err
	}
	if err := d.exportKeys(ctx, of, w); err != nil {
		return err
	}
	if err := d.exportFiles(ctx, of, w); err != nil {
		return err
	}
	if err := d.exportTurns(ctx, of, w); err != nil {
		return err
	}
	own := d.anyManager(of.Org)
	if err := exportAll(w, "approval", d.approvals.Approvals(ctx, own,
		haft.ApprovalFilter{Any: true, User: of.User})); err != nil {
		return err
	}
	about, err := d.about(ctx, of, true)
	if err != nil {
		return err
	}
	for entry, err := range d.store.Audit.Trail(ctx, of.Org) {
		if err == nil && about(entry) {
			err = haft.WriteExport(w, "audit", entry)
		}
		if err != nil {
			return err
		}
	}
	sums, err := d.store.Calls.Usage(ctx, of.Org, haft.UsageQuery{From: time.Unix(1, 0), User: of.User,
		By: []haft.UsageBy{haft.ByTool, haft.ByMonth}})
	if err != nil {
		return err
	}
	for _, sum := range sums {
		if err := haft.WriteExport(w, "usage", sum); err != nil {
			return err
		}
	}
	if of.User != "" {
		return nil
	}
	return d.exportOrg(ctx, own, w)
}

// noteExport adds to the audit of the organisation who has its data, or that of a user.
func (d *DataManager) noteExport(ctx context.Context, p haft.Principal, of haft.Subject) error {
	body, err := json.Marshal(map[string]string{"of": subjectKind(of)})
	if err != nil {
		return fmt.Errorf("encode an entry of the audit: %w", err)
	}
	return d.store.Commit(ctx,
		store.Batch{Audit: []audit.Entry{{Org: of.Org, Time: time.Now(), Kind: "data.exported", Actor: p, Body: body}}})
}

// exportKeys writes what API keys are for, and nothing of their secrets.
func (d *DataManager) exportKeys(ctx context.Context, of haft.Subject, w io.Writer) error {
	for after, more := "", true; more; {
		list, err := d.store.Keys.Keys(ctx, of.Org, after, page)
		if err != nil {
			return err
		}
		for _, k := range list {
			after = k.ID
			if of.User != "" && k.User != of.User {
				continue
			}
			if err := haft.WriteExport(w, "api_key", k); err != nil {
				return err
			}
		}
		more = len(list) == page
	}
	return nil
}

// exportFiles writes which files and workspaces there are. Their content is read one by one.
func (d *DataManager) exportFiles(ctx context.Context, of haft.Subject, w io.Writer) error {
	list, err := d.workspaces.All(ctx, of.Org, of.User)
	if err != nil {
		return err
	}
	for _, x := range list {
		if err := haft.WriteExport(w, "workspace", x); err != nil {
			return err
		}
	}
	return exportAll(w, "file", d.files.All(ctx, filestore.Filter{Org: of.Org, User: of.User, Limit: page}))
}

// exportTurns writes turns with their messages, and what agents kept for a user.
func (d *DataManager) exportTurns(ctx context.Context, of haft.Subject, w io.Writer) error {
	if of.User != "" { // else it is among the memory of the organisation
		err := exportPages(w, "passage", func(last *haft.Passage) ([]haft.Passage, error) {
			return d.memory.UserPassages(ctx, of.Org, of.User, last.ID, page)
		})
		if err != nil {
			return err
		}
	}
	return exportPages(w, "turn", func(last *haft.Turn) ([]haft.Turn, error) {
		turns, err := d.memory.UserTurns(ctx, of.Org, of.User, *last, page)
		for _, turn := range turns {
			if err == nil {
				err = exportPages(w, "message", func(last *haft.Message) ([]haft.Message, error) {
					return d.memory.Messages(ctx, of.Org, turn.Principal.Owner(), turn.Agent,
						haft.MessageFilter{Turn: turn.ID, After: last.Seq, Limit: page})
				})
			}
		}
		return turns, err
	})
}

// exportMemory writes the blocks of an organisation, and the passages of its agents.
func (d *DataManager) exportMemory(ctx context.Context, own haft.Principal, w io.Writer) error {
	err := exportPages(w, "block", func(last *haft.Block) ([]haft.Block, error) {
		return d.memory.Blocks(ctx, own.Org, haft.BlockFilter{After: last.ID, Limit: page})
	})
	if err != nil {
		return err
	}
	for agent, err := range d.agents.AgentList(ctx, own, haft.AgentFilter{}) {
		if err == nil {
			err = exportPages(w, "passage", func(last *haft.Passage) ([]haft.Passage, error) {
				return d.memory.Passages(ctx, own.Org, agent.ID, haft.PassageFilter{After: last.ID, Limit: page})
			})
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// exportPages writes the pages of a list, each after the last of the one before.
func exportPages[T any](w io.Writer, kind string, next func(last *T) ([]T, error)) error {
	last := new(T)
	for more := true; more; {
		list, err := next(last)
		if err != nil {
			return err
		}
		for i := range list {
			last = &list[i]
			if err := haft.WriteExport(w, kind, last); err != nil {
				return err
			}
		}
		more = len(list) > 0 // a page can be short because what is on it is large
	}
	return nil
}

// exportCalls writes calls with their events and chains, oldest first.
func (d *DataManager) exportCalls(ctx context.Context, of haft.Subject, w io.Writer) error {
	chains := map[haft.ChainID]bool{"": true}
	f := haft.CallFilter{Org: of.Org, User: of.User, Oldest: true, Limit: page}
	for more := true; more; {
		list, err := d.store.Calls.Records(ctx, f)
		if err != nil {
			return err
		}
		for _, r := range list {
			f.Before, r.Sealed = r.Call.ID, nil
			if err := haft.WriteExport(w, "call", r); err != nil {
				return err
			}
			if err := d.exportEvents(ctx, of.Org, r.Call.ID, w); err != nil {
				return err
			}
			if chains[r.Call.Chain] {
				continue
			}
			chains[r.Call.Chain] = true
			c, err := d.plans.Chain(ctx, d.anyManager(of.Org), r.Call.Chain)
			if err == nil {
				err = haft.WriteExport(w, "chain", c)
			}
			if err != nil && haft.CodeOf(err) != haft.CodeNotFound {
				return err
			}
		}
		more = len(list) == f.Limit
	}
	return nil
}

// exportEvents writes the events of a call that are still kept.
func (d *DataManager) exportEvents(ctx context.Context, org string, id haft.CallID, w io.Writer) error {
	for after, more := int64(0), true; more; {
		list, err := d.store.Events.EventsAfter(ctx, event.Filter{Org: org, Call: id}, after, page)
		if err != nil && !errors.Is(err, event.ErrLost) {
			return err
		}
		for _, ev := range list {
			after = ev.Cursor
			if err := haft.WriteExport(w, "event", ev); err != nil {
				return err
			}
		}
		more = len(list) == page
	}
	return nil
}

// exportOrg writes what belongs to an organisation and to nobody in it.
func (d *DataManager) exportOrg(ctx context.Context, own haft.Principal, w io.Writer) error {
	if err := exportAll(w, "agent", d.agents.AgentList(ctx, own, haft.AgentFilter{})); err != nil {
		return err
	}
	if err := exportAll(w, "sandbox_config", d.sandboxes.SandboxConfigs(ctx, own)); err != nil {
		return err
	}
	if err := exportAll(w, "mcp_server", d.servers.MCPServerList(ctx, own)); err != nil {
		return err
	}
	if err := d.exportMemory(ctx, own, w); err != nil {
		return err
	}
	hooks, err := d.store.Webhooks.Webhooks(ctx, own.Org)
	if err != nil {
		return err
	}
	for _, hook := range hooks {
		if err := haft.WriteExport(w, "webhook", hook); err != nil {
			return err
		}
	}
	return exportAll(w, "tool", registry.Whole(ctx, d.tools, own, d.tools.Tools(ctx, own, haft.ToolFilter{})))
}

// exportAll writes what a list has.
func exportAll[T any](w io.Writer, kind string, list iter.Seq2[T, error]) error {
	for v, err := range list {
		if err == nil {
			err = haft.WriteExport(w, kind, v)
		}
		if err != nil {
			return err
		}
	}
	return nil
}
