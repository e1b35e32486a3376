package memorystore_test

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"haft"
	"haft/internal/memorystore"
	"haft/internal/store"
	"haft/internal/store/postgres"
	"haft/internal/store/sqlite"
	"haft/internal/store/storetest"
)

// TestMain is also the process that a test kills.
func TestMain(m *testing.M) {
	if where := os.Getenv(writeEnv); where != "" {
		writeUntilKilled(where)
		return
	}
	goleak.VerifyTestMain(m)
}

// cases are what the memory must do on every database.
func cases() map[string]func(t *testing.T, w *world) {
	return map[string]func(t *testing.T, w *world){
		"blocks_are_kept":                           blocksKept,
		"blocks_are_attached_once":                  blocksAttached,
		"blocks_change_on_condition":                blocksChanged,
		"blocks_are_edited_by_tools":                blocksEdited,
		"blocks_are_edited_all_or_none":             blocksEditedTogether,
		"blocks_lose_no_update_of_50_writers":       writers,
		"blocks_are_bounded":                        blocksBounded,
		"passages_are_kept":                         passagesKept,
		"passages_are_found":                        passagesFound,
		"passages_are_found_by_tags":                passagesTagged,
		"passages_are_found_among_3000":             passagesMany,
		"passages_are_bounded":                      passagesBounded,
		"passages_have_vectors":                     vectorsKept,
		"passages_are_found_by_vectors":             vectorsFound,
		"vectors_are_bounded":                       vectorsBounded,
		"vectors_go_with_their_passage":             vectorsRemoved,
		"vectors_are_not_kept_of_what_goes":         vectorsRace,
		"turns_begin_once":                          turnsBegin,
		"turns_begin_with_a_key_once":               turnsKeyed,
		"turns_of_users_are_apart":                  usersApart,
		"turns_advance_by_their_owner":              turnsAdvance,
		"turns_of_dead_processes_are_claimed_once":  turnsClaimed,
		"turns_are_cancelled_from_elsewhere":        turnsCancelled,
		"messages_keep_every_field_and_any_text":    messagesKept,
		"messages_are_filtered_and_found":           messagesFound,
		"messages_are_bounded":                      messagesBounded,
		"memory_goes_with_the_agent":                agentRemoved,
		"memory_is_not_added_to_an_agent_that_goes": agentRace,
		"memory_of_a_user_is_erased":                userErased,
		"turns_are_taken_before_they_are_erased":    turnsTaken,
		"memory_of_an_organisation_is_erased":       orgErased,
		"memory_is_erased_while_turns_go_on":        eraseRace,
		"turns_are_pruned_that_summaries_stand_for": turnsPruned,
		"turns_are_pruned_from_a_place_on":          turnsPrunedOn,
		"searches_cost_no_more_with_more":           searchesBounded,
		"users_do_not_crowd_out_each_other":         usersCrowd,
		"lists_end_after_some_bytes":                listsBounded,
		"memory_has_a_size":                         bytesBounded,
		"memory_of_a_user_has_a_size":               bytesOfUsers,
		"memory_goes_with_two_who_remove_it":        twoPurge,
		"memory_is_not_added_while_all_is_erased":   orgEraseRace,
		"organisations_are_apart":                   apart,
		"names_may_be_anything":                     anyNames,
	}
}

func TestStore(t *testing.T) {
	for name, open := range databases() {
		t.Run(name, func(t *testing.T) {
			for name, check := range cases() {
				t.Run(name, func(t *testing.T) { check(t, newWorld(t, open(t))) })
			}
		})
	}
}

// databases say how an empty database is made, as a function that opens it as one more server.
func databases() map[string]func(t *testing.T) func() *store.Store {
	return map[string]func(t *testing.T) func() *store.Store{
		"sqlite": func(t *testing.T) func() *store.Store {
			db := opened(sqlite.Open(t.Context(), sqlite.Config{Dir: t.TempDir()}))(t)
			return func() *store.Store { return db }
		},
		"postgres": func(t *testing.T) func() *store.Store {
			url := storetest.Postgres(t)
			return func() *store.Store { return opened(postgres.Open(t.Context(), url, postgres.Config{}))(t) }
		},
	}
}

func opened(db *store.Store, err error) func(t *testing.T) *store.Store {
	return func(t *testing.T) *store.Store {
		t.Helper()
		check(t, err)
		t.Cleanup(func() { check(t, db.Close()) })
		return db
	}
}

// A world is a memory with the agents a and b of acme, and the agent c of evil.
type world struct {
	t    *testing.T
	open func() *store.Store // opens the database once more, if several can
	db   *store.Store
	*memorystore.Store
	memorystore.Vectors
}

const (
	a haft.AgentID = "ag_A"
	b haft.AgentID = "ag_B"
	c haft.AgentID = "ag_C"
)

