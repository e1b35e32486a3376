package apimock

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"unicode/utf8"

	"haft/internal/secret"
)

// removed is what is recorded in place of a credential.
const removed = "[removed]"

// answerHeaders are the headers of answers that are recorded. All others depend on the day or on the connection, or
// may have credentials in them, as Set-Cookie has.
var answerHeaders = []string{"Cache-Control", "Content-Disposition", "Content-Language", "Content-Type", "Etag",
	"Last-Modified", "Link", "Location", "Retry-After", "Vary", "Www-Authenticate"}

// headerBegins are beginnings of headers that are recorded, too.
var headerBegins = []string{"X-Ratelimit-", "Ratelimit", "X-Total-", "X-Page", "X-Next-"}

// secretFields are fields of JSON whose values are credentials, without their - and _ and in lower case.
var secretFields = []string{"accesskey", "accesstoken", "apikey", "assertion", "clientassertion", "clientsecret",
	"devicecode", "idtoken", "jwt", "passphrase", "passwd", "password", "privatekey", "refreshtoken", "secret",
	"secretaccesskey", "secretkey", "sessiontoken", "token"}

// secretParams are parameters of a URL or a form that are credentials, besides the fields.
var secretParams = []string{"appid", "auth", "authorization", "bearer", "code", "codeverifier", "credential", "key",
	"session", "sessionid", "sig", "signature", "xamzcredential", "xamzsecuritytoken", "xamzsignature", "xapikey"}

// isAmong reports whether a name is in one of the lists.
func isAmong(name string, lists ...[]string) bool {
	name = strings.NewReplacer("-", "", "_", "", ".", "").Replace(strings.ToLower(name))
	return slices.ContainsFunc(lists, func(l []string) bool { return slices.Contains(l, name) })
}

// A cleaner removes credentials from what is recorded and shown.
type cleaner struct{ redactor *secret.Redactor }

// newCleaner makes a cleaner that also knows values.
func newCleaner(values []secret.Named) *cleaner {
	return &cleaner{secret.NewRedactor(secret.Config{Values: values, Formats: true})}
}

// text removes values and texts of known formats. The names of secrets that the proxy puts in stay.
func (c *cleaner) text(s string) string { return c.redactor.Text(s) }

// url returns a URL without credentials, its parameters in order.
func (c *cleaner) url(u *url.URL) string {
	clean := *u
	clean.User, clean.Fragment, clean.RawFragment = nil, "", ""
	query := c.fields(u.Query())
	var pairs []string
	for name, values := range query {
		for _, v := range values {
			pairs = append(pairs, escape(name)+"="+escape(v))
		}
	}
	slices.Sort(pairs)
	clean.RawQuery = strings.Join(pairs, "&")
	return c.text(clean.String())
}

// escape escapes a part of a query, except the characters of the names of secrets.
func escape(s string) string {
	return strings.NewReplacer("%24", "$", "%7B", "{", "%7D", "}", "%5B", "[", "%5D", "]").Replace(url.QueryEscape(s))
}

// fields removes the values of credentials from parameters or a form.
func (c *cleaner) fields(values url.Values) url.Values {
	out := url.Values{}
	for name, list := range values {
		for _, v := range list {
			if isAmong(name, secretFields, secretParams) && !isNamed(v) {
				v = removed
			}
			out.Add(name, v)
		}
	}
	return out
}

// isNamed reports whether a value is the name of a secret that the proxy puts in.
func isNamed(v string) bool { return strings.HasPrefix(v, "${secrets.") && strings.HasSuffix(v, "}") }

// request returns a request as a cassette has it.
func (c *cleaner) request(s Seen) recordedRequest {
	body := s.Body
	if strings.HasPrefix(s.Header.Get("Content-Type"), "application/x-www-form-urlencoded") {
		if form, err := url.ParseQuery(string(body)); err == nil {
			body = []byte(c.fields(form).Encode())
		}
	} else if raw, ok := c.json(body); ok {
		body = raw
	}
	return recordedRequest{Method: s.Method, URL: s.To, Body: digest(c.redactor.Bytes(body))}
}

// answer returns an answer as a cassette has it.
func (c *cleaner) answer(resp *http.Response, body []byte) Answer {
	a := Answer{Status: resp.StatusCode}
	for name, values := range resp.Header {
		if !slices.Contains(answerHeaders, name) &&
			!slices.ContainsFunc(headerBegins, func(p string) bool { return strings.HasPrefix(name, p) }) {
			continue
		}
		if a.Headers == nil {
			a.Headers = map[string][]string{}
		}
		for _, v := range values {
			if name == "Location" {
				if u, err := url.Parse(v); err == nil && u.RawQuery != "" {
					v = c.url(u)
				}
			}
			a.Headers[name] = append(a.Headers[name], c.text(v))
		}
	}
	raw, isJSON := c.json(body)
	switch {
	case isJSON && strings.Contains(resp.Header.Get("Content-Type"), "json"):
		a.JSON = raw
	case isJSON:
		a.Body = string(raw)
	case utf8.Valid(body):
		a.Body = c.text(string(body))
	default:
		a.Base64 = c.redactor.Bytes(body)
	}
	return a
}

// json removes credentials from an object or list in JSON. It returns false if the body is something else.
func (c *cleaner) json(body []byte) (json.RawMessage, bool) {
	trimmed := bytes.TrimSpace(body)
	if len(trimmed) == 0 || trimmed[0] != '{' && trimmed[0] != '[' || !json.Valid(trimmed) || !utf8.Valid(trimmed) {
		return nil, false
	}
	var v any
	if decode(trimmed, &v) != nil {
		return nil, false
	}
	found := c.value(&v, 0)
	if found { // else the order of the fields stays
		trimmed = []byte(jsonText(v))
	}
	clean, _ := c.redactor.JSON(trimmed)
	return clean, true
}

// value removes credentials from a value, and reports whether there were any. What is nested too deep is removed.
func (c *cleaner) value(v *any, depth int) bool {
	if depth > maxDepth {
		*v = removed
		return true
	}
	found := false
	switch x := (*v).(type) {
	case map[string]any:
		for name, field := range x {
			if text, ok := field.(string); ok && isAmong(name, secretFields) && text != "" && !isNamed(text) {
				x[name], found = removed, true
				continue
			}
			if c.value(&field, depth+1) {
				x[name], found = field, true
			}
		}
	case []any:
		for i := range x {
			found = c.value(&x[i], depth+1) || found
		}
	}
	return found
}
