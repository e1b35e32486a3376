package engine_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"haft"
	"haft/executor"
	"haft/internal/engine"
	"haft/internal/registry"
	"haft/internal/store"
	"haft/internal/store/postgres"
	"haft/internal/store/storetest"
)

// server opens a world on a database that others may share.
func server(t *testing.T, url string, cfg engine.Config) *world {
	t.Helper()
	s, err := postgres.Open(context.WithoutCancel(t.Context()), url, postgres.Config{Conns: 4})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { check(t, s.Close()) })
	return open(t, s, allowAll, cfg)
}

// faulty opens a world whose database can be taken away.
func faulty(t *testing.T, cfg engine.Config) (*world, *faults) {
	t.Helper()
	f := &faults{}
	s := openFaulty(t, storetest.Postgres(t), f)
	t.Cleanup(func() { check(t, s.Close()) })
	return open(t, s, allowAll, cfg), f
}

// Servers of the tests: one that looks often, and one that never finds out that it was
// given up.
var (
	lively = engine.Config{Beat: 20 * time.Millisecond, DeadAfter: time.Hour}
	blind  = engine.Config{Owner: "p_blind", Beat: time.Hour, DeadAfter: time.Hour}
)

// giveUp does what the others of a server do whose beats they miss.
func giveUp(t *testing.T, s *store.Store, owner string) {
	t.Helper()
	until(t, "a server is given up", func() bool {
		beats, err := s.Processes.Beats(t.Context())
		check(t, err)
		done, err := s.Processes.GiveUp(t.Context(), owner, beats[owner])
		check(t, err)
		return done
	})
}

// TestGivenUp_writes_nothing: of a server that was given up and goes on, nothing is kept.
func TestGivenUp_writes_nothing(t *testing.T) {
	url := storetest.Postgres(t)
	cfg := blind
	cfg.Limits.Running, cfg.Patience = 1, time.Hour
	a := server(t, url, cfg)
	a.tool("o", "work", nil)
	started, letGo := a.held()
	ids := a.submit("work", 3)
	first := <-started
	giveUp(t, a.store, "p_blind")
	b := server(t, url, lively)
	_, end := b.held()
	until(t, "the other has begun with the others", func() bool { return b.script.count() == 2 })
	close(letGo)
	until(t, "the server has let go of all", func() bool { return a.Running() == 0 })
	close(end)
	for _, id := range ids {
		status := haft.StatusSuccess
		if id == first {
			status = haft.StatusUnknown
		}
		want(t, b.end(user("o", "ann"), id), status)
	}
	if a.script.count() != 1 || b.script.count() != 2 {
		t.Errorf("%d runs before and %d after, want 1 and 2", a.script.count(), b.script.count())
	}
	for _, id := range ids {
		completed := 0
		events, err := b.EventsOf(t.Context(), admin("o"), id, 0, 100)
		check(t, err)
		for _, e := range events {
			if e.Type == haft.EventCompleted {
				completed++
			}
		}
		if completed != 1 {
			t.Errorf("call %s is completed %d times: %v", id, completed, events)
		}
	}
	b.verify("o")
}

// TestGivenUp_its_chains_go_on on another server.
func TestGivenUp_its_chains_go_on(t *testing.T) {
	url := storetest.Postgres(t)
	a := server(t, url, blind)
	a.tool("o", "work", nil)
	started, letGo := a.held()
	c := a.twoSteps("work")
	<-started
	giveUp(t, a.store, "p_blind")
	b := server(t, url, lively)
	steps := b.chainEnd(c.ID).Steps
	close(letGo)
	if steps[0].Result.Status != haft.StatusUnknown || steps[1].Result.Status != haft.StatusSuccess {
		t.Errorf("the steps are %+v and %+v", steps[0].Result, steps[1].Result)
	}
}

