package agenttool_test

import (
	"cmp"
	"context"
	"encoding/json"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"haft"
	"haft/executor"
	"haft/executor/builtin"
	"haft/internal/agenttool"
)

// world is what the tools work on: one block, and what was asked of the archive and the history.
type world struct {
	set *builtin.Set

	mu       sync.Mutex
	block    haft.Block
	passages haft.PassageFilter
	messages haft.MessageFilter
	sent     []string
}

func setup(t *testing.T, b haft.Block) *world {
	t.Helper()
	w := &world{set: builtin.New(), block: b}
	if err := agenttool.Add(w.set, agenttool.Config{Blocks: w, Archive: w, History: w, Mailbox: w}); err != nil {
		t.Fatal(err)
	}
	return w
}

func (w *world) EditBlock(_ context.Context, _ haft.Principal, label string,
	edit func(haft.Block) (string, error)) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if label != w.block.Label {
		return &haft.Error{Code: haft.CodeNotFound, Message: "the agent has no block of this label"}
	}
	next, err := edit(w.block)
	if err == nil {
		w.block.Value = next
	}
	return err
}

func (w *world) AddPassage(_ context.Context, p haft.Principal, text string, tags []string) (*haft.Passage, error) {
	w.sent = append(w.sent, p.Agent+" "+text+" "+strings.Join(tags, ","))
	return &haft.Passage{ID: "passage-1"}, nil
}

func (w *world) Passages(_ context.Context, _ haft.Principal, f haft.PassageFilter) ([]haft.Passage, error) {
	w.passages = f
	return []haft.Passage{{ID: "passage-1", Text: "tea", Tags: []string{"t"}, Created: time.Unix(0, 0)}}, nil
}

func (w *world) Messages(_ context.Context, _ haft.Principal, f haft.MessageFilter) ([]haft.Message, error) {
	w.messages = f
	return []haft.Message{{Role: haft.RoleUser, Text: "hello", Created: time.Unix(0, 0)},
		{Role: haft.RoleAssistant}, {Role: haft.RoleTool, Name: "conversation_search", Text: "hello"},
		{Role: haft.RoleSummary, Text: "hello"}}, nil
}

func (w *world) Deliver(_ context.Context, from haft.Principal, turn haft.TurnID, agent, text string) error {
	w.sent = append(w.sent, from.Agent+" "+string(turn)+" "+agent+" "+text)
	return nil
}

func (w *world) Reply(_ context.Context, _ haft.Principal, turn haft.TurnID, _, _ string) (string, error) {
	return "fine in " + string(turn), nil
}

func (w *world) call(t *testing.T, agent, tool, args string) *haft.Result {
	t.Helper()
	for _, known := range w.set.Tools() {
		if known.Name != tool {
			continue
		}
		res, err := w.set.Execute(t.Context(), executor.Request{Call: "c", Tool: tool, Digest: known.Version.Digest,
			Args: json.RawMessage(args), Principal: haft.Principal{Org: "o", User: "u", Agent: agent}, Turn: "run-1"})
		if err != nil {
			t.Fatal(err)
		}
		return res
	}
	t.Fatalf("there is no tool %s", tool)
	return nil
}

