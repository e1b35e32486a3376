// Package registry knows which tools there are. It never runs one.
//
// A [Registry] keeps tools in a store. For a call it gives the engine a [Compiled]
// tool, which checks arguments and values. [Registry.Put] makes a version of a
// [haft.Draft]: it checks the draft, reviews the source and derives the schema. A
// version never changes; its [Digest] names it.
//
// # What is promised
//
//   - Nothing is stored whose source was not reviewed.
//   - A version that waits for a person, or that a person refused, is never
//     resolved, whether it is asked for by name or by digest.
//   - Built-in tools are there in every organisation. Nothing can take their
//     names, change or remove them.
//   - After a write has returned, [Registry.Resolve] of the same process returns
//     the new state. With a shared store this holds for writes of other processes
//     too.
//   - A new version says in words what changes for callers ([haft.Change.Schema]).
//
// [ReadDir], [WriteDir] and [Watch] move tools between a registry and a directory
// of source files.
package registry
