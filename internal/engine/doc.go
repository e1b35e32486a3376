// Package engine takes calls through the one pipeline that nothing goes around:
//
//	enter → resolve → authorize → limit → validate → approve → execute → check → leave
//
// Package service manages what calls are made of. Enter and leave are not stages: they stand
// at the one entry and the one exit of every call, so that no refusal, panic or
// cancellation can go around redaction and audit.
//
// # What is promised
//
//   - Nothing runs that is not recorded first. The record of a call, the entry of
//     the audit and the event that tells of it are written in one transaction; if
//     that fails, nothing runs.
//   - Nobody is told of an end that is not recorded. A caller has its result, and
//     a watcher its event, after the transaction that closes the record.
//   - No call runs twice. After a crash a call that had begun is closed as
//     unknown, and only one that had not begun, or whose tool says that it is
//     idempotent, is run.
//   - An approval is for one version with exactly these arguments, once, and the
//     call is authorized again when it runs.
//   - What leaves is redacted: results, output, errors, events, audit.
//
// # How a call is written down
//
//	caller           engine              journal            store
//	  │── Call ───────►│ stages…           │                  │
//	  │                │── executing ─────►│── record, audit, │
//	  │                │ (a cell compiles) │   event, limits ►│ one transaction
//	  │                │ runs the tool     │                  │
//	  │                │── completed ─────►│── the same ─────►│ one transaction
//	  │◄── Result ─────│                   │                  │
//
// While the first is written, a sandbox for the call is made ready and reads its
// source ([executor.Preparer]). Nothing of the tool runs until it is on the disk.
//
// Calls that come at the same time share transactions: the hub of package event
// collects what comes while one is being written.
package engine
