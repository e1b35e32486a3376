package letta_test

import (
	"fmt"
	"strings"
	"testing"
)

// block is what the tests look at of one.
type block struct {
	ID       string `json:"id"`
	Label    string `json:"label"`
	Value    string `json:"value"`
	Limit    int    `json:"limit"`
	ReadOnly bool   `json:"read_only"`
	Desc     string `json:"description"`
}

// labels are those of blocks.
func labels(list []block) string {
	var all []string
	for _, b := range list {
		all = append(all, b.Label)
	}
	return strings.Join(all, " ")
}

func TestAgents_have_blocks(t *testing.T) {
	t.Parallel()
	w := setup(t)
	shared := must[block](w, 200, "POST", "/blocks/", `{"label":"shared","value":"for all","limit":500,"tags":["x"]}`)
	a := must[agent](w, 200, "POST", "/agents/", `{"name":"helper","description":"Helps.","system":"Be kind.",
		"model":"openai/gpt-4.1","tags":["prod","eu"],"block_ids":["`+shared.ID+`"],
		"memory_blocks":[{"label":"human","value":"Ann","description":"who","read_only":true},{"label":"persona","value":"I"}]}`)
	if a.System != "Be kind." || a.Desc != "Helps." || a.Model != "openai/gpt-4.1" || a.LLM.Model != a.Model ||
		strings.Join(a.Tags, " ") != "prod eu" || namesOf(a.Tools) != "memory_insert" {
		t.Errorf("made: %+v", a)
	}
	if labels(a.Blocks) != "shared human persona" || labels(a.Memory.Blocks) != labels(a.Blocks) {
		t.Errorf("blocks = %s, %s", labels(a.Blocks), labels(a.Memory.Blocks))
	}
	of := "/agents/" + a.ID + "/core-memory/blocks"
	if got := must[block](w, 200, "GET", of+"/human", ""); got.Value != "Ann" || !got.ReadOnly || got.Desc != "who" ||
		got.Limit != 100_000 {
		t.Errorf("by label: %+v", got)
	}
	if got := must[block](w, 200, "PATCH", of+"/human", `{"value":"Bob","project_id":"x"}`); got.Value != "Bob" ||
		!got.ReadOnly {
		t.Errorf("changed: %+v", got)
	}
	// A block that is shared is the same one for all who have it.
	b := must[agent](w, 200, "POST", "/agents/", `{"name":"other","block_ids":["`+shared.ID+`"],"include_base_tools":false}`)
	must[block](w, 200, "PATCH", "/blocks/"+shared.ID, `{"value":"new"}`)
	if got := must[agent](w, 200, "GET", "/agents/"+b.ID, ""); labels(got.Blocks) != "shared" ||
		got.Blocks[0].Value != "new" || len(got.Tools) != 0 {
		t.Errorf("other: %+v", got)
	}
	if got := namesOf(must[[]tool](w, 200, "GET", "/blocks/"+shared.ID+"/agents", "")); got != "other helper" {
		t.Errorf("agents of the block: %s", got)
	}
	for range 2 {
		got := must[agent](w, 200, "PATCH", of+"/detach/"+shared.ID, "")
		if strings.Contains(labels(got.Blocks), "shared") {
			t.Errorf("detached: %s", labels(got.Blocks))
		}
	}
	if got := must[agent](w, 200, "PATCH", of+"/attach/"+shared.ID, ""); len(got.Blocks) != 3 {
		t.Errorf("attached: %s", labels(got.Blocks))
	}
	if got := must[agent](w, 200, "PATCH", "/agents/"+a.ID, `{"block_ids":["`+shared.ID+`"],"tags":[],"system":"x",
		"llm_config":{"handle":"vendor/gpt","model":"m","context_window":1}}`); labels(got.Blocks) != "shared" ||
		len(got.Tags) != 0 || got.System != "x" || got.Model != "vendor/gpt" || got.Desc != "Helps." {
		t.Errorf("modified: %+v", got)
	}
	// Blocks and texts change together, or not at all.
	for _, b := range []string{`{"block_ids":["block-none"],"system":"y"}`, `{"block_ids":[],"system":"y","model":"none"}`} {
		if r := w.ask(admin, "PATCH", "/agents/"+a.ID, b); r.status != 404 {
			t.Errorf("%s: %+v", b, r)
		}
		if got := must[agent](w, 200, "GET", "/agents/"+a.ID, ""); labels(got.Blocks) != "shared" || got.System != "x" {
			t.Errorf("%s: %s %s", b, labels(got.Blocks), got.System)
		}
	}
	if got := must[[]block](w, 200, "GET", of+"/", ""); labels(got) != "shared" {
		t.Errorf("listed: %s", labels(got))
	}
	must[any](w, 200, "DELETE", "/blocks/"+shared.ID, "")
	if got := must[agent](w, 200, "GET", "/agents/"+b.ID, ""); len(got.Blocks) != 0 {
		t.Errorf("after the block was removed: %+v", got.Blocks)
	}
}

