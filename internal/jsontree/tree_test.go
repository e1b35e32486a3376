package jsontree_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"haft/internal/jsontree"
)

var limits = jsontree.Limits{Bytes: 1 << 20, Depth: 128, Values: 100_000, AnyNumber: true}

func decode(text []byte) (any, error) { return jsontree.Decode(text, limits) }

func encode(t testing.TB, v any) string {
	t.Helper()
	raw, err := jsontree.Encode(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

func TestDecode_keeps_text_as_it_is(t *testing.T) {
	for _, text := range []string{
		`{"z":1,"a":2,"m":{"y":null,"b":[true,false]}}`,
		`{"big":123456789012345678901234567890,"exact":1.10,"exponent":1e400}`,
		`{"html":"<b>&</b>","unicode":"ä 漢 😀","":""}`,
		`[]`, `{}`, `"text"`, `null`, `-0`,
	} {
		v, err := decode([]byte(text))
		if err != nil {
			t.Errorf("Decode(%s): %v", text, err)
			continue
		}
		if got := encode(t, v); got != text {
			t.Errorf("Encode(Decode(%s)) = %s", text, got)
		}
	}
}

func TestDecode_refuses(t *testing.T) {
	for _, tt := range []struct {
		name, text string
		offset     int64
		message    string
	}{
		{"a key twice", `{"a":1,"a":2}`, 7, "a key stands twice in one object"},
		{"a key twice below", `[{"a":{"b":1,"b":1}}]`, 13, "a key stands twice in one object"},
		{"something after the end", `{} x`, 3, "expected the end: there is something after the value"},
		{"an end that comes early", `{"a":`, 5, "expected a value, but the text ends"},
		{"nothing", ``, 0, "expected a value, but the text ends"},
		{"what is not JSON", `{"a":nope}`, 5, "expected a value"},
		{"a comment", `// x`, 0, "expected a value: JSON has no comments"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, err := decode([]byte(tt.text))
			e, ok := errors.AsType[*jsontree.SyntaxError](err)
			if !ok {
				t.Fatalf("Decode(%s) = %v, want a SyntaxError", tt.text, err)
			}
			if e.Message != tt.message {
				t.Errorf("message = %q, want %q", e.Message, tt.message)
			}
			if diff := e.Offset - tt.offset; diff < -1 || diff > 1 {
				t.Errorf("offset = %d, want about %d", e.Offset, tt.offset)
			}
			if want := fmt.Sprintf("at byte %d: %s", e.Offset, e.Message); e.Error() != want {
				t.Errorf("Error() = %q, want %q", e.Error(), want)
			}
		})
	}
}

func TestDecode_bounds(t *testing.T) {
	nested := func(n int) []byte { return []byte(strings.Repeat("[", n) + strings.Repeat("]", n)) }
	if _, err := decode(nested(limits.Depth)); err != nil {
		t.Errorf("%d levels: %v", limits.Depth, err)
	}
	for _, n := range []int{limits.Depth + 2, 1_000_000} {
		_, err := decode(nested(n))
		if _, ok := errors.AsType[*jsontree.SyntaxError](err); !ok {
			t.Errorf("%d levels: %v, want a SyntaxError", n, err)
		}
	}
	big := []byte(`"` + strings.Repeat("x", limits.Bytes) + `"`)
	if _, err := decode(big); err == nil {
		t.Errorf("%d bytes: no error", len(big))
	}
	var wide strings.Builder
	for i := range 1_000_000 {
		fmt.Fprintf(&wide, `,"k%d":1`, i)
	}
	if _, err := decode([]byte("{" + wide.String()[1:] + "}")); err == nil {
		t.Error("a million keys: no error")
	}
	if _, err := decode(big[2:]); err == nil {
		t.Error("a string without a beginning: no error")
	}
}

func TestDecode_error_quotes_nothing(t *testing.T) {
	_, err := decode([]byte(`{"password":"hunter2","password":"hunter3", x}`))
	if err == nil || strings.Contains(err.Error(), "hunter") || strings.Contains(err.Error(), "password") {
		t.Errorf("error = %v, want one without the text", err)
	}
}

func TestObject_remembers_order(t *testing.T) {
	o := jsontree.New("b", 1, "a", "x", "c", nil)
	o.Set("a", "y").Set("d", []any{true})
	o.Delete("b")
	o.Delete("missing")
	if diff := cmp.Diff([]string{"a", "c", "d"}, o.Keys()); diff != "" {
		t.Errorf("keys (-want +got):\n%s", diff)
	}
	if got, want := encode(t, o), `{"a":"y","c":null,"d":[true]}`; got != want {
		t.Errorf("JSON = %s, want %s", got, want)
	}
	if o.Len() != 3 || !o.Has("c") || o.Has("b") || o.Value("b") != nil {
		t.Errorf("Len, Has or Value disagree with the keys of %s", encode(t, o))
	}
	if o.String("a") != "y" || o.String("d") != "" || o.Object("a") != nil || o.Array("a") != nil ||
		len(o.Array("d")) != 1 {
		t.Error("a getter returns a value of another type")
	}
}

func TestObject_zero_value_is_empty(t *testing.T) {
	var o jsontree.Object
	if o.Len() != 0 || o.Has("a") || o.String("a") != "" || encode(t, &o) != "{}" {
		t.Error("the zero Object is not an empty object")
	}
	o.Delete("a")
	if encode(t, o.Set("a", 1)) != `{"a":1}` {
		t.Error("the zero Object cannot be set")
	}
}

func TestObject_reports_what_cannot_be_written(t *testing.T) {
	_, err := jsontree.Encode(jsontree.New("a", jsontree.New("b", func() {})))
	if _, ok := errors.AsType[*json.UnsupportedTypeError](err); !ok {
		t.Errorf("error = %v, want an UnsupportedTypeError", err)
	}
}

func TestClone_shares_nothing(t *testing.T) {
	o := jsontree.New("list", []any{jsontree.New("x", 1)}, "in", jsontree.New("y", 2))
	before := encode(t, o)
	c := jsontree.Clone(o).(*jsontree.Object)
	c.Object("in").Set("y", 3)
	c.Array("list")[0].(*jsontree.Object).Set("x", 3)
	c.Array("list")[0] = nil
	c.Delete("in")
	if after := encode(t, o); after != before {
		t.Errorf("the original became %s", after)
	}
}

func FuzzDecode(f *testing.F) {
	for _, s := range []string{`{"a":[1,{"b":null}],"c":"<"}`, `{"a":1,"a":1}`, `[[[`, `"\ud800"`, `1e999`, `{"a":tru}`,
		"\x00"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		v, err := decode(text)
		if err != nil {
			e, ok := errors.AsType[*jsontree.SyntaxError](err)
			if !ok || e.Offset < 0 || e.Offset > int64(len(text)) {
				t.Fatalf("Decode(%q) = %v", text, err)
			}
			return
		}
		if !json.Valid(text) {
			t.Fatalf("Decode accepts %q, which is not JSON", text)
		}
		once := encode(t, v)
		again, err := decode([]byte(once))
		if err != nil {
			t.Fatalf("Decode(%q), which Encode wrote: %v", once, err)
		}
		if twice := encode(t, again); once != twice {
			t.Fatalf("%q becomes %q", once, twice)
		}
		if c := encode(t, jsontree.Clone(v)); c != once {
			t.Fatalf("Clone(%q) = %q", once, c)
		}
	})
}
