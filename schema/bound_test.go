package schema_test

import (
	"fmt"
	"testing"
	"time"

	"haft"
	"haft/schema"
)

// TestBounds_hold_for_every_walk gives each function that judges or converts a
// schema the kinds of schemas that would make it slow: the answer is a refusal,
// at once. The time is generous; without the bound it is minutes.
func TestBounds_hold_for_every_walk(t *testing.T) {
	chain := schema.Obj("type", "object")
	defs, props := schema.Obj(), schema.Obj()
	for i := range 60_000 {
		defs.Set(fmt.Sprintf("d%d", i), schema.Obj("$ref", fmt.Sprintf("#/$defs/d%d", i+1)))
		props.Set(fmt.Sprintf("p%d", i), schema.Obj("$ref", fmt.Sprintf("#/$defs/d%d", i)))
	}
	chain.Set("properties", props).Set("$defs", defs)

	wide := schema.Obj("type", "object")
	list := make([]any, 200_000)
	for i := range list {
		list[i] = fmt.Sprint(i)
	}
	wide.Set("properties", schema.Obj("a", schema.Obj("enum", list)))

	for name, root := range map[string]*schema.Object{"chain of references": chain, "huge enum": wide} {
		t.Run(name, func(t *testing.T) {
			begun := time.Now()
			if h := schema.Health(root); h.Status != haft.HealthInvalid {
				t.Errorf("Health is %s", h.Status)
			}
			if _, err := schema.Normalize(root, schema.NormalizeOptions{}); haft.CodeOf(err) != haft.CodeInvalid {
				t.Errorf("Normalize: %v", err)
			}
			if _, ok := schema.Strict(root); ok {
				t.Error("Strict converts it")
			}
			if _, err := schema.FromArgsSchema("f", "", root); haft.CodeOf(err) != haft.CodeInvalid {
				t.Errorf("FromArgsSchema: %v", err)
			}
			if _, err := schema.Compile(root); haft.CodeOf(err) != haft.CodeInvalid {
				t.Errorf("Compile: %v", err)
			}
			for _, form := range schema.Forms() {
				if _, err := schema.Render(&schema.Signature{Name: "f", Parameters: root}, form,
					true); haft.CodeOf(err) != haft.CodeInvalid {
					t.Errorf("Render %s: %v", form, err)
				}
			}
			if took := time.Since(begun); took > 90*time.Second {
				t.Errorf("it took %s", took)
			}
		})
	}
}
