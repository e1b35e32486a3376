package sandboxtest

import (
	"maps"

	"golang.org/x/sys/unix"
)

// callNumbers are the numbers of the calls that deeds name.
func callNumbers() map[string]int {
	n := map[string]int{
		"unshare": unix.SYS_UNSHARE, "setns": unix.SYS_SETNS, "clone": unix.SYS_CLONE, "clone3": unix.SYS_CLONE3,
		"mount": unix.SYS_MOUNT, "umount2": unix.SYS_UMOUNT2, "pivot_root": unix.SYS_PIVOT_ROOT,
		"open_tree": unix.SYS_OPEN_TREE, "move_mount": unix.SYS_MOVE_MOUNT, "fsopen": unix.SYS_FSOPEN,
		"fspick": unix.SYS_FSPICK, "mount_setattr": unix.SYS_MOUNT_SETATTR,
		"io_uring_setup": unix.SYS_IO_URING_SETUP, "io_uring_register": unix.SYS_IO_URING_REGISTER,
		"bpf": unix.SYS_BPF, "perf_event_open": unix.SYS_PERF_EVENT_OPEN, "userfaultfd": unix.SYS_USERFAULTFD,
		"name_to_handle_at": unix.SYS_NAME_TO_HANDLE_AT, "open_by_handle_at": unix.SYS_OPEN_BY_HANDLE_AT,
		"add_key": unix.SYS_ADD_KEY, "request_key": unix.SYS_REQUEST_KEY, "keyctl": unix.SYS_KEYCTL,
		"ptrace": unix.SYS_PTRACE, "process_vm_readv": unix.SYS_PROCESS_VM_READV,
		"process_vm_writev": unix.SYS_PROCESS_VM_WRITEV,
		"pidfd_getfd":       unix.SYS_PIDFD_GETFD, "pidfd_open": unix.SYS_PIDFD_OPEN, "kcmp": unix.SYS_KCMP,
		"settimeofday": unix.SYS_SETTIMEOFDAY, "clock_settime": unix.SYS_CLOCK_SETTIME, "adjtimex": unix.SYS_ADJTIMEX,
		"reboot": unix.SYS_REBOOT, "swapon": unix.SYS_SWAPON, "swapoff": unix.SYS_SWAPOFF,
		"init_module": unix.SYS_INIT_MODULE, "finit_module": unix.SYS_FINIT_MODULE,
		"delete_module": unix.SYS_DELETE_MODULE,
		"kexec_load":    unix.SYS_KEXEC_LOAD, "acct": unix.SYS_ACCT, "quotactl": unix.SYS_QUOTACTL,
		"syslog":      unix.SYS_SYSLOG,
		"sethostname": unix.SYS_SETHOSTNAME, "fanotify_init": unix.SYS_FANOTIFY_INIT,
		"personality":   unix.SYS_PERSONALITY,
		"migrate_pages": unix.SYS_MIGRATE_PAGES, "vhangup": unix.SYS_VHANGUP,
		"memfd_secret": unix.SYS_MEMFD_SECRET, "lookup_dcookie": unix.SYS_LOOKUP_DCOOKIE, "socket": unix.SYS_SOCKET,
		"mq_open": unix.SYS_MQ_OPEN, "mq_unlink": unix.SYS_MQ_UNLINK, "inotify_init1": unix.SYS_INOTIFY_INIT1,
		"inotify_add_watch": unix.SYS_INOTIFY_ADD_WATCH, "ioprio_set": unix.SYS_IOPRIO_SET,
		"rt_sigqueueinfo": unix.SYS_RT_SIGQUEUEINFO, "shmget": unix.SYS_SHMGET, "semop": unix.SYS_SEMOP,
		"openat2": unix.SYS_OPENAT2, "seccomp": unix.SYS_SECCOMP,
	}
	maps.Copy(n, machineCalls())
	return n
}
