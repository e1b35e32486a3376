// Package registry knows which tools there are. It never runs one.
//
// A [Registry] keeps tools in a store and gives the engine what a call needs: a
// [Compiled] tool, whose schema and validators are ready to hold arguments and
// values against. Somebody gives a [haft.Draft] to [Registry.Put]; it is checked,
// its source reviewed, its schema derived, and it becomes a version that never
// changes and that its [Digest] names.
//
// # What is promised
//
//   - Nothing is stored whose source was not reviewed.
//   - A version that waits for a person, or that a person refused, is never
//     resolved, whether it is asked for by name or by digest.
//   - Built-in tools are there in every organisation. Nothing can take their
//     names, change or remove them.
//   - After a write has returned, no [Registry.Resolve] of the same process gives
//     what was before. Over a shared store, that also holds for the writes of
//     other processes.
//   - What changes between two versions for those who call the tool is said in
//     words ([haft.Change.Schema]).
//
// [ReadDir], [WriteDir] and [Watch] move tools between a registry and a directory
// of source files.
package registry
