package local

import (
	"log/slog"

	"haft"
)

// Config adjusts a [Provider]. The zero value is good.
type Config struct {
	// Dir holds the lock of this instance and an empty directory to mount on.
	// The default is /run/haft for root, else haft-UID in the directory for
	// temporary files, or haft-UID-RANDOM if another user took that name. It must be a
	// local file system.
	Dir string
	// Syscalls are names of system calls that are allowed beyond the list. Calls
	// that kill cannot be allowed.
	Syscalls []string
	// Forbid leaves controls out, as if the machine could not give them. It is
	// for tests and for machines that have a control but not a working one.
	// Forbidding any namespace gives the reduced mode.
	Forbid []haft.Control
	// AllowReduced allows runs where the machine gives no more than
	// [haft.LevelReduced]: without namespaces a command shares the host's files,
	// processes and network, and only Landlock and a filter of system calls protect
	// them. Otherwise such runs are refused.
	AllowReduced bool
	// UIDs is the first of 268,435,456 unused user ids of the host. Every run gets
	// its own one when Haft is root. The default is 0x70000000. Subordinate ids of
	// users are usually far below.
	UIDs uint32
	// Kernel, if not nil, serves the system calls of all commands. There are no templates then.
	Kernel *Kernel
	// Logger gets messages that an operator can act on. Nil discards them.
	Logger *slog.Logger
}
