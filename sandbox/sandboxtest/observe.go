package sandboxtest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"haft"
	"haft/sandbox"
)

// observeCases are about runs that are observed. An observed run sees nothing of it, and gets nothing by it.
func observeCases() []Case {
	filtered := controls(haft.ControlSeccomp)
	const inside = "its system calls are those of the guest kernel, which no filter of the host sees"
	return []Case{{
		Name: "observation_is_given_or_refused", Group: Honest,
		Story:   "A provider that cannot observe a run does not run it, and one that can gives a list.",
		Program: py(`say('done')`), Spec: observed,
		Check: func(o Outcome) error {
			if haft.CodeOf(o.Err) == haft.CodeDenied && o.Stdout == "" {
				return nil
			}
			if o.Exit.Touched == nil {
				return fmt.Errorf("it ran without a list: %v", o.Err)
			}
			return prints("done\n")(o)
		},
	}, {
		Name: "observed_run_shows_what_it_touched", Group: Honest, Needs: filtered, Guest: inside,
		Story: "What is opened, changed, removed, started and connected to is recorded, by whatever path and call; " +
			"where names cannot be read, as in Docker without flags, the list says that it is none.",
		Spec: observed, Program: py(touching), Check: touchedAll,
	}, {
		Name: "unobserved_run_has_no_list", Group: Honest,
		Story: "Without the wish for it nothing is recorded.", Program: py(`open('/etc/passwd')`),
		Check: func(o Outcome) error {
			if o.Exit.Touched != nil {
				return errors.New("there is a list of what was touched")
			}
			return nil
		},
	}, {
		Name: "observed_run_may_do_no_more", Group: Descriptors, Needs: filtered, Guest: inside,
		Story: "Each call that is refused or missing in a run is so in an observed run, and no descriptor of the " +
			"observer is there.",
		Do: sameUnobserved,
	}, {
		Name: "observed_path_in_hidden_memory_is_not_lost", Group: Processes, Needs: filtered, Guest: inside,
		Story: "A path in memory that is mapped only to be written is read by the kernel for its own process: it is " +
			"in the list, or the list is marked as cut.",
		Spec: observed, Program: py(`import mmap
m = mmap.mmap(-1, 4096, prot=mmap.PROT_WRITE)
m.write(b'/etc/passwd\0')
at = ctypes.addressof(ctypes.c_char.from_buffer(m))
libc.open(ctypes.c_void_p(at), 0)
say('done')`),
		Check: func(o Outcome) error {
			t, passwd := o.Exit.Touched, haft.Access{Kind: haft.AccessRead, Name: "/etc/passwd"}
			if t == nil || !t.Cut && !slices.Contains(t.Accesses, passwd) {
				return fmt.Errorf("the access is not in the list: %+v", t)
			}
			return prints("done\n")(o)
		},
	}, {
		Name: "observed_path_through_proc_is_not_lost", Group: Processes, Needs: append(filtered, haft.ControlRoot),
		Guest: inside,
		Story: "A path that climbs out of a link of the process file system looks like one of a library: the list " +
			"is marked as cut.",
		Spec: observed, Program: py(`os.makedirs('/work/usr/lib'); open('/work/usr/lib/x', 'w').close()
os.makedirs('/work/a/b/c'); os.chdir('/work/a/b/c')
open('/proc/self/cwd/../../../usr/lib/x')
say('done')`),
		Check: func(o Outcome) error {
			if t := o.Exit.Touched; t == nil || !t.Cut {
				return fmt.Errorf("the list is not marked as cut: %+v", t)
			}
			return prints("done\n")(o)
		},
	}, {
		Name: "observed_flood_is_cut", Group: Processes, Needs: filtered, Guest: inside,
		Story: "A program that opens 100,000 files ends as it would, and its list is bounded and marked as cut.",
		Spec: func(s *sandbox.Spec) {
			observed(s)
			s.Limits.Wall, s.Limits.CPU = haft.Millis(2*time.Minute), haft.Millis(2*time.Minute)
		},
		Program: py(`for i in range(100000):
    try: os.close(os.open('/work/none-%d' % (i % 6000), os.O_RDONLY))
    except OSError: pass
say('done')`),
		Check: func(o Outcome) error {
			t := o.Exit.Touched
			if t == nil || !t.Cut || len(t.Accesses) > 4096 {
				return fmt.Errorf("the list is not cut at 4096 entries: %d", accesses(t))
			}
			return prints("done\n")(o)
		},
	}, {
		Name: "observed_race_changes_nothing", Group: Processes, Needs: filtered, Guest: inside,
		Story: "Threads that change a path while it is looked at, children that are killed while they wait, and a " +
			"hundred processes that open at once neither hang nor break the observer.",
		Spec: func(s *sandbox.Spec) {
			observed(s)
			s.Limits.Processes = max(s.Limits.Processes, 128)
			s.Limits.Memory = 8 << 30 // where no cgroup counts, shared pages count once for each process
			s.Limits.Wall, s.Limits.CPU = haft.Millis(2*time.Minute), haft.Millis(2*time.Minute)
		},
		Program: py(racing), Check: prints("done\n"),
	}, {
		Name: "observed_loop_is_ended", Group: Processes, Needs: filtered, Guest: inside,
		Story: "A program that does nothing but open files is ended by its time limit.",
		Spec: func(s *sandbox.Spec) {
			observed(s)
			s.Limits.Wall, s.Limits.Grace = haft.Millis(time.Second), haft.Millis(100*time.Millisecond)
		},
		Program: py(`import signal
signal.signal(signal.SIGTERM, signal.SIG_IGN)
while True:
    try: os.open('/work/none', os.O_RDONLY)
    except OSError: pass`),
		Check: caused(sandbox.CauseTimeout),
	}}
}

