package memorystore_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"haft"
)

// numbers is a table of the numbers from 1 on.
func numbers(n int) string {
	return fmt.Sprintf("(WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < %d) SELECT i FROM "+
		"n) n", n)
}

// terms gives an agent very many rows by which items are found. Item and term are SQL of the number i.
func (w *world) terms(agent haft.AgentID, term, item string, n int) {
	w.t.Helper()
	w.exec("INSERT INTO memory_terms (agent, term, item, weight) SELECT $1, "+term+", "+item+", 8 FROM "+numbers(n),
		string(agent))
}

// noSlower checks that a search of the agent a, which has ten times as much as b, costs about what it costs for b: both
// are measured beside each other, several times, since other programs may make one slow.
func noSlower(t *testing.T, what string, search func(haft.AgentID)) {
	t.Helper()
	took := map[haft.AgentID]time.Duration{a: time.Hour, b: time.Hour}
	for range 30 {
		for agent := range took {
			began := time.Now()
			search(agent)
			took[agent] = min(took[agent], time.Since(began))
		}
		if took[a] <= 3*took[b] {
			return
		}
	}
	t.Errorf("%s takes %v for much, and %v for a tenth of it", what, took[a], took[b])
}

// searchesBounded: tags and words that very many items have do not make a search slow.
func searchesBounded(t *testing.T, w *world) {
	tags := []string{"common", "rare"}
	for i := range haft.MaxSearchTags - 2 {
		tags = append(tags, fmt.Sprint("t", i))
	}
	w.crowd(a, 10)
	w.crowd(b, 1)
	for name, tt := range map[string]struct {
		f    haft.PassageFilter
		want string
	}{
		"a common tag and none":   {haft.PassageFilter{Tags: []string{"common", "none"}, AllTags: true}, ""},
		"a common tag and rare":   {haft.PassageFilter{Tags: []string{"common", "rare"}, AllTags: true}, "both"},
		"two rare tags":           {haft.PassageFilter{Tags: []string{"t0", "rare"}, AllTags: true}, "both"},
		"as many as there may be": {haft.PassageFilter{Tags: tags, AllTags: true}, ""},
		"with a word":             {haft.PassageFilter{Query: "tea", Tags: tags[:3], AllTags: true}, "both"},
		"a tag of long passages": {haft.PassageFilter{Query: "w1001 a b c d e f g", Tags: []string{"long"}, Limit: 1},
			"long"},
	} {
		noSlower(t, name, func(agent haft.AgentID) { want(t, name, w.foundBy(agent, tt.f), tt.want) })
	}
	_, err := w.Passages(w.ctx(), "acme", a, haft.PassageFilter{Tags: append(tags, "one more"), AllTags: true})
	refused(t, "one tag more", err, haft.CodeInvalid)
	for name, f := range map[string]haft.MessageFilter{"since": {Since: time.Now()}, "till": {Till: time.UnixMicro(1)},
		"roles":  {Roles: []haft.MessageRole{"tool", "summary"}, Newest: true},
		"a turn": {Turn: "run-none", Limit: 1}} {
		noSlower(t, name, func(agent haft.AgentID) { want(t, name, w.saidBy("ann", agent, f), "") })
	}
}

// crowd gives an agent some passages among many thousand times n of others with their tags, 100 long ones, and
// messages.
func (w *world) crowd(agent haft.AgentID, n int) {
	w.t.Helper()
	for text, tags := range map[string][]string{"tea": {"common"}, "both tea": {"common", "rare", "t0"},
		"rare tea": {"rare"}} {
		_, err := w.AddPassage(w.ctx(), "acme", "", agent, text, tags)
		check(w.t, err)
	}
	id := string(agent)
	w.terms(agent, "'#common'", "'passage-000' || (1000000 + i)", n*2_500)
	w.exec("INSERT INTO passages (id, org, agent, usr, body, tags, created) SELECT 'passage-001"+id+"' || (1000 + i), "+
		"'acme', $1, '', 'long', '[\"long\"]', 1 FROM "+numbers(100), id)
	w.terms(agent, "'#long'", "'passage-001"+id+"' || (1000 + i)", 100)
	w.terms(agent, fmt.Sprintf("'w' || (1000 + i %% %d)", n*20),
		fmt.Sprintf("'passage-001%s' || (1001 + i / %d)", id, n*20), n*20*99)
	w.exec("INSERT INTO messages (agent, seq, id, org, usr, turn, role, replaces, created, doc) SELECT $1, i, "+
		fmt.Sprintf("'message-%03d' || (1000000 + i), 'acme', ", n)+"'ann', 'run-' || (i / 4), 'user', 0, i, "+
		"'{}' FROM "+numbers(n*2_000), id)
}

