package webhook

import (
	"context"
	"encoding/hex"
	"fmt"
	"strings"

	"haft"
	"haft/internal/store"
)

// Reseal encrypts the secrets of all webhooks again, also of those that are disabled:
// again is given what is kept of one and its label, and returns what to keep in its
// place, or nil to leave it. It returns how many were replaced. It may be stopped at
// any moment and called again.
func Reseal(ctx context.Context, s *store.Store, again func(sealed, label []byte) ([]byte, error)) (n int, err error) {
	for after := haft.WebhookID(""); ; {
		list, err := s.Webhooks.AllWebhooks(ctx, after, 0)
		if err != nil || len(list) == 0 {
			return n, err
		}
		for _, w := range list {
			after = w.ID
			text, ok := strings.CutPrefix(w.Secret, sealedPrefix)
			if !ok {
				continue
			}
			sealed, err := hex.DecodeString(text)
			if err != nil {
				return n, fmt.Errorf("read the secret of the webhook %s: %w", w.ID, err)
			}
			next, err := again(sealed, label(w.ID))
			if err != nil {
				return n, fmt.Errorf("encrypt the secret of the webhook %s again: %w", w.ID, err)
			}
			if next == nil {
				continue
			}
			replaced, err := s.Webhooks.ResealWebhook(ctx, w, sealedPrefix+hex.EncodeToString(next))
			if err != nil {
				return n, err
			}
			if replaced {
				n++
			}
		}
	}
}
