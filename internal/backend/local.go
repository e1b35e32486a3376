package backend

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

// A Local is a system in this process. There is no server that goes on with the calls it has
// acknowledged, so they have to end before the command may.
type Local struct {
	*app.Service
	owed  []haft.Call                 // each with its id and organisation
	leave func(context.Context) error // stops to serve others; may be nil
}

var _ System = (*Local)(nil)

// Owe implements [Follower].
func (l *Local) Owe(org string, id haft.CallID) {
	l.owed = append(l.owed, haft.Call{ID: id, Principal: haft.Principal{Org: org}})
}

// settled reports whether a call has ended or waits for a person, and whether its chain has gone
// on as far as it goes. A call that cannot be read is left to the next command.
func (l *Local) settled(ctx context.Context, org string, id haft.CallID) bool {
	r, err := l.Store.Calls.Record(ctx, org, id)
	if err != nil {
		return true
	}
	done := r.Status.Final()
	if r.Status == haft.StatusPending {
		a, err := l.Store.Approvals.ApprovalOf(ctx, org, id)
		done = err == nil && a.State == haft.ApprovalPending
	}
	if done && r.Call.Chain != "" {
		c, err := l.Store.Chains.Chain(ctx, org, r.Call.Chain)
		done = err != nil || c.Status.Final() || c.Status == haft.StatusPending && c.Updated.After(r.Ended)
	}
	return done
}

// End implements [Follower]: it lets acknowledged calls finish, and closes the system.
func (l *Local) End(ctx context.Context) error {
	if l.Engine == nil { // opened to look at the audit log only
		return l.Close()
	}
	for _, c := range l.owed {
		for ctx.Err() == nil && !l.settled(ctx, c.Principal.Org, c.ID) {
			select {
			case <-time.After(10 * time.Millisecond):
			case <-ctx.Done():
			}
		}
	}
	var left error
	if l.leave != nil {
		left = l.leave(ctx)
	}
	drained := l.Drain(ctx)
	if ctx.Err() != nil {
		drained = nil // the user does not want to wait
	}
	return errors.Join(left, drained, l.Close())
}

// EventsOf implements [Follower].
func (l *Local) EventsOf(ctx context.Context, p haft.Principal, id haft.CallID) iter.Seq2[haft.Event, error] {
	return func(yield func(haft.Event, error) bool) {
		for after := int64(0); ; {
			page, err := l.Service.EventsOf(ctx, p, id, after, 500)
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

// WatchCall implements [Follower].
func (l *Local) WatchCall(ctx context.Context, p haft.Principal, id haft.CallID) iter.Seq2[haft.Event, error] {
	return l.Service.WatchCall(ctx, p, id, 0)
}

// ExportAudit implements [AuditLog].
func (l *Local) ExportAudit(ctx context.Context, p haft.Principal, w io.Writer) (audit.Report, error) {
	return l.WriteAudit(ctx, p, w)
}

// changeKey changes the API keys and writes that to the audit log. It returns the text of a new
// secret, if the change made one.
func (l *Local) changeKey(ctx context.Context, p haft.Principal, kind string,
	do func(context.Context, *auth.Keyring, auth.Identity) (auth.Key, auth.Token, error)) (k auth.Key, text string,
	err error) {
	ring, err := l.Keyring(ctx)
	if err != nil {
		return k, "", err
	}
	var token auth.Token
	err = l.Manage(ctx, p, haft.KeysWrite, kind, func(ctx context.Context) (_ any, err error) {
		k, token, err = do(ctx, ring, auth.Trusted(p))
		return k, err
	})
	if err != nil {
		return k, "", err
	}
	return k, token.Reveal(), nil
}

// IssueKey implements [Keys].
func (l *Local) IssueKey(ctx context.Context, p haft.Principal, k auth.Key) (auth.Key, string, error) {
	return l.changeKey(ctx, p, "key.create",
		func(ctx context.Context, ring *auth.Keyring, by auth.Identity) (auth.Key, auth.Token, error) {
			return ring.Issue(ctx, by, k)
		})
}

// Keys implements [Keys].
func (l *Local) Keys(ctx context.Context, p haft.Principal) iter.Seq2[auth.Key, error] {
	ring, err := l.Keyring(ctx)
	if err != nil {
		return func(yield func(auth.Key, error) bool) { yield(auth.Key{}, err) }
	}
	return ring.Keys(ctx, auth.Trusted(p), "")
}

// RotateKey implements [Keys].
func (l *Local) RotateKey(ctx context.Context, p haft.Principal, id string,
	overlap haft.Millis) (auth.Key, string, error) {
	return l.changeKey(ctx, p, "key.rotate",
		func(ctx context.Context, ring *auth.Keyring, by auth.Identity) (auth.Key, auth.Token, error) {
			return ring.Rotate(ctx, by, id, overlap.D())
		})
}

// DisableKey implements [Keys].
func (l *Local) DisableKey(ctx context.Context, p haft.Principal, id string) (auth.Key, error) {
	yes := true
	k, _, err := l.changeKey(ctx, p, "key.disable",
		func(ctx context.Context, ring *auth.Keyring, by auth.Identity) (k auth.Key, none auth.Token, err error) {
			k, err = ring.Set(ctx, by, id, auth.KeyState{Disabled: &yes})
			return k, none, err
		})
	return k, err
}

// RemoveKey implements [Keys].
func (l *Local) RemoveKey(ctx context.Context, p haft.Principal, id string) error {
	_, _, err := l.changeKey(ctx, p, "key.remove",
		func(ctx context.Context, ring *auth.Keyring, by auth.Identity) (k auth.Key, none auth.Token, err error) {
			if k, err = ring.Key(ctx, by, id); err == nil {
				err = ring.Remove(ctx, by, id)
			}
			return k, none, err
		})
	return err
}
