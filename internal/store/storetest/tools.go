package storetest

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"haft"
	"haft/internal/store"
)

func toolVersions(t testing.TB, s *store.Store) {
	ctx := t.Context()
	first := tool("acme", "add", "d1", "adds")
	first.Version.Settings = haft.Settings{Cacheable: true, Limits: haft.Limits{Memory: 5}}
	first.Version.Review = haft.Review{State: haft.ReviewPassed, By: "bob", At: at,
		Findings: []haft.Finding{{Rule: "r", Severity: haft.SeverityLow}}}
	first.Version.Parameters = json.RawMessage(`{"type":"object","maximum":1.50,"x-unknown":{"é":"<>"}}`)
	kept, created, unchanged, err := s.Tools.PutTool(ctx, first, store.PutOptions{Activate: true})
	if err != nil || !created || unchanged || kept.ID == "" || kept.Version.Number != 1 {
		t.Fatalf("PutTool = %+v, %v, %v, %v", kept, created, unchanged, err)
	}
	want := first
	want.ID, want.Created, want.Version.Number = kept.ID, at, 1
	for _, ref := range []string{"add", string(kept.ID)} {
		got, err := s.Tools.Tool(ctx, "acme", ref)
		if err != nil {
			t.Fatalf("Tool(%s): %v", ref, err)
		}
		same(t, "Tool", *got, want)
	}
	id, number, updated, err := s.Tools.ToolStamp(ctx, "acme", "add")
	if err != nil || id != kept.ID || number != 1 || !updated.Equal(at) {
		t.Errorf("ToolStamp = %s, %d, %v, %v", id, number, updated, err)
	}
	again, created, unchanged, err := s.Tools.PutTool(ctx, first, store.PutOptions{Activate: true})
	if err != nil || created || !unchanged || again.Version.Number != 1 || !again.Updated.Equal(at) {
		t.Errorf("PutTool of the same = %+v, %v, %v, %v", again, created, unchanged, err)
	}
	first.Category = "other"
	again, _, unchanged, err = s.Tools.PutTool(ctx, first, store.PutOptions{Activate: true})
	if err != nil || !unchanged || again.Version.Number != 1 || again.Category != "other" || !again.Updated.After(at) {
		t.Errorf("PutTool of another category = %+v, %v, %v", again, unchanged, err)
	}
	put(t, s, tool("acme", "add", "d2", "adds well"))
	put(t, s, tool("acme", "add", "d1", "adds"))
	list, err := s.Tools.Versions(ctx, "acme", kept.ID, 0, 0)
	if err != nil || versions(list) != "3:d1 2:d2 1:d1" {
		t.Errorf("Versions = %s, %v", versions(list), err)
	}
	list, err = s.Tools.Versions(ctx, "acme", kept.ID, 3, 1)
	if err != nil || versions(list) != "2:d2" {
		t.Errorf("Versions(before 3, 1) = %s, %v", versions(list), err)
	}
	v, err := s.Tools.Version(ctx, "acme", kept.ID, 1)
	if err != nil {
		t.Fatalf("Version: %v", err)
	}
	same(t, "Version", *v, want.Version)
	if v, err := s.Tools.VersionByDigest(ctx, "acme", kept.ID, "d1"); err != nil || v.Number != 3 {
		t.Errorf("VersionByDigest = %+v, %v", v, err)
	}
	_, err = s.Tools.Version(ctx, "acme", kept.ID, 4)
	refused(t, "Version 4", err, haft.CodeNotFound)
	_, err = s.Tools.VersionByDigest(ctx, "acme", kept.ID, "d3")
	refused(t, "Version d3", err, haft.CodeNotFound)
	if err := s.Tools.RemoveTool(ctx, "acme", kept.ID, ""); err != nil {
		t.Errorf("RemoveTool: %v", err)
	}
	refused(t, "RemoveTool again", s.Tools.RemoveTool(ctx, "acme", kept.ID, ""), haft.CodeNotFound)
	_, err = s.Tools.Version(ctx, "acme", kept.ID, 1)
	refused(t, "Version of a tool that was removed", err, haft.CodeNotFound)
	if found, err := s.Tools.SearchTools(ctx, "acme", "add", 0); err != nil || len(found) != 0 {
		t.Errorf("a tool that was removed is found: %v", err)
	}
	if back := put(t, s, tool("acme", "add", "d1", "adds")); back.ID == kept.ID || back.Version.Number != 1 {
		t.Errorf("a tool that was removed comes back as %+v", back)
	}
}

