package auth_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"haft"
	"haft/internal/auth"
)

func TestMay(t *testing.T) {
	w := setup(t, func(c *auth.Config) { c.Rules.Operators = "acme" })
	admin := []string{haft.RoleAdmin}
	for _, tt := range []struct {
		name   string
		roles  []string
		scope  []string
		may    []haft.Action
		mayNot []haft.Action
	}{
		{"no role and no scope", nil, nil,
			[]haft.Action{haft.CallsWrite, haft.ToolsRead, haft.ApprovalsWrite},
			[]haft.Action{haft.ToolsWrite, haft.AgentsWrite, haft.Operate, haft.KeysRead, haft.SecretsWrite,
				haft.AuditRead, haft.AllActions}},
		{"administrator", admin, nil, haft.Actions(), nil},
		{"the action admin gives no role", nil, []string{"admin"}, []haft.Action{haft.CallsRead},
			[]haft.Action{haft.ToolsWrite, haft.KeysWrite, haft.AllActions}},
		{"the role admin does not widen a scope", admin, []string{"tools:read"}, []haft.Action{haft.ToolsRead},
			[]haft.Action{haft.KeysRead, haft.CallsWrite, haft.ToolsWrite, haft.AllActions}},
		{"both", admin, []string{"admin"}, haft.Actions(), nil},
		{"an empty scope", admin, []string{}, nil, haft.Actions()},
		{"a permission is for calls", nil, []string{"tool:add"}, []haft.Action{haft.CallsWrite},
			[]haft.Action{haft.CallsRead, haft.ToolsRead, haft.ToolsWrite}},
		{"another role", []string{"administrator", "Admin"}, nil, []haft.Action{haft.CallsWrite},
			[]haft.Action{haft.KeysRead}},
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
	for _, a := range haft.Actions() {
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
	seen := map[haft.Action]bool{}
	for _, a := range haft.Actions() {
		if seen[a] {
			t.Errorf("%s is listed twice", a)
		}
		seen[a] = true
		if a != haft.CallsWrite && auth.CheckScope([]string{string(a)}) != nil {
			t.Errorf("%s cannot be in a scope", a)
		}
	}
	if !haft.Action("new:action").Managed() {
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
	confined := maker(auth.Key{User: "c", Roles: admin,
		Scope: []string{"keys:write", "keys:read", "tool:add", "tag:*"}})
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
		{"scope without keys:write", maker(auth.Key{User: "r", Roles: admin, Scope: []string{"keys:read"}}),
			auth.Key{Scope: []string{}}, haft.CodeDenied},
		{"within the scope", confined, auth.Key{Scope: []string{"tool:add", "keys:read", "tag:money"}}, ""},
		{"nothing is within every scope", confined, auth.Key{Scope: []string{}}, ""},
		{"no scope at all", confined, auth.Key{}, haft.CodeDenied},
		{"another tool", confined, auth.Key{Scope: []string{"tool:sub"}}, haft.CodeDenied},
		{"all tools", confined, auth.Key{Scope: []string{"tool:*"}}, haft.CodeDenied},
		{"a pattern that only looks narrower", confined, auth.Key{Scope: []string{"tool:add*"}}, haft.CodeDenied},
		{"another kind of permission", confined, auth.Key{Scope: []string{"category:money"}}, haft.CodeDenied},
		{"another action", confined, auth.Key{Scope: []string{"secrets:read"}}, haft.CodeDenied},
		{"every action", confined, auth.Key{Scope: []string{"admin"}}, haft.CodeDenied},
		{"admin in a scope gives no tools", maker(auth.Key{User: "a", Roles: admin, Scope: []string{"admin"}}),
			auth.Key{Scope: []string{"tool:add"}}, haft.CodeDenied},
		{"admin in a scope gives actions", maker(auth.Key{User: "a", Roles: admin, Scope: []string{"admin"}}),
			auth.Key{Scope: []string{"audit:read"}}, ""},
		{"a key that outlives its maker", maker(auth.Key{User: "e", Roles: admin, Expires: end}), auth.Key{},
			haft.CodeDenied},
		{"a key that outlives its maker by a second", maker(auth.Key{User: "e", Roles: admin, Expires: end}),
			auth.Key{Expires: end.Add(time.Second)}, haft.CodeDenied},
		{"a key that does not", maker(auth.Key{User: "e", Roles: admin, Expires: end}),
			auth.Key{Expires: end.Add(-time.Second)}, ""},
		{"nobody", auth.Identity{}, auth.Key{Org: "acme"}, haft.CodeUnauthenticated},
		{"the operator", auth.Trusted(haft.Principal{Org: "acme", Roles: admin}), auth.Key{Roles: admin}, ""},
		{"the operator for an agent", auth.Trusted(
			haft.Principal{Org: "acme", Roles: admin, Scope: []string{"tool:add"}}), auth.Key{}, haft.CodeDenied},
	} {
		_, _, err := w.ring.Issue(t.Context(), tt.by, tt.key)
		wantCode(t, tt.name, err, tt.want)
	}
	// A role that manages keys is not an administrator.
	ops := setup(t, func(c *auth.Config) { c.Rules.Managers = []string{"ops"} })
	_, token, err := ops.ring.Issue(t.Context(), auth.Trusted(haft.Principal{Org: "acme", Roles: admin}),
		auth.Key{User: "o", Roles: []string{"ops"}})
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
	_, token := w.issue(t, auth.Key{User: "c", Roles: []string{haft.RoleAdmin},
		Scope: []string{"keys:write", "keys:read"}})
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

// Where every key must have a user, mallory's old key without one is refused and
// told why, and no other is made.
func TestRequireUser(t *testing.T) {
	before := setup(t)
	k, old := before.issue(t, auth.Key{Name: "mallory"})
	strict, err := auth.New(auth.Config{Keyring: before.ring, RequireUser: true})
	if err != nil {
		t.Fatal(err)
	}
	_, err = strict.Authenticate(t.Context(), auth.Credential{Scheme: "Bearer", Token: old})
	wantCode(t, "a key without a user", err, haft.CodeUnauthenticated)
	if got := haft.MessageOf(err); !strings.Contains(got, "--for-user") || auth.ReasonOf(err) != auth.ReasonNoUser ||
		auth.KeyOf(err) != k.ID {
		t.Errorf("the error is %q for %q, reason %q", got, auth.KeyOf(err), auth.ReasonOf(err))
	}
	_, _, err = before.ring.Issue(t.Context(), before.admin, auth.Key{Agent: "bot"})
	wantCode(t, "a new key without a user", err, haft.CodeInvalid)
	_, _, err = before.ring.Rotate(t.Context(), before.admin, k.ID, 0)
	wantCode(t, "a rotated key without a user", err, haft.CodeInvalid)
	if _, err := before.ring.Set(t.Context(), before.admin, k.ID, auth.KeyState{Disabled: new(true)}); err != nil {
		t.Errorf("such a key cannot be disabled: %v", err)
	}
	if _, err := strict.Authenticate(t.Context(), auth.Credential{Scheme: "Bearer", Token: before.key}); err != nil {
		t.Errorf("a key with a user: %v", err)
	}
}
