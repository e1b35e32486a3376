package webhook

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"iter"
	"net/url"
	"slices"
	"strings"

	"haft"
	"haft/internal/event"
	"haft/internal/store"
)

// The bounds of what a webhook names.
const (
	maxURL    = 2000
	maxListed = 100
	maxText   = 1000
)

// newID makes an id that cannot be guessed.
func newID(prefix string) string { return prefix + strings.ToLower(rand.Text()) }

// check reports why a webhook cannot be.
func (n *Sender) check(w haft.Webhook) error {
	var misfits []haft.Misfit
	fail := func(at, message string) { misfits = append(misfits, haft.Misfit{Pointer: at, Message: message}) }
	u, err := url.Parse(w.URL)
	switch {
	case len(w.URL) > maxURL || err != nil || u.Host == "" || u.Opaque != "":
		fail("/url", "is not an address")
	case u.Scheme != "https" && !(u.Scheme == "http" && n.cfg.Insecure):
		fail("/url", "must begin with https://")
	case u.User != nil || u.Fragment != "":
		fail("/url", "must have neither a user nor a fragment")
	}
	if len(w.Description) > maxText {
		fail("/description", "is too long")
	}
	for i, t := range w.Types {
		if !slices.Contains(haft.EventTypes(), t) {
			fail(fmt.Sprintf("/types/%d", i), "is not a type of events")
		}
	}
	for at, list := range map[string][]string{"/tools": w.Tools, "/agents": w.Agents, "/users": w.Users} {
		if len(list) > maxListed {
			fail(at, "names too many")
		}
		for i, s := range list[:min(len(list), maxListed)] {
			if s == "" || len(s) > maxText {
				fail(fmt.Sprintf("%s/%d", at, i), "is empty or too long")
			}
		}
	}
	if len(misfits) == 0 {
		return nil
	}
	slices.SortFunc(misfits, func(a, b haft.Misfit) int { return strings.Compare(a.Pointer, b.Pointer) })
	return &haft.Error{Code: haft.CodeInvalid, Message: "the webhook cannot be kept: " + misfits[0].Pointer + " " +
		misfits[0].Message, Misfits: misfits}
}

// label binds a sealed secret to its webhook.
func label(id haft.WebhookID) []byte { return []byte("webhook:" + string(id)) }

// sealedPrefix marks a secret that is encrypted.
const sealedPrefix = "sealed:"

// seal encrypts the secret of a webhook.
func (n *Sender) seal(id haft.WebhookID, secret string) (string, error) {
	if n.cfg.Seal == nil {
		return secret, nil
	}
	sealed, err := n.cfg.Seal([]byte(secret), label(id))
	if err != nil {
		return "", fmt.Errorf("encrypt the secret of a webhook: %w", err)
	}
	return sealedPrefix + hex.EncodeToString(sealed), nil
}

// unseal decrypts it.
func (n *Sender) unseal(id haft.WebhookID, kept string) (string, error) {
	text, ok := strings.CutPrefix(kept, sealedPrefix)
	if !ok {
		return kept, nil
	}
	sealed, err := hex.DecodeString(text)
	if err != nil {
		return "", fmt.Errorf("read the secret of a webhook: %w", err)
	}
	if n.cfg.Open == nil {
		return "", &haft.Error{Code: haft.CodeUnavailable, Message: "the secrets of webhooks cannot be decrypted here"}
	}
	plain, err := n.cfg.Open(sealed, label(id))
	if err != nil {
		return "", fmt.Errorf("decrypt the secret of a webhook: %w", err)
	}
	return string(plain), nil
}

// Webhook implements [haft.Webhooks].
func (n *Sender) Webhook(ctx context.Context, p haft.Principal, id haft.WebhookID) (*haft.Webhook, error) {
	s, err := n.own(ctx, p, id)
	if err != nil {
		return nil, err
	}
	return &s.Webhook, nil
}

// own returns a webhook of p's organisation, which p manages.
func (n *Sender) own(ctx context.Context, p haft.Principal, id haft.WebhookID) (*store.Subscription, error) {
	if err := n.cfg.May(p, haft.WebhooksRead); err != nil && n.cfg.May(p, haft.WebhooksWrite) != nil {
		return nil, err // who writes one looks at it first
	}
	return n.store.Webhooks.Webhook(ctx, p.Org, id)
}

// WebhookList implements [haft.Webhooks].
func (n *Sender) WebhookList(ctx context.Context, p haft.Principal) iter.Seq2[haft.Webhook, error] {
	return func(yield func(haft.Webhook, error) bool) {
		err := n.cfg.May(p, haft.WebhooksRead)
		var list []haft.Webhook
		if err == nil {
			list, err = n.store.Webhooks.Webhooks(ctx, p.Org)
		}
		if err != nil {
			yield(haft.Webhook{}, err)
			return
		}
		for _, w := range list {
			if !yield(w, nil) {
				return
			}
		}
	}
}

