package egress

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"haft"
	"haft/internal/secret"
)

// Bounds of secrets.
const (
	minSecret = 6       // bytes: a shorter value cannot be distinguished from other text
	minStand  = 16      // bytes of a placeholder
	maxPrefix = 256     // bytes
	maxSecret = 8 << 10 // bytes
)

// MaxBound is how many secrets one broker takes.
const MaxBound = 200

// Place is where in a request a secret belongs. Exactly one of Header, Query and Basic is
// set.
type Place struct {
	// Header is the name of a header. The placeholder may be part of its value,
	// as in "Bearer PLACEHOLDER".
	Header string
	// Prefix goes with Header: where the placeholder is part of the header's value,
	// the whole of it becomes the prefix and the secret.
	Prefix string
	// Query is the name of a parameter of the URL. The placeholder is its value.
	Query string
	// Basic is "user" or "password" of HTTP basic authentication.
	Basic string
}

// A Secret is a value that programs use without having it.
type Secret struct {
	// Name is what people call it. It stands in records.
	Name string
	// Placeholder is what the program has instead, which cannot be guessed.
	Placeholder string
	// Value returns the real value. It is called for each request, so that the value may
	// change, and has to be quick: an implementation that fetches the value caches it.
	Value func(ctx context.Context) (string, error)
	// Hosts are the destinations that it is for, as rules. They allow nothing
	// that the rules of the proxy do not. A rule without a scheme is for https only.
	Hosts Rules
	// Place is where it belongs.
	Place Place
}

// BrokerConfig has the settings of a broker. The zero value has no secrets and
// opens TLS for rules that look inside.
type BrokerConfig struct {
	Secrets []Secret
	// Redact wraps the answers of a host that gets a secret, after the broker has removed the
	// values that it knows. nil means that nothing more is removed. It does not get the
	// messages of WebSockets.
	Redact func(io.Reader) io.Reader
}

// A Broker puts secrets into requests and takes them out of answers, for one
// sandbox. It is safe for concurrent use.
type Broker struct {
	cfg BrokerConfig
	ca  *authorityCA

	mu       sync.Mutex
	known    []secret.Named                  // every value that was put in, and what stands for it
	redactor atomic.Pointer[secret.Redactor] // of known; nil if nothing was put in
}

// NewBroker checks the secrets and makes a certificate authority for the sandbox.
func NewBroker(cfg BrokerConfig) (*Broker, error) {
	if len(cfg.Secrets) > MaxBound {
		return nil, &haft.Error{Code: haft.CodeInvalid, Message: fmt.Sprintf("more than %d bound secrets", MaxBound)}
	}
	for i, s := range cfg.Secrets {
		if err := s.check(); err != nil {
			return nil, &haft.Error{Code: haft.CodeInvalid, Message: fmt.Sprintf("bound secret %d: %v", i+1, err),
				Err: err}
		}
		for _, other := range cfg.Secrets[:i] {
			if strings.Contains(s.Placeholder, other.Placeholder) ||
				strings.Contains(other.Placeholder, s.Placeholder) {
				return nil, &haft.Error{Code: haft.CodeInvalid,
					Message: fmt.Sprintf("bound secret %d: its placeholder is that of another", i+1)}
			}
		}
	}
	cfg.Secrets = slices.Clone(cfg.Secrets)
	for i := range cfg.Secrets {
		cfg.Secrets[i].Hosts = cfg.Secrets[i].Hosts.overTLS()
	}
	ca, err := newCA()
	if err != nil {
		return nil, err
	}
	return &Broker{cfg: cfg, ca: ca}, nil
}

// check reports errors of a secret, without its text.
func (s Secret) check() error {
	set := 0
	for _, v := range []string{s.Place.Header, s.Place.Query, s.Place.Basic} {
		if v != "" {
			set++
		}
	}
	header := http.CanonicalHeaderKey(s.Place.Header)
	switch {
	case s.Name == "" || s.Value == nil:
		return fmt.Errorf("it needs a name and a value")
	case len(s.Placeholder) < minStand || len(s.Placeholder) > maxSecret || strings.ContainsAny(s.Placeholder, "\x00"):
		return fmt.Errorf("its placeholder is too short or too long")
	case set != 1 || s.Place.Prefix != "" && s.Place.Header == "":
		return fmt.Errorf("its place is a header, a query parameter or basic authentication, one of them")
	case s.Place.Header != "" && (!token(s.Place.Header) || slices.Contains(hopHeaders, header) || header == "Host" ||
		header == "Content-Length"):
		return fmt.Errorf("its header cannot carry a secret")
	case len(s.Place.Prefix) > maxPrefix || strings.ContainsFunc(s.Place.Prefix,
		func(r rune) bool { return r < ' ' || r > '~' }):
		return fmt.Errorf("its prefix is too long or cannot stand in a header")
	case s.Place.Basic != "" && s.Place.Basic != "user" && s.Place.Basic != "password":
		return fmt.Errorf(`basic authentication has a "user" and a "password"`)
	case len(s.Hosts) == 0:
		return fmt.Errorf("it is bound to no host")
	}
	for _, r := range s.Hosts {
		if r.any || r.scheme == TCP {
			return fmt.Errorf("it is bound to hosts by name, for http or https")
		}
	}
	return nil
}

// Check reports, as an error with [haft.CodeInvalid], why s cannot be brokered.
// The error does not hold its text. A value that is not empty has to fit, too.
func (s Secret) Check(value string) error {
	err := s.check()
	if err == nil && value != "" && !s.fits(value) {
		err = fmt.Errorf("its value has less than %d or more than %d bytes, or cannot stand %s", minSecret, maxSecret,
			s.Place)
	}
	if err != nil {
		return &haft.Error{Code: haft.CodeInvalid, Message: "the secret cannot be bound so: " + err.Error(), Err: err}
	}
	return nil
}

// CAPEM returns the certificate that programs in the sandbox have to trust.
func (b *Broker) CAPEM() []byte { return b.ca.pem() }

// bound reports whether a secret belongs to a host and port.
func (b *Broker) bound(host string, port uint16) bool {
	return slices.ContainsFunc(b.cfg.Secrets,
		func(s Secret) bool { return len(s.Hosts.reaching(host, port)) > 0 })
}

// serverConfig returns the TLS configuration for answering in place of host. Only HTTP/1.1
// is spoken inside, so that one parser reads what is checked.
func (b *Broker) serverConfig(host string) *tls.Config {
	return &tls.Config{
		MinVersion: tls.VersionTLS12,
		NextProtos: []string{"http/1.1"},
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
			return b.ca.leaf(host) // readHello has seen that the hello is for it
		},
	}
}
