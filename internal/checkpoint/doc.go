// Package checkpoint signs the audit log, and refuses to sign what does not continue what
// it signed last.
//
// A [Keeper] adds chained checkpoints to the database and keeps the last of every
// organisation in a signed file beside the keys, audit.head. Before it signs anything it
// demands that the database has what that file says. So who can write to the database, and
// has no key, cannot rewrite, cut off or put back anything that was signed: the server does
// not start, and haft audit verify says why. Restoring an older database on purpose is
// [Plan] and [Keeper.Restore], which write it into the log.
//
// The file is written after the checkpoints are in the database, so after a crash it may be
// behind. Behind is good as long as the database has what it says; where several servers
// share a database, that is how it always is.
//
// Not promised: entries after the last checkpoint have no signature yet, so whoever writes
// to the database can change those, until the next one is signed. And who puts back the
// database and the file together, both of one earlier moment, is found only by what a
// [Sink] or an export has.
package checkpoint
