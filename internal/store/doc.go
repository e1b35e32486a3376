// Package store keeps what must outlive a process: tools with their versions,
// calls, approvals, events, the audit trail and what belongs to them.
//
// There is one implementation in portable SQL, [Store]. Packages sqlite and
// postgres below open a database and hand it over with a [Dialect], which has
// the few words that differ. Package storetest is the conformance suite of both.
//
// [Store.Commit] is the hot path: everything that happened to a group of calls
// is kept in one transaction, or nothing of it is. When it returns, it is on the
// disk.
//
// What belongs to one organisation is never found with the name of another: a
// thing of somebody else does not exist. Every list is bounded, see [MaxPage],
// and is read on from where the last one ended.
//
// Text that no database takes in an indexed column, because it is too long, holds
// a NUL or is not UTF-8, is looked up by a digest instead. So no name that
// somebody made up can make a batch fail that has the calls of others in it.
package store
