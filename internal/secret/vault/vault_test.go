package vault_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"haft"
	"haft/internal/callenv"
	"haft/internal/secret"
	"haft/internal/secret/keeper"
	"haft/internal/secret/vault"
	"haft/internal/service"
	"haft/internal/store"
	"haft/internal/store/postgres"
	"haft/internal/store/sqlite"
	"haft/internal/store/storetest"
)

// openStore opens the store of a directory.
func openStore(t *testing.T, dir string) *store.Store {
	t.Helper()
	s, err := sqlite.Open(t.Context(), sqlite.Config{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// openVault opens the vault of a store.
func openVault(t *testing.T, s *store.Store, cfg vault.Config) *vault.Vault {
	t.Helper()
	v, err := vault.Open(t.Context(), s, cfg)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// values shows what is stored for calls: the organisation's, then the agent's.
func values(t *testing.T, v service.Vault, org string, agent haft.AgentID) string {
	t.Helper()
	s, err := v.Stored(t.Context(), org, agent)
	if err != nil {
		t.Fatal(err)
	}
	return shownValues(s)
}

func shownValues(s *callenv.Stored) string {
	var all []string
	for _, list := range [][]secret.Named{s.Org, s.Agent} {
		for _, n := range list {
			all = append(all, n.Name+"="+n.Value.Reveal())
		}
		all = append(all, "|")
	}
	return strings.TrimSuffix(strings.Join(all, " "), " |")
}

// must fails the test.
func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// master is a key that the operator keeps.
func master(n byte) []byte { return bytes.Repeat([]byte{n}, 32) }

// What is stored is seen by the next call of its scope, in every process, and not
// by those that have theirs already.
func TestVault_serves_the_next_call(t *testing.T) {
	pair := map[string]func(t *testing.T) (a, b service.Vault){
		"one process on SQLite": func(t *testing.T) (a, b service.Vault) {
			v := openVault(t, openStore(t, ""), vault.Config{})
			return v, v
		},
		"two processes on Postgres": func(t *testing.T) (a, b service.Vault) {
			url := storetest.Postgres(t)
			var list [2]service.Vault
			for i := range list {
				s, err := postgres.Open(t.Context(), url, postgres.Config{})
				must(t, err)
				t.Cleanup(func() { _ = s.Close() })
				list[i] = openVault(t, s, vault.Config{MasterKey: master(1)})
			}
			return list[0], list[1]
		},
	}
	for name, open := range pair {
		t.Run(name, func(t *testing.T) {
			ctx := t.Context()
			a, b := open(t)
			if got := values(t, b, "acme", "ag_1"); got != "|" {
				t.Errorf("before anything is stored: %q", got)
			}
			must(t, a.Put(ctx, "acme", "", "KEY", secret.New("one"), nil))
			must(t, a.Put(ctx, "acme", "ag_1", "KEY", secret.New("two"), nil))
			running, err := b.Stored(ctx, "acme", "ag_1")
			must(t, err)
			must(t, b.Put(ctx, "acme", "", "KEY", secret.New("three"), nil))
			for what, got := range map[string][2]string{
				"a running call":            {shownValues(running), "KEY=one | KEY=two"},
				"the next one":              {values(t, a, "acme", "ag_1"), "KEY=three | KEY=two"},
				"that of another agent":     {values(t, a, "acme", "ag_2"), "KEY=three |"},
				"that of no agent":          {values(t, a, "acme", ""), "KEY=three |"},
				"of another organisation":   {values(t, a, "other", "ag_1"), "|"},
				"one with an endless name":  {values(t, a, strings.Repeat("x", 500), ""), "|"},
				"one that is no text":       {values(t, a, "\xff\x00", ""), "|"},
				"the same, asked for again": {values(t, b, "acme", ""), "KEY=three |"},
			} {
				if got[0] != got[1] {
					t.Errorf("%s sees %q, want %q", what, got[0], got[1])
				}
			}
			list, err := b.List(ctx, "acme", "ag_1")
			if err != nil || len(list) != 1 || list[0].Name != "KEY" || list[0].Fingerprint == "" {
				t.Errorf("List = %v, %v", list, err)
			}
			must(t, a.Remove(ctx, "acme", "", "KEY"))
			if got := values(t, b, "acme", "ag_1"); got != "| KEY=two" {
				t.Errorf("after a removal: %q", got)
			}
			if err := a.Remove(ctx, "acme", "", "KEY"); haft.CodeOf(err) != haft.CodeNotFound {
				t.Errorf("a second removal: %v", err)
			}
			if err := a.Put(ctx, "acme", "", "LD_PRELOAD", secret.New("x.so"),
				nil); haft.CodeOf(err) != haft.CodeInvalid {
				t.Errorf("a reserved name: %v", err)
			}
		})
	}
}

// A fuse is a context that ends after so many looks at it: a stop at any point.
type fuse struct {
	context.Context
	left atomic.Int64
	gone chan struct{}
	once sync.Once
}

func newFuse(ctx context.Context, n int) *fuse {
	f := &fuse{Context: ctx, gone: make(chan struct{})}
	f.left.Store(int64(n))
	return f
}

func (f *fuse) burn() {
	if f.left.Add(-1) < 0 {
		f.once.Do(func() { close(f.gone) })
	}
}

func (f *fuse) Done() <-chan struct{} { f.burn(); return f.gone }

func (f *fuse) Err() error {
	f.burn()
	select {
	case <-f.gone:
		return context.Canceled
	default:
		return nil
	}
}

// addHooks keeps webhooks as package webhook does, one of them disabled.
func addHooks(t *testing.T, s *store.Store, v *vault.Vault) {
	t.Helper()
	for _, id := range []haft.WebhookID{"wh_1", "wh_2"} {
		sealed, err := v.Seal([]byte("whsec_"+string(id)), []byte("webhook:"+string(id)))
		must(t, err)
		_, err = s.Webhooks.AddWebhook(t.Context(), haft.Webhook{ID: id, Org: "acme", URL: "https://example.com/",
			Disabled: id == "wh_2"}, "sealed:"+hex.EncodeToString(sealed))
		must(t, err)
	}
}

// checkHooks reads their secrets.
func checkHooks(t *testing.T, s *store.Store, v *vault.Vault) {
	t.Helper()
	for _, id := range []haft.WebhookID{"wh_1", "wh_2"} {
		w, err := s.Webhooks.Webhook(t.Context(), "acme", id)
		must(t, err)
		sealed, err := hex.DecodeString(strings.TrimPrefix(w.Secret, "sealed:"))
		must(t, err)
		if plain, err := v.Open(sealed, []byte("webhook:"+string(id))); err != nil ||
			string(plain) != "whsec_"+string(id) {
			t.Fatalf("the secret of the webhook %s: %q, %v", id, plain, err)
		}
	}
}

// stops runs work with stops at later and later points until one gets through. It
// returns how many did not.
func stops(t *testing.T, work func(ctx context.Context) error) int {
	t.Helper()
	for n := 0; n < 3000; n++ {
		if err := work(newFuse(t.Context(), n)); err == nil {
			return n
		}
	}
	t.Fatal("it never gets through")
	return 0
}

// plainDatabase makes a database as an older haft left it, or somebody who brought
// values from elsewhere: agents, secrets and waiting calls in the clear.
func plainDatabase(t *testing.T, dir string) {
	t.Helper()
	s := openStore(t, dir)
	ctx := t.Context()
	for i := range 3 {
		id := fmt.Sprintf("ag_%d", i)
		_, err := s.Agents.PutAgent(ctx, haft.Agent{ID: haft.AgentID(id), Org: "acme", Name: id,
			Env: map[string]string{"A": "plaintext-a-" + id, "B": "plaintext-b-" + id}})
		must(t, err)
		must(t, s.Secrets.PutSecret(ctx, keeper.Row{Scope: keeper.Scope{Org: "acme", Kind: "org"},
			Name: fmt.Sprintf("S%d", i),
			Data: fmt.Appendf(nil, "plaintext-s-%d", i), Plain: true, Created: time.Now(), Updated: time.Now()}))
		must(t, s.Commit(ctx, store.Batch{Records: []haft.Record{{
			Call: haft.Call{ID: haft.CallID(fmt.Sprintf("c_%d", i)), Tool: "x",
				Principal: haft.Principal{Org: "acme"}},
			Status: haft.StatusQueued, Created: time.Now(), Sealed: json.RawMessage(`{"args":{"q":"plaintext-call"}}`),
		}}}))
	}
	must(t, s.Close())
}

// inFiles lists the files below dir that hold text, in the clear or in base64.
func inFiles(t *testing.T, dir, text string) []string {
	t.Helper()
	var found []string
	must(t, filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		raw, err := os.ReadFile(path)
		if bytes.Contains(raw, []byte(text)) || bytes.Contains(raw,
			[]byte(base64.StdEncoding.EncodeToString([]byte(text))[:12])) {
			found = append(found, filepath.Base(path))
		}
		return err
	}))
	return found
}

// A database with values in the clear is encrypted in place, also if that is
// stopped anywhere, and then its files hold none of them.
func TestVault_seals_in_place(t *testing.T) {
	dir := t.TempDir()
	plainDatabase(t, dir)
	if len(inFiles(t, dir, "plaintext-")) == 0 {
		t.Fatal("the test does not see what it looks for")
	}
	n := stops(t, func(ctx context.Context) error {
		s := openStore(t, dir)
		_, err := vault.Open(ctx, s, vault.Config{Data: dir})
		if err != nil && haft.CodeOf(err) != haft.CodeUnavailable && ctx.Err() == nil {
			t.Errorf("a stop became %v", err)
		}
		must(t, s.Close())
		return err
	})
	if n < 10 {
		t.Errorf("there were only %d stops", n)
	}
	if found := inFiles(t, dir, "plaintext-"); found != nil {
		t.Errorf("values in the clear are in %v", found)
	}
	s := openStore(t, dir)
	v := openVault(t, s, vault.Config{Data: dir})
	for i := range 3 {
		id := fmt.Sprintf("ag_%d", i)
		want := fmt.Sprintf("S0=plaintext-s-0 S1=plaintext-s-1 S2=plaintext-s-2 | A=plaintext-a-%s B=plaintext-b-%s",
			id, id)
		if got := values(t, v, "acme", haft.AgentID(id)); got != want {
			t.Errorf("stored for %s: %q", id, got)
		}
	}
	open, err := s.Calls.SealedCalls(t.Context(), "", 10)
	must(t, err)
	for _, r := range open {
		var box []byte
		must(t, json.Unmarshal(r.Sealed, &box))
		if plain, err := v.Open(box, []byte(r.ID)); err != nil || string(plain) != `{"args":{"q":"plaintext-call"}}` {
			t.Errorf("call %s: %q, %v", r.ID, plain, err)
		}
	}
	if len(open) != 3 {
		t.Errorf("%d calls wait, want 3", len(open))
	}
}

// A rotation that is stopped anywhere loses nothing, and can be repeated.
func TestVault_rotation_survives_stops(t *testing.T) {
	for name, own := range map[string]bool{"the key of the directory": true, "a key of the operator": false} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			cfg, next := vault.Config{Data: dir}, filepath.Join(t.TempDir(), "next.key")
			if !own {
				cfg.MasterKey = master(1)
			}
			s := openStore(t, dir)
			v := openVault(t, s, cfg)
			for i := range 3 {
				must(t, v.Put(t.Context(), "acme", "", fmt.Sprintf("S%d", i), secret.New(fmt.Sprintf("value-%d", i)),
					nil))
			}
			box, err := v.Seal([]byte("waiting"), []byte("c_1"))
			must(t, err)
			raw, err := json.Marshal(box)
			must(t, err)
			must(t, s.Commit(t.Context(), store.Batch{Records: []haft.Record{{
				Call:   haft.Call{ID: "c_1", Tool: "x", Principal: haft.Principal{Org: "acme"}},
				Status: haft.StatusQueued, Created: time.Now(), Sealed: raw,
			}}}))
			addHooks(t, s, v)
			check := func(v *vault.Vault) {
				t.Helper()
				checkHooks(t, s, v)
				if got := values(t, v, "acme", ""); got != "S0=value-0 S1=value-1 S2=value-2 |" {
					t.Fatalf("stored: %q", got)
				}
				list, err := s.Calls.SealedCalls(t.Context(), "", 10)
				must(t, err)
				var box []byte
				must(t, json.Unmarshal(list[0].Sealed, &box))
				if plain, err := v.Open(box, []byte("c_1")); err != nil || string(plain) != "waiting" {
					t.Fatalf("the waiting call: %q, %v", plain, err)
				}
			}
			n := stops(t, func(ctx context.Context) error {
				v := openVault(t, s, cfg)
				_, err := v.Rotate(ctx, vault.RotateConfig{MasterKeyFile: next})
				check(v)
				check(openVault(t, s, cfg)) // another start, with what is there then
				return err
			})
			if n < 10 {
				t.Errorf("there were only %d stops", n)
			}
			if own {
				was, err := os.ReadFile(next)
				must(t, err)
				if is, err := os.ReadFile(filepath.Join(dir, "master.key")); err != nil || !bytes.Equal(is, was) {
					t.Errorf("the key of the directory was not replaced: %v", err)
				}
			}
			if !own {
				key, err := os.ReadFile(next)
				must(t, err)
				cfg.MasterKey = key
				v := openVault(t, s, cfg)
				if _, err := v.Rotate(t.Context(), vault.RotateConfig{}); err != nil {
					t.Fatal(err)
				}
				check(v)
				if _, err := vault.Open(t.Context(), s,
					vault.Config{Data: dir, MasterKey: master(1)}); haft.CodeOf(err) != haft.CodeUnavailable {
					t.Errorf("the old key after the rotation: %v", err)
				}
			}
			check(openVault(t, s, cfg))
		})
	}
}

