package backend

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"iter"
	"time"

	"haft"
	"haft/client"
	"haft/internal/audit"
	"haft/internal/auth"
	"haft/internal/localsocket"
	"haft/internal/pause"
	"haft/internal/secret"
	"haft/policy"
)

// A Remote is the system of a server.
type Remote struct {
	*client.Client
	haft.MCPServers
	haft.Webhooks
	haft.Retainer
	haft.Eraser
	// Served is the process that was found in the data directory. It is zero for a server that is named by its address,
	// and for this process.
	Served localsocket.Welcome
	leave  func(context.Context) error // may be nil
	owed   []haft.Call                 // each with its id and organisation
}

var _ System = (*Remote)(nil)

// NewRemote returns the system of the server that c sends requests to.
func NewRemote(c *client.Client) *Remote {
	return &Remote{Client: c, MCPServers: c.MCPServers, Webhooks: c.Webhooks, Retainer: c.Data, Eraser: c.Data}
}

// ErrCancelled is the error of a call whose caller no longer waits.
var ErrCancelled = errors.New("the server was told to cancel the call")

// End implements [Follower]. A server goes on with what it has acknowledged. Another command that has the data
// directory may end before, so that what it has acknowledged is waited for.
func (r *Remote) End(ctx context.Context) error {
	for _, c := range r.owed {
		for !r.settled(ctx, c) {
			if pause.For(ctx, 20*time.Millisecond) != nil {
				break // the user does not want to wait
			}
		}
	}
	if r.leave == nil {
		return r.Close()
	}
	return errors.Join(r.Close(), r.leave(ctx))
}

// settled reports whether a call has ended or waits for a person. A call that cannot be read is left to the next
// command.
func (r *Remote) settled(ctx context.Context, c haft.Call) bool {
	rec, err := r.Record(ctx, c.Principal, c.ID)
	return err != nil || rec.Status.Final() || rec.Status == haft.StatusPending
}

// Owe implements [Follower].
func (r *Remote) Owe(org string, id haft.CallID) {
	if r.leave != nil && r.Served.Command != "serve" {
		r.owed = append(r.owed, haft.Call{ID: id, Principal: haft.Principal{Org: org}})
	}
}

// Call implements [haft.Caller]. The server cancels a call that nobody waits for.
func (r *Remote) Call(ctx context.Context, c haft.Call) (*haft.Result, error) {
	res, err := r.Client.Call(ctx, c)
	if err != nil && ctx.Err() != nil {
		return nil, ErrCancelled
	}
	return res, err
}

// Stream implements [Follower].
func (r *Remote) Stream(ctx context.Context, c haft.Call, show func(haft.Event)) (*haft.Result, bool, error) {
	rec, err := r.Submit(ctx, c)
	if err != nil {
		return nil, false, err
	}
	if rec.Result != nil {
		return rec.Result, false, nil
	}
	watching, stop := context.WithCancel(ctx)
	defer stop()
	done := make(chan bool, 1)
	go func() {
		shown := false
		defer func() { done <- shown }()
		for e, err := range r.Client.WatchCall(watching, c.Principal, rec.Call.ID, 0) {
			if err != nil {
				return // the result says all
			}
			show(e)
			// After these nothing is printed before a person agrees.
			if shown = e.Type == haft.EventCompleted || e.Type == haft.EventApproval; shown {
				return
			}
		}
	}()
	// A server that stops ends its streams, but answers a request that waits already.
	res, err := r.Wait(ctx, c.Principal, rec.Call.ID)
	timer := time.AfterFunc(lastEvent, stop)
	defer timer.Stop()
	if err != nil {
		stop()
	}
	shown := <-done
	if err != nil && ctx.Err() != nil {
		// The call was submitted, and would run on.
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
		defer cancel()
		if err := r.Cancel(ctx, c.Principal, rec.Call.ID); err != nil {
			return nil, shown, err
		}
		res, err = r.Wait(ctx, c.Principal, rec.Call.ID)
	}
	return res, shown, err
}

// lastEvent is how long to wait for the last event of a call that has its result.
const lastEvent = 2 * time.Second

// WatchCall implements [Follower].
func (r *Remote) WatchCall(ctx context.Context, p haft.Principal, id haft.CallID) iter.Seq2[haft.Event, error] {
	return r.Client.WatchCall(ctx, p, id, 0)
}

// Explain implements [Policies].
func (r *Remote) Explain(ctx context.Context, c haft.Call) (d policy.Decision, err error) {
	raw, err := r.Policies.Explain(ctx, c)
	if err != nil {
		return d, err
	}
	return d, decodeAnswer(raw, &d)
}

// Policy implements [Policies].
func (r *Remote) Policy(ctx context.Context, p haft.Principal, server bool) (*haft.PolicyText, error) {
	return r.Policies.Get(ctx, p, server)
}

