package servicetest

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"haft"
)

func (w *world) calls() {
	w.put(draft("echo", "echo"))
	w.put(draft("fail", "fail"))
	res := w.call(Ann, haft.Call{Tool: "echo", Args: json.RawMessage(`{"x": 3}`)}, haft.StatusSuccess)
	if string(res.Value) != `{"x":3}` || res.Tool != "echo" || res.Call == "" || res.Digest == "" || res.Tries != 1 {
		w.Errorf("the result: %+v", res)
	}
	bad := w.call(Ann, haft.Call{Tool: "fail"}, haft.StatusError)
	if bad.Error == nil || bad.Error.Kind != haft.FailException || bad.Error.Message != "it failed" {
		w.Errorf("the failure: %+v", bad.Error)
	}
	s, ctx := w.as(w.T, Ann), w.Context()
	rec, err := s.Record(ctx, Ann, res.Call)
	w.must("the record", err)
	if rec.Status != haft.StatusSuccess || rec.Result == nil || string(rec.Result.Value) != `{"x":3}` ||
		rec.Call.Principal.User != "ann" || rec.Ended.IsZero() {
		w.Errorf("the record: %+v", rec)
	}
	w.must("cancel what has ended", s.Cancel(ctx, Ann, res.Call))
	again, err := s.Replay(ctx, Ann, res.Call)
	w.must("replay", err)
	if again.Call == res.Call || string(again.Value) != string(res.Value) || again.Digest != res.Digest {
		w.Errorf("replayed: %+v", again)
	}
}

func (w *world) refusals() {
	tool := w.put(draft("echo", "echo"))
	s, ctx := w.as(w.T, Ann), w.Context()
	misfit := w.call(Ann, haft.Call{Tool: "echo", Args: json.RawMessage(`{"x":"three"}`)}, haft.StatusValidation)
	if misfit.Error == nil || len(misfit.Error.Misfits) != 1 || misfit.Error.Misfits[0].Pointer != "/x" {
		w.Errorf("where it does not fit: %+v", misfit.Error)
	}
	_, err := s.Call(ctx, haft.Call{Tool: "nothing", Principal: Ann})
	w.code("a tool that is not there", err, haft.CodeNotFound)
	_, err = s.Call(ctx, haft.Call{Tool: "echo", Digest: "sha256:00", Principal: Ann})
	w.code("a version that is not there", err, haft.CodeNotFound)
	_, err = s.Submit(ctx, haft.Call{Tool: "nothing", Principal: Ann})
	w.code("submit a tool that is not there", err, haft.CodeNotFound)
	w.call(Approver, haft.Call{Tool: "echo"}, haft.StatusDenied)
	off := true
	_, err = w.as(w.T, Admin).SetTool(ctx, Admin, string(tool.ID), haft.ToolState{Disabled: &off})
	w.must("disable", err)
	w.call(Ann, haft.Call{Tool: "echo"}, haft.StatusDenied)
}

func (w *world) idempotent() {
	w.put(draft("echo", "echo"))
	s := w.as(w.T, Ann)
	c := haft.Call{Tool: "echo", Args: json.RawMessage(`{"x":1}`), IdempotencyKey: "k"}
	one := w.call(Ann, c, haft.StatusSuccess)
	two := w.call(Ann, c, haft.StatusSuccess)
	if one.Call != two.Call {
		w.Errorf("two calls with one key: %s and %s", one.Call, two.Call)
	}
	c.Args, c.Principal = json.RawMessage(`{"x":2}`), Ann
	_, err := s.Call(w.Context(), c)
	w.code("the same key and other arguments", err, haft.CodeConflict)
	if other := w.call(Bob, haft.Call{Tool: "echo", Args: c.Args, IdempotencyKey: "k"},
		haft.StatusSuccess); other.Call == one.Call {
		w.Error("the key of somebody else")
	}
}

func (w *world) submitted() {
	w.put(draft("echo", "echo"))
	ctx, cancel := context.WithCancel(w.Context())
	rec, err := w.as(w.T, Ann).Submit(ctx, haft.Call{Tool: "echo", Args: json.RawMessage(`{"x":5}`), Principal: Ann})
	cancel() // it runs all the same
	w.must("submit", err)
	if rec.Call.ID == "" || rec.Call.Tool != "echo" {
		w.Fatalf("the record: %+v", rec)
	}
	if done := w.ended(Ann, rec.Call.ID); done.Status != haft.StatusSuccess || string(done.Result.Value) != `{"x":5}` {
		w.Errorf("it ends with %+v", done)
	}
	bad, err := w.as(w.T, Ann).Submit(w.Context(),
		haft.Call{Tool: "echo", Args: json.RawMessage(`{"x":"y"}`), Principal: Ann})
	w.must("submit what does not fit", err)
	if done := w.ended(Ann, bad.Call.ID); done.Status != haft.StatusValidation {
		w.Errorf("what does not fit ends with %s", done.Status)
	}
}

