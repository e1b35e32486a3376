package memorystore_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"haft"
)

func passagesKept(t *testing.T, w *world) {
	added, err := w.AddPassage(w.ctx(), "acme", "", a, "Ann likes tea. ✓", []string{"food", "ann", "food"})
	check(t, err)
	list, err := w.Passages(w.ctx(), "acme", a, haft.PassageFilter{})
	check(t, err)
	if len(list) != 1 || cmp.Diff(*added, list[0]) != "" || !strings.HasPrefix(string(added.ID), "passage-") {
		t.Errorf("kept is %+v, added was %+v", list, added)
	}
	want(t, "tags", fmt.Sprint(added.Tags), "[ann food]")
	refused(t, "that of another agent", w.RemovePassage(w.ctx(), "acme", b, added.ID), haft.CodeNotFound)
	check(t, w.RemovePassage(w.ctx(), "acme", a, added.ID))
	refused(t, "a removed one", w.RemovePassage(w.ctx(), "acme", a, added.ID), haft.CodeNotFound)
	want(t, "terms that are left", w.rows("memory_terms"), 0)
	_, err = w.AddPassage(w.ctx(), "acme", "", "ag_X", "text", nil)
	refused(t, "no such agent", err, haft.CodeNotFound)
}

func passagesFound(t *testing.T, w *world) {
	first := w.passage("first the deadline of Project Phoenix is in May")
	middle, err := w.Passages(w.ctx(), "acme", a, haft.PassageFilter{})
	check(t, err)
	after := middle[0].Created.Add(time.Microsecond)
	second := w.passage("second deadlines deadline deadline")
	third := w.passage("third getUserName 東京 phoenix")
	_, err = w.AddPassage(w.ctx(), "acme", "", b, "b deadline", nil)
	check(t, err)
	for name, tt := range map[string]struct {
		f    haft.PassageFilter
		want string
	}{
		"all":                   {haft.PassageFilter{}, "first second third"},
		"newest":                {haft.PassageFilter{Newest: true}, "third second first"},
		"a page":                {haft.PassageFilter{Limit: 2}, "first second"},
		"the next page":         {haft.PassageFilter{Limit: 2, After: second}, "third"},
		"the next newest":       {haft.PassageFilter{Newest: true, After: second}, "first"},
		"more often":            {haft.PassageFilter{Query: "deadline"}, "second first"},
		"more of the words":     {haft.PassageFilter{Query: "deadline phoenix"}, "first second third"},
		"case and punctuation":  {haft.PassageFilter{Query: "PHOENIX!"}, "first third"},
		"the newest of equals":  {haft.PassageFilter{Query: "phoenix", Newest: true}, "third first"},
		"the beginning of it":   {haft.PassageFilter{Query: "dead"}, "second first"},
		"too short a beginning": {haft.PassageFilter{Query: "de"}, ""},
		"camel case":            {haft.PassageFilter{Query: "username user"}, "third"},
		"other scripts":         {haft.PassageFilter{Query: "京"}, "third"},
		"limited":               {haft.PassageFilter{Query: "deadline", Limit: 1}, "second"},
		"since":                 {haft.PassageFilter{Query: "deadline", Since: after}, "second"},
		"till":                  {haft.PassageFilter{Query: "deadline", Till: after}, "first"},
		"since without a query": {haft.PassageFilter{Since: after}, "second third"},
		"till without a query":  {haft.PassageFilter{Till: after}, "first"},
		"till long ago":         {haft.PassageFilter{Till: time.Unix(-5, 0)}, ""},
		"since far away":        {haft.PassageFilter{Since: time.Unix(1<<40, 0)}, ""},
		"not there":             {haft.PassageFilter{Query: "zebra"}, ""},
		"no words":              {haft.PassageFilter{Query: "?! '"}, ""},
		"wildcards":             {haft.PassageFilter{Query: "% _ *"}, ""},
	} {
		want(t, name, w.found(tt.f), tt.want)
	}
	_, _ = first, third
	list, err := w.Passages(w.ctx(), "acme", a, haft.PassageFilter{Query: "deadline phoenix"})
	check(t, err)
	if list[0].Score <= list[1].Score || list[2].Score <= 0 {
		t.Errorf("scores are %v, %v, %v", list[0].Score, list[1].Score, list[2].Score)
	}
}

func passagesTagged(t *testing.T, w *world) {
	w.passage("one tea", "x", "food")
	two := w.passage("two tea", "x")
	w.passage("three tea", "y", "Food")
	w.passage("four")
	for name, tt := range map[string]struct {
		f    haft.PassageFilter
		want string
	}{
		"one tag":         {haft.PassageFilter{Tags: []string{"x"}}, "one two"},
		"any":             {haft.PassageFilter{Tags: []string{"y", "x"}}, "one two three"},
		"any, newest":     {haft.PassageFilter{Tags: []string{"y", "x"}, Newest: true, Limit: 2}, "three two"},
		"all":             {haft.PassageFilter{Tags: []string{"x", "food"}, AllTags: true}, "one"},
		"all of none":     {haft.PassageFilter{AllTags: true}, "one two three four"},
		"after":           {haft.PassageFilter{Tags: []string{"x", "y"}, After: two}, "three"},
		"a page":          {haft.PassageFilter{Tags: []string{"x", "y"}, Limit: 1}, "one"},
		"a word and any":  {haft.PassageFilter{Query: "tea", Tags: []string{"x", "Food"}}, "one two three"},
		"a word and all":  {haft.PassageFilter{Query: "tea", Tags: []string{"x", "food"}, AllTags: true}, "one"},
		"a beginning too": {haft.PassageFilter{Query: "thre", Tags: []string{"x"}}, ""},
		"no such tag":     {haft.PassageFilter{Tags: []string{"z"}}, ""},
		"a tag as a word": {haft.PassageFilter{Query: "#x"}, ""},
	} {
		want(t, name, w.found(tt.f), tt.want)
	}
	tags, err := w.PassageTags(w.ctx(), "acme", a)
	check(t, err)
	want(t, "tags", strings.Join(tags, " "), "Food food x y")
	tags, err = w.PassageTags(w.ctx(), "acme", b)
	check(t, err)
	want(t, "tags of another", len(tags), 0)
}