// A master key that is wrong or lost changes nothing.
func TestVault_changes_nothing_without_its_key(t *testing.T) {
	dir := t.TempDir()
	s := openStore(t, dir)
	v := openVault(t, s, vault.Config{Data: dir})
	must(t, v.Put(t.Context(), "acme", "", "KEY", secret.New("value"), nil))
	path := filepath.Join(dir, "master.key")
	key, err := os.ReadFile(path)
	must(t, err)
	state := func() string {
		data, rev, err := s.Secrets.Keyset(t.Context())
		must(t, err)
		rows, err := s.Secrets.Secrets(t.Context(), nil, keeper.Row{}, 10)
		must(t, err)
		return fmt.Sprintf("%x %d %x", data, rev, rows[0].Data)
	}
	before := state()
	must(t, os.Remove(path))
	tests := []struct {
		name string
		cfg  vault.Config
		code haft.Code
		says string
	}{
		{name: "lost", cfg: vault.Config{Data: dir}, code: haft.CodeUnavailable, says: "is missing"},
		{name: "wrong", cfg: vault.Config{Data: dir, MasterKey: master(9)}, code: haft.CodeUnavailable,
			says: "another master key"},
		{name: "short", cfg: vault.Config{Data: dir, MasterKey: []byte("short")}, code: haft.CodeInvalid,
			says: "32 random bytes"},
		{name: "no file", cfg: vault.Config{Data: dir, MasterKeyFile: filepath.Join(dir, "nowhere")},
			code: haft.CodeInvalid, says: "cannot be read"},
		{name: "a directory", cfg: vault.Config{Data: dir, MasterKeyFile: dir}, code: haft.CodeInvalid,
			says: "is not a key"},
		{name: "a command that fails", cfg: vault.Config{Data: dir, MasterKeyCommand: "echo 1; exit 7"},
			code: haft.CodeUnavailable, says: "exit 7"},
		{name: "a command that prints no key", cfg: vault.Config{Data: dir,
			MasterKeyCommand: "echo secret-output"}, code: haft.CodeInvalid,
			says: "32 random bytes"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := vault.Open(t.Context(), s, tt.cfg)
			if haft.CodeOf(err) != tt.code || !strings.Contains(haft.MessageOf(err), tt.says) ||
				strings.Contains(haft.MessageOf(err), dir) || strings.Contains(err.Error(), "secret-output") {
				t.Errorf("OpenVault = %v", err)
			}
			if _, err := os.Stat(path); err == nil {
				t.Error("a new key was made")
			}
			if state() != before {
				t.Error("something was written")
			}
		})
	}
	back := vault.Config{Data: dir, MasterKey: key}
	if got := values(t, openVault(t, s, back), "acme", ""); got != "KEY=value |" {
		t.Errorf("with the key back: %q", got)
	}
}

