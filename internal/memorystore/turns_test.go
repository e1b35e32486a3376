package memorystore_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"haft"
	"haft/internal/memorystore"
	"haft/internal/store"
)

// join registers a process, among others where the database is shared.
func (w *world) join(owner string) {
	w.t.Helper()
	check(w.t, w.db.Processes.Join(w.ctx(), owner))
}

// leave has a process be gone.
func (w *world) leave(owner string) {
	w.t.Helper()
	check(w.t, w.db.Processes.Leave(w.ctx(), owner))
}

func turnsBegin(t *testing.T, w *world) {
	w.join("p1")
	ann := haft.Principal{Org: "acme", User: "ann", Agent: string(a), Roles: []string{"dev"}}
	budget := haft.Budget{Steps: 3}
	var begun, refusedOnes atomic.Int64
	var wg sync.WaitGroup
	servers := []*memorystore.Store{w.Store, memorystore.New(w.open())}
	for i := range 16 {
		wg.Go(func() {
			_, _, err := servers[i%2].BeginTurn(w.ctx(), "p1", haft.Turn{Agent: a, Principal: ann, Model: "m",
				Parent: "run-0", Depth: 2, Budget: budget, Status: haft.TurnCompleted, Error: "x"}, "",
				haft.Message{Role: haft.RoleUser, Text: "hello"})
			switch {
			case err == nil:
				begun.Add(1)
			case haft.CodeOf(err) == haft.CodeConflict:
				refusedOnes.Add(1)
			default:
				t.Errorf("BeginTurn: %v", err)
			}
		})
	}
	wg.Wait()
	want(t, "turns that began", begun.Load(), 1)
	want(t, "turns that did not", refusedOnes.Load(), 15)
	want(t, "messages", w.said(a, haft.MessageFilter{}), "1:hello")
	list, err := w.Turns(w.ctx(), "acme", "", a, "", 0)
	check(t, err)
	turn, err := w.Turn(w.ctx(), "acme", list[0].ID)
	check(t, err)
	if diff := cmp.Diff(haft.Turn{ID: turn.ID, Agent: a, Status: haft.TurnRunning, Model: "m",
		Parent: "run-0", Depth: 2, Budget: budget, Created: turn.Created, Principal: ann}, *turn); diff != "" ||
		!strings.HasPrefix(string(turn.ID), "run-") {
		t.Errorf("the turn (-want +got):\n%s", diff)
	}
	turn.Status, turn.Parent = haft.TurnWaiting, ""
	_, err = w.AdvanceTurn(w.ctx(), "p1", *turn)
	check(t, err)
	waits, err := w.Turn(w.ctx(), "acme", turn.ID)
	check(t, err)
	want(t, "the parent of a turn that waits", waits.Parent, "run-0")
	_, _, err = w.BeginTurn(w.ctx(), "p1", haft.Turn{Agent: a, Principal: ann}, "", haft.Message{Role: haft.RoleUser})
	refused(t, "another turn while one waits", err, haft.CodeConflict)
	w.turn("p1", "ann", b, "to another agent")
	w.end("p1", *turn)
	next := w.turn("p1", "bob", a, "again")
	want(t, "messages", w.said(a, haft.MessageFilter{}), "1:hello 2:again")
	list, err = w.Turns(w.ctx(), "acme", "", a, turn.ID, 0)
	if check(t, err); len(list) != 1 || list[0].ID != next.ID {
		t.Errorf("turns after the first: %+v", list)
	}
	_, _, err = w.BeginTurn(w.ctx(), "p1", haft.Turn{Agent: "ag_X", Principal: ann}, "",
		haft.Message{Role: haft.RoleUser})
	refused(t, "no such agent", err, haft.CodeNotFound)
}

