package sandboxtest

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"sync"

	"haft"
)

// numbers is the table of system calls as Python.
func numbers() string {
	table := callNumbers()
	var b strings.Builder
	b.WriteString("NR = {")
	for _, name := range slices.Sorted(maps.Keys(table)) {
		fmt.Fprintf(&b, "'%s': %d, ", name, table[name])
	}
	b.WriteString("}\n")
	return b.String()
}

// A deed is a system call that must be denied. Without a filter, its arguments succeed or
// get as far as possible, and do no harm.
type deed struct{ name, source, story string }

// deeds is the list. A call that fails because of its arguments, and not because of a
// rule, proves nothing. Where the kernel checks a capability first, the arguments may be
// wrong.
func deeds() []deed {
	return []deed{
		{"unshare_user", `call('unshare', 0x10000000)`,
			"A user namespace of one's own opens the kernel's largest attack surface."},
		{"unshare_all", `call('unshare', 0x00020000 | 0x20000000 | 0x40000000)`, "No namespaces of one's own."},
		{"setns", `call('setns', os.open('/proc/self/ns/net', os.O_RDONLY), 0)`,
			"No entering of namespaces, one's own included."},
		{"clone_newuser", `call('clone', 0x10000000 | 17, 0, 0, 0, 0) == 0 and os._exit(7)`, "No way around by clone."},
		{"clone3", `call('clone3', ctypes.create_string_buffer(88), 88)`,
			"A filter cannot look into clone3's arguments, so that it must not be there."},
		{"mount_tmpfs", `call('mount', 'none', '/tmp', 'tmpfs', 0, 0)`, "Nothing can be mounted."},
		{"mount_proc", `call('mount', 'proc', '/proc', 'proc', 0, 0)`, "No fresh proc with its masks off."},
		{"mount_bind", `call('mount', '/', '/tmp', 0, 4096, 0)`, "No bind mount."},
		{"remount_rw", `call('mount', 0, '/usr', 0, 32 | 4096, 0)`, "What is read-only stays so."},
		{"umount", `call('umount2', '/proc', 2)`, "No mask can be taken off."},
		{"pivot_root", `call('pivot_root', '/tmp', '/tmp')`, "No other root."},
		{"chroot", `os.chroot('.')`, "No other root by chroot."},
		{"open_tree", `call('open_tree', -100, '/', 0)`, "None of the new mount calls."},
		{"open_tree_clone", `call('open_tree', -100, '/', 1)`, "None of the new mount calls."},
		{"move_mount", `call('move_mount', -100, '/tmp', -100, '/work', 0)`, "None of the new mount calls."},
		{"fsopen", `call('fsopen', 'tmpfs', 0)`, "None of the new mount calls."},
		{"fspick", `call('fspick', -100, '/', 0)`, "None of the new mount calls."},
		{"mount_setattr", `call('mount_setattr', -100, '/usr', 0, ctypes.create_string_buffer(32), 32)`,
			"None of the new mount calls."},
		{"io_uring_setup", `call('io_uring_setup', 1, ctypes.create_string_buffer(120))`,
			"io_uring does its work past the filter."},
		{"io_uring_register", `call('io_uring_register', -1, 0, 0, 0)`, "io_uring does its work past the filter."},
		{"bpf", `call('bpf', 0, ctypes.create_string_buffer(b'\x02\0\0\0\x04\0\0\0\x04\0\0\0\x01' + b'\0' * 100), 72)`,
			"No programs in the kernel."},
		{"perf_event_open",
			`call('perf_event_open', ctypes.create_string_buffer(b'\x01\0\0\0\x70\0\0\0' + b'\0' * 32 + b'\x60' + b'\0' * 100), 0, -1, -1, 0)`, "No measuring of others."},
		{"userfaultfd", `call('userfaultfd', 1)`, "No stopping of the kernel at a page fault."},
		{"name_to_handle_at",
			`call('name_to_handle_at', -100, '/', ctypes.create_string_buffer(b'\x80\0\0\0' + b'\0' * 200), ctypes.byref(ctypes.c_int()), 0)`, "No files by handle, past all mounts (CVE-2014-3519)."},
		{"open_by_handle_at",
			`call('open_by_handle_at', -100, ctypes.create_string_buffer(b'\x08\0\0\0\x01\0\0\0' + b'\0' * 200), 0)`,
			"No files by handle, past all mounts."},
		{"add_key", `call('add_key', 'user', 'haft-case', b'x', 1, -3)`, "The kernel's keyrings are not namespaced."},
		{"request_key", `call('request_key', 'user', 'haft-case', 0, 0)`, "The kernel's keyrings are not namespaced."},
		{"keyctl", `call('keyctl', 0, -4, 0)`, "The kernel's keyrings are not namespaced."},
		{"ptrace_traceme", `call('ptrace', 0, 0, 0, 0)`, "No tracing."},
		{"ptrace_seize", `call('ptrace', 0x4206, os.getppid(), 0, 0)`, "No tracing."},
		{"process_vm_readv", `call('process_vm_readv', os.getpid(), 0, 0, 0, 0, 0)`, "No memory of others."},
		{"process_vm_writev", `call('process_vm_writev', os.getpid(), 0, 0, 0, 0, 0)`, "No memory of others."},
		{"pidfd_getfd", `call('pidfd_getfd', call('pidfd_open', os.getpid(), 0), 0, 0)`, "No descriptors of others."},
		{"kcmp", `call('kcmp', os.getpid(), os.getpid(), 0, 0, 0)`, "No comparing of kernel pointers."},
		{"settimeofday", `call('settimeofday', 0, 0)`, "The clock is everybody's."},
		{"clock_settime", `call('clock_settime', 0, ctypes.create_string_buffer(b'\xff' * 16))`,
			"The clock is everybody's."},
		{"adjtimex", `call('adjtimex', ctypes.create_string_buffer(b'\x01' + b'\0' * 255))`,
			"The clock is everybody's."},
		{"reboot", `call('reboot', 0, 0, 0, 0)`, "The machine is everybody's."},
		{"swapon", `call('swapon', '/nowhere', 0)`, "The machine is everybody's."},
		{"swapoff", `call('swapoff', '/nowhere')`, "The machine is everybody's."},
		{"init_module", `call('init_module', 0, 0, 0)`, "No modules."},
		{"finit_module", `call('finit_module', -1, '', 0)`, "No modules."},
		{"delete_module", `call('delete_module', 'haft_case', 2048)`, "No modules."},
		{"kexec_load", `call('kexec_load', 0, 0, 0, 0)`, "No other kernel."},
		{"acct", `call('acct', 0)`, "No accounting."},
		{"quotactl", `call('quotactl', 0x80000100, 0, 0, 0)`, "No quotas."},
		{"syslog", `call('syslog', 3, ctypes.create_string_buffer(64), 64)`, "No kernel messages."},
		{"sethostname", `call('sethostname', 'evil', 4)`, "No other name."},
		{"fanotify_init", `call('fanotify_init', 0x200, 0)`, "No watching of whole file systems."},
		{"personality", `call('personality', 0x0040000)`,
			"No switching off of address randomisation, for oneself or a set-user-id child."},
		{"personality_32bit", `call('personality', 8)`, "No other personality."},
		{"mbind_migrate",
			`call('migrate_pages', os.getppid(), 1, ctypes.byref(ctypes.c_ulong(1)), ctypes.byref(ctypes.c_ulong(1)))`,
			"No moving of others' memory."},
		{"vhangup", `call('vhangup')`, "No hanging up."},
		{"memfd_secret", `call('memfd_secret', 0)`, "No memory that the kernel cannot see or count."},
		{"iopl", `call('iopl', 3)`, "No ports."},
		{"ioperm", `call('ioperm', 0x80, 1, 1)`, "No ports."},
		{"modify_ldt", `call('modify_ldt', 0, ctypes.create_string_buffer(64), 64)`, "No segments of one's own."},
		{"lookup_dcookie", `call('lookup_dcookie', 0, 0, 0)`, "A call that nobody needs."},
		{"uselib", `call('uselib', '/nowhere')`, "A call that nobody needs."},
		{"x32_abi", `call('x32_getpid')`, "A foreign numbering of calls is not a way around the filter."},
	}
}