func TestBlockTools(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, tool, args string
		block            haft.Block // its label is human, and its limit 40, if it has none
		want             string     // the value afterwards
		answer           string     // what the model is told, if it is not that the block has been edited
		err              string     // a part of the message
	}{
		{name: "append", tool: "core_memory_append", args: `{"label":"human","content":"tea"}`,
			block: haft.Block{Value: "likes"}, want: "likes\ntea"},
		{name: "append too much", tool: "core_memory_append", args: `{"label":"human","content":"` +
			strings.Repeat("é", 40) + `"}`, err: "Edit failed: Exceeds 40 character limit (requested 41)"},
		{name: "append as much as there may be", tool: "core_memory_append", args: `{"label":"human","content":"` +
			strings.Repeat("é", 39) + `"}`, want: "\n" + strings.Repeat("é", 39)},
		{name: "read-only", tool: "core_memory_append", args: `{"label":"human","content":"x"}`,
			block: haft.Block{ReadOnly: true}, err: "This block is read-only and cannot be edited."},
		{name: "another label", tool: "core_memory_append", args: `{"label":"persona","content":"x"}`,
			err: "no block of this label"},
		{name: "replace every one", tool: "core_memory_replace",
			args:  `{"label":"human","old_content":"a","new_content":"b"}`,
			block: haft.Block{Value: "a a"}, want: "b b"},
		{name: "replace what is not there", tool: "core_memory_replace",
			args: `{"label":"human","old_content":"a","new_content":"b"}`, err: "Old content 'a' not found"},
		{name: "replace nothing", tool: "core_memory_replace",
			args:  `{"label":"human","old_content":"","new_content":"b"}`,
			block: haft.Block{Value: "a a"}, err: "no text to be replaced"},
		{name: "replace by far too much", tool: "core_memory_replace",
			args:  `{"label":"human","old_content":"a","new_content":"` + strings.Repeat("b", 1000) + `"}`,
			block: haft.Block{Value: strings.Repeat("a", 40)}, err: "Exceeds 40 character limit"},
		{name: "insert at the end", tool: "memory_insert", args: `{"label":"human","new_str":"c"}`,
			block: haft.Block{Value: "a\nb"}, want: "a\nb\nc"},
		{name: "insert at the beginning", tool: "memory_insert",
			args:  `{"label":"human","new_str":"c","insert_line":0}`,
			block: haft.Block{Value: "a\nb"}, want: "c\na\nb"},
		{name: "insert in the middle", tool: "memory_insert", args: `{"label":"human","new_str":"c","insert_line":1}`,
			block: haft.Block{Value: "a\nb"}, want: "a\nc\nb"},
		{name: "insert after the end", tool: "memory_insert", args: `{"label":"human","new_str":"c","insert_line":3}`,
			block: haft.Block{Value: "a\nb"}, err: "Invalid `insert_line` parameter: 3"},
		{name: "insert before the beginning", tool: "memory_insert",
			args:  `{"label":"human","new_str":"c","insert_line":-2}`,
			block: haft.Block{Value: "a"}, err: "[0, 1], or -1"},
		{name: "insert with a line number", tool: "memory_insert", args: `{"label":"human","new_str":"1→ c"}`,
			err: "line number prefix"},
		{name: "replace one", tool: "memory_replace", args: `{"label":"human","old_str":"a","new_str":""}`,
			block: haft.Block{Value: "a b"}, want: " b"},
		{name: "replace one of two", tool: "memory_replace", args: `{"label":"human","old_str":"a","new_str":"c"}`,
			block: haft.Block{Value: "a\nb\na"}, err: "Multiple occurrences of old_string `a` in lines [1, 3]"},
		{name: "replace none", tool: "memory_replace", args: `{"label":"human","old_str":"x","new_str":"c"}`,
			err: "old_string `x` did not appear verbatim in memory block with label `human`."},
		{name: "replace the shown numbers", tool: "memory_replace",
			args: `{"label":"human","old_str":" 12→ a","new_str":"c"}`, err: "old_str contains a line number prefix"},
		{name: "replace a tab", tool: "memory_replace", args: `{"label":"human","old_str":"a       b","new_str":"c"}`,
			block: haft.Block{Value: "a\tb"}, want: "c"},
		{name: "rewrite", tool: "memory_rethink", args: `{"label":"human","new_memory":"new"}`,
			block: haft.Block{Value: "old"}, want: "new"},
		{name: "rewrite with a warning", tool: "memory_rethink",
			args: `{"label":"human","new_memory":"# NOTE: Line numbers shown below"}`, err: "line number warning"},
		{name: "finish", tool: "memory_finish_edits", args: `{}`, block: haft.Block{Value: "a"}, want: "a",
			answer: "The edits are finished."},
		{name: "finish with a text", tool: "memory_finish_edits", args: `{"content":"x"}`, err: "do not fit"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			tt.block.Label, tt.block.Limit = "human", 40
			w := setup(t, tt.block)
			res := w.call(t, "agent", tt.tool, tt.args)
			switch {
			case tt.err != "":
				if res.Error == nil || !strings.Contains(res.Error.Message, tt.err) || w.block.Value != tt.block.Value {
					t.Errorf("got %+v and %q, want an error with %q", res.Error, w.block.Value, tt.err)
				}
			case res.Error != nil || w.block.Value != tt.want:
				t.Errorf("got %+v and %q, want %q", res.Error, w.block.Value, tt.want)
			case !strings.Contains(string(res.Value), cmp.Or(tt.answer, "`human` has been edited.")):
				t.Errorf("the model is told %s", res.Value)
			}
		})
	}
}

