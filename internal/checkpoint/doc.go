// Package checkpoint signs the audit log. It refuses to sign a log that does not continue
// the one that it signed last.
//
// A [Keeper] adds chained checkpoints to the database and keeps the last of every
// organisation in a signed file beside the keys, audit.head. Before it signs, the database
// must have everything that the file says. So an attacker who can write to the database, and
// has no key, cannot rewrite, cut off or put back anything that was signed: the server does
// not start, and haft audit verify says why. [Plan] and [Restoration.Do] restore an older
// database on purpose, and write that into the log.
//
// The file is written after the checkpoints are in the database, so after a crash it may be
// behind. Behind is good as long as the database has what it says; where several servers
// share a database, that is how it always is.
//
// Not promised: entries after the last checkpoint have no signature yet, so an attacker who
// can write to the database can change those. Restoring the database and the file together,
// both of one earlier moment, is found only by comparison with a [Sink] or an export.
package checkpoint
