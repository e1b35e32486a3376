package secret

import (
	"encoding/json"
	"slices"
	"strings"
	"time"
)

// A Binding restricts a secret to some hosts and one place in a request. Programs never
// get a bound secret. They get a [Placeholder], which is replaced outside of their
// sandbox.
//
// A Binding contains no secret itself. Without hosts it restricts nothing.
type Binding struct {
	// Hosts are network rules, such as "api.example.com" or
	// "GET https://api.example.com/v1/*". A rule without a scheme is for https only.
	Hosts []string `json:"hosts"`
	// Header is the name of a header, and Prefix the text before the secret in it,
	// such as "Bearer ".
	Header string `json:"header,omitempty"`
	Prefix string `json:"prefix,omitempty"`
	// Query is the name of a parameter of the URL.
	Query string `json:"query,omitempty"`
	// Basic is "user" or "password" of basic authentication.
	Basic string `json:"basic,omitempty"`
	// OAuth exchanges the secret for tokens, which are sent to the hosts; nil means
	// that the secret itself is sent.
	OAuth *OAuth `json:"oauth,omitempty"`
}

// Info describes a stored value without revealing it.
type Info struct {
	Name string `json:"name"`
	// Fingerprint is the same for the same value, and reveals nothing about it.
	Fingerprint string `json:"fingerprint"`
	// Bound restricts where it is sent; nil means that tools get it.
	Bound   *Binding  `json:"bound,omitempty"`
	Created time.Time `json:"created_at"`
	Updated time.Time `json:"updated_at"`
}

// The grants of [OAuth].
const (
	GrantClient  = "client_credentials" // the secret is that of the client
	GrantRefresh = "refresh_token"      // the secret is a refresh token
)

// OAuth says how a secret is exchanged for access tokens (RFC 6749).
type OAuth struct {
	// TokenURL is the https URL of the token endpoint.
	TokenURL string `json:"token_url"`
	Grant    string `json:"grant"`
	ClientID string `json:"client_id"`
	// Scope and Audience are sent if they are not empty.
	Scope    string `json:"scope,omitempty"`
	Audience string `json:"audience,omitempty"`
	// Post sends the client secret in the body instead of basic authentication.
	Post bool `json:"post,omitempty"`
}

// Parts returns the client secret and the refresh token that a value contains. The value
// is one of the two alone, or, if the client of a refresh token has a secret, a JSON
// object with refresh_token and client_secret.
func (o *OAuth) Parts(v Value) (client, refresh Value) {
	if o.Grant == GrantClient {
		return v, Value{}
	}
	var both struct {
		Refresh string `json:"refresh_token"`
		Client  string `json:"client_secret"`
	}
	text := v.Reveal()
	if strings.HasPrefix(text, "{") && json.Unmarshal([]byte(text), &both) == nil && both.Refresh != "" {
		return New(both.Client), New(both.Refresh)
	}
	return Value{}, v
}

// Join is the inverse of Parts.
func (o *OAuth) Join(client, refresh Value) (Value, error) {
	switch {
	case o.Grant == GrantClient:
		return client, nil
	case client.IsZero():
		return refresh, nil
	}
	raw, err := json.Marshal(map[string]string{"refresh_token": refresh.Reveal(), "client_secret": client.Reveal()})
	if err != nil {
		return Value{}, errNotText // the cause may quote the secret
	}
	return New(string(raw)), nil
}

// Encode returns the canonical text of b, "" if it restricts nothing.
func (b *Binding) Encode() (string, error) {
	if b == nil || len(b.Hosts) == 0 {
		return "", nil
	}
	raw, err := json.Marshal(b)
	return string(raw), err
}

// DecodeBinding reads what Encode wrote.
func DecodeBinding(text string) (*Binding, error) {
	if text == "" {
		return nil, nil
	}
	var b Binding
	d := json.NewDecoder(strings.NewReader(text))
	d.DisallowUnknownFields() // a newer version may restrict more than this one knows
	if err := d.Decode(&b); err != nil {
		return nil, err
	}
	return &b, nil
}

// String describes the binding for people.
func (b *Binding) String() string {
	if b == nil || len(b.Hosts) == 0 {
		return ""
	}
	place := "header " + b.Header
	switch {
	case b.Header != "" && b.Prefix != "":
		place += " after " + `"` + b.Prefix + `"`
	case b.Query != "":
		place = "query " + b.Query
	case b.Basic != "":
		place = "basic " + b.Basic
	}
	hosts := strings.Join(b.Hosts, ", ")
	if b.OAuth != nil {
		hosts = "(tokens) " + hosts
	}
	return hosts + " in " + place
}

// Clone returns a copy that shares nothing.
func (b *Binding) Clone() *Binding {
	if b == nil {
		return nil
	}
	c := *b
	c.Hosts = slices.Clone(b.Hosts)
	if b.OAuth != nil {
		o := *b.OAuth
		c.OAuth = &o
	}
	return &c
}
