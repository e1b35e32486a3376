package checkpoint_test

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"haft"
	"haft/internal/audit"
	"haft/internal/checkpoint"
	"haft/internal/store"
	"haft/internal/store/storetest"
)

// eachStore runs a test on the database of one process and on a shared one.
func eachStore(t *testing.T, test func(*testing.T, *store.Store)) {
	t.Run("embedded", func(t *testing.T) { test(t, embedded(t)) })
	t.Run("shared", func(t *testing.T) { test(t, shared(t, storetest.Postgres(t))) })
}

// forge adds a checkpoint of what is in the database, as who can write to it and has a key of
// her own: everything but the key is right.
func forge(t *testing.T, s *store.Store, mallory *audit.Signer, org string) {
	t.Helper()
	head, err := s.Audit.AuditHead(t.Context(), org)
	if err != nil {
		t.Fatal(err)
	}
	var tip audit.Tip
	var mark audit.Mark
	if last, err := s.Audit.LastChained(t.Context()); err != nil {
		t.Fatal(err)
	} else if last != nil {
		tip = last.Tip()
	}
	if list, err := s.Audit.LastChainedOf(t.Context(), org, 1); err != nil {
		t.Fatal(err)
	} else if len(list) > 0 {
		mark = list[0].Mark()
	}
	if err := s.Audit.AddCheckpoints(t.Context(), tip.Serial,
		[]audit.Checkpoint{mallory.SignAfter(head, mark, tip, time.Now())}); err != nil {
		t.Fatal(err)
	}
}

func newSigner(t *testing.T) *audit.Signer {
	t.Helper()
	key, err := audit.NewKey()
	if err != nil {
		t.Fatal(err)
	}
	return key
}

// unplanned demands that nobody can go on with the database, and that nothing was written.
func unplanned(t *testing.T, cfg checkpoint.Config, why string) {
	t.Helper()
	last, err := cfg.Store.Audit.LastChained(t.Context())
	if err != nil || last == nil {
		t.Fatalf("LastChained = %v, %v", last, err)
	}
	if plan, err := checkpoint.Plan(t.Context(), cfg); plan != nil || err == nil ||
		!strings.Contains(err.Error(), why) {
		t.Errorf("Plan = %+v, %v, want an error that says %q", plan, err, why)
	}
	if now, err := cfg.Store.Audit.LastChained(t.Context()); err != nil || now.ID() != last.ID() {
		t.Errorf("something was signed: %v, %v", now, err)
	}
}

const untrusted = "a key that is not trusted"

func TestKeeper_takes_no_checkpoint_of_another_key(t *testing.T) {
	eachStore(t, func(t *testing.T, s *store.Store) {
		p, mallory := newPlace(t, s), newSigner(t)
		k := p.open(t)
		p.write(t, "a", "b")
		sign(t, k)
		p.write(t, "a")
		forge(t, s, mallory, "a")
		p.write(t, "a", "b")

		err := k.Sign(t.Context())
		if _, ok := errors.AsType[*checkpoint.Mismatch](err); !ok || !strings.Contains(err.Error(), untrusted) ||
			strings.Contains(err.Error(), "accept-loss") {
			t.Errorf("Sign = %v", err)
		}
		if k.Err() == nil {
			t.Error("the keeper says that all is well")
		}
		refused(t, p.config(), untrusted)
		unplanned(t, p.config(), untrusted)

		// An operator who knows the key says so.
		cfg := p.config()
		cfg.Keys = audit.MakeKeys(mallory.Public())
		k, err = checkpoint.Open(t.Context(), cfg)
		if err != nil {
			t.Fatal(err)
		}
		sign(t, k)
	})
}

// A new data directory believes nothing that it cannot verify.
func TestKeeper_begins_with_no_forged_chain(t *testing.T) {
	s := shared(t, storetest.Postgres(t))
	p := newPlace(t, s)
	p.write(t, "a", "b")
	forge(t, s, newSigner(t), "a")
	refused(t, p.config(), untrusted)
	unplanned(t, p.config(), untrusted)
	cfg := p.config()
	cfg.Keys = audit.MakeKeys(newSigner(t).Public())
	refused(t, cfg, untrusted)
}