func turnsKeyed(t *testing.T, w *world) {
	begin := func(s *memorystore.Store, user, key string) (*haft.Turn, bool, error) {
		return s.BeginTurn(w.ctx(), "p1", haft.Turn{Agent: a, Principal: haft.Principal{Org: "acme", User: user}}, key,
			haft.Message{Role: haft.RoleUser, Text: "hello"})
	}
	w.join("p1")
	servers := []*memorystore.Store{w.Store, memorystore.New(w.open())}
	var ids sync.Map
	var begun atomic.Int64
	var wg sync.WaitGroup
	for i := range 16 {
		wg.Go(func() {
			turn, first, err := begin(servers[i%2], "ann", "k\x00\xff")
			if err != nil {
				t.Errorf("BeginTurn: %v", err)
				return
			}
			ids.Store(turn.ID, true)
			if first {
				begun.Add(1)
			}
		})
	}
	wg.Wait()
	n := 0
	ids.Range(func(any, any) bool { n++; return true })
	if n != 1 || begun.Load() != 1 || w.said(a, haft.MessageFilter{}) != "1:hello" {
		t.Errorf("of one key there are %d turns, %d began: %s", n, begun.Load(), w.said(a, haft.MessageFilter{}))
	}
	_, _, err := begin(w.Store, "ann", "other")
	refused(t, "another key", err, haft.CodeConflict)
	_, first, err := begin(w.Store, "bob", "k\x00\xff")
	if check(t, err); !first {
		t.Error("the key of another user began no turn of its own")
	}
	_, _, err = begin(w.Store, "ann", strings.Repeat("x", 1001))
	refused(t, "a long key", err, haft.CodeInvalid)
	turn, _, err := begin(w.Store, "ann", "k\x00\xff")
	check(t, err)
	w.end("p1", *turn)
	var again *haft.Turn
	again, first, err = begin(w.Store, "ann", "k\x00\xff")
	if check(t, err); again.ID != turn.ID || first || again.Status != haft.TurnCompleted {
		t.Errorf("the key of a turn that has ended began %+v, %v", again, first)
	}
}

func turnsAdvance(t *testing.T, w *world) {
	w.join("p1")
	turn := w.turn("p1", "ann", a, "hello")
	turn.Usage, turn.Approvals = haft.TurnUsage{Steps: 1, Input: 5}, []haft.ApprovalID{"ap_1"}
	kept, err := w.AdvanceTurn(w.ctx(), "p1", turn, haft.Message{Role: haft.RoleAssistant, Text: "one"},
		haft.Message{Role: haft.RoleTool, Text: "two"})
	check(t, err)
	if kept[0].Seq != 2 || kept[1].Seq != 3 || kept[0].Turn != turn.ID || kept[1].Agent != a ||
		kept[0].ID >= kept[1].ID {
		t.Errorf("kept are %+v", kept)
	}
	says := func() haft.Message { return haft.Message{Role: haft.RoleAssistant, Text: "refused"} }
	for name, tt := range map[string]struct {
		owner string
		edit  func(*haft.Turn)
		code  haft.Code
	}{
		"another process": {"p2", func(*haft.Turn) {}, haft.CodeConflict},
		"another agent":   {"p1", func(t *haft.Turn) { t.Agent = b }, haft.CodeNotFound},
		"no such turn":    {"p1", func(t *haft.Turn) { t.ID = "run-x" }, haft.CodeNotFound},
		"another status":  {"p1", func(t *haft.Turn) { t.Status = "x" }, haft.CodeInvalid},
		"another org":     {"p1", func(t *haft.Turn) { t.Principal.Org = "evil" }, haft.CodeNotFound},
	} {
		if tt.owner == "p2" && w.db.Shared() {
			w.join("p2")
		}
		other := turn
		tt.edit(&other)
		_, err := w.AdvanceTurn(w.ctx(), tt.owner, other, says())
		refused(t, name, err, tt.code)
	}
	got, err := w.Turn(w.ctx(), "acme", turn.ID)
	if check(t, err); cmp.Diff(turn, *got) != "" {
		t.Errorf("the turn (-want +got):\n%s", cmp.Diff(turn, *got))
	}
	turn.Error = "it broke"
	w.end("p1", turn, haft.Message{Role: haft.RoleAssistant, Text: "bye"})
	_, err = w.AdvanceTurn(w.ctx(), "p1", turn, says())
	refused(t, "a turn that has ended", err, haft.CodeConflict)
	got, err = w.Turn(w.ctx(), "acme", turn.ID)
	if check(t, err); got.Status != haft.TurnCompleted || got.Stop != haft.StopEnd || got.Ended.IsZero() ||
		got.Error != "it broke" || got.Principal.User != "ann" {
		t.Errorf("the end is %+v", got)
	}
	want(t, "messages", w.said(a, haft.MessageFilter{}), "1:hello 2:one 3:two 4:bye")
}

