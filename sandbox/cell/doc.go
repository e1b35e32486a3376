// Package cell keeps sandboxes ready, so that a call need not wait for one.
//
// A [Cell] is one run of a sandbox: started, confined, its interpreter booted
// and warmed by a dummy call. Then it is idle until one call takes it. A cell is used
// once; the [Pool] makes the next one in the background. Cells are kept by [Key]: calls
// that differ in tenant, runtime environment or policy never share one, and a changed
// policy is another key.
//
// The pool does not know what runs inside. A [Plan] defines how to start a cell, how to
// see that it is up, and how to warm it.
//
//	pool                              cell
//	  │ Plan.Run(spec) ─────────────────► starts, is confined
//	  │ Plan.Boot ◄──── hello ──────────┤
//	  │ Plan.Warm ───── warm ──────────►│ a dummy call
//	  │           ◄──── ready ──────────┤
//	  │ (idle: no clock runs)           │
//	caller: Take                        │
//	  │ Begin, then the call ──────────►│ running
//	  │           ◄──── the result ─────┤
//	  │ Release ───────────────────────►│ exiting; the caller does not wait for it
//
// # What a pool promises
//
// Take returns an idle cell, a fresh one, or the error of an interpreter that does not
// start. It never fails because there are many calls: starts are bounded, and calls wait
// in a queue in which keys take turns, so that no tenant's burst holds up another's call.
// The number of idle cells follows the rate of calls. A key that is not used for a while
// has none, and a pool without idle cells has no timer and no goroutine.
//
// # Reuse
//
// A Plan with Reuse gives its cell back after a call, for the next call of that
// key. Whatever one call leaves in memory, files or threads is there for the
// next: use it for one trusted tool of one tenant, where loading takes long.
package cell
