package local

import "haft/sandbox"

// A Kernel is a program that serves the system calls of a command in place of the host's kernel, such as
// gVisor. It runs inside the sandbox of a run, without any privilege there, and starts an init as its guest, which
// confines and starts the command like that of any other run.
//
// What the guest shall see is below [GuestRoot]. The kernel's own files are in [KernelDir], which the guest does
// not see.
type Kernel struct {
	// Program is the path of a static executable of the host.
	Program string
	// Command returns the arguments with which Program runs guest, and the content of [KernelDir]/config.json.
	Command func(spec *sandbox.Spec, guest Guest) (argv []string, config []byte, err error)
	// Reason returns why there is no guest, from what Program wrote to Guest.Log.
	Reason func(log []byte) string
	// Memory and Tasks are what the program needs itself: they are added to the limits of a run.
	Memory int64
	Tasks  int
}

// A Guest is the process that a [Kernel] starts.
type Guest struct {
	Argv, Env []string
	// Files are descriptors of the kernel's program: the first becomes descriptor 3 of the guest, and so on.
	Files []int
	// Program is the descriptor of the guest's executable, which has no path.
	Program int
	// Log is where the kernel reports why the guest could not be started.
	Log int
}

// The paths of a sandbox with a [Kernel], as that sees them.
const (
	KernelDir = "/kernel"
	GuestRoot = "/guest"
	// GuestID is the user and the group of the guest.
	GuestID = 1000
)