func newWorld(t *testing.T, open func() *store.Store) *world {
	db := open()
	w := &world{t: t, open: open, db: db, Store: memorystore.New(db)}
	w.Vectors = memorystore.VectorsOf(w.Store)
	for id, org := range map[haft.AgentID]string{a: "acme", b: "acme", c: "evil"} {
		w.agent(org, id)
	}
	return w
}

func (w *world) agent(org string, id haft.AgentID) {
	w.t.Helper()
	_, err := w.db.Agents.PutAgent(w.t.Context(), haft.Agent{ID: id, Org: org, Name: strings.ToLower(string(id))})
	check(w.t, err)
}

// block adds a block of acme for agents.
func (w *world) block(label, value string, agents ...haft.AgentID) *haft.Block {
	w.t.Helper()
	added, err := w.AddBlock(w.t.Context(), haft.Block{Org: "acme", Label: label, Value: value}, agents...)
	check(w.t, err)
	return added
}

// passage adds a passage of a.
func (w *world) passage(text string, tags ...string) haft.PassageID {
	w.t.Helper()
	p, err := w.AddPassage(w.t.Context(), "acme", "", a, text, tags)
	check(w.t, err)
	return p.ID
}

// found searches passages of a, and returns the first words of their texts.
func (w *world) found(f haft.PassageFilter) string {
	w.t.Helper()
	return w.foundBy(a, f)
}

func (w *world) foundBy(agent haft.AgentID, f haft.PassageFilter) string {
	w.t.Helper()
	list, err := w.Passages(w.t.Context(), "acme", agent, f)
	check(w.t, err)
	var texts []string
	for _, p := range list {
		first, _, _ := strings.Cut(p.Text, " ")
		texts = append(texts, first)
	}
	return strings.Join(texts, " ")
}

// turn begins a turn of a user, as that of a process.
func (w *world) turn(owner, user string, agent haft.AgentID, says string) haft.Turn {
	w.t.Helper()
	turn, begun, err := w.BeginTurn(w.t.Context(), owner, haft.Turn{Agent: agent, Principal: haft.Principal{Org: "acme",
		User: user, Agent: string(agent)}}, "", haft.Message{Role: haft.RoleUser, Text: says})
	if check(w.t, err); !begun {
		w.t.Error("no new turn has begun")
	}
	return *turn
}

// end ends a turn with an answer.
func (w *world) end(owner string, turn haft.Turn, messages ...haft.Message) {
	w.t.Helper()
	turn.Status, turn.Stop = haft.TurnCompleted, haft.StopEnd
	_, err := w.AdvanceTurn(w.t.Context(), owner, turn, messages...)
	check(w.t, err)
}

// said lists the messages of an agent of acme, and saidBy those of one user.
func (w *world) said(agent haft.AgentID, f haft.MessageFilter) string {
	w.t.Helper()
	return w.saidBy("", agent, f)
}

func (w *world) saidBy(user string, agent haft.AgentID, f haft.MessageFilter) string {
	w.t.Helper()
	list, err := w.Messages(w.t.Context(), "acme", user, agent, f)
	check(w.t, err)
	var texts []string
	for _, m := range list {
		texts = append(texts, fmt.Sprintf("%d:%s", m.Seq, cmp.Or(m.Text, "-")))
	}
	return strings.Join(texts, " ")
}

// rows counts the rows of a table.
func (w *world) rows(table string) (n int) {
	w.t.Helper()
	check(w.t, store.TablesOf(w.db).Each(w.t.Context(), "count", func(r store.Scanner) error { return r.Scan(&n) },
		"SELECT COUNT(*) FROM "+table))
	return n
}

// exec changes rows as nobody else does.
func (w *world) exec(text string, args ...any) {
	w.t.Helper()
	check(w.t, store.TablesOf(w.db).Write(w.ctx(), "prepare", func(ctx context.Context, tx store.Tx) error {
		_, err := tx.Exec(ctx, text, args...)
		return err
	}))
}

func (w *world) ctx() context.Context { return w.t.Context() }

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// want checks what was found.
func want[T comparable](t testing.TB, what string, got, want T) {
	t.Helper()
	if got != want {
		t.Errorf("%s: %v, want %v", what, got, want)
	}
}

// refused checks the code of an error, and that it tells no value.
func refused(t testing.TB, what string, err error, code haft.Code) {
	t.Helper()
	if haft.CodeOf(err) != code || haft.MessageOf(err) == "" || strings.Contains(haft.MessageOf(err), "hunter2") {
		t.Errorf("%s: %.300v (%s), want %s", what, err, haft.CodeOf(err), code)
	}
}

// labels lists blocks.
func labels(list []haft.Block) string {
	var all []string
	for _, b := range list {
		all = append(all, b.Label+"="+b.Value)
	}
	slices.Sort(all)
	return strings.Join(all, " ")
}