func turnsClaimed(t *testing.T, w *world) {
	w.join("p1")
	running := w.turn("p1", "ann", a, "hello")
	waiting := w.turn("p1", "ann", b, "hello")
	waiting.Status = haft.TurnWaiting
	_, err := w.AdvanceTurn(w.ctx(), "p1", waiting)
	check(t, err)
	check(t, errors.Join(w.db.Processes.Beat(w.ctx(), "p1")))
	if w.db.Shared() {
		w.join("p2")
		w.join("p3")
		none, err := w.ClaimTurns(w.ctx(), "p2")
		if check(t, err); len(none) != 0 {
			t.Errorf("turns of a process that lives are claimed: %+v", none)
		}
	}
	w.leave("p1")
	if !w.db.Shared() {
		w.join("p2") // the next process of the same directory
	}
	var claimed sync.Map
	var total atomic.Int64
	var wg sync.WaitGroup
	other := memorystore.New(w.open())
	for i := range 8 {
		owner, s := "p2", w.Store
		if i%2 == 1 && w.db.Shared() {
			owner, s = "p3", other
		}
		wg.Go(func() {
			list, err := s.ClaimTurns(w.ctx(), owner)
			if err != nil {
				t.Errorf("ClaimTurns: %v", err)
			}
			for _, turn := range list {
				claimed.Store(turn.ID, owner)
				total.Add(1)
			}
		})
	}
	wg.Wait()
	want(t, "turns that were claimed", total.Load(), 2)
	owner, _ := claimed.Load(running.ID)
	if owner == nil {
		t.Fatal("the turn is not claimed")
	}
	_, err = w.AdvanceTurn(w.ctx(), "p1", running, haft.Message{Role: haft.RoleAssistant, Text: "late"})
	if err == nil || w.db.Shared() && !errors.Is(err, store.ErrGivenUp) {
		t.Errorf("the process that was given up goes on: %v", err)
	}
	w.end(owner.(string), running)
	want(t, "messages", w.said(a, haft.MessageFilter{}), "1:hello")
	if w.db.Shared() {
		_, err := w.ClaimTurns(w.ctx(), "p1")
		refused(t, "a process that is gone claims", err, haft.CodeUnavailable)
		_, _, err = w.BeginTurn(w.ctx(), "p1", haft.Turn{Agent: a, Principal: running.Principal}, "",
			haft.Message{Role: haft.RoleUser})
		refused(t, "a process that is gone begins", err, haft.CodeUnavailable)
	}
}

func turnsCancelled(t *testing.T, w *world) {
	w.join("p1")
	turn := w.turn("p1", "ann", a, "hello")
	w.turn("p1", "ann", b, "hello")
	other := memorystore.New(w.open())
	for range 2 {
		check(t, other.CancelTurn(w.ctx(), "acme", turn.ID))
	}
	refused(t, "no such turn", w.CancelTurn(w.ctx(), "acme", "run-x"), haft.CodeNotFound)
	refused(t, "a turn of somebody else", w.CancelTurn(w.ctx(), "evil", turn.ID), haft.CodeNotFound)
	list, err := w.CancelledTurns(w.ctx(), "p1")
	if check(t, err); len(list) != 1 || list[0] != turn.ID {
		t.Errorf("cancelled are %v", list)
	}
	turn.Status, turn.Stop = haft.TurnCancelled, haft.StopCancelled
	_, err = w.AdvanceTurn(w.ctx(), "p1", turn)
	check(t, err)
	list, err = w.CancelledTurns(w.ctx(), "p1")
	if check(t, err); len(list) != 0 {
		t.Errorf("cancelled are still %v", list)
	}
	check(t, w.CancelTurn(w.ctx(), "acme", turn.ID))
}

