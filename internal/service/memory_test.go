package service_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"haft"
	"haft/internal/engine"
	"haft/internal/memorystore"
	"haft/internal/store"
)

// remember gives an agent a block, a passage, and a turn of a user that has ended.
func remember(t *testing.T, w *world, org, name, user string) (*haft.Agent, *memorystore.Store) {
	t.Helper()
	ctx, s := t.Context(), memorystore.New(w.store)
	agent, err := w.PutAgent(ctx, admin(org), haft.Agent{Name: name})
	check(t, err)
	b, err := w.API.Memory.AddBlock(ctx, admin(org), haft.Block{Label: "human", Value: "block of " + name})
	check(t, err)
	check(t, w.API.Memory.AttachBlock(ctx, admin(org), name, b.ID))
	_, err = w.API.Memory.AddPassage(ctx, admin(org), name, "passage of "+name, nil)
	check(t, err)
	by := haft.Principal{Org: org, User: user}
	_, err = s.AddPassage(ctx, org, user, agent.ID, "noted about "+user, nil)
	check(t, err)
	turn, _, err := s.BeginTurn(ctx, "p", haft.Turn{Agent: agent.ID, Principal: by}, "",
		haft.Message{Role: haft.RoleUser, Text: "said by " + user})
	check(t, err)
	turn.Status = haft.TurnCompleted
	_, err = s.AdvanceTurn(ctx, "p", *turn, haft.Message{Role: haft.RoleAssistant, Text: "answer to " + user,
		Opaque: []byte(`"hunter2"`)})
	check(t, err)
	return agent, s
}

func TestMemory_is_exported_and_erased(t *testing.T) {
	w := setup(t, allowAll, engine.Config{Operators: "ops"})
	remember(t, w, "o", "one", "annabel")
	remember(t, w, "o", "two", "bob")
	remember(t, w, "p", "three", "annabel")
	own := export(t, w, admin("o"), haft.Subject{User: "annabel"})
	for _, part := range []string{`"type":"turn"`, `"type":"message"`, "said by annabel", "answer to annabel",
		"noted about annabel"} {
		if !strings.Contains(own, part) {
			t.Errorf("the export of a user has no %s", part)
		}
	}
	for _, part := range []string{"bob", "block of", "passage of", "hunter2"} {
		if strings.Contains(own, part) {
			t.Errorf("the export of a user has %s", part)
		}
	}
	all := export(t, w, admin("o"), haft.Subject{})
	for _, part := range []string{"said by annabel", "answer to bob", "block of one", "passage of two",
		"noted about bob"} {
		if strings.Count(all, part) != 1 {
			t.Errorf("the export has %s %d times", part, strings.Count(all, part))
		}
	}
	if strings.Contains(all, "three") {
		t.Error("the export has what is of another organisation")
	}
	_, err := w.Erase(t.Context(), admin("o"), haft.Subject{User: "annabel"})
	check(t, err)
	all = export(t, w, admin("o"), haft.Subject{})
	if strings.Contains(all, "annabel") || !strings.Contains(all, "said by bob") ||
		!strings.Contains(all, "noted about bob") || !strings.Contains(all, "passage of one") ||
		!strings.Contains(all, "block of one") {
		t.Errorf("after the erasure of a user there is\n%s", all)
	}
	_, err = w.Erase(t.Context(), admin("ops"), haft.Subject{Org: "o"})
	check(t, err)
	if all = export(t, w, admin("ops"), haft.Subject{Org: "o"}); strings.Contains(all, " of ") ||
		strings.Contains(all, "bob") {
		t.Errorf("after the erasure of the organisation there is\n%s", all)
	}
	if other := export(t, w, admin("p"), haft.Subject{}); !strings.Contains(other, "said by annabel") {
		t.Error("the other organisation has lost a turn")
	}
}

func TestMemory_goes_with_the_agent(t *testing.T) {
	w := setup(t, allowAll, engine.Config{})
	agent, s := remember(t, w, "o", "one", "ann")
	check(t, w.RemoveAgent(t.Context(), admin("o"), "one", ""))
	check(t, s.Purge(t.Context())) // as the housekeeping does
	list, err := s.Messages(t.Context(), "o", "", agent.ID, haft.MessageFilter{})
	if check(t, err); len(list) != 0 {
		t.Errorf("messages are left: %+v", list)
	}
	passages, err := s.Passages(t.Context(), "o", agent.ID, haft.PassageFilter{})
	if check(t, err); len(passages) != 0 {
		t.Errorf("passages are left: %+v", passages)
	}
}

// Turns are pruned by the bound on calls, unless the model of the agent still gets what was said in them.
func TestPruneCalls_turns(t *testing.T) {
	w := setup(t, allowAll, engine.Config{})
	agent, s := remember(t, w, "o", "one", "ann")
	left := func(what string, n int) {
		t.Helper()
		if done, err := w.PruneCalls(t.Context(), 100, time.Second); err != nil || !done {
			t.Errorf("PruneCalls = %v, %v", done, err)
		}
		list, err := s.Turns(t.Context(), "o", "", agent.ID, "", 0)
		if check(t, err); len(list) != n {
			t.Errorf("%s: %d turns are left, want %d", what, len(list), n)
		}
	}
	ended := func(days int) {
		check(t, store.TablesOf(w.store).Write(t.Context(), "age", func(ctx context.Context, tx store.Tx) error {
			at := time.Now().AddDate(0, 0, -days)
			_, err := tx.Exec(ctx, "UPDATE turns SET ended = $1 WHERE final = 1", at.UnixMicro())
			return err
		}))
	}
	ended(91)
	left("without a summary", 1)
	// A round without time looks at one turn, and the next one goes on behind it.
	if done, err := w.PruneCalls(t.Context(), 100, 0); err != nil || !done {
		t.Errorf("PruneCalls without time = %v, %v", done, err)
	}
	_, _, err := s.BeginTurn(t.Context(), "p", haft.Turn{Agent: agent.ID, Principal: user("o", "ann")}, "",
		haft.Message{Role: haft.RoleSummary, Replaces: 2})
	check(t, err)
	ended(89)
	left("younger", 2)
	ended(91)
	left("old", 1)
}
