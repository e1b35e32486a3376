package memorystore_test

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"haft"
	"haft/internal/memorystore"
)

func blocksKept(t *testing.T, w *world) {
	added, err := w.AddBlock(w.ctx(), haft.Block{Org: "acme", Label: "human", Value: "Ann\n'; DROP TABLE blocks; -- ✓",
		Description: "who it is", Limit: 50, ReadOnly: true})
	check(t, err)
	got, err := w.Block(w.ctx(), "acme", added.ID)
	check(t, err)
	if diff := cmp.Diff(added, got); diff != "" {
		t.Errorf("what was kept (-added +got):\n%s", diff)
	}
	if !strings.HasPrefix(string(got.ID), "block-") || got.Version != 1 || got.Created.IsZero() {
		t.Errorf("added was %+v", got)
	}
	want(t, "the default limit", w.block("persona", "").Limit, haft.DefaultBlockLimit)
	third := w.block("human", "another")
	for name, tt := range map[string]struct {
		f    haft.BlockFilter
		want string
	}{
		"all":       {haft.BlockFilter{}, "human=" + added.Value + " human=another persona="},
		"a label":   {haft.BlockFilter{Label: "persona"}, "persona="},
		"a page":    {haft.BlockFilter{Limit: 1}, "human=" + added.Value},
		"the rest":  {haft.BlockFilter{After: added.ID}, "human=another persona="},
		"the end":   {haft.BlockFilter{After: third.ID}, ""},
		"of nobody": {haft.BlockFilter{Agent: string(a)}, ""},
	} {
		list, err := w.Blocks(w.ctx(), "acme", tt.f)
		check(t, err)
		want(t, name, labels(list), tt.want)
	}
	check(t, w.RemoveBlock(w.ctx(), "acme", added.ID))
	refused(t, "a removed block", w.RemoveBlock(w.ctx(), "acme", added.ID), haft.CodeNotFound)
	_, err = w.Block(w.ctx(), "acme", added.ID)
	refused(t, "a removed block", err, haft.CodeNotFound)
}

func blocksAttached(t *testing.T, w *world) {
	human, other := w.block("human", "1", a), w.block("human", "2")
	for range 2 {
		check(t, w.AttachBlock(w.ctx(), "acme", b, human.ID))
	}
	refused(t, "a second block of one label", w.AttachBlock(w.ctx(), "acme", a, other.ID), haft.CodeConflict)
	refused(t, "no such block", w.AttachBlock(w.ctx(), "acme", a, "block-x"), haft.CodeNotFound)
	refused(t, "no such agent", w.AttachBlock(w.ctx(), "acme", "ag_X", human.ID), haft.CodeNotFound)
	_, err := w.AddBlock(w.ctx(), haft.Block{Org: "acme", Label: "human"}, b)
	refused(t, "a new block of one label", err, haft.CodeConflict)
	want(t, "blocks after one that was not attached", w.rows("blocks"), 2)
	agents, err := w.BlockAgents(w.ctx(), "acme", human.ID)
	check(t, err)
	want(t, "agents", fmt.Sprint(agents), "[ag_A ag_B]")
	list, err := w.Blocks(w.ctx(), "acme", haft.BlockFilter{Agent: string(b)})
	check(t, err)
	want(t, "of b", labels(list), "human=1")
	for range 2 {
		check(t, w.DetachBlock(w.ctx(), "acme", b, human.ID))
	}
	check(t, w.AttachBlock(w.ctx(), "acme", b, other.ID))
	check(t, w.RemoveBlock(w.ctx(), "acme", other.ID))
	want(t, "attachments", w.rows("agent_blocks"), 1)
}