func messagesKept(t *testing.T, w *world) {
	w.join("p1")
	turn := w.turn("p1", "ann", a, "hello")
	m := haft.Message{Role: haft.RoleAssistant, Name: "n", Text: "a\x00b\xff<ü>", Reasoning: "why",
		Calls: []haft.ToolCall{{ID: "t1", Tool: "add", Args: json.RawMessage(`{"a":1.50}`), Call: "c_1",
			Malformed: "no"}},
		Opaque: json.RawMessage(`{"signature":"s"}`), Status: haft.StatusSuccess, Answers: "t0", Call: "c_0"}
	kept, err := w.AdvanceTurn(w.ctx(), "p1", turn, m)
	check(t, err)
	list, err := w.Messages(w.ctx(), "acme", "", a, haft.MessageFilter{After: 1})
	check(t, err)
	kept[0].Text = strings.ToValidUTF8(m.Text, "\uFFFD")
	if diff := cmp.Diff(kept, list); diff != "" {
		t.Errorf("messages (-want +got):\n%s", diff)
	}
	if list[0].ID == "" || list[0].Created.IsZero() || string(list[0].Opaque) != string(m.Opaque) {
		t.Errorf("kept is %+v", list[0])
	}
}

func messagesFound(t *testing.T, w *world) {
	w.join("p1")
	one := w.turn("p1", "ann", a, "tea please")
	w.end("p1", one, haft.Message{Role: haft.RoleAssistant, Text: "tea it is"})
	two := w.turn("p1", "bob", a, "coffee")
	w.end("p1", two, haft.Message{Role: haft.RoleTool, Text: "tea tea"},
		haft.Message{Role: haft.RoleAssistant, Text: "coffee"})
	w.passage("tea in a passage")
	list, err := w.Messages(w.ctx(), "acme", "", a, haft.MessageFilter{})
	check(t, err)
	for name, tt := range map[string]struct {
		f    haft.MessageFilter
		want string
	}{
		"all":              {haft.MessageFilter{}, "1:tea please 2:tea it is 3:coffee 4:tea tea 5:coffee"},
		"newest":           {haft.MessageFilter{Newest: true, Limit: 2}, "5:coffee 4:tea tea"},
		"after and before": {haft.MessageFilter{After: 1, Before: 4}, "2:tea it is 3:coffee"},
		"before, newest":   {haft.MessageFilter{Before: 4, Newest: true, Limit: 1}, "3:coffee"},
		"a turn":           {haft.MessageFilter{Turn: two.ID}, "3:coffee 4:tea tea 5:coffee"},
		"roles":            {haft.MessageFilter{Roles: []haft.MessageRole{"user"}}, "1:tea please 3:coffee"},
		"a word":           {haft.MessageFilter{Query: "tea"}, "4:tea tea 1:tea please 2:tea it is"},
		"the newest":       {haft.MessageFilter{Query: "tea", Newest: true}, "4:tea tea 2:tea it is 1:tea please"},
		"of a role":        {haft.MessageFilter{Query: "tea", Roles: []haft.MessageRole{"user"}}, "1:tea please"},
		"of a turn":        {haft.MessageFilter{Query: "tea", Turn: one.ID, Limit: 1}, "1:tea please"},
		"since":            {haft.MessageFilter{Query: "tea", Since: list[2].Created}, "4:tea tea"},
		"till":             {haft.MessageFilter{Query: "tea", Till: list[2].Created}, "1:tea please 2:tea it is"},
		"since, all":       {haft.MessageFilter{Since: list[3].Created}, "4:tea tea 5:coffee"},
		"till, all":        {haft.MessageFilter{Till: list[1].Created}, "1:tea please"},
		"two roles": {haft.MessageFilter{Roles: []haft.MessageRole{"tool", "user"}},
			"1:tea please 3:coffee 4:tea tea"},
		"since tomorrow": {haft.MessageFilter{Since: list[3].Created.Add(24 * time.Hour)}, ""},
		"till long ago":  {haft.MessageFilter{Till: time.Unix(5, 0)}, ""},
	} {
		want(t, name, w.said(a, tt.f), tt.want)
	}
	for name, tt := range map[string]struct {
		f    haft.MessageFilter
		want string
	}{
		"all of bob": {haft.MessageFilter{}, "3:coffee 4:tea tea 5:coffee"},
		"two roles":  {haft.MessageFilter{Roles: []haft.MessageRole{"tool", "user", "tool"}}, "3:coffee 4:tea tea"},
		"the newest of two": {haft.MessageFilter{Roles: []haft.MessageRole{"tool", "user"}, Newest: true, Limit: 1},
			"4:tea tea"},
		"since":         {haft.MessageFilter{Since: list[3].Created}, "4:tea tea 5:coffee"},
		"a word":        {haft.MessageFilter{Query: "tea"}, "4:tea tea"},
		"of a role":     {haft.MessageFilter{Query: "coffee", Roles: []haft.MessageRole{"user"}}, "3:coffee"},
		"a beginning":   {haft.MessageFilter{Query: "coff", Newest: true}, "5:coffee 3:coffee"},
		"a word of ann": {haft.MessageFilter{Query: "please"}, ""},
	} {
		want(t, name, w.saidBy("bob", a, tt.f), tt.want)
	}
	_, err = w.Messages(w.ctx(), "acme", "bob", a, haft.MessageFilter{Roles: []haft.MessageRole{"hunter2"}})
	refused(t, "an unknown role", err, haft.CodeInvalid)
	want(t, "passages", w.found(haft.PassageFilter{Query: "tea"}), "tea")
	_, err = w.Messages(w.ctx(), "acme", "", a, haft.MessageFilter{Query: strings.Repeat("x", 100<<20)})
	refused(t, "a huge query", err, haft.CodeInvalid)
}

