package service

import (
	"cmp"
	"context"
	"crypto/rand"
	"fmt"
	"iter"
	"slices"

	"haft"
	"haft/internal/authority"
	"haft/internal/event"
)

// History reads the calls that were made, their events and what they used.
type History struct{ *base }

// Record implements [haft.CallHistory].
func (h *History) Record(ctx context.Context, p haft.Principal, id haft.CallID) (*haft.Record, error) {
	r, err := h.work.Seen(ctx, p, id, haft.CallsRead)
	if err != nil {
		return nil, err
	}
	r.Sealed = nil
	return r, nil
}

// Records implements [haft.CallHistory].
func (h *History) Records(ctx context.Context, p haft.Principal, f haft.CallFilter) iter.Seq2[haft.Record, error] {
	return func(yield func(haft.Record, error) bool) {
		if err := h.authority.May(p, haft.CallsRead); err != nil {
			yield(haft.Record{}, err)
			return
		}
		if len(f.Status) > maxFilter {
			yield(haft.Record{}, tooMany("status"))
			return
		}
		f.Org = p.Org
		if !h.authority.SeesAll(p, haft.CallsRead) { // somebody who sees only their own
			if f.User, f.Agent = p.Owner(), cmp.Or(p.Agent, f.Agent); f.User == "" {
				return
			}
		}
		left := f.Limit
		if left <= 0 {
			left = 50
		}
		for left > 0 {
			f.Limit = min(left, page)
			list, err := h.store.Calls.Records(ctx, f)
			if err != nil {
				yield(haft.Record{}, err)
				return
			}
			for _, r := range list {
				f.Before = r.Call.ID
				r.Sealed = nil
				if !yield(r, nil) {
					return
				}
			}
			left -= len(list)
			if len(list) < f.Limit {
				return
			}
		}
	}
}

// maxFilter bounds a list of a filter: more than there are to name.
const maxFilter = 20

// tooMany refuses a filter that names more.
func tooMany(what string) error {
	return &haft.Error{Code: haft.CodeInvalid, Message: fmt.Sprintf("%s of a filter has at most %d entries", what,
		maxFilter),
		Misfits: []haft.Misfit{{Pointer: "/" + what, Message: fmt.Sprintf("expected array length <= %d", maxFilter)}}}
}

// Replay implements [haft.CallHistory].
func (h *History) Replay(ctx context.Context, p haft.Principal, id haft.CallID) (*haft.Result, error) {
	r, err := h.work.Seen(ctx, p, id, haft.CallsWrite, haft.CallsRead)
	if err != nil {
		return nil, err
	}
	if r.Redacted {
		return nil, &haft.Error{Code: haft.CodeConflict,
			Message: "the call cannot be replayed: some of its arguments or its environment were not kept, since " +
				"they may be secret"}
	}
	if slices.ContainsFunc(r.Call.Files, func(f haft.CallFile) bool { return f.ID == "" }) {
		return nil, &haft.Error{Code: haft.CodeConflict,
			Message: "the call cannot be replayed: the files that came with it were not kept"}
	}
	if r.ToolID == "" {
		return nil, &haft.Error{Code: haft.CodeConflict, Message: "the call cannot be replayed: it never had a tool"}
	}
	c := haft.Call{
		Tool: string(r.ToolID), Digest: r.Digest, Args: r.Call.Args, Principal: p, Limits: r.Call.Limits,
		Env:   r.Call.Env,
		Files: r.Call.Files, Workspace: r.Call.Workspace,
		Sandbox: r.Call.Sandbox, Template: r.Call.Template, Requirements: r.Call.Requirements, Parent: r.Call.ID,
	}
	if h.authority.Manages(p) {
		c.Principal.Agent = r.Call.Principal.Agent // whose environment it had
		c.Turn = "replay_" + rand.Text()
	}
	return h.calls.Call(ctx, c)
}