// usersCrowd: however much one user says, others find what they said.
func usersCrowd(t *testing.T, w *world) {
	w.join("p1")
	w.end("p1", w.turn("p1", "bob", a, "bob likes tea"))
	w.end("p1", w.turn("p1", "ann", a, "hello"))
	w.terms(a, "'@ann/tea'", "'message-zzz' || (1000000 + i)", 10_000)
	w.terms(a, "'tea'", "'passage-000' || (1000000 + i)", 10_000)
	want(t, "a word", w.saidBy("bob", a, haft.MessageFilter{Query: "tea"}), "1:bob likes tea")
	want(t, "a beginning", w.saidBy("bob", a, haft.MessageFilter{Query: "lik"}), "1:bob likes tea")
	want(t, "a word of somebody else", w.saidBy("ann", a, haft.MessageFilter{Query: "likes"}), "")
	want(t, "all", w.said(a, haft.MessageFilter{Query: "tea hello"}), "1:bob likes tea 2:hello")
}

// listsBounded: a list ends when it has some megabytes, and goes on behind its last one.
func listsBounded(t *testing.T, w *world) {
	w.join("p1")
	large := strings.Repeat("ü", haft.MaxPassage)
	for i := range 60 {
		w.passage(fmt.Sprint("p", i, " ", large[:len(large)-20]), "t")
	}
	for name, f := range map[string]haft.PassageFilter{"all": {}, "a tag": {Tags: []string{"t"}}} {
		n, pages := 0, 0
		for {
			list, err := w.Passages(w.ctx(), "acme", a, f)
			check(t, err)
			if len(list) == 0 {
				break
			}
			n, pages, f.After = n+len(list), pages+1, list[len(list)-1].ID
		}
		want(t, name, fmt.Sprint(n, " in ", pages), "60 in 2")
	}
	for i := range 70 {
		w.passage(fmt.Sprint("q", i, " tea ", large[:len(large)-20]))
	}
	list, err := w.Passages(w.ctx(), "acme", a, haft.PassageFilter{Query: "tea q69", Limit: 100})
	if check(t, err); len(list) == 0 || len(list) > 50 || !strings.HasPrefix(list[0].Text, "q69") {
		t.Errorf("a search finds %d passages", len(list))
	}
	turn := w.turn("p1", "ann", a, "tea")
	for range 12 {
		_, err := w.AdvanceTurn(w.ctx(), "p1", turn, haft.Message{Role: haft.RoleTool, Text: "tea " + large},
			haft.Message{Role: haft.RoleTool, Text: strings.Repeat("x", 1000<<10)})
		check(t, err)
	}
	said, err := w.Messages(w.ctx(), "acme", "ann", a, haft.MessageFilter{Turn: turn.ID})
	if check(t, err); len(said) < 10 || len(said) > 20 || said[len(said)-1].Seq != int64(len(said)) {
		t.Errorf("a page has %d messages", len(said))
	}
	var names []string
	for i := range 4 {
		names = append(names, fmt.Sprint("b", i))
		_, err := w.AddBlock(w.ctx(), haft.Block{Org: "acme", Label: names[i], Limit: haft.MaxBlockLimit,
			Value: strings.Repeat("\U0001F600", haft.MaxBlockLimit)}, a)
		check(t, err)
	}
	blocks, err := w.Blocks(w.ctx(), "acme", haft.BlockFilter{Agent: string(a)})
	if check(t, err); len(blocks) != 3 {
		t.Errorf("a page has %d blocks", len(blocks))
	}
	_, err = w.EditBlocks(w.ctx(), "acme", a, names, func(b []haft.Block) ([]string, error) {
		return make([]string, len(b)), nil
	})
	refused(t, "blocks that are large together", err, haft.CodeInvalid)
}

// bytesBounded: what an agent keeps is counted, and refused when it is too much.
func bytesBounded(t *testing.T, w *world) {
	w.join("p1")
	turn := w.turn("p1", "ann", a, "hello")
	first := w.passage("ümlaut", "tag")
	const counted = "memories WHERE bytes = (SELECT SUM(OCTET_LENGTH(doc)) FROM messages) + (SELECT " +
		"COALESCE(SUM(OCTET_LENGTH(body) + OCTET_LENGTH(tags)), 0) FROM passages)"
	want(t, "what is counted", w.rows(counted), 1)
	w.exec("UPDATE memories SET bytes = bytes + $1", haft.MaxMemoryBytes)
	_, err := w.AddPassage(w.ctx(), "acme", "", a, "more", nil)
	refused(t, "one passage more", err, haft.CodeInvalid)
	_, err = w.AdvanceTurn(w.ctx(), "p1", turn, haft.Message{Role: haft.RoleAssistant, Text: "more"})
	refused(t, "one message more", err, haft.CodeInvalid)
	w.end("p1", turn) // which is always possible
	check(t, w.RemovePassage(w.ctx(), "acme", a, first))
	w.exec("UPDATE memories SET bytes = bytes - $1", haft.MaxMemoryBytes)
	want(t, "what is counted after the removal", w.rows(counted), 1)
	w.passage("more")
	check(t, w.Erase(w.ctx(), "acme", "ann"))
	want(t, "what is counted after an erasure", w.rows("memories WHERE bytes = 4 + OCTET_LENGTH('null')"), 1)
}

