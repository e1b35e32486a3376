package letta_test

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"haft"
	"haft/compat/letta"
	"haft/internal/servertest"
	"haft/server"
)

// What is too much or does not fit is refused before anything is written.
func TestAgents_are_bounded(t *testing.T) {
	t.Parallel()
	w := setup(t)
	many := func(n int, one string) string { return strings.TrimSuffix(strings.Repeat(one+",", n), ",") }
	file := func(agent string) string {
		return `{"agents":[{"name":"Poet","system":"x",` + agent + `}],"blocks":[{"id":"block-0","label":"human",` +
			`"value":"Ann"}],"tools":[]}`
	}
	for name, body := range map[string]string{
		"blocks of a file":        file(`"block_ids":[` + many(101, `"block-0"`) + `]`),
		"tools of a file":         file(`"tool_ids":[` + many(101, `"tool-0"`) + `]`),
		"tags of a file":          file(`"tags":[` + many(101, `"t"`) + `]`),
		"fields in another case":  `{"agents":[{"name":"P","system":"x"}],"TOOLS":[` + many(101, `{}`) + `]}`,
		"a block of a file twice": file(`"block_ids":["block-0","block-0"]`),
	} {
		if r := w.bring(admin, body); r.status != 422 {
			t.Errorf("%s: %+v", name, r)
		}
	}
	var fifty []string
	for i := range 51 {
		fifty = append(fifty, fmt.Sprintf(`{"label":"l%d","value":""}`, i))
	}
	for name, body := range map[string]string{
		"another case":  `"MEMORY_BLOCKS":[{"label":"a","value":""}]`,
		"a label twice": `"memory_blocks":[{"label":"a","value":""},{"label":"a","value":""}]`,
		"blocks and ids": `"memory_blocks":[` + strings.Join(fifty, ",") + `],"block_ids":[` + many(50, `"block-1"`) +
			`]`,
	} {
		if r := w.ask(admin, "POST", "/agents/", `{"name":"x",`+body+`}`); r.status != 422 {
			t.Errorf("%s: %+v", name, r)
		}
	}
	for path, want := range map[string]string{"/agents/count": "0\n", "/blocks/count": "0\n"} {
		if r := w.ask(admin, "GET", path, ""); r.body != want {
			t.Errorf("%s: %s", path, r.body)
		}
	}
}

// endless is a conversation whose messages never end, and come one by one.
type endless struct {
	haft.Conversations
	queries, most *int
}

func (e endless) Messages(_ context.Context, _ haft.Principal, _ string, f haft.MessageFilter) ([]haft.Message, error) {
	*e.queries++
	*e.most = max(*e.most, f.Limit)
	return []haft.Message{{ID: "message-x", Seq: cmp.Or(f.Before, 1<<40) - 1, Role: haft.RoleUser, Text: "x"}}, nil
}

// A page of which nothing is shown goes on for a while only, and with long lists.
func TestMessages_are_looked_through_for_a_while(t *testing.T) {
	t.Parallel()
	w := setup(t)
	a := w.talker()
	queries, most := 0, 0
	api := letta.New(w.engine, letta.Config{Conversations: endless{queries: &queries, most: &most}})
	_, w.http = servertest.Serve(t, w.engine, server.Config{APIs: map[string]server.API{letta.Prefix + "/": api}})
	of := "/agents/" + a.ID + "/messages?limit=1&include_return_message_types="
	if r := w.ask(admin, "GET", of+"summary_message", ""); r.status != 422 || queries > 100 || most != 100 {
		t.Errorf("%d queries of at most %d: %+v", queries, most, r)
	}
	if r := w.ask(admin, "GET", of+strings.Repeat("x,", 21), ""); r.status != 422 {
		t.Errorf("many types: %+v", r)
	}
}

// A page ends after some MiB, whatever its limit is, and the rest comes with the next one.
func TestPages_are_bounded(t *testing.T) {
	t.Parallel()
	w := setup(t)
	var ids []string
	for i := range 12 { // more than one list of the store has
		b := must[block](w, 200, "POST", "/blocks/", fmt.Sprintf(`{"label":"b%02d","limit":1000000,"value":%q}`, i,
			strings.Repeat("x", 1_000_000)))
		ids = append(ids, `"`+b.ID+`"`)
	}
	for i := range 2 {
		a := must[agent](w, 200, "POST", "/agents/", fmt.Sprintf(
			`{"name":"a%d","block_ids":[%s],"include_base_tools":false}`, i, strings.Join(ids, ",")))
		if len(a.Blocks) != 12 {
			t.Errorf("an agent with 12 blocks shows %d", len(a.Blocks))
		}
	}
	for _, path := range []string{"/agents/?limit=1000&order=asc", "/blocks/" + strings.Trim(ids[0], `"`) +
		"/agents?limit=1000&order=asc"} {
		names := ""
		for after := ""; len(names) < 10; {
			r := w.ask(reader, "GET", path+after, "")
			if len(r.body) > 20<<20 {
				t.Errorf("%s: a page of %d bytes", path, len(r.body))
			}
			var page []agent
			if err := json.Unmarshal([]byte(r.body), &page); err != nil || len(page) == 0 {
				break
			}
			for _, a := range page {
				names += a.Name + " "
			}
			after = "&after=" + page[len(page)-1].ID
		}
		if names != "a0 a1 " {
			t.Errorf("%s: %s", path, names)
		}
	}
	last := must[[]agent](w, 200, "GET", "/agents/?order=asc&limit=3", "")[0].ID
	for path, most := range map[string]int{"/blocks/?order=asc": 9, "/blocks/?order=desc": 9,
		"/agents/" + last + "/core-memory/blocks": 9} {
		if list := must[[]block](w, 200, "GET", path, ""); len(list) == 0 || len(list) > most {
			t.Errorf("%s: %d blocks", path, len(list))
		}
	}
	if r := w.ask(reader, "GET", "/agents/count", ""); r.body != "2\n" {
		t.Errorf("count: %s", r.body)
	}
	if a := must[agent](w, 200, "PATCH", "/agents/"+last, `{"block_ids":[`+ids[0]+`]}`); labels(a.Blocks) != "b00" {
		t.Errorf("one block is left: %s", labels(a.Blocks))
	}
}
