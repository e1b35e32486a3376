package memory_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"haft"
	"haft/internal/memory"
	"haft/internal/memorystore"
	"haft/internal/store/sqlite"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// The people of the tests. The agents one and two are of acme, as is off, which is disabled; three is of evil.
var (
	admin    = haft.Principal{Org: "acme", User: "root", Roles: []string{haft.RoleAdmin}}
	ann      = haft.Principal{Org: "acme", User: "ann"}
	stranger = haft.Principal{Org: "evil", User: "root", Roles: []string{haft.RoleAdmin}}
)

// as returns p as an agent, and only p with a scope.
func as(p haft.Principal, agent string) haft.Principal { p.Agent = agent; return p }

func only(p haft.Principal, actions ...haft.Action) haft.Principal {
	p.Actions = append([]haft.Action{}, actions...)
	return p
}

// A world is the API over a store in memory, and the audit that it writes.
type world struct {
	*memory.API
	t     *testing.T
	tools memory.Tools
	audit []string
	ids   map[string]string // of agents by name
}

func setup(t *testing.T) *world {
	db, err := sqlite.Open(t.Context(), sqlite.Config{})
	check(t, err)
	t.Cleanup(func() { check(t, db.Close()) })
	w := &world{t: t, ids: map[string]string{}}
	w.API = &memory.API{Store: memorystore.New(db), Agents: db.Agents,
		Log: func(_ context.Context, p haft.Principal, kind string, body any) error {
			doc, err := json.Marshal(body)
			w.audit = append(w.audit, fmt.Sprint(p.User, p.Agent, " ", kind, " ", string(doc)))
			return err
		}}
	w.tools = memory.Tools{Store: w.Store, Agents: db.Agents}
	check(t, db.Processes.Join(t.Context(), "p"))
	for name, org := range map[string]string{"one": "acme", "two": "acme", "off": "acme", "three": "evil"} {
		agent, err := db.Agents.PutAgent(t.Context(), haft.Agent{Org: org, Name: name, Disabled: name == "off"})
		check(t, err)
		w.ids[name] = string(agent.ID)
	}
	return w
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// block adds a block that agents have.
func (w *world) block(label string, agents ...string) *haft.Block {
	w.t.Helper()
	b, err := w.AddBlock(w.t.Context(), admin, haft.Block{Label: label, Value: "secret"})
	check(w.t, err)
	for _, agent := range agents {
		check(w.t, w.AttachBlock(w.t.Context(), admin, agent, b.ID))
	}
	return b
}

// say has a principal say its name to the agent one.
func (w *world) say(p haft.Principal) {
	w.t.Helper()
	turn, _, err := w.Store.BeginTurn(w.t.Context(), "p",
		haft.Turn{Agent: haft.AgentID(w.ids["one"]), Principal: p}, "",
		haft.Message{Role: haft.RoleUser, Text: "said by " + p.User})
	check(w.t, err)
	turn.Status = haft.TurnCompleted
	_, err = w.Store.AdvanceTurn(w.t.Context(), "p", *turn)
	check(w.t, err)
}

// Who may do what to the memory of the agent one, and to a block that it has.
func TestAPI_authority(t *testing.T) {
	w := setup(t)
	shared, private := w.block("shared", "one", "two"), w.block("private", "two")
	passage, err := w.AddPassage(t.Context(), admin, "one", "secret", []string{"tag"})
	check(t, err)
	const ok, denied, missing, unknown = haft.Code(""), haft.CodeDenied, haft.CodeNotFound, haft.CodeUnauthenticated
	value, label := "secret", "other"
	second := func(_ any, err error) error { return err }
	for name, tt := range map[string]struct {
		p           haft.Principal
		read, write haft.Code // one's memory
		other       haft.Code // reading what two has
		manage      haft.Code
	}{
		"a manager":                     {admin, ok, ok, ok, ok},
		"a manager without the scope":   {only(admin, haft.AgentsRead), ok, denied, ok, denied},
		"a manager with another scope":  {only(admin, haft.ToolsRead), denied, denied, denied, denied},
		"somebody of the organisation":  {ann, ok, denied, ok, denied},
		"nobody":                        {haft.Principal{}, unknown, unknown, unknown, unknown},
		"the agent by name":             {as(ann, "one"), ok, denied, missing, denied},
		"the agent by id":               {as(ann, w.ids["one"]), ok, denied, missing, denied},
		"the agent of a manager":        {as(admin, "one"), ok, denied, missing, denied},
		"the agent that only reads":     {only(as(ann, "one"), haft.AgentsRead), ok, denied, missing, denied},
		"the agent that only calls":     {only(as(ann, "one"), haft.CallsWrite), denied, denied, denied, denied},
		"an agent that does not exist":  {as(admin, "nobody"), denied, denied, denied, denied},
		"an agent of somebody else":     {as(admin, w.ids["three"]), denied, denied, denied, denied},
		"an agent that is disabled":     {as(admin, "off"), denied, denied, denied, denied},
		"a manager of somebody else":    {stranger, missing, missing, missing, missing},
		"an agent of somebody else too": {as(stranger, "three"), missing, denied, missing, denied},
	} {
		ctx := t.Context()
		_, err := w.Blocks(ctx, tt.p, haft.BlockFilter{Agent: "one"})
		expect(t, name+" lists blocks", err, tt.read)
		expect(t, name+" reads a block", second(w.Block(ctx, tt.p, shared.ID)), tt.read)
		sharers := tt.read
		if tt.p.Agent != "" {
			sharers = denied
		}
		expect(t, name+" reads who has a block", second(w.BlockAgents(ctx, tt.p, shared.ID)), sharers)
		expect(t, name+" searches", second(w.Passages(ctx, tt.p, "one", haft.PassageFilter{})), tt.read)
		expect(t, name+" reads tags", second(w.PassageTags(ctx, tt.p, "one")), tt.read)
		expect(t, name+" reads a block of another", second(w.Block(ctx, tt.p, private.ID)), tt.other)
		_, err = w.Blocks(ctx, tt.p, haft.BlockFilter{Agent: "two"})
		expect(t, name+" lists blocks of another", err, tt.other)
		expect(t, name+" searches another", second(w.Passages(ctx, tt.p, "two", haft.PassageFilter{})), tt.other)
		expect(t, name+" changes a value", second(w.ChangeBlock(ctx, tt.p, shared.ID, haft.BlockChange{Value: &value})),
			tt.write)
		added, err := w.AddPassage(ctx, tt.p, "one", "secret", nil)
		if expect(t, name+" adds a passage", err, tt.write); err == nil {
			expect(t, name+" removes it", w.RemovePassage(ctx, tt.p, "one", added.ID), ok)
		} else {
			expect(t, name+" removes one", w.RemovePassage(ctx, tt.p, "one", passage.ID), tt.write)
		}
		manage, rename := tt.manage, tt.manage
		if tt.write == missing {
			rename = missing
		}
		expect(t, name+" attaches", w.AttachBlock(ctx, tt.p, "one", shared.ID), manage)
		expect(t, name+" attaches another", w.AttachBlock(ctx, tt.p, "one", private.ID), manage)
		expect(t, name+" detaches", w.DetachBlock(ctx, tt.p, "one", private.ID), manage)
		expect(t, name+" renames", second(w.ChangeBlock(ctx, tt.p, shared.ID, haft.BlockChange{Label: &label})), rename)
		if added, err := w.AddBlock(ctx, tt.p, haft.Block{Label: "new"}); err == nil {
			check(t, w.RemoveBlock(ctx, tt.p, added.ID))
		} else {
			expect(t, name+" removes", w.RemoveBlock(ctx, tt.p, shared.ID), manage)
			if tt.p.Org == "acme" {
				expect(t, name+" adds a block", err, manage)
			}
		}
		back := "shared"
		_, err = w.ChangeBlock(ctx, admin, shared.ID, haft.BlockChange{Label: &back})
		check(t, err)
	}
	twin := w.block("shared")
	expect(t, "an agent reads a block with the label of its own", second(w.Block(t.Context(), as(ann, "one"), twin.ID)),
		missing)
	// An agent that names nobody sees its own.
	list, err := w.Blocks(t.Context(), as(ann, "one"), haft.BlockFilter{})
	if err != nil || len(list) != 1 || list[0].ID != shared.ID {
		t.Errorf("the agent sees %+v, %v", list, err)
	}
}

func expect(t *testing.T, what string, err error, code haft.Code) {
	t.Helper()
	if haft.CodeOf(err) != code {
		t.Errorf("%s: %v, want %q", what, err, code)
	}
}

// Every change is in the audit, with sizes and without values; reading is not, nor is what was refused.
func TestAPI_audit(t *testing.T) {
	w := setup(t)
	b := w.block("human", "one")
	value := "hunter2ü"
	_, err := w.ChangeBlock(t.Context(), admin, b.ID, haft.BlockChange{Value: &value})
	check(t, err)
	p, err := w.AddPassage(t.Context(), admin, "one", "hunter2", []string{"hunter2"})
	check(t, err)
	_, err = w.Passages(t.Context(), ann, "one", haft.PassageFilter{Query: "hunter2"})
	check(t, err)
	check(t, w.RemovePassage(t.Context(), admin, "one", p.ID))
	check(t, w.DetachBlock(t.Context(), admin, "one", b.ID))
	check(t, w.RemoveBlock(t.Context(), admin, b.ID))
	expect(t, "a refusal", w.RemoveBlock(t.Context(), admin, b.ID), haft.CodeNotFound)
	want := []string{
		`root block.add {"block":"B","label":"human","limit":100000,"read_only":false,"size":6,"version":1}`,
		`root block.attach {"agent":"A","block":"B","label":"human"}`,
		`root block.change {"block":"B","label":"human","limit":100000,"read_only":false,"size":8,"version":2}`,
		`root passage.add {"agent":"A","passage":"P","size":7,"tags":1}`,
		`root passage.remove {"agent":"A","passage":"P"}`,
		`root block.detach {"agent":"A","block":"B","label":"human"}`,
		`root block.remove {"agent":"","block":"B","label":"human"}`}
	names := strings.NewReplacer(string(b.ID), "B", w.ids["one"], "A", string(p.ID), "P")
	if got := names.Replace(strings.Join(w.audit, "\n")); got != strings.Join(want, "\n") {
		t.Errorf("the audit has\n%s\nwant\n%s", got, strings.Join(want, "\n"))
	}
}
