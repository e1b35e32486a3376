package webhook

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"haft"
)

// secretPrefix marks secrets of webhooks, as Standard Webhooks has it.
const secretPrefix = "whsec_"

// newSecret makes a secret that cannot be guessed.
func newSecret() (string, error) {
	key := make([]byte, 32)
	if _, err := rand.Read(key); err != nil {
		return "", fmt.Errorf("make a secret: %w", err)
	}
	return secretPrefix + base64.StdEncoding.EncodeToString(key), nil
}

// A message is one event on its way to one webhook.
type message struct {
	id   string
	body []byte
}

// newMessage writes an event as Standard Webhooks has it. The id is the same with
// every try, and rises with the events.
func newMessage(e haft.Event) (message, error) {
	body, err := json.Marshal(struct {
		Type      haft.EventType `json:"type"`
		Timestamp time.Time      `json:"timestamp"`
		Data      haft.Event     `json:"data"`
	}{e.Type, e.Time, e})
	if err != nil {
		return message{}, fmt.Errorf("write an event: %w", err)
	}
	return message{fmt.Sprintf("msg_%016x", e.Cursor), body}, nil
}

// sign puts the headers of Standard Webhooks on a request.
func (m message) sign(h http.Header, secret string, now time.Time) error {
	key, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(secret, secretPrefix))
	if err != nil {
		return errors.New("the secret of a webhook is damaged")
	}
	at := strconv.FormatInt(now.Unix(), 10)
	mac := hmac.New(sha256.New, key)
	mac.Write([]byte(m.id + "." + at + "."))
	mac.Write(m.body)
	h.Set("Webhook-Id", m.id)
	h.Set("Webhook-Timestamp", at)
	h.Set("Webhook-Signature", "v1,"+base64.StdEncoding.EncodeToString(mac.Sum(nil)))
	return nil
}
