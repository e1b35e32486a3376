// Package tsschema reads the signature of a tool from TypeScript or JavaScript,
// without running it.
//
// [Derive] takes the types of an exported function and the words of its JSDoc,
// and makes a [Result]: the schema of the arguments, that of the value, and how
// to call the function. In JavaScript the types are those of the JSDoc.
//
// # Which function
//
// The one named in Config.Function; else the default export; else the one with
// @tool in its comment; else the only exported function; else the last one.
//
// # How it is called
//
// Parameters are passed by their place, each from the argument of its name. If
// the only parameter is destructured, or its type is an object with named
// properties, it is the object of all arguments, and the properties are what the
// model sees. The parameters agent_state and agent_id are filled in by Haft.
//
// # How it is read
//
// Every bound comes first. A scanner that cannot recurse (internal/javascript)
// splits the text and pairs its brackets; then the source is known to be shallow enough for a strict
// parser of the whole language (esbuild), which finds syntax errors anywhere in
// it but says nothing about types; then our own parser reads the declarations
// and types, and steps over function bodies by their brackets. Nothing is
// imported, resolved or fetched: a type of another module is an error that names
// the module.
package tsschema
