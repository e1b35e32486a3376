// Package limit decides when a call may begin. It bounds how often, by rates and
// quotas, and how many at once, by slots for which calls wait in a fair queue.
//
//	states, err := l.Take(ctx, ask, now)      // rates and quotas: yes or no
//	grant, waited, err := l.Enter(ctx, ask)   // slots: waits for its turn
//	defer grant.Leave()
//
// # How often
//
// A rate is a token bucket and a quota a count within a window of the calendar.
// Take takes from all of them or from none. What it takes is not given back if a
// later stage refuses the call: an attempt counts, or else calls that are refused
// could be repeated for nothing.
//
// Take returns the states of what it took from, to be kept with the record of the
// call, and asks [Config.Load] for those that it does not know: after a restart
// there is no more to take than without it. If they cannot be loaded, the call is
// refused. A clock that jumps back gives nothing, and one that jumps ahead at most
// what a bucket holds.
//
// # How many at once
//
// A call needs a slot of all that run, one of its tenant and one of each of its
// own keys. Tenants take turns: however many calls of others wait, the next call
// of a tenant is at most one turn of each of them away. The calls of one tenant
// run in the order in which they came, but a call that waits for a slot of a key
// does not hold up those behind it that need others. No slot is idle while a call
// waits that could use it, with one exception: a call that needs several keys and
// has found one of them taken too often gets the next that come free kept for it,
// because otherwise calls that need fewer could pass it for ever.
//
// # How it is done
//
// The calls of a tenant that wait and need the same keys are a group: either the
// first of them can run or none can. A group is ready, in a heap of its tenant by
// the arrival of its first call, or waits in the wait list of its tenant at one key
// that is full. When the key has a free slot, each wait list at it sends its first group
// back to the ready ones. A turn takes the first that is ready and runs a call of
// it or moves it to a wait list again. So a call that needs one key costs the logarithm of the
// groups that wait, however many calls they have; with several keys it can cost
// that for each group at a key, and with a key that tenants share for each tenant
// at it.
//
// All of it is in memory and behind two locks, one for each half, which are never
// held together or while something is loaded.
package limit