func TestMaster_is_made_once(t *testing.T) {
	path := filepath.Join(t.TempDir(), "master.key")
	var all sync.WaitGroup
	var keys [16][]byte
	for i := range keys {
		all.Go(func() {
			var err error
			if keys[i], err = vault.OwnMaster(path, false); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	for _, k := range keys {
		if !bytes.Equal(k, keys[0]) || len(k) != 32 {
			t.Fatal("those who start at once have different keys")
		}
	}
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the file has mode %v, %v", info.Mode(), err)
	}
	left, err := os.ReadDir(filepath.Dir(path))
	if err != nil || len(left) != 1 {
		t.Errorf("there is more than the key: %v, %v", left, err)
	}
	must(t, os.Chmod(path, 0o640))
	if _, err := vault.OwnMaster(path, false); haft.CodeOf(err) != haft.CodeInvalid {
		t.Errorf("a key that others can read: %v", err)
	}
}

func TestParseMaster(t *testing.T) {
	key := bytes.Repeat([]byte{0xfb, 0xff}, 16)
	for _, text := range []string{
		string(key), hex.EncodeToString(key), strings.ToUpper(hex.EncodeToString(key)) + "\n",
		base64.StdEncoding.EncodeToString(key), base64.RawStdEncoding.EncodeToString(key),
		" " + base64.URLEncoding.EncodeToString(key) + "\r\n",
	} {
		if got, err := vault.ParseMaster([]byte(text)); err != nil || !bytes.Equal(got, key) {
			t.Errorf("ParseMaster(%q) = %x, %v", text, got, err)
		}
	}
	for _, text := range []string{"", "\n", strings.Repeat("x", 31), strings.Repeat("x", 33),
		base64.StdEncoding.EncodeToString(key[:31]), hex.EncodeToString(key) + "00"} {
		if got, err := vault.ParseMaster([]byte(text)); haft.CodeOf(err) != haft.CodeInvalid ||
			text != "" && strings.Contains(err.Error(), text) {
			t.Errorf("ParseMaster(%q) = %x, %v", text, got, err)
		}
	}
}

// Reading, writing and rotating at once: every read gives a whole value that was
// written.
func TestVault_hammered(t *testing.T) {
	s := openStore(t, "")
	v := openVault(t, s, vault.Config{})
	ctx := t.Context()
	must(t, v.Put(ctx, "acme", "", "KEY", secret.New("value-0"), nil))
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			for i := range 100 {
				got, err := v.Stored(ctx, "acme", "ag_1")
				if err != nil || len(got.Org) != 1 || !strings.HasPrefix(got.Org[0].Value.Reveal(), "value-") {
					t.Errorf("Stored = %v", err)
					return
				}
				if i%10 == 0 {
					if err := v.Put(ctx, "acme", "", "KEY", secret.New(fmt.Sprint("value-", i)), nil); err != nil &&
						haft.CodeOf(err) != haft.CodeConflict {
						t.Error(err)
					}
				}
			}
		})
	}
	all.Go(func() {
		for range 5 {
			if _, err := v.Rotate(ctx, vault.RotateConfig{}); err != nil && haft.CodeOf(err) != haft.CodeConflict {
				t.Error(err)
			}
		}
	})
	all.Wait()
	must(t, v.Put(ctx, "acme", "", "KEY", secret.New("last"), nil))
	if diff := cmp.Diff("KEY=last |", values(t, v, "acme", "")); diff != "" {
		t.Error(diff)
	}
}
