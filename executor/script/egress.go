package script

import (
	"bytes"
	"encoding/pem"
	"fmt"
	"io"
	"maps"
	"os"
	"strings"

	"haft/executor"
	"haft/sandbox"
)

// caFile is where programs find the certificates that they are to trust, below the
// work directory.
const caFile = ".haft/ca.pem"

// Bounds on certificates: of a request, and of a system.
const (
	maxCA    = 64 << 10
	maxRoots = 4 << 20
)

// proxyNames are the variables by which programs find a proxy, in lower case.
// Programs differ in which they read, and curl reads http_proxy in lower case only.
var proxyNames = []string{"http_proxy", "https_proxy", "all_proxy"}

// proxyEnv leads programs to the egress proxy.
//
// # Why is all_proxy not socks5h?
//
// The proxy also supports SOCKS. But httpx, and with it the clients of the model
// vendors, makes a transport for each of these variables before the first
// request, and fails if it has no library for SOCKS, which is the usual case. So
// SOCKS has a variable of its own, for programs that are set up to read it.
func proxyEnv() []string {
	var env []string
	for _, n := range proxyNames {
		env = append(env, n+"=http://"+sandbox.EgressAddr, strings.ToUpper(n)+"=http://"+sandbox.EgressAddr)
	}
	return append(env, "no_proxy=", "NO_PROXY=", "socks_proxy=socks5h://"+sandbox.EgressAddr,
		"SOCKS_PROXY=socks5h://"+sandbox.EgressAddr,
		"NODE_USE_ENV_PROXY=1") // Node.js from 24 and 22.21 on; see harness/node.js
}

// caNames are the variables by which programs find certificates: OpenSSL and
// httpx, requests, curl, git, pip, and Node.js, which adds them to its own.
var caNames = []string{"SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "GIT_SSL_CAINFO", "PIP_CERT",
	"NODE_EXTRA_CA_CERTS"}

// egressEnv is the environment of a request, which cannot lead away from egress:
// the variables that would are reserved.
func egressEnv(req executor.Request) map[string]string {
	if req.Network != sandbox.NetworkEgress {
		return req.Env
	}
	env := maps.Clone(req.Env)
	if env == nil {
		env = map[string]string{}
	}
	if len(req.CA) > 0 {
		for _, n := range caNames {
			env[n] = "/work/" + caFile
		}
	} else if roots := systemRoots(); roots != "" && env["SSL_CERT_FILE"] == "" {
		// An interpreter that did not come with the system looks elsewhere.
		env["SSL_CERT_FILE"] = roots
	}
	return env
}

// checkCA reports, as an error with [haft.CodeInvalid], what is wrong with the
// certificates of a request.
func checkCA(req executor.Request) error {
	if len(req.CA) == 0 {
		return nil
	}
	if req.ServeEgress == nil {
		return invalid("certificates to trust go with egress only")
	}
	if len(req.CA) > maxCA {
		return invalid("the certificates to trust are %d bytes large, %d is the most", len(req.CA), maxCA)
	}
	for rest := bytes.TrimSpace(req.CA); len(rest) > 0; rest = bytes.TrimSpace(rest) {
		var b *pem.Block
		if b, rest = pem.Decode(rest); b == nil || b.Type != "CERTIFICATE" {
			return invalid("the certificates to trust are not PEM")
		}
	}
	return nil
}

// systemRoots is the file with the certificates that the system trusts, or "". It
// is among what the mounts of egress show.
func systemRoots() string {
	for _, name := range []string{
		"/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt", "/etc/ssl/ca-bundle.pem",
		"/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem", "/etc/ssl/cert.pem",
	} {
		if st, err := os.Stat(name); err == nil && st.Mode().IsRegular() {
			return name
		}
	}
	return ""
}

// rootsWith returns the certificates that the system trusts, and ca.
func rootsWith(ca []byte) ([]byte, error) {
	var all []byte
	if name := systemRoots(); name != "" {
		f, err := os.Open(name)
		if err != nil {
			return nil, fmt.Errorf("read the certificates of the system: %w", err)
		}
		defer f.Close() // only read
		if all, err = io.ReadAll(io.LimitReader(f, maxRoots)); err != nil {
			return nil, fmt.Errorf("read the certificates of the system: %w", err)
		}
		all = append(all, '\n')
	}
	return append(all, ca...), nil
}
