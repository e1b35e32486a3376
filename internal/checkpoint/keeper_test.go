package checkpoint_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"haft"
	"haft/internal/audit"
	"haft/internal/checkpoint"
	"haft/internal/store"
	"haft/internal/store/postgres"
	"haft/internal/store/sqlite"
	"haft/internal/store/storetest"
)

// A place is a database and a data directory with a key.
type place struct {
	store  *store.Store
	signer *audit.Signer
	dir    string
}

func newPlace(t *testing.T, s *store.Store) place {
	t.Helper()
	key, err := audit.NewKey()
	if err != nil {
		t.Fatal(err)
	}
	return place{s, key, t.TempDir()}
}

func embedded(t *testing.T) *store.Store {
	t.Helper()
	s, err := sqlite.Open(t.Context(), sqlite.Config{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

func shared(t *testing.T, url string) *store.Store {
	t.Helper()
	s, err := postgres.Open(t.Context(), url, postgres.Config{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

func (p place) config() checkpoint.Config {
	return checkpoint.Config{Store: p.store, Signer: p.signer, Dir: p.dir}
}

func (p place) open(t *testing.T) *checkpoint.Keeper {
	t.Helper()
	k, err := checkpoint.Open(t.Context(), p.config())
	if err != nil {
		t.Fatalf("Open: %v", err)
	}
	t.Cleanup(func() { _ = k.Close() })
	return k
}

// write adds entries to the logs of organisations.
func (p place) write(t *testing.T, orgs ...string) {
	t.Helper()
	var b store.Batch
	for _, org := range orgs {
		b.Audit = append(b.Audit, audit.Entry{Org: org, Kind: "k", Time: time.Now()})
	}
	if err := p.store.Commit(t.Context(), b); err != nil {
		t.Fatal(err)
	}
}

func sign(t *testing.T, k *checkpoint.Keeper) {
	t.Helper()
	if err := k.Sign(t.Context()); err != nil {
		t.Fatalf("Sign: %v", err)
	}
}

// verify demands that the log of an organisation is sound and fits the file of heads.
func (p place) verify(t *testing.T, org string, keys audit.Keys) audit.Report {
	t.Helper()
	heads, err := checkpoint.ReadHeads(p.dir, keys)
	if err != nil || heads == nil {
		t.Fatalf("ReadHeads: %v, %v", heads, err)
	}
	points, err := p.store.Audit.AllCheckpoints(t.Context(), org)
	if err != nil {
		t.Fatal(err)
	}
	mark, ok := heads.Find(org)
	if !ok {
		t.Fatalf("%s is not in the file of heads", org)
	}
	rep, err := audit.VerifyMarks(p.store.Audit.Trail(t.Context(), org), points, keys, audit.Head{Org: org},
		[]audit.Mark{mark})
	if err = errors.Join(err, rep.Err()); err != nil {
		t.Errorf("verify %s: %v", org, err)
	}
	return rep
}

func TestKeeper_goes_on_after_what_it_signed(t *testing.T) {
	p := newPlace(t, embedded(t))
	keys := audit.MakeKeys(p.signer.Public())
	k := p.open(t)
	sign(t, k) // nothing yet
	if _, err := os.Stat(filepath.Join(p.dir, checkpoint.HeadFile)); err == nil {
		t.Error("a file of heads without a head")
	}
	for range 3 {
		p.write(t, "a", "b", "a")
		sign(t, k)
	}
	sign(t, k) // nothing new
	older, err := os.ReadFile(filepath.Join(p.dir, checkpoint.HeadFile))
	if err != nil {
		t.Fatal(err)
	}
	p.write(t, "a", "c")
	sign(t, k)
	p.write(t, "a") // not signed when the process dies

	// A crash before the file was written leaves an older one, which is good.
	if err := os.WriteFile(filepath.Join(p.dir, checkpoint.HeadFile), older, 0o600); err != nil {
		t.Fatal(err)
	}
	k = p.open(t)
	sign(t, k)
	for org, seq := range map[string]int64{"a": 8, "b": 3, "c": 1} {
		if rep := p.verify(t, org, keys); rep.Signed != seq {
			t.Errorf("%s is signed up to %d, want %d", org, rep.Signed, seq)
		}
	}
	info, err := os.Stat(filepath.Join(p.dir, checkpoint.HeadFile))
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode of the file: %v, %v", info.Mode(), err)
	}
}

func TestKeeper_takes_over_checkpoints_without_a_chain(t *testing.T) {
	p := newPlace(t, embedded(t))
	for range 3 {
		p.write(t, "a", "b")
		for _, org := range []string{"a", "b"} {
			head, err := p.store.Audit.AuditHead(t.Context(), org)
			if err != nil {
				t.Fatal(err)
			}
			if err := p.store.Audit.PutCheckpoint(t.Context(), p.signer.Sign(head, time.Now())); err != nil {
				t.Fatal(err)
			}
		}
	}
	p.write(t, "b")
	p.open(t) // signs
	keys := audit.MakeKeys(p.signer.Public())
	if rep := p.verify(t, "b", keys); rep.Signed != 4 || rep.Checkpoints != 4 {
		t.Errorf("b: %+v", rep)
	}
	p.verify(t, "a", keys)

	bad := newPlace(t, embedded(t))
	bad.write(t, "a", "a")
	head, err := bad.store.Audit.AuditHead(t.Context(), "a")
	if err != nil {
		t.Fatal(err)
	}
	head.Hash = strings.Repeat("0", 64)
	if err := bad.store.Audit.PutCheckpoint(t.Context(), bad.signer.Sign(head, time.Now())); err != nil {
		t.Fatal(err)
	}
	refused(t, bad.config(), "does not fit its entry")
	if last, err := bad.store.Audit.LastChained(t.Context()); err != nil || last != nil {
		t.Errorf("something was signed: %v, %v", last, err)
	}
}

// refused demands that the database is not what was signed.
func refused(t *testing.T, cfg checkpoint.Config, why string) {
	t.Helper()
	k, err := checkpoint.Open(t.Context(), cfg)
	if _, ok := errors.AsType[*checkpoint.Mismatch](err); !ok || !strings.Contains(err.Error(), why) ||
		haft.CodeOf(err) != haft.CodeConflict {
		t.Errorf("Open = %v, want a mismatch that says %q", err, why)
	}
	if k != nil {
		_ = k.Close()
	}
}

// A file of heads of one database does not fit another, and a running keeper notices too.
func TestKeeper_refuses_another_database(t *testing.T) {
	p := newPlace(t, embedded(t))
	p.write(t, "a", "b")
	k := p.open(t)
	sign(t, k)
	other := p
	other.store = embedded(t)
	refused(t, other.config(), `entry 1 of organisation "a" is missing or was replaced`)
	other.write(t, "a", "a", "b")
	refused(t, other.config(), `entry 1 of organisation "a"`)
	if last, err := other.store.Audit.LastChained(t.Context()); err != nil || last != nil {
		t.Errorf("something was signed: %v, %v", last, err)
	}
}

func TestRestore_is_said_in_the_log(t *testing.T) {
	p := newPlace(t, embedded(t))
	keys := audit.MakeKeys(p.signer.Public())
	p.write(t, "a", "b", "b")
	sign(t, p.open(t))
	other := p // it has less of both
	other.store = embedded(t)
	other.write(t, "b")
	by := haft.Principal{Org: "ops", User: "olga"}
	cfg := other.config()
	plan, err := checkpoint.Plan(t.Context(), cfg)
	if err != nil || plan == nil || len(plan.Losses) != 2 {
		t.Fatalf("Plan = %+v, %v", plan, err)
	}
	if err := plan.Do(t.Context(), by); err != nil {
		t.Fatal(err)
	}
	if plan, err := checkpoint.Plan(t.Context(), cfg); err != nil || plan != nil {
		t.Fatalf("Plan again = %+v, %v", plan, err)
	}
	k := other.open(t)
	other.write(t, "a", "b", "c")
	sign(t, k)
	for _, org := range []string{"a", "b", "c"} {
		rep := other.verify(t, org, keys)
		if restored := len(rep.Warnings) == 1 && rep.Warnings[0].Kind == audit.Restored; restored != (org != "c") {
			t.Errorf("warnings of %s: %v", org, rep.Warnings)
		}
	}
	list, err := other.store.Audit.AuditEntries(t.Context(), "a", 0, 1)
	if err != nil || len(list) != 1 || list[0].Kind != checkpoint.Kind || list[0].Actor.User != "olga" {
		t.Errorf("the first entry is %+v, %v", list, err)
	}

	// Without a file of heads nobody knows what was lost; the person who asks is told so.
	if err := os.Remove(filepath.Join(p.dir, checkpoint.HeadFile)); err != nil {
		t.Fatal(err)
	}
	refused(t, cfg, checkpoint.HeadFile+" is missing")
	if plan, err = checkpoint.Plan(t.Context(), cfg); err != nil || plan == nil || plan.Signed != 0 {
		t.Fatalf("Plan = %+v, %v", plan, err)
	}
	if err := plan.Do(t.Context(), by); err != nil {
		t.Fatal(err)
	}
	k = other.open(t)
	other.write(t, "a", "ops")
	sign(t, k)
	for _, org := range []string{"a", "b", "c", "ops"} {
		other.verify(t, org, keys)
	}
}

// Several servers sign one database at the same time, each with its own key and directory.
func TestKeeper_servers_do_not_fork_the_chain(t *testing.T) {
	url := storetest.Postgres(t)
	var places []place
	var keys []audit.Keys
	for range 3 {
		p := newPlace(t, shared(t, url))
		places, keys = append(places, p), append(keys, audit.MakeKeys(p.signer.Public()))
	}
	all := audit.Keys{}
	for _, k := range keys {
		for id, key := range k {
			all[id] = key
		}
	}
	var wait sync.WaitGroup
	errs := make([]error, len(places))
	for i, p := range places {
		cfg := p.config()
		cfg.Keys = all
		k, err := checkpoint.Open(t.Context(), cfg)
		if err != nil {
			t.Fatal(err)
		}
		wait.Go(func() {
			for n := range 20 {
				err := p.store.Commit(t.Context(), store.Batch{Audit: []audit.Entry{
					{Org: "a", Kind: "k", Time: time.Now()},
					{Org: fmt.Sprintf("o%d", n%3), Kind: "k", Time: time.Now()}}})
				if err = errors.Join(err, k.Sign(t.Context())); err != nil {
					errs[i] = err
					return
				}
			}
		})
	}
	wait.Wait()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
	list, err := places[0].store.Audit.ChainedFrom(t.Context(), 1, 0)
	if err != nil {
		t.Fatal(err)
	}
	var tip audit.Tip
	for _, c := range list {
		if !c.FollowsTip(tip) {
			t.Fatalf("checkpoint %d does not follow %d", c.Place.Serial, tip.Serial)
		}
		tip = c.Tip()
	}
	for _, p := range places {
		for _, org := range []string{"a", "o0", "o1", "o2"} {
			p.verify(t, org, all)
		}
		cfg := p.config()
		cfg.Keys = all
		if _, err := checkpoint.Open(t.Context(), cfg); err != nil {
			t.Errorf("open again: %v", err)
		}
	}
	joins(t, url, places[0], all)
}

// joins tries how a server with a new directory joins a shared database.
func joins(t *testing.T, url string, old place, all audit.Keys) {
	fresh := newPlace(t, shared(t, url))
	refused(t, fresh.config(), "a key that is not trusted") // nobody said whom to believe
	cfg := fresh.config()
	cfg.Keys = all
	k, err := checkpoint.Open(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	fresh.write(t, "a")
	sign(t, k)
	// One whose file was removed is not new.
	if err := os.Remove(filepath.Join(old.dir, checkpoint.HeadFile)); err != nil {
		t.Fatal(err)
	}
	cfg = old.config()
	cfg.Keys = all
	refused(t, cfg, checkpoint.HeadFile+" is missing")
	// One that was not told of the fresh server does not believe it.
	strict := newPlace(t, shared(t, url)).config()
	strict.Keys = all
	refused(t, strict, "a key that is not trusted")
	// Nor does it need to know of it, if it has the key and the file of one that does.
	twin := place{shared(t, url), fresh.signer, t.TempDir()}
	head, err := os.ReadFile(filepath.Join(fresh.dir, checkpoint.HeadFile))
	if err == nil {
		err = os.WriteFile(filepath.Join(twin.dir, checkpoint.HeadFile), head, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	other := twin.open(t) // with no other keys: what is signed up to the file is not looked at again
	twin.write(t, "a")
	sign(t, other)
	fresh.write(t, "a")
	sign(t, k)
	twin.write(t, "b")
	sign(t, other)
}

func TestSink_file_finds_what_was_put_back_together(t *testing.T) {
	p := newPlace(t, embedded(t))
	name := filepath.Join(t.TempDir(), "sink")
	cfg := p.config()
	var err error
	if cfg.Sink, err = checkpoint.OpenSink(name); err != nil {
		t.Fatal(err)
	}
	k, err := checkpoint.Open(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	p.write(t, "a", "b")
	sign(t, k)
	if err := k.Close(); err != nil { // which waits for the sink
		t.Fatal(err)
	}
	f, err := os.OpenFile(name, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteString(`{"checkpoint":{"or`); err != nil { // a crash within a line
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	if k, err = checkpoint.Open(t.Context(), cfg); err != nil {
		t.Fatal(err)
	}
	p.write(t, "a")
	sign(t, k)
	if err := k.Close(); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	marks, err := audit.ReadMarks(strings.NewReader(string(text)), "a", audit.MakeKeys(p.signer.Public()))
	if err != nil || len(marks) != 2 || marks[1].Seq != 2 {
		t.Fatalf("the sink has %v, %v:\n%s", marks, err, text)
	}

	// Database and file of heads of an earlier moment: here, of none.
	back := newPlace(t, embedded(t))
	back.signer = p.signer
	was := back.config()
	was.Sink = cfg.Sink
	refused(t, was, "the audit sink has checkpoint 3, and the database has not")
	plan, err := checkpoint.Plan(t.Context(), was)
	if err != nil || plan == nil || plan.Signed != 3 || len(plan.Losses) != 2 {
		t.Fatalf("Plan = %+v, %v", plan, err)
	}
	if err := plan.Do(t.Context(), haft.Principal{Org: "ops", User: "olga"}); err != nil {
		t.Fatal(err)
	}
	if k, err = checkpoint.Open(t.Context(), was); err != nil {
		t.Fatal(err)
	}
	if err := k.Close(); err != nil {
		t.Fatal(err)
	}
	if text, err = os.ReadFile(name); err != nil || strings.Count(string(text), `"lost"`) != 2 {
		t.Errorf("the sink was not told: %v\n%s", err, text)
	}
}

// A sink that is away gets everything later, once or more, and it is seen that it is away.
func TestSink_url_is_sent_everything(t *testing.T) {
	var mu sync.Mutex
	var got []int64
	refuse := true
	asked := make(chan struct{}, 1000)
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		defer func() { asked <- struct{}{} }()
		if refuse {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		for text := range strings.Lines(string(body)) {
			var l audit.CheckpointLine
			if err := json.Unmarshal([]byte(text), &l); err != nil {
				t.Error(err)
				return
			}
			got = append(got, l.Checkpoint.Place.Serial)
		}
	}))
	defer srv.Close()
	p := newPlace(t, embedded(t))
	cfg := p.config()
	var err error
	if cfg.Sink, err = checkpoint.OpenSink(srv.URL); err != nil {
		t.Fatal(err)
	}
	k, err := checkpoint.Open(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	p.write(t, "a", "b")
	sign(t, k)
	<-asked
	if err := k.Close(); err != nil {
		t.Fatal(err)
	}
	if pending, err := k.SinkStats(); pending != 2 || err == nil {
		t.Errorf("SinkStats = %d, %v", pending, err)
	}
	mu.Lock()
	refuse = false
	mu.Unlock()
	for range 2 {
		if k, err = checkpoint.Open(t.Context(), cfg); err != nil {
			t.Fatal(err)
		}
		if err := k.Close(); err != nil {
			t.Fatal(err)
		}
	}
	mu.Lock()
	defer mu.Unlock()
	if fmt.Sprint(got) != "[1 2]" {
		t.Errorf("the sink got %v", got)
	}
	for _, text := range []string{"http://example.com/", "ftp://example.com/x", "https://", "://"} {
		if _, err := checkpoint.OpenSink(text); haft.CodeOf(err) != haft.CodeInvalid {
			t.Errorf("OpenSink(%q) = %v", text, err)
		}
	}
}

// Many organisations are looked at together: the time to open grows with them, and not with
// their entries.
func TestOpen_asks_little_of_many_organisations(t *testing.T) {
	if testing.Short() {
		t.Skip("short: it writes 10,000 organisations")
	}
	p := newPlace(t, embedded(t))
	orgs := make([]string, 10_000)
	for i := range orgs {
		orgs[i] = fmt.Sprintf("org%05d", i)
	}
	for range 2 {
		p.write(t, orgs...)
	}
	k := p.open(t)
	sign(t, k)
	before := p.store.Asked()
	began := time.Now()
	p.open(t)
	t.Logf("opened in %v with %d queries", time.Since(began), p.store.Asked()-before)
	if asked := p.store.Asked() - before; asked > 10_000/64+20 {
		t.Errorf("%d queries for 10,000 organisations", asked)
	}
	began = time.Now()
	p.write(t, orgs[:10]...)
	before = p.store.Asked()
	sign(t, k)
	t.Logf("10 of 10,000 signed in %v with %d queries", time.Since(began), p.store.Asked()-before)
	if asked := p.store.Asked() - before; asked > 50 {
		t.Errorf("%d queries to sign 10 organisations", asked)
	}
}
