package pyschema_test

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"

	"haft/schema"
	"haft/schema/pyschema"
)

// sources returns the sources of the golden cases, as seeds.
func sources(f testing.TB) [][]byte {
	files, err := filepath.Glob("testdata/*.txtar")
	if err != nil {
		f.Fatal(err)
	}
	var all [][]byte
	for _, file := range files {
		a, err := txtar.ParseFile(file)
		if err != nil {
			f.Fatal(err)
		}
		for _, s := range a.Files {
			if s.Name == "tool.py" {
				all = append(all, s.Data)
			}
		}
	}
	return all
}

// sound checks what every answer of Derive promises.
func sound(t *testing.T, sig *schema.Signature, err error) {
	t.Helper()
	if err != nil {
		all := []error{err}
		if joined, ok := err.(interface{ Unwrap() []error }); ok {
			all = joined.Unwrap()
		}
		for _, one := range all {
			e, ok := errors.AsType[*schema.SourceError](one)
			if !ok || e.Line < 1 || e.Message == "" {
				t.Fatalf("%#v does not say what is wrong in which line", one)
			}
		}
		return
	}
	if sig.Name == "" || sig.Parameters.String("type") != "object" || sig.Parameters.Object("properties") == nil {
		t.Fatalf("%+v is no signature", sig)
	}
	for _, s := range []*schema.Object{sig.Parameters, sig.Returns} {
		if s == nil {
			continue
		}
		text, err := schema.Encode(s)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := schema.Decode(text); err != nil {
			t.Fatalf("the schema is no document of ours: %v", err)
		}
	}
	for _, name := range sig.Parameters.Array("required") {
		if !sig.Parameters.Object("properties").Has(name.(string)) {
			t.Fatalf("%v is required but not there", name)
		}
	}
}

func FuzzDerive(f *testing.F) {
	for _, s := range sources(f) {
		f.Add(s)
	}
	all := needPython(f)
	read := newLasting(f, all[len(all)-1]).read
	f.Fuzz(func(t *testing.T, source []byte) {
		for _, optional := range []bool{false, true} {
			sig, err := pyschema.Derive(t.Context(), read, source, schema.Options{DescriptionsOptional: optional})
			sound(t, sig, err)
		}
	})
}

// FuzzDescription plays a reader that hostile source has taken over. The plan
// says which nodes of a description are replaced by what.
func FuzzDescription(f *testing.F) {
	all := needPython(f)
	read := newLasting(f, all[len(all)-1]).read
	for i, s := range sources(f) {
		text, err := read(f.Context(), s)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(text, []byte{0, byte(i), byte(i), 1, byte(3 * i), byte(i / 7)})
	}
	f.Fuzz(func(t *testing.T, text, plan []byte) {
		var v any
		if json.Unmarshal(text, &v) == nil && len(plan) < 300 {
			mutated, err := json.Marshal(mutate(v, v, plan, new(int)))
			if err != nil {
				t.Fatal(err)
			}
			text = mutated
		}
		read := func(context.Context, []byte) ([]byte, error) { return text, nil }
		sig, err := pyschema.Derive(t.Context(), read, []byte("x"), schema.Options{DescriptionsOptional: true})
		if err == nil && sig.Name == "" {
			return // a description can have such a name, source cannot
		}
		sound(t, sig, err)
	})
}

// mutate returns v with the nodes that plan names replaced. Plan has three bytes
// for each: two say which node, one says what takes its place.
func mutate(v, root any, plan []byte, node *int) any {
	*node++
	for i := 0; i+2 < len(plan); i += 3 {
		if int(plan[i])<<8|int(plan[i+1]) != *node {
			continue
		}
		others := []any{nil, -1, "x", "", []any{}, map[string]any{}, []any{nil}, root, true, v, []any{v, v}, 1e300,
			"none", "sub", "call", "const"}
		return others[int(plan[i+2])%len(others)]
	}
	switch v := v.(type) {
	case map[string]any:
		out := map[string]any{}
		for _, k := range slices.Sorted(maps.Keys(v)) {
			out[k] = mutate(v[k], root, plan, node)
		}
		return out
	case []any:
		out := make([]any, len(v))
		for i := range v {
			out[i] = mutate(v[i], root, plan, node)
		}
		return out
	}
	return v
}

// Each golden description, with one node after the other replaced by what does not
// belong there: no panic, no waste of time.
func TestDerive_survives_wrong_descriptions(t *testing.T) {
	all := needPython(t)
	read := newLasting(t, all[len(all)-1]).read
	for i, source := range sources(t) {
		text, err := read(t.Context(), source)
		if err != nil {
			t.Fatal(err)
		}
		var v any
		if err := json.Unmarshal(text, &v); err != nil {
			t.Fatal(err)
		}
		nodes := new(int)
		mutate(v, v, nil, nodes)
		for node := 1 + i%stride; node <= *nodes; node += stride {
			plan := []byte{byte(node >> 8), byte(node), byte(node / stride)}
			wrong, err := json.Marshal(mutate(v, v, plan, new(int)))
			if err != nil {
				t.Fatal(err)
			}
			read := func(context.Context, []byte) ([]byte, error) { return wrong, nil }
			sig, err := pyschema.Derive(t.Context(), read, []byte("x"), schema.Options{DescriptionsOptional: true})
			if err != nil || sig.Name != "" {
				sound(t, sig, err)
			}
		}
	}
}

// stride is how many nodes a test leaves out, to save time; fuzzing leaves out none.
const stride = 5

func FuzzDocstring(f *testing.F) {
	for _, s := range sources(f) {
		if parts := strings.Split(string(s), `"""`); len(parts) > 1 {
			f.Add(parts[1])
		}
	}
	f.Fuzz(func(t *testing.T, raw string) {
		description, params, returns, typ := pyschema.ParseDoc(raw)
		size := len(description) + len(returns) + len(typ)
		for name, text := range params {
			if name == "" || strings.TrimSpace(text) == "" {
				t.Errorf("a parameter %q has the text %q", name, text)
			}
			size += len(text)
		}
		// Tabs become up to eight blanks, and a text may belong to several names.
		if size > 8*17*len(raw)+100 {
			t.Errorf("%d bytes become %d", len(raw), size)
		}
	})
}
