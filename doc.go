// Package haft has the types of a tool-execution system for AI agents that all other
// packages share.
//
// A [Tool] has a name and a current [Version], which is immutable. A [Call] asks
// for one run of one version, on behalf of a [Principal]. It ends with exactly
// one [Result]: its [Status] says how the call ended, and its [Isolation] says
// which controls the run really had. [Event] values report the progress of a call.
// If a person has to agree first, there is an [Approval].
//
// A failure has one of three forms. If the tool failed, the Result has a
// [Failure]. If the caller made a mistake or a rule refused, there is an [*Error]
// with a [Code]. Every other error is internal, and counts as [CodeInternal].
//
// This package imports the standard library only and does no I/O. Its types are
// the wire types: the JSON names are pinned by the files in testdata/wire.
//
// Start with [Service], which the engine and the HTTP client both implement.
package haft
