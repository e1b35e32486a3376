package memory_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"haft"
	"haft/internal/memory"
	"haft/internal/memorystore"
)

// stateWorld has an agent one with a block that is not read-only and one that is, and another agent.
func stateWorld(t *testing.T, open string) (memory.Tools, *haft.Agent, json.RawMessage) {
	db := databases()[open](t)
	tools := memory.Tools{Store: memorystore.New(db), Agents: db.Agents}
	agent, err := db.Agents.PutAgent(t.Context(), haft.Agent{Org: "acme", Name: "one", Tools: []string{"f"},
		Env: map[string]string{"TOKEN": "hunter2"}})
	check(t, err)
	_, err = db.Agents.PutAgent(t.Context(), haft.Agent{Org: "acme", Name: "two"})
	check(t, err)
	for _, b := range []haft.Block{{Label: "human", Value: "<ann>", Limit: 20}, {Label: "persona", Value: "kind"},
		{Label: "rules", Value: "none", ReadOnly: true, Description: "what holds"}} {
		b.Org = "acme"
		_, err := tools.Store.AddBlock(t.Context(), b, agent.ID)
		check(t, err)
	}
	before, err := tools.Snapshot(t.Context(), "acme", agent.ID)
	check(t, err)
	return tools, agent, before
}

// values are those of the blocks of an agent.
func values(t *testing.T, tools memory.Tools, agent haft.AgentID) string {
	t.Helper()
	list, err := tools.Store.Blocks(t.Context(), "acme", haft.BlockFilter{Agent: string(agent)})
	check(t, err)
	var all []string
	for _, b := range list {
		all = append(all, fmt.Sprint(b.Label, "=", b.Value, " v", b.Version))
	}
	return strings.Join(all, ", ")
}

func TestSnapshot(t *testing.T) {
	tools, agent, got := stateWorld(t, "sqlite")
	var s struct {
		Memory struct{ Blocks []struct{ ID string } }
	}
	check(t, json.Unmarshal(got, &s))
	want := fmt.Sprintf(`{"id":"%s","name":"one","description":"","system":"","tags":[],"tools":["f"],"memory":{"blocks":[`+
		`{"id":"%s","label":"human","value":"<ann>","description":"","limit":20,"read_only":false,"version":1},`+
		`{"id":"%s","label":"persona","value":"kind","description":"","limit":100000,"read_only":false,"version":1},`+
		`{"id":"%s","label":"rules","value":"none","description":"what holds","limit":100000,"read_only":true,`+
		`"version":1}]}}`, agent.ID, s.Memory.Blocks[0].ID, s.Memory.Blocks[1].ID, s.Memory.Blocks[2].ID)
	if strings.TrimSpace(string(got)) != want {
		t.Errorf("the state is\n%s\nwant\n%s", got, want)
	}
	_, err := tools.Snapshot(t.Context(), "evil", agent.ID)
	expect(t, "an agent of somebody else", err, haft.CodeNotFound)
	for i := range 12 {
		_, err = tools.Store.AddBlock(t.Context(), haft.Block{Org: "acme", Label: fmt.Sprint("b", i),
			Value: strings.Repeat("x", haft.MaxBlockLimit), Limit: haft.MaxBlockLimit}, agent.ID)
		check(t, err)
	}
	_, err = tools.Snapshot(t.Context(), "acme", agent.ID)
	expect(t, "blocks of 12 MB", err, haft.CodeInvalid)
}

