package credential

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"mime"
	"net/http"
	"strconv"
	"strings"
	"time"

	"haft"
	"haft/internal/jsontree"
	"haft/internal/secret"
)

// The headers of a signed request.
const (
	HeaderTimestamp = "X-Haft-Timestamp"
	HeaderSignature = "X-Haft-Signature"
)

// post sends one request and returns its answer and how long to cache it.
func (c *Client) post(ctx context.Context, ask Ask) ([]secret.Named, time.Duration, error) {
	ctx, cancel := context.WithTimeout(ctx, c.cfg.Timeout)
	defer cancel()
	body, err := json.Marshal(ask)
	if err != nil {
		return nil, 0, fmt.Errorf("encode the question to the credentials webhook: %w", err)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.cfg.URL, bytes.NewReader(body))
	if err != nil {
		return nil, 0, failure("cannot be asked", err)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json")
	req.Header.Set("User-Agent", "haft")
	if !c.cfg.Key.IsZero() {
		req.Header.Set("Authorization", "Bearer "+c.cfg.Key.Reveal())
	}
	if !c.cfg.Signing.IsZero() {
		at := strconv.FormatInt(time.Now().Unix(), 10)
		req.Header.Set(HeaderTimestamp, at)
		req.Header.Set(HeaderSignature, Sign(c.cfg.Signing, at, body))
	}
	res, err := c.http.Do(req)
	if err != nil {
		if ctx.Err() != nil {
			return nil, 0, failure("took too long", err)
		}
		return nil, 0, failure("cannot be reached", err)
	}
	defer res.Body.Close()
	if err := checkStatus(res); err != nil {
		return nil, 0, err
	}
	// One more byte than allowed shows that the answer is too long.
	raw, err := io.ReadAll(io.LimitReader(res.Body, MaxAnswer+1))
	switch {
	case err != nil && ctx.Err() != nil:
		return nil, 0, failure("took too long", err)
	case err != nil:
		return nil, 0, failure("broke off its answer", err)
	case len(raw) > MaxAnswer:
		return nil, 0, failure(fmt.Sprintf("answered with more than %d bytes", MaxAnswer), nil)
	}
	values, err := Parse(raw)
	if err != nil {
		return nil, 0, err
	}
	return values, c.ttl(res.Header), nil
}

// checkStatus reports why an answer cannot be used.
func checkStatus(res *http.Response) error {
	switch {
	case res.StatusCode >= 300 && res.StatusCode < 400:
		return failure("answered with a redirect, which is not followed", nil)
	case res.StatusCode != http.StatusOK:
		return failure("answered with status "+strconv.Itoa(res.StatusCode), nil)
	}
	if kind := res.Header.Get("Content-Type"); kind != "" {
		name, _, err := mime.ParseMediaType(kind)
		if err != nil || name != "application/json" && !strings.HasSuffix(name, "+json") && name != "text/plain" {
			return failure("did not answer with JSON", err)
		}
	}
	return nil
}

// ttl returns how long an answer may be cached.
func (c *Client) ttl(h http.Header) time.Duration {
	ttl := c.cfg.TTL
	for _, part := range strings.Split(strings.Join(h.Values("Cache-Control"), ","), ",") {
		name, value, _ := strings.Cut(strings.ToLower(strings.TrimSpace(part)), "=")
		switch name {
		case "no-store", "no-cache":
			return 0
		case "max-age":
			n, err := strconv.ParseUint(strings.Trim(value, `"`), 10, 31)
			if err != nil {
				return 0 // an unreadable age means not to cache
			}
			ttl = time.Duration(n) * time.Second
		}
	}
	return min(ttl, MaxTTL)
}

// Parse reads an answer: one JSON object of texts and nulls. A name that is reserved,
// duplicate or not that of a variable refuses the whole answer: half an environment is
// useless.
func Parse(raw []byte) ([]secret.Named, error) {
	bad := func(why string) error { return failure("gave an answer that cannot be used: "+why, nil) }
	tree, err := jsontree.Decode(raw, jsontree.Limits{Bytes: MaxAnswer, Depth: 1})
	if err != nil {
		return nil, bad(err.Error())
	}
	object, ok := tree.(*jsontree.Object)
	if !ok {
		return nil, bad("it is not a JSON object")
	}
	if object.Len() > MaxVariables {
		return nil, bad(fmt.Sprintf("it has more than %d variables", MaxVariables))
	}
	var values []secret.Named
	for _, name := range object.Keys() {
		if err := secret.CheckEnvName(name); err != nil {
			return nil, bad(haft.MessageOf(err))
		}
		switch v := object.Value(name).(type) {
		case nil:
		case string:
			if len(v) > MaxValue || strings.IndexByte(v, 0) >= 0 {
				return nil, bad("the value of " + name + " is too long or holds NUL")
			}
			values = append(values, secret.Named{Name: name, Value: secret.New(v)})
		default:
			return nil, bad("the value of " + name + " is neither text nor null")
		}
	}
	return values, nil
}

// Sign returns the signature of a body at a time, in seconds since 1970.
func Sign(key secret.Value, timestamp string, body []byte) string {
	mac := hmac.New(sha256.New, []byte(key.Reveal()))
	mac.Write([]byte(timestamp + ".")) // hash.Hash never fails
	mac.Write(body)
	return "v1=" + hex.EncodeToString(mac.Sum(nil))
}