// Mallory puts an older database in place, or one of her own, and waits for the operator to
// accept the loss.
func TestRestore_goes_on_after_no_forged_checkpoint(t *testing.T) {
	eachStore(t, func(t *testing.T, s *store.Store) {
		p, mallory := newPlace(t, embedded(t)), newSigner(t)
		p.write(t, "a", "b")
		sign(t, p.open(t))

		hers := p
		hers.store = s
		hers.write(t, "a", "a", "b")
		forge(t, s, mallory, "a")
		refused(t, hers.config(), "is missing or was replaced")
		unplanned(t, hers.config(), untrusted)

		// The last one of all is real, and the last one of an organisation is not.
		head, err := s.Audit.AuditHead(t.Context(), "b")
		if err != nil {
			t.Fatal(err)
		}
		last, err := s.Audit.LastChained(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		real := p.signer.SignAfter(head, audit.Mark{}, last.Tip(), time.Now())
		if err := s.Audit.AddCheckpoints(t.Context(), last.Place.Serial, []audit.Checkpoint{real}); err != nil {
			t.Fatal(err)
		}
		unplanned(t, hers.config(), untrusted)
	})
}

// A forged checkpoint does not make the loss that a person accepts look smaller.
func TestRestore_counts_the_loss_by_what_was_signed(t *testing.T) {
	p, mallory := newPlace(t, embedded(t)), newSigner(t)
	k := p.open(t)
	for range 3 {
		p.write(t, "a")
		sign(t, k)
	}
	list, err := p.store.Audit.ChainedFrom(t.Context(), 1, 0)
	if err != nil || len(list) != 3 {
		t.Fatalf("ChainedFrom = %v, %v", list, err)
	}
	hers := p
	hers.store = embedded(t)
	hers.write(t, "a", "a")
	head, err := hers.store.Audit.AuditHead(t.Context(), "a")
	if err != nil {
		t.Fatal(err)
	}
	hers.write(t, "a")
	list[1] = mallory.SignAfter(head, list[0].Mark(), list[0].Tip(), time.Now())
	if err := hers.store.Audit.AddCheckpoints(t.Context(), 0, list); err != nil {
		t.Fatal(err)
	}
	plan, err := checkpoint.Plan(t.Context(), hers.config())
	if err != nil || plan == nil || len(plan.Losses) != 1 ||
		plan.Losses[0] != (checkpoint.Loss{Org: "a", From: 1, To: 3}) {
		t.Errorf("Plan = %+v, %v, want the loss of entries 1 to 3", plan, err)
	}
}

// A checkpoint of before there were chains, of a key that nobody knows, vouches for nothing
// and is in nobody's way.
func TestKeeper_upgrades_a_log_of_another_key(t *testing.T) {
	p := newPlace(t, embedded(t))
	p.write(t, "a", "a")
	head, err := p.store.Audit.AuditHead(t.Context(), "a")
	if err == nil {
		err = p.store.Audit.PutCheckpoint(t.Context(), newSigner(t).Sign(head, time.Now()))
	}
	if err != nil {
		t.Fatal(err)
	}
	p.write(t, "a")
	sign(t, p.open(t))
	if list, err := p.store.Audit.LastChainedOf(t.Context(), "a", 1); err != nil || len(list) != 1 || list[0].Seq != 3 {
		t.Errorf("LastChainedOf = %+v, %v", list, err)
	}
}

// Mallory can write to the file of the sink.
func TestSink_file_is_not_believed_without_signatures(t *testing.T) {
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
	p.write(t, "a")
	sign(t, k)
	if err := k.Close(); err != nil { // which waits for the sink
		t.Fatal(err)
	}
	good, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	last, err := p.store.Audit.LastChained(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	edited := *last
	edited.Place = &audit.Place{Number: 9, Serial: 9, Prev: last.ID(), Before: last.ID()}
	for what, c := range map[string]audit.Checkpoint{
		"another key":  newSigner(t).SignAfter(last.Head(), last.Mark(), last.Tip(), time.Now()),
		"no signature": edited,
		"an old place": newSigner(t).SignAfter(last.Head(), audit.Mark{}, audit.Tip{}, time.Now()),
	} {
		line, err := json.Marshal(audit.CheckpointLine{Checkpoint: &c})
		if err == nil {
			err = os.WriteFile(name, append(append([]byte{}, good...), append(line, '\n')...), 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
		_, err = checkpoint.Open(t.Context(), cfg)
		_, mismatch := errors.AsType[*checkpoint.Mismatch](err)
		if haft.CodeOf(err) != haft.CodeConflict || mismatch ||
			!strings.Contains(err.Error(), "no trusted key signed") {
			t.Errorf("%s: Open = %v", what, err)
		}
		back := newPlace(t, embedded(t)) // with nothing in it
		was := back.config()
		was.Signer, was.Sink = p.signer, cfg.Sink
		if plan, err := checkpoint.Plan(t.Context(), was); plan != nil || err == nil {
			t.Errorf("%s: Plan = %+v, %v", what, plan, err)
		}
	}
}