func TestApplyState(t *testing.T) {
	const same = "human=<ann> v1, persona=kind v1, rules=none v1"
	for name := range databases() {
		tools, agent, before := stateWorld(t, name)
		me := as(ann, "one")
		doc := string(before)
		for _, tt := range []struct {
			name, after string
			code        haft.Code
		}{
			{"nothing", doc, ""},
			{"an empty text", "", haft.CodeInvalid},
			{"nothing that is JSON", "{", haft.CodeInvalid},
			{"null", "null", haft.CodeInvalid},
			{"no memory", `{"id":"` + string(agent.ID) + `"}`, haft.CodeInvalid},
			{"another agent", edited(doc, string(agent.ID), "ag_"+strings.Repeat("A", 26)), haft.CodeInvalid},
			{"another name", edited(doc, `"one"`, `"two"`), haft.CodeInvalid},
			{"a tool", edited(doc, `["f"]`, `["f","g"]`), haft.CodeInvalid},
			{"a read-only block", edited(doc, `"none"`, `"all"`), haft.CodeDenied},
			{"a read-only block made writable", edited(edited(doc, `"none"`, `"all"`), "true", "false"), haft.CodeDenied},
			{"what is read-only", edited(doc, "true", "false"), haft.CodeInvalid},
			{"a limit", edited(doc, `"limit":20`, `"limit":2000`), haft.CodeInvalid},
			{"a version", edited(doc, `"version":1`, `"version":2`), haft.CodeInvalid},
			{"a label", edited(doc, `"human"`, `"other"`), haft.CodeInvalid},
			{"a value and a description", edited(edited(doc, "<ann>", "bob"), "what holds", "x"), haft.CodeInvalid},
			{"a value over the limit", edited(doc, "<ann>", strings.Repeat("x", 21)), haft.CodeInvalid},
			{"one of two values over the limit", edited(edited(doc, "kind", "mean"), "<ann>", strings.Repeat("x", 21)),
				haft.CodeInvalid},
			{"a value with a NUL", edited(doc, "<ann>", `\u0000`), haft.CodeInvalid},
			{"a number as a value", edited(doc, `"<ann>"`, "1"), haft.CodeInvalid},
			{"a value that is gone", edited(doc, `"value":"<ann>",`, ""), haft.CodeInvalid},
			{"a value twice", edited(doc, `"value":"<ann>"`, `"value":"<ann>","value":"x"`), haft.CodeInvalid},
			{"a value by another name", edited(doc, `"value":"<ann>"`, `"value":"<ann>","Value":"x"`), haft.CodeInvalid},
			{"a prototype", edited(doc, `"memory":{`, `"memory":{"__proto__":{"value":"x"},`), haft.CodeInvalid},
			{"a constructor", edited(doc, `{"id"`, `{"constructor":{},"id"`), haft.CodeInvalid},
			{"a block more", edited(doc, `"blocks":[`, `"blocks":[{},`), haft.CodeInvalid},
			{"no blocks", doc[:strings.Index(doc, `[{"id"`)] + "[]}}", haft.CodeInvalid},
			{"much depth", edited(doc, `["f"]`, strings.Repeat("[", 9)+strings.Repeat("]", 9)), haft.CodeInvalid},
			{"many values", edited(doc, `["f"]`, "["+strings.Repeat("1,", 10_000)+"1]"), haft.CodeInvalid},
			{"many bytes", doc + strings.Repeat(" ", 4<<20), haft.CodeInvalid},
		} {
			expect(t, name+": "+tt.name, tools.ApplyState(t.Context(), me, agent.ID, before, []byte(tt.after)), tt.code)
			if got := values(t, tools, agent.ID); got != same {
				t.Fatalf("%s: after %s there is %s", name, tt.name, got)
			}
		}
		after := []byte(edited(edited(doc, "<ann>", "bob"), "kind", "mean"))
		for _, wrong := range []string{"null", `{}`, edited(doc, string(agent.ID), "ag_x"),
			`{"id":"` + string(agent.ID) + `"}`} {
			if err := tools.ApplyState(t.Context(), me, agent.ID, []byte(wrong), after); err == nil {
				t.Errorf("%s: a state that the tool did not get is taken: %s", name, wrong)
			}
		}
		expect(t, "a person", tools.ApplyState(t.Context(), ann, agent.ID, before, after), haft.CodeDenied)
		expect(t, "another agent", tools.ApplyState(t.Context(), as(ann, "two"), agent.ID, before, after),
			haft.CodeDenied)
		expect(t, "somebody else", tools.ApplyState(t.Context(), as(stranger, string(agent.ID)), agent.ID, before,
			after), haft.CodeDenied)
		check(t, tools.ApplyState(t.Context(), me, agent.ID, before, after))
		if got := values(t, tools, agent.ID); got != "human=bob v2, persona=mean v2, rules=none v1" {
			t.Errorf("%s: after the change there is %s", name, got)
		}
	}
}

// edited is a text in which one part is another.
func edited(doc, from, to string) string { return strings.Replace(doc, from, to, 1) }

// What somebody else did meanwhile is not undone, and nothing of the tool's changes is kept then.
func TestApplyState_conflict(t *testing.T) {
	value := "changed"
	for name, meanwhile := range map[string]func(t *testing.T, tools memory.Tools, agent haft.AgentID, b haft.Block){
		"another value": func(t *testing.T, tools memory.Tools, _ haft.AgentID, b haft.Block) {
			_, err := tools.Store.ChangeBlock(t.Context(), "acme", b.ID, haft.BlockChange{Value: &value})
			check(t, err)
		},
		"another block of the label": func(t *testing.T, tools memory.Tools, agent haft.AgentID, b haft.Block) {
			check(t, tools.Store.DetachBlock(t.Context(), "acme", agent, b.ID))
			_, err := tools.Store.AddBlock(t.Context(), haft.Block{Org: "acme", Label: b.Label, Value: value}, agent)
			check(t, err)
		},
	} {
		tools, agent, before := stateWorld(t, "sqlite")
		list, err := tools.Store.Blocks(t.Context(), "acme", haft.BlockFilter{Agent: string(agent.ID)})
		check(t, err)
		meanwhile(t, tools, agent.ID, list[0])
		was := values(t, tools, agent.ID)
		after := []byte(edited(edited(string(before), "<ann>", "bob"), "kind", "mean"))
		expect(t, name, tools.ApplyState(t.Context(), as(ann, "one"), agent.ID, before, after), haft.CodeConflict)
		if got := values(t, tools, agent.ID); got != was {
			t.Errorf("%s: there is %s, want %s", name, got, was)
		}
		only := []byte(edited(string(before), "kind", "mean"))
		check(t, tools.ApplyState(t.Context(), as(ann, "one"), agent.ID, before, only))
	}
}

// Whatever a tool returns, nothing but values of blocks that are not read-only changes.
func FuzzApplyState(f *testing.F) {
	for _, part := range []string{`"x"`, `{"__proto__":1}`, "", "[[]]", `"\ud800"`} {
		f.Add("<ann>", part)
		f.Add(`"id"`, part)
	}
	f.Fuzz(func(t *testing.T, from, to string) {
		tools, agent, before := stateWorld(t, "sqlite")
		after := strings.ReplaceAll(string(before), from, to)
		_ = tools.ApplyState(t.Context(), as(ann, "one"), agent.ID, before, []byte(after)) // most are refused
		got, err := tools.Snapshot(t.Context(), "acme", agent.ID)
		check(t, err)
		var was, is map[string]any
		check(t, json.Unmarshal(before, &was))
		check(t, json.Unmarshal(got, &is))
		for i, b := range is["memory"].(map[string]any)["blocks"].([]any) {
			old := was["memory"].(map[string]any)["blocks"].([]any)[i].(map[string]any)
			now := b.(map[string]any)
			if now["read_only"] == false {
				old["value"], old["version"] = now["value"], now["version"]
			}
		}
		if fmt.Sprint(was) != fmt.Sprint(is) {
			t.Errorf("the state became %s", got)
		}
	})
}
