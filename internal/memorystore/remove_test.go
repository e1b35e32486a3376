package memorystore_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"haft"
	"haft/internal/memorystore"
	"haft/internal/store"
)

func agentRemoved(t *testing.T, w *world) {
	w.join("p1")
	shared := w.block("human", "Ann", a, b)
	open := w.turn("p1", "ann", a, "hello")
	for i := range 120 { // more than one transaction removes
		w.passage(fmt.Sprint("one two three four five six ", i), "tag")
	}
	_, err := w.AdvanceTurn(w.ctx(), "p1", open, make120()...)
	check(t, err)
	_, err = w.AddPassage(w.ctx(), "acme", "", b, "of another", nil)
	check(t, err)
	refused(t, "on a condition", w.db.Agents.RemoveAgent(w.ctx(), "acme", string(a), "other"), haft.CodeConflict)
	want(t, "passages after a refusal", w.found(haft.PassageFilter{Limit: 1}), "one")
	check(t, w.db.Agents.RemoveAgent(w.ctx(), "acme", string(a), ""))
	agents, err := w.BlockAgents(w.ctx(), "acme", shared.ID)
	check(t, err)
	want(t, "agents of the block", fmt.Sprint(agents), "[ag_B]")
	_, err = w.AdvanceTurn(w.ctx(), "p1", open, haft.Message{Role: haft.RoleAssistant, Text: "late"})
	refused(t, "a turn of an agent that is gone", err, haft.CodeNotFound)
	_, err = w.Turn(w.ctx(), "acme", open.ID)
	refused(t, "a turn of an agent that is gone", err, haft.CodeNotFound)
	_, err = w.AddPassage(w.ctx(), "acme", "", a, "late", nil)
	refused(t, "a passage of an agent that is gone", err, haft.CodeNotFound)
	refused(t, "a block of an agent that is gone", w.AttachBlock(w.ctx(), "acme", a, shared.ID), haft.CodeNotFound)
	check(t, w.Purge(w.ctx()))
	for table, n := range map[string]int{"turns": 0, "messages": 0, "passages": 1, "memory_terms": 2, "memories": 1,
		"blocks": 1} {
		want(t, "rows of "+table, w.rows(table), n)
	}
}

func make120() []haft.Message {
	list := make([]haft.Message, 120)
	for i := range list {
		list[i] = haft.Message{Role: haft.RoleAssistant, Text: fmt.Sprint("message ", i)}
	}
	return list
}

// agentRace: while an agent is removed, others add to its memory. Nothing is added after it, and nothing is left.
func agentRace(t *testing.T, w *world) {
	other := memorystore.New(w.open())
	for round := range 10 {
		agent := haft.AgentID(fmt.Sprint("ag_race", round))
		w.agent("acme", agent)
		var wg sync.WaitGroup
		for range 4 {
			wg.Go(func() {
				for {
					if _, err := other.AddPassage(w.ctx(), "acme", "", agent, "text", nil); err != nil {
						if haft.CodeOf(err) != haft.CodeNotFound {
							t.Errorf("AddPassage: %v", err)
						}
						return
					}
				}
			})
		}
		check(t, w.db.Agents.RemoveAgent(w.ctx(), "acme", string(agent), ""))
		n := w.rows("passages")
		wg.Wait()
		want(t, "passages when the writers have ended", w.rows("passages"), n)
	}
	check(t, w.Purge(w.ctx()))
	want(t, "passages", w.rows("passages"), 0)
	want(t, "memories", w.rows("memories"), 0)
}

