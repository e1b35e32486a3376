// Package javascript reads JavaScript and TypeScript as text: it splits a source
// into tokens, refuses what a parser could not read in bounded stack and time,
// and lets esbuild read the rest.
//
// The scanner of this package is the only one that we wrote. It decides about
// bounds, comments and types, and about nothing that is dangerous: what a program
// does is judged by the tree of what esbuild prints, which is also what runs.
package javascript