// bytesOfUsers: what a user has of the memory of an agent is counted, and bounded by itself.
func bytesOfUsers(t *testing.T, w *world) {
	w.join("p1")
	ann, bob := w.turn("p1", "ann", a, "hello"), w.turn("p1", "bob", a, "hello")
	kept, err := w.AddPassage(w.ctx(), "acme", "ann", a, "ümlaut", []string{"tag"})
	check(t, err)
	const counted = "memory_shares s WHERE bytes = (SELECT COALESCE(SUM(OCTET_LENGTH(doc)), 0) FROM messages m WHERE " +
		"m.usr = s.usr) + (SELECT COALESCE(SUM(OCTET_LENGTH(body) + OCTET_LENGTH(tags)), 0) FROM passages p WHERE " +
		"p.usr = s.usr)"
	want(t, "what is counted", w.rows(counted), 2)
	w.exec("UPDATE memory_shares SET bytes = bytes + $1 WHERE usr = 'ann'", haft.MaxMemoryBytes/4)
	_, err = w.AddPassage(w.ctx(), "acme", "ann", a, "more", nil)
	refused(t, "one passage more", err, haft.CodeInvalid)
	_, err = w.AdvanceTurn(w.ctx(), "p1", ann, haft.Message{Role: haft.RoleAssistant, Text: "more"})
	refused(t, "one message more", err, haft.CodeInvalid)
	w.end("p1", ann) // which is always possible
	_, err = w.AdvanceTurn(w.ctx(), "p1", bob, haft.Message{Role: haft.RoleAssistant, Text: "more"})
	check(t, err) // of another user
	w.passage("a manager's")
	check(t, w.RemovePassage(w.ctx(), "acme", a, kept.ID))
	w.exec("UPDATE memory_shares SET bytes = bytes - $1 WHERE usr = 'ann'", haft.MaxMemoryBytes/4)
	want(t, "what is counted after the removal", w.rows(counted), 2)
	check(t, w.Erase(w.ctx(), "acme", "ann"))
	want(t, "what is counted after an erasure", w.rows("memory_shares WHERE usr = 'bob'"), 1)
	want(t, "all that is counted", w.rows("memory_shares"), 1)
	// A server of an older version has removed something without counting it.
	w.exec("INSERT INTO memory_shares (agent, usr, bytes) VALUES ($1, 'ann', 5), ('of another', 'ann', 5)", string(a))
	check(t, w.Erase(w.ctx(), "acme", "ann"))
	want(t, "what is counted of an erased user", w.rows("memory_shares WHERE usr = 'ann' AND agent <> 'of another'"), 0)
	want(t, "what is counted of others", w.rows("memory_shares"), 2)
}

// turnsPrunedOn: a round that ends early goes on behind what it has seen.
func turnsPrunedOn(t *testing.T, w *world) {
	w.join("p1")
	for i := range 3 {
		w.end("p1", w.turn("p1", "bob", a, fmt.Sprint("stays", i)))
	}
	w.end("p1", w.turn("p1", "ann", a, "goes"), haft.Message{Role: haft.RoleAssistant, Text: "yes"})
	w.turn("p1", "ann", a, "more")
	w.exec("UPDATE messages SET replaces = 5 WHERE role = 'user' AND seq = 6")
	now := time.Now().Add(time.Second)
	at, err := w.PruneTurns(w.ctx(), "acme", now, nil, time.Now())
	for range 3 {
		check(t, err)
		want(t, "turns before", w.rows("turns"), 5)
		at, err = w.PruneTurns(w.ctx(), "acme", now, at, time.Now())
	}
	check(t, err)
	want(t, "turns", w.rows("turns"), 4)
	at, err = w.PruneTurns(w.ctx(), "acme", now, at, time.Now())
	if err != nil || at != nil {
		t.Errorf("it is not done: %+v, %v", at, err)
	}
	want(t, "turns that stay", w.rows("turns"), 4)
}
