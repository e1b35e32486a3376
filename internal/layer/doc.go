// Package layer keeps installed packages: each set of them once, as a read-only
// directory under the digest of its lock and of the interpreter that it is for.
//
// A [Store] returns a [Layer] for a [Want], and builds it if it is not there. An
// [Installer] resolves a requirement.Set to a lock with hashes once
// ([Installer.Resolve]) and installs from the lock ([Installer.Install]). It makes
// commands of pip, uv or npm, which its caller runs in a sandbox.
//
//	caller                  Store                               another process
//	  │ Layer(want) ──────────►│ shared lock ◄─── locks/DIGEST ───►│
//	  │                        │ not there: exclusive lock ───────►│ waits for it
//	  │                        │ tmp/DIGEST.x/files ◄── build      │
//	  │                        │ modes, hashes, fsync              │
//	  │                        │ rename to layers/DIGEST           │
//	  │ ◄──────────────── Layer│ shared lock ─────────────────────►│ finds it there
//
// # What is promised
//
//   - A layer is complete: it appears by one rename, after its files are on the disk.
//     The next build of it and the next [Open] remove the remains of a crash, once
//     their lock is free.
//   - A layer is built once, however many callers in however many processes want it.
//     A build goes on as long as a caller waits for it.
//   - A layer is unchanged: before its first use in a process its files are compared
//     with their hashes, unless Config.Quick. A layer that differs is built again.
//   - Nothing removes a layer that any process uses.
//   - Files are 0444 or 0555 and directories 0555. The caller mounts them
//     read-only all the same: modes do not stop their owner.
//   - Size and number of files are bounded, while it is built too.
//
// # What the locks mean
//
// Locks are those of flock(2) on one file for each digest: they belong to an open
// file, so that they work within a process as well, and end with it, however it
// ends. The time of the file is when the layer was last used. The directory must
// be on a file system of this machine.
package layer