// observed asks for observation.
func observed(s *sandbox.Spec) { s.Observe = true }

// accesses counts a list that may be nil.
func accesses(t *haft.Touched) int {
	if t == nil {
		return -1
	}
	return len(t.Accesses)
}

// touching touches files by names that have to be resolved, in the order of wantTouched.
const touching = `import subprocess, struct
def quiet(f, *a):
    try: f(*a)
    except OSError: pass
here = os.getcwd()
quiet(open, '/etc/passwd')
quiet(os.symlink, '/etc', here + '/way')
quiet(open, here + '/way/group')
quiet(open, here + '/way/../etc/hosts')
with open('made', 'w') as f: f.write('x')
os.rename('made', 'moved')
os.mkdir('dir')
d = os.open('dir', os.O_RDONLY)
os.close(os.open('below', os.O_CREAT | os.O_WRONLY, dir_fd=d))
os.chdir('dir')
os.close(os.open('../moved', os.O_RDONLY))
quiet(os.truncate, 'below', 0)
how = ctypes.create_string_buffer(struct.pack('QQQ', os.O_RDONLY, 0, 0))
quiet(call, 'openat2', -100, b'second', how, 24)
os.chdir(here)
os.unlink('moved')
subprocess.run([sys.executable, '-c', ''])
import socket
def unix():
    with socket.socket(socket.AF_UNIX) as s: s.connect(here + '/door')
quiet(unix)
quiet(socket.socket, socket.AF_INET, socket.SOCK_DGRAM)
quiet(socket.socket, socket.AF_INET6, socket.SOCK_RAW)
say('done')`

// touchedAll wants the accesses of touching.
func touchedAll(o Outcome) error {
	if err := prints("done\n")(o); err != nil {
		return err
	}
	t := o.Exit.Touched
	if t != nil && t.Cut && !t.Observed && !o.Exit.Isolation.Has(haft.ControlPIDNS) {
		return nil // as in a container that lets nobody read the memory of another process, which the list states
	}
	if t == nil || t.Cut {
		return fmt.Errorf("there is no complete list: %+v", t)
	}
	want := []haft.Access{
		{Kind: haft.AccessRead, Name: "/etc/passwd"},
		{Kind: haft.AccessWrite, Name: "/way"}, {Kind: haft.AccessRead, Name: "/etc"},
		{Kind: haft.AccessWrite, Name: "/made"}, {Kind: haft.AccessWrite, Name: "/moved"},
		{Kind: haft.AccessWrite, Name: "/dir"}, {Kind: haft.AccessWrite, Name: "/dir/below"},
		{Kind: haft.AccessRead, Name: "/moved"}, {Kind: haft.AccessRead, Name: "/dir/second"},
		{Kind: haft.AccessProgram, Name: "python"},
		{Kind: haft.AccessSocket, Name: "socket:udp"}, {Kind: haft.AccessSocket, Name: "socket:raw"},
	}
	if o.Exit.Isolation.Has(haft.ControlRoot) { // else links are not followed, and no socket can be made
		want = append(want, haft.Access{Kind: haft.AccessRead, Name: "/etc/group"},
			haft.Access{Kind: haft.AccessRead, Name: "/etc/hosts"},
			haft.Access{Kind: haft.AccessConnect, Name: "/door"})
	}
	for _, w := range want {
		if !slices.ContainsFunc(t.Accesses, func(a haft.Access) bool {
			if strings.HasPrefix(w.Name, "/etc/") { // others are below the working directory
				return a == w
			}
			return a.Kind == w.Kind && (strings.HasSuffix(a.Name, w.Name) ||
				w.Kind == haft.AccessProgram && strings.Contains(a.Name, w.Name))
		}) {
			return fmt.Errorf("%s %s is not in the list %+v", w.Kind, w.Name, t.Accesses)
		}
	}
	return nil
}