func blocksChanged(t *testing.T, w *world) {
	human := w.block("human", "Ann", a)
	w.block("persona", "", a)
	value, label, persona, limit, yes := "Anna", "user", "persona", 4, true
	got, err := w.ChangeBlock(w.ctx(), "acme", human.ID, haft.BlockChange{Value: &value, Label: &label, Limit: &limit,
		ReadOnly: &yes, Version: 1})
	check(t, err)
	if got.Value != value || got.Label != label || got.Limit != 4 || !got.ReadOnly || got.Version != 2 {
		t.Errorf("changed to %+v", got)
	}
	if _, err := w.EditBlock(w.ctx(), "acme", a, "human", nil); haft.CodeOf(err) != haft.CodeNotFound {
		t.Errorf("the old label: %v", err)
	}
	_, err = w.ChangeBlock(w.ctx(), "acme", human.ID, haft.BlockChange{Value: &value, Version: 1})
	refused(t, "an old version", err, haft.CodeConflict)
	_, err = w.ChangeBlock(w.ctx(), "acme", human.ID, haft.BlockChange{Label: &persona})
	refused(t, "a label that an agent has", err, haft.CodeConflict)
	limit = 3
	_, err = w.ChangeBlock(w.ctx(), "acme", human.ID, haft.BlockChange{Limit: &limit})
	refused(t, "a limit below the value", err, haft.CodeInvalid)
	for range 2 { // a read-only block is changed by who manages it; the same again is no change
		value = "Äääá"
		got, err = w.ChangeBlock(w.ctx(), "acme", human.ID, haft.BlockChange{Value: &value})
		check(t, err)
		want(t, "version", got.Version, 3)
	}
	_, err = w.ChangeBlock(w.ctx(), "acme", "block-x", haft.BlockChange{})
	refused(t, "no such block", err, haft.CodeNotFound)
}

// to returns an edit that sets a value.
func to(value string) func(haft.Block) (string, error) {
	return func(haft.Block) (string, error) { return value, nil }
}

func blocksEdited(t *testing.T, w *world) {
	human := w.block("human", "Ann", a, b)
	more := func(b haft.Block) (string, error) { return b.Value + "!", nil }
	got, err := w.EditBlock(w.ctx(), "acme", b, "human", more)
	check(t, err)
	kept, err := w.Block(w.ctx(), "acme", human.ID)
	check(t, err)
	if kept.Value != "Ann!" || kept.Version != 2 || cmp.Diff(kept, got) != "" {
		t.Errorf("edited to %+v, kept %+v", got, kept)
	}
	yes, short := true, 4
	_, err = w.ChangeBlock(w.ctx(), "acme", human.ID, haft.BlockChange{Limit: &short})
	check(t, err)
	_, err = w.EditBlock(w.ctx(), "acme", a, "human", to("hunter2"))
	refused(t, "more than the limit", err, haft.CodeInvalid)
	_, err = w.EditBlock(w.ctx(), "acme", a, "human", to("öäüß"))
	check(t, err)
	_, err = w.EditBlock(w.ctx(), "acme", a, "nothing", to(""))
	refused(t, "no such label", err, haft.CodeNotFound)
	wrong := errors.New("it does not fit")
	_, err = w.EditBlock(w.ctx(), "acme", a, "human", func(haft.Block) (string, error) { return "x", wrong })
	if !errors.Is(err, wrong) {
		t.Errorf("the error of an edit: %v", err)
	}
	_, err = w.ChangeBlock(w.ctx(), "acme", human.ID, haft.BlockChange{ReadOnly: &yes})
	check(t, err)
	_, err = w.EditBlock(w.ctx(), "acme", a, "human", to("x"))
	refused(t, "a read-only block", err, haft.CodeDenied)
	kept, err = w.Block(w.ctx(), "acme", human.ID)
	check(t, err)
	want(t, "what refused edits left", kept.Value, "öäüß")
}

func blocksEditedTogether(t *testing.T, w *world) {
	w.block("one", "1", a)
	two := w.block("two", "2", a)
	swap := func(list []haft.Block) ([]string, error) { return []string{list[1].Value, list[0].Value}, nil }
	got, err := w.EditBlocks(w.ctx(), "acme", a, []string{"two", "one"}, swap)
	check(t, err)
	want(t, "in the order of labels", got[0].Label+got[0].Value+got[1].Label+got[1].Value, "two1one2")
	yes := true
	_, err = w.ChangeBlock(w.ctx(), "acme", two.ID, haft.BlockChange{ReadOnly: &yes})
	check(t, err)
	_, err = w.EditBlocks(w.ctx(), "acme", a, []string{"one", "two"}, swap)
	refused(t, "one of them is read-only", err, haft.CodeDenied)
	_, err = w.EditBlocks(w.ctx(), "acme", a, []string{"one", "one"}, swap)
	refused(t, "one twice", err, haft.CodeInvalid)
	_, err = w.EditBlocks(w.ctx(), "acme", a, nil, swap)
	refused(t, "none", err, haft.CodeInvalid)
	_, err = w.EditBlocks(w.ctx(), "acme", a, []string{"one"}, func([]haft.Block) ([]string, error) { return nil, nil })
	if err == nil {
		t.Error("too few values are taken")
	}
	list, err := w.Blocks(w.ctx(), "acme", haft.BlockFilter{Agent: string(a)})
	check(t, err)
	want(t, "after refused edits", labels(list), "one=2 two=1")
}

