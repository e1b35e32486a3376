package app_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"haft"
	"haft/app"
	"haft/internal/secret"
)

// asking sends a request with http_request and returns what the servers got. The real value of API_KEY must not come
// back, whatever happens.
func (m *market) asking(args map[string]any) (*haft.Result, []*http.Request) {
	m.t.Helper()
	before := len(m.requests())
	res := m.do(root(), "http_request", args, nil)
	search(m.t, "the result", fmt.Appendf(nil, "%s %+v %v", res.Value, res.Error, res.Notices),
		map[string]string{"API_KEY": brokered})
	return res, m.requests()[before:]
}

// A secret that a request names gets to the host and the place that it is bound to, and nowhere else; nothing of it
// comes back, is logged or kept.
func TestHTTPRequest_with_bound_secrets(t *testing.T) {
	m := openMarket(t, func(w http.ResponseWriter, r *http.Request) bool {
		switch r.URL.Path {
		case "/away":
			http.Redirect(w, r, "https://other.example"+strings.TrimPrefix(r.Host, "api.example")+"/x",
				http.StatusFound)
		case "/near":
			http.Redirect(w, r, "/x", http.StatusFound)
		default:
			return false
		}
		return true
	}, app.ServiceConfig{})
	named := map[string]string{"Authorization": "Bearer {{ API_KEY }}"}
	m.bind("", "API_KEY", brokered, secret.Binding{Header: "Authorization", Prefix: "Bearer "})
	for _, base := range m.hosts("api.example") {
		for _, path := range []string{"/x", "/near"} {
			res, sent := m.asking(map[string]any{"method": "GET", "url": base + path, "headers": named})
			if res.Status != haft.StatusSuccess || len(sent) == 0 ||
				sent[len(sent)-1].Header.Get("Authorization") != "Bearer "+brokered ||
				!strings.Contains(string(res.Value), `"x-echo":"Bearer {{ API_KEY }}"`) {
				t.Errorf("%s: %s %s %+v %v; sent %v", base+path, res.Status, res.Value, res.Error, res.Notices, sent)
			}
		}
		res, sent := m.asking(map[string]any{"method": "GET", "url": base + "/away", "headers": named})
		if len(sent) != 1 || !strings.Contains(string(res.Value), `"status":302`) {
			t.Errorf("a redirect elsewhere: %s %s %+v; sent %v", res.Status, res.Value, res.Error, sent)
		}
	}
	https := m.hosts("api.example")[1]
	for name, args := range map[string]map[string]any{
		"to another host":   {"method": "GET", "url": m.hosts("other.example")[1], "headers": named},
		"in another header": {"method": "GET", "url": https, "headers": map[string]string{"X-Key": "{{ API_KEY }}"}},
		"in a parameter":    {"method": "GET", "url": https, "query": map[string]string{"k": "{{ API_KEY }}"}},
	} {
		if res, sent := m.asking(args); res.Error == nil || len(sent) != 0 {
			t.Errorf("%s: %s %s; sent %v", name, res.Status, res.Value, sent)
		}
	}
	// A request that names no secret has none, and reaches other hosts.
	if res, sent := m.asking(map[string]any{"method": "POST", "url": m.hosts("other.example")[0],
		"body": "{{ API_KEY }}"}); res.Error != nil || len(sent) != 1 {
		t.Errorf("without a secret: %s %+v; sent %v", res.Status, res.Error, sent)
	}
	m.bind("", "API_KEY", brokered, secret.Binding{Query: "key"})
	if res, sent := m.asking(map[string]any{"method": "GET", "url": https, "query": map[string]string{
		"key": "{{ API_KEY }}"}}); res.Error != nil || len(sent) != 1 || sent[0].URL.Query().Get("key") != brokered {
		t.Errorf("as a parameter: %s %s %+v; sent %v", res.Status, res.Value, res.Error, sent)
	}
	if all := m.audit(); !strings.Contains(all, `"secrets":["API_KEY"]`) {
		t.Errorf("the audit does not name the secret: %.2000s", all)
	}
	searchFiles(t, m.dir, map[string]string{"API_KEY": brokered})
	m.logs.mu.Lock()
	defer m.logs.mu.Unlock()
	search(t, "the log", m.logs.b.Bytes(), map[string]string{"API_KEY": brokered})
}

// Rules of the policy about the network hold for requests with secrets and without.
func TestHTTPRequest_is_under_policy(t *testing.T) {
	m := openMarket(t, nil, app.ServiceConfig{})
	m.bind("", "API_KEY", brokered, secret.Binding{Header: "Authorization"})
	_, err := m.PutPolicy(t.Context(), root(), false,
		haft.PolicyText{Text: []byte("version: 1\nrules:\n  - {id: all, effect: allow}\n  - {id: few, effect: " +
			"limit, network: [\"somewhere.example:*\"]}\n")})
	must(t, err)
	for _, headers := range []map[string]string{nil, {"Authorization": "{{ API_KEY }}"}} {
		res, sent := m.asking(map[string]any{"method": "GET", "url": m.hosts("api.example")[1], "headers": headers})
		if res.Error == nil || res.Error.Kind != haft.FailDenied || len(sent) != 0 {
			t.Errorf("with %v: %s %s %+v; sent %v", headers, res.Status, res.Value, res.Error, sent)
		}
	}
}
