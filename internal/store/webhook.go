package store

import (
	"context"
	"errors"
	"fmt"
	"time"

	"haft"
	"haft/internal/store/stored"
)

// The bounds of webhooks.
const (
	MaxWebhooks    = 100  // of an organisation
	MaxDeadLetters = 1000 // of a webhook; the oldest go first
)

// A webhookState is what becomes of a webhook without anybody's doing. It is kept
// apart from what people say of it, so that neither is in the way of the other.
type webhookState struct {
	Reason       string    `json:"reason,omitempty"`
	FailingSince time.Time `json:"failing_since,omitzero"`
	Failure      string    `json:"failure,omitempty"`
	Delivered    time.Time `json:"delivered,omitzero"`
}

// stateOf returns the state of a webhook, and set gives it one.
func stateOf(w *haft.Webhook) webhookState {
	return webhookState{w.Reason, w.FailingSince, w.Failure, w.Delivered}
}

func (s webhookState) set(w *haft.Webhook) {
	w.Reason, w.FailingSince, w.Failure, w.Delivered = s.Reason, s.FailingSince, s.Failure, s.Delivered
}

// A Subscription is a webhook with its secret, as it was given to the store.
type Subscription struct {
	haft.Webhook
	Secret string
}

const webhookColumns unlogged = "SELECT disabled, position, doc, state, secret FROM webhooks "

func scanWebhook(r scanner) (s Subscription, err error) {
	var doc, state string
	var disabled int64
	var now webhookState
	if err := r.Scan(&disabled, &s.Position, &doc, &state, &s.Secret); err != nil {
		return s, err
	}
	position := s.Position
	if err := errors.Join(stored.Decode(doc, &s.Webhook), stored.Decode(state, &now)); err != nil {
		return s, err
	}
	s.Disabled, s.Position = disabled != 0, position
	now.set(&s.Webhook)
	return s, nil
}

// AddWebhook keeps a new webhook with its secret. Its Position is where it begins.
func (s Webhooks) AddWebhook(ctx context.Context, w haft.Webhook, secret string) (*haft.Webhook, error) {
	if w.Org == "" {
		return nil, invalid("a webhook belongs to an organisation")
	}
	if err := need("the id of the webhook", string(w.ID)); err != nil {
		return nil, err
	}
	w.Updated = stamp(w.Updated, time.Time{})
	w.Created, w.If = w.Updated, ""
	doc, err := webhookDoc(w)
	if err != nil {
		return nil, err
	}
	err = s.db.write(ctx, "keep the webhook", func(ctx context.Context, t *tx) error {
		have, err := value[int](ctx, t, "count webhooks", unlogged("SELECT COUNT(*) FROM webhooks WHERE org = $1"),
			column(w.Org))
		if err != nil {
			return err
		}
		if have >= MaxWebhooks {
			return conflict(fmt.Sprintf("an organisation has at most %d webhooks", MaxWebhooks))
		}
		return t.execOr(ctx, conflict("another webhook has that id"), "INSERT INTO webhooks (id, org, disabled, "+
			"position, owner, lease, doc, state, secret) VALUES ($1, $2, $3, $4, '', 0, $5, '{}', $6) ON CONFLICT "+
			"(id) DO NOTHING", string(w.ID), column(w.Org), stored.Bool(w.Disabled), w.Position, doc, secret)
	})
	if err != nil {
		return nil, err
	}
	return &w, nil
}

// webhookDoc is what people say of a webhook.
func webhookDoc(w haft.Webhook) (string, error) {
	w.Position, w.Disabled = 0, false
	webhookState{}.set(&w)
	return encodeText("the webhook", w)
}

// webhook returns a webhook that nobody else changes before the end, if it is what
// the condition says.
func (t *tx) webhook(ctx context.Context, org string, id haft.WebhookID, condition string) (*Subscription, error) {
	w, err := find(ctx, t, "webhook", scanWebhook, webhookColumns+"WHERE org = $1 AND id = $2"+
		unlogged(t.s.dialect.ForUpdate), column(org), column(string(id)))
	if err != nil {
		return nil, err
	}
	return w, holds(condition, w.Revision())
}