// writers: 50 agents that edit one shared block, and one of their own in the other order, at once and on two servers.
func writers(t *testing.T, w *world) {
	const n, each = 50, 4
	shared := w.block("shared", "")
	servers := []*memorystore.Store{w.Store, memorystore.New(w.open())}
	for i := range n {
		agent := haft.AgentID(fmt.Sprint("ag_", i))
		w.agent("acme", agent)
		check(t, w.AttachBlock(w.ctx(), "acme", agent, shared.ID))
		w.block("own", "", agent)
	}
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() {
			for j := range each {
				labels := []string{"shared", "own"}
				_, err := servers[i%2].EditBlocks(w.ctx(), "acme", haft.AgentID(fmt.Sprint("ag_", i)), labels[:1+j%2],
					func(list []haft.Block) (values []string, err error) {
						for _, b := range list {
							values = append(values, b.Value+fmt.Sprintf("(%d.%d)", i, j))
						}
						return values, nil
					})
				if err != nil {
					t.Errorf("EditBlocks: %v", err)
				}
			}
		})
	}
	wg.Wait()
	got, err := w.Block(w.ctx(), "acme", shared.ID)
	check(t, err)
	want(t, "version", got.Version, n*each+1)
	for i := range n {
		for j := range each {
			if strings.Count(got.Value, fmt.Sprintf("(%d.%d)", i, j)) != 1 {
				t.Fatalf("the update %d of writer %d is lost, or made twice", j, i)
			}
		}
	}
}

func blocksBounded(t *testing.T, w *world) {
	huge := strings.Repeat("x", 100<<20)
	for name, block := range map[string]haft.Block{
		"no label":                  {},
		"a long label":              {Label: strings.Repeat("x", 65)},
		"a label with a slash":      {Label: "a/b"},
		"a label with a space":      {Label: "a b"},
		"a label in another script": {Label: "ümläut"},
		"a label with a NUL":        {Label: "a\x00"},
		"a label that is not UTF-8": {Label: "a\xff"},
		"a huge label":              {Label: huge},
		"a value over the limit":    {Label: "x", Value: "hunter2", Limit: 6},
		"a huge value":              {Label: "x", Value: huge},
		"a value with a NUL":        {Label: "x", Value: "a\x00b"},
		"a value that is not UTF-8": {Label: "x", Value: "a\xff"},
		"a huge description":        {Label: "x", Description: huge},
		"a huge limit":              {Label: "x", Limit: haft.MaxBlockLimit + 1},
		"a negative limit":          {Label: "x", Limit: -1},
	} {
		block.Org = "acme"
		_, err := w.AddBlock(w.ctx(), block)
		refused(t, name, err, haft.CodeInvalid)
	}
	w.block("A-z_0.9"+strings.Repeat("x", 57), strings.Repeat("ü", haft.DefaultBlockLimit))
	w.block("x", "", a)
	_, err := w.EditBlock(w.ctx(), "acme", a, "x", to(huge))
	refused(t, "a huge edit", err, haft.CodeInvalid)
	for i := range haft.MaxBlocks - 1 {
		w.block(fmt.Sprint("n", i), "", a)
	}
	_, err = w.AddBlock(w.ctx(), haft.Block{Org: "acme", Label: "more"}, a)
	refused(t, "one block too many", err, haft.CodeConflict)
	shared := w.block("shared", "", b)
	for i := range haft.MaxBlockAgents - 1 {
		w.exec("INSERT INTO agent_blocks (agent, label, block) VALUES ($1, 'shared', $2)", fmt.Sprint("x", i),
			string(shared.ID))
	}
	check(t, w.AttachBlock(w.ctx(), "acme", b, shared.ID)) // it has it
	w.agent("acme", "ag_D")
	refused(t, "one agent too many", w.AttachBlock(w.ctx(), "acme", "ag_D", shared.ID), haft.CodeConflict)
}
