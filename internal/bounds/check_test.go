package bounds_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"haft"
	"haft/internal/bounds"
)

// shape is that of {"name": text, "list": [{"name": text}], "map": {…: text}, "any": …}.
func shape() *bounds.Shape {
	text, item, list := &bounds.Shape{Text: 3}, &bounds.Shape{Closed: true}, &bounds.Shape{Items: 2}
	item.Field("name", text)
	list.Item = item
	s := &bounds.Shape{Closed: true}
	s.Field("name", text)
	s.Field("list", list)
	s.Field("map", &bounds.Shape{Members: 2, Name: 4, Rest: text})
	s.Field("any", nil)
	open := &bounds.Shape{}
	open.Field("kind", text)
	s.Field("open", open)
	return s
}

func TestCheck(t *testing.T) {
	limits := bounds.Limits{Values: 20, Depth: 4, Members: 5, Name: 10, Number: 8}
	deep := func(n int) string { return strings.Repeat("[", n) + strings.Repeat("]", n) }
	for _, tt := range []struct{ name, text, pointer, message string }{
		{"empty", `{}`, "", ""},
		{"at every bound", `{"name":"abc","list":[{"name":"ä€😀"},{}],"map":{"a":"","b":"abc"},"any":[1,2,3,4,5]}`, "",
			""},
		{"white space", " {\n\"name\" : \"a\" , \"list\" : [ ] }\t", "", ""},
		{"text", `{"name":"abcd"}`, "/name", "expected length <= 3"},
		{"text of wide characters", `{"name":"ä€😀x"}`, "/name", "expected length <= 3"},
		{"escapes count as what they mean", `{"name":"\u0061\n\ud83d\ude00"}`, "", ""},
		{"escapes past the bound", `{"name":"\u0061\n\ud83d\ude00\""}`, "/name", "expected length <= 3"},
		{"halves of pairs count", `{"name":"\ud83d\ud83d\ud83d\ud83d"}`, "/name", "expected length <= 3"},
		{"bytes that are no text count", "{\"name\":\"\xff\xff\xff\xff\"}", "/name", "expected length <= 3"},
		{"list", `{"list":[{},{},{}]}`, "/list", "expected array length <= 2"},
		{"text in a list", `{"list":[{},{"name":"abcd"}]}`, "/list/1/name", "expected length <= 3"},
		{"map", `{"map":{"a":"","b":"","c":""}}`, "/map", "expected at most 2 members"},
		{"name in a map", `{"map":{"abcde":""}}`, "/map", "expected names of at most 4 bytes"},
		{"text in a map", `{"map":{"a":"abcd"}}`, "/map/a", "expected length <= 3"},
		{"no field", `{"other":1}`, "/other", "unexpected property"},
		{"no field that could be a secret", `{"hunter 2":1}`, "/…", "unexpected property"},
		{"a field in another case", `{"Name":"abcdef"}`, "/Name", "unexpected property"},
		{"a field in another case of an open object", `{"open":{"other":"abcdef","KIND":"abcdef"}}`, "/open/KIND",
			"unexpected property"},
		{"in another case with escapes", `{"open":{"\u212aind":"abcdef"}}`, "/open/…", "unexpected property"},
		{"in a letter that folds", `{"open":{"Kind":"abcdef"}}`, "/open/…", "unexpected property"},
		{"a field with escapes", `{"n\u0061me":"abcdef"}`, "/…", "expected length <= 3"},
		{"a field twice", `{"name":"a","name":"b"}`, "/name", "a name stands there twice"},
		{"a field twice with escapes", `{"name":"a","n\u0061me":"b"}`, "/…", "a name stands there twice"},
		{"depth", `{"any":` + deep(3) + `}`, "", ""},
		{"too deep", `{"any":` + deep(4) + `}`, "/any/0/0/0", "expected at most 4 levels of nesting"},
		{"members of anything", `{"any":{"a":1,"b":1,"c":1,"d":1,"e":1,"f":1}}`, "/any", "expected at most 5 members"},
		{"names of anything", `{"any":{"abcdefghijk":1}}`, "/any", "expected names of at most 10 bytes"},
		{"digits", `{"any":123456789}`, "/any", "expected a number of at most 8 characters"},
		{"values", `{"any":[1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20]}`, "/any/18",
			"there are more than 20 values in all"},
		{"a quote behind slashes", `{"name":"\\\\"}`, "", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			err := bounds.Check([]byte(tt.text), limits, shape())
			if tt.message == "" {
				if err != nil {
					t.Fatal(err)
				}
				return
			}
			e, ok := errors.AsType[*haft.Error](err)
			if !ok || e.Code != haft.CodeInvalid || len(e.Misfits) != 1 ||
				e.Misfits[0] != (haft.Misfit{Pointer: tt.pointer, Message: tt.message}) {
				t.Errorf("got %+v", err)
			}
		})
	}
}

func TestCheck_says_what_is_no_JSON(t *testing.T) {
	for _, text := range []string{``, ` `, `{`, `[`, `"`, `"\"`, `{"a"}`, `{"a":}`, `[1,]`, `{"a":1,}`, `{} {}`, `{}x`,
		`{1:2}`, `[1 2]`, `{"a" 1}`, `'a'`} {
		if err := bounds.Check([]byte(text), bounds.Default(), nil); !errors.Is(err, bounds.ErrSyntax) {
			t.Errorf("%q: %v", text, err)
		}
	}
}

// What a decoder reads is never taken for something else, and a text is counted as
// the decoder understands it.
func FuzzCheck(f *testing.F) {
	for _, text := range []string{`{"name":"abc"}`, `{"list":[{}]}`, `"\ud800\udc00"`, `[[1e9,-0.5,null,true]]`,
		`{"map":{"a":"\\"}}`} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		err := bounds.Check([]byte(text), bounds.Limits{}, nil)
		if json.Valid([]byte(text)) && err != nil {
			t.Fatalf("%q: %v", text, err)
		}
		var s string
		if json.Unmarshal([]byte(text), &s) != nil || !strings.HasPrefix(strings.TrimSpace(text), `"`) {
			return
		}
		n := len([]rune(s))
		if err := bounds.Check([]byte(text), bounds.Limits{}, &bounds.Shape{Text: max(n, 1)}); err != nil {
			t.Fatalf("%q has %d characters: %v", text, n, err)
		}
		if n > 1 && bounds.Check([]byte(text), bounds.Limits{}, &bounds.Shape{Text: n - 1}) == nil {
			t.Fatalf("%q has %d characters, and passes as %d", text, n, n-1)
		}
	})
}

// Nothing is allocated for what fits, however large.
func TestCheck_allocates_nothing(t *testing.T) {
	text := []byte(`{"any":[` + strings.TrimSuffix(strings.Repeat(`{"a":"b","c":[1,2.5e3,null]},`, 10_000), ",") +
		`],"list":[{"name":"a"}]}`)
	s, limits := shape(), bounds.Default()
	if n := testing.AllocsPerRun(5, func() {
		if err := bounds.Check(text, limits, s); err != nil {
			t.Fatal(err)
		}
	}); n > 0 {
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkCheck(b *testing.B) {
	text := []byte(`{"any":[` + strings.TrimSuffix(strings.Repeat(`{"a":"some text","c":[1,2.5e3,null]},`, 10_000),
		",") + `],"list":[{"name":"a"}]}`)
	s, limits := shape(), bounds.Default()
	b.SetBytes(int64(len(text)))
	for b.Loop() {
		if err := bounds.Check(text, limits, s); err != nil {
			b.Fatal(err)
		}
	}
}