// versions lists numbers and digests.
func versions(list []haft.Version) string {
	var all []string
	for _, v := range list {
		all = append(all, fmt.Sprintf("%d:%s", v.Number, v.Digest))
	}
	return strings.Join(all, " ")
}

func toolReview(t testing.TB, s *store.Store) {
	ctx := t.Context()
	waiting := tool("acme", "add", "d1", "adds things")
	waiting.Version.Review.State = haft.ReviewWaiting
	kept, created, _, err := s.Tools.PutTool(ctx, waiting, store.PutOptions{})
	if err != nil || !created || kept.Version.Number != 1 {
		t.Fatalf("PutTool = %+v, %v, %v", kept, created, err)
	}
	current := func(want int) {
		t.Helper()
		got, err := s.Tools.Tool(ctx, "acme", "add")
		_, number, _, err2 := s.Tools.ToolStamp(ctx, "acme", "add")
		if err := errors.Join(err, err2); err != nil || got.Version.Number != want || number != want {
			t.Errorf("the current version is %+v and %d, %v, want %d", got, number, err, want)
		}
	}
	current(0)
	if found, err := s.Tools.SearchTools(ctx, "acme", "things", 0); err != nil || len(found) != 1 {
		t.Errorf("a tool that waits is not found: %v", err)
	}
	if again, _, unchanged, err := s.Tools.PutTool(ctx, waiting, store.PutOptions{}); err != nil || !unchanged ||
		again.Version.Number != 1 {
		t.Errorf("the same once more = %+v, %v, %v", again, unchanged, err)
	}
	said := haft.Review{State: haft.ReviewPassed, By: "bob", At: at}
	if got, err := s.Tools.SetReview(ctx, "acme", kept.ID, "", 1, said, true); err != nil || got.Version.Number != 1 ||
		!cmp.Equal(got.Version.Review, said) {
		t.Errorf("SetReview = %+v, %v", got, err)
	}
	current(1)
	next := tool("acme", "add", "d2", "adds")
	next.Category, next.Version.Review.State = "sneaky", haft.ReviewWaiting
	if got, _, _, err := s.Tools.PutTool(ctx, next, store.PutOptions{}); err != nil || got.Version.Number != 2 ||
		got.Category != "math" {
		t.Errorf("PutTool of one that waits = %+v, %v", got, err)
	}
	current(1)
	if got, err := s.Tools.SetReview(ctx, "acme", kept.ID, "", 2, haft.Review{State: haft.ReviewRefused},
		false); err != nil || got.Version.Number != 1 {
		t.Errorf("SetReview = %+v, %v", got, err)
	}
	if v, err := s.Tools.Version(ctx, "acme", kept.ID, 2); err != nil || v.Review.State != haft.ReviewRefused {
		t.Errorf("Version = %+v, %v", v, err)
	}
	if got, _, unchanged, err := s.Tools.PutTool(ctx, next, store.PutOptions{}); err != nil || unchanged ||
		got.Version.Number != 3 {
		t.Errorf("what was refused and comes again = %+v, %v, %v", got, unchanged, err)
	}
	_, err = s.Tools.SetReview(ctx, "acme", kept.ID, "", 9, said, true)
	refused(t, "SetReview of no version", err, haft.CodeNotFound)
	_, err = s.Tools.SetReview(ctx, "other", kept.ID, "", 2, said, true)
	refused(t, "SetReview by a stranger", err, haft.CodeNotFound)
	current(1)
}

