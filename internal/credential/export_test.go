package credential

import (
	"crypto/hmac"
	"net/http"
	"strconv"
	"time"

	"haft"
	"haft/internal/secret"
)

// Kept counts the answers in memory.
func (c *Client) Kept() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.kept)
}

// Forget drops what is kept, so that the next call asks again.
func (c *Client) Forget() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for k, a := range c.kept {
		if a.settled {
			delete(c.kept, k)
		}
	}
}

// Verify checks a request as its receiver should: that it is signed with key, and
// not longer ago, or ahead, than tolerance.
func Verify(key secret.Value, h http.Header, body []byte, now time.Time, tolerance time.Duration) error {
	denied := func(why string) error { return &haft.Error{Code: haft.CodeUnauthenticated, Message: why} }
	at := h.Get(HeaderTimestamp)
	seconds, err := strconv.ParseInt(at, 10, 64)
	if err != nil || key.IsZero() {
		return denied("the request has no timestamp")
	}
	if !hmac.Equal([]byte(Sign(key, at, body)), []byte(h.Get(HeaderSignature))) {
		return denied("the request is not signed with this key")
	}
	if age := now.Sub(time.Unix(seconds, 0)); age > tolerance || age < -tolerance {
		return denied("the request is of another time")
	}
	return nil
}