// passagesMany: what is rare is found among 3,000 that have the other words, and a search reads no more of a common
// word than its bound.
func passagesMany(t *testing.T, w *world) {
	const n = 3_000
	var wg sync.WaitGroup
	for part := range 8 {
		wg.Go(func() {
			for i := part; i < n; i += 8 {
				text := fmt.Sprintf("p%d common words of passage number %d", i, i)
				tags := []string{fmt.Sprint("t", i/8%10)} // each writer has all tags, whoever is last
				if i == 77 {
					text, tags = text+" needle", append(tags, "rare")
				}
				if _, err := w.AddPassage(w.ctx(), "acme", "", a, text, tags); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	want(t, "a rare word", w.found(haft.PassageFilter{Query: "needle common passage", Limit: 1}), "p77")
	want(t, "a rare tag", w.found(haft.PassageFilter{Tags: []string{"rare"}}), "p77")
	want(t, "all tags", w.found(haft.PassageFilter{Tags: []string{"t9", "rare"}, AllTags: true}), "p77")
	want(t, "a number", w.found(haft.PassageFilter{Query: "2424", Limit: 1}), "p2424")
	list, err := w.Passages(w.ctx(), "acme", a, haft.PassageFilter{Query: "common words of passage", Limit: 10_000})
	check(t, err)
	want(t, "a page of a common word", len(list), 100)
	list, err = w.Passages(w.ctx(), "acme", a, haft.PassageFilter{Query: "common", Tags: []string{"t1", "t3"}})
	check(t, err)
	for _, p := range list {
		if len(list) != 100 || p.Tags[0] != "t1" && p.Tags[0] != "t3" {
			t.Fatalf("of common tags there are %d, one with %v", len(list), p.Tags)
		}
	}
	tags, err := w.PassageTags(w.ctx(), "acme", a)
	check(t, err)
	want(t, "tags", len(tags), 11)
	for _, f := range []haft.PassageFilter{
		{Query: "a b common words of passage number needle", Tags: []string{"t1", "t2"}},
		{Query: "common words passage number needle", Tags: []string{"t9", "rare"}, AllTags: true},
	} {
		asked := w.db.Asked()
		w.found(f)
		if n := w.db.Asked() - asked; n > 45 {
			t.Errorf("a search took %d queries", n)
		}
	}
}

func passagesBounded(t *testing.T, w *world) {
	huge := strings.Repeat("x ", 50<<20)
	for name, tt := range map[string]struct {
		text string
		tags []string
	}{
		"no text":                 {" \n", nil},
		"a long text":             {strings.Repeat("ü", haft.MaxPassage+1), nil},
		"a huge text":             {huge, nil},
		"a NUL":                   {"a\x00", nil},
		"not UTF-8":               {"a\xff", nil},
		"many tags":               {"x", make([]string, haft.MaxPassageTags+1)},
		"an empty tag":            {"x", []string{""}},
		"a long tag":              {"x", []string{strings.Repeat("x", 101)}},
		"a tag with a NUL":        {"x", []string{"a\x00"}},
		"a tag with a line":       {"x", []string{"a\nb"}},
		"a tag that is not UTF-8": {"x", []string{"\xff"}},
	} {
		_, err := w.AddPassage(w.ctx(), "acme", "", a, tt.text, tt.tags)
		refused(t, name, err, haft.CodeInvalid)
	}
	for name, f := range map[string]haft.PassageFilter{"a huge query": {Query: huge},
		"a bad tag": {Tags: []string{"\x00"}}, "many tags": {Tags: make([]string, 51)}} {
		_, err := w.Passages(w.ctx(), "acme", a, f)
		refused(t, name, err, haft.CodeInvalid)
	}
	var text strings.Builder
	for i := range haft.MaxPassage / 5 {
		fmt.Fprintf(&text, "%04x ", i)
	}
	w.passage(text.String()) // of many words the first are kept
	want(t, "terms", w.rows("memory_terms"), 1000)
	want(t, "what was refused", w.rows("passages"), 1)
	w.exec("UPDATE memories SET passages = $1 WHERE agent = $2", haft.MaxPassages-1, string(a))
	last := w.passage("the last one")
	_, err := w.AddPassage(w.ctx(), "acme", "", a, "one too many", nil)
	refused(t, "one passage too many", err, haft.CodeConflict)
	check(t, w.RemovePassage(w.ctx(), "acme", a, last))
	w.passage("another last one")
	want(t, "a query with NUL and what is not UTF-8", w.found(haft.PassageFilter{Query: "\x000001\xff"}), "0000")
}
