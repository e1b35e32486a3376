package egress

import (
	"context"
	"encoding/base64"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"haft"
)

// insertSecrets puts secrets into a request to d and returns their names. It changes the header
// and the URL of out. sent is the header as the program sent it, with the part for the proxy.
// It refuses a placeholder at any other place or on the way to another host: that is an error
// or an abuse of the program.
func (b *Broker) insertSecrets(ctx context.Context, out *http.Request, sent http.Header, d Dest) ([]string, error) {
	var put []string
	for _, s := range b.cfg.Secrets {
		if _, ok := s.Hosts.Allows(d); !ok || !s.present(out) {
			continue
		}
		value, err := s.Value(ctx)
		if err != nil {
			return nil, &haft.Error{Code: haft.CodeUnavailable,
				Message: fmt.Sprintf("the secret %s is not to be had", s.Name), Err: err}
		}
		if !s.fits(value) {
			return nil, &haft.Error{Code: haft.CodeUnavailable,
				Message: fmt.Sprintf("the secret %s is too short, too long, or cannot stand where it belongs", s.Name)}
		}
		if err := b.remember(s, value, s.put(out, value)); err != nil {
			return nil, err
		}
		put = append(put, s.Name)
	}
	if len(b.cfg.Secrets) == 0 {
		return nil, nil
	}
	if err := b.checkStray(out, sent, d); err != nil {
		return nil, err
	}
	if b.bound(d.Host, d.Port) {
		// The answer has to be read completely, in an encoding that the broker can decode.
		out.Header.Set("Accept-Encoding", "gzip, identity")
		for _, h := range []string{"Range", "If-Range", "Sec-Websocket-Extensions"} {
			out.Header.Del(h)
		}
	}
	return put, nil
}

// fits reports whether a value can neither change the request around it nor be confused
// with other text.
func (s Secret) fits(value string) bool {
	bad := len(value) < minSecret || len(value) > maxSecret
	if s.Place.Query == "" {
		bad = bad || strings.ContainsFunc(value, func(r rune) bool { return r < ' ' || r == 0x7f })
	}
	if s.Place.Basic == "user" {
		bad = bad || strings.Contains(value, ":")
	}
	return !bad
}

// present reports whether the placeholder is at its place.
func (s Secret) present(r *http.Request) bool {
	switch p := s.Place; {
	case p.Header != "":
		return slices.ContainsFunc(r.Header.Values(p.Header),
			func(v string) bool { return strings.Contains(v, s.Placeholder) })
	case p.Query != "":
		return slices.ContainsFunc(strings.Split(r.URL.RawQuery, "&"), s.inField)
	case p.Basic != "":
		user, password, ok := basicOf(r.Header)
		return ok && (p.Basic == "user" && user == s.Placeholder || p.Basic == "password" && password == s.Placeholder)
	}
	return false
}

// inField reports whether NAME=VALUE of a query is this secret's.
func (s Secret) inField(field string) bool {
	name, value, _ := strings.Cut(field, "=")
	name, errN := url.QueryUnescape(name)
	value, errV := url.QueryUnescape(value)
	return errN == nil && errV == nil && name == s.Place.Query && value == s.Placeholder
}

// basicOf returns user and password of the one Authorization in h.
func basicOf(h http.Header) (user, password string, ok bool) {
	if len(h["Authorization"]) != 1 {
		return "", "", false
	}
	return (&http.Request{Header: h}).BasicAuth()
}

// put replaces the placeholder at its place. It returns what stands there then
// instead of what, if that is not the value itself.
func (s Secret) put(r *http.Request, value string) map[string]string {
	switch p := s.Place; {
	case p.Header != "":
		values := r.Header.Values(p.Header)
		for i, v := range values {
			switch has := strings.Contains(v, s.Placeholder); {
			case has && p.Prefix != "":
				values[i] = p.Prefix + value
			case has:
				values[i] = strings.ReplaceAll(v, s.Placeholder, value)
			}
		}
	case p.Query != "":
		fields := strings.Split(r.URL.RawQuery, "&")
		for i, f := range fields {
			if s.inField(f) {
				name, _, _ := strings.Cut(f, "=")
				fields[i] = name + "=" + url.QueryEscape(value)
			}
		}
		r.URL.RawQuery = strings.Join(fields, "&")
	default:
		user, password, _ := basicOf(r.Header)
		before := base64.StdEncoding.EncodeToString([]byte(user + ":" + password))
		if p.Basic == "user" {
			user = value
		} else {
			password = value
		}
		after := base64.StdEncoding.EncodeToString([]byte(user + ":" + password))
		r.Header.Set("Authorization", "Basic "+after)
		return map[string]string{after: before}
	}
	return nil
}

// checkStray refuses a request that still has placeholders after those at their places
// were replaced.
func (b *Broker) checkStray(out *http.Request, sent http.Header, d Dest) error {
	hay := []string{out.URL.Path, out.URL.RawQuery}
	if q, err := url.QueryUnescape(out.URL.RawQuery); err == nil {
		hay = append(hay, q)
	}
	for name, values := range out.Header {
		hay = append(hay, name)
		hay = append(hay, values...)
	}
	for _, name := range hopHeaders { // not in out any more
		hay = append(hay, sent[name]...)
	}
	for _, h := range []http.Header{out.Header, {"Authorization": sent["Proxy-Authorization"]}} {
		if user, password, ok := basicOf(h); ok {
			hay = append(hay, user, password)
		}
	}
	for _, s := range b.cfg.Secrets {
		if slices.ContainsFunc(hay, func(h string) bool { return strings.Contains(h, s.Placeholder) }) {
			return b.strayRefusal(s, d).err()
		}
	}
	return nil
}

// strayRefusal is the refusal of a placeholder at a wrong place.
func (b *Broker) strayRefusal(s Secret, d Dest) *Refusal {
	reason := fmt.Sprintf("the secret %s is not for %s", s.Name, d.Host)
	secure := d
	secure.Scheme = HTTPS
	_, here := s.Hosts.Allows(d)
	_, overTLS := s.Hosts.Allows(secure)
	if d.Scheme == HTTP && !here && (overTLS || d.Port == 80 && s.alsoOn443(secure)) {
		return &Refusal{Host: d.Host, Port: d.Port, Rule: RulePlaceholder,
			Reason: fmt.Sprintf("the secret %s goes to %s over https only, and this is plain http", s.Name, d.Host),
			Ask: "use https, or ask the operator to bind the secret to http://" +
				strings.TrimPrefix(suggest(d), "tcp://")}
	}
	if here {
		reason = fmt.Sprintf("the secret %s goes to %s %s and nowhere else", s.Name, d.Host, s.Place)
	} else if len(s.Hosts.reaching(d.Host, d.Port)) > 0 {
		reason = fmt.Sprintf("the secret %s is for other methods or paths of %s", s.Name, d.Host)
	}
	return &Refusal{Host: d.Host, Port: d.Port, Rule: RulePlaceholder, Reason: reason,
		Ask: "if it should, ask the operator to bind the secret so"}
}

// alsoOn443 reports whether the secret is for d on the port of https.
func (s Secret) alsoOn443(d Dest) bool {
	d.Port = 443
	_, ok := s.Hosts.Allows(d)
	return ok
}

// String says where, for people.
func (p Place) String() string {
	switch {
	case p.Header != "":
		return "in the header " + p.Header
	case p.Query != "":
		return "in the query parameter " + p.Query
	}
	return "as the " + p.Basic + " of basic authentication"
}
