package main

import (
	"crypto/tls"
	"fmt"
	"log/slog"
	"sync/atomic"

	"haft/app"
)

// A certificate is the pair of --tls-cert and --tls-key, which can be read again while
// the server runs.
type certificate struct {
	cert, key string // their files
	pair      atomic.Pointer[tls.Certificate]
}

// load reads both files. A pair that cannot be used changes nothing.
func (c *certificate) load() error {
	pair, err := tls.LoadX509KeyPair(c.cert, c.key)
	if err != nil {
		return fmt.Errorf("read the certificate: %w", err)
	}
	c.pair.Store(&pair)
	return nil
}

// config serves the pair that was loaded last.
func (c *certificate) config() *tls.Config {
	return &tls.Config{MinVersion: tls.VersionTLS12,
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
			return c.pair.Load(), nil
		}}
}

// reload reads again, on SIGHUP, what is not in the store: the certificate and the keys
// of issuers. Rules, keys and secrets are in the store, where changes hold at once.
func (s *serving) reload(log *slog.Logger, sys *app.Server) {
	if s.tls != nil {
		if err := s.tls.load(); err != nil {
			log.Error("the certificate was not reloaded; the old one stays", "err", err)
		} else {
			leaf := s.tls.pair.Load().Leaf
			log.Info("the certificate was reloaded", "file", s.tls.cert, "serial", leaf.SerialNumber.Text(16),
				"expires", leaf.NotAfter)
		}
	}
	for _, url := range sys.Auth.RefetchKeys() {
		log.Info("the keys of the issuer are fetched again with the next token", "issuer", url)
	}
	log.Info("reloaded")
}
