package bashschema_test

import (
	"context"
	"fmt"

	"haft/schema"
	"haft/schema/bashschema"
)

// The header of a script describes its tool.
func ExampleDerive() {
	r, err := bashschema.Derive(context.Background(), []byte(`#!/usr/bin/env bash
# tool: greet
# Greets somebody.
#
# Args:
#   name (string): Who is greeted.
echo "Hello, $ARG_NAME"
`), bashschema.Config{})
	if err != nil {
		fmt.Println(err)
		return
	}
	text, err := schema.Encode(r.Parameters.Value("required"))
	fmt.Println(r.Name, string(text), err)
	// Output: greet ["name"] <nil>
}
