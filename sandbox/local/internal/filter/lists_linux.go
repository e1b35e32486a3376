package filter

// A group is a list of system calls that are allowed for one reason.
type group struct {
	why   string
	names []string
}

// everywhere are the calls that every program may make in every mode, whatever the
// arguments. Names that the machine's architecture does not have are left out.
var everywhere = []group{
	{"works on a descriptor that the program has, and reads, writes or closes it", []string{
		"close", "close_range", "copy_file_range", "dup", "dup2", "dup3", "fadvise64", "fallocate", "fdatasync",
		"flock", "fsync", "ftruncate", "getdents", "getdents64", "lseek", "pread64", "preadv", "preadv2", "pwrite64",
		"pwritev", "pwritev2", "read", "readahead", "readv", "sendfile", "splice", "sync_file_range", "tee",
		"vmsplice", "write", "writev", "cachestat"}},
	{"opens, makes, renames or removes a file; the mount table and Landlock decide about the path", []string{
		"creat", "link", "linkat", "mkdir", "mkdirat", "mknod", "mknodat", "open", "openat", "openat2", "rename",
		"renameat", "renameat2", "rmdir", "symlink", "symlinkat", "unlink", "unlinkat"}},
	{"asks about a file, or changes only the caller's own directory or mask", []string{
		"access", "chdir", "faccessat", "faccessat2", "fchdir", "fgetxattr", "flistxattr", "fstat", "fstatfs",
		"getcwd", "lstat", "newfstatat", "readlink", "readlinkat", "stat", "statfs", "statx", "umask"}},
	{"waits for descriptors, timers or signals of its own", []string{
		"epoll_create", "epoll_create1", "epoll_ctl", "epoll_pwait", "epoll_pwait2", "epoll_wait", "eventfd",
		"eventfd2", "poll", "ppoll", "pselect6", "select", "signalfd", "signalfd4", "timerfd_create",
		"timerfd_gettime", "timerfd_settime"}},
	{"uses pipes, and sockets that the program was able to make", []string{
		"getpeername", "getsockname", "getsockopt", "pipe", "pipe2", "recvfrom", "recvmmsg", "recvmsg", "sendmmsg",
		"sendmsg", "sendto", "shutdown"}},
	{"changes only the caller's own memory, within its limits", []string{
		"brk", "get_mempolicy", "madvise", "map_shadow_stack", "membarrier", "mincore", "mlock", "mlock2",
		"mlockall", "mprotect", "mremap", "mseal", "msync", "munlock", "munlockall", "munmap", "pkey_alloc",
		"pkey_free", "pkey_mprotect", "remap_file_pages"}},
	{"starts or ends a process or thread of the caller's own, or waits for one", []string{
		"execve", "execveat", "exit", "exit_group", "fork", "pidfd_open", "vfork", "wait4", "waitid"}},
	{"synchronises threads through memory that they share", []string{
		"futex", "futex_requeue", "futex_wait", "futex_waitv", "futex_wake", "get_robust_list", "rseq",
		"set_robust_list"}},
	{"asks about processes and limits, which the kernel allows everybody", []string{
		"capget", "getegid", "geteuid", "getgid", "getgroups", "getpgid", "getpgrp", "getpid", "getppid",
		"getpriority", "getresgid", "getresuid", "getrlimit", "getrusage", "getsid", "gettid", "getuid",
		"ioprio_get", "sched_get_priority_max", "sched_get_priority_min", "sched_getaffinity", "sched_getattr",
		"sched_getparam", "sched_getscheduler", "sched_rr_get_interval", "sysinfo", "times", "uname"}},
	{"changes only the caller itself, and gives it nothing", []string{
		"arch_prctl", "capset", "get_thread_area", "sched_yield", "set_thread_area", "set_tid_address", "setpgid",
		"setrlimit", "setsid"}},
	{"handles signals that the caller gets", []string{
		"pause", "restart_syscall", "rt_sigaction", "rt_sigpending", "rt_sigprocmask", "rt_sigreturn",
		"rt_sigsuspend", "rt_sigtimedwait", "sigaltstack"}},
	{"reads clocks, sleeps or sets a timer of its own", []string{
		"alarm", "clock_getres", "clock_gettime", "clock_nanosleep", "getcpu", "getitimer", "gettimeofday",
		"nanosleep", "setitimer", "time", "timer_delete", "timer_getoverrun", "timer_gettime", "timer_settime"}},
	{"gives random bytes", []string{"getrandom"}},
	{"only ever takes rights away from the caller", []string{
		"landlock_add_rule", "landlock_create_ruleset", "landlock_restrict_self"}},
}

