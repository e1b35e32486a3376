package tsschema_test

import (
	"context"
	"fmt"

	"haft/schema"
	"haft/schema/tsschema"
)

// The types and comments of a function describe its tool. Nothing is run.
func ExampleDerive() {
	r, err := tsschema.Derive(context.Background(), []byte(`
/**
 * Greets somebody.
 * @param name Who is greeted.
 */
export function greet(name: string): string { return "Hello, " + name }
`), tsschema.Config{})
	if err != nil {
		fmt.Println(err)
		return
	}
	text, err := schema.Encode(r.Parameters.Value("required"))
	fmt.Println(r.Name, r.Export, string(text), err)
	// Output: greet greet ["name"] <nil>
}
