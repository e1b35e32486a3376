package servicetest

import (
	"context"
	"encoding/json"
	"slices"
	"strings"

	"haft"
)

func (w *world) approvals() {
	d := draft("pay", "echo")
	d.Settings.RequiresApproval = true
	w.put(d)
	ctx := w.Context()
	ask := func(x string) *haft.Result {
		return w.call(Ann, haft.Call{Tool: "pay", Args: json.RawMessage(`{"x":` + x + `}`)}, haft.StatusPending)
	}
	one, two := ask("1"), ask("2")
	boss := w.as(w.T, Approver)
	waiting := all(w, "what waits", boss.Approvals(ctx, Approver, haft.ApprovalFilter{}))
	if len(waiting) != 2 || waiting[0].ID != one.Approval || waiting[1].ID != two.Approval ||
		waiting[0].Requester.User != "ann" {
		w.Fatalf("what waits, oldest first: %+v", waiting)
	}
	_, err := w.as(w.T, Ann).Decide(ctx, Ann, one.Approval, haft.Answer{Approve: true})
	w.code("by who asked", err, haft.CodeDenied)
	_, err = boss.Decide(ctx, Approver, one.Approval, haft.Answer{Approve: true, Args: json.RawMessage(`{"x":"y"}`)})
	w.code("with arguments that do not fit", err, haft.CodeInvalid)
	yes, err := boss.Decide(ctx, Approver, one.Approval,
		haft.Answer{Approve: true, Reason: "fine", Args: json.RawMessage(`{"x":7}`)})
	w.must("agree", err)
	if yes.Approver == nil || yes.Approver.User != "boss" || yes.Reason != "fine" || !yes.Edited {
		w.Errorf("agreed: %+v", yes)
	}
	if got := w.ended(Ann, one.Call); got.Status != haft.StatusSuccess || string(got.Result.Value) != `{"x":7}` {
		w.Errorf("what was agreed to: %+v", got.Result)
	}
	_, err = boss.Decide(ctx, Approver, one.Approval, haft.Answer{Approve: true})
	w.code("a second time", err, haft.CodeConflict)
	no, err := boss.Decide(ctx, Approver, two.Approval, haft.Answer{Reason: "no"})
	w.must("refuse", err)
	if no.State != haft.ApprovalDenied {
		w.Errorf("refused: %+v", no)
	}
	if got := w.ended(Ann, two.Call); got.Status != haft.StatusRejected {
		w.Errorf("what was refused ends with %s", got.Status)
	}
	if left := all(w, "what waits", boss.Approvals(ctx, Approver, haft.ApprovalFilter{})); len(left) != 0 {
		w.Errorf("what waits at the end: %+v", left)
	}
}

