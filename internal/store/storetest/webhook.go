package storetest

import (
	"testing"
	"time"

	"haft"
	"haft/internal/store"
)

func webhooks(t testing.TB, s *store.Store) {
	ctx := t.Context()
	resealed(t, s)
	w, err := s.Webhooks.AddWebhook(ctx, haft.Webhook{ID: "wh_1", Org: "acme", URL: "https://example.com/",
		Types: []haft.EventType{haft.EventCompleted}, Position: 5}, "secret")
	if err != nil {
		t.Fatal(err)
	}
	_, err = s.Webhooks.AddWebhook(ctx, *w, "other")
	refused(t, "AddWebhook twice", err, haft.CodeConflict)
	_, err = s.Webhooks.Webhook(ctx, "other", w.ID)
	refused(t, "Webhook of a stranger", err, haft.CodeNotFound)
	for _, tt := range []struct {
		owner string
		d     time.Duration
		want  bool
	}{{"a", time.Hour, true}, {"b", time.Hour, false}, {"a", -time.Second, true}, {"b", time.Hour, true}} {
		if mine, err := s.Webhooks.LeaseWebhook(ctx, w.ID, tt.owner, tt.d); err != nil || mine != tt.want {
			t.Errorf("LeaseWebhook of %s for %v = %v, %v; want %v", tt.owner, tt.d, mine, err, tt.want)
		}
	}
	moved := *w
	moved.Position, moved.Failure, moved.FailingSince = 9, "away", at
	refused(t, "MoveWebhook of somebody else", s.Webhooks.MoveWebhook(ctx, "a", moved, nil), haft.CodeConflict)
	letter := haft.DeadLetter{ID: "msg_1", Webhook: w.ID, Event: happened("acme", "c1", 7, 1), Tries: 3,
		Failure: "away", Died: at}
	if err := s.Webhooks.MoveWebhook(ctx, "b", moved, []haft.DeadLetter{letter}); err != nil {
		t.Fatal(err)
	}
	moved.Position = 8
	refused(t, "MoveWebhook back", s.Webhooks.MoveWebhook(ctx, "b", moved, nil), haft.CodeConflict)
	got, err := s.Webhooks.Webhook(ctx, "acme", w.ID)
	if err != nil || got.Position != 9 || got.Failure != "away" || got.Secret != "secret" || got.URL != w.URL {
		t.Errorf("Webhook = %+v, %v", got, err)
	}
	dead, err := s.Webhooks.DeadLetters(ctx, w.ID, "", 0)
	if err != nil || len(dead) != 1 || dead[0].Event.Call != "c1" {
		t.Errorf("DeadLetters = %+v, %v", dead, err)
	}
	off := got.Webhook
	off.Disabled, off.If = true, got.Revision()
	if _, err := s.Webhooks.SetWebhook(ctx, off); err != nil {
		t.Error(err)
	}
	_, err = s.Webhooks.SetWebhook(ctx, off)
	refused(t, "SetWebhook over an old revision", err, haft.CodeConflict)
	if list, err := s.Webhooks.ActiveWebhooks(ctx, "", 0); err != nil || len(list) != 0 {
		t.Errorf("ActiveWebhooks = %+v, %v", list, err)
	}
	if err := s.Webhooks.RemoveWebhook(ctx, "acme", w.ID, ""); err != nil {
		t.Error(err)
	}
	if dead, err := s.Webhooks.DeadLetters(ctx, w.ID, "", 0); err != nil || len(dead) != 0 {
		t.Errorf("DeadLetters of one that is gone = %+v, %v", dead, err)
	}
}

// resealed: the secret of a webhook is replaced only if it is still the one that was
// read, and those that are disabled are listed too.
func resealed(t testing.TB, s *store.Store) {
	t.Helper()
	ctx := t.Context()
	for i, disabled := range []bool{false, true} {
		if _, err := s.Webhooks.AddWebhook(ctx, haft.Webhook{ID: haft.WebhookID(count("r", i)), Org: "seals",
			URL: "https://a.test", Disabled: disabled}, "old"); err != nil {
			t.Fatal(err)
		}
	}
	list, err := s.Webhooks.AllWebhooks(ctx, "", 0)
	if err != nil || len(list) != 2 || list[0].Secret != "old" {
		t.Fatalf("AllWebhooks = %+v, %v", list, err)
	}
	for i, want := range []bool{true, false} {
		if ok, err := s.Webhooks.ResealWebhook(ctx, list[0], count("new", i)); err != nil || ok != want {
			t.Errorf("ResealWebhook %d = %v, %v", i, ok, err)
		}
	}
	if w, err := s.Webhooks.Webhook(ctx, "seals", list[0].ID); err != nil || w.Secret != count("new", 0) {
		t.Errorf("the secret is %q, %v", w.Secret, err)
	}
	if rest, err := s.Webhooks.AllWebhooks(ctx, list[0].ID, 1); err != nil || len(rest) != 1 ||
		rest[0].ID != list[1].ID {
		t.Errorf("AllWebhooks after the first = %+v, %v", rest, err)
	}
	for _, w := range list {
		if err := s.Webhooks.RemoveWebhook(ctx, "seals", w.ID, ""); err != nil {
			t.Error(err)
		}
	}
}
