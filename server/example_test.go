package server_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"

	"haft"
	"haft/server"
)

// everybody knows every caller by the header X-User.
type everybody struct{}

// Authenticate implements [server.Authenticator].
func (everybody) Authenticate(r *http.Request, _ netip.Addr) (server.Identity, error) {
	return server.Identity{Principal: haft.Principal{Org: "acme", User: r.Header.Get("X-User")}}, nil
}

// Serve an implementation of [haft.Service] over HTTP, with an authentication of your own.
func ExampleNew() {
	var service struct{ haft.Service } // an app.Service, or your own
	s, err := server.New(service, everybody{}, server.Config{Version: "example"})
	if err != nil {
		fmt.Println(err)
		return
	}
	h := httptest.NewServer(s.Handler())
	defer h.Close()
	res, err := http.Get(h.URL + "/healthz")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer res.Body.Close()
	body, _ := io.ReadAll(res.Body)
	fmt.Println(res.StatusCode, len(body) > 0)
	// Output: 200 true
}