// namespaced are the further calls of a sandbox with namespaces of its own: what
// they reach belongs to the sandbox.
var namespaced = []group{
	{"changes owners, modes, times and attributes; the root file system is the sandbox's own, and read-only where " +
		"it is not", []string{
		"chmod", "chown", "fchmod", "fchmodat", "fchmodat2", "fchown", "fchownat", "fremovexattr", "fsetxattr",
		"futimesat", "lchown", "lremovexattr", "lsetxattr", "removexattr", "setxattr", "utime", "utimensat",
		"utimes"}},
	{"reads extended attributes by path, in the sandbox's own tree",
		[]string{"getxattr", "lgetxattr", "listxattr", "llistxattr"}},
	{"makes a timer, of which the sandbox's user namespace has its own count", []string{"timer_create"}},
	{"names sockets and connects them, in the sandbox's own network namespace and file tree", []string{
		"accept", "accept4", "bind", "connect", "listen"}},
	{"sends signals to processes of the sandbox: no other has a number in its pid namespace", []string{
		"kill", "pidfd_send_signal", "rt_sigqueueinfo", "rt_tgsigqueueinfo", "tgkill", "tkill"}},
	{"changes ids among those that the user namespace maps, which are one", []string{
		"setfsgid", "setfsuid", "setgid", "setgroups", "setregid", "setresgid", "setresuid", "setreuid", "setuid"}},
	{"uses System V IPC, in an IPC namespace of its own", []string{
		"msgctl", "msgget", "msgrcv", "msgsnd", "semctl", "semget", "semop", "semtimedop", "shmat", "shmctl", "shmdt"}},
	{"cuts a file, by a path that the mount table and Landlock decide about", []string{"truncate"}},
}

// reduced are the further calls of a sandbox without namespaces. Every object of the
// host that such a call could name is a stranger's, so there are few.
var reduced = []group{
	{"cuts a file, by a path that Landlock decides about (ABI 3, without which there is no such sandbox)",
		[]string{"truncate"}},
}

// shared are calls that a sandbox without namespaces does not have, and what they
// answer there so that programs go on without. Landlock does not judge the path of an
// extended attribute; timers are counted by user id, and few are left for the next
// program of that user (timeout takes alarm instead).
var shared = map[string]uint32{
	"getxattr": unsupported, "lgetxattr": unsupported, "listxattr": unsupported, "llistxattr": unsupported,
	"timer_create": absent,
}

// signals are the further calls of a sandbox without namespaces whose Landlock keeps
// signals inside (ABI 6).
var signals = []group{
	{"sends signals to processes of the sandbox: Landlock's scope keeps them from others", []string{
		"kill", "pidfd_send_signal", "tgkill", "tkill"}},
}

// internet are the further calls of a sandbox without namespaces that was given the
// host's network. A Unix socket cannot be made there but as a connected pair of
// streams, which connects to nobody else.
var internet = []group{
	{"uses sockets of the network that the call was given", []string{"accept", "accept4", "bind", "connect", "listen"}},
}

// uncounted are the calls that make memory which no process maps. Where only a meter
// that looks at processes bounds memory, it would be free.
var uncounted = map[string]uint32{"memfd_create": absent, "shmget": denied}

// missing answer ENOSYS: a caller that meets a kernel without them goes another
// way. glibc falls back from clone3 to clone, whose flags can be looked at. sync and
// syncfs would make the whole machine write what it has, again and again. Watches of
// inotify and POSIX queues are counted for whoever made the user namespace, too: for
// root of the host, who has 128 watchers for all, or for the user whom Haft runs as.
var missing = []string{
	"inotify_add_watch", "inotify_init", "inotify_init1", "inotify_rm_watch", "mq_getsetattr", "mq_notify", "mq_open",
	"mq_timedreceive", "mq_timedsend", "mq_unlink",
	"clone3", "sync", "syncfs", "io_uring_enter", "io_uring_register", "io_uring_setup", "io_setup", "io_submit",
	"io_getevents",
	"io_pgetevents", "io_cancel", "io_destroy", "userfaultfd", "memfd_secret", "set_mempolicy", "mbind",
	"set_mempolicy_home_node", "process_madvise", "process_mrelease", "pidfd_getfd", "kcmp", "lookup_dcookie",
	"uselib", "ustat", "sysfs", "_sysctl", "nfsservctl", "vserver", "afs_syscall", "getpmsg", "putpmsg", "tuxcall",
	"security", "create_module", "get_kernel_syms", "query_module", "epoll_ctl_old", "epoll_wait_old",
}

// killed are calls that end the process that makes them: no honest program does,
// and an exploit that needs one should not get a second try.
var killed = []string{
	"kexec_load", "kexec_file_load", "init_module", "finit_module", "delete_module", "reboot", "swapon", "swapoff",
	"iopl", "ioperm", "modify_ldt", "acct", "vhangup", "nfsservctl", "quotactl", "quotactl_fd",
}

// template are the further calls of the process that cells are forked from. It
// runs no tenant's code, but it makes namespaces.
var template = group{"the process that cells are forked from makes namespaces, and runs no tenant's code", []string{
	"clone3", "mount", "umount2", "pivot_root", "move_mount", "open_tree", "fsopen", "fsconfig", "fsmount",
	"mount_setattr",
	"unshare", "sethostname", "setdomainname", "seccomp", "clone", "ioctl", "socket", "socketpair", "fcntl",
	"prctl", "prlimit64", "sched_setaffinity", "setpriority", "setsockopt", "mmap",
}}

// granted returns the groups of calls that a filter allows whatever the arguments.
func granted(c Config) []group {
	list := everywhere
	if !c.Reduced {
		return append(list[:len(list):len(list)], namespaced...)
	}
	list = append(list[:len(list):len(list)], reduced...)
	if c.Scoped {
		list = append(list, signals...)
	}
	if c.Internet {
		list = append(list, internet...)
	}
	return list
}
