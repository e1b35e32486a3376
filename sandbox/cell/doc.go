// Package cell keeps sandboxes ready, so that a call need not wait for one.
//
// A [Cell] is one run of a sandbox: started, confined, its interpreter booted
// and warmed by a dummy call, then parked. It is taken once, by one call, and
// never seen again; the [Pool] makes the next one in the background. Cells are
// kept by [Key]: what differs in tenant, runtime environment or policy never
// shares one, and a changed policy is another key.
//
// The pool knows nothing of what runs inside. A [Plan] tells it how to start a
// cell, how to see that it is up, and how to warm it.
//
//	pool                              cell
//	  │ Plan.Run(spec) ─────────────────► starts, is confined
//	  │ Plan.Boot ◄──── hello ──────────┤
//	  │ Plan.Warm ───── warm ──────────►│ one call for nothing
//	  │           ◄──── ready ──────────┤
//	  │ (parked: no clock runs)         │
//	caller: Take                        │
//	  │ Begin, then the call ──────────►│
//	  │           ◄──── the result ─────┤
//	  │ Release ───────────────────────►│ ended; torn down behind the caller's back
//
// # What a pool promises
//
// A Take is answered by a parked cell, by a fresh one, or by the one clear error
// of an interpreter that does not start. It never fails because there are many:
// starts are bounded, and who waits for one waits in line, key by key in turn, so
// that no tenant's burst holds up another's call. The number of parked cells
// follows the rate of calls. A key that is not used for a while has none, and a
// pool without parked cells has no timer and no goroutine.
//
// # Reuse
//
// A Plan with Reuse gives its cell back after a call, for the next call of that
// key. Whatever one call leaves in memory, files or threads is there for the
// next: use it for one trusted tool of one tenant, where loading is dear.
package cell
