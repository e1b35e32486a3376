package filter

// allowed are the calls that every program may make, whatever the arguments.
// Names that the machine's architecture does not have are left out.
var allowed = []string{
	// Files.
	"access", "chdir", "chmod", "chown", "close", "close_range", "copy_file_range", "creat", "dup", "dup2", "dup3",
	"faccessat", "faccessat2", "fadvise64", "fallocate", "fchdir", "fchmod", "fchmodat", "fchmodat2", "fchown",
	"fchownat", "fcntl", "fdatasync", "fgetxattr", "flistxattr", "flock", "fremovexattr", "fsetxattr", "fstat",
	"fstatfs", "fsync", "ftruncate", "futimesat", "getcwd", "getdents", "getdents64", "getxattr", "inotify_add_watch",
	"inotify_init", "inotify_init1", "inotify_rm_watch", "lchown", "lgetxattr", "link", "linkat", "listxattr",
	"llistxattr", "lremovexattr", "lseek", "lsetxattr", "lstat", "mkdir", "mkdirat", "mknod", "mknodat", "newfstatat", "open", "openat",
	"openat2", "pread64", "preadv", "preadv2", "pwrite64", "pwritev", "pwritev2", "read", "readahead", "readlink",
	"readlinkat", "readv", "removexattr", "rename", "renameat", "renameat2", "rmdir", "sendfile", "setxattr", "splice",
	"stat", "statfs", "statx", "symlink", "symlinkat", "sync", "sync_file_range", "syncfs", "tee", "truncate", "umask",
	"unlink", "unlinkat", "utime", "utimensat", "utimes", "vmsplice", "write", "writev", "cachestat",
	// Waiting.
	"epoll_create", "epoll_create1", "epoll_ctl", "epoll_pwait", "epoll_pwait2", "epoll_wait",
	"eventfd", "eventfd2", "poll", "ppoll", "pselect6", "select", "signalfd", "signalfd4",
	"timerfd_create", "timerfd_gettime", "timerfd_settime",
	// Pipes and sockets. Which families there are is decided below.
	"accept", "accept4", "bind", "connect", "getpeername", "getsockname", "getsockopt", "listen", "pipe", "pipe2",
	"recvfrom", "recvmmsg", "recvmsg", "sendmmsg", "sendmsg", "sendto", "setsockopt", "shutdown",
	// Memory.
	"brk", "get_mempolicy", "madvise", "map_shadow_stack", "membarrier", "memfd_create", "mincore", "mlock", "mlock2",
	"mlockall", "mmap", "mprotect", "mremap", "mseal", "msync", "munlock", "munlockall", "munmap", "pkey_alloc",
	"pkey_free", "pkey_mprotect", "remap_file_pages",
	// Processes and threads.
	"alarm", "arch_prctl", "capget", "capset", "execve", "execveat", "exit", "exit_group", "fork", "futex", "futex_requeue",
	"futex_wait", "futex_waitv", "futex_wake", "get_robust_list", "get_thread_area", "getegid", "geteuid", "getgid",
	"getgroups", "getitimer", "getpgid", "getpgrp", "getpid", "getppid", "getpriority", "getresgid", "getresuid",
	"getrlimit", "getrusage", "getsid", "gettid", "getuid", "ioprio_get", "kill", "pause", "pidfd_open",
	"pidfd_send_signal", "prctl", "prlimit64", "restart_syscall", "rseq", "rt_sigaction", "rt_sigpending",
	"rt_sigprocmask", "rt_sigqueueinfo", "rt_sigreturn", "rt_sigsuspend", "rt_sigtimedwait", "rt_tgsigqueueinfo",
	"sched_get_priority_max", "sched_get_priority_min", "sched_getaffinity", "sched_getattr", "sched_getparam",
	"sched_getscheduler", "sched_rr_get_interval", "sched_setaffinity", "sched_yield", "set_robust_list",
	"set_thread_area", "set_tid_address", "setfsgid", "setfsuid", "setgid", "setgroups", "setitimer", "setpgid",
	"setpriority", "setregid", "setresgid", "setresuid", "setreuid", "setrlimit", "setsid", "setuid", "sigaltstack",
	"tgkill", "time", "times", "tkill", "vfork", "wait4", "waitid",
	// Clocks and the like.
	"clock_getres", "clock_gettime", "clock_nanosleep", "getcpu", "getrandom", "gettimeofday", "nanosleep", "sysinfo",
	"timer_create", "timer_delete", "timer_getoverrun", "timer_gettime", "timer_settime", "uname",
	// System V and POSIX IPC, in an IPC namespace of its own. See sharedIPC.
	"mq_getsetattr", "mq_notify", "mq_open", "mq_timedreceive", "mq_timedsend", "mq_unlink", "msgctl", "msgget", "msgrcv",
	"msgsnd", "semctl", "semget", "semop", "semtimedop", "shmat", "shmctl", "shmdt", "shmget",
	// Landlock only ever takes away.
	"landlock_add_rule", "landlock_create_ruleset", "landlock_restrict_self",
}

// sharedIPC are the calls that find objects of others where there is no IPC
// namespace, or see what others do with files.
var sharedIPC = []string{"inotify_init", "inotify_init1", "inotify_add_watch", "mq_open", "mq_unlink", "msgget", "semget", "shmget", "msgctl", "semctl", "shmctl"}

// metadata are the calls that change modes, owners and attributes by path.
// Landlock does not judge them, so without a root of its own a tool could reach
// every file of its user; through a descriptor it reaches only what it may open.
var metadata = []string{
	"chmod", "fchmodat", "fchmodat2", "chown", "lchown", "fchownat", "setxattr", "lsetxattr", "removexattr", "lremovexattr",
}

// missing answer ENOSYS: a caller that meets a kernel without them goes another
// way. glibc falls back from clone3 to clone, whose flags can be looked at.
var missing = []string{
	"clone3", "io_uring_enter", "io_uring_register", "io_uring_setup", "io_setup", "io_submit", "io_getevents",
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
var template = []string{
	"clone3", "mount", "umount2", "pivot_root", "move_mount", "open_tree", "fsopen", "fsconfig", "fsmount",
	"mount_setattr", "unshare", "sethostname", "setdomainname", "seccomp", "clone", "ioctl", "socket", "socketpair",
}
