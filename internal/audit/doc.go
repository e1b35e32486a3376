// Package audit makes the log of actions provable. Every organisation has one chain
// of entries, and each entry holds the hash of the one before it. To change, remove,
// add or move an entry, an attacker has to change every entry after it. A [Checkpoint]
// prevents that: it is the hash of one entry under an Ed25519 signature.
//
// [Link] puts an entry at the end of a chain and [Verify] looks at a whole one.
// [Export] writes a chain as JSON Lines and [Read] verifies such a file without
// the store that it came from.
//
// Promised: the hash covers every field of an entry, in an encoding that has a
// version and in which no two entries look the same. The bytes of a Body are
// hashed as they are and kept as they are, through an export too, so JSON needs
// no canonical form here. Time is kept in microseconds.
//
// Checkpoints are chains themselves, see [Place]: none can be left out, moved or
// replayed. Only the end of both chains can be cut off, or written anew from some
// checkpoint on. [Heads], and the [Mark] of each checkpoint, are kept where the
// writer of the store cannot reach them, and [VerifyMarks] demands them.
//
// Not promised: who can write to the store can rewrite or cut off the entries after
// the last checkpoint without a trace.
//
// The package is pure: it reads no file, no clock and no store.
package audit
