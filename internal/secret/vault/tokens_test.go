package vault_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"

	"haft/internal/callenv"
	"haft/internal/secret"
	"haft/internal/secret/vault"
	"haft/internal/store/postgres"
	"haft/internal/store/storetest"
)

// rotator is a token endpoint that gives another refresh token with each exchange, and
// takes only the last.
type rotator struct {
	mu    sync.Mutex
	n     int // exchanges; guarded by mu
	twice int // uses of one that was used; guarded by mu
}

// ServeHTTP implements http.Handler.
func (r *rotator) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	r.mu.Lock()
	defer r.mu.Unlock()
	w.Header().Set("Content-Type", "application/json")
	if got := req.FormValue("refresh_token"); got != fmt.Sprintf("refresh-%04d", r.n) {
		r.twice++
		w.WriteHeader(http.StatusBadRequest)
		fmt.Fprint(w, `{"error":"invalid_grant"}`)
		return
	}
	r.n++
	fmt.Fprintf(w,
		`{"access_token":"access-%04d","token_type":"Bearer","expires_in":3600,"refresh_token":"refresh-%04d"}`, r.n,
		r.n)
}

// Of two processes that need a token at the same moment one uses the refresh token, and
// the other the one that came in its place.
func TestTokens_of_two_processes_take_turns(t *testing.T) {
	url := storetest.Postgres(t)
	r := &rotator{}
	web := httptest.NewTLSServer(r)
	t.Cleanup(web.Close)
	bound := &secret.Binding{Hosts: []string{"api.example.com"}, Header: "Authorization", Prefix: "Bearer ",
		OAuth: &secret.OAuth{TokenURL: web.URL, Grant: secret.GrantRefresh, ClientID: "haft"}}
	vaults := make([]*vault.Vault, 2)
	for i := range vaults {
		s, err := postgres.Open(t.Context(), url, postgres.Config{})
		must(t, err)
		t.Cleanup(func() { must(t, s.Close()) })
		vaults[i] = openVault(t, s, vault.Config{MasterKey: master(1)})
	}
	value, err := bound.OAuth.Join(secret.Value{}, secret.New("refresh-0000"))
	must(t, err)
	must(t, vaults[0].Put(t.Context(), "acme", "", "TOKEN", value, bound))
	const rounds = 5
	for range rounds {
		var all sync.WaitGroup
		for _, v := range vaults {
			stored, err := v.Stored(t.Context(), "acme", "")
			must(t, err)
			// A process that has just started, and has no access token yet.
			exchange := v.Tokens(web.Client()).Token
			b := callenv.Bound{Name: stored.Org[0].Name, Value: stored.Org[0].Value, To: bound, Stored: true}
			all.Go(func() {
				if _, err := exchange(t.Context(), "acme", b); err != nil {
					t.Errorf("no token: %v", err)
				}
			})
		}
		all.Wait()
	}
	if r.twice != 0 || r.n != 2*rounds {
		t.Errorf("%d exchanges, and %d with a refresh token that was used already; want %d and none", r.n, r.twice,
			2*rounds)
	}
}
