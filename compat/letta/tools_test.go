package letta_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestTools_lists_page_and_end(t *testing.T) {
	t.Parallel()
	w := setup(t)
	var made []string
	for i := range 7 {
		made = append(made, w.add(fmt.Sprintf("t%d", i)).Name)
	}
	newest := slices.Clone(made)
	slices.Reverse(newest)
	builtin := []string{"send_message", "run_code", "memory_insert"}
	for _, limit := range []int{1, 2, 3, 7, 8, 50} {
		for path, want := range map[string][]string{
			fmt.Sprintf("/tools/?limit=%d", limit): append(slices.Clone(newest),
				"send_message", "run_code", "memory_insert"),
			fmt.Sprintf("/tools?limit=%d&order=asc", limit): append([]string{"memory_insert", "run_code",
				"send_message"}, made...),
			fmt.Sprintf("/tools/?limit=%d&tool_types=custom", limit):                     newest,
			fmt.Sprintf("/tools/?limit=%d&names=t1&names=t3&order_by=created_at", limit): {"t3", "t1"},
			fmt.Sprintf("/tools/?limit=%d&search=T5", limit):                             {"t5"},
			fmt.Sprintf("/tools/?limit=%d&return_only_letta_tools=true", limit):          builtin,
			fmt.Sprintf("/tools/?limit=%d&exclude_tool_types=custom", limit):             builtin,
			fmt.Sprintf("/tools/?limit=%d&name=nothing", limit):                          nil,
		} {
			if got := namesOf(w.walk(path)); got != strings.Join(want, " ") {
				t.Errorf("%s = %s, want %s", path, got, want)
			}
		}
	}
	// Backwards from an item: those right before it, until there are none.
	all := w.walk("/tools?limit=50")
	before, got := all[5].ID, []tool{}
	for range 10 {
		page := must[[]tool](w, 200, "GET", "/tools?limit=2&before="+before, "")
		if len(page) == 0 {
			break
		}
		got = append(page, got...)
		before = page[0].ID
	}
	if namesOf(got) != namesOf(all[:5]) {
		t.Errorf("before the sixth = %s, want %s", namesOf(got), namesOf(all[:5]))
	}
	ids := all[0].ID + "," + all[2].ID
	if got := namesOf(w.walk("/tools/?tool_ids=" + ids)); got != "t6 t4" {
		t.Errorf("tool_ids with a comma = %s", got)
	}
	if n := must[int](w, 200, "GET", "/tools/count?exclude_letta_tools=true", ""); n != 7 {
		t.Errorf("count = %d", n)
	}
	// An item of a filter that holds it no more is still a place.
	if got := namesOf(must[[]tool](w, 200, "GET", "/tools?names=t0&after="+all[1].ID, "")); got != "t0" {
		t.Errorf("after an item that the filter leaves out = %s", got)
	}
}

func TestTools_come_and_go(t *testing.T) {
	t.Parallel()
	w := setup(t)
	body := `{"source_code":"def add(a, b): pass","tags":["math"],"return_char_limit":100,"pip_requirements":[{"name":"numpy","version":"2.3.1"},{"name":"six"},{"name":"attrs","version":">=23"}],
		"default_requires_approval":true,"enable_parallel_execution":true,"source_type":"python","npm_requirements":null}`
	made := must[tool](w, 200, "POST", "/tools/", body)
	want := tool{
		ID: made.ID, Name: "add", Type: "custom", Desc: "The add tool", Tags: []string{"math"},
		Source: "def add(a, b): pass", Limit: 100, Approval: true, Parallel: true,
		Pip: []map[string]string{{"name": "numpy", "version": "2.3.1"}, {"name": "six", "version": ""},
			{"name": "attrs", "version": ">=23"}},
		Schema: map[string]any{"name": "add", "description": "The add tool",
			"parameters": map[string]any{"type": "object", "required": []any{"a", "b"},
				"properties": map[string]any{"a": map[string]any{"type": "integer"},
					"b": map[string]any{"type": "integer"}}}},
	}
	if diff := cmp.Diff(want, made); diff != "" {
		t.Errorf("made (-want +got):\n%s", diff)
	}
	if got := must[tool](w, 200, "GET", "/tools/"+made.ID, ""); !cmp.Equal(got, made) {
		t.Errorf("retrieved: %s", cmp.Diff(made, got))
	}
	// An upsert keeps the id, and all that it does not name.
	again := must[tool](w, 200, "PUT", "/tools/", `{"source_code":"def add(a, b, c): pass","tags":[]}`)
	if again.ID != made.ID || !slices.Equal(again.Tags, made.Tags) || !again.Approval || !again.Parallel ||
		again.Limit != 100 || len(again.Pip) != 3 {
		t.Errorf("upserted: %+v", again)
	}
	// The schema follows the source, unless one is given.
	changed := must[tool](w, 200, "PATCH", "/tools/"+made.ID,
		`{"source_code":"def add(z): pass","tags":["x"],"a_field_of_tomorrow":1}`)
	if p := changed.Schema["parameters"].(map[string]any)["properties"].(map[string]any); len(p) != 1 ||
		p["z"] == nil || changed.Tags[0] != "x" {
		t.Errorf("a new source: %+v", changed)
	}
	changed = must[tool](w, 200, "PATCH", "/tools/"+made.ID,
		`{"json_schema":{"name":"add","description":"Adds.","parameters":{"type":"object","properties":{"q":{"type":"string"}}}},"return_char_limit":7}`)
	if changed.Desc != "Adds." || changed.Limit != 7 ||
		changed.Schema["parameters"].(map[string]any)["properties"].(map[string]any)["q"] == nil {
		t.Errorf("a given schema: %+v", changed)
	}
	changed = must[tool](w, 200, "PATCH", "/tools/"+made.ID, `{"tags":[],"description":"Other."}`)
	if len(changed.Tags) != 0 || changed.Desc != "Other." || changed.Source != "def add(z): pass" {
		t.Errorf("without tags: %+v", changed)
	}
	if a := w.ask(admin, "DELETE", "/tools/"+made.ID, ""); a.status != 200 || a.body != "null\n" {
		t.Errorf("delete: %+v", a)
	}
	for _, method := range []string{"GET", "DELETE", "PATCH"} {
		if a := w.ask(admin, method, "/tools/"+made.ID, ""); a.status != 404 {
			t.Errorf("%s of what is gone: %+v", method, a)
		}
	}
}

