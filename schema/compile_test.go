package schema_test

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"haft"
	"haft/schema"
)

func TestCompile_refuses(t *testing.T) {
	chain := func(n int) string { // 2^n ways, without recursion
		var b strings.Builder
		b.WriteString(`{"$ref":"#/$defs/d0","$defs":{`)
		for i := range n {
			fmt.Fprintf(&b, `"d%d":{"allOf":[{"$ref":"#/$defs/d%d"},{"$ref":"#/$defs/d%d"}]},`, i, i+1, i+1)
		}
		fmt.Fprintf(&b, `"d%d":{"type":"object"}}}`, n)
		return b.String()
	}
	tests := []struct {
		name, schema string
		message      string // part of the error or its misfits; "" if it compiles
	}{
		{"remote reference", `{"properties":{"a":{"$ref":"https://example.com/s.json"}}}`,
			"/properties/a/$ref: refers to another document"},
		{"file reference", `{"$ref":"file:///etc/passwd"}`, "/$ref: refers to another document"},
		{"relative reference", `{"$ref":"other.json#/a"}`, "/$ref: refers to another document"},
		{"unknown dialect", `{"$schema":"https://example.com/dialect"}`, "/$schema: refers to another document"},
		{"reference to nothing", `{"$ref":"#/$defs/x"}`, "points to nothing"},
		{"loop", `{"$ref":"#"}`, "refers to itself without consuming a value"},
		{"loop of two",
			`{"$defs":{"a":{"$ref":"#/$defs/b"},"b":{"anyOf":[{"$ref":"#/$defs/a"}]}},"properties":{"x":{"$ref":"#/$defs/a"}}}`, "refers to itself without consuming a value"},
		{"dynamic reference", `{"$dynamicRef":"#x","$defs":{"x":{"$dynamicAnchor":"x"}}}`, "$dynamicRef"},
		{"look-ahead", `{"properties":{"a":{"pattern":"(?=x)y"}}}`,
			"/properties/a/pattern: must be a regular expression (RE2"},
		{"back-reference", `{"properties":{"a":{"pattern":"(x)\\1"}}}`,
			"/properties/a/pattern: must be a regular expression (RE2"},
		{"look-ahead for names", `{"patternProperties":{"(?!x)":{}}}`, "regular expression that we know"},
		{"type that does not exist", `{"properties":{"a":{"type":"strnig"}}}`, `/properties/a/type: must be one of`},
		{"properties that are a list", `{"properties":[]}`, "/properties: must be an object, is an array"},
		{"number", `5`, "a schema is an object or a boolean"},
		{"bound out of range", `{"maximum":1e999999999}`, "/maximum: is a number out of range"},
		{"too many objects", `{"allOf":[` + strings.Repeat(`{},`, schema.MaxSchemaObjects) + `{}]}`, "are the most"},
		{"exploding references compile", chain(60), ""},
		{"recursion is fine", `{"properties":{"a":{"$ref":"#"}}}`, ""},
		{"own identifier",
			`{"$id":"https://example.com/x","$defs":{"a":{"$id":"a","type":"integer"}},"properties":{"p":{"$ref":"a"}}}`, ""},
		{"anchor", `{"$defs":{"a":{"$anchor":"here"}},"$ref":"#here"}`, ""},
		{"true", `true`, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			start := time.Now()
			c, err := schema.Compile(treeOf(t, tt.schema))
			if took := time.Since(start); took > 90*time.Second {
				t.Errorf("Compile took %v", took)
			}
			if tt.message == "" {
				if err != nil {
					t.Fatalf("Compile: %s", withMisfits(err))
				}
				c.Check(treeOf(t, `{"a":{"a":{}}}`))
				return
			}
			if err == nil {
				t.Fatalf("Compile accepted it")
			}
			if haft.CodeOf(err) != haft.CodeInvalid {
				t.Errorf("code = %s", haft.CodeOf(err))
			}
			said := haft.MessageOf(err) + "\n"
			if e, ok := errors.AsType[*haft.Error](err); ok {
				said += misfitLines(e.Misfits)
			}
			if !strings.Contains(said, tt.message) {
				t.Errorf("Compile says %q, want %q in it", said, tt.message)
			}
		})
	}
}

