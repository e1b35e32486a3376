package letta_test

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"haft"
	"haft/compat/letta"
	"haft/internal/store"
)

// fullSettings has a value in every field: see unset.
func fullSettings() haft.Settings {
	s := haft.Settings{
		Network: []string{"api.example.com"}, Secrets: []string{"TOKEN"}, Programs: []string{"git"},
		Sandbox:      "local",
		MinIsolation: haft.Levels()[1], RequiresApproval: true, Parallel: true,
		Idempotent: true, Cacheable: true, CacheFor: 1000, NoArtifacts: true, AuditFiles: true, Letta: true,
		Roles: []string{"chief"},
		Retry: haft.Backoff{Strategy: haft.Constant, Tries: 2, Initial: 100, Max: 1000, Stretch: 2},
		Rate:  haft.Rate{Calls: 5, Within: 60000000, PerSecond: 2, Burst: 3}, Concurrency: 4, Fallback: "other",
		OnError: []haft.Reaction{{Kinds: []haft.FailureKind{haft.FailTimeout}, Value: json.RawMessage(`1`)}},
		Output: haft.Output{Type: haft.OutputText, Validators: []string{"value != 'x'"}, Strict: true,
			MaxChars: 77},
	}
	l := reflect.ValueOf(&s.Limits).Elem()
	for i := range l.NumField() {
		l.Field(i).SetInt(1 << 20)
	}
	s.Limits.Processes, s.Limits.OpenFiles, s.Limits.Artifacts, s.Limits.Inodes, s.Limits.Wall, s.Limits.CPU = 8, 64, 4,
		100, 5000, 5000
	return s
}

// unset names the fields of v that are not set.
func unset(v reflect.Value, at string) []string {
	if v.Kind() != reflect.Struct {
		if v.IsZero() {
			return []string{at}
		}
		return nil
	}
	var all []string
	for i := range v.NumField() {
		all = append(all, unset(v.Field(i), at+"."+v.Type().Field(i).Name)...)
	}
	return all
}

// TestTools_upsert_keeps_every_setting: whatever a tool has stays, unless the request
// names it. A setting that is new has to be in fullSettings.
// kept is what an upsert must not lose.
type kept struct {
	Settings haft.Settings
	Needs    haft.Requirements
	Notes    haft.Annotations
	Tags     []string
	Category string
	File     string
	Files    []haft.ToolFile
}

func keptOf(tool haft.Tool, v haft.Version) kept {
	needs := haft.Requirements{Pip: append([]string(nil), v.Requirements.Pip...), NPM: v.Requirements.NPM}
	return kept{v.Settings, needs, v.Annotations, tool.Tags, tool.Category, v.File, v.Files}
}

