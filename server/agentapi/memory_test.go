package agentapi_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"haft"
	"haft/internal/servertest"
	"haft/server"
	"haft/server/agentapi"
)

// block adds a block and returns its id.
func (w *world) block(who, label string) string {
	w.t.Helper()
	var b haft.Block
	a := w.must(201, who, "POST", "/v1/blocks", `{"label":"`+label+`","value":"v","limit":100}`, &b)
	if a.Header.Get("Location") != "/v1/blocks/"+string(b.ID) {
		w.t.Errorf("it is at %q", a.Header.Get("Location"))
	}
	return string(b.ID)
}

func TestBlocks(t *testing.T) {
	w := setup(t, nil)
	id := w.block(admin, "human")
	var b haft.Block
	w.must(200, admin, "PATCH", "/v1/blocks/"+id, `{"value":"Ann","read_only":true,"version":1}`, &b)
	if b.Value != "Ann" || !b.ReadOnly || b.Label != "human" || b.Limit != 100 {
		t.Errorf("the block: %+v", b)
	}
	w.must(409, admin, "PATCH", "/v1/blocks/"+id, `{"value":"Bob","version":1}`, nil)
	w.must(422, admin, "PATCH", "/v1/blocks/"+id, `{"value":"`+strings.Repeat("x", 101)+`"}`, nil)
	at := "/v1/agents/smith/blocks"
	for range 2 {
		w.must(204, admin, "PUT", at+"/"+id, "", nil)
	}
	var ids server.Page[string]
	if w.must(200, ann, "GET", "/v1/blocks/"+id+"/agents", "", &ids); !slices.Equal(ids.Data,
		[]string{w.agents["smith"]}) {
		t.Errorf("its agents: %v", ids.Data)
	}
	for path, want := range map[string]int{at: 1, at + "?label=other": 0, "/v1/agents/jones/blocks": 0,
		"/v1/blocks?agent=smith&label=human": 1, "/v1/blocks?agent=jones": 0, "/v1/blocks?after=" + id: 0} {
		var page server.Page[haft.Block]
		if w.must(200, ann, "GET", path, "", &page); len(page.Data) != want {
			t.Errorf("%s lists %d blocks", path, len(page.Data))
		}
	}
	w.must(204, admin, "DELETE", at+"/"+id, "", nil)
	w.must(204, admin, "DELETE", "/v1/blocks/"+id, "", nil)
	w.must(404, admin, "GET", "/v1/blocks/"+id, "", nil)
}

// A page is bounded, whatever is asked for, and the next one goes on where it ends.
func TestBlocks_are_on_pages(t *testing.T) {
	w := setup(t, nil)
	for i := range 60 {
		w.block(admin, fmt.Sprintf("b%d", i))
	}
	var first, second server.Page[haft.Block]
	a := w.must(200, ann, "GET", "/v1/blocks?limit=1000", "", &first)
	w.must(200, ann, "GET", "/v1/blocks?limit=1000&cursor="+first.Next, "", &second)
	if len(first.Data) != 50 || len(second.Data) != 10 || second.Next != "" ||
		first.Data[49].ID >= second.Data[0].ID || !strings.Contains(a.Header.Get("Link"), first.Next) {
		t.Errorf("%d and %d blocks, then %q", len(first.Data), len(second.Data), second.Next)
	}
}

func TestPassages(t *testing.T) {
	w := setup(t, nil)
	at := "/v1/agents/smith/passages"
	var rain haft.Passage
	w.must(201, admin, "POST", at, `{"text":"it rains in Oslo","tags":["weather","oslo"]}`, &rain)
	w.must(201, admin, "POST", at, `{"text":"the sun shines in Rome","tags":["weather"]}`, nil)
	w.must(201, admin, "POST", at, `{"text":"dinner at eight"}`, nil)
	for query, want := range map[string]string{
		"":                                 "it rains,the sun,dinner",
		"?newest=true":                     "dinner,the sun,it rains",
		"?newest=true&limit=1":             "dinner",
		"?query=oslo":                      "it rains",
		"?query=shines&limit=1":            "the sun",
		"?tags=weather,oslo":               "it rains,the sun",
		"?tags=weather,oslo&all_tags=true": "it rains",
		"?after=" + string(rain.ID):        "the sun,dinner",
		"?since=2999-01-01T00:00:00Z":      "",
		"?till=2000-01-01T00:00:00Z":       "",
	} {
		var page server.Page[haft.Passage]
		w.must(200, ann, "GET", at+query, "", &page)
		found := []string{}
		for _, p := range page.Data {
			for _, begin := range []string{"it rains", "the sun", "dinner"} {
				if strings.HasPrefix(p.Text, begin) {
					found = append(found, begin)
				}
			}
		}
		if got := strings.Join(found, ","); got != want {
			t.Errorf("%q lists %q, want %q", query, got, want)
		}
	}
	var tags server.Page[string]
	if w.must(200, ann, "GET", at+"/tags", "", &tags); !slices.Equal(tags.Data, []string{"oslo", "weather"}) {
		t.Errorf("the tags: %v", tags.Data)
	}
	w.must(404, admin, "DELETE", "/v1/agents/jones/passages/"+string(rain.ID), "", nil)
	w.must(204, admin, "DELETE", at+"/"+string(rain.ID), "", nil)
	w.must(404, admin, "DELETE", at+"/"+string(rain.ID), "", nil)
}

func TestModels(t *testing.T) {
	var page server.Page[haft.Model]
	w := setup(t, nil)
	if w.must(200, ann, "GET", "/v1/models", "", &page); len(page.Data) != 2 || !page.Data[0].Default ||
		page.Data[1].Unavailable == "" {
		t.Errorf("%+v", page.Data)
	}
}