// TestGivenUp_chain_of_the_same_server: a server that adopts its own chain under its new
// name does not write down what it believed under the old one.
func TestGivenUp_chain_of_the_same_server(t *testing.T) {
	cfg := lively
	cfg.Owner = "p_old"
	w := server(t, storetest.Postgres(t), cfg)
	w.tool("o", "work", nil)
	started, late := make(chan haft.CallID, 10), make(chan struct{})
	w.script.set(func(_ context.Context, req executor.Request) (*haft.Result, error) {
		started <- req.Call
		<-late // it does not end when it is told to
		return ok(req, "1"), nil
	})
	end := sync.OnceFunc(func() { close(late) })
	t.Cleanup(end)
	c := w.twoSteps("work")
	first := <-started
	giveUp(t, w.store, "p_old")
	until(t, "it has adopted and ended its own call", func() bool { return w.record("o", first).Status.Final() })
	end()
	steps := w.chainEnd(c.ID).Steps
	if r := w.record("o", first); steps[0].Call != first || steps[0].Result.Status != r.Status {
		t.Errorf("the first step is %+v, and its call %s is %s", steps[0].Result, first, r.Status)
	}
}

// TestGivenUp_without_a_key: a server that cannot decrypt what it adopts leaves it to one
// that can.
func TestGivenUp_without_a_key(t *testing.T) {
	url := storetest.Postgres(t)
	cfg := blind
	cfg.Sealer, cfg.Limits.Running, cfg.Patience = rot{}, 1, time.Hour
	a := server(t, url, cfg)
	a.tool("o", "work", nil)
	started, letGo := a.held()
	c := a.twoSteps("work")
	<-started
	waits := a.submit("work", 2)
	giveUp(t, a.store, "p_blind")
	b := server(t, url, lively)
	until(t, "it finds what it has no key for", func() bool {
		queued, err := b.store.Calls.QueuedByOrg(t.Context(), "")
		check(t, err)
		open, err := b.store.Chains.IdleChains(t.Context(), "")
		check(t, err)
		return queued["o"] == len(waits) && len(open) == 1
	})
	cfg = lively
	cfg.Sealer = rot{}
	d := server(t, url, cfg)
	for _, id := range waits {
		want(t, d.end(user("o", "ann"), id), haft.StatusSuccess)
	}
	if s := d.chainEnd(c.ID).Steps[1]; s.Result.Status != haft.StatusSuccess {
		t.Errorf("the second step is %+v", s.Result)
	}
	if n := b.script.count(); n != 0 {
		t.Errorf("it ran %d calls without their arguments", n)
	}
	close(letGo)
}

// TestBeat_goes_on_whatever_takes_long: a server that is busy with housekeeping lives.
func TestBeat_goes_on_whatever_takes_long(t *testing.T) {
	busy, end := make(chan struct{}, 1), make(chan struct{})
	cfg := lively
	cfg.Owner, cfg.Checkpoint = "p_busy", func(context.Context) error {
		select {
		case busy <- struct{}{}:
		default:
		}
		<-end
		return nil
	}
	w := server(t, storetest.Postgres(t), cfg)
	t.Cleanup(func() { close(end) })
	<-busy
	beat := func() int64 {
		beats, err := w.store.Processes.Beats(t.Context())
		check(t, err)
		return beats["p_busy"]
	}
	before := beat()
	until(t, "it says that it lives", func() bool { return beat() > before+2 })
}

// An engine that cannot be opened leaves nothing: it would say for ever that it lives, and keep calls from others.
func TestOpen_fails_and_leaves_nothing(t *testing.T) {
	s, err := postgres.Open(t.Context(), storetest.Postgres(t), postgres.Config{Conns: 2})
	check(t, err)
	defer func() { check(t, s.Close()) }()
	check(t, store.TablesOf(s).Write(t.Context(), "break the database", func(ctx context.Context, tx store.Tx) error {
		_, err := tx.Exec(ctx, "ALTER TABLE chains RENAME TO gone")
		return err
	}))
	before := goleak.IgnoreCurrent()
	e, err := engine.Open(t.Context(), engine.Parts{Store: s, Registry: registry.New(s, registry.Config{})}, lively)
	if err == nil {
		check(t, e.Close())
		t.Fatal("an engine works without a table")
	}
	if err := goleak.Find(before); err != nil {
		t.Error(err)
	}
	beats, err := s.Processes.Beats(t.Context())
	if err != nil || len(beats) != 0 {
		t.Errorf("registered are %v, %v", beats, err)
	}
}