// PutWebhook implements [haft.Webhooks].
func (n *Sender) PutWebhook(ctx context.Context, p haft.Principal,
	w haft.Webhook) (kept *haft.Webhook, secret string, err error) {
	w.Org = p.Org
	kind := "webhook.set"
	if w.ID == "" {
		kind = "webhook.add"
	}
	err = n.cfg.Manage(ctx, p, haft.WebhooksWrite, kind, func(ctx context.Context) (any, error) {
		if err := n.check(w); err != nil {
			return nil, err
		}
		if w.ID != "" {
			kept, err = n.store.Webhooks.SetWebhook(ctx, w)
		} else {
			kept, secret, err = n.add(ctx, w)
		}
		if err != nil {
			return nil, err
		}
		return map[string]any{"id": kept.ID, "url": kept.URL, "types": kept.Types, "disabled": kept.Disabled}, nil
	})
	if err != nil {
		return nil, "", err
	}
	n.nudge()
	return kept, secret, nil
}

// add keeps a new webhook, which goes on from now.
func (n *Sender) add(ctx context.Context, w haft.Webhook) (*haft.Webhook, string, error) {
	secret, err := newSecret()
	if err != nil {
		return nil, "", err
	}
	w.ID = haft.WebhookID(newID("wh_"))
	sealed, err := n.seal(w.ID, secret)
	if err != nil {
		return nil, "", err
	}
	if w.Position, err = n.cfg.Cursor(ctx); err != nil {
		return nil, "", err
	}
	kept, err := n.store.Webhooks.AddWebhook(ctx, w, sealed)
	return kept, secret, err
}

// RemoveWebhook implements [haft.Webhooks].
func (n *Sender) RemoveWebhook(ctx context.Context, p haft.Principal, id haft.WebhookID, revision string) error {
	err := n.cfg.Manage(ctx, p, haft.WebhooksWrite, "webhook.remove", func(ctx context.Context) (any, error) {
		return map[string]any{"id": id}, n.store.Webhooks.RemoveWebhook(ctx, p.Org, id, revision)
	})
	n.nudge()
	return err
}

// DeadLetters implements [haft.WebhookAdmin].
func (n *Sender) DeadLetters(ctx context.Context, p haft.Principal, id haft.WebhookID) iter.Seq2[haft.DeadLetter,
	error] {
	return func(yield func(haft.DeadLetter, error) bool) {
		if _, err := n.own(ctx, p, id); err != nil {
			yield(haft.DeadLetter{}, err)
			return
		}
		for after := ""; ; {
			list, err := n.store.Webhooks.DeadLetters(ctx, id, after, pageSize)
			if err != nil {
				yield(haft.DeadLetter{}, err)
				return
			}
			for _, l := range list {
				if after = l.ID; !yield(l, nil) {
					return
				}
			}
			if len(list) < pageSize {
				return
			}
		}
	}
}

// Redeliver implements [haft.WebhookAdmin].
func (n *Sender) Redeliver(ctx context.Context, p haft.Principal, id haft.WebhookID,
	letter string) (sent int, err error) {
	err = n.cfg.Manage(ctx, p, haft.WebhooksWrite, "webhook.redeliver", func(ctx context.Context) (any, error) {
		w, err := n.store.Webhooks.Webhook(ctx, p.Org, id)
		if err != nil {
			return nil, err
		}
		secret, err := n.unseal(id, w.Secret)
		if err != nil {
			return nil, err
		}
		list := []haft.DeadLetter{}
		if letter == "" {
			list, err = n.store.Webhooks.DeadLetters(ctx, id, "", pageSize)
		} else if one, e := n.store.Webhooks.DeadLetter(ctx, id, letter); e != nil {
			err = e
		} else {
			list = append(list, *one)
		}
		if err != nil {
			return nil, err
		}
		for _, l := range list {
			m, err := newMessage(event.WithoutValue(l.Event))
			if err != nil {
				return nil, err
			}
			if failure, _ := n.post(ctx, w.URL, secret, m); failure != "" {
				if sent > 0 {
					break
				}
				return nil, &haft.Error{Code: haft.CodeConflict, Message: "it could not be delivered: " + failure}
			}
			if err := n.store.Webhooks.RemoveDeadLetter(context.WithoutCancel(ctx), id, l.ID); err != nil {
				return nil, err
			}
			sent++
		}
		return map[string]any{"id": id, "delivered": sent}, nil
	})
	return sent, err
}
