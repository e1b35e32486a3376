package local

import (
	"syscall"

	"golang.org/x/sys/unix"

	"haft"
	"haft/sandbox"
)

// An account is all that is known about the end of a run.
type account struct {
	// stop says why we ended it, if we did, and limit by which limit.
	stop  sandbox.Cause
	limit haft.FailureKind
	// status is that of the command, if it ended by itself or by our signal.
	status syscall.WaitStatus
	known  bool
	// oom and refused are processes that were killed for memory and forks that were refused,
	// where there are cgroups. They are read of a command that ended by itself only.
	oom, refused int64
	// full says that the private directories have no byte or no inode left.
	diskFull, inodesFull bool
}

// judge returns the cause of an end: first our own reason for ending the run, then what
// the kernel counted, then the exit status.
func (a account) judge(e *sandbox.Exit) {
	e.Cause, e.Limit = a.stop, a.limit
	if a.known && a.status.Signaled() {
		e.Signal = int(a.status.Signal())
	}
	if e.Cause != "" {
		return
	}
	failed := !a.known || !a.status.Exited() || a.status.ExitStatus() != 0
	limit := func(kind haft.FailureKind) { e.Cause, e.Limit = sandbox.CauseLimit, kind }
	switch {
	case a.oom > 0 && failed:
		limit(haft.FailMemory)
	case a.refused > 0 && failed || a.refused > refusedForks:
		// Many refused forks mean a fork bomb, even if the command exited with 0: the
		// shell that starts a bomb does so before its children are killed.
		limit(haft.FailPIDs)
	case e.Signal == int(unix.SIGSYS) || a.exitedLike(unix.SIGSYS):
		e.Cause = sandbox.CauseBlocked
	case e.Signal == int(unix.SIGXCPU) || a.exitedLike(unix.SIGXCPU):
		limit(haft.FailCPU)
	case e.Signal == int(unix.SIGXFSZ) || a.exitedLike(unix.SIGXFSZ):
		limit(haft.FailFileSize)
	case failed && a.inodesFull:
		limit(haft.FailInodes)
	case failed && a.diskFull:
		limit(haft.FailDisk)
	case a.known && a.status.Exited():
		e.Cause, e.Code = sandbox.CauseExit, a.status.ExitStatus()
	default:
		e.Cause = sandbox.CauseSignal
		if e.Signal == 0 {
			e.Signal = int(unix.SIGKILL) // the init was killed, and could not report it
		}
	}
}

// exitedLike reports whether an exit status is the one with which a shell reports that
// a signal ended its command.
func (a account) exitedLike(sig unix.Signal) bool {
	return a.known && a.status.Exited() && a.status.ExitStatus() == 128+int(sig)
}