func toolSet(t testing.TB, s *store.Store) {
	ctx := t.Context()
	kept := put(t, s, tool("acme", "add", "d1", "adds"), tool("acme", "add", "d2", "sums"))
	before := kept.Updated
	got, err := s.Tools.SetTool(ctx, "acme", kept.ID, "", func(t *haft.Tool) error {
		t.Disabled, t.Category, t.Tags, t.Version.Number = true, "new", []string{"z"}, 1
		t.Name, t.Org, t.ID, t.Version.Source = "other", "other", "other", "changed"
		return nil
	})
	if err != nil {
		t.Fatalf("SetTool: %v", err)
	}
	read, err := s.Tools.Tool(ctx, "acme", "add")
	if err != nil {
		t.Fatalf("Tool: %v", err)
	}
	same(t, "Tool after SetTool", *read, *got)
	if !got.Disabled || got.Category != "new" || got.Version.Digest != "d1" ||
		got.Version.Source != kept.Version.Source || !got.Updated.After(before) || got.ID != kept.ID {
		t.Errorf("SetTool = %+v", got)
	}
	for text, want := range map[string]string{"adds": "add", "sums": "", "z": "add", "math": ""} {
		if found, err := s.Tools.SearchTools(ctx, "acme", text, 0); err != nil || names(found) != want {
			t.Errorf("SearchTools(%q) = %q, %v, want %q", text, names(found), err, want)
		}
	}
	_, err = s.Tools.SetTool(ctx, "acme", kept.ID, "", func(t *haft.Tool) error { t.Version.Number = 9; return nil })
	refused(t, "SetTool to no version", err, haft.CodeNotFound)
	_, err = s.Tools.SetTool(ctx, "other", kept.ID, "",
		func(*haft.Tool) error { t.Error("a stranger sees the tool"); return nil })
	refused(t, "SetTool by a stranger", err, haft.CodeNotFound)
	_, err = s.Tools.SetTool(ctx, "acme", kept.ID, "", func(t *haft.Tool) error {
		t.Category = "lost"
		return &haft.Error{Code: haft.CodeDenied, Message: "no"}
	})
	refused(t, "SetTool that is refused", err, haft.CodeDenied)
	got, err = s.Tools.SetTool(ctx, "acme", kept.ID, "",
		func(t *haft.Tool) error { t.Version.Review.State = haft.ReviewPassed; return nil })
	if err != nil || got.Category != "new" || got.Version.Review.State != haft.ReviewPassed {
		t.Errorf("SetTool of a review = %+v, %v", got, err)
	}
	var wg sync.WaitGroup
	for i := range 20 {
		wg.Go(func() {
			if _, err := s.Tools.SetTool(ctx, "acme", kept.ID, "",
				func(t *haft.Tool) error { t.Tags = append(t.Tags, count("t", i)); return nil }); err != nil {
				t.Errorf("SetTool: %v", err)
			}
		})
	}
	wg.Wait()
	if got, err := s.Tools.Tool(ctx, "acme", "add"); err != nil || len(got.Tags) != 21 {
		t.Errorf("%d of 21 tags are kept, %v", len(got.Tags), err)
	}
}

func toolConditions(t testing.TB, s *store.Store) {
	try := func(name, digest string, opts store.PutOptions, want haft.Code) {
		t.Helper()
		opts.Activate = true
		_, _, _, err := s.Tools.PutTool(t.Context(), tool("acme", name, digest, "x"), opts)
		if haft.CodeOf(err) != want {
			t.Errorf("PutTool(%s, %s, %+v): %v, want %q", name, digest, opts, err, want)
		}
	}
	try("a", "d1", store.PutOptions{IfDigest: "d0"}, haft.CodeConflict)
	try("a", "d1", store.PutOptions{New: true}, "")
	try("a", "d2", store.PutOptions{New: true}, haft.CodeConflict)
	try("a", "d2", store.PutOptions{IfDigest: "d0"}, haft.CodeConflict)
	try("a", "d2", store.PutOptions{IfDigest: "d1"}, "")
	for _, name := range []string{"", strings.Repeat("x", 1000), "a\x00", "\xff"} {
		try(name, "d1", store.PutOptions{}, haft.CodeInvalid)
	}
	big := tool("acme", "big", "d1", "x")
	big.Version.Source = strings.Repeat("x", store.MaxVersion)
	_, _, _, err := s.Tools.PutTool(t.Context(), big, store.PutOptions{})
	refused(t, "PutTool of a huge source", err, haft.CodeInvalid)
	_, _, _, err = s.Tools.PutTool(t.Context(), tool("", "a", "d", "x"), store.PutOptions{})
	refused(t, "PutTool of nobody", err, haft.CodeInvalid)
	a, err := s.Tools.Tool(t.Context(), "acme", "a")
	if err != nil {
		t.Fatalf("Tool: %v", err)
	}
	thief := tool("other", "b", "d", "x")
	thief.ID = a.ID
	_, _, _, err = s.Tools.PutTool(t.Context(), thief, store.PutOptions{})
	refused(t, "PutTool with the id of another organisation's", err, haft.CodeConflict)
	named := tool("acme", string(a.ID), "d9", "x")
	put(t, s, named)
	if got, err := s.Tools.Tool(t.Context(), "acme", string(a.ID)); err != nil || got.Name != "a" {
		t.Errorf("a tool named like the id of another passes for it: %+v, %v", got, err)
	}
	if id, _, _, err := s.Tools.ToolStamp(t.Context(), "acme", string(a.ID)); err != nil || id != a.ID {
		t.Errorf("a tool named like the id of another has its stamp: %v", err)
	}
}

