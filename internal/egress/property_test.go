package egress_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/hex"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"sync"
	"testing"
	"testing/iotest"

	"pgregory.net/rapid"

	"haft/internal/egress"
	"haft/internal/secret"
)

func loopback4() []netip.Addr { return []netip.Addr{netip.MustParseAddr("127.0.0.1")} }

// pipeClient returns a client whose connections are handed to the proxy one by
// one, as a sandbox does.
func pipeClient(t *testing.T, p *egress.Proxy, roots *x509.CertPool) *http.Client {
	t.Helper()
	var wg sync.WaitGroup
	tr := &http.Transport{
		Proxy:           http.ProxyURL(&url.URL{Scheme: "http", Host: "127.0.0.1:1"}),
		TLSClientConfig: &tls.Config{RootCAs: roots},
		DialContext: func(context.Context, string, string) (net.Conn, error) {
			a, b := net.Pipe()
			wg.Go(func() { _ = p.ServeConn(context.Background(), b) })
			return a, nil
		},
	}
	t.Cleanup(func() {
		tr.CloseIdleConnections()
		wg.Wait()
	})
	return &http.Client{Transport: tr}
}

// However a stream is cut, the same comes out, the value in
// no form that was put in is in it, and what is not the value is as it was.
func TestScrub_property(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		value := rapid.StringMatching(`[a-z0-9/+=]{8,24}`).Draw(t, "value")
		placeholder := secret.Placeholder(value + "0123456789")
		pieces := rapid.SliceOfN(rapid.SampledFrom(
			[]string{value, base64.StdEncoding.EncodeToString([]byte(value)), hex.EncodeToString([]byte(value)),
				value[:4], value[1:], "x", "\n", "zzzz", strings.ToUpper(value)}), 0, 20).Draw(t, "pieces")
		text := strings.Join(pieces, "|")
		read := func(r io.Reader) string {
			b, err := io.ReadAll(egress.Scrubbed(r, value, placeholder))
			if err != nil {
				t.Fatal(err)
			}
			return string(b)
		}
		whole := read(strings.NewReader(text))
		if one := read(iotest.OneByteReader(strings.NewReader(text))); one != whole {
			t.Fatalf("byte by byte %q, whole %q", one, whole)
		}
		if half := read(iotest.HalfReader(strings.NewReader(text))); half != whole {
			t.Fatalf("by halves %q, whole %q", half, whole)
		}
		if strings.Contains(whole, value) || strings.Contains(whole, hex.EncodeToString([]byte(value))) {
			t.Fatalf("%q holds %q", whole, value)
		}
		if clean := strings.Repeat("nothing here ", 10); read(strings.NewReader(clean)) != clean {
			t.Fatal("what is not the value was changed")
		}
	})
}

// A stream that comes piece by piece is not held back.
func TestScrub_holds_nothing_back_without_need(t *testing.T) {
	pr, pw := io.Pipe()
	defer pr.Close()
	r := egress.Scrubbed(pr, "secret-value-1", "placeholder-12345")
	go func() {
		_, _ = io.WriteString(pw, "data: one\n\n")
		_, _ = io.WriteString(pw, "data: sec")
		_, _ = io.WriteString(pw, "ond\n\n")
		pw.Close()
	}()
	buf := make([]byte, 100)
	n, err := r.Read(buf)
	if err != nil || string(buf[:n]) != "data: one\n\n" {
		t.Fatalf("%q, %v", buf[:n], err)
	}
	if b, err := io.ReadAll(r); err != nil || string(b) != "data: second\n\n" {
		t.Fatalf("%q, %v", b, err)
	}
}

// Whatever is read as a request has one Host and one way to find its end.
func FuzzReadRequest(f *testing.F) {
	f.Add([]byte("GET http://a.example/ HTTP/1.1\r\nHost: a.example\r\n\r\n"))
	f.Add([]byte("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\nabc"))
	f.Add([]byte("GET / HTTP/1.1\r\nHost: a\r\nX: b\r\n c\r\n\r\n"))
	f.Fuzz(func(t *testing.T, raw []byte) {
		method, _, err := egress.ReadRequest(bytes.NewReader(raw))
		if err != nil {
			return
		}
		head, _, ok := bytes.Cut(raw, []byte("\r\n\r\n"))
		if !ok || method == "" {
			t.Fatalf("read %q", raw)
		}
		lower := bytes.ToLower(head)
		if bytes.Count(lower, []byte("\ncontent-length:")) > 1 || bytes.Count(lower, []byte("\nhost:")) > 1 ||
			bytes.Contains(head, []byte{0}) ||
			bytes.Contains(lower, []byte("\ncontent-length:")) &&
				bytes.Contains(lower, []byte("\ntransfer-encoding")) ||
			bytes.Contains(head, []byte("\n ")) || bytes.Contains(head, []byte("\n\t")) ||
			bytes.Count(head, []byte("\n")) != bytes.Count(head, []byte("\r\n")) {
			t.Fatalf("read %q", raw)
		}
	})
}
