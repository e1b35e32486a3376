package main

import (
	"context"
	"errors"
	"io"
	"iter"
	"time"

	"haft"
	"haft/internal/audit"
	"haft/internal/auth"
	"haft/internal/secret"
	"haft/internal/secret/vault"
	"haft/policy"
)

// A system is what commands work on: one that is put together in this process
// (embedded), or a server (remote). A command need not know which it is.
type system interface {
	service
	follower
	policies
	secrets
	keys
	auditLog
}

// A service is everything that an API can do.
type service interface {
	haft.Service
	haft.MCPServers
	haft.Webhooks
	haft.Retainer
	haft.Eraser
}

// A follower follows calls.
type follower interface {
	// Stream makes a call and shows its events as they come. It says whether all
	// of them were shown.
	Stream(ctx context.Context, c haft.Call, show func(haft.Event)) (res *haft.Result, shown bool, err error)
	// Wait returns the result of a call when it has ended or waits for a person.
	Wait(ctx context.Context, p haft.Principal, id haft.CallID) (*haft.Result, error)
	// EventsOf lists what has happened to a call, and WatchCall goes on with it.
	EventsOf(ctx context.Context, p haft.Principal, id haft.CallID) iter.Seq2[haft.Event, error]
	WatchCall(ctx context.Context, p haft.Principal, id haft.CallID) iter.Seq2[haft.Event, error]
	// Owe says that a call was acknowledged that the command does not wait for.
	Owe(org string, id haft.CallID)
	// End closes the system, after the calls that end with it.
	End(ctx context.Context) error
}

// policies are the rules of the organisation and of the server.
type policies interface {
	Explain(ctx context.Context, c haft.Call) (policy.Decision, error)
	Policy(ctx context.Context, p haft.Principal, server bool) (*haft.PolicyText, error)
	PutPolicy(ctx context.Context, p haft.Principal, server bool, next haft.PolicyText) (*haft.PolicyText, error)
}

// secrets are those of the organisation and of its agents.
type secrets interface {
	BindSecret(ctx context.Context, p haft.Principal, agent, name string, v secret.Value, b *secret.Binding) error
	Secrets(ctx context.Context, p haft.Principal, agent string) ([]secret.Info, error)
	RemoveSecret(ctx context.Context, p haft.Principal, agent, name string) error
	RotateSecrets(ctx context.Context, p haft.Principal, cfg vault.RotateConfig) (vault.Rotation, error)
}

// keys are the API keys.
type keys interface {
	IssueKey(ctx context.Context, p haft.Principal, k auth.Key) (auth.Key, string, error)
	Keys(ctx context.Context, p haft.Principal) iter.Seq2[auth.Key, error]
	RotateKey(ctx context.Context, p haft.Principal, id string, overlap haft.Millis) (auth.Key, string, error)
	DisableKey(ctx context.Context, p haft.Principal, id string) (auth.Key, error)
	RemoveKey(ctx context.Context, p haft.Principal, id string) error
}

// An auditLog is the audit log of the organisation.
type auditLog interface {
	ExportAudit(ctx context.Context, p haft.Principal, w io.Writer) (audit.Report, error)
	// VerifyAudit also demands marks, which are known from elsewhere.
	VerifyAudit(ctx context.Context, p haft.Principal, marks []audit.Mark) (audit.Report, error)
	FindAudit(ctx context.Context, p haft.Principal, f haft.AuditFilter) iter.Seq2[audit.Entry, error]
	AuditKeys(ctx context.Context, p haft.Principal) ([]byte, error)
}

// embedded is a system in this process. There is no server that goes on with the calls it has
// acknowledged, so they have to end before the command may.
type embedded struct {
	*app.Service
	dir  string
	owed []haft.Call // each with its id and organisation
}

var _ system = (*embedded)(nil)

// Owe implements follower.
func (e *embedded) Owe(org string, id haft.CallID) {
	e.owed = append(e.owed, haft.Call{ID: id, Principal: haft.Principal{Org: org}})
}