func userErased(t *testing.T, w *world) {
	w.join("p1")
	w.end("p1", w.turn("p1", "bob", a, "bob is here"))
	w.end("p1", w.turn("p1", "ann", a, "ann is here"), append(make120(), haft.Message{Role: haft.RoleSummary,
		Text: "ann was here", Replaces: 2})...)
	w.end("p1", w.turn("p1", "bob", a, "and again"), haft.Message{Role: haft.RoleAssistant, Text: "bye"})
	open := w.turn("p1", "ann", b, "ann talks")
	for i := range 120 {
		_, err := w.AddPassage(w.ctx(), "acme", "ann", a, fmt.Sprint("ann likes tea ", i), []string{"t"})
		check(t, err)
	}
	_, err := w.AddPassage(w.ctx(), "acme", "bob", a, "bob likes coffee", nil)
	check(t, err)
	w.passage("manual by a manager")
	list, err := w.UserPassages(w.ctx(), "acme", "ann", "", 0)
	if check(t, err); len(list) != 100 || list[0].Agent != a || list[0].Text != "ann likes tea 0" {
		t.Errorf("%d passages of ann: %+v", len(list), list[:1])
	}
	want(t, "passages of nobody", length(t)(w.UserPassages(w.ctx(), "acme", "", "", 0)), 0)
	want(t, "passages of elsewhere", length(t)(w.UserPassages(w.ctx(), "evil", "ann", "", 0)), 0)
	check(t, errors.Join(w.Erase(w.ctx(), "evil", "ann"), w.Erase(w.ctx(), "acme", "an")))
	want(t, "turns", w.rows("turns"), 4)
	check(t, w.Erase(w.ctx(), "acme", "ann"))
	want(t, "messages", w.said(a, haft.MessageFilter{}), "1:bob is here 124:and again 125:bye")
	want(t, "what is found of her", w.said(a, haft.MessageFilter{Query: "ann message"}), "")
	want(t, "of the other agent", w.said(b, haft.MessageFilter{}), "")
	want(t, "terms", w.rows("memory_terms WHERE term LIKE '%ann%'"), 0)
	want(t, "passages", w.found(haft.PassageFilter{}), "bob manual")
	want(t, "counted passages", w.rows("memories WHERE passages = 2"), 1)
	_, err = w.AdvanceTurn(w.ctx(), "p1", open, haft.Message{Role: haft.RoleAssistant, Text: "ann"})
	refused(t, "a turn that was erased", err, haft.CodeNotFound)
	w.turn("p1", "bob", b, "the agent is free again")
	w.turn("p1", "bob", a, "next")
	want(t, "numbers go on", w.said(a, haft.MessageFilter{After: 125}), "126:next")
}

// eraseRace: what a user says while it is erased does not stay without its turn.
// turnsTaken: whoever is to be erased makes no more calls in turns, and others go on.
func turnsTaken(t *testing.T, w *world) {
	w.join("p1")
	anns, bobs := w.turn("p1", "ann", a, "one"), w.turn("p1", "bob", a, "two")
	check(t, w.TakeTurns(w.ctx(), "acme", "ann"))
	_, err := w.AdvanceTurn(w.ctx(), "p1", anns)
	refused(t, "a turn that was taken", err, haft.CodeConflict)
	_, err = w.AdvanceTurn(w.ctx(), "p1", bobs)
	check(t, err)
	claimed, err := w.ClaimTurns(w.ctx(), "p1")
	check(t, err)
	want(t, "turns that are claimed", len(claimed), 0)
	check(t, w.TakeTurns(w.ctx(), "acme", ""))
	_, err = w.AdvanceTurn(w.ctx(), "p1", bobs)
	refused(t, "a turn of an organisation that is erased", err, haft.CodeConflict)
}

func eraseRace(t *testing.T, w *world) {
	w.join("p1")
	other := memorystore.New(w.open())
	for range 10 {
		turn := w.turn("p1", "ann", a, "hello")
		var wg sync.WaitGroup
		wg.Go(func() {
			for {
				_, err := other.AdvanceTurn(w.ctx(), "p1", turn, haft.Message{Role: haft.RoleAssistant, Text: "more"})
				if err != nil {
					if code := haft.CodeOf(err); code != haft.CodeNotFound && code != haft.CodeConflict {
						t.Errorf("AdvanceTurn: %v", err)
					}
					return
				}
			}
		})
		check(t, w.Erase(w.ctx(), "acme", "ann"))
		wg.Wait()
		want(t, "messages", w.rows("messages"), 0)
		want(t, "terms", w.rows("memory_terms"), 0)
	}
}

func orgErased(t *testing.T, w *world) {
	w.join("p1")
	for i := range 3 {
		w.block(fmt.Sprint("n", i), "x", a, b)
	}
	_, err := w.AddBlock(w.ctx(), haft.Block{Org: "evil", Label: "theirs"}, c)
	check(t, err)
	_, err = w.AddPassage(w.ctx(), "evil", "", c, "theirs", nil)
	check(t, err)
	w.turn("p1", "ann", a, "hello")
	w.passage("text", "tag")
	check(t, w.db.Erasure.EraseOrg(w.ctx(), "acme"))
	check(t, w.Erase(w.ctx(), "acme", ""))
	for table, n := range map[string]int{"turns": 0, "messages": 0, "passages": 1, "memory_terms": 1, "memories": 1,
		"blocks": 1, "agent_blocks": 1} {
		want(t, "rows of "+table, w.rows(table), n)
	}
}

