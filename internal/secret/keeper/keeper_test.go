package keeper_test

import (
	"bytes"
	"cmp"
	"context"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"

	"haft"
	"haft/internal/secret"
	"haft/internal/secret/keeper"
)

// memory is a backend that forgets. It can be told to fail.
type memory struct {
	mu     sync.Mutex
	rows   map[string]keeper.Row
	keyset []byte
	rev    int64
	writes int
	fail   func(write int) error // called before each write
}

func newMemory() *memory { return &memory{rows: map[string]keeper.Row{}} }

var (
	errGone     = &haft.Error{Code: haft.CodeNotFound, Message: "not here"}
	errConflict = &haft.Error{Code: haft.CodeConflict, Message: "changed"}
)

func at(s keeper.Scope, name string) string {
	return strings.Join([]string{s.Org, string(s.Kind), s.ID, name}, "\x00")
}

func (m *memory) write() error {
	m.writes++
	if m.fail != nil {
		return m.fail(m.writes)
	}
	return nil
}

func (m *memory) Secret(_ context.Context, s keeper.Scope, name string) (keeper.Row, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	r, ok := m.rows[at(s, name)]
	if !ok {
		return r, errGone
	}
	return r, nil
}

func (m *memory) Secrets(_ context.Context, s *keeper.Scope, after keeper.Row, limit int) ([]keeper.Row, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	var out []keeper.Row
	for _, r := range m.rows {
		if (s == nil || r.Scope == *s) && at(r.Scope, r.Name) > at(after.Scope, after.Name) {
			out = append(out, r)
		}
	}
	slices.SortFunc(out, func(a, b keeper.Row) int { return cmp.Compare(at(a.Scope, a.Name), at(b.Scope, b.Name)) })
	return out[:min(limit, len(out))], nil
}

func (m *memory) PutSecret(_ context.Context, r keeper.Row) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.write(); err != nil {
		return err
	}
	if m.rows[at(r.Scope, r.Name)].Rev != r.Rev {
		return errConflict
	}
	r.Rev++
	r.Data = bytes.Clone(r.Data)
	m.rows[at(r.Scope, r.Name)] = r
	return nil
}

func (m *memory) RemoveSecret(_ context.Context, s keeper.Scope, name string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if _, ok := m.rows[at(s, name)]; !ok {
		return errGone
	}
	delete(m.rows, at(s, name))
	return nil
}

func (m *memory) Keyset(context.Context) ([]byte, int64, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.rev == 0 {
		return nil, 0, errGone
	}
	return bytes.Clone(m.keyset), m.rev, nil
}

func (m *memory) PutKeyset(_ context.Context, data []byte, rev int64) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.write(); err != nil {
		return err
	}
	if m.rev != rev {
		return errConflict
	}
	m.keyset, m.rev = bytes.Clone(data), rev+1
	return nil
}

// dump is all that the backend has, as a thief would see it.
func (m *memory) dump() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	out := string(m.keyset)
	for _, r := range m.rows {
		out += fmt.Sprintf(" %q %q %s %d %s", r.Scope, r.Name, r.Data, r.Key, r.Fingerprint)
	}
	return out
}

var (
	org   = keeper.Scope{Org: "acme", Kind: keeper.KindOrg}
	agent = keeper.Scope{Org: "acme", Kind: keeper.KindAgent, ID: "a1"}
)