// PutPolicy implements [Policies].
func (r *Remote) PutPolicy(ctx context.Context, p haft.Principal, server bool,
	next haft.PolicyText) (*haft.PolicyText, error) {
	return r.Policies.Put(ctx, p, server, next)
}

// decodeAnswer reads a part of an answer of the server.
func decodeAnswer(raw json.RawMessage, to any) error {
	if err := json.Unmarshal(raw, to); err != nil {
		return &haft.Error{Code: haft.CodeUnavailable,
			Message: "the answer is not one of a Haft server of this version", Err: err}
	}
	return nil
}

// ExportAudit implements [AuditLog]. The export is verified while it arrives.
func (r *Remote) ExportAudit(ctx context.Context, p haft.Principal, w io.Writer) (audit.Report, error) {
	return r.fetchAudit(ctx, p, w, nil)
}

// VerifyAudit implements [AuditLog].
func (r *Remote) VerifyAudit(ctx context.Context, p haft.Principal, marks []audit.Mark) (audit.Report, error) {
	return r.fetchAudit(ctx, p, io.Discard, marks)
}

// fetchAudit writes an export to w, and verifies it.
func (r *Remote) fetchAudit(ctx context.Context, p haft.Principal, w io.Writer,
	marks []audit.Mark) (rep audit.Report, err error) {
	text, err := r.Audit.Keys(ctx, p)
	if err != nil {
		return rep, err
	}
	keys, err := audit.ParseKeys(text)
	if err != nil {
		return rep, err
	}
	in, out := io.Pipe()
	verified := make(chan error, 1)
	go func() {
		var err error
		rep, err = audit.Read(in, p.Org, keys, marks, nil)
		_, _ = io.Copy(io.Discard, in) // the writer must not wait for a reader that has left
		verified <- err
	}()
	err = r.Audit.Export(ctx, p, haft.AuditFilter{}, io.MultiWriter(w, out))
	_ = out.CloseWithError(err) // never fails
	if wrong := <-verified; err == nil {
		err = wrong
	}
	return rep, err
}

// AuditKeys implements [AuditLog].
func (r *Remote) AuditKeys(ctx context.Context, p haft.Principal) ([]byte, error) {
	return r.Audit.Keys(ctx, p)
}

// FindAudit implements [AuditLog].
func (r *Remote) FindAudit(ctx context.Context, p haft.Principal, f haft.AuditFilter) iter.Seq2[audit.Entry, error] {
	return func(yield func(audit.Entry, error) bool) {
		for raw, err := range r.Audit.Entries(ctx, p, f) {
			var e audit.Entry
			if err == nil {
				err = decodeAnswer(raw, &e)
			}
			if !yield(e, err) || err != nil {
				return
			}
		}
	}
}

// BindSecret implements [Secrets].
func (r *Remote) BindSecret(ctx context.Context, p haft.Principal, agent, name string, v secret.Value,
	b *secret.Binding) error {
	return r.Client.Secrets.Bind(ctx, p, agent, name, v.Reveal(), b)
}

// Secrets implements [Secrets].
func (r *Remote) Secrets(ctx context.Context, p haft.Principal, agent string) ([]secret.Info, error) {
	list, err := r.Client.Secrets.List(ctx, p, agent)
	out := make([]secret.Info, len(list))
	for i, s := range list {
		out[i] = secret.Info(s)
	}
	return out, err
}

// RemoveSecret implements [Secrets].
func (r *Remote) RemoveSecret(ctx context.Context, p haft.Principal, agent, name string) error {
	return r.Client.Secrets.Remove(ctx, p, agent, name)
}

// IssueKey implements [Keys].
func (r *Remote) IssueKey(ctx context.Context, p haft.Principal, k auth.Key) (auth.Key, string, error) {
	return r.Client.Keys.Issue(ctx, p, k)
}

// Keys implements [Keys].
func (r *Remote) Keys(ctx context.Context, p haft.Principal) iter.Seq2[auth.Key, error] {
	return r.Client.Keys.List(ctx, p)
}

// RotateKey implements [Keys].
func (r *Remote) RotateKey(ctx context.Context, p haft.Principal, id string,
	overlap haft.Millis) (auth.Key, string, error) {
	return r.Client.Keys.Rotate(ctx, p, id, overlap)
}

// DisableKey implements [Keys].
func (r *Remote) DisableKey(ctx context.Context, p haft.Principal, id string) (auth.Key, error) {
	return r.Client.Keys.Disable(ctx, p, id)
}

// RemoveKey implements [Keys].
func (r *Remote) RemoveKey(ctx context.Context, p haft.Principal, id string) error {
	return r.Client.Keys.Remove(ctx, p, id)
}
