package egress_test

import (
	"io"
	"net/http"
	"testing"

	"haft/internal/egress"
)

// What an allowed request costs through the proxy and without it, over
// connections that are kept.
func BenchmarkRequest(b *testing.B) {
	broker, err := egress.NewBroker(
		egress.BrokerConfig{Secrets: []egress.Secret{bind(b, egress.Place{Header: "X-Key"},
			"https://other.example:*")}})
	if err != nil {
		b.Fatal(err)
	}
	w := open(b, egress.ProxyConfig{Broker: broker,
		Limits: egress.Limits{Requests: 1 << 40, BytesUp: 1 << 50, BytesDown: 1 << 50}},
		[]string{"http://api.example:HTTP_", "https://api.example:HTTPS", "https://other.example:HTTPS"},
		http.HandlerFunc(func(rw http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(rw, "ok")
		}))
	roots := w.roots.Clone()
	roots.AppendCertsFromPEM(broker.CAPEM())
	direct := &http.Client{Transport: w.guard.Client().Transport}
	b.Cleanup(w.guard.CloseIdle)
	through := w.client(roots)
	for _, bb := range []struct {
		name   string
		client *http.Client
		url    string
	}{
		{"http/direct", direct, "http://api.example:" + w.http},
		{"http/proxy", through, "http://api.example:" + w.http},
		{"https/direct", direct, "https://api.example:" + w.https},
		{"https/tunnel", through, "https://api.example:" + w.https},
		{"https/opened", through, "https://other.example:" + w.https},
	} {
		b.Run(bb.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				resp, err := bb.client.Get(bb.url)
				if err != nil {
					b.Fatal(err)
				}
				_, _ = io.Copy(io.Discard, resp.Body)
				resp.Body.Close()
				for len(w.wake) > 0 {
					<-w.wake
				}
			}
		})
	}
}

func BenchmarkRules_Allows(b *testing.B) {
	var texts []string
	for _, l := range "abcdefghijklmnopqrstuvwxyz" {
		texts = append(texts, "GET https://"+string(l)+".example.com/v1/*", "*."+string(l)+".example.com")
	}
	rules, err := egress.ParseRules(texts)
	if err != nil {
		b.Fatal(err)
	}
	d := egress.Dest{Host: "z.example.com", Port: 443, Scheme: "https", Method: "GET", Path: "/v1/users/7"}
	b.ReportAllocs()
	for b.Loop() {
		if _, ok := rules.Allows(d); !ok {
			b.Fatal("not allowed")
		}
	}
}
