package memorystore_test

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"

	"haft"
	"haft/internal/memorystore"
	"haft/internal/store"
	"haft/internal/store/postgres"
	"haft/internal/store/sqlite"
	"haft/internal/store/storetest"
)

// writeEnv names the database that a second process writes to until it is killed.
const writeEnv = "HAFT_TEST_MEMORY"

// openAt opens a directory, or the database of a URL.
func openAt(ctx context.Context, where string) (*store.Store, error) {
	if strings.HasPrefix(where, "postgres:") {
		return postgres.Open(ctx, where, postgres.Config{})
	}
	return sqlite.Open(ctx, sqlite.Config{Dir: where})
}

// writeUntilKilled is the second process: it goes on with one turn, and says what was kept. Step n adds three
// messages, and then edits two blocks.
func writeUntilKilled(where string) {
	ctx := context.Background()
	db, err := openAt(ctx, where)
	if err == nil {
		err = db.Processes.Join(ctx, "victim")
	}
	s := memorystore.New(db)
	var turn *haft.Turn
	if err == nil {
		turn, _, err = s.BeginTurn(ctx, "victim",
			haft.Turn{Agent: a, Principal: haft.Principal{Org: "acme", User: "u"}}, "",
			haft.Message{Role: haft.RoleUser, Text: "word0"})
	}
	for n := 1; err == nil; n++ {
		m := haft.Message{Role: haft.RoleAssistant, Text: fmt.Sprint("word", n)}
		turn.Usage.Steps = n
		if _, err = s.AdvanceTurn(ctx, "victim", *turn, m, m, m); err == nil {
			_, err = s.EditBlocks(ctx, "acme", a, []string{"one", "two"}, func([]haft.Block) ([]string, error) {
				return []string{fmt.Sprint(n), fmt.Sprint(n)}, nil
			})
		}
		fmt.Fprintln(os.Stdout, n) // acknowledged
	}
	fmt.Fprintln(os.Stdout, err)
	os.Exit(1)
}

// TestStore_killed kills a process that goes on with a turn: everything that was acknowledged is there, nothing is
// there in part, and the next process claims the turn and goes on with it.
func TestStore_killed(t *testing.T) {
	for name, where := range map[string]func() string{
		"sqlite": t.TempDir, "postgres": func() string { return storetest.Postgres(t) },
	} {
		t.Run(name, func(t *testing.T) { killed(t, where()) })
	}
}

func killed(t *testing.T, where string) {
	db, err := openAt(t.Context(), where)
	check(t, err)
	w := newWorld(t, func() *store.Store { return db })
	w.block("one", "0", a)
	w.block("two", "0", a)
	check(t, db.Close())
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^$")
	cmd.Env = append(os.Environ(), writeEnv+"="+where)
	out, err := cmd.StdoutPipe()
	check(t, err)
	check(t, cmd.Start())
	acknowledged := 0
	for lines := bufio.NewScanner(out); lines.Scan(); {
		if _, err := fmt.Sscan(lines.Text(), &acknowledged); err != nil {
			t.Fatalf("the other process says %q", lines.Text())
		}
		if acknowledged == 20 {
			check(t, cmd.Process.Kill())
		}
	}
	_ = cmd.Wait() // killed
	db, err = openAt(t.Context(), where)
	check(t, err)
	defer func() { check(t, db.Close()) }()
	s := memorystore.New(db)
	check(t, db.Processes.Leave(t.Context(), "victim"))
	check(t, db.Processes.Join(t.Context(), "heir"))
	turns, err := s.ClaimTurns(t.Context(), "heir")
	if check(t, err); len(turns) != 1 {
		t.Fatalf("claimed are %+v", turns)
	}
	steps := turns[0].Usage.Steps
	if steps < acknowledged || steps > acknowledged+1 {
		t.Errorf("%d steps are kept, %d were acknowledged", steps, acknowledged)
	}
	list, err := s.Messages(t.Context(), "acme", "", a, haft.MessageFilter{})
	check(t, err)
	want(t, "messages", len(list), 1+3*steps)
	for i, m := range list {
		if m.Seq != int64(i+1) || m.Text != fmt.Sprint("word", (i+2)/3) {
			t.Errorf("message %d is %d, %q", i+1, m.Seq, m.Text)
		}
	}
	found, err := s.Messages(t.Context(), "acme", "", a, haft.MessageFilter{Query: fmt.Sprint("word", steps)})
	check(t, err)
	want(t, "messages of the last step that are found", len(found), 3)
	blocks, err := s.Blocks(t.Context(), "acme", haft.BlockFilter{Agent: string(a)})
	check(t, err)
	want(t, "blocks are edited together", blocks[0].Value, blocks[1].Value)
	_, err = s.AdvanceTurn(t.Context(), "heir", turns[0], haft.Message{Role: haft.RoleAssistant, Text: "on"})
	check(t, err)
}
