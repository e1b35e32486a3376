package secret

import (
	"encoding/json"
	"slices"
	"strings"
	"time"
)

// A Binding says where a secret goes and nowhere else: to some hosts, at one place
// in a request. Programs never have a secret that is bound. They have a
// [Placeholder], which is replaced outside of their sandbox.
//
// It holds no secret itself. One that names no hosts binds nothing.
type Binding struct {
	// Hosts are rules of the network, such as "api.example.com" or
	// "GET https://api.example.com/v1/*". One without a scheme is for https only.
	Hosts []string `json:"hosts"`
	// Header is the name of a header, and Prefix what stands before the secret in
	// it, such as "Bearer ".
	Header string `json:"header,omitempty"`
	Prefix string `json:"prefix,omitempty"`
	// Query is the name of a parameter of the URL.
	Query string `json:"query,omitempty"`
	// Basic is "user" or "password" of basic authentication.
	Basic string `json:"basic,omitempty"`
	// OAuth exchanges the secret for tokens, and those go to the hosts; nil means
	// that the secret itself does.
	OAuth *OAuth `json:"oauth,omitempty"`
}

// Info is what may be known of a stored value.
type Info struct {
	Name string `json:"name"`
	// Fingerprint is the same for the same value, and says nothing about it.
	Fingerprint string `json:"fingerprint"`
	// Bound is where it goes and nowhere else; nil means that tools have it.
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
	// TokenURL is where, over https.
	TokenURL string `json:"token_url"`
	Grant    string `json:"grant"`
	ClientID string `json:"client_id"`
	// Scope and Audience are sent if they are not empty.
	Scope    string `json:"scope,omitempty"`
	Audience string `json:"audience,omitempty"`
	// Post sends the secret of the client in the body and not as basic
	// authentication.
	Post bool `json:"post,omitempty"`
}

// Parts returns the secret of the client and the refresh token that are in a value
// which is exchanged. That is one of the two alone, or for a refresh token of a
// client that has a secret a JSON object with refresh_token and client_secret.
func (o *OAuth) Parts(v Value) (client, refresh Value) {
	if o.Grant == GrantClient {
		return v, Value{}
	}
	var both struct {
		Refresh string `json:"refresh_token"`
		Client  string `json:"client_secret"`
	}
	if text := v.Reveal(); strings.HasPrefix(text, "{") && json.Unmarshal([]byte(text), &both) == nil && both.Refresh != "" {
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
		return Value{}, errNotText // the cause may quote it
	}
	return New(string(raw)), nil
}

// Encode returns the one spelling of b, "" if it binds nothing.
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
	d.DisallowUnknownFields() // of a newer haft: what it says must not be missed
	if err := d.Decode(&b); err != nil {
		return nil, err
	}
	return &b, nil
}

// String says where, for people.
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
