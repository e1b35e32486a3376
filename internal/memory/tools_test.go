package memory_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"haft"
	"haft/executor"
	"haft/executor/builtin"
	"haft/internal/agenttool"
	"haft/internal/memory"
	"haft/internal/memorystore"
	"haft/internal/store"
	"haft/internal/store/postgres"
	"haft/internal/store/sqlite"
	"haft/internal/store/storetest"
)

// databases open an empty database of every kind.
func databases() map[string]func(t *testing.T) *store.Store {
	opened := func(t *testing.T, db *store.Store, err error) *store.Store {
		t.Helper()
		check(t, err)
		t.Cleanup(func() { check(t, db.Close()) })
		return db
	}
	return map[string]func(t *testing.T) *store.Store{
		"sqlite": func(t *testing.T) *store.Store {
			db, err := sqlite.Open(t.Context(), sqlite.Config{})
			return opened(t, db, err)
		},
		"postgres": func(t *testing.T) *store.Store {
			db, err := postgres.Open(t.Context(), storetest.Postgres(t), postgres.Config{})
			return opened(t, db, err)
		},
	}
}

// run calls a built-in tool as a principal.
func (w *world) run(p haft.Principal, tool, args string) *haft.Result {
	w.t.Helper()
	set := builtin.New()
	check(w.t, agenttool.Add(set, agenttool.Config{Blocks: w.tools, Archive: w.tools, History: w.tools}))
	tools := set.Tools()
	i := slices.IndexFunc(tools, func(known haft.Tool) bool { return known.Name == tool })
	res, err := set.Execute(w.t.Context(), executor.Request{Call: "c", Tool: tool, Principal: p,
		Digest: tools[i].Version.Digest, Args: json.RawMessage(args)})
	check(w.t, err)
	return res
}

// A tool acts for the agent of its call, whatever the scope of the credential, and for nobody else.
func TestTools(t *testing.T) {
	w := setup(t)
	b := w.block("human", "one")
	two, err := w.AddPassage(t.Context(), admin, "two", "secret of two", nil)
	check(t, err)
	me := only(as(ann, "one"), haft.CallsWrite)
	for _, tt := range []struct{ tool, args, want string }{
		{"core_memory_append", `{"label":"human","content":"tea"}`, "edited"},
		{"core_memory_append", `{"label":"private","content":"tea"}`, "there is no such block"},
		{"archival_memory_insert", `{"content":"tea secret"}`, "successfully"},
		{"archival_memory_search", `{"query":"secret"}`, "tea secret"},
		{"conversation_search", `{}`, "said by ann"},
	} {
		for _, turn := range []haft.Principal{me, as(haft.Principal{Org: "acme", User: "bob"}, "one")} {
			w.say(turn)
		}
		res := w.run(me, tt.tool, tt.args)
		got := string(res.Value)
		if res.Error != nil {
			got = res.Error.Message
		}
		if !strings.Contains(got, tt.want) || strings.Contains(got, string(two.ID)) || strings.Contains(got, "bob") {
			t.Errorf("%s gives %s, want %s", tt.tool, got, tt.want)
		}
	}
	if now, err := w.Block(t.Context(), admin, b.ID); err != nil || now.Value != "secret\ntea" {
		t.Errorf("the block is %+v, %v", now, err)
	}
	if strings.Contains(strings.Join(w.audit, "\n"), "ann") {
		t.Errorf("the audit of the call is not the only one: %q", w.audit)
	}
}

func TestTools_refuse(t *testing.T) {
	w := setup(t)
	b := w.block("human", "one", "off")
	yes := true
	_, err := w.ChangeBlock(t.Context(), admin, b.ID, haft.BlockChange{ReadOnly: &yes})
	check(t, err)
	for name, tt := range map[string]struct {
		p    haft.Principal
		code haft.Code
	}{
		"a read-only block":            {as(ann, "one"), haft.CodeDenied},
		"a person":                     {admin, haft.CodeDenied},
		"nobody":                       {haft.Principal{Agent: "one"}, haft.CodeUnauthenticated},
		"an agent that is disabled":    {as(ann, "off"), haft.CodeDenied},
		"an agent of somebody else":    {as(admin, w.ids["three"]), haft.CodeDenied},
		"an agent that has none":       {as(admin, "two"), haft.CodeNotFound},
		"one as an agent of elsewhere": {as(stranger, w.ids["one"]), haft.CodeDenied},
	} {
		err := w.tools.EditBlock(t.Context(), tt.p, "human", func(haft.Block) (string, error) { return "new", nil })
		expect(t, name, err, tt.code)
		if tt.p.Agent == "one" || tt.p.Agent == "two" {
			continue
		}
		_, err = w.tools.AddPassage(t.Context(), tt.p, "text", nil)
		expect(t, name+" adds", err, tt.code)
		_, err = w.tools.Passages(t.Context(), tt.p, haft.PassageFilter{})
		expect(t, name+" searches", err, tt.code)
		_, err = w.tools.Messages(t.Context(), tt.p, haft.MessageFilter{})
		expect(t, name+" reads", err, tt.code)
	}
	_, err = w.tools.Messages(t.Context(), haft.Principal{Org: "acme", Agent: "one"}, haft.MessageFilter{})
	expect(t, "without a user everybody's messages would be found", err, haft.CodeDenied)
}

// 50 agents edit one block at once, and no line is lost.
func TestTools_share_a_block(t *testing.T) {
	for name, open := range databases() {
		t.Run(name, func(t *testing.T) {
			db := open(t)
			s := memorystore.New(db)
			tools := memory.Tools{Store: s, Agents: db.Agents}
			var ids []haft.AgentID
			for i := range 50 {
				agent, err := db.Agents.PutAgent(t.Context(), haft.Agent{Org: "acme", Name: fmt.Sprint("agent", i)})
				check(t, err)
				ids = append(ids, agent.ID)
			}
			b, err := s.AddBlock(t.Context(), haft.Block{Org: "acme", Label: "shared"}, ids...)
			check(t, err)
			var wg sync.WaitGroup
			for i, id := range ids {
				wg.Go(func() {
					add := func(b haft.Block) (string, error) { return b.Value + fmt.Sprintf("<%d>", i), nil }
					if err := tools.EditBlock(t.Context(), as(ann, string(id)), "shared", add); err != nil {
						t.Error(err)
					}
				})
			}
			wg.Wait()
			now, err := s.Block(t.Context(), "acme", b.ID)
			if check(t, err); strings.Count(now.Value, "<") != 50 || now.Version != 51 {
				t.Errorf("version %d is %s", now.Version, now.Value)
			}
		})
	}
}