// orgEraseRace: an agent adds the first of its memory while its organisation is erased.
func orgEraseRace(t *testing.T, w *world) {
	other := memorystore.New(w.open())
	if w.db.Shared() {
		refused(t, "the first passage of an agent that goes", w.during("DELETE FROM agents WHERE id = $1",
			func() error { return second(other.AddPassage(w.ctx(), "acme", "", a, "text", nil)) }), haft.CodeNotFound)
	}
	for round := range 10 {
		org := fmt.Sprint("org", round)
		var wg sync.WaitGroup
		for i := range 4 {
			agent := haft.AgentID(fmt.Sprint("ag_", round, "x", i))
			w.agent(org, agent)
			wg.Go(func() {
				for {
					if _, err := other.AddPassage(w.ctx(), org, "", agent, "text", nil); err != nil {
						if haft.CodeOf(err) != haft.CodeNotFound {
							t.Errorf("AddPassage: %v", err)
						}
						return
					}
				}
			})
		}
		check(t, w.db.Erasure.EraseOrg(w.ctx(), org))
		check(t, w.Erase(w.ctx(), org, ""))
		wg.Wait()
		check(t, w.Purge(w.ctx()))
		want(t, "passages", w.rows("passages"), 0)
		want(t, "memories", w.rows("memories"), 0)
	}
}

// during runs a statement about the agent a, and do before that is committed. It commits when do waits for it, or has
// ended, and returns the error of do.
func (w *world) during(statement string, do func() error) error {
	w.t.Helper()
	done := make(chan error, 1)
	check(w.t, store.TablesOf(w.db).Write(w.ctx(), "wait", func(ctx context.Context, tx store.Tx) error {
		if _, err := tx.Exec(ctx, statement, string(a)); err != nil {
			return err
		}
		go func() { done <- do() }()
		for waits := 0; waits == 0 && len(done) == 0; {
			if err := tx.Each(ctx, func(r store.Scanner) error { return r.Scan(&waits) },
				"SELECT COUNT(*) FROM pg_locks WHERE NOT granted"); err != nil {
				return err
			}
		}
		return nil
	}))
	return <-done
}

// twoPurge: of two processes that remove the memory of an agent one stops while the other waits for it.
func twoPurge(t *testing.T, w *world) {
	if !w.db.Shared() {
		t.Skip("one process has the database")
	}
	for i := range 200 {
		w.passage(fmt.Sprint("one two three four five six ", i), "tag")
	}
	check(t, w.db.Agents.RemoveAgent(w.ctx(), "acme", string(a), ""))
	other := memorystore.New(w.open())
	check(t, w.during("DELETE FROM memory_terms WHERE (agent, term, item) IN (SELECT agent, term, item FROM "+
		"memory_terms WHERE agent = $1 LIMIT 500)", func() error { return other.Purge(w.ctx()) }))
	want(t, "terms that are left", w.rows("memory_terms"), 0)
	want(t, "marks that are left", w.rows("memories"), 0)
}

// apart: nothing of an organisation is found with the name of another.
func apart(t *testing.T, w *world) {
	w.join("p1")
	block := w.block("human", "x", a)
	passage := w.passage("text", "tag")
	turn := w.turn("p1", "ann", a, "text")
	value := "hunter2"
	for name, err := range map[string]error{
		"Block":         second(w.Block(w.ctx(), "evil", block.ID)),
		"ChangeBlock":   second(w.ChangeBlock(w.ctx(), "evil", block.ID, haft.BlockChange{Value: &value})),
		"EditBlock":     second(w.EditBlock(w.ctx(), "evil", a, "human", to(value))),
		"RemoveBlock":   w.RemoveBlock(w.ctx(), "evil", block.ID),
		"AttachBlock":   w.AttachBlock(w.ctx(), "evil", c, block.ID),
		"of our agent":  w.AttachBlock(w.ctx(), "evil", a, block.ID),
		"AddPassage":    second(w.AddPassage(w.ctx(), "evil", "", a, "x", nil)),
		"RemovePassage": w.RemovePassage(w.ctx(), "evil", a, passage),
		"Turn":          second(w.Turn(w.ctx(), "evil", turn.ID)),
		"CancelTurn":    w.CancelTurn(w.ctx(), "evil", turn.ID),
	} {
		refused(t, name, err, haft.CodeNotFound)
	}
	check(t, w.DetachBlock(w.ctx(), "evil", a, block.ID))
	for name, n := range map[string]int{
		"blocks":        length(t)(w.Blocks(w.ctx(), "evil", haft.BlockFilter{Agent: string(a)})),
		"agents":        length(t)(w.BlockAgents(w.ctx(), "evil", block.ID)),
		"passages":      length(t)(w.Passages(w.ctx(), "evil", a, haft.PassageFilter{})),
		"by a word":     length(t)(w.Passages(w.ctx(), "evil", a, haft.PassageFilter{Query: "text"})),
		"by a tag":      length(t)(w.Passages(w.ctx(), "evil", a, haft.PassageFilter{Tags: []string{"tag"}})),
		"tags":          length(t)(w.PassageTags(w.ctx(), "evil", a)),
		"messages":      length(t)(w.Messages(w.ctx(), "evil", "", a, haft.MessageFilter{})),
		"by their word": length(t)(w.Messages(w.ctx(), "evil", "", a, haft.MessageFilter{Query: "text"})),
		"turns":         length(t)(w.Turns(w.ctx(), "evil", "", a, "", 0)),
		"all turns":     length(t)(w.UserTurns(w.ctx(), "evil", "", haft.Turn{}, 0)),
	} {
		want(t, name, n, 0)
	}
	want(t, "what is left", length(t)(w.BlockAgents(w.ctx(), "acme", block.ID)), 1)
}

