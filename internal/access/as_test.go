package access_test

import (
	"testing"

	"haft"
	"haft/internal/access"
	"haft/internal/auth"
)

// Whoever may be bound to an agent does not become another one by a message, and nor does somebody who may not act as
// agents at all.
func TestAs(t *testing.T) {
	a, err := auth.NewRechecker(nil) // which does not know whether tokens of an issuer name agents
	if err != nil {
		t.Fatal(err)
	}
	admin := []string{haft.RoleAdmin}
	for name, tt := range map[string]struct {
		p    haft.Principal
		want haft.Code
	}{
		"a manager": {haft.Principal{Org: "o", User: "ann", Roles: admin}, ""},
		"somebody":  {haft.Principal{Org: "o", User: "ann", Roles: []string{"user"}}, haft.CodeDenied},
		"a manager's token": {haft.Principal{Org: "o", User: "ann", Roles: admin,
			Credential: "token:a.b.99999999999"}, haft.CodeDenied},
		"an expired token": {haft.Principal{Org: "o", Roles: admin, Credential: "token:a.b.1"},
			haft.CodeUnauthenticated},
		"a strange credential": {haft.Principal{Org: "o", Roles: admin, Credential: "x"}, haft.CodeUnauthenticated},
	} {
		tt.p.Agent = "ag_1"
		got, err := access.Authenticator{Auth: a}.As(t.Context(), tt.p, "ag_2")
		if (err == nil) != (tt.want == "") || err != nil && haft.CodeOf(err) != tt.want || err == nil &&
			got.Agent != "ag_2" {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
	}
}