// SetWebhook replaces what people say of a webhook, if it is what If says. Enabling
// one forgets how it failed; its place stays.
func (s Webhooks) SetWebhook(ctx context.Context, w haft.Webhook) (*haft.Webhook, error) {
	var kept haft.Webhook
	err := s.db.write(ctx, "change the webhook", func(ctx context.Context, t *tx) error {
		old, err := t.webhook(ctx, w.Org, w.ID, w.If)
		if err != nil {
			return err
		}
		kept = w
		kept.If, kept.Created, kept.Updated, kept.Position = "", old.Created, stamp(w.Updated, old.Updated),
			old.Position
		stateOf(&old.Webhook).set(&kept)
		if old.Disabled && !w.Disabled {
			kept.Reason, kept.FailingSince, kept.Failure = "", time.Time{}, ""
		}
		doc, err := webhookDoc(kept)
		if err != nil {
			return err
		}
		state, err := stored.Encode(stateOf(&kept))
		if err != nil {
			return err
		}
		_, err = t.exec(ctx, "UPDATE webhooks SET disabled = $1, doc = $2, state = $3 WHERE id = $4",
			stored.Bool(kept.Disabled), doc, state, string(kept.ID))
		return err
	})
	if err != nil {
		return nil, err
	}
	return &kept, nil
}

// Webhook returns one with its secret, or [haft.CodeNotFound].
func (s Webhooks) Webhook(ctx context.Context, org string, id haft.WebhookID) (*Subscription, error) {
	return find(ctx, s.db, "webhook", scanWebhook, webhookColumns+"WHERE org = $1 AND id = $2", column(org),
		column(string(id)))
}

// Webhooks lists those of an organisation by id. There are at most [MaxWebhooks].
func (s Webhooks) Webhooks(ctx context.Context, org string) ([]haft.Webhook, error) {
	return list(ctx, s.db, "list webhooks", func(r scanner) (haft.Webhook, error) {
		w, err := scanWebhook(r)
		return w.Webhook, err
	}, webhookColumns+"WHERE org = $1 ORDER BY id LIMIT $2", column(org), MaxPage)
}

// ActiveWebhooks lists those of all organisations that are enabled, by id, after
// that id.
func (s Webhooks) ActiveWebhooks(ctx context.Context, after haft.WebhookID, limit int) ([]Subscription, error) {
	return list(ctx, s.db, "list active webhooks", scanWebhook,
		webhookColumns+"WHERE disabled = 0 AND id > $1 ORDER BY id LIMIT $2", column(string(after)), page(limit))
}

// AllWebhooks lists those of all organisations, by id, after that id.
func (s Webhooks) AllWebhooks(ctx context.Context, after haft.WebhookID, limit int) ([]Subscription, error) {
	return list(ctx, s.db, "list all webhooks", scanWebhook, webhookColumns+"WHERE id > $1 ORDER BY id LIMIT $2",
		column(string(after)), page(limit))
}

// ResealWebhook replaces the secret of a webhook, if it is still w's. It reports
// whether it was.
func (s Webhooks) ResealWebhook(ctx context.Context, w Subscription, next string) (replaced bool, err error) {
	if err := document("the secret of the webhook", next); err != nil {
		return false, err
	}
	n, err := s.db.exec(ctx, "seal a webhook again", "UPDATE webhooks SET secret = $1 WHERE id = $2 AND secret = $3",
		next,
		column(string(w.ID)), w.Secret)
	return n > 0, err
}

// RemoveWebhook removes one with its dead letters, or returns [haft.CodeNotFound],
// or [haft.CodeConflict] if its revision is not the one of the condition.
func (s Webhooks) RemoveWebhook(ctx context.Context, org string, id haft.WebhookID, condition string) error {
	return s.db.write(ctx, "remove the webhook", func(ctx context.Context, t *tx) error {
		if _, err := t.webhook(ctx, org, id, condition); err != nil {
			return err
		}
		if err := t.execOr(ctx, notFound("webhook"), "DELETE FROM webhooks WHERE org = $1 AND id = $2", column(org),
			column(string(id))); err != nil {
			return err
		}
		_, err := t.exec(ctx, "DELETE FROM dead_letters WHERE hook = $1", column(string(id)))
		return err
	})
}

