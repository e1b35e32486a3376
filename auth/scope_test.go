package auth_test

import (
	"slices"
	"testing"
	"time"

	"haft"
	"haft/auth"
)

func TestMay(t *testing.T) {
	w := setup(t)
	admin := []string{haft.RoleAdmin}
	for _, tt := range []struct {
		name   string
		roles  []string
		scope  []string
		may    []auth.Action
		mayNot []auth.Action
	}{
		{"no role and no scope: what the engine judges", nil, nil,
			[]auth.Action{auth.CallsWrite, auth.ToolsRead, auth.ToolsWrite, auth.Operate}, []auth.Action{auth.KeysRead, auth.SecretsWrite, auth.AuditRead, auth.Admin}},
		{"administrator", admin, nil, auth.Actions(), nil},
		{"the action admin gives no role", nil, []string{"admin"}, []auth.Action{auth.CallsRead, auth.ToolsWrite}, []auth.Action{auth.KeysWrite, auth.Admin}},
		{"the role admin does not widen a scope", admin, []string{"tools:read"}, []auth.Action{auth.ToolsRead}, []auth.Action{auth.KeysRead, auth.CallsWrite, auth.ToolsWrite, auth.Admin}},
		{"both", admin, []string{"admin"}, auth.Actions(), nil},
		{"an empty scope", admin, []string{}, nil, auth.Actions()},
		{"a permission is for calls", nil, []string{"tool:add"}, []auth.Action{auth.CallsWrite}, []auth.Action{auth.CallsRead, auth.ToolsRead, auth.ToolsWrite}},
		{"another role", []string{"administrator", "Admin"}, nil, []auth.Action{auth.CallsWrite}, []auth.Action{auth.KeysRead}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, token := w.issue(t, auth.Key{User: "ann", Roles: tt.roles, Scope: tt.scope})
			id, err := w.bearer(t.Context(), token)
			if err != nil {
				t.Fatal(err)
			}
			for _, a := range tt.may {
				if err := id.May(a); err != nil {
					t.Errorf("May(%s) = %v", a, err)
				}
			}
			for _, a := range append(tt.mayNot, "", "nonsense", "tool:add", "*") {
				wantCode(t, string(a), id.May(a), haft.CodeDenied)
			}
		})
	}
	for _, a := range auth.Actions() {
		wantCode(t, "nobody", (auth.Identity{}).May(a), haft.CodeUnauthenticated)
	}
}

func TestScope_reaches_policy_as_permissions_only(t *testing.T) {
	for _, tt := range []struct{ scope, want []string }{
		{nil, nil}, {[]string{}, []string{}}, {[]string{"tools:read", "admin"}, []string{}},
		{[]string{"tools:read", "tool:a", "kind:bash"}, []string{"tool:a", "kind:bash"}},
	} {
		got := auth.Key{Org: "acme", Scope: tt.scope}.Principal().Scope
		if !slices.Equal(got, tt.want) || (got == nil) != (tt.want == nil) {
			t.Errorf("the scope %#v is %#v to policy, want %#v", tt.scope, got, tt.want)
		}
	}
}

func TestActions_are_all_listed_and_sorted_out(t *testing.T) {
	seen := map[auth.Action]bool{}
	for _, a := range auth.Actions() {
		if seen[a] {
			t.Errorf("%s is listed twice", a)
		}
		seen[a] = true
		if a != auth.CallsWrite && auth.CheckScope([]string{string(a)}) != nil {
			t.Errorf("%s cannot be in a scope", a)
		}
	}
	if !auth.Action("new:action").Managed() {
		t.Error("an action that nobody knows is for everybody")
	}
}