// hostile makes calls that a run must not make, and looks for descriptors.
const hostile = `import struct, socket
pair = (ctypes.c_char * 64)()
attempt('shadow', lambda: readable('/etc/shadow'))
attempt('uring', lambda: call('io_uring_setup', 8, ctypes.byref(pair)))
attempt('handle', lambda: call('open_by_handle_at', -100, ctypes.byref(pair), 0))
attempt('mount', lambda: call('mount', b'none', b'/tmp', b'tmpfs', 0, 0))
attempt('unshare', lambda: call('unshare', 0x10000000))
attempt('ptrace', lambda: call('ptrace', 16, 1, 0, 0))
attempt('filter', lambda: call('seccomp', 1, 8, ctypes.byref(pair)))
attempt('module', lambda: call('init_module', ctypes.byref(pair), 64, b''))
def reach():
    with socket.socket() as s:
        s.settimeout(2); s.connect(('192.0.2.1', 80))
attempt('connect', reach)
for family in (socket.AF_INET, socket.AF_INET6):
    for kind in (socket.SOCK_DGRAM, socket.SOCK_RAW):
        attempt('socket %d %d' % (family, kind), lambda: socket.socket(family, kind))
attempt('lookup', lambda: socket.getaddrinfo('leak.evil.example', 80))
attempt('exec', lambda: os.execve('/work/none', ['none'], {}))
attempt('write', lambda: writable('/etc/passwd'))
def chroot():
    os.chroot('/work')
attempt('chroot', chroot)
fds = []
for n in range(64):
    try: link = os.readlink('/proc/self/fd/%d' % n)
    except OSError: continue
    if 'seccomp' in link or 'anon' in link: fds.append(link)
say('descriptors', fds)`

// sameUnobserved runs hostile with and without an observer, and wants the same to come of it.
func sameUnobserved(ctx context.Context, b *Bench) error {
	plain := b.Run(ctx, py(hostile), nil)
	if err := exits(0)(plain); err != nil {
		return err
	}
	watched := b.Run(ctx, py(hostile), observed)
	if err := exits(0)(watched); err != nil {
		return err
	}
	if plain.Stdout != watched.Stdout || !strings.Contains(plain.Stdout, "descriptors []") ||
		strings.Contains(plain.Stdout, "KeyError") {
		return fmt.Errorf("unobserved it printed %q, observed %q", plain.Stdout, watched.Stdout)
	}
	return nil
}

// racing is a program that makes it hard to observe it.
const racing = `import signal, threading
name = ctypes.create_string_buffer(b'/etc/passwd', 64)
stop = False
def flip():
    while not stop:
        name.value = b'/work/harmless'
        name.value = b'/etc/passwd'
        name.raw = b'x' * 64
racer = threading.Thread(target=flip)
racer.start()
for _ in range(2000):
    fd = libc.open(name, 0)
    if fd >= 0: os.close(fd)
stop = True
racer.join()
libc.open(ctypes.c_void_p(8), 0)
libc.open(ctypes.c_void_p(-1), 0)
try: os.open('/work/' + 'x' * 5000, 0)
except OSError: pass
os.symlink('loop', 'loop')
try: open('loop/loop')
except OSError: pass
children = []
for i in range(100):
    try: pid = os.fork()
    except OSError: break # a template may allow fewer
    if pid == 0:
        while True:
            try: os.close(os.open('/work/child-%d' % i, os.O_RDONLY))
            except OSError: pass
    children.append(pid)
for pid in children: os.kill(pid, signal.SIGKILL)
for pid in children: os.waitpid(pid, 0)
say('done')`
