package sandboxtest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"golang.org/x/sys/unix"

	"haft"
	"haft/sandbox"
)

// supervisorCases try to hurt whoever supervises the run, or use memory and files
// that nobody watches.
func supervisorCases() []Case {
	return []Case{{
		Name: "supervisor_cannot_be_limited", Group: Processes, Needs: controls(haft.ControlSeccomp),
		Story: "A program neither limits nor slows down its supervisor, the engine or anybody else.",
		Program: py(`import resource as r
for who, pid in (('parent', os.getppid()), ('first', 1), ('engine', int(E['HOST_PID']))):
    if pid == 0: continue # the supervisor has no number here
    attempt(who + '-files', lambda: r.prlimit(pid, r.RLIMIT_NOFILE, (0, 0)))
    attempt(who + '-cpu', lambda: r.prlimit(pid, r.RLIMIT_CPU, (1, 1)))
    attempt(who + '-nice', lambda: os.setpriority(os.PRIO_PROCESS, pid, 19))
    attempt(who + '-affinity', lambda: os.sched_setaffinity(pid, {0}))
attempt('user-nice', lambda: os.setpriority(os.PRIO_USER, 0, 19))
attempt('group-nice', lambda: os.setpriority(os.PRIO_PGRP, 0, 19))`),
		Check: refused(append([]string{"ESRCH", "ProcessLookupError"}, deniedCall...)),
	}, {
		Name: "packet_filters_cannot_be_attached", Group: Descriptors, Needs: controls(haft.ControlSeccomp),
		Story: "Compiled BPF programs are kernel memory that nobody counts: a program can load none.",
		Program: py(`import socket, struct
code = ctypes.create_string_buffer(struct.pack('HBBI', 6, 0, 0, 0xffff))
program = struct.pack('HxxxxxxL', 1, ctypes.addressof(code))
a, b = socket.socketpair()
attempt('socket', lambda: a.setsockopt(socket.SOL_SOCKET, 26, program))
attempt('reuseport', lambda: a.setsockopt(socket.SOL_SOCKET, 51, program))
def own():
    if libc.prctl(22, 2, ctypes.c_char_p(program), 0, 0) < 0: failed(ctypes.get_errno())
attempt('seccomp', own)`),
		Check: refused(deniedCall, "socket", "reuseport", "seccomp"),
	}, {
		Name: "meter_cannot_be_blinded", Group: Processes, Needs: controls(haft.ControlSeccomp),
		Story: "A program cannot make its entries in /proc unreadable for the one who measures it.",
		Program: py(`def hide():
    if libc.prctl(4, 0, 0, 0, 0) < 0: failed(ctypes.get_errno())
attempt('dumpable', hide)`),
		Check: refused(deniedCall, "dumpable"),
	}, {
		Name: "attributes_of_lent_files_stay", Group: Filesystem, Do: lentFilesStay, Settled: true,
		Any: controls(haft.ControlSeccomp, haft.ControlRoot),
		Story: "A file that a program may only read keeps its mode, owner, times and attributes, by path and by " +
			"descriptor, also if it belongs to the user whom the program runs as.",
	}, {
		Name: "datagrams_reach_no_socket_of_the_host", Group: Networking, Needs: controls(haft.ControlSeccomp),
		Story: "One end of a pair of sockets does not send to, or connect to, a socket of the host by its path " +
			"or name.",
		Program: py(`import socket
held = []
def pair(kind):
    held.append(socket.socketpair(socket.AF_UNIX, kind))
    return held[-1][0]
for kind in (socket.SOCK_DGRAM, socket.SOCK_STREAM, socket.SOCK_SEQPACKET):
    for way in ('DATAGRAM', 'DATAGRAM_NAME', 'SOCKET', 'ABSTRACT'):
        to = E[way].replace('@', '\0', 1) if E[way][:1] == '@' else E[way]
        if kind != socket.SOCK_SEQPACKET: # which sends to its peer, whatever the address
            attempt('send-%d-%s' % (kind, way), lambda: pair(kind).sendto(b'x', to))
        attempt('connect-%d-%s' % (kind, way), lambda: pair(kind).connect(to))`),
		// EISCONN: it has a peer already, and looks for no other.
		Check: refused(append([]string{"EISCONN", "ENOENT", "ECONNREFUSED"}, deniedCall...), "send-2-DATAGRAM",
			"send-2-DATAGRAM_NAME", "connect-2-DATAGRAM", "connect-1-SOCKET"),
	}, {
		Name: "memory_without_a_mapping_counts", Group: Processes,
		Any:   controls(haft.ControlMemory, haft.ControlSeccomp),
		Spec:  limits(func(l *haft.Limits) { l.Memory = 128 << 20 }),
		Story: "Files in memory that no process maps are memory all the same: they are counted, or cannot be made.",
		Program: py(`held = []
for _ in range(16):
    fd = os.memfd_create('x')
    held.append(fd)
    for _ in range(20): os.write(fd, b'x' * (1 << 20))
say('320 MB')`),
		Check: func(o Outcome) error {
			if o.Stdout == "" && o.Err == nil {
				return nil // whatever ended it
			}
			return want("stdout", o.Stdout, "")
		},
	}}
}