// callName finds the calls in a deed.
var callName = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`call\('(\w+)'`) })

// callCases are one case per system call that this machine's kernel numbers.
func callCases() []Case {
	table := callNumbers()
	var cases []Case
	for _, d := range deeds() {
		unknown := slices.ContainsFunc(callName().FindAllStringSubmatch(d.source, -1), func(m []string) bool {
			_, has := table[m[1]]
			return !has
		})
		if unknown && len(table) > 0 {
			continue // this architecture does not have it
		}
		cases = append(cases, Case{
			Name: d.name + "_is_denied", Group: Descriptors, Needs: controls(haft.ControlSeccomp), Story: d.story,
			Program: py("attempt('it', lambda: " + d.source + " and None)"),
			Check:   refused(deniedCall, "it"),
		})
	}
	return append(cases, abiCases()...)
}

// socketCases are one case per family of sockets.
func socketCases() []Case {
	var cases []Case
	for _, s := range []struct{ name, args string }{
		{"packet", "17, 3, 0"}, {"netlink", "16, 3, 0"}, {"vsock", "40, 1, 0"}, {"alg", "38, 5, 0"},
		{"bluetooth", "31, 3, 1"}, {"rxrpc", "33, 2, 2"}, {"key", "15, 3, 2"}, {"xdp", "44, 3, 0"},
		{"tipc", "30, 2, 0"}, {"can", "29, 3, 1"}, {"raw_inet", "2, 3, 1"}, {"raw_inet6", "10, 3, 58"},
		{"smc", "43, 1, 0"}, {"nfc", "39, 5, 0"}, {"kcm", "41, 2, 0"},
	} {
		cases = append(cases, Case{
			Name: s.name + "_socket_is_denied", Group: Descriptors, Needs: controls(haft.ControlSeccomp),
			Story:   "Families of sockets that no tool needs are kernel code that no tool may reach.",
			Program: py("attempt('it', lambda: call('socket', " + s.args + ") and None)"),
			Check:   refused(deniedSocket, "it"),
		})
	}
	return cases
}