// settled reports whether a call has ended or waits for a person, and whether its chain has gone
// on as far as it goes. A call that cannot be read is left to the next command.
func (e *embedded) settled(ctx context.Context, org string, id haft.CallID) bool {
	r, err := e.Store.Record(ctx, org, id)
	if err != nil {
		return true
	}
	done := r.Status.Final()
	if r.Status == haft.StatusPending {
		a, err := e.Store.ApprovalOf(ctx, org, id)
		done = err == nil && a.State == haft.ApprovalPending
	}
	if done && r.Call.Chain != "" {
		c, err := e.Store.Chain(ctx, org, r.Call.Chain)
		done = err != nil || c.Status.Final() || c.Status == haft.StatusPending && c.Updated.After(r.Ended)
	}
	return done
}

// End implements follower: it lets acknowledged calls finish, and closes the system.
func (e *embedded) End(ctx context.Context) error {
	if e.Engine == nil { // opened to look at the audit log only
		return e.Close()
	}
	for _, c := range e.owed {
		for ctx.Err() == nil && !e.settled(ctx, c.Principal.Org, c.ID) {
			pause(ctx, 10*time.Millisecond)
		}
	}
	drained := e.Drain(ctx)
	if ctx.Err() != nil {
		drained = nil // the user does not want to wait
	}
	return errors.Join(drained, e.Close())
}

// pause waits, or until ctx ends.
func pause(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
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

// ExportAudit implements auditLog.
func (e *embedded) ExportAudit(ctx context.Context, p haft.Principal, w io.Writer) (audit.Report, error) {
	return e.WriteAudit(ctx, p, w)
}

// changeKey changes the API keys and writes that to the audit log. It returns the text of a new
// secret, if the change made one.
func (e *embedded) changeKey(ctx context.Context, p haft.Principal, kind string,
	do func(context.Context, *auth.Keyring, auth.Identity) (auth.Key, auth.Token, error)) (k auth.Key, text string,
	err error) {
	ring, err := e.Keyring(ctx, e.dir)
	if err != nil {
		return k, "", err
	}
	var token auth.Token
	err = e.Manage(ctx, p, haft.KeysWrite, kind, func(ctx context.Context) (_ any, err error) {
		k, token, err = do(ctx, ring, auth.Trusted(p))
		return k, err
	})
	if err != nil {
		return k, "", err
	}
	return k, token.Reveal(), nil
}

// IssueKey implements keys.
func (e *embedded) IssueKey(ctx context.Context, p haft.Principal, k auth.Key) (auth.Key, string, error) {
	return e.changeKey(ctx, p, "key.create",
		func(ctx context.Context, ring *auth.Keyring, by auth.Identity) (auth.Key, auth.Token, error) {
			return ring.Issue(ctx, by, k)
		})
}

// Keys implements keys.
func (e *embedded) Keys(ctx context.Context, p haft.Principal) iter.Seq2[auth.Key, error] {
	ring, err := e.Keyring(ctx, e.dir)
	if err != nil {
		return func(yield func(auth.Key, error) bool) { yield(auth.Key{}, err) }
	}
	return ring.Keys(ctx, auth.Trusted(p), "")
}

// RotateKey implements keys.
func (e *embedded) RotateKey(ctx context.Context, p haft.Principal, id string,
	overlap haft.Millis) (auth.Key, string, error) {
	return e.changeKey(ctx, p, "key.rotate",
		func(ctx context.Context, ring *auth.Keyring, by auth.Identity) (auth.Key, auth.Token, error) {
			return ring.Rotate(ctx, by, id, overlap.D())
		})
}

// DisableKey implements keys.
func (e *embedded) DisableKey(ctx context.Context, p haft.Principal, id string) (auth.Key, error) {
	yes := true
	k, _, err := e.changeKey(ctx, p, "key.disable",
		func(ctx context.Context, ring *auth.Keyring, by auth.Identity) (k auth.Key, none auth.Token, err error) {
			k, err = ring.Set(ctx, by, id, auth.KeyState{Disabled: &yes})
			return k, none, err
		})
	return k, err
}

// RemoveKey implements keys.
func (e *embedded) RemoveKey(ctx context.Context, p haft.Principal, id string) error {
	_, _, err := e.changeKey(ctx, p, "key.remove",
		func(ctx context.Context, ring *auth.Keyring, by auth.Identity) (k auth.Key, none auth.Token, err error) {
			if k, err = ring.Key(ctx, by, id); err == nil {
				err = ring.Remove(ctx, by, id)
			}
			return k, none, err
		})
	return err
}
