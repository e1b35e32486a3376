package oauth

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"haft"
	"haft/internal/secret"
)

// Bounds of an answer and its fields.
const (
	maxAnswer = 1 << 20
	maxToken  = 8 << 10
	maxField  = 2 << 10
)

// Check reports, as an error with [haft.CodeInvalid], what is wrong with o.
func Check(o secret.OAuth, insecure bool) error {
	bad := func(why string) error {
		return &haft.Error{Code: haft.CodeInvalid, Message: "oauth: " + why}
	}
	u, err := url.Parse(o.TokenURL)
	switch {
	case err != nil || u.Host == "" || u.User != nil || u.Fragment != "" || len(o.TokenURL) > maxField:
		return bad("the token URL is not one of the form https://HOST/PATH")
	case u.Scheme != "https" && !(insecure && u.Scheme == "http"):
		return bad("the token URL is not https")
	case o.Grant != secret.GrantClient && o.Grant != secret.GrantRefresh:
		return bad("the grant is " + secret.GrantClient + " or " + secret.GrantRefresh)
	case o.ClientID == "":
		return bad("there is no client id")
	}
	for _, s := range []string{o.ClientID, o.Scope, o.Audience} {
		if len(s) > maxField || strings.ContainsFunc(s, func(r rune) bool { return r < ' ' || r > '~' }) {
			return bad("client id, scope and audience are printable and not long")
		}
	}
	return nil
}

// check reports what is wrong with an ask.
func (c *Client) check(a Ask) error {
	if err := Check(a.OAuth, c.cfg.Insecure); err != nil {
		return err
	}
	if a.Grant == secret.GrantRefresh && a.Refresh.IsZero() || a.Grant == secret.GrantClient && a.Client.IsZero() {
		return &haft.Error{Code: haft.CodeInvalid, Message: "oauth: the secret has no value to exchange"}
	}
	return nil
}

// answer is the answer of a server.
type answer struct {
	access, refresh secret.Value
	life            time.Duration // how long it is used
}

// exchange sends the request to the server.
func (c *Client) exchange(ctx context.Context, a Ask) (answer, error) {
	ctx, cancel := context.WithTimeout(ctx, c.cfg.Timeout)
	defer cancel()
	form := url.Values{"grant_type": {a.Grant}}
	set := func(name, value string) {
		if value != "" {
			form.Set(name, value)
		}
	}
	set("scope", a.Scope)
	set("audience", a.Audience)
	set("refresh_token", a.Refresh.Reveal())
	basic := !a.Post && !a.Client.IsZero()
	if !basic {
		set("client_id", a.ClientID)
		set("client_secret", a.Client.Reveal())
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, a.TokenURL, strings.NewReader(form.Encode()))
	if err != nil {
		return answer{}, unavailable("the token URL cannot be asked", err)
	}
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	req.Header.Set("Accept", "application/json")
	if basic {
		// RFC 6749, 2.3.1: both are form-encoded first.
		req.SetBasicAuth(url.QueryEscape(a.ClientID), url.QueryEscape(a.Client.Reveal()))
	}
	hc := *c.cfg.HTTP
	hc.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	resp, err := hc.Do(req)
	if err != nil {
		// Errors of an HTTP client contain the URL, and never the body.
		return answer{}, unavailable(unreached(err), err)
	}
	defer resp.Body.Close() // only read
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer+1))
	if err != nil {
		return answer{}, unavailable("the token endpoint broke off", err)
	}
	if len(body) > maxAnswer {
		return answer{}, unavailable(fmt.Sprintf("the token endpoint answered with more than %d bytes", maxAnswer), nil)
	}
	return read(resp.StatusCode, body)
}

// unreached says why there was no answer, without the text of err.
func unreached(err error) string {
	if e, ok := errors.AsType[*haft.Error](err); ok && e.Code == haft.CodeDenied {
		return "the token endpoint may not be reached: " + e.Message
	}
	if errors.Is(err, context.DeadlineExceeded) {
		return "the token endpoint took too long"
	}
	return "the token endpoint cannot be reached"
}

// codes are the errors that RFC 6749 registers. Nothing else of a refusal is repeated: it
// may contain what was sent.
var codes = map[string]string{
	"invalid_request": "the request lacks something", "invalid_client": "the client or its secret is not accepted",
	"invalid_grant":          "the refresh token is not accepted: it is over, withdrawn or of another client",
	"unauthorized_client":    "the client may not use this grant",
	"unsupported_grant_type": "the grant is not supported", "invalid_scope": "the scope is not accepted",
	"invalid_target": "the audience is not accepted", "temporarily_unavailable": "it is away for a while",
	"slow_down": "it is asked too often",
}

// read reads an answer.
func read(status int, body []byte) (answer, error) {
	var got struct {
		Access  string          `json:"access_token"`
		Type    string          `json:"token_type"`
		Refresh string          `json:"refresh_token"`
		Expires json.RawMessage `json:"expires_in"`
		Error   string          `json:"error"`
	}
	err := json.Unmarshal(body, &got)
	switch words, known := codes[got.Error]; {
	case err == nil && known:
		return answer{}, unavailable("the token endpoint says "+got.Error+": "+words, nil)
	case status != http.StatusOK:
		return answer{}, unavailable(fmt.Sprintf("the token endpoint answered with status %d", status), nil)
	case err != nil:
		return answer{}, unavailable("the answer of the token endpoint is not JSON", nil) // err may quote it
	case got.Type != "" && !strings.EqualFold(got.Type, "bearer"):
		return answer{}, unavailable("the token is not one for bearers", nil)
	case !opaque(got.Access) || got.Refresh != "" && !opaque(got.Refresh):
		return answer{}, unavailable("the answer of the token endpoint has no token that can be used", nil)
	}
	life, err := lifetime(got.Expires)
	if err != nil {
		return answer{}, err
	}
	return answer{access: secret.New(got.Access), refresh: secret.New(got.Refresh), life: life}, nil
}

// opaque reports whether a token has only visible characters and a sensible length (RFC
// 6749, A.12).
func opaque(token string) bool {
	return len(token) >= 6 && len(token) <= maxToken &&
		!strings.ContainsFunc(token, func(r rune) bool { return r <= ' ' || r > '~' })
}

// lifetime is how long a token is used: less than it is valid, since requests take time.
// Some servers write the number as text.
func lifetime(raw json.RawMessage) (time.Duration, error) {
	text := strings.Trim(string(raw), `"`)
	if text == "" || text == "null" {
		return noExpiry, nil
	}
	seconds, err := strconv.ParseFloat(text, 64)
	if err != nil || seconds != seconds {
		return 0, unavailable("the answer of the token endpoint does not say how long the token is good", nil)
	}
	life := time.Duration(min(max(seconds, 0), longest.Seconds()) * float64(time.Second))
	return life - min(early, life/10), nil
}