func second[T any](_ T, err error) error { return err }

// length is for a list that is refused with nothing but what is not there.
func length(t *testing.T) func(list any, err error) int {
	return func(list any, err error) int {
		t.Helper()
		check(t, err)
		return strings.Count(fmt.Sprintf("%+v", list), "block-") + strings.Count(fmt.Sprintf("%+v", list), "ag_") +
			strings.Count(fmt.Sprintf("%+v", list), "tag")
	}
}

// anyNames: names from outside that no database takes in a column are refused or not found, the same on all.
func anyNames(t *testing.T, w *world) {
	for _, name := range []string{"", "\x00", "\xff", strings.Repeat("x", 1<<20), "' OR 1=1 --", "%"} {
		for what, err := range map[string]error{
			"Block":         second(w.Block(w.ctx(), "acme", haft.BlockID(name))),
			"EditBlock":     second(w.EditBlock(w.ctx(), "acme", a, name, to(""))),
			"of an agent":   second(w.EditBlock(w.ctx(), "acme", haft.AgentID(name), "x", to(""))),
			"AttachBlock":   w.AttachBlock(w.ctx(), "acme", a, haft.BlockID(name)),
			"RemoveBlock":   w.RemoveBlock(w.ctx(), "acme", haft.BlockID(name)),
			"AddPassage":    second(w.AddPassage(w.ctx(), "acme", "", haft.AgentID(name), "x", nil)),
			"RemovePassage": w.RemovePassage(w.ctx(), "acme", a, haft.PassageID(name)),
			"Turn":          second(w.Turn(w.ctx(), "acme", haft.TurnID(name))),
			"CancelTurn":    w.CancelTurn(w.ctx(), name, haft.TurnID(name)),
		} {
			refused(t, fmt.Sprintf("%s(%.10q)", what, name), err, haft.CodeNotFound)
		}
		for what, err := range map[string]error{
			"Blocks": second(w.Blocks(w.ctx(), name,
				haft.BlockFilter{Agent: name, Label: name, After: haft.BlockID(name)})),
			"BlockAgents": second(w.BlockAgents(w.ctx(), name, haft.BlockID(name))),
			"DetachBlock": w.DetachBlock(w.ctx(), name, haft.AgentID(name), haft.BlockID(name)),
			"Passages": second(w.Passages(w.ctx(), name, haft.AgentID(name),
				haft.PassageFilter{After: haft.PassageID(name)})),
			"by a word":   second(w.Passages(w.ctx(), name, haft.AgentID(name), haft.PassageFilter{Query: "x"})),
			"PassageTags": second(w.PassageTags(w.ctx(), name, haft.AgentID(name))),
			"Messages": second(w.Messages(w.ctx(), name, "", haft.AgentID(name),
				haft.MessageFilter{Turn: haft.TurnID(name)})),
			"Turns": second(w.Turns(w.ctx(), name, "", haft.AgentID(name), haft.TurnID(name), 0)),
			"Erase": w.Erase(w.ctx(), "acme", name+"\x00"),
		} {
			if err != nil {
				t.Errorf("%s(%.10q): %v", what, name, err)
			}
		}
	}
	want(t, "a label with a sign", w.rows("blocks"), 0)
}
