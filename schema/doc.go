// Package schema knows which JSON values are acceptable: to a tool, and to the
// vendors of models.
//
// Schemas are JSON Schema texts. [Decode] reads one into a tree that remembers
// the order of its keys, because models read schemas from top to bottom. A
// [Signature] is what the packages below (pyschema, tsschema, bashschema) derive
// from source code without running it.
//
// The arguments of a call are read with [ReadArguments] from what a model wrote,
// and fitted to a schema that was compiled with [Compile]: [Compiled.Fit] converts
// what can be converted without loss, fills in defaults, and reports everything
// that does not fit at once, in words that a model can act on.
//
// Nothing here fetches, and every walk is bounded in size and depth: a schema
// from outside cannot make us loop, explode or reach for the network.
package schema
