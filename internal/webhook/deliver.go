package webhook

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"time"

	"haft"
	"haft/internal/event"
)

// maxAnswer is how much of an answer is read: enough to use the connection again.
const maxAnswer = 64 << 10

// deliver sends an event until it is received or dead. It returns false if it is
// neither, because ctx has ended or the webhook was disabled.
func (r *round) deliver(ctx context.Context, e haft.Event) bool {
	e = event.WithoutValue(e) // results stay here: the receiver asks for the call
	m, err := newMessage(e)
	if err != nil { // of what the store gave: cannot be
		r.bury(e, 0, "the event cannot be written")
		return true
	}
	for try := 1; ; try++ {
		failure, gone := r.try(ctx, m)
		if failure == "" {
			r.received(ctx)
			return true
		}
		if ctx.Err() != nil {
			return false
		}
		if r.failed(ctx, failure, gone) {
			return false
		}
		wait, again := r.n.cfg.Retry.Wait(try, rand.Float64())
		if !again {
			r.bury(e, try, failure)
			return true
		}
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return false
		}
	}
}

// try sends a message once. It returns how that failed, in words that hold nothing
// of an answer, and whether the receiver said that it is gone for good.
func (r *round) try(ctx context.Context, m message) (failure string, gone bool) {
	slots := r.n.well
	r.mu.Lock()
	if !r.hook.FailingSince.IsZero() {
		slots = r.n.failing
	}
	url := r.hook.URL
	r.mu.Unlock()
	select {
	case slots <- struct{}{}:
		defer func() { <-slots }()
	case <-ctx.Done():
		return "the server is shutting down", false
	}
	return r.n.post(ctx, url, r.secret, m)
}

// post sends a message to an address.
func (n *Sender) post(ctx context.Context, url, secret string, m message) (failure string, gone bool) {
	ctx, cancel := context.WithTimeout(ctx, n.cfg.Timeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(m.body))
	if err != nil {
		return "the address cannot be read", false
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("User-Agent", "haft-webhooks/1")
	if err := m.sign(req.Header, secret, time.Now()); err != nil {
		return err.Error(), false
	}
	res, err := n.cfg.Client.Do(req)
	if err != nil {
		return reason(err), false
	}
	defer func() { _ = res.Body.Close() }() // nothing more is wanted of it
	// What it says does not matter, and if it says too much the connection is not
	// used again.
	_, _ = io.CopyN(io.Discard, res.Body, maxAnswer)
	if res.StatusCode >= 200 && res.StatusCode < 300 {
		return "", false
	}
	return fmt.Sprintf("the receiver answered %d", res.StatusCode), res.StatusCode == http.StatusGone
}

// reason says why there was no answer, without names and addresses of ours.
func reason(err error) string {
	var coded *haft.Error
	switch {
	case errors.As(err, &coded):
		return coded.Message
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, os.ErrDeadlineExceeded):
		return "the receiver did not answer in time"
	}
	return "the receiver cannot be reached"
}

// received notes that deliveries work.
func (r *round) received(ctx context.Context) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.hook.Delivered = time.Now().UTC().Truncate(time.Microsecond)
	if r.hook.FailingSince.IsZero() {
		return
	}
	r.hook.FailingSince, r.hook.Failure = time.Time{}, ""
	r.note(ctx)
}

// failed notes that a delivery failed, and reports whether the webhook is disabled
// because it did for too long, or is gone.
func (r *round) failed(ctx context.Context, failure string, gone bool) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := time.Now().UTC().Truncate(time.Microsecond)
	begins := r.hook.FailingSince.IsZero()
	if begins {
		r.hook.FailingSince = now
	}
	r.hook.Failure = failure
	if r.hook.Disabled {
		return true
	}
	if !gone && now.Sub(r.hook.FailingSince) < r.n.cfg.DisableAfter {
		if begins {
			r.note(ctx)
		}
		return false
	}
	r.hook.Disabled = true
	r.hook.Reason = "deliveries failed since " + r.hook.FailingSince.Format(time.RFC3339)
	if gone {
		r.hook.Reason = "the receiver says that it is gone"
	}
	r.n.disabled(context.WithoutCancel(ctx), r.hook)
	return true
}

// note stores the state of deliveries. A failure is logged only. Precondition: r.mu is held.
func (r *round) note(ctx context.Context) {
	if err := r.n.store.Webhooks.MoveWebhook(context.WithoutCancel(ctx), r.n.cfg.Owner, r.hook, nil); err != nil {
		r.n.cfg.Logger.Warn("how a webhook goes cannot be kept", "webhook", r.hook.ID, "org", r.hook.Org, "error", err)
	}
}

// disabled records in the log and in the audit of the organisation that a webhook was disabled.
func (n *Sender) disabled(ctx context.Context, w haft.Webhook) {
	n.cfg.Logger.Warn("a webhook is disabled: it failed for too long", "webhook", w.ID, "org", w.Org, "since",
		w.FailingSince, "failure", w.Failure)
	by := haft.Principal{Org: w.Org, User: "haft", Roles: []string{haft.RoleAdmin}}
	err := n.cfg.Manage(ctx, by, haft.WebhooksWrite, "webhook.disabled", func(context.Context) (any, error) {
		return map[string]any{"id": w.ID, "since": w.FailingSince, "failure": w.Failure, "reason": w.Reason}, nil
	})
	if err != nil {
		n.cfg.Logger.Error("that a webhook is disabled cannot be written to the audit", "webhook", w.ID, "error", err)
	}
}

// bury makes a dead letter of an event.
func (r *round) bury(e haft.Event, tries int, failure string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.dead = append(r.dead, haft.DeadLetter{
		ID: fmt.Sprintf("msg_%016x", e.Cursor), Webhook: r.hook.ID, Event: e, Tries: tries, Failure: failure,
		Died: time.Now().UTC().Truncate(time.Microsecond),
	})
	r.n.cfg.Logger.Warn("an event could not be delivered and is a dead letter", "webhook", r.hook.ID, "org", r.hook.Org,
		"cursor", e.Cursor, "tries", tries, "failure", failure)
}