// ATTACK: texts that fit into no block are refused before anything is locked, and are not in the error.
func TestBlockTools_refuse_large_texts(t *testing.T) {
	t.Parallel()
	large, err := json.Marshal(strings.Repeat("\t", haft.MaxBlockLimit+1))
	if err != nil {
		t.Fatal(err)
	}
	w := setup(t, haft.Block{Label: "human", Limit: 100})
	w.mu.Lock() // who edits the block waits for ever
	defer w.mu.Unlock()
	for _, args := range []string{`core_memory_append {"label":"human","content":%}`,
		`core_memory_replace {"label":"human","old_content":%,"new_content":""}`,
		`core_memory_replace {"label":"human","old_content":"a","new_content":%}`,
		`memory_insert {"label":"human","new_str":%}`,
		`memory_replace {"label":"human","old_str":%,"new_str":""}`,
		`memory_replace {"label":"human","old_str":"a","new_str":%}`,
		`memory_rethink {"label":"human","new_memory":%}`} {
		tool, args, _ := strings.Cut(args, " ")
		res := w.call(t, "agent", tool, strings.Replace(args, "%", string(large), 1))
		if res.Error == nil || !strings.Contains(res.Error.Message, "Exceeds 1000000 character limit") ||
			len(res.Error.Message) > 100 {
			t.Errorf("%s: got %.200v", tool, res.Error)
		}
	}
}

func TestBlockTools_shorten_what_they_repeat(t *testing.T) {
	t.Parallel()
	w := setup(t, haft.Block{Label: "human", Limit: 100, Value: "x"})
	for _, part := range []string{"a", "é", "\U0001F600"} {
		res := w.call(t, "agent", "memory_replace", `{"label":"human","new_str":"","old_str":"`+
			strings.Repeat(part, 201)+`"}`)
		if res.Error == nil || strings.Count(res.Error.Message, part) > 220 ||
			!strings.Contains(res.Error.Message, strings.Repeat(part, 200)+"…") {
			t.Errorf("got %+v", res.Error)
		}
	}
}

// Policies can have rules about tools that overwrite.
func TestTools_say_what_they_overwrite(t *testing.T) {
	t.Parallel()
	var overwrite []string
	for _, tool := range setup(t, haft.Block{}).set.Tools() {
		if d := tool.Version.Annotations.Destructive; d == nil || *d {
			overwrite = append(overwrite, tool.Name)
		}
	}
	slices.Sort(overwrite)
	if got := strings.Join(overwrite, " "); got != "core_memory_replace memory_replace memory_rethink" {
		t.Errorf("these overwrite: %s", got)
	}
}