// What was made for an agent is gone if a later part fails.
func TestAgents_are_made_whole_or_not_at_all(t *testing.T) {
	t.Parallel()
	w := setup(t)
	kept := must[block](w, 200, "POST", "/blocks/", `{"label":"kept","value":"x"}`)
	w.memory.fails = "bad"
	for _, body := range []string{
		`{"name":"x","memory_blocks":[{"label":"good","value":"x"},{"label":"bad","value":"x"}]}`,
		`{"name":"x","memory_blocks":[{"label":"good","value":"x"},{"label":"good","value":"y"}]}`,
		`{"name":"x","memory_blocks":[{"label":"good","value":"x"},{"label":"no/good","value":"y"}]}`,
		`{"name":"x","memory_blocks":[{"label":"good","value":"x"}],"block_ids":["` + kept.ID + `","block-none"]}`,
		`{"name":"x","memory_blocks":[{"label":"good","value":"x"}],"tools":["none"]}`,
	} {
		if r := w.ask(admin, "POST", "/agents/", body); r.status < 400 {
			t.Errorf("%s: %d", body, r.status)
		}
		if got := must[[]block](w, 200, "GET", "/blocks/", ""); labels(got) != "kept" {
			t.Errorf("%s: there is %s", body, labels(got))
		}
		if r := must[[]agent](w, 200, "GET", "/agents/", ""); len(r) != 0 {
			t.Errorf("%s: there is %+v", body, r)
		}
	}
}

func TestAgents_are_found_by_tags(t *testing.T) {
	t.Parallel()
	w := setup(t)
	must[agent](w, 200, "POST", "/agents/", `{"name":"a","tags":["x","y"]}`)
	must[agent](w, 200, "POST", "/agents/", `{"name":"b","tags":["x"]}`)
	must[agent](w, 200, "POST", "/agents/", `{"name":"c"}`)
	for query, want := range map[string]string{"tags=x": "b a", "tags=y&tags=z": "a", "tags=z": "",
		"tags=x&tags=y&match_all_tags=true": "a", "match_all_tags=true": "c b a"} {
		if got := namesOf(must[[]tool](w, 200, "GET", "/agents/?"+query, "")); got != want {
			t.Errorf("%s: %s, want %s", query, got, want)
		}
	}
}

func TestBlocks_lists_page_and_end(t *testing.T) {
	t.Parallel()
	w := setup(t)
	for i := range 5 {
		must[block](w, 200, "POST", "/blocks/", fmt.Sprintf(`{"label":"b%d","value":"v%d"}`, i, i))
	}
	for query, want := range map[string]string{"limit=2": "b0 b1 b2 b3 b4", "limit=2&order=desc": "b4 b3 b2 b1 b0",
		"label=b3": "b3", "value_search=V2&limit=1": "b2", "tags=x": "", "label_search=zzz": ""} {
		var all []block
		for after := ""; ; {
			page := must[[]block](w, 200, "GET", "/blocks/?"+query+after, "")
			if len(page) == 0 || len(all) > 10 {
				break
			}
			all = append(all, page...)
			after = "&after=" + page[len(page)-1].ID
		}
		if got := labels(all); got != want {
			t.Errorf("%s: %s, want %s", query, got, want)
		}
	}
	all := must[[]block](w, 200, "GET", "/blocks/", "")
	if got := must[[]block](w, 200, "GET", "/blocks/?limit=2&before="+all[3].ID, ""); labels(got) != "b1 b2" {
		t.Errorf("before: %s", labels(got))
	}
	if n := must[int](w, 200, "GET", "/blocks/count", ""); n != 5 {
		t.Errorf("count = %d", n)
	}
	if r := w.ask(stranger, "GET", "/blocks/", ""); r.body != "[]\n" {
		t.Errorf("blocks of another organisation: %s", r.body)
	}
	if r := w.ask(stranger, "GET", "/blocks/"+all[0].ID, ""); r.status != 404 {
		t.Errorf("a block of another organisation: %d", r.status)
	}
}

func TestPassages(t *testing.T) {
	t.Parallel()
	w := setup(t)
	of := "/agents/" + w.hire("helper").ID + "/archival-memory"
	type passage struct {
		ID   string   `json:"id"`
		Text string   `json:"text"`
		Tags []string `json:"tags"`
	}
	texts := func(list []passage) (all string) {
		for _, p := range list {
			all += p.Text + " "
		}
		return all
	}
	var ids []string
	for _, text := range []string{"one", "two", "three"} {
		made := must[[]passage](w, 200, "POST", of, `{"text":"`+text+`","tags":["n","`+text+`"]}`)
		if len(made) != 1 || len(made[0].Tags) != 2 {
			t.Fatalf("made: %+v", made)
		}
		ids = append(ids, made[0].ID)
	}
	for query, want := range map[string]string{"": "one two three ", "?limit=2&after=" + ids[0]: "two three ",
		"?before=" + ids[2] + "&limit=1": "two ", "?ascending=false&limit=2": "three two ",
		"?ascending=false&after=" + ids[1]: "one ", "?ascending=false&before=" + ids[0]: "three two ",
		"?after=" + ids[2]: "", "?search=two": "two "} {
		if got := texts(must[[]passage](w, 200, "GET", of+query, "")); got != want {
			t.Errorf("%s: %q, want %q", query, got, want)
		}
	}
	type found struct {
		Count   int `json:"count"`
		Results []struct {
			Content string `json:"content"`
		} `json:"results"`
	}
	for query, want := range map[string]string{"query=three": "three", "query=three&tags=one": "",
		"query=two&tags=one&tags=two": "two", "query=two&tags=one&tags=two&tag_match_mode=all": "",
		"query=two&end_datetime=2001-01-01": "", "query=two&start_datetime=2001-01-01T00:00:00": "two"} {
		got := must[found](w, 200, "GET", of+"/search?"+query, "")
		if got.Count != len(got.Results) || (want == "") != (got.Count == 0) ||
			want != "" && got.Results[0].Content != want {
			t.Errorf("%s: %+v, want %q", query, got, want)
		}
	}
	must[any](w, 200, "DELETE", of+"/"+ids[1], "")
	if got := texts(must[[]passage](w, 200, "GET", of, "")); got != "one three " {
		t.Errorf("after a removal: %q", got)
	}
}