func messagesBounded(t *testing.T, w *world) {
	w.join("p1")
	turn := w.turn("p1", "ann", a, "hello")
	huge := strings.Repeat("x", 100<<20)
	for name, m := range map[string]haft.Message{
		"a huge text":      {Role: haft.RoleUser, Text: huge},
		"huge reasoning":   {Role: haft.RoleAssistant, Reasoning: huge},
		"huge arguments":   {Role: haft.RoleAssistant, Calls: []haft.ToolCall{{Args: json.RawMessage(huge)}}},
		"a huge signature": {Role: haft.RoleAssistant, Opaque: json.RawMessage(huge)},
		"no JSON":          {Role: haft.RoleAssistant, Opaque: json.RawMessage("{")},
		"no role":          {Text: "x"},
		"another role":     {Role: "system", Text: "x"},
	} {
		_, err := w.AdvanceTurn(w.ctx(), "p1", turn, haft.Message{Role: haft.RoleUser, Text: "before"}, m)
		refused(t, name, err, haft.CodeInvalid)
		_, _, err = w.BeginTurn(w.ctx(), "p1", haft.Turn{Agent: b, Principal: turn.Principal}, "", m)
		refused(t, name, err, haft.CodeInvalid)
	}
	_, err := w.AdvanceTurn(w.ctx(), "p1", turn, make([]haft.Message, 129)...)
	refused(t, "many messages", err, haft.CodeInvalid)
	large := make([]haft.Message, 20)
	for i := range large {
		large[i] = haft.Message{Role: haft.RoleTool, Text: huge[:900<<10]}
	}
	_, err = w.AdvanceTurn(w.ctx(), "p1", turn, large...)
	refused(t, "messages that are large together", err, haft.CodeInvalid)
	_, _, err = w.BeginTurn(w.ctx(), "p1", haft.Turn{Agent: b, Principal: haft.Principal{Org: "acme"}}, "",
		haft.Message{Role: haft.RoleUser})
	refused(t, "a turn of nobody", err, haft.CodeInvalid)
	turn.Error = huge
	_, err = w.AdvanceTurn(w.ctx(), "p1", turn)
	refused(t, "a huge error", err, haft.CodeInvalid)
	want(t, "messages", w.said(a, haft.MessageFilter{}), "1:hello")
	want(t, "turns", w.rows("turns"), 1)
}

