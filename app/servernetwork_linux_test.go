package app_test

import (
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"haft"
	"haft/app"
	"haft/internal/secret"
)

// Where a secret is exchanged for a token is said by whoever stores it, and not by the
// operator: the rules about the network hold for that too, and it is on record.
func TestService_network_binds_exchanges_of_secrets(t *testing.T) {
	var asked atomic.Int64
	m := openMarket(t, func(w http.ResponseWriter, r *http.Request) bool {
		if r.URL.Path != "/token" {
			return false
		}
		asked.Add(1)
		fmt.Fprint(w, `{"access_token":"access-token-of-4711","token_type":"bearer","expires_in":0}`)
		return true
	}, app.ServiceConfig{})
	o := &secret.OAuth{TokenURL: "https://login.example:" + m.https + "/token", Grant: secret.GrantClient,
		ClientID: "me"}
	m.bind("", "CRM", "client-secret-of-4711", secret.Binding{Header: "Authorization", Prefix: "Bearer ", OAuth: o})
	put(t, m.Service, sender, haft.Settings{Network: m.hosts("api.example"), Secrets: []string{"CRM"}})
	rule := func(hosts ...string) {
		t.Helper()
		for i, h := range hosts {
			hosts[i] = `"` + h + `"`
		}
		text := fmt.Sprintf("version: 1\nrules:\n  - {id: hosts, effect: limit, network: [%s]}\n",
			strings.Join(hosts, ", "))
		_, err := m.PutPolicy(t.Context(), root(), false, haft.PolicyText{Text: []byte(text)})
		must(t, err)
	}
	args := map[string]any{"url": "https://api.example:" + m.https, "name": "CRM", "how": "bearer"}
	rule("api.example:"+m.http, "api.example:"+m.https)
	res := m.do(root(), "send", args, nil)
	if res.Status == haft.StatusSuccess || asked.Load() != 0 ||
		!strings.Contains(fmt.Sprint(res.Error, res.Notices), "org/hosts") {
		t.Errorf("%s %+v %v, %d exchanges", res.Status, res.Error, res.Notices, asked.Load())
	}
	rule("api.example:"+m.http, "api.example:"+m.https, "login.example:"+m.https)
	if _, status, _, res := m.sent(root(), "https://api.example:"+m.https, "CRM", "bearer", nil); status != "200" ||
		asked.Load() == 0 {
		t.Errorf("%s %+v %v, %d exchanges", status, res.Error, res.Notices, asked.Load())
	}
	if all := m.audit(); !strings.Contains(all, `"to":"POST login.example:`+m.https+`"`) {
		t.Errorf("the exchange is not in the audit: %s", all)
	}
}
