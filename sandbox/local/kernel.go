package local

import "haft/sandbox"

// A Kernel is a program that serves the system calls of a command in place of the host's kernel, such as
// gVisor. It runs inside the sandbox of a run, without any privilege there, and confines the command once more.
//
// What the command shall see is below [GuestRoot]. The program itself is in [KernelDir], with its
// configuration, and a directory that it may write to, which the command does not see.
type Kernel struct {
	// Program is the path of a static executable of the host.
	Program string
	// Command returns the arguments with which Program runs the command of spec, and the content of
	// [KernelDir]/config.json. The program gets the descriptors of the command, and one more, logFD, for Status.
	Command func(spec *sandbox.Spec, logFD int) (argv []string, config []byte, err error)
	// Status returns the wait status of the command from what Program wrote to logFD, or the error for which
	// the command did not run.
	Status func(log []byte) (status uint32, err error)
	// Memory, Tasks and Processes are what the program needs for itself: they are added to the limits of a run.
	Memory           int64
	Tasks, Processes int
}

// The paths of a sandbox with a [Kernel], as that sees them.
const (
	KernelDir = "/kernel"
	GuestRoot = "/guest"
	// GuestID is the user and the group of the command.
	GuestID = 1000
)
