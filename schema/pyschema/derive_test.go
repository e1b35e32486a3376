package pyschema_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"haft/schema"
	"haft/schema/pyschema"
)

// good is a tool that has nothing wrong.
const good = "def tool(a: int):\n    \"\"\"Do it.\n\n    Args:\n        a: One.\n    \"\"\"\n"

func TestDerive_accepts_text_of_all_kinds(t *testing.T) {
	tests := []struct{ name, source string }{
		{"plain", good},
		{"byte order mark", "\ufeff" + good},
		{"windows line ends", strings.ReplaceAll(good, "\n", "\r\n")},
		{"old mac line ends", strings.ReplaceAll(good, "\n", "\r")},
		{"tabs", strings.ReplaceAll(good, "    ", "\t")},
		{"latin-1 with its cookie", "# -*- coding: latin-1 -*-\n# caf\xe9\n" + good},
		{"form feed", "\f\n" + good},
		{"no newline at the end", strings.TrimRight(good, "\n")},
		{"shebang", "#!/usr/bin/env python3\n" + good},
		{"as large as it may be", good + strings.Repeat("#", schema.MaxSource-len(good))},
		{"after a long table of texts", "T = [" + strings.Repeat("'int', ", 5000) + "]\nU = " +
			strings.Repeat("[", 50) +
			strings.Repeat("]", 50) + "\n" + strings.ReplaceAll(good, "a: int", "a: 'int'")},
	}
	for _, p := range needPython(t) {
		for _, tt := range tests {
			t.Run(p.String()+" "+tt.name, func(t *testing.T) {
				t.Parallel()
				sig, err := pyschema.Derive(t.Context(), fresh(p), []byte(tt.source), schema.Options{})
				if err != nil {
					t.Fatal(err)
				}
				if d := sig.Parameters.Object("properties").Object("a").String("description"); d != "One." {
					t.Errorf("description of a = %q, want %q", d, "One.")
				}
			})
		}
	}
}

func TestDerive_refuses_bad_text_clearly(t *testing.T) {
	deep := func(open string, n int) string { return good + "x = " + strings.Repeat(open, n) }
	tests := []struct {
		name, source string
		line, column int // 0 for any
		want         string
	}{
		{"empty", "", 1, 1, "empty"},
		{"only a byte order mark", "\ufeff", 1, 1, "empty"},
		{"only blanks", " \n\t\n", 1, 1, "empty"},
		{"only a comment", "# nothing\n", 1, 1, "no function"},
		{"ten megabytes", strings.Repeat("x = 1\n", 10<<20/6), 1, 1, "bytes"},
		{"zero byte", good + "x = \x00", 7, 5, "zero byte"},
		{"binary", "\x7fELF\x02\x01\x01\x00\x00", 1, 8, "zero byte"},
		{"utf-16", "d\x00e\x00f\x00", 1, 2, "zero byte"},
		{"latin-1 without a cookie", good + "# caf\xe9", 7, 6, "UTF-8"},
		{"unknown cookie", "# coding: klingon\n" + good, 1, 0, "encoding"},
		{"syntax error", good + "def f(:\n", 7, 0, ""},
		{"unfinished text", "def f():\n    \"\"\"Do", 2, 0, ""},
		{"ten thousand parentheses", deep("(", 10_000), 7, 0, "too many nested"},
		{"ten thousand brackets", deep("[", 10_000), 7, 0, "too many nested"},
		{"ten thousand calls", deep("f(", 10_000), 7, 0, "too many nested"},
		{"ten thousand signs", deep("-", 10_000) + "1", 7, 0, "too deep"},
		{"ten thousand nots", deep("not ", 10_000) + "1", 7, 0, "too deep"},
		{"ten thousand lambdas", deep("lambda: ", 10_000) + "1", 7, 0, "too deep"},
		{"ten thousand powers", deep("1**", 10_000) + "1", 7, 0, "too deep"},
		{"ten thousand else ifs", "if a: pass\n" + strings.Repeat("elif a: pass\n", 10_000), 0, 0, "too deep"},
		{"deep indentation", indented(150), 0, 0, "indentation"},
	}
	for _, p := range needPython(t) {
		for _, tt := range tests {
			t.Run(p.String()+" "+tt.name, func(t *testing.T) {
				t.Parallel()
				ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
				defer cancel()
				sig, err := pyschema.Derive(ctx, fresh(p), []byte(tt.source), schema.Options{})
				e, ok := errors.AsType[*schema.SourceError](err)
				if !ok {
					t.Fatalf("Derive = %v, %v, want a SourceError", sig, err)
				}
				if e.Line < 1 || e.Column < 1 || tt.line > 0 && e.Line != tt.line ||
					tt.column > 0 && e.Column != tt.column {
					t.Errorf("place = %d:%d, want %d:%d (%v)", e.Line, e.Column, tt.line, tt.column, e)
				}
				if !strings.Contains(e.Message, tt.want) {
					t.Errorf("message = %q, want something about %q", e.Message, tt.want)
				}
				if len(e.Message) > 500 {
					t.Errorf("the message has %d bytes", len(e.Message))
				}
			})
		}
	}
}

