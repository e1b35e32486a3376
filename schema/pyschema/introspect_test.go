package pyschema_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"haft/schema"
	"haft/schema/pyschema"
)

// answering is a module that answers with text.
func answering(text string) pyschema.Introspector {
	return func(context.Context, []byte) ([]byte, error) { return []byte(text), nil }
}

func TestIntrospect_takes_what_a_schema_can_say(t *testing.T) {
	tests := []struct{ name, answer, want string }{
		{"plain", `{"schema":{"type":"integer"}}`, `{"type":"integer"}`},
		{"a class by name", `{"schema":{"x-type":["shop.My","datetime.date","builtins.object"]}}`,
			`{"type":"string","format":"date"}`},
		{"anything", `{"schema":{"x-type":["builtins.object"]}}`, `{}`},
		{"unknown words",
			`{"schema":{"type":"string","$id":"https://x","$anchor":"a","discriminator":{"mapping":{}},"x":1}}`,
			`{"type":"string"}`},
		{"properties with odd names",
			`{"schema":{"type":"object","properties":{"$ref":{"type":"string"},"$id":{"type":"integer"}}}}`,
			`{"type":"object","properties":{"$ref":{"type":"string"},"$id":{"type":"integer"}}}`},
		{"older drafts",
			`{"schema":{"$ref":"#/definitions/A","$defs":{"A":{"type":"array","items":[{"type":"string"}]}}}}`,
			`{"$ref":"#/$defs/A","$defs":{"A":{"type":"array","prefixItems":[{"type":"string"}]}}}`},
		{"patterns",
			`{"schema":{"type":"object","additionalProperties":false,"patternProperties":{"(?!x)":{"pattern":"(?=y)"}}}}`, `{"type":"object"}`},
		{"a default that does not fit", `{"schema":{"type":"string","default":7}}`, `{"type":"string"}`},
		{"documentation",
			`{"schema":{"type":"object","properties":{"a":{},"b":{"description":"Mine."}},"description":"It.\n\nArgs:\n    a: First.\n    b: Second."}}`,
			`{"type":"object","description":"It.","properties":{"a":{"description":"First."},"b":{"description":"Mine."}}}`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s, err := pyschema.Introspect(t.Context(), answering(tt.answer), "shop", "T", nil)
			if err != nil {
				t.Fatal(err)
			}
			if got, err := schema.Encode(s); err != nil || string(got) != tt.want {
				t.Errorf("Introspect = %s, %v; want %s", got, err, tt.want)
			}
		})
	}
}

func TestIntrospect_refuses_the_rest(t *testing.T) {
	many := `{"schema":{"anyOf":[` + strings.Repeat(`{},`, 6000) + `{}]}}`
	defs := `{"schema":{"$defs":{"a":{}`
	for i := range 400 {
		defs += `,"a` + strings.Repeat("b", i) + `c":{}`
	}
	tests := []struct{ name, answer, want string }{
		{"nothing", ``, "no answer"},
		{"two answers", `{"schema":{}}{"schema":{}}`, "no answer"},
		{"a list", `[]`, "no answer"},
		{"no schema", `{"schema":[]}`, "no answer"},
		{"too much", strings.Repeat(" ", pyschema.MaxAnswer+1), "no answer"},
		{"too deep", `{"schema":` + strings.Repeat(`{"not":`, 500) + `{}` + strings.Repeat("}", 500) + `}`,
			"no answer"},
		{"too many", many, "too large"},
		{"too many definitions", defs + "}}}", "too large"},
		{"another document", `{"schema":{"$ref":"file:///etc/passwd"}}`, "refers to something else"},
		{"nowhere", `{"schema":{"$ref":"#/$defs/A"}}`, "refers to something else"},
		{"a number as reference", `{"schema":{"$ref":7}}`, "refers to something else"},
		{"a loop", `{"schema":{"$ref":"#/$defs/A","$defs":{"A":{"$ref":"#/$defs/A"}}}}`, "not valid"},
		{"a wrong type", `{"schema":{"type":"integr"}}`, "not valid"},
		{"wrong properties", `{"schema":{"properties":[]}}`, "not valid"},
		{"a wrong list", `{"schema":{"anyOf":{}}}`, "not valid"},
		{"a plain class", `{"schema":{"x-type":["shop.T","builtins.object"]}}`, "shop.T is a plain class"},
		{"a class without a name", `{"schema":{"x-type":[7]}}`, "something is a plain class"},
		{"no class", `{"schema":{"x-type":[]}}`, "something is a plain class"},
		{"an error with paths", `{"error":"import","exception":"E","text":"see /root/secret"}`,
			"importing the module raised E"},
		{"an error for terminals", `{"error":"needs","module":"\u001b[2J"}`, "it needs the module something"},
		{"an error that nobody knows", `{"error":7}`, "looking at it raised something"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s, err := pyschema.Introspect(t.Context(), answering(tt.answer), "shop", "T", nil)
			e, ok := errors.AsType[*schema.SourceError](err)
			if !ok || !strings.Contains(e.Message, tt.want) || strings.ContainsAny(e.Message, "/\x1b") {
				t.Errorf("Introspect = %v, %v; want %q", s, err, tt.want)
			}
		})
	}
}

func TestIntrospect_says_that_there_is_no_such_type(t *testing.T) {
	s, err := pyschema.Introspect(t.Context(), answering(`{"error":"none","module":"shop","name":"T"}`), "shop", "T",
		nil)
	if s != nil || err != nil {
		t.Errorf("Introspect = %v, %v; want nothing", s, err)
	}
}

// FuzzIntrospect reads answers as hostile modules write them.
func FuzzIntrospect(f *testing.F) {
	for _, s := range []string{
		`{"schema":{"type":"object","properties":{"a":{"$ref":"#/$defs/A"}},"$defs":{"A":{"items":{"$ref":"#/$defs/A"}}}}}`,
		`{"schema":{"x-type":["datetime.date"]}}`, `{"schema":{"enum":[1],"default":1,"description":"Args:\n a: b"}}`,
		`{"schema":{"prefixItems":[{"title":"a"}],"description":":param a: x"}}`, `{"error":"value","kind":"int"}`,
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, answer string) {
		s, err := pyschema.Introspect(t.Context(), answering(answer), "shop", "T", nil)
		if err != nil {
			if e, ok := errors.AsType[*schema.SourceError](err); !ok || e.Message == "" {
				t.Errorf("Introspect = %v", err)
			}
			return
		}
		if s == nil {
			return
		}
		if _, err := schema.Compile(s); err != nil {
			t.Errorf("%v does not compile: %v", s, err)
		}
		for _, r := range refs(s) {
			// A property may be called $ref, and data may hold anything.
			if !strings.HasPrefix(r, "#/$defs/") && !strings.Contains(answer, "default") &&
				!strings.Contains(answer, "enum") &&
				!strings.Contains(answer, "const") && !strings.Contains(answer, "example") {
				t.Errorf("a reference %q is left", r)
			}
		}
	})
}