func master(t *testing.T, b byte) *keeper.Master {
	t.Helper()
	m, err := keeper.NewMaster(bytes.Repeat([]byte{b}, keeper.MasterSize))
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func open(t *testing.T, back keeper.Backend, masters ...*keeper.Master) *keeper.Keeper {
	t.Helper()
	k, err := keeper.Open(t.Context(), back, masters...)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

func put(t *testing.T, k *keeper.Keeper, s keeper.Scope, name, value string) {
	t.Helper()
	if err := k.Put(t.Context(), s, name, secret.New(value)); err != nil {
		t.Fatalf("Put(%v, %s): %v", s, name, err)
	}
}

// values returns the values of a scope.
func values(t *testing.T, k *keeper.Keeper, scope keeper.Scope) map[string]string {
	t.Helper()
	list, err := k.Values(t.Context(), scope)
	if err != nil {
		t.Fatalf("Values(%v): %v", scope, err)
	}
	got := map[string]string{}
	for _, n := range list {
		got[n.Name] = n.Value.Reveal()
	}
	return got
}

func TestKeeper_stores_replaces_and_removes(t *testing.T) {
	back := newMemory()
	k := open(t, back, master(t, 1))
	put(t, k, org, "A", "first-value")
	put(t, k, org, "B", "second-value")
	put(t, k, org, "A", "third-value")
	put(t, k, agent, "A", "agent-value")
	if diff := gocmp.Diff(map[string]string{"A": "third-value", "B": "second-value"}, values(t, k, org)); diff != "" {
		t.Error(diff)
	}
	if err := back.RemoveSecret(t.Context(), org, "B"); err != nil {
		t.Fatal(err)
	}
	if diff := gocmp.Diff(map[string]string{"A": "third-value"},
		values(t, open(t, back, master(t, 1)), org)); diff != "" {
		t.Error("another process: " + diff)
	}
}

func TestKeeper_never_shows_a_value(t *testing.T) {
	const value = "correct horse battery staple"
	back := newMemory()
	k := open(t, back, master(t, 1))
	put(t, k, org, "KEY", value)
	put(t, k, org, "SAME", value)
	put(t, k, org, "OTHER", value+".")
	infos := []keeper.Row{back.rows[at(org, "KEY")], back.rows[at(org, "OTHER")], back.rows[at(org, "SAME")]}
	if infos[0].Fingerprint != infos[2].Fingerprint || infos[0].Fingerprint == infos[1].Fingerprint ||
		len(infos[0].Fingerprint) != 8 {
		t.Errorf("fingerprints tell values apart: %v", infos)
	}
	other := keeper.Scope{Org: "rival", Kind: keeper.KindOrg}
	put(t, k, other, "KEY", value)
	if back.rows[at(other, "KEY")].Fingerprint == infos[0].Fingerprint {
		t.Error("fingerprints say something across organisations")
	}
	l, err := k.Values(t.Context(), org)
	if err != nil {
		t.Fatal(err)
	}
	for where, text := range map[string]string{"backend": back.dump(), "list": fmt.Sprintf("%+v", infos),
		"keeper": fmt.Sprintf("%+v %#v", k, k), "values": fmt.Sprintf("%+v %#v", l, l)} {
		for _, form := range []string{value, hex.EncodeToString([]byte(value)),
			base64.StdEncoding.EncodeToString([]byte(value))[:30], fmt.Sprint([]byte(value))} {
			if strings.Contains(text, strings.Trim(form, "[]")) {
				t.Errorf("%s shows the value as %q", where, form)
			}
		}
	}
}

func TestKeeper_refuses(t *testing.T) {
	k := open(t, newMemory(), master(t, 1))
	v := secret.New("value")
	tests := []struct {
		name  string
		scope keeper.Scope
		key   string
		value secret.Value
	}{
		{"no organisation", keeper.Scope{Kind: keeper.KindOrg}, "A", v},
		{"no kind", keeper.Scope{Org: "acme"}, "A", v},
		{"an agent without a name", keeper.Scope{Org: "acme", Kind: keeper.KindAgent}, "A", v},
		{"an organisation with two", keeper.Scope{Org: "acme", Kind: keeper.KindOrg, ID: "x"}, "A", v},
		{"no name", org, "", v},
		{"a reserved name", org, "LD_PRELOAD", v},
		{"no value", org, "A", secret.Value{}},
		{"too large a value", org, "A", secret.New(strings.Repeat("x", keeper.MaxValue+1))},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if err := k.Put(t.Context(), tt.scope, tt.key, tt.value); haft.CodeOf(err) != haft.CodeInvalid {
				t.Errorf("Put = %v", err)
			}
		})
	}
	if _, err := keeper.NewMaster([]byte("short")); haft.CodeOf(err) != haft.CodeInvalid {
		t.Errorf("NewMaster = %v", err)
	}
	if _, err := keeper.Open(t.Context(), newMemory()); haft.CodeOf(err) != haft.CodeInvalid {
		t.Errorf("Open without a key = %v", err)
	}
}

func TestKeeper_bounds_a_scope(t *testing.T) {
	back := newMemory()
	k := open(t, back, master(t, 1))
	put(t, k, org, "N0", "value")
	for i := range keeper.MaxPerScope {
		row := back.rows[at(org, "N0")]
		row.Name = fmt.Sprint("N", i)
		back.rows[at(org, row.Name)] = row
	}
	if err := k.Put(t.Context(), org, "MORE", secret.New("value")); haft.CodeOf(err) != haft.CodeInvalid {
		t.Errorf("Put = %v", err)
	}
	put(t, k, org, "N1", "a replacement fits")
	if len(back.rows) != keeper.MaxPerScope {
		t.Errorf("%d secrets", len(back.rows))
	}
}

func TestKeeper_wrong_or_lost_keys_change_nothing(t *testing.T) {
	back := newMemory()
	put(t, open(t, back, master(t, 1)), org, "A", "value")
	before := back.dump()
	_, err := keeper.Open(t.Context(), back, master(t, 2))
	if haft.CodeOf(err) != haft.CodeUnavailable || !strings.Contains(haft.MessageOf(err), "another master key") {
		t.Errorf("a wrong master key: %v", err)
	}
	if back.dump() != before {
		t.Error("something was written")
	}
	if got := values(t, open(t, back, master(t, 1)), org); got["A"] != "value" {
		t.Error("the right key still opens it")
	}
	lost := newMemory()
	lost.rows = back.rows
	if _, err := keeper.Open(t.Context(), lost, master(t, 1)); haft.CodeOf(err) != haft.CodeUnavailable ||
		lost.writes != 0 {
		t.Errorf("a lost keyset: %v, %d writes", err, lost.writes)
	}
	for name, data := range map[string][]byte{"garbage": []byte("garbage"), "empty": {},
		"cut":     back.keyset[:len(back.keyset)/2],
		"changed": bytes.Replace(back.keyset, back.keyset[60:64], []byte("AAAA"), 1)} {
		broken := newMemory()
		broken.rows, broken.keyset, broken.rev = back.rows, data, back.rev
		if _, err := keeper.Open(t.Context(), broken, master(t, 1)); haft.CodeOf(err) != haft.CodeUnavailable ||
			broken.writes != 0 {
			t.Errorf("%s: %v, %d writes", name, err, broken.writes)
		}
	}
}