// What this API cannot say is not lost when it writes a version.
func TestTools_upsert_keeps_what_only_haft_knows(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.add("fetch")
	p := haftAdmin()
	was, err := w.engine.Tool(t.Context(), p, "fetch")
	if err != nil {
		t.Fatal(err)
	}
	d := draftOf(*was)
	d.Settings.Network, d.Settings.Secrets = []string{"api.example.com"}, []string{"TOKEN"}
	if _, err := w.engine.PutTool(t.Context(), p, d); err != nil {
		t.Fatal(err)
	}
	must[tool](w, 200, "PUT", "/tools/", `{"source_code":"def fetch(a, b): pass"}`)
	now, err := w.engine.Tool(t.Context(), p, "fetch")
	if err != nil || !slices.Equal(now.Version.Settings.Network, d.Settings.Network) ||
		!slices.Equal(now.Version.Settings.Secrets, d.Settings.Secrets) {
		t.Errorf("after an upsert: %+v, %v", now, err)
	}
}

func TestTools_that_wait_for_review_are_shown(t *testing.T) {
	t.Parallel()
	w := setup(t)
	made := must[tool](w, 200, "POST", "/tools/", `{"source_code":"def odd(a): suspicious"}`)
	if made.Name != "odd" || made.Schema == nil {
		t.Errorf("made: %+v", made)
	}
	if got := must[tool](w, 200, "GET", "/tools/"+made.ID, ""); got.Source != "def odd(a): suspicious" {
		t.Errorf("shown: %+v", got)
	}
	if got := must[map[string]any](w, 200, "GET", "/tools/"+made.ID,
		"")["metadata_"].(map[string]any)["haft"].(map[string]any)["review"]; got != "waiting" {
		t.Errorf("review: %v", got)
	}
}

func TestTools_search(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.add("weather")
	w.add("other")
	got := must[[]struct {
		Tool  tool    `json:"tool"`
		Rank  int     `json:"fts_rank"`
		Score float64 `json:"combined_score"`
	}](w, 200, "POST", "/tools/search", `{"query":"weather","search_mode":"hybrid","limit":3}`)
	if len(got) != 1 || got[0].Tool.Name != "weather" || got[0].Rank != 1 || got[0].Score <= 0 {
		t.Errorf("search: %+v", got)
	}
	if base := must[[]tool](w, 200, "POST", "/tools/add-base-tools", ""); namesOf(base) != "memory_insert "+
		"run_code send_message" ||
		base[0].Type != "letta_builtin" {
		t.Errorf("base tools: %+v", base)
	}
	// A built-in tool has an id too, by which it is found.
	base := must[[]tool](w, 200, "GET", "/tools?name=run_code", "")
	if got := must[tool](w, 200, "GET", "/tools/"+base[0].ID, ""); got.Name != "run_code" {
		t.Errorf("by its id: %+v", got)
	}
}

func TestSchema_is_generated(t *testing.T) {
	t.Parallel()
	w := setup(t)
	got := must[map[string]any](w, 200, "POST", "/tools/generate-schema",
		`{"code":"def f(a): pass","source_type":"python"}`)
	if got["name"] != "f" || got["parameters"].(map[string]any)["type"] != "object" {
		t.Errorf("schema: %v", got)
	}
	if a := w.ask(admin, "POST", "/tools/generate-schema", `{"code":"x = '`+canary+`'"}`); a.status != 400 ||
		!strings.Contains(a.body, "Schema generation failed: ") {
		t.Errorf("no function: %+v", a)
	}
	if a := w.ask(admin, "POST", "/tools/generate-tool", `{"tool_name":"x"}`); a.status != 501 {
		t.Errorf("no model: %+v", a)
	}
}