// Watch implements [haft.Watcher].
func (h *History) Watch(ctx context.Context, p haft.Principal, f haft.EventFilter, after int64) iter.Seq2[haft.Event,
	error] {
	nothing := func(err error) iter.Seq2[haft.Event, error] {
		return func(yield func(haft.Event, error) bool) { yield(haft.Event{}, err) }
	}
	if err := h.authority.May(p, haft.EventsRead); err != nil {
		return nothing(err)
	}
	if len(f.Types) > maxFilter {
		return nothing(tooMany("types"))
	}
	want := event.Filter{Org: p.Org, User: f.User, Agent: f.Agent, Call: f.Call, Tool: f.Tool, Types: f.Types,
		Marks: f.Marks}
	if !h.authority.SeesAll(p, haft.EventsRead) {
		own := event.For(p)
		if want.User != "" && want.User != own.User || own.Agent != "" && want.Agent != "" && want.Agent != own.Agent {
			return nothing(&haft.Error{Code: haft.CodeDenied,
				Message: "the events of others are for managers and approvers, and an agent watches its own"})
		}
		want.User, want.Agent = own.User, cmp.Or(own.Agent, want.Agent)
	}
	return h.shown(p, h.WatchFor(ctx, want, after))
}

// shown yields events as p may see them: without values of calls if the credential is not for reading calls.
func (h *History) shown(p haft.Principal, events iter.Seq2[haft.Event, error]) iter.Seq2[haft.Event, error] {
	if h.authority.May(p, haft.CallsRead) != nil {
		return event.WithoutValues(events)
	}
	return events
}

// WatchFor yields the events that fit f, as [event.Hub.Watch] does. Whoever calls
// it answers for who may see them.
func (h *History) WatchFor(ctx context.Context, f event.Filter, after int64) iter.Seq2[haft.Event, error] {
	return h.work.WatchFor(ctx, f, after)
}

// Cursor returns that of the last event of all: a watch after it gets what happens
// from now on.
func (h *History) Cursor(ctx context.Context) (int64, error) { return h.work.Cursor(ctx) }

// EventsOf returns up to limit events of a call that p may see, after the one with
// that cursor.
func (h *History) EventsOf(ctx context.Context, p haft.Principal, id haft.CallID, after int64,
	limit int) ([]haft.Event, error) {
	r, err := h.work.Seen(ctx, p, id, haft.EventsRead)
	if err != nil {
		return nil, err
	}
	list, err := h.store.Events.EventsAfter(ctx, event.Filter{Org: r.Call.Principal.Org, Call: id}, after, limit)
	if h.authority.May(p, haft.CallsRead) != nil {
		for i := range list {
			list[i] = event.WithoutValue(list[i])
		}
	}
	return list, err
}

// WatchCall yields the events of a call that p may see, after the one with that
// cursor, as [Engine.Watch] does.
func (h *History) WatchCall(ctx context.Context, p haft.Principal, id haft.CallID, after int64) iter.Seq2[haft.Event,
	error] {
	r, err := h.work.Seen(ctx, p, id, haft.EventsRead)
	if err != nil {
		return func(yield func(haft.Event, error) bool) { yield(haft.Event{}, err) }
	}
	return h.shown(p, h.WatchFor(ctx, event.Filter{Org: r.Call.Principal.Org, Call: id}, after))
}

// Usage implements [haft.Meter]. Who sees only their own calls sees only what they
// used.
func (h *History) Usage(ctx context.Context, p haft.Principal, q haft.UsageQuery) ([]haft.UsageSum, error) {
	if err := h.authority.Authorize(p, haft.UsageRead, authority.Owned("", p)); err != nil {
		return nil, err
	}
	if !h.authority.SeesAll(p, haft.UsageRead) {
		q.User, q.Agent = p.Owner(), cmp.Or(p.Agent, q.Agent)
	}
	return h.store.Calls.Usage(ctx, p.Org, q)
}