// LeaseWebhook makes owner the one who delivers for a webhook for a while, if nobody else
// is, and reports whether it is. The clock is that of the database.
func (s Webhooks) LeaseWebhook(ctx context.Context, id haft.WebhookID, owner string, d time.Duration) (mine bool,
	err error) {
	err = s.db.write(ctx, "lease a webhook", func(ctx context.Context, t *tx) error {
		now, err := t.now(ctx)
		if err != nil {
			return err
		}
		n, err := t.exec(ctx,
			"UPDATE webhooks SET owner = $1, lease = $2 WHERE id = $3 AND disabled = 0 AND (owner = $1 OR lease < $4)",
			column(owner), now+d.Microseconds(), column(string(id)), now)
		mine = n == 1
		return err
	})
	return mine && err == nil, err
}

// MoveWebhook keeps how far a webhook is and how its deliveries go, with what could
// not be delivered, if owner is still the one who delivers; else it returns
// [haft.CodeConflict]. It never moves it back.
func (s Webhooks) MoveWebhook(ctx context.Context, owner string, w haft.Webhook, dead []haft.DeadLetter) error {
	state, err := stored.Encode(stateOf(&w))
	if err != nil {
		return err
	}
	id := column(string(w.ID))
	return s.db.write(ctx, "keep how a webhook goes", func(ctx context.Context, t *tx) error {
		if err := t.execOr(ctx, conflict("somebody else delivers for the webhook"), "UPDATE webhooks SET position = "+
			"$1, state = $2, disabled = CASE WHEN $3 = 1 THEN 1 ELSE disabled END WHERE id = $4 AND owner = $5 AND "+
			"position <= $1", w.Position, state, stored.Bool(w.Disabled), id, column(owner)); err != nil {
			return err
		}
		for _, l := range dead {
			doc, err := stored.Encode(l)
			if err = bounded(err, doc); err != nil {
				return err
			}
			if _, err := t.exec(ctx, "INSERT INTO dead_letters (hook, id, doc) VALUES ($1, $2, $3) ON CONFLICT "+
				"(hook, id) DO UPDATE SET doc = excluded.doc", id, column(l.ID), doc); err != nil {
				return err
			}
		}
		if len(dead) == 0 {
			return nil
		}
		_, err = t.exec(ctx, "DELETE FROM dead_letters WHERE hook = $1 AND id < (SELECT MIN(id) FROM (SELECT id "+
			"FROM dead_letters WHERE hook = $1 ORDER BY id DESC LIMIT $2) AS newest)", id, MaxDeadLetters)
		return err
	})
}

// DeadLetters lists what a webhook could not be sent, oldest first, after that id.
func (s Webhooks) DeadLetters(ctx context.Context, hook haft.WebhookID, after string,
	limit int) ([]haft.DeadLetter, error) {
	return list(ctx, s.db, "list dead letters", doc[haft.DeadLetter],
		unlogged("SELECT doc FROM dead_letters WHERE hook = $1 AND id > $2 ORDER BY id LIMIT $3"),
		column(string(hook)), column(after), page(limit))
}

// DeadLetter returns one, or [haft.CodeNotFound].
func (s Webhooks) DeadLetter(ctx context.Context, hook haft.WebhookID, id string) (*haft.DeadLetter, error) {
	return find(ctx, s.db, "dead letter", doc[haft.DeadLetter],
		unlogged("SELECT doc FROM dead_letters WHERE hook = $1 AND id = $2"), column(string(hook)), column(id))
}

// RemoveDeadLetter forgets one. One that is not there is no error.
func (s Webhooks) RemoveDeadLetter(ctx context.Context, hook haft.WebhookID, id string) error {
	_, err := s.db.exec(ctx, "forget a dead letter", "DELETE FROM dead_letters WHERE hook = $1 AND id = $2",
		column(string(hook)), column(id))
	return err
}
