package main

import (
	"context"
	"errors"
	"io"
	"iter"
	"time"

	"haft"
	"haft/app"
	"haft/internal/audit"
	"haft/internal/auth"
)

// embedded is a system in this process. What it acknowledged it has to end.
type embedded struct {
	*app.Service
	owed []owed
}

// owed is a call that was acknowledged and runs in this process, since there is no
// server: it has to end before the command may.
type owed struct {
	org string
	id  haft.CallID
}

var _ system = (*embedded)(nil)

// Owe implements follower.
func (e *embedded) Owe(org string, id haft.CallID) { e.owed = append(e.owed, owed{org, id}) }

// settle waits until a call has ended or waits for a person, and until its chain
// has gone on as far as it goes.
func (e *embedded) settle(ctx context.Context, o owed) {
	for {
		r, err := e.Store.Record(ctx, o.org, o.id)
		if err != nil {
			return // the next command goes on with it
		}
		asks := false
		if r.Status == haft.StatusPending {
			a, err := e.Store.ApprovalOf(ctx, o.org, o.id)
			asks = err == nil && a.State == haft.ApprovalPending
		}
		done := r.Status.Final() || asks
		if done && r.Call.Chain != "" {
			c, err := e.Store.Chain(ctx, o.org, r.Call.Chain)
			done = err != nil || c.Status.Final() || c.Status == haft.StatusPending && c.Updated.After(r.Ended)
		}
		if done {
			return
		}
		select {
		case <-time.After(10 * time.Millisecond):
		case <-ctx.Done():
			return
		}
	}
}

// End implements follower: it lets calls on their way finish, and closes the system.
func (e *embedded) End(ctx context.Context) error {
	if e.Engine == nil { // opened to look at the audit log only
		return e.Close()
	}
	for _, o := range e.owed {
		e.settle(ctx, o)
	}
	drained := e.Drain(ctx)
	if ctx.Err() != nil {
		drained = nil // the user does not want to wait
	}
	return errors.Join(drained, e.Close())
}

// ends reports whether nothing is printed after an event before a person agrees.
func ends(e haft.Event) bool {
	return e.Type == haft.EventCompleted || e.Type == haft.EventApproval
}

// EventsOf implements follower.
func (e *embedded) EventsOf(ctx context.Context, p haft.Principal, id haft.CallID) iter.Seq2[haft.Event, error] {
	return func(yield func(haft.Event, error) bool) {
		for after := int64(0); ; {
			page, err := e.Service.EventsOf(ctx, p, id, after, 500)
			if err != nil {
				yield(haft.Event{}, err)
				return
			}
			for _, ev := range page {
				if !yield(ev, nil) {
					return
				}
				after = ev.Cursor
			}
			if len(page) == 0 {
				return
			}
		}
	}
}

// WatchCall implements follower.
func (e *embedded) WatchCall(ctx context.Context, p haft.Principal, id haft.CallID) iter.Seq2[haft.Event, error] {
	return e.Service.WatchCall(ctx, p, id, 0)
}

// ExportAudit implements witness.
func (e *embedded) ExportAudit(ctx context.Context, p haft.Principal, w io.Writer) (audit.Report, error) {
	return e.WriteAudit(ctx, p, w)
}

// manage has do run with the keys of the system, and what it did written to the
// audit.
func (e *embedded) manage(ctx context.Context, p haft.Principal, kind string,
	do func(context.Context, *auth.Keyring, auth.Identity) (auth.Key, error)) error {
	r, err := e.Keyring(ctx)
	if err != nil {
		return err
	}
	return e.Manage(ctx, p, haft.KeysWrite, kind, func(ctx context.Context) (any,
		error) {
		return do(ctx, r, auth.Trusted(p))
	})
}

// IssueKey implements issuer.
func (e *embedded) IssueKey(ctx context.Context, p haft.Principal, k auth.Key) (made auth.Key, text string, err error) {
	var token auth.Token
	err = e.manage(ctx, p, "key.create", func(ctx context.Context, r *auth.Keyring, by auth.Identity) (_ auth.Key,
		err error) {
		made, token, err = r.Issue(ctx, by, k)
		return made, err
	})
	if err != nil {
		return made, "", err
	}
	return made, token.Reveal(), nil
}

// Keys implements issuer.
func (e *embedded) Keys(ctx context.Context, p haft.Principal) iter.Seq2[auth.Key, error] {
	r, err := e.Keyring(ctx)
	if err != nil {
		return func(yield func(auth.Key, error) bool) { yield(auth.Key{}, err) }
	}
	return r.Keys(ctx, auth.Trusted(p), "")
}

// RotateKey implements issuer.
func (e *embedded) RotateKey(ctx context.Context, p haft.Principal, id string,
	overlap haft.Millis) (k auth.Key, text string, err error) {
	var token auth.Token
	err = e.manage(ctx, p, "key.rotate", func(ctx context.Context, r *auth.Keyring, by auth.Identity) (_ auth.Key,
		err error) {
		k, token, err = r.Rotate(ctx, by, id, overlap.D())
		return k, err
	})
	if err != nil {
		return k, "", err
	}
	return k, token.Reveal(), nil
}

// DisableKey implements issuer.
func (e *embedded) DisableKey(ctx context.Context, p haft.Principal, id string) (k auth.Key, err error) {
	yes := true
	err = e.manage(ctx, p, "key.disable", func(ctx context.Context, r *auth.Keyring, by auth.Identity) (_ auth.Key,
		err error) {
		k, err = r.Set(ctx, by, id, auth.KeyState{Disabled: &yes})
		return k, err
	})
	return k, err
}

// RemoveKey implements issuer.
func (e *embedded) RemoveKey(ctx context.Context, p haft.Principal, id string) error {
	return e.manage(ctx, p, "key.remove", func(ctx context.Context, r *auth.Keyring, by auth.Identity) (auth.Key,
		error) {
		k, err := r.Key(ctx, by, id)
		if err != nil {
			return k, err
		}
		return k, r.Remove(ctx, by, id)
	})
}
