// Package event fans out what happens to calls, in order.
//
// A [Hub] takes events ([Hub.Publish]), numbers them, appends them to a [Log], and passes
// them to the watchers ([Hub.Watch]). Every event has two numbers. Seq counts the events of
// one call: 1, 2, 3. Cursor rises over all calls of the hub; a watcher that resumes names
// the last one it saw and goes on after it.
//
//	publisher            hub                     log              watcher
//	   │── Publish(e) ───►│                       │                  │
//	   │                  │ e.Seq, e.Cursor       │                  │
//	   │                  │──── Append(batch) ───►│                  │
//	   │                  │◄─────── kept ─────────│                  │
//	   │                  │───────── into its bounded queue ────────►│
//	   │◄── e, nil ───────│                       │                  │
//	   │                  │                       │◄── After(cur) ───│ on resume
//
// # Guarantees
//
//   - Nothing without an owner. An event without a principal is refused, and so is
//     a watch without an organisation. No event reaches another organisation.
//   - Order. A watcher gets events by rising Cursor. Those of one call have the Seq
//     1, 2, 3 without a gap or a repetition, in the order in which their Publish
//     calls began, if each began after the one before had returned.
//   - Stored before sent. A watcher never sees an event that the log refused. When
//     Publish returns nil, the event is in the log and in the queue of every watcher that
//     it matches.
//   - Resume. A watch after a Cursor gives every later event that fits, or says
//     with [ErrLost] that some are gone. It never skips in silence.
//   - A slow watcher costs others nothing. Publish never waits for one. When the
//     queue of a watcher is full it is dropped: it gets what is queued, then
//     [ErrSlow]; [Hub.Stats] and the logger report it to the operator.
//   - Several processes on one [SharedLog]. A watcher of any of them gets the events
//     of all, in the order of their Cursors, which is the same for everybody. Events
//     of another process come within a second.
//   - No goroutines, but for one that looks for the events of other processes while
//     anybody watches a shared log. A watcher waits in the goroutine that ranges over
//     it.
//
// # Not guaranteed
//
//   - Order between calls beyond what Cursor says after the fact.
//   - That Cursor has no gaps: other calls, other organisations and refused
//     events leave some. So a cursor reveals how busy the whole hub is.
//   - Exactly once after an error: if Publish failed, the log may hold the event
//     all the same. Watchers then get it before the next one, so that Seq has no
//     gap; publishing it again makes a second event.
//   - Order between events of one call that are published at the same time.
//   - The Seq of a call of which two processes publish events at the same time: one
//     process has a call, and the engine sees to it.
//   - Anything about a call after its [haft.EventCompleted]: the hub forgets it.
//
// Events are shared between watchers: Data and Roles must not be changed.
package event