func turnsPruned(t *testing.T, w *world) {
	w.join("p1")
	for i := range 3 {
		w.end("p1", w.turn("p1", "ann", a, fmt.Sprint("says", i)), haft.Message{Role: haft.RoleAssistant, Text: "yes"})
	}
	w.end("p1", w.turn("p1", "ann", b, "kept"))
	now := time.Now().Add(time.Second)
	prune := func(before, end time.Time) bool {
		t.Helper()
		at, err := w.PruneTurns(w.ctx(), "acme", before, nil, end)
		check(t, err)
		return at != nil
	}
	prune(now, now.Add(time.Hour))
	want(t, "turns without a summary", w.rows("turns"), 4)
	open := w.turn("p1", "ann", a, "more")
	_, err := w.AdvanceTurn(w.ctx(), "p1", open, haft.Message{Role: haft.RoleSummary, Text: "they talked", Replaces: 4})
	check(t, err)
	prune(now.Add(-time.Hour), now.Add(time.Hour))
	want(t, "turns that are young", w.rows("turns"), 5)
	want(t, "there is more", prune(now, now.Add(-time.Hour)), true)
	want(t, "there is no more", prune(now, now.Add(time.Hour)), false)
	want(t, "messages", w.said(a, haft.MessageFilter{}), "5:says2 6:yes 7:more 8:they talked")
	want(t, "messages that are found", w.said(a, haft.MessageFilter{Query: "yes"}), "6:yes")
	want(t, "of another agent", w.said(b, haft.MessageFilter{}), "1:kept")
	want(t, "turns", w.rows("turns"), 3)
	w.end("p1", open)
	for _, hours := range []time.Duration{1, 3} { // the turn has no summary
		w.exec(fmt.Sprintf("UPDATE turns SET ended = %d WHERE agent = '%s'", now.Add(-hours*time.Hour).UnixMicro(), b))
		prune(now.Add(-time.Hour), now.Add(time.Hour))
		want(t, fmt.Sprint("turns of another agent after ", int(hours), " hours"), w.said(b, haft.MessageFilter{}),
			map[time.Duration]string{1: "1:kept"}[hours])
	}
}

// usersApart: each user has a conversation of their own with an agent.
func usersApart(t *testing.T, w *world) {
	w.join("p1")
	ann, bob := w.turn("p1", "ann", a, "ann says"), w.turn("p1", "bob", a, "bob says")
	open, err := w.OpenTurns(w.ctx(), "p1", "")
	if check(t, err); len(open) != 2 || open[0].ID != ann.ID || open[1].Principal.User != "bob" {
		t.Errorf("open turns: %+v", open)
	}
	w.end("p1", ann, haft.Message{Role: haft.RoleSummary, Text: "ann says", Replaces: 2})
	w.end("p1", bob)
	for user, says := range map[string]string{"ann": "1:ann says 3:ann says", "bob": "2:bob says",
		"": "1:ann says 2:bob says 3:ann says", "an": ""} {
		for _, query := range []string{"", "says"} {
			list, err := w.Messages(w.ctx(), "acme", user, a, haft.MessageFilter{Query: query})
			check(t, err)
			slices.SortFunc(list, func(a, b haft.Message) int { return int(a.Seq - b.Seq) })
			var texts []string
			for _, m := range list {
				texts = append(texts, fmt.Sprintf("%d:%s", m.Seq, m.Text))
			}
			want(t, "messages of "+user+" with "+query, strings.Join(texts, " "), says)
		}
	}
	list, err := w.Turns(w.ctx(), "acme", "bob", a, "", 0)
	if check(t, err); len(list) != 1 || list[0].ID != bob.ID {
		t.Errorf("turns of bob: %+v", list)
	}
	list, err = w.Turns(w.ctx(), "acme", "carol", a, "", 0)
	if check(t, err); len(list) > 0 {
		t.Errorf("turns of carol: %+v", list)
	}
	_, err = w.PruneTurns(w.ctx(), "acme", time.Now().Add(time.Second), nil, time.Now().Add(time.Hour))
	check(t, err)
	want(t, "turns, as the summary stands for nothing of bob", w.rows("turns"), 2)
	open, err = w.OpenTurns(w.ctx(), "p1", "")
	if check(t, err); len(open) > 0 {
		t.Errorf("turns that have ended are open: %+v", open)
	}
}
