package egress

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"slices"
	"sync"
	"time"
)

const (
	caLife   = 7 * 24 * time.Hour
	leafLife = 24 * time.Hour
	clockOff = 5 * time.Minute // how far the program's clock may be behind
	maxLeafs = 256             // kept per sandbox
)

// authorityCA signs the certificates with which the proxy answers in place of servers. Its
// key exists only in memory, is for one sandbox, and is forgotten with it.
type authorityCA struct {
	key  *ecdsa.PrivateKey
	cert *x509.Certificate

	mu    sync.Mutex
	leafs map[string]*tls.Certificate
	last  int64 // serial
}

// newCA makes a key and a certificate for it.
func newCA() (*authorityCA, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("make the key of a CA: %w", err)
	}
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120))
	if err != nil {
		return nil, fmt.Errorf("make the serial of a CA: %w", err)
	}
	now := time.Now()
	tmpl := &x509.Certificate{
		SerialNumber:          serial.Add(serial, big.NewInt(1)),
		Subject:               pkix.Name{CommonName: "haft sandbox", Organization: []string{"haft"}},
		NotBefore:             now.Add(-clockOff),
		NotAfter:              now.Add(caLife),
		KeyUsage:              x509.KeyUsageCertSign | x509.KeyUsageCRLSign,
		ExtKeyUsage:           []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		BasicConstraintsValid: true,
		IsCA:                  true,
		MaxPathLenZero:        true,
	}
	cert, err := sign(tmpl, tmpl, key)
	if err != nil {
		return nil, err
	}
	return &authorityCA{key: key, cert: cert, leafs: map[string]*tls.Certificate{}}, nil
}

// sign returns a certificate of the public half of key, signed with key.
func sign(tmpl, parent *x509.Certificate, key *ecdsa.PrivateKey) (*x509.Certificate, error) {
	der, err := x509.CreateCertificate(rand.Reader, tmpl, parent, &key.PublicKey, key)
	if err != nil {
		return nil, fmt.Errorf("sign a certificate: %w", err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, fmt.Errorf("read a certificate: %w", err)
	}
	return cert, nil
}

// pem returns the certificate for programs to trust.
func (a *authorityCA) pem() []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: a.cert.Raw})
}

// leaf returns a certificate for host, a canonical name or address.
func (a *authorityCA) leaf(host string) (*tls.Certificate, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	now := time.Now()
	if c := a.leafs[host]; c != nil && now.Add(time.Hour).Before(c.Leaf.NotAfter) {
		return c, nil
	}
	if len(a.leafs) >= maxLeafs {
		clear(a.leafs)
	}
	a.last++
	tmpl := &x509.Certificate{
		SerialNumber: new(big.Int).Add(a.cert.SerialNumber, big.NewInt(a.last)),
		Subject:      pkix.Name{Organization: []string{"haft"}},
		NotBefore:    now.Add(-clockOff),
		NotAfter:     slices.MinFunc([]time.Time{now.Add(leafLife), a.cert.NotAfter}, time.Time.Compare),
		KeyUsage:     x509.KeyUsageDigitalSignature,
		ExtKeyUsage:  []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	if ip := net.ParseIP(host); ip != nil {
		tmpl.IPAddresses = []net.IP{ip}
	} else {
		tmpl.DNSNames = []string{host}
	}
	// One key for all: they are trusted in one sandbox only, which is the one that
	// the connection comes from.
	cert, err := sign(tmpl, a.cert, a.key)
	if err != nil {
		return nil, err
	}
	c := &tls.Certificate{Certificate: [][]byte{cert.Raw, a.cert.Raw}, PrivateKey: a.key, Leaf: cert}
	a.leafs[host] = c
	return c, nil
}