// indented returns blocks within blocks, n deep.
func indented(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "%sif 1:\n", strings.Repeat(" ", i))
	}
	return b.String()
}

// Long chains of operators are deep for a parser, but people write them. They are
// read or refused, in time.
func TestDerive_survives_long_chains(t *testing.T) {
	for _, p := range needPython(t) {
		for name, chain := range map[string]string{
			"attributes": "a" + strings.Repeat(".a", 100_000), "sums": "1" + strings.Repeat("+1", 100_000),
			"calls": "a" + strings.Repeat("()", 100_000), "ands": strings.Repeat("a and ", 50_000) + "a",
			"targets": strings.Repeat("x = ", 50_000) + "1", "texts": strings.Repeat("'a' ", 50_000),
			"subscripts": "a" + strings.Repeat("[0]", 100_000),
			"bars":       "def tool(a: int" + strings.Repeat(" | int", 20_000) + "): 'Do.'",
		} {
			t.Run(p.String()+" "+name, func(t *testing.T) {
				t.Parallel()
				ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
				defer cancel()
				_, err := pyschema.Derive(ctx, fresh(p), []byte(good+chain), schema.Options{})
				if _, ok := errors.AsType[*schema.SourceError](err); err != nil && !ok {
					t.Errorf("Derive = %v, want nothing or a SourceError", err)
				}
			})
		}
	}
}

// The script looks at the source and does not run it.
func TestDerive_runs_nothing(t *testing.T) {
	trace := filepath.Join(t.TempDir(), "trace")
	touch := fmt.Sprintf("open(%q, 'w').close()", trace)
	source := touch + "\nimport antigravity, this\nclass Meta(type):\n    " + touch + "\n" +
		"def deco(f):\n    " + touch + "\n    return f\n\n@deco\ndef tool(a: int = " + touch + ", b: \"" +
		strings.ReplaceAll(touch, `"`, `'`) + "\" = 1):\n    'Do.'\n"
	for _, p := range needPython(t) {
		_, err := pyschema.Derive(t.Context(), fresh(p), []byte(source), schema.Options{DescriptionsOptional: true})
		if _, ok := errors.AsType[*schema.SourceError](err); !ok {
			t.Errorf("Derive = %v, want a SourceError about the type of b", err)
		}
		if _, err := os.Stat(trace); !errors.Is(err, os.ErrNotExist) {
			t.Fatalf("the source was run: %v", err)
		}
	}
}

// New syntax in an old Python: the message says what is needed.
func TestDerive_says_which_python_is_needed(t *testing.T) {
	old := needPython(t)[0]
	tests := []struct {
		minor         int
		source, wants string
	}{
		{12, "type A = int\n" + good, "3.12"},
		{12, "def tool[T](a: T):\n    'Do.'\n", "3.12"},
		{12, "class A[T]:\n    pass\n" + good, "3.12"},
		{10, "match x:\n    case 1:\n        pass\n" + good, "3.10"},
		{11, "try:\n    pass\nexcept* ValueError:\n    pass\n" + good, "3.11"},
	}
	for _, tt := range tests {
		t.Run(tt.wants+" "+strings.Fields(tt.source)[0], func(t *testing.T) {
			if old.atLeast(tt.minor) {
				t.Skipf("MISSING: a Python older than 3.%d", tt.minor)
			}
			_, err := pyschema.Derive(t.Context(), fresh(old), []byte(tt.source), schema.Options{})
			if err == nil || !strings.Contains(err.Error(), "need Python "+tt.wants) {
				t.Errorf("Derive = %v, want that Python %s is needed", err, tt.wants)
			}
		})
	}
}