// lentFilesStay lends a program a file of its own user, which everybody may write to: only the sandbox keeps it as
// it is. The change time of the file shows every change of an attribute.
func lentFilesStay(ctx context.Context, b *Bench) error {
	dir, err := os.MkdirTemp(b.host.shared, "lent-")
	if err != nil {
		return fmt.Errorf("make a directory: %w", err)
	}
	name := filepath.Join(dir, "file")
	if err := errors.Join(os.WriteFile(name, []byte("lent"), 0o600), os.Chmod(name, 0o666),
		os.Chmod(dir, 0o755)); err != nil {
		return fmt.Errorf("lend a file: %w", err)
	}
	before, err := attributes(name)
	if err != nil {
		return err
	}
	inside := "/lent"
	if !b.iso.Has(haft.ControlRoot) {
		inside = dir // the program sees the host's tree
	}
	o := b.Run(ctx, py("path = '"+inside+"/file'\n"+changes), func(s *sandbox.Spec) {
		s.Mounts = append(slices.Clone(s.Mounts), sandbox.Mount{Host: dir, Inside: inside})
	})
	after, err := attributes(name)
	if err == nil {
		err = want("the attributes of the file", after, before)
	}
	ways := append([]string{"EROFS", "ENOTTY", "EOPNOTSUPP", "ENOTSUP"}, deniedCall...)
	return errors.Join(err, refused(ways, "fchmod", "chmod", "fchown", "futimens", "utime", "touch", "fsetxattr",
		"flags", "write", "truncate")(o))
}

// changes tries to change a file and its attributes.
const changes = `import fcntl
fd = os.open(path, os.O_RDONLY)
attempt('fchmod', lambda: os.fchmod(fd, 0o4777))
attempt('chmod', lambda: os.chmod(path, 0o4777))
attempt('fchown', lambda: os.fchown(fd, os.getuid(), os.getgid()))
attempt('chown', lambda: os.chown(path, os.getuid(), os.getgid()))
attempt('futimens', lambda: os.utime(fd, (1, 1)))
attempt('utime', lambda: os.utime(path, (1, 1)))
attempt('touch', lambda: os.utime(path))
attempt('ftouch', lambda: os.utime(fd))
attempt('setxattr', lambda: os.setxattr(path, 'user.haft', b'x'))
attempt('fsetxattr', lambda: os.setxattr(fd, 'user.haft', b'x'))
attempt('flags', lambda: fcntl.ioctl(fd, 0x40086602, b'\0' * 8) and None)
attempt('write', lambda: writable(path))
attempt('truncate', lambda: os.truncate(path, 1))`

// attributes describes what a program could change about a file.
func attributes(name string) (string, error) {
	var st unix.Stat_t
	if err := unix.Stat(name, &st); err != nil {
		return "", fmt.Errorf("look at a file: %w", err)
	}
	return fmt.Sprintf("mode %o, owner %d, group %d, size %d, modified %v, changed %v", st.Mode, st.Uid, st.Gid,
		st.Size, st.Mtim, st.Ctim), nil
}
