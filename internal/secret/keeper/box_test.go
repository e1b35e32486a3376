package keeper_test

import (
	"bytes"
	"testing"

	"haft"
	"haft/internal/secret/keeper"
)

func TestKeeper_boxes(t *testing.T) {
	back := newMemory()
	k, other := open(t, back, master(t, 1)), open(t, back, master(t, 1))
	plain, label := []byte("queued arguments"), []byte("c_1")
	box, err := k.Box(plain, label)
	if err != nil || bytes.Contains(box, plain) {
		t.Fatalf("Box = %q, %v", box, err)
	}
	if err := k.Rotate(t.Context()); err != nil {
		t.Fatal(err)
	}
	again, err := k.Box(plain, label)
	if err != nil || !k.Stale(box) || k.Stale(again) {
		t.Errorf("after a rotation: stale %v and %v, %v", k.Stale(box), k.Stale(again), err)
	}
	for name, b := range map[string][]byte{"old": box, "new": again} { // other has not heard of the new key
		if got, err := other.Unbox(t.Context(), b, label); err != nil || !bytes.Equal(got, plain) {
			t.Errorf("Unbox(%s) = %q, %v", name, got, err)
		}
	}
	flipped := bytes.Clone(box)
	flipped[len(flipped)-1] ^= 1
	unknown := bytes.Clone(box)
	unknown[1] ^= 1
	for name, bad := range map[string]struct{ box, label []byte }{
		"another label": {box, []byte("c_2")}, "a changed box": {flipped, label}, "an unknown key": {unknown, label},
		"nothing": {nil, label}, "no box": {[]byte(`{"args":1}`), label},
	} {
		if got, err := k.Unbox(t.Context(), bad.box, bad.label); haft.CodeOf(err) != haft.CodeUnavailable ||
			got != nil {
			t.Errorf("Unbox of %s = %q, %v", name, got, err)
		}
	}
}

func TestKeeper_reports_that_a_rotation_was_stopped(t *testing.T) {
	back := newMemory()
	k := open(t, back, master(t, 1))
	put(t, k, org, "A", "value")
	for _, step := range []struct {
		name string
		do   func() error
		want bool
	}{
		{"before", func() error { return nil }, false},
		{"after Rotate", func() error { return k.Rotate(t.Context()) }, true},
		{"after Rewrap", func() error { _, err := k.Rewrap(t.Context()); return err }, false},
	} {
		if err := step.do(); err != nil {
			t.Fatal(err)
		}
		if got, err := k.Unfinished(t.Context()); got != step.want || err != nil {
			t.Errorf("Unfinished %s = %v, %v", step.name, got, err)
		}
	}
}

func TestKeeper_reports_that_the_master_key_is_being_replaced(t *testing.T) {
	back := newMemory()
	if kept, err := keeper.Kept(t.Context(), back); kept || err != nil {
		t.Errorf("Kept before there is anything = %v, %v", kept, err)
	}
	old, next := master(t, 1), master(t, 2)
	before := open(t, back, old)
	check := func(what string, k *keeper.Keeper, want bool) {
		t.Helper()
		if got, err := k.Replacing(t.Context()); got != want || err != nil {
			t.Errorf("Replacing of %s = %v, %v; want %v", what, got, err, want)
		}
	}
	check("the only key", before, false)
	both := open(t, back, next, old)
	check("the old key", before, true)
	check("the old key, opened now", open(t, back, old), true)
	check("both", both, false)
	check("the new key", open(t, back, next), false)
	if _, err := open(t, back, next).Rewrap(t.Context()); err != nil {
		t.Fatal(err)
	}
	check("the new key, alone", open(t, back, next), false)
	if kept, err := keeper.Kept(t.Context(), back); !kept || err != nil {
		t.Errorf("Kept = %v, %v", kept, err)
	}
}
