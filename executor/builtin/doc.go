// Package builtin runs tools that are Go functions of this binary.
//
// A tool is added to a [Set] with its types: the schemas that models see are made
// from them, so that they cannot differ from what the function takes.
//
//	type in struct {
//		City string `json:"city" jsonschema:"where to look"`
//		Days int    `json:"days,omitempty" jsonschema:"how many days; 1 if left out"`
//	}
//	err := builtin.Add(set, builtin.Def{Name: "weather", Description: "…"},
//		func(ctx context.Context, c builtin.Call, in in) (out, error) { … })
//
// A built-in tool runs inside Haft, in the goroutine that asks for it, and its
// results say so: provider "builtin", isolation none. What it does is confined by
// its code alone. Code of other people belongs into a cell: [RunCode] passes it to an
// executor that has cells, and its results name the isolation of the cell.
//
// [FetchWebpage] reads pages through a client that decides what may be reached.
package builtin