func (w *world) cancelled() {
	w.put(draft("sleep", "sleep"))
	s, ctx := w.as(w.T, Ann), w.Context()
	start := func() haft.CallID {
		rec, err := s.Submit(ctx, haft.Call{Tool: "sleep", Principal: Ann})
		w.must("submit", err)
		w.until(Ann, rec.Call.ID, haft.EventExecuting)
		return rec.Call.ID
	}
	id := start()
	w.code("by another user", w.as(w.T, Bob).Cancel(ctx, Bob, id), haft.CodeNotFound)
	w.must("by who made it", s.Cancel(ctx, Ann, id))
	if got := w.ended(Ann, id); got.Status != haft.StatusCancelled {
		w.Errorf("it ends with %s", got.Status)
	}
	one, two := start(), start()
	_, err := w.as(w.T, Bob).CancelAll(ctx, Bob, haft.Principal{Org: "acme", User: "ann"})
	w.code("all of somebody else", err, haft.CodeDenied)
	n, err := w.as(w.T, Admin).CancelAll(ctx, Admin, haft.Principal{Org: "acme", User: "ann"})
	w.must("all of ann", err)
	if n != 2 {
		w.Errorf("%d were cancelled, want 2", n)
	}
	for _, id := range []haft.CallID{one, two} {
		if got := w.ended(Ann, id); got.Status != haft.StatusCancelled {
			w.Errorf("it ends with %s", got.Status)
		}
	}
}

func (w *world) records() {
	w.put(draft("echo", "echo"))
	w.put(draft("fail", "fail"))
	s, ctx := w.as(w.T, Ann), w.Context()
	var made []haft.CallID
	for i := range 6 {
		tool, want := "echo", haft.StatusSuccess
		if i%2 == 1 {
			tool, want = "fail", haft.StatusError
		}
		made = append(made, w.call(Ann, haft.Call{Tool: tool, Turn: "t"}, want).Call)
	}
	w.call(Bob, haft.Call{Tool: "echo"}, haft.StatusSuccess)
	slices.Reverse(made)
	ids := func(p haft.Principal, f haft.CallFilter) []haft.CallID {
		list := []haft.CallID{}
		for _, r := range all(w, "records", w.as(w.T, p).Records(ctx, p, f)) {
			list = append(list, r.Call.ID)
		}
		return list
	}
	for name, c := range map[string]struct {
		f    haft.CallFilter
		want []haft.CallID
	}{
		"all":            {haft.CallFilter{}, made},
		"two":            {haft.CallFilter{Limit: 2}, made[:2]},
		"two after that": {haft.CallFilter{Limit: 2, Before: made[1]}, made[2:4]},
		"those that fail": {haft.CallFilter{Status: []haft.Status{haft.StatusError, haft.StatusTimeout}},
			[]haft.CallID{made[0], made[2], made[4]}},
		"of a tool":        {haft.CallFilter{Tool: "echo"}, []haft.CallID{made[1], made[3], made[5]}},
		"of a turn":        {haft.CallFilter{Turn: "t", Limit: 1}, made[:1]},
		"of another turn":  {haft.CallFilter{Turn: "u"}, []haft.CallID{}},
		"of somebody else": {haft.CallFilter{User: "bob"}, made}, // what one may not see does not widen
	} {
		if got := ids(Ann, c.f); !slices.Equal(got, c.want) {
			w.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
	if got := ids(Admin, haft.CallFilter{}); len(got) != 7 {
		w.Errorf("an administrator sees %d", len(got))
	}
	_, err := s.Record(ctx, Ann, ids(Admin, haft.CallFilter{User: "bob"})[0])
	w.code("the call of somebody else", err, haft.CodeNotFound)
}

func (w *world) many() {
	d := draft("echo", "echo")
	d.Settings.Parallel = true
	w.put(d)
	w.put(draft("fail", "fail"))
	s, ctx := w.as(w.T, Ann), w.Context()
	var calls []haft.Call
	for i := range 10 {
		calls = append(calls, haft.Call{Tool: "echo", Args: json.RawMessage(fmt.Sprintf(`{"x":%d}`, i)),
			Principal: Ann})
	}
	calls[4].Tool, calls[7].Tool = "fail", "nothing"
	results, err := s.Batch(ctx, calls)
	w.must("batch", err)
	for i, res := range results {
		switch {
		case i == 4 && res.Status != haft.StatusError,
			i == 7 && (res.Error == nil || res.Error.Kind != haft.FailNotFound):
			w.Errorf("result %d: %+v", i, res)
		case i != 4 && i != 7 && string(res.Value) != fmt.Sprintf(`{"x":%d}`, i):
			w.Errorf("result %d is %s", i, res.Value)
		}
	}
	_, err = s.Batch(ctx, make([]haft.Call, 129))
	w.code("too many", err, haft.CodeInvalid)
	none, err := s.Batch(ctx, nil)
	if err != nil || len(none) != 0 {
		w.Errorf("none: %v, %v", none, err)
	}

	chain, err := s.Run(ctx, Ann, haft.Plan{Steps: []haft.Step{
		{ID: "a", Tool: "echo", Args: json.RawMessage(`{"x":1}`)},
		{ID: "b", Tool: "echo", Args: json.RawMessage(`{"x":{"$from":"a.value/x"}}`)},
		{ID: "c", Tool: "fail", OnError: haft.OnErrorContinue},
	}})
	w.must("run", err)
	kept, err := s.Chain(ctx, Ann, chain.ID)
	w.must("the chain", err)
	if chain.Status != haft.StatusSuccess || kept.Status != chain.Status || len(kept.Steps) != 3 ||
		string(kept.Steps[1].Result.Value) != `{"x":1}` {
		w.Errorf("the chain: %+v", kept)
	}
	_, err = w.as(w.T, Bob).Chain(ctx, Bob, chain.ID)
	w.code("the chain of somebody else", err, haft.CodeNotFound)
	_, err = s.Run(ctx, Ann, haft.Plan{Steps: []haft.Step{{ID: "a", Tool: "echo", After: []string{"a"}}}})
	w.code("a plan that cannot be", err, haft.CodeInvalid)
}