func (w *world) agents() {
	w.put(draft("echo", "echo"))
	w.put(draft("other", "echo"))
	s, ctx := w.as(w.T, Admin), w.Context()
	made, err := s.PutAgent(ctx, Admin, haft.Agent{Name: "smith", Tools: []string{"echo"}, Description: "helps",
		Instructions: "Be brief.", Model: "small", Tags: []string{"a", "b"},
		Env: map[string]string{"TOKEN": "hunter2-secret"}})
	w.must("put", err)
	if made.ID == "" || made.Org != "acme" {
		w.Errorf("put: %+v", made)
	}
	for _, ref := range []string{"smith", string(made.ID)} {
		a, err := s.Agent(ctx, Admin, ref)
		w.must("look", err)
		if a.ID != made.ID || !slices.Equal(a.Tools, []string{"echo"}) || a.Env["TOKEN"] == "hunter2-secret" ||
			a.Description != "helps" || a.Instructions != "Be brief." || a.Model != "small" ||
			!slices.Equal(a.Tags, []string{"a", "b"}) {
			w.Errorf("the agent: %+v", a)
		}
	}
	_, err = s.PutAgent(ctx, Admin, haft.Agent{Name: "jones"})
	w.must("put another", err)
	list := []string{}
	for _, a := range all(w, "list", s.AgentList(ctx, Admin, haft.AgentFilter{})) {
		list = append(list, a.Name)
	}
	if !slices.Equal(list, []string{"jones", "smith"}) {
		w.Errorf("by name: %v", list)
	}
	for _, bad := range []haft.Agent{{}, {Name: "a b"}, {Name: ".."},
		{Name: "x", Rules: []haft.ToolRule{{Type: "nonsense", Tool: "echo"}}},
		{Name: "x", Instructions: strings.Repeat("x", 400_001)}, {Name: "x", Model: "a\x00b"},
		{Name: "x", Description: strings.Repeat("x", 10_001)}, {Name: "x", Tags: make([]string, 51)},
		{Name: "x", Tags: []string{strings.Repeat("x", 101)}}} {
		_, err = s.PutAgent(ctx, Admin, bad)
		w.code("an agent "+bad.Name, err, haft.CodeInvalid)
	}
	_, err = w.as(w.T, Ann).PutAgent(ctx, Ann, haft.Agent{Name: "mine"})
	w.code("by a user", err, haft.CodeDenied)

	// What an agent was not given does not exist for it, whoever it acts for.
	who := Admin
	who.Agent = string(made.ID)
	if res, err := s.Call(ctx, haft.Call{Tool: "echo", Principal: who}); err != nil ||
		res.Status != haft.StatusSuccess {
		w.Errorf("a tool of its own: %+v, %v", res, err)
	}
	_, err = s.Call(ctx, haft.Call{Tool: "other", Principal: who})
	w.code("a tool that it was not given", err, haft.CodeNotFound)
	_, err = s.PutAgent(ctx, who, haft.Agent{Name: "third"})
	w.code("an agent that makes agents", err, haft.CodeDenied)
	if got := names(all(w, "its tools", s.Tools(ctx, who, haft.ToolFilter{}))); !slices.Equal(got, []string{"echo"}) {
		w.Errorf("its tools: %v", got)
	}
	_, err = s.PutAgent(ctx, Admin, haft.Agent{Name: "smith", If: haft.IfNone})
	w.code("put where one is", err, haft.CodeConflict)
	next, err := s.PutAgent(ctx, Admin, haft.Agent{Name: "smith", Disabled: true, If: made.Revision()})
	w.must("put over the one that is there", err)
	_, err = s.PutAgent(ctx, Admin, haft.Agent{Name: "smith", If: made.Revision()})
	w.code("put over the one that was there", err, haft.CodeConflict)
	w.code("remove the one that was there", s.RemoveAgent(ctx, Admin, "smith", made.Revision()), haft.CodeConflict)
	w.must("remove", s.RemoveAgent(ctx, Admin, "smith", next.Revision()))
	w.code("remove again", s.RemoveAgent(ctx, Admin, "smith", ""), haft.CodeNotFound)
}

func (w *world) events() {
	w.put(draft("echo", "echo"))
	ctx, cancel := context.WithCancel(w.Context())
	defer cancel()
	var made []haft.CallID
	for range 5 {
		made = append(made, w.call(Ann, haft.Call{Tool: "echo"}, haft.StatusSuccess).Call)
	}
	w.call(Bob, haft.Call{Tool: "echo"}, haft.StatusSuccess)
	var seen []haft.Event
	last := made[len(made)-1]
	for e, err := range w.as(w.T, Ann).Watch(ctx, Ann, haft.EventFilter{}, 0) {
		w.must("watch", err)
		if e.Type == "" {
			continue
		}
		if e.Principal.User != "ann" || e.Principal.Org != "acme" {
			w.Errorf("an event of somebody else: %+v", e)
		}
		seen = append(seen, e)
		if e.Call == last && e.Type == haft.EventCompleted {
			break
		}
	}
	seqs := map[haft.CallID]int64{}
	for i, e := range seen {
		if i > 0 && e.Cursor <= seen[i-1].Cursor {
			w.Errorf("event %d is not after the one before", i)
		}
		if seqs[e.Call]++; e.Seq != seqs[e.Call] {
			w.Errorf("event %d of %s has the number %d", seqs[e.Call], e.Call, e.Seq)
		}
	}
	// From any place on the rest comes, once.
	middle := len(seen) / 2
	rest := seen[middle+1:]
	for e, err := range w.as(w.T, Ann).Watch(ctx, Ann, haft.EventFilter{}, seen[middle].Cursor) {
		w.must("watch again", err)
		if e.Type == "" {
			continue
		}
		if e.Cursor != rest[0].Cursor || e.Type != rest[0].Type || string(e.Data) != string(rest[0].Data) {
			w.Fatalf("after the break comes %+v, want %+v", e, rest[0])
		}
		if rest = rest[1:]; len(rest) == 0 {
			break
		}
	}
	// A watch that was given up ends without an error.
	gone, leave := context.WithCancel(ctx)
	leave()
	for _, err := range w.as(w.T, Ann).Watch(gone, Ann, haft.EventFilter{}, -1) {
		w.Errorf("a watch that was given up yields something: %v", err)
	}
}