func TestKeeper_notices_moved_and_changed_rows(t *testing.T) {
	others := map[string]func(*keeper.Row){
		"another name":         func(r *keeper.Row) { r.Name = "B" },
		"another agent":        func(r *keeper.Row) { r.Scope.ID = "a2" },
		"another kind":         func(r *keeper.Row) { r.Scope.Kind = "tool" },
		"another organisation": func(r *keeper.Row) { r.Scope.Org = "rival" },
		"a part moved over":    func(r *keeper.Row) { r.Scope.Org, r.Scope.ID = "acmea", "1" },
		"a byte changed":       func(r *keeper.Row) { r.Data[len(r.Data)-1] ^= 1 },
		"cut":                  func(r *keeper.Row) { r.Data = r.Data[:3] },
		"empty":                func(r *keeper.Row) { r.Data = nil },
		"another key":          func(r *keeper.Row) { r.Key++ },
		"bound elsewhere":      func(r *keeper.Row) { r.Bound = `{"hosts":["evil.example"],"header":"X"}` },
		"not bound any more":   func(r *keeper.Row) { r.Bound = "" },
		"bound by who knows":   func(r *keeper.Row) { r.Bound = "{" },
		"said to be plain":     func(r *keeper.Row) { r.Plain = true },
	}
	for name, change := range others {
		t.Run(name, func(t *testing.T) {
			back := newMemory()
			k := open(t, back, master(t, 1))
			if err := k.PutBound(t.Context(), agent, "A", secret.New("value"),
				&secret.Binding{Hosts: []string{"api.example"}, Header: "X"}); err != nil {
				t.Fatal(err)
			}
			row := back.rows[at(agent, "A")]
			row.Data = bytes.Clone(row.Data)
			change(&row)
			back.rows = map[string]keeper.Row{at(row.Scope, row.Name): row}
			_, err := k.Values(t.Context(), row.Scope)
			if haft.CodeOf(err) != haft.CodeUnavailable || strings.Contains(err.Error(), "value") {
				t.Errorf("Values = %v", err)
			}
		})
	}
}

func TestKeeper_many_at_once(t *testing.T) {
	back := newMemory()
	var wg sync.WaitGroup
	for p := range 4 {
		wg.Go(func() {
			k, err := keeper.Open(t.Context(), back, master(t, 1))
			if err != nil {
				t.Error(err)
				return
			}
			for i := range 20 {
				if err := k.Put(t.Context(), org, fmt.Sprintf("P%d_%d", p, i), secret.New("value")); err != nil {
					t.Error(err)
				}
				if i == 10 {
					if err := k.Rotate(t.Context()); err != nil && haft.CodeOf(err) != haft.CodeConflict {
						t.Error(err)
					}
					if _, err := k.Rewrap(t.Context()); err != nil && haft.CodeOf(err) != haft.CodeConflict {
						t.Error(err)
					}
				}
				if _, err := k.Values(t.Context(), org); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	if got := len(values(t, open(t, back, master(t, 1)), org)); got != 80 {
		t.Errorf("%d values", got)
	}
}

var errCrash = errors.New("the machine is off")

func TestKeeper_bindings(t *testing.T) {
	k := open(t, newMemory(), master(t, 1))
	to := &secret.Binding{Hosts: []string{"api.example"}, Header: "Authorization", Prefix: "Bearer ",
		OAuth: &secret.OAuth{TokenURL: "https://login.example/", Grant: secret.GrantClient, ClientID: "me"}}
	bound := func() *secret.Binding {
		t.Helper()
		l, err := k.Values(t.Context(), org)
		if err != nil {
			t.Fatal(err)
		}
		return l[0].Bound
	}
	for _, step := range []struct {
		what     string
		to, want *secret.Binding
	}{{"bind", to, to}, {"replace", nil, to}, {"unbind", &secret.Binding{}, nil},
		{"replace what is not bound", nil, nil}} {
		if err := k.PutBound(t.Context(), org, "A", secret.New("value "+step.what), step.to); err != nil {
			t.Fatal(err)
		}
		if err := k.Rotate(t.Context()); err != nil {
			t.Fatal(err)
		}
		if _, err := k.Rewrap(t.Context()); err != nil {
			t.Fatal(err)
		}
		if diff := gocmp.Diff(step.want, bound()); diff != "" {
			t.Errorf("%s: %s", step.what, diff)
		}
	}
	long := &secret.Binding{Hosts: []string{strings.Repeat("a", keeper.MaxBinding)}}
	if err := k.PutBound(t.Context(), org, "A", secret.New("value"), long); haft.CodeOf(err) != haft.CodeInvalid {
		t.Errorf("a long binding: %v", err)
	}
}