func TestDerive_reader_that_fails(t *testing.T) {
	boom := errors.New("no such interpreter")
	tests := []struct {
		name   string
		out    string
		err    error
		source bool // it is the fault of the source
	}{
		{"died", "", fmt.Errorf("signal: %w", pyschema.ErrReaderDied), true},
		{"cannot be run", "", boom, false},
		{"wrote nothing", "", nil, true},
		{"wrote nonsense", "{", nil, true},
		{"wrote another document", "[1]", nil, true},
		{"wrote an empty document", "{}", nil, true},
		{"wrote too much", `{"module":{"statements":[]}}` + strings.Repeat(" ", pyschema.MaxOutput), nil, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			read := func(context.Context, []byte) ([]byte, error) { return []byte(tt.out), tt.err }
			_, err := pyschema.Derive(t.Context(), read, []byte(good), schema.Options{})
			e, ok := errors.AsType[*schema.SourceError](err)
			if err == nil || ok != tt.source || ok && e.Line != 1 {
				t.Errorf("Derive = %v, want a SourceError: %v", err, tt.source)
			}
			if !tt.source && !errors.Is(err, boom) {
				t.Errorf("Derive = %v, want it to wrap %v", err, boom)
			}
		})
	}
}

func TestDerive_stops_with_its_context(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	gone := errors.New("the client left")
	read := func(context.Context, []byte) ([]byte, error) {
		cancel(gone)
		return nil, fmt.Errorf("killed: %w", pyschema.ErrReaderDied)
	}
	if _, err := pyschema.Derive(ctx, read, []byte(good), schema.Options{}); !errors.Is(err, gone) {
		t.Errorf("Derive = %v, want %v: the source is not to blame", err, gone)
	}
}

func TestDeriver_resolves_imported_types(t *testing.T) {
	p := needPython(t)[0]
	source := "from shop.models import Item, Tree\n\nclass Node:\n    pass\n\n" +
		"def tool(a: Item, b: list[Item], c: Tree, d: Item | None = None):\n    \"\"\"Do it.\n\n    Args:\n        " +
		"a: A.\n        b: B.\n        c: C.\n        d: D.\n    \"\"\"\n"
	asked := 0
	d := pyschema.Deriver{Read: fresh(p), Resolve: func(_ context.Context, module, name string) (*schema.Object,
		error) {
		asked++
		text := `{"type":"object","properties":{"price":{"$ref":"#/$defs/Money"}},"$defs":{"Money":{"type":"integer"}}}`
		if name == "Tree" {
			text = `{"$ref":"#/$defs/Tree","$defs":{"Tree":{"type":"array","items":{"$ref":"#/$defs/Tree"}},"Money":{"type":"string"}}}`
		}
		if module != "shop.models" {
			t.Errorf("asked for the module %q", module)
		}
		v, err := schema.Decode([]byte(text))
		if err != nil {
			t.Fatal(err)
		}
		return v.(*schema.Object), nil
	}}
	sig, err := d.Derive(t.Context(), []byte(source), schema.Options{})
	if err != nil {
		t.Fatal(err)
	}
	got, err := schema.Encode(sig.Parameters)
	if err != nil {
		t.Fatal(err)
	}
	for _, ref := range refs(sig.Parameters) {
		if !sig.Parameters.Object("$defs").Has(strings.TrimPrefix(ref, "#/$defs/")) {
			t.Errorf("%s points nowhere in %s", ref, got)
		}
	}
	if money := sig.Parameters.Object("$defs").Object("Money"); money == nil || money.String("type") != "integer" {
		t.Errorf("two definitions of one name are mixed up: %s", got)
	}
}

// refs returns all references in a tree.
func refs(v any) []string {
	var all []string
	switch v := v.(type) {
	case *schema.Object:
		for _, k := range v.Keys() {
			if s, ok := v.Value(k).(string); ok && k == "$ref" {
				all = append(all, s)
			}
			all = append(all, refs(v.Value(k))...)
		}
	case []any:
		for _, x := range v {
			all = append(all, refs(x)...)
		}
	}
	return all
}

