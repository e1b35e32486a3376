package auth

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// The schemes of the Authorization header.
const (
	SchemeBearer = "Bearer"
	SchemeSigned = "HAFT-HMAC-SHA256"
)

// The bounds of a signed request.
const (
	minNonce  = 16
	maxNonce  = 64
	maxMethod = 16
	maxTarget = 16 << 10
	hexLen    = 2 * sha256.Size
	maxDigits = 11 // of a time: until the year 5138
)

// A signature is what a signed request says of itself.
type signature struct {
	key, time, nonce, body string
	at                     time.Time
	sum                    []byte
}

// text returns the text to sign, see the package comment.
func (s signature) text(method, target string) string {
	return strings.Join([]string{SchemeSigned, s.key, s.time, s.nonce, method, target, s.body}, "\n")
}

// parseSignature reads what follows the scheme. There is one way to write it.
func parseSignature(text string) (signature, bool) {
	var s signature
	const most = len("key=,time=,nonce=,body=,signature=") + idLen + maxDigits + maxNonce + 2*hexLen
	if len(text) > most {
		return s, false
	}
	var sum string
	parts := strings.Split(text, ",")
	fields := []struct {
		name string
		to   *string
	}{{"key=", &s.key}, {"time=", &s.time}, {"nonce=", &s.nonce}, {"body=", &s.body}, {"signature=", &sum}}
	if len(parts) != len(fields) {
		return s, false
	}
	for i, f := range fields {
		v, ok := strings.CutPrefix(parts[i], f.name)
		if !ok {
			return s, false
		}
		*f.to = v
	}
	at, ok := parseTime(s.time)
	if !ok || !isKeyID(s.key) || !isNonce(s.nonce) || !lowerHex(s.body) || !lowerHex(sum) {
		return s, false
	}
	raw, err := hex.DecodeString(sum)
	s.at, s.sum = at, raw
	return s, err == nil
}

// parseTime reads seconds since 1970.
func parseTime(s string) (time.Time, bool) {
	if s == "" || len(s) > maxDigits || s[0] == '0' || strings.Trim(s, "0123456789") != "" {
		return time.Time{}, false
	}
	n, err := strconv.ParseInt(s, 10, 64)
	return time.Unix(n, 0), err == nil
}

func isNonce(s string) bool {
	return len(s) >= minNonce && len(s) <= maxNonce &&
		strings.Trim(s, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_") == ""
}

func lowerHex(s string) bool {
	return len(s) == hexLen && strings.Trim(s, "0123456789abcdef") == ""
}

// isTarget reports whether s can be in a request line: it begins with a path and
// holds no byte that could end a line or would have been escaped.
func isTarget(s string) bool {
	return len(s) <= maxTarget && strings.HasPrefix(s, "/") && !strings.Contains(s, "#") &&
		!strings.ContainsFunc(s, func(r rune) bool { return r <= ' ' || r >= 0x7f })
}

func isMethod(s string) bool {
	return s != "" && len(s) <= maxMethod && strings.Trim(s, "ABCDEFGHIJKLMNOPQRSTUVWXYZ") == ""
}

// signed authenticates a signed request. The nonce is used last, so that only the owner of the
// key can use one.
func (a *Authenticator) signed(ctx context.Context, c Credential) (Identity, error) {
	s, ok := parseSignature(c.Token)
	if !ok || !isTarget(c.Target) || !isMethod(c.Method) {
		return Identity{}, refuse(ReasonMalformed, "")
	}
	k, known, err := a.keyring.find(ctx, s.key)
	if err != nil {
		return Identity{}, err
	}
	hit := a.keyring.vault.signed(k.Org, k.ID, s.text(c.Method, c.Target), s.sum, [2]Proof{k.Secret, k.Previous})
	id, err := a.keyring.accept(ctx, k, known, hit, func(now time.Time) (Reason, error) {
		if s.at.Before(now.Add(-a.skew)) || s.at.After(now.Add(a.skew)) {
			return ReasonClock, nil
		}
		until := s.at.Add(a.skew + time.Second) // from then on the time alone refuses it
		fresh, err := a.nonces.Use(ctx, s.key, s.nonce, s.at, until)
		if err != nil {
			return "", fmt.Errorf("remember a nonce: %w", err)
		}
		if !fresh {
			return ReasonReplay, nil
		}
		return "", nil
	})
	if err != nil {
		return Identity{}, err
	}
	id.Signed, id.Digest = true, s.body
	return id, nil
}

// Sign signs a request with an API key, for clients. It sets Authorization, and
// reads the body through GetBody, which [http.NewRequest] sets for bodies in
// memory. A request that is sent again is signed again.
func Sign(req *http.Request, key string) error {
	id, ok := ParseKey(key)
	if !ok {
		return invalid("this is not an API key")
	}
	method := req.Method
	if method == "" {
		method = http.MethodGet
	}
	target := req.URL.RequestURI()
	if !isMethod(method) || !isTarget(target) {
		return invalid("a request with this method or address cannot be signed")
	}
	body, err := digest(req)
	if err != nil {
		return err
	}
	s := signature{key: id, time: strconv.FormatInt(time.Now().Unix(), 10), nonce: alphabet.EncodeToString(random()),
		body: body}
	sum := mac(mac([]byte(key), signingLabel), s.text(method, target))
	req.Header.Set("Authorization", fmt.Sprintf("%s key=%s,time=%s,nonce=%s,body=%s,signature=%x", SchemeSigned, s.key,
		s.time, s.nonce, s.body, sum))
	return nil
}

// digest returns that of the body of a request to be sent.
func digest(req *http.Request) (string, error) {
	if req.Body == nil || req.Body == http.NoBody {
		return emptyDigest, nil
	}
	if req.GetBody == nil {
		return "", invalid("a body that can be read only once cannot be signed: set GetBody")
	}
	body, err := req.GetBody()
	if err != nil {
		return "", fmt.Errorf("read the body to sign: %w", err)
	}
	defer body.Close()
	h := sha256.New()
	if _, err := io.Copy(h, body); err != nil {
		return "", fmt.Errorf("read the body to sign: %w", err)
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}