func TestTools_upsert_keeps_every_setting(t *testing.T) {
	t.Parallel()
	full := fullSettings()
	if list := unset(reflect.ValueOf(full), ""); len(list) > 0 {
		t.Fatalf("the test says nothing about %v", list)
	}
	needs := haft.Requirements{Pip: []string{"six"}}
	yes := true
	notes := haft.Annotations{Title: "Deletes", ReadOnly: &yes, Destructive: &yes, Idempotent: &yes, OpenWorld: &yes}
	for name, tt := range map[string]struct {
		method, body string
		change       func(*haft.Version)
		warns        string
	}{
		"PUT that names nothing":  {method: "PUT", body: `{"source_code":"def wipe(a, b): return 2"}`},
		"POST that names nothing": {method: "POST", body: `{"source_code":"def wipe(a, b): return 2"}`},
		"PUT of the same source":  {method: "PUT", body: `{"source_code":"def wipe(a, b): pass"}`},
		"PUT with a schema of its name": {method: "PUT",
			body: `{"source_code":"def wipe(a, b): return 2","json_schema":{"name":"wipe","description":"The wipe tool","parameters":{"type":"object","properties":{}}}}`},
		"PUT with null for every field": {method: "PUT",
			body: `{"source_code":"def wipe(a, b): return 2","tags":null,"return_char_limit":null,"pip_requirements":null,"npm_requirements":null,"default_requires_approval":null,"enable_parallel_execution":null}`},
		"PATCH that names nothing": {method: "PATCH", body: `{"source_code":"def wipe(a, b): return 2"}`},
		"PATCH of the description": {method: "PATCH", body: `{"description":"Other."}`},
		"PUT that wants no approval": {method: "PUT",
			body:   `{"source_code":"def wipe(a, b): return 2","default_requires_approval":false}`,
			change: func(v *haft.Version) { v.Settings.RequiresApproval = false }, warns: "requires_approval"},
		"PATCH that wants no approval": {method: "PATCH", body: `{"default_requires_approval":false}`,
			change: func(v *haft.Version) { v.Settings.RequiresApproval = false }, warns: "requires_approval"},
		"PUT that raises the limit": {method: "PUT",
			body:   `{"source_code":"def wipe(a, b): return 2","return_char_limit":5000}`,
			change: func(v *haft.Version) { v.Settings.Output.MaxChars = 5000 }, warns: "output"},
		"PUT that lowers the limit": {method: "PUT",
			body:   `{"source_code":"def wipe(a, b): return 2","return_char_limit":5}`,
			change: func(v *haft.Version) { v.Settings.Output.MaxChars = 5 }},
		"PUT that is not parallel": {method: "PUT",
			body:   `{"source_code":"def wipe(a, b): return 2","enable_parallel_execution":false}`,
			change: func(v *haft.Version) { v.Settings.Parallel = false }},
		"PUT that needs no Python package": {method: "PUT",
			body:   `{"source_code":"def wipe(a, b): return 2","pip_requirements":[]}`,
			change: func(v *haft.Version) { v.Requirements.Pip = nil }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := setup(t)
			w.add("other")
			made := w.add("wipe")
			p := haftAdmin()
			d := haft.Draft{Name: "wipe", Kind: haft.KindPython, Source: "def wipe(a, b): pass", Function: "wipe",
				Settings: full, Needs: needs, Annotations: notes, Tags: []string{"danger"}, Category: "files",
				File: "clean.py", Files: []haft.ToolFile{{Path: "helper.py", Text: "x = 1"}}}
			if _, err := w.engine.PutTool(t.Context(), p, d); err != nil {
				t.Fatal(err)
			}
			before, err := w.engine.Tool(t.Context(), p, "wipe")
			if err != nil {
				t.Fatal(err)
			}
			path := "/tools/"
			if tt.method == "PATCH" {
				path += made.ID
			}
			a := w.ask(admin, tt.method, path, tt.body)
			if a.status != 200 {
				t.Fatalf("%+v", a)
			}
			after, err := w.engine.Tool(t.Context(), p, "wipe")
			if err != nil {
				t.Fatal(err)
			}
			want := before.Version
			if tt.change != nil {
				tt.change(&want)
			}
			if diff := cmp.Diff(keptOf(*before, want), keptOf(*after, after.Version)); diff != "" {
				t.Errorf("kept (-want +got):\n%s", diff)
			}
			var shown struct {
				Metadata struct {
					Haft struct{ Warnings []string } `json:"haft"`
				} `json:"metadata_"`
			}
			if err := json.Unmarshal([]byte(a.body), &shown); err != nil {
				t.Fatal(err)
			}
			warned := strings.Join(shown.Metadata.Haft.Warnings, "\n")
			if tt.warns != "" && !strings.Contains(warned, tt.warns) ||
				tt.warns == "" && strings.Contains(warned, "weaker") {
				t.Errorf("the answer warns of %q, want %q", warned, tt.warns)
			}
		})
	}
}

// A tool with an id of an older version of Haft is found in a list of tools, which leaves out the content of its files.
func TestTools_patch_keeps_the_files_of_an_old_tool(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.add("wipe")
	now, err := w.engine.Tool(t.Context(), haftAdmin(), "wipe")
	if err != nil {
		t.Fatal(err)
	}
	old := *now
	old.ID, old.Name, old.Version.Files = "old", "old", []haft.ToolFile{{Path: "helper.py", Text: "x = 1"}}
	old.Version.Source, old.Version.Function = "def old(a, b): pass", "old"
	if _, _, _, err := w.store.Tools.PutTool(t.Context(), old, store.PutOptions{Activate: true}); err != nil {
		t.Fatal(err)
	}
	a := w.ask(admin, "PATCH", "/tools/"+letta.ToolID(old.ID), `{"description":"Other."}`)
	after, err := w.engine.Tool(t.Context(), haftAdmin(), "old")
	if a.status != 200 || err != nil || after.Version.Description != "Other." ||
		cmp.Diff(after.Version.Files, old.Version.Files) != "" {
		t.Errorf("%d %s, %v, %+v", a.status, a.body, err, after.Version.Files)
	}
}

// Who changes a tool of somebody else does not become its creator (row 24 of docs/letta.md).
func TestUpsert_keeps_the_creator(t *testing.T) {
	t.Parallel()
	w := setup(t)
	type made struct {
		Created string `json:"created_by_id"`
		Updated string `json:"last_updated_by_id"`
	}
	one := w.add("one")
	first := must[made](w, 200, "GET", "/tools/"+one.ID, "")
	if r := w.ask("acme/bob/admin", "PATCH", "/tools/"+one.ID, `{"description":"Bob's."}`); r.status != 200 {
		t.Fatalf("a change by another: %d %s", r.status, r.body)
	}
	if got := must[made](w, 200, "GET", "/tools/"+one.ID, ""); got.Created != first.Created ||
		got.Updated == first.Updated {
		t.Errorf("created by %s and changed by %s, want %s and another", got.Created, got.Updated, first.Created)
	}
}