func TestCompile_names_patterns_as_the_only_fault(t *testing.T) {
	_, err := schema.Compile(treeOf(t, `{"properties":{"a":{"pattern":"(?=x)"}}}`))
	if !errors.Is(err, schema.ErrPattern) {
		t.Errorf("Compile = %v, want ErrPattern", err)
	}
	_, err = schema.Compile(treeOf(t, `{"properties":{"a":{"pattern":"(?=x)"},"b":{"type":5}}}`))
	if err == nil || errors.Is(err, schema.ErrPattern) {
		t.Errorf("Compile = %v, want an error that is not ErrPattern", err)
	}
}

// A schema of a few lines must not make a check exponential.
func TestCheck_is_bounded(t *testing.T) {
	var wide strings.Builder
	wide.WriteString(`{"$ref":"#/$defs/d0","$defs":{`)
	for i := range 60 {
		fmt.Fprintf(&wide, `"d%d":{"allOf":[{"$ref":"#/$defs/d%d"},{"$ref":"#/$defs/d%d"}]},`, i, i+1, i+1)
	}
	wide.WriteString(`"d60":{"type":"object"}}}`)
	deep := strings.Repeat(`{"a":`, 100) + `{"a":1}` + strings.Repeat(`}`, 100)
	tests := []struct{ name, schema, value string }{
		{"allOf of allOf", wide.String(), `{}`},
		{"recursive alternatives",
			`{"$ref":"#/$defs/e","$defs":{"e":{"anyOf":[{"properties":{"a":{"$ref":"#/$defs/e"}},"required":["x"]},{"properties":{"a":{"$ref":"#/$defs/e"}},"required":["y"]},{"type":"string"}]}}}`, deep},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c := compiled(t, tt.schema)
			start := time.Now()
			got := c.Check(treeOf(t, tt.value))
			if o, ok := treeOf(t, tt.value).(*schema.Object); ok {
				c.Fit(o, schema.FitOptions{})
			}
			if took := time.Since(start); took > 90*time.Second {
				t.Errorf("took %v", took)
			}
			if len(got) != 1 || !strings.Contains(got[0].Message, "too deeply") {
				t.Errorf("Check = %v, want one refusal", got)
			}
		})
	}
}

func TestCheck_large_list_is_affordable(t *testing.T) {
	c := compiled(t, `{"type":"array","items":{"anyOf":[{"type":"integer"},{"type":"null"}]}}`)
	list := make([]any, 200_000)
	if got := c.Check(list); got != nil {
		t.Errorf("Check = %v", got)
	}
}

func TestCompiled_is_safe_for_concurrent_use(t *testing.T) {
	c := compiled(t,
		`{"type":"object","properties":{"a":{"type":"integer","default":1},"b":{"pattern":"^x"},"t":{"$ref":"#"}}}`)
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 100 {
				out, misfits := c.Fit(treeOf(t, `{"b":"x","t":{"a":"5"}}`).(*schema.Object), schema.FitOptions{})
				if misfits != nil || textOf(t, out) != `{"a":1,"b":"x","t":{"a":5}}` {
					t.Errorf("Fit = %v, %v", out, misfits)
				}
				c.Check(treeOf(t, `{"b":"y","t":{"a":"5"}}`))
			}
		})
	}
	wg.Wait()
}

func BenchmarkCheck_small_call(b *testing.B) {
	c := compiled(b,
		`{"type":"object","properties":{"city":{"type":"string","minLength":1},"days":{"type":"integer","minimum":1,"maximum":14},"unit":{"enum":["c","f"]}},"required":["city"],"additionalProperties":false}`)
	v := treeOf(b, `{"city":"Berlin","days":3,"unit":"c"}`)
	b.ReportAllocs()
	for b.Loop() {
		if c.Check(v) != nil {
			b.Fatal("misfit")
		}
	}
}

func BenchmarkFit_small_call(b *testing.B) {
	c := compiled(b,
		`{"type":"object","properties":{"city":{"type":"string","minLength":1},"days":{"type":"integer","minimum":1,"maximum":14},"unit":{"enum":["c","f"]}},"required":["city"],"additionalProperties":false}`)
	v := treeOf(b, `{"city":"Berlin","days":"3","unit":"c"}`).(*schema.Object)
	b.ReportAllocs()
	for b.Loop() {
		if _, m := c.Fit(v, schema.FitOptions{}); m != nil {
			b.Fatal("misfit")
		}
	}
}