func TestDeriver_resolver_that_finds_nothing(t *testing.T) {
	p := needPython(t)[0]
	source := []byte("from shop import Item\ndef tool(a: Item):\n    'Do.'\n")
	down := errors.New("the sandbox is away")
	for name, answer := range map[string]error{
		"not installed": &schema.SourceError{Message: "it is not installed"}, "no type": nil, "away": down,
	} {
		t.Run(name, func(t *testing.T) {
			d := pyschema.Deriver{Read: fresh(p), Resolve: func(context.Context, string, string) (*schema.Object,
				error) {
				return nil, answer
			}}
			_, err := d.Derive(t.Context(), source, schema.Options{})
			e, ok := errors.AsType[*schema.SourceError](err)
			if name == "away" {
				if ok || !errors.Is(err, down) {
					t.Errorf("Derive = %v, want %v: the source is not to blame", err, down)
				}
				return
			}
			if !ok || e.Line != 2 || e.Parameter != "a" || !strings.Contains(e.Message, name) {
				t.Errorf("Derive = %v, want %q about parameter a in line 2", err, name)
			}
		})
	}
}

func TestDeriver_Functions(t *testing.T) {
	p := needPython(t)[0]
	d := pyschema.Deriver{Read: fresh(p)}
	got, err := d.Functions(t.Context(),
		[]byte("def a(): ...\nasync def b(): ...\ndef _c(): ...\nclass D:\n    def e(self): ...\n"))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"a", "b"}, got); diff != "" {
		t.Errorf("Functions (-want +got):\n%s", diff)
	}
}

// Source that makes types out of types, or classes out of classes, doubles the
// work with each line. It is read or refused, in time.
func TestDerive_bounds_types_that_double(t *testing.T) {
	p := needPython(t)[0]
	var b bytes.Buffer
	b.WriteString("from pydantic import BaseModel\nT0 = int\nC0 = 'x'\nL0 = [1]\nclass A0(BaseModel):\n    x: " +
		"int\nclass B0(BaseModel):\n    y: int\n")
	for i := range 60 {
		fmt.Fprintf(&b, "T%d = tuple[T%d, T%d]\nC%d = C%d + C%d\nL%d = [L%d, L%d]\n", i+1, i, i, i+1, i, i, i+1, i, i)
		fmt.Fprintf(&b, "class A%d(A%d, B%d):\n    a%d: int\nclass B%d(A%d, B%d):\n    b%d: int\n", i+1, i, i, i, i+1,
			i, i, i)
		fmt.Fprintf(&b, "class Loop%d(%s):\n    x: int\n", i, "Loop1, Loop2, Loop3, Loop4, BaseModel")
		fmt.Fprintf(&b, "class N%d(BaseModel):\n    '%s'\n    a: 'N%d'\n    b: 'N%d'\n", i,
			strings.Repeat("long text ", 500), i+1, i+1)
	}
	b.WriteString("class N60(BaseModel):\n    x: int\n")
	tests := map[string]struct {
		source string
		ok     bool
	}{
		"types":     {"def tool(a: T60):\n    'Do.'\n", false},
		"constants": {"def tool(a: T8, b: str = C60, c: list = L60):\n    'Do.'\n", true},
		"bases":     {"def tool(a: A60, b: B60):\n    'Do.'\n", true},
		"loops":     {"def tool(a: Loop5):\n    'Do.'\n", false},
		"fields":    {"def tool(a: N40):\n    'Do.'\n", true},
		"deep":      {"def tool(a: N0):\n    'Do.'\n", false},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
			defer cancel()
			source := append(bytes.Clone(b.Bytes()), tt.source...)
			sig, err := pyschema.Derive(ctx, fresh(p), source, schema.Options{DescriptionsOptional: true})
			if _, ok := errors.AsType[*schema.SourceError](err); err != nil && !ok {
				t.Fatalf("Derive = %v", err)
			}
			if (err == nil) != tt.ok {
				t.Fatalf("Derive = %.300v, want success: %v", err, tt.ok)
			}
			if err != nil {
				return
			}
			text, err := schema.Encode(sig.Parameters)
			if err != nil || len(text) > schema.MaxBytes {
				t.Errorf("the schema has %d bytes, %v", len(text), err)
			}
		})
	}
}