// ATTACK: an administrator of another organisation reads, changes or joins what is not theirs.
func TestMemory_of_another_organisation(t *testing.T) {
	w := setup(t, nil)
	theirs, own := w.block(admin, "secret"), w.block(stranger, "mine")
	w.must(204, admin, "PUT", "/v1/agents/smith/blocks/"+theirs, "", nil)
	var page server.Page[haft.Block]
	if w.must(200, stranger, "GET", "/v1/blocks", "", &page); len(page.Data) != 1 {
		t.Errorf("they see %+v", page.Data)
	}
	for _, r := range [][2]string{{"PUT", "/v1/agents/smith/blocks/" + own},
		{"PUT", "/v1/agents/mallory/blocks/" + theirs},
		{"DELETE", "/v1/agents/smith/blocks/" + theirs}, {"GET", "/v1/blocks?agent=smith"},
		{"GET", "/v1/blocks?agent=" + w.agents["smith"]}} {
		w.must(404, stranger, r[0], r[1], "", nil)
	}
	if w.must(200, ann, "GET", "/v1/agents/smith/blocks", "", &page); len(page.Data) != 1 {
		t.Errorf("the agent has %d blocks", len(page.Data))
	}
}

// What does not fit is refused before it is worked on, and no value of it comes back.
func TestRefused(t *testing.T) {
	w := setup(t, nil)
	id := w.block(admin, "human")
	const canary = "hunter2canary"
	long := func(n int) string { return `"` + strings.Repeat("x", n) + `"` }
	for _, tt := range []struct{ method, path, body string }{
		{"POST", "/v1/blocks", `{}`},
		{"POST", "/v1/blocks", `{"label":""}`},
		{"POST", "/v1/blocks", `{"label":` + long(65) + `}`},
		{"POST", "/v1/blocks", `{"label":"a","value":` + long(1_000_001) + `}`},
		{"POST", "/v1/blocks", `{"label":"a","description":` + long(10_001) + `}`},
		{"POST", "/v1/blocks", `{"label":"a","limit":1000001}`},
		{"POST", "/v1/blocks", `{"label":"a","limit":"` + canary + `"}`},
		{"POST", "/v1/blocks", `{"label":"a","id":"` + canary + `"}`},
		{"PATCH", "/v1/blocks/" + id, `{"read_only":"` + canary + `"}`},
		{"PATCH", "/v1/blocks/" + id, `{"limit":0}`},
		{"PATCH", "/v1/blocks/" + id, `{"version":-1}`},
		{"POST", "/v1/agents/smith/passages", `{"text":` + long(100_001) + `}`},
		{"POST", "/v1/agents/smith/passages", `{"text":"a","tags":[` + strings.Repeat(`"x",`, 50) + `"x"]}`},
		{"POST", "/v1/agents/smith/passages", `{"text":"a","tags":[` + long(101) + `]}`},
		{"POST", "/v1/agents/smith/passages", `{"text":"a","tags":{"` + canary + `":1}}`},
		{"POST", messages, `{"text":""}`},
		{"POST", messages, `{"text":` + long(262_145) + `}`},
		{"POST", messages, `{"text":"a","idempotency_key":` + long(257) + `}`},
		{"POST", messages, `{"text":"a","model":` + long(257) + `}`},
		{"POST", messages, `{"text":"a","budget":{"max_steps":"` + canary + `"}}`},
		{"POST", messages, `{"text":"a","budget":{"max":1}}`},
		{"POST", messages, `{"text":"a","principal":{"org":"` + canary + `"}}`},
		{"GET", messages + "?roles=" + canary, ""},
		{"GET", messages + "?after=-1", ""},
		{"GET", messages + "?limit=0", ""},
		{"GET", messages + "?role=user", ""},
		{"GET", messages + "?query=a&cursor=bWVzc2FnZXM6MQ", ""},
		{"GET", messages + "?cursor=bWVzc2FnZXM6eA", ""}, // messages:x
		{"GET", messages + "?cursor=YmxvY2tzOjE", ""},    // blocks:1
		{"GET", "/v1/agents/smith/passages?query=a&after=b", ""},
		{"GET", "/v1/agents/smith/passages?since=" + canary, ""},
		{"GET", "/v1/turns/run-1/events?after=" + canary, ""},
		{"GET", "/v1/turns/run-1/events?after=99999999999999999999", ""},
	} {
		a := servertest.Send(t, w.http, admin, tt.method, tt.path, tt.body)
		if a.Status != 422 || strings.Contains(string(a.Body), canary) {
			t.Errorf("%s %s %.60s: %d %s", tt.method, tt.path, tt.body, a.Status, a.Body)
		}
	}
	if a := servertest.Send(t, w.http, admin, "GET", "/v1/turns/run-1/events", "", "Last-Event-ID",
		canary); a.Status != 422 {
		t.Errorf("a cursor that is none: %d %s", a.Status, a.Body)
	}
}

func TestMissing(t *testing.T) {
	w := setup(t, func(c *server.Config) { c.Resources = []server.Resource{agentapi.New(agentapi.Config{})} })
	for path, lacks := range map[string]string{
		"/v1/blocks": "memory of agents", "/v1/blocks/x/agents": "memory of agents",
		"/v1/agents/smith/passages": "archive of agents", messages: "conversations with agents",
		"/v1/turns/x": "conversations with agents", "/v1/models": "language models",
	} {
		var p server.Problem
		if w.must(404, admin, "GET", path, "", &p); !strings.HasPrefix(p.Detail, "this server has no "+lacks) {
			t.Errorf("%s: %q", path, p.Detail)
		}
	}
	w.must(404, user, "POST", messages, `{"text":"hi"}`, nil)
}