func (w *world) tenants() {
	w.put(draft("echo", "echo"))
	d := draft("pay", "echo")
	d.Settings.RequiresApproval = true
	w.put(d)
	s, evil, ctx := w.as(w.T, Admin), w.as(w.T, Stranger), w.Context()
	a, err := s.PutAgent(ctx, Admin, haft.Agent{Name: "smith"})
	w.must("put an agent", err)
	done := w.call(Ann, haft.Call{Tool: "echo"}, haft.StatusSuccess)
	pending := w.call(Ann, haft.Call{Tool: "pay"}, haft.StatusPending)
	chain, err := s.Run(ctx, Admin, haft.Plan{Steps: []haft.Step{{ID: "a", Tool: "echo"}}})
	w.must("run", err)
	off := true
	for what, try := range map[string]func() error{
		"the tool":     func() error { _, err := evil.Tool(ctx, Stranger, "echo"); return err },
		"the versions": func() error { return first(evil.Versions(ctx, Stranger, "echo")) },
		"set": func() error {
			_, err := evil.SetTool(ctx, Stranger, "echo", haft.ToolState{Disabled: &off})
			return err
		},
		"remove": func() error { return evil.RemoveTool(ctx, Stranger, "echo", "") },
		"call": func() error {
			_, err := evil.Call(ctx,
				haft.Call{Tool: "echo", Principal: Stranger})
			return err
		},
		"the call":  func() error { _, err := evil.Record(ctx, Stranger, done.Call); return err },
		"replay":    func() error { _, err := evil.Replay(ctx, Stranger, done.Call); return err },
		"cancel":    func() error { return evil.Cancel(ctx, Stranger, pending.Call) },
		"the chain": func() error { _, err := evil.Chain(ctx, Stranger, chain.ID); return err },
		"the agent": func() error { _, err := evil.Agent(ctx, Stranger, string(a.ID)); return err },
		"the request": func() error {
			_, err := evil.Decide(ctx, Stranger, pending.Approval, haft.Answer{Approve: true})
			return err
		},
	} {
		w.code(what+" of another organisation", try(), haft.CodeNotFound)
	}
	if n := len(names(all(w, "tools", evil.Tools(ctx, Stranger, haft.ToolFilter{Disabled: true})))); n != 0 {
		w.Errorf("%d tools are seen", n)
	}
	// its own, of a tool that is not there
	if n := len(all(w, "calls", evil.Records(ctx, Stranger, haft.CallFilter{Org: "acme"}))); n != 1 {
		w.Errorf("%d calls are seen", n)
	}
	if n := len(all(w, "agents", evil.AgentList(ctx, Stranger, haft.AgentFilter{}))); n != 0 {
		w.Errorf("%d agents are seen", n)
	}
	if n := len(all(w, "requests", evil.Approvals(ctx, Stranger, haft.ApprovalFilter{}))); n != 0 {
		w.Errorf("%d requests are seen", n)
	}
	n, err := evil.CancelAll(ctx, Stranger, haft.Principal{})
	if err != nil || n != 0 {
		w.Errorf("%d calls are cancelled: %v", n, err)
	}
	_, err = evil.CancelAll(ctx, Stranger, haft.Principal{Org: "acme"})
	w.code("all of another organisation", err, haft.CodeDenied)
	for e, err := range evil.Watch(ctx, Stranger, haft.EventFilter{}, 0) {
		w.must("watch", err)
		if e.Type != "" && e.Principal.Org != "evil" {
			w.Errorf("an event of another organisation: %+v", e)
		}
		break
	}
}

func (w *world) stopped() {
	w.put(draft("echo", "echo"))
	s, ctx := w.as(w.T, Admin), w.Context()
	w.code("by a user", w.as(w.T, Ann).Stop(ctx, Ann, "x", false), haft.CodeDenied)
	w.must("stop", s.Stop(ctx, Admin, "bad deploy", true))
	res := w.call(Ann, haft.Call{Tool: "echo"}, haft.StatusDenied)
	if res.Error == nil || res.Error.Kind != haft.FailStopped {
		w.Errorf("while it is stopped: %+v", res.Error)
	}
	w.must("resume", s.Resume(ctx, Admin))
	w.call(Ann, haft.Call{Tool: "echo"}, haft.StatusSuccess)
}