// ATTACK: somebody who is no agent uses the memory of one.
func TestTools_are_for_agents(t *testing.T) {
	t.Parallel()
	w := setup(t, haft.Block{Label: "human", Limit: 100})
	for tool, args := range map[string]string{
		"core_memory_append":                       `{"label":"human","content":"x"}`,
		"archival_memory_insert":                   `{"content":"x"}`,
		"archival_memory_search":                   `{"query":"x"}`,
		"conversation_search":                      `{"query":"x"}`,
		"send_message":                             `{"message":"x"}`,
		"send_message_to_agent_async":              `{"message":"x","other_agent_id":"b"}`,
		"send_message_to_agent_and_wait_for_reply": `{"message":"x","other_agent_id":"b"}`,
	} {
		if res := w.call(t, "", tool, args); res.Error == nil || !strings.Contains(res.Error.Message, "not of an "+
			"agent") {
			t.Errorf("%s: %+v", tool, res.Error)
		}
	}
	if w.block.Value != "" || len(w.sent) > 0 {
		t.Errorf("something was done: %q, %q", w.block.Value, w.sent)
	}
}

func TestSearches(t *testing.T) {
	t.Parallel()
	w := setup(t, haft.Block{})
	res := w.call(t, "agent", "archival_memory_search", `{"query":"tea","tags":["t"],"tag_match_mode":"all","top_k":3,
		"start_datetime":"2024-01-15","end_datetime":"2024-01-16"}`)
	f := w.passages
	if res.Error != nil || f.Query != "tea" || !f.AllTags || f.Limit != 3 || f.Since.Day() != 15 ||
		f.Till.Hour() != 23 {
		t.Errorf("%+v, asked %+v", res.Error, f)
	}
	if !strings.Contains(string(res.Value), `"content":"tea"`) {
		t.Errorf("value: %s", res.Value)
	}
	res = w.call(t, "agent", "conversation_search", `{"query":"hello","roles":["user"],"limit":5}`)
	if g := w.messages; res.Error != nil || g.Limit != 5 || len(g.Roles) != 1 || !g.Newest ||
		strings.Count(string(res.Value), "role") != 1 {
		t.Errorf("%+v, asked %+v: %s", res.Error, g, res.Value)
	}
	for args, want := range map[string]string{
		`{"query":"x","top_k":0}`:                                                 "top_k",
		`{"query":"x","top_k":101}`:                                               "top_k",
		`{"query":"x","start_datetime":"tomorrow"}`:                               "start_datetime",
		`{"query":"x","start_datetime":"2024-01-15","end_datetime":"2024-01-14"}`: "end_datetime",
		`{"query":"` + strings.Repeat("x", 1001) + `"}`:                           "query",
	} {
		if res := w.call(t, "agent", "archival_memory_search", args); res.Error == nil ||
			!strings.Contains(res.Error.Message, want) {
			t.Errorf("%s: %+v", args[:min(len(args), 60)], res.Error)
		}
	}
	if res := w.call(t, "agent", "conversation_search", `{"roles":["system"]}`); res.Error == nil {
		t.Error("the role system can be searched for")
	}
}

func TestMessages(t *testing.T) {
	t.Parallel()
	w := setup(t, haft.Block{})
	res := w.call(t, "agent", "send_message", `{"message":"hi"}`)
	if string(res.Value) != `"Sent message successfully."` {
		t.Errorf("send_message: %s %+v", res.Value, res.Error)
	}
	if res = w.call(t, "agent", "send_message", `{"message":" "}`); res.Error == nil {
		t.Error("an empty message is sent")
	}
	w.call(t, "agent", "send_message_to_agent_async", `{"message":"hi","other_agent_id":"b"}`)
	w.call(t, "agent", "archival_memory_insert", `{"content":"tea","tags":["a","b"]}`)
	if strings.Join(w.sent, ";") != "agent run-1 b hi;agent tea a,b" {
		t.Errorf("sent %q", w.sent)
	}
	res = w.call(t, "agent", "send_message_to_agent_and_wait_for_reply", `{"message":"hi","other_agent_id":"b"}`)
	if string(res.Value) != `"fine in run-1"` {
		t.Errorf("reply: %s", res.Value)
	}
}