func toolRace(t testing.TB, s *store.Store) {
	var wg sync.WaitGroup
	var created, kept atomic.Int64
	for i := range 16 {
		wg.Go(func() {
			_, fresh, _, err := s.Tools.PutTool(t.Context(), tool("acme", "add", count("d", i), "x"),
				store.PutOptions{Activate: true})
			if err != nil {
				t.Errorf("PutTool: %v", err)
			}
			if fresh {
				created.Add(1)
			}
			if _, _, _, err := s.Tools.PutTool(t.Context(), tool("acme", "once", count("d", i), "x"),
				store.PutOptions{New: true, Activate: true}); err == nil {
				kept.Add(1)
			} else if haft.CodeOf(err) != haft.CodeConflict {
				t.Errorf("PutTool of a new one: %v", err)
			}
		})
	}
	wg.Wait()
	got, err := s.Tools.Tool(t.Context(), "acme", "add")
	if err != nil || got.Version.Number != 16 || created.Load() != 1 || kept.Load() != 1 {
		t.Errorf("16 at once made %d tools, %d new ones and version %+v, %v", created.Load(), kept.Load(), got, err)
	}
}

func toolPages(t testing.TB, s *store.Store) {
	for _, name := range []string{"b", "B", "a", "_a", "a-b", "a_b", "ab", "Z", "é"} {
		tool := tool("acme", name, "d", "x")
		if name == "ab" {
			tool.Category, tool.Tags, tool.Version.Kind = "text", []string{"c", "c"}, haft.KindBash
		}
		put(t, s, tool)
	}
	put(t, s, tool("other", "aa", "d", "x"))
	off, err := s.Tools.Tool(t.Context(), "acme", "a_b")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Tools.SetTool(t.Context(), "acme", off.ID, "",
		func(t *haft.Tool) error { t.Disabled = true; return nil }); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		f    haft.ToolFilter
		want string
	}{
		{haft.ToolFilter{Disabled: true}, "B Z _a a a-b a_b ab b é"},
		{haft.ToolFilter{}, "B Z _a a a-b ab b é"},
		{haft.ToolFilter{After: "a", Limit: 2}, "a-b ab"},
		{haft.ToolFilter{After: "é"}, ""},
		{haft.ToolFilter{Category: "text"}, "ab"},
		{haft.ToolFilter{Category: "math", After: "a-b"}, "b é"},
		{haft.ToolFilter{Tag: "c"}, "ab"},
		{haft.ToolFilter{Tag: "a", Limit: 3}, "B Z _a"},
		{haft.ToolFilter{Tag: "a", After: "a"}, "a-b b é"},
		{haft.ToolFilter{Tag: "a", Category: "text"}, ""},
		{haft.ToolFilter{Kind: haft.KindBash}, "ab"},
		{haft.ToolFilter{Kind: haft.KindPython, Tag: "a", Category: "math", After: "a-b"}, "b é"},
		{haft.ToolFilter{Tag: "nobody's"}, ""},
		{haft.ToolFilter{Search: "ab"}, "ab"},
		{haft.ToolFilter{Search: "x", Tag: "c"}, "ab"},
		{haft.ToolFilter{Search: "x", Kind: haft.KindPython, Category: "text"}, ""},
	} {
		list, err := s.Tools.Tools(t.Context(), "acme", tt.f)
		if err != nil || names(list) != tt.want {
			t.Errorf("Tools(%+v) = %q, %v, want %q", tt.f, names(list), err, tt.want)
		}
	}
}