// Nobody makes a key that may do more than they may.
func TestEscalation(t *testing.T) {
	w := setup(t)
	end := time.Now().Add(time.Hour)
	admin := []string{haft.RoleAdmin}
	maker := func(k auth.Key) auth.Identity {
		t.Helper()
		_, token := w.issue(t, k)
		id, err := w.bearer(t.Context(), token)
		if err != nil {
			t.Fatal(err)
		}
		return id
	}
	confined := maker(auth.Key{User: "c", Roles: admin, Scope: []string{"keys:write", "keys:read", "tool:add", "tag:*"}})
	for _, tt := range []struct {
		name string
		by   auth.Identity
		key  auth.Key
		want haft.Code
	}{
		{"administrator makes an administrator", w.admin, auth.Key{Roles: admin}, ""},
		{"administrator gives any role", w.admin, auth.Key{Roles: []string{"x"}}, ""},
		{"another organisation", w.admin, auth.Key{Org: "other"}, haft.CodeDenied},
		{"no administrator", maker(auth.Key{User: "u"}), auth.Key{}, haft.CodeDenied},
		{"scope without keys:write", maker(auth.Key{User: "r", Roles: admin, Scope: []string{"keys:read"}}), auth.Key{Scope: []string{}}, haft.CodeDenied},
		{"within the scope", confined, auth.Key{Scope: []string{"tool:add", "keys:read", "tag:money"}}, ""},
		{"nothing is within every scope", confined, auth.Key{Scope: []string{}}, ""},
		{"no scope at all", confined, auth.Key{}, haft.CodeDenied},
		{"another tool", confined, auth.Key{Scope: []string{"tool:sub"}}, haft.CodeDenied},
		{"all tools", confined, auth.Key{Scope: []string{"tool:*"}}, haft.CodeDenied},
		{"a pattern that only looks narrower", confined, auth.Key{Scope: []string{"tool:add*"}}, haft.CodeDenied},
		{"another kind of permission", confined, auth.Key{Scope: []string{"category:money"}}, haft.CodeDenied},
		{"another action", confined, auth.Key{Scope: []string{"secrets:read"}}, haft.CodeDenied},
		{"every action", confined, auth.Key{Scope: []string{"admin"}}, haft.CodeDenied},
		{"admin in a scope gives no tools", maker(auth.Key{User: "a", Roles: admin, Scope: []string{"admin"}}), auth.Key{Scope: []string{"tool:add"}}, haft.CodeDenied},
		{"admin in a scope gives actions", maker(auth.Key{User: "a", Roles: admin, Scope: []string{"admin"}}), auth.Key{Scope: []string{"audit:read"}}, ""},
		{"a key that outlives its maker", maker(auth.Key{User: "e", Roles: admin, Expires: end}), auth.Key{}, haft.CodeDenied},
		{"a key that outlives its maker by a second", maker(auth.Key{User: "e", Roles: admin, Expires: end}), auth.Key{Expires: end.Add(time.Second)}, haft.CodeDenied},
		{"a key that does not", maker(auth.Key{User: "e", Roles: admin, Expires: end}), auth.Key{Expires: end.Add(-time.Second)}, ""},
		{"nobody", auth.Identity{}, auth.Key{Org: "acme"}, haft.CodeUnauthenticated},
		{"the operator", auth.Trusted(haft.Principal{Org: "acme", Roles: admin}), auth.Key{Roles: admin}, ""},
		{"the operator for an agent", auth.Trusted(haft.Principal{Org: "acme", Roles: admin, Scope: []string{"tool:add"}}), auth.Key{}, haft.CodeDenied},
	} {
		_, _, err := w.ring.Issue(t.Context(), tt.by, tt.key)
		wantCode(t, tt.name, err, tt.want)
	}
	// A role that manages keys is not an administrator.
	ops := setup(t, func(c *auth.Config) { c.Managers = []string{"ops"} })
	_, token, err := ops.ring.Issue(t.Context(), auth.Trusted(haft.Principal{Org: "acme", Roles: admin}), auth.Key{User: "o", Roles: []string{"ops"}})
	if err != nil {
		t.Fatal(err)
	}
	by, err := ops.bearer(t.Context(), token.Reveal())
	if err != nil {
		t.Fatal(err)
	}
	_, _, err = ops.ring.Issue(t.Context(), by, auth.Key{Roles: admin})
	wantCode(t, "a manager makes an administrator", err, haft.CodeDenied)
	_, _, err = ops.ring.Issue(t.Context(), by, auth.Key{Roles: []string{"ops"}})
	wantCode(t, "a manager makes a manager", err, "")
}

// A secret is as good as the key: to replace one is to take it.
func TestEscalation_by_changing_a_key(t *testing.T) {
	w := setup(t)
	_, token := w.issue(t, auth.Key{User: "c", Roles: []string{haft.RoleAdmin}, Scope: []string{"keys:write", "keys:read"}})
	by, err := w.bearer(t.Context(), token)
	if err != nil {
		t.Fatal(err)
	}
	yes, no, never := true, false, time.Time{}
	_, _, err = w.ring.Rotate(t.Context(), by, w.id, time.Hour)
	wantCode(t, "Rotate of a wider key", err, haft.CodeDenied)
	_, err = w.ring.Set(t.Context(), by, w.id, auth.KeyState{Expires: &never})
	wantCode(t, "Set of a wider key", err, haft.CodeDenied)
	_, err = w.ring.Set(t.Context(), by, w.id, auth.KeyState{Disabled: &yes})
	wantCode(t, "disabling one", err, "")
	_, err = w.ring.Set(t.Context(), by, w.id, auth.KeyState{Disabled: &no})
	wantCode(t, "enabling one", err, haft.CodeDenied)

	_, err = w.ring.Key(t.Context(), by, w.id)
	wantCode(t, "reading one", err, "")
	other := auth.Trusted(haft.Principal{Org: "other", Roles: []string{haft.RoleAdmin}})
	_, missing := w.ring.Key(t.Context(), other, "aaaaaaaaaaaa")
	for what, err := range map[string]error{
		"Key":    func() error { _, err := w.ring.Key(t.Context(), other, w.id); return err }(),
		"Rotate": func() error { _, _, err := w.ring.Rotate(t.Context(), other, w.id, 0); return err }(),
		"Set": func() error {
			_, err := w.ring.Set(t.Context(), other, w.id, auth.KeyState{Disabled: &yes})
			return err
		}(),
		"Remove": w.ring.Remove(t.Context(), other, w.id),
	} {
		wantCode(t, what+" from another organisation", err, haft.CodeNotFound)
		if err == nil || err.Error() != missing.Error() {
			t.Errorf("%s tells a key of another organisation (%v) from one that is not there (%v)", what, err, missing)
		}
	}
	for k := range w.ring.Keys(t.Context(), other, "") {
		t.Errorf("another organisation sees %s", k.ID)
	}
}
