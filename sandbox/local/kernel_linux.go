package local

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"haft"
	"haft/sandbox"
	"haft/sandbox/local/internal/plan"
)

// kernelRoot plans the root of the kernel's own processes around that of the command: the program, a small
// tmpfs for its files, and a complete process file system, on which gVisor builds a root of its own. Later
// steps are in the directory that the command will see as its root, where none of this is.
func (mc *machine) kernelRoot(pl *plan.Plan, k *Kernel) tree {
	made := map[string]bool{".": true}
	for _, dir := range []string{KernelDir, GuestRoot, "/proc", "/tmp"} {
		mkdirs(pl, made, strings.TrimPrefix(dir, "/"))
	}
	pl.Symlink(GuestRoot[1:]+"/dev", "dev")
	pl.Mount("proc", "proc", "proc", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, "")
	// 6 bytes of JSON at most are a byte of an argument, which are a MiB together.
	pl.Mount("haft", KernelDir[1:], "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, "size=8m,nr_inodes=64,mode=0700")
	t := mc.bind(pl, made, tree{host: k.Program, inside: KernelDir[1:] + "/program", attr: attrReadOnly}, false)
	pl.Chdir(GuestRoot[1:])
	return t
}

// planKernel plans the configuration of the kernel, leaves the root of the command, and returns the arguments
// of the kernel's program.
func (r *run) planKernel(pl *plan.Plan) ([]string, error) {
	pl.Chdir("..")
	if len(r.spec.Argv) == 0 {
		return nil, nil // only a probe
	}
	argv, config, err := r.p.config.Kernel.Command(r.spec, r.files()-1)
	if err != nil {
		return nil, err
	}
	pl.File(KernelDir[1:]+"/config.json", 0o400, config)
	return append([]string{KernelDir + "/program"}, argv...), nil
}

// kernelLimits plans the rlimits of the kernel's processes. The others are the command's own, which the kernel
// applies.
func (mc *machine) kernelLimits(pl *plan.Plan) {
	pl.Rlimit("core", unix.RLIMIT_CORE, 0, 0)
	pl.OpenFiles(min(kernelFiles, ownLimit(unix.RLIMIT_NOFILE)))
}

// kernelFiles is how many files a kernel may have open. It opens more than one for each of the command's.
const kernelFiles = 16 << 10

// hostLimits are the limits of the run and what its kernel needs.
func (r *run) hostLimits() haft.Limits {
	l := r.spec.Limits
	if k := r.p.config.Kernel; k != nil {
		l.Memory, l.Processes = l.Memory+k.Memory, l.Processes+k.Tasks
	}
	return l
}

// openKernelLog makes the pipe for the reports of the kernel, and returns its end. The kernel may open it again by
// its name in /proc, which the mode of the pipe decides about.
func (r *run) openKernelLog() (theirs *os.File, err error) {
	if r.kernelLog, theirs, err = pipe(); err != nil {
		return nil, err
	}
	if err := theirs.Chmod(0o622); err != nil {
		return nil, errors.Join(fmt.Errorf("make pipe: %w", err), theirs.Close())
	}
	return theirs, nil
}

// maxKernelLog is how much is read of what a kernel reports.
const maxKernelLog = 256 << 10

// readKernel replaces the status of the kernel's program, which has ended, by that of the command.
func (r *run) readKernel(a *account) {
	if r.kernelLog == nil {
		return
	}
	log := make([]byte, 0, 4096)
	raw, err := r.kernelLog.SyscallConn()
	if err == nil {
		err = raw.Control(func(fd uintptr) { log = readAvailable(int(fd), log) })
	}
	status, failed := r.p.config.Kernel.Status(log)
	if failed != nil || err != nil {
		r.kernelErr = &sandbox.SetupError{Step: "kernel", Path: r.spec.Argv[0], Err: errors.Join(failed, err)}
		return
	}
	a.status = syscall.WaitStatus(status)
}

// readAvailable appends what is in a pipe.
func readAvailable(fd int, to []byte) []byte {
	var b [4096]byte
	for len(to) < maxKernelLog {
		n, err := unix.Read(fd, b[:])
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil || n <= 0 {
			break
		}
		to = append(to, b[:n]...)
	}
	return to
}

// noTemplates refuses templates for a provider with a kernel: a fork would be a process of the same kernel.
func (p *Provider) noTemplates() error {
	if p.config.Kernel == nil {
		return nil
	}
	return &haft.Error{Code: haft.CodeDenied, Message: "a sandbox with a kernel of its own has no templates"}
}