func toolIsolation(t testing.TB, s *store.Store) {
	ctx := t.Context()
	mine, theirs := put(t, s, tool("acme", "add", "d", "mine")), put(t, s, tool("other", "add", "d", "theirs"))
	if mine.ID == theirs.ID {
		t.Fatal("two tools have one id")
	}
	_, err := s.Tools.Tool(ctx, "acme", string(theirs.ID))
	refused(t, "Tool", err, haft.CodeNotFound)
	_, _, _, err = s.Tools.ToolStamp(ctx, "acme", string(theirs.ID))
	refused(t, "ToolStamp", err, haft.CodeNotFound)
	_, err = s.Tools.Version(ctx, "acme", theirs.ID, 1)
	refused(t, "Version", err, haft.CodeNotFound)
	_, err = s.Tools.VersionByDigest(ctx, "acme", theirs.ID, "d")
	refused(t, "VersionByDigest", err, haft.CodeNotFound)
	if list, err := s.Tools.Versions(ctx, "acme", theirs.ID, 0, 0); err != nil || len(list) != 0 {
		t.Errorf("Versions = %v, %v", list, err)
	}
	refused(t, "RemoveTool", s.Tools.RemoveTool(ctx, "acme", theirs.ID, ""), haft.CodeNotFound)
	if found, err := s.Tools.SearchTools(ctx, "acme", "theirs", 0); err != nil || len(found) != 0 {
		t.Errorf("SearchTools = %v, %v", names(found), err)
	}
	if got, err := s.Tools.Tool(ctx, "other", "add"); err != nil || got.Version.Description != "theirs" {
		t.Errorf("Tool = %+v, %v", got, err)
	}
}

func searchWords(t testing.TB, s *store.Store) {
	named := func(name, description string, tags ...string) haft.Tool {
		tool := tool("acme", name, "d", description)
		tool.Category, tool.Tags = "", tags
		return tool
	}
	put(t, s,
		named("send_email", "Sends a message to somebody over SMTP."),
		named("readMail", "Reads the inbox.", "email"),
		named("fetch_weather", "Says how the weather will be. Uses email of nobody."),
		named("weather_map", "Draws a map."),
		named("übersetzen", "Übersetzt Text; 日本語 auch."),
		named("sql_query", "Runs SELECT 'x' -- %; DROP TABLE", "database"),
	)
	for _, tt := range []struct{ text, want string }{
		{"email", "send_email readMail fetch_weather"},
		{"EMAIL", "send_email readMail fetch_weather"},
		{"weather", "fetch_weather weather_map"},
		{"weather map", "weather_map fetch_weather"},
		{"fetch_weather", "fetch_weather weather_map"},
		{"weath", "fetch_weather weather_map"},
		{"send mes", "send_email"},
		{"mail", "readMail"},
		{"ÜBERSETZ", "übersetzen"},
		{"日本", "übersetzen"},
		{"%", ""}, {"'", ""}, {"", ""}, {" \x00\xff ", ""},
		{"databas", "sql_query"},
		{"nothing at all", ""},
		{"weather zzzz", "fetch_weather weather_map"},
		{strings.Repeat("email ", 10_000), "send_email readMail fetch_weather"},
	} {
		list, err := s.Tools.SearchTools(t.Context(), "acme", tt.text, 0)
		got := names(list)
		if tt.text == "weather" || tt.text == "weath" || tt.text == "weather zzzz" {
			// Both are named so: either may be first.
			got = strings.Join(sorted(strings.Fields(got)), " ")
		}
		if err != nil || got != tt.want {
			t.Errorf("SearchTools(%.30q) = %q, %v, want %q", tt.text, got, err, tt.want)
		}
	}
	if list, err := s.Tools.SearchTools(t.Context(), "acme", "email", 1); err != nil || names(list) != "send_email" {
		t.Errorf("SearchTools of one = %q, %v", names(list), err)
	}
}

func searchMany(t testing.TB, s *store.Store) {
	for i := range 400 { // more than are looked at
		tool := tool("acme", count("tool", i), "d", "common words of all tools")
		tool.Updated = at.Add(time.Duration(i))
		if i == 399 {
			tool.Version.Description = "common rare words of all tools"
		}
		put(t, s, tool)
	}
	for text, want := range map[string]int{"common": store.DefaultFound, "common words": store.DefaultFound,
		"common rare": 2, "rare": 1} {
		list, err := s.Tools.SearchTools(t.Context(), "acme", text, 1000)
		if err != nil || len(list) < want {
			t.Errorf("SearchTools(%q) = %d, %v, want at least %d", text, len(list), err, want)
		}
		if strings.HasSuffix(text, "rare") && (len(list) == 0 || list[0].Name != "tool00399") {
			t.Errorf("SearchTools(%q) does not give the one that has it first: %.40s", text, names(list))
		}
	}
	if list, err := s.Tools.SearchTools(t.Context(), "acme", "rare", 1000); err != nil || len(list) != 1 {
		t.Errorf("SearchTools of a word that one has = %d, %v", len(list), err)
	}
	if list, err := s.Tools.SearchTools(t.Context(), "acme", "common", 0); err != nil ||
		len(list) != store.DefaultFound {
		t.Errorf("SearchTools = %d, %v", len(list), err)
	}
}
