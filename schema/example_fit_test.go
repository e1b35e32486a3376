package schema_test

import (
	"fmt"

	"haft/schema"
)

// Arguments as a model writes them become arguments as the tool wants them, or a
// list of everything that is wrong.
func ExampleCompiled_Fit() {
	tree, _ := schema.Decode([]byte(`{
		"type": "object",
		"properties": {
			"city": {"type": "string"},
			"days": {"type": "integer", "minimum": 1, "default": 3},
			"unit": {"enum": ["c", "f"]}
		},
		"required": ["city"]
	}`))
	c, _ := schema.Compile(tree)
	for _, text := range []string{
		"```json\n{\"days\": \"5\", \"city\": \"Oslo\", \"unit\": null}\n```",
		`{"days": 0, "unit": "kelvin", "town": "Oslo"}`,
	} {
		args, err := schema.ReadArguments([]byte(text))
		if err != nil {
			fmt.Println(err)
			continue
		}
		fitted, misfits := c.Fit(args, schema.FitOptions{})
		if misfits == nil {
			b, _ := schema.Encode(fitted)
			fmt.Println(string(b))
		}
		for _, m := range misfits {
			fmt.Printf("%s %s\n", m.Pointer, m.Message)
		}
	}
	// Output:
	// {"city":"Oslo","days":5}
	// /city is missing
	// /days must be at least 1
	// /town is not a parameter; known parameters are city, days, unit
	// /unit must be one of "c", "f"
}
