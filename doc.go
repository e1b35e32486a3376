// Package haft is the vocabulary of a tool-execution system for AI agents: the
// words that every other package speaks, and nothing else.
//
// A [Tool] has a name and a current [Version], which is immutable. A [Call] asks
// for one run of one version, on behalf of a [Principal]. It ends with exactly
// one [Result], whose [Status] says what became of it and whose [Isolation] says
// what the run was really confined by. What happens on the way is told in
// [Event] values. A person may have to agree first: that is an [Approval].
//
// Three owners of a fault have three forms. A tool that failed is a Result with
// a [Failure]. A caller or a rule that stood in the way is an [*Error] with a
// [Code]. Everything else is ours, and counts as [CodeInternal].
//
// This package imports the standard library only and does no I/O. Its types are
// the wire types: the JSON names are pinned by the files in testdata/wire.
//
// Start with [Service], which the engine and the HTTP client both implement.
package haft
