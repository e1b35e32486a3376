// Package soak checks from outside that an accepted call is a promise.
//
// Its tests start real haft servers, submit calls over HTTP, break something (a
// process, the disk, the database) and write down a [History]: each request with its
// answer, each sighting of a record, each effect that a tool had, each event.
// [Check] then holds the history against rules. It is a pure function, and the
// package imports nothing of the engine, the store or the client, so that a mistake
// there is not made here a second time.
//
// TestUsers looks at the same from the side of its users: many of them call tools of all kinds while things break, and
// a table says what they see.
//
// go test ./internal/soak runs a short form. make soak and make soak-users run the long ones and print tables.
// The variables are:
//
//	HAFT_SOAK=long         the sizes of the long form, one scenario after the other
//	HAFT_SOAK_BINARY=FILE  the haft to test, instead of one that is built
//	HAFT_SOAK_SERVE=FLAGS  further flags of haft serve
//	HAFT_SOAK_SETTLE=60s   how long after the fault calls may take to end
//	HAFT_SOAK_THINK=8s     how long a user of TestUsers waits between two calls, on average
//	HAFT_SOAK_HISTORY=DIR  a directory that gets the history of every scenario as JSON
//	HAFT_SOAK_REPORT=FILE  a file that gets the table of TestUsers as Markdown
package soak
