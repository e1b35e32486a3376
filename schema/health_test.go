package schema_test

import (
	"fmt"
	"strings"
	"testing"

	"haft"
	"haft/schema"
)

// properties makes a closed object schema with n properties.
func properties(n int, make func(i int) any) *schema.Object {
	p := &schema.Object{}
	for i := range n {
		p.Set(fmt.Sprintf("p%d", i), make(i))
	}
	return schema.Obj("type", "object", "properties", p, "additionalProperties", false)
}

func text(n int) []any {
	var list []any
	for i := range n {
		list = append(list, fmt.Sprintf("v%d", i))
	}
	return list
}

func TestHealth_limits_of_strict_mode(t *testing.T) {
	str := func(int) any { return schema.Obj("type", "string") }
	enum := func(values []any) func(int) any {
		return func(int) any { return schema.Obj("type", "string", "enum", values) }
	}
	long := strings.Repeat("x", 60)
	for _, tt := range []struct {
		name   string
		schema *schema.Object
		want   haft.HealthStatus
		reason string
	}{
		{"5000 properties are the most", properties(5000, str), haft.HealthStrict, ""},
		{"5001 properties are too many", properties(5001, str), haft.HealthNonStrict,
			"root: 5001 properties in all, strict mode allows 5000"},
		{"1000 enum values are the most", properties(4, enum(text(250))), haft.HealthStrict, ""},
		{"1004 enum values are too many", properties(4, enum(text(251))), haft.HealthNonStrict,
			"root: 1004 enum values in all, strict mode allows 1000"},
		{"long enum values are too much text", properties(1, enum([]any{strings.Repeat("x", 120_001)})),
			haft.HealthNonStrict,
			"root: 120003 characters of names and enum values in all, strict mode allows 120000"},
		{"one large enum of long values", properties(1, enum(prefixAll(long, text(251)))), haft.HealthNonStrict,
			"root.properties.p0: 'enum' has more than 250 values with more than 15000 characters in all"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := schema.Health(tt.schema)
			if got.Status != tt.want {
				t.Errorf("status = %s, want %s", got.Status, tt.want)
			}
			if tt.reason != "" && (len(got.Reasons) != 1 || got.Reasons[0].String() != tt.reason) {
				t.Errorf("reasons = %v, want %s", got.Reasons, tt.reason)
			}
		})
	}
}

func prefixAll(prefix string, list []any) []any {
	for i := range list {
		list[i] = prefix + list[i].(string)
	}
	return list
}

func TestHealth_is_bounded(t *testing.T) {
	many := schema.Health(properties(10_000, func(int) any { return 3 }))
	if len(many.Reasons) > 100 || many.Status != haft.HealthInvalid {
		t.Errorf("%d reasons and %s for 10000 faults, want at most 100 and INVALID", len(many.Reasons), many.Status)
	}
	deep := schema.Obj("type", "string")
	for range 100_000 {
		deep = schema.Obj("type", "array", "items", deep)
	}
	if got := schema.Health(properties(1, func(int) any { return deep })); got.Status != haft.HealthInvalid {
		t.Errorf("a tree of 100000 levels is %s, want INVALID", got.Status)
	}
	// A chain of definitions that each use the next one twice.
	defs := &schema.Object{}
	for i := range 2_000 {
		next := schema.Obj("$ref", fmt.Sprintf("#/$defs/D%d", i+1))
		defs.Set(fmt.Sprintf("D%d", i), schema.Obj("anyOf", []any{next, schema.Obj("type", "array", "items", next)}))
	}
	defs.Set("D2000", schema.Obj("type", "string"))
	chain := properties(1, func(int) any { return schema.Obj("$ref", "#/$defs/D0") }).Set("$defs", defs)
	if got := schema.Health(chain); got.Status == haft.HealthInvalid {
		t.Errorf("a long chain of definitions is %v", got)
	}
}

func TestStrict_passes_health(t *testing.T) {
	strict, ok := schema.Strict(properties(5000, func(int) any { return schema.Obj("type", "string", "default", "x") }))
	if !ok {
		t.Fatal("5000 properties cannot be strict")
	}
	if h := schema.Health(strict); h.Status != haft.HealthStrict {
		t.Errorf("the strict form is %v", h)
	}
}

func TestNormalize_bounds_text(t *testing.T) {
	// 2,000 references to a definition of 10,000 bytes would be 20 megabytes.
	root := properties(2000, func(int) any { return schema.Obj("$ref", "#/$defs/Long") })
	root.Set("$defs", schema.Obj("Long", schema.Obj("type", "string", "description", strings.Repeat("x", 10_000))))
	_, err := schema.Normalize(root, schema.NormalizeOptions{})
	if haft.CodeOf(err) != haft.CodeInvalid {
		t.Errorf("error = %v, want one with code invalid", err)
	}
}

func TestForms_parse(t *testing.T) {
	for _, f := range schema.Forms() {
		if got, err := schema.ParseForm(string(f)); got != f || err != nil {
			t.Errorf("ParseForm(%q) = %q, %v", f, got, err)
		}
		sig := &schema.Signature{Name: "f", Description: "Does it."}
		for _, strict := range []bool{false, true} {
			if _, err := schema.Render(sig, f, strict); err != nil {
				t.Errorf("Render(no parameters, %s, %t): %v", f, strict, err)
			}
		}
	}
	for _, bad := range []string{"", "OpenAI", "xml"} {
		if _, err := schema.ParseForm(bad); haft.CodeOf(err) != haft.CodeInvalid {
			t.Errorf("ParseForm(%q) = %v, want code invalid", bad, err)
		}
	}
	if _, err := schema.Render(&schema.Signature{Name: "f"}, "xml", false); haft.CodeOf(err) != haft.CodeInvalid {
		t.Errorf("Render(xml) = %v, want code invalid", err)
	}
}

func TestRender_refuses_names_that_anthropic_refuses(t *testing.T) {
	sig := &schema.Signature{Name: "f", Parameters: schema.Obj("type", "object", "properties",
		schema.Obj("filter[id]", schema.Obj("type", "string")))}
	if _, err := schema.Render(sig, schema.FormAnthropic, false); haft.CodeOf(err) != haft.CodeInvalid {
		t.Errorf("error = %v, want code invalid", err)
	}
	if _, err := schema.Render(sig, schema.FormOpenAI, false); err != nil {
		t.Errorf("OpenAI: %v", err)
	}
}

func TestFromArgsSchema_describes_the_tool(t *testing.T) {
	for description, want := range map[string]string{"": "The f tool", "Does it.": "Does it."} {
		sig, err := schema.FromArgsSchema("f", description, &schema.Object{})
		if err != nil || sig.Name != "f" || sig.Description != want {
			t.Errorf("FromArgsSchema(f, %q) = %+v, %v, want the description %q", description, sig, err, want)
		}
	}
}

func TestNormalize_bounds_chains_of_references(t *testing.T) {
	// Each of 60,000 definitions is a reference to the next: to inline them all
	// would be 1.8 billion steps, and nothing is built on the way.
	defs := &schema.Object{}
	for i := range 60_000 {
		defs.Set(fmt.Sprintf("D%d", i), schema.Obj("$ref", fmt.Sprintf("#/$defs/D%d", i+1)))
	}
	defs.Set("D60000", schema.Obj("type", "string"))
	root := properties(1, func(int) any { return schema.Obj("$ref", "#/$defs/D0") }).Set("$defs", defs)
	if _, err := schema.Normalize(root, schema.NormalizeOptions{}); haft.CodeOf(err) != haft.CodeInvalid {
		t.Errorf("error = %v, want one with code invalid", err)
	}
}
