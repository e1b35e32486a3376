package sandboxtest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"haft"
)

// tenantCases run two programs, one after the other or side by side. The second
// must find no trace of the first.
func tenantCases() []Case {
	pair := func(name, story string, needs, any []haft.Control, first, second string, beside bool, ways []string) Case {
		return Case{Name: name, Group: Tenants, Story: story, Needs: needs, Any: any,
			Do: func(ctx context.Context, b *Bench) error {
				return twoRuns(ctx, b, first, second, beside, ways)
			}}
	}
	places := `places = [d + '/haft-trace' for d in ('.', 'out', '/work', '/tmp', '/var/tmp', '/dev/shm', '/dev', '/run', '/run/lock', '/var/lock', os.path.expanduser('~'), '/dev/mqueue')]` + "\n"
	// Without a namespace of its own, a sandbox has no calls of System V and POSIX IPC.
	own := controls(haft.ControlIPCNS, haft.ControlSeccomp)
	return []Case{
		pair("files_left_behind_are_gone",
			"What a call leaves in any place that it can write to is not there for the next.",
			nil, controls(haft.ControlMountNS, haft.ControlLandlock),
			places+"for p in places:\n    try: open(p, 'w').write('trace')\n    except OSError: pass",
			places+"for p in places: attempt(p, lambda: readable(p))", false, deniedFile),
		pair("files_of_a_neighbour_are_not_found",
			"What a call writes is not to be found by another at the same time, wherever it looks.",
			controls(haft.ControlRoot), nil,
			places+"for p in places:\n    try: open(p, 'w').write('trace')\n    except OSError: pass",
			places+`for p in places: attempt(p, lambda: readable(p))
for pid in os.listdir('/proc'):
    if pid.isdigit():
        for d in ('root/work', 'cwd', 'root/tmp'): attempt(pid + d, lambda: readable('/proc/%s/%s/haft-trace' % (pid, d)))`, true, deniedFile),
		pair("system_v_objects_are_gone", "Shared memory, semaphores and queues of System V do not outlive the call.",
			nil, own, sysv+"make()", sysv+"look()", false, deniedFile),
		pair("system_v_objects_of_a_neighbour_are_not_found", "Nor are they shared with another call at the same time.",
			nil, own, sysv+"make()", sysv+"look()", true, deniedFile),
		pair("message_queues_are_gone", "POSIX message queues do not outlive the call and are not shared.",
			nil, own,
			"try: call('mq_open', 'haft-case', os.O_CREAT | os.O_RDWR, 0o666, 0)\nexcept OSError: pass",
			"attempt('queue', lambda: call('mq_open', 'haft-case', os.O_RDWR, 0, 0))", true,
			append([]string{"ENOSYS"}, deniedFile...)),
		pair("abstract_sockets_of_a_neighbour_are_not_reached",
			"Two calls cannot meet at a socket, and so hand over no descriptors.",
			controls(haft.ControlNetNS), nil,
			"import socket\ns = socket.socket(socket.AF_UNIX); s.bind('\\0haft-case-tenant'); s.listen()",
			"import socket\nattempt('abstract', lambda: socket.socket(socket.AF_UNIX).connect('\\0haft-case-tenant'))",
			true, deniedRoute),
		pair("ports_of_a_neighbour_are_not_reached", "Two calls cannot meet at a port of the loopback.",
			controls(haft.ControlNetNS), nil,
			"import socket\ntry: s = socket.socket(); s.bind(('127.0.0.1', 7717)); s.listen()\nexcept OSError: pass",
			"import socket\nattempt('port', lambda: socket.socket().connect(('127.0.0.1', 7717)))", true, deniedRoute),
		pair("processes_of_a_neighbour_are_not_seen",
			"No process, environment or command line of another call is visible.",
			controls(haft.ControlPIDNS, haft.ControlRoot), nil, "",
			`me = sys.argv[1]
for p in os.listdir('/proc'):
    if p.isdigit():
        try: c = open('/proc/%s/cmdline' % p).read()
        except OSError: continue
        if 'haft-case-' in c and me not in c: say(p, c[-60:])
say('end ENOENT')`, true, deniedFile),
		pair("locks_of_a_neighbour_are_not_felt",
			"A lock on a file that both can read is a signal from one call to another.",
			controls(haft.ControlSeccomp, haft.ControlRoot), nil,
			"import fcntl\nf = open(os.__file__)\ntry: fcntl.flock(f, fcntl.LOCK_EX)\nexcept OSError: pass",
			`import fcntl
def locked():
    try: fcntl.flock(open(os.__file__), fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError: return 'felt'
    except OSError: pass
    failed(errno.ENOENT)
attempt('lock', locked)`, true, deniedFile),
		{
			Name: "doings_of_a_neighbour_are_not_watched", Group: Tenants, Needs: controls(haft.ControlSeccomp),
			Do:    notWatched,
			Story: "Watching files that both can read tells what another call imports and runs.",
		}, {
			Name: "random_state_is_its_own", Group: Tenants, Do: ownRandom,
			Story: "Two runs share neither hash seed nor random state nor addresses.",
		}, {
			Name: "next_call_works_after_a_hostile_one", Group: Tenants,
			Needs: controls(haft.ControlMemory), Any: counted(), Do: nextWorks,
			Story: "After a bomb the next call is as good as the first.",
		}, {
			Name: "nothing_of_ipc_is_left_on_the_host", Group: Tenants, Any: own, Do: hostIPC,
			Story: "Objects that a call makes never appear on the host.",
		}, {
			Name: "system_v_objects_of_the_host_are_not_used", Group: Tenants, Any: own, Do: hostObjects,
			Story: "Shared memory, queues and semaphores of the host that are open to everybody cannot be used by " +
				"their numbers.",
		},
	}
}

// sysv is the beginning of a program with System V objects.
const sysv = `
KEY = 0x48414654
def make():
    for f in (lambda: libc.shmget(KEY, 4096, 0o1666), lambda: libc.semget(KEY, 1, 0o1666), lambda: libc.msgget(KEY, 0o1666)): f()
def get(f):
    def go():
        ctypes.set_errno(0)
        if f() < 0: failed(ctypes.get_errno())
    return go
def look():
    attempt('shm', get(lambda: libc.shmget(KEY, 0, 0)))
    attempt('sem', get(lambda: libc.semget(KEY, 0, 0)))
    attempt('msg', get(lambda: libc.msgget(KEY, 0)))
`

// twoRuns runs the first program, to its end or, if beside, up to where it has
// done its deed, and then the second.
func twoRuns(ctx context.Context, b *Bench, first, second string, beside bool, ways []string) error {
	tail := ""
	if beside {
		tail = "\ntell('ready'); line()"
	}
	live, err := b.Start(ctx, py(first+tail), nil)
	if err != nil {
		return err
	}
	if beside {
		if _, err := live.Line(ctx); err != nil {
			return err
		}
	} else if o := live.Wait(); exits(0)(o) != nil {
		return fmt.Errorf("the first program: %w\n\t%v", exits(0)(o), o)
	}
	o := b.Run(ctx, py(second), nil)
	err = refused(ways)(o)
	if err == nil && o.Stdout == "" {
		err = errSilent
	}
	if err != nil {
		err = fmt.Errorf("%w\n\t%v", err, o)
	}
	if beside {
		err = errors.Join(err, live.Say("end"), exits(0)(live.Wait()))
	}
	return errors.Join(err, left(live.token))
}

// notWatched lets one program watch the standard library while another uses it.
func notWatched(ctx context.Context, b *Bench) error {
	live, err := b.Start(ctx, py(`import fcntl, select, signal
heard = []
signal.signal(signal.SIGIO, lambda *a: heard.append(1))
try: # the older way, which is a flag of a directory
    d = os.open(os.path.dirname(os.__file__), os.O_RDONLY)
    fcntl.fcntl(d, fcntl.F_NOTIFY, fcntl.DN_ACCESS | fcntl.DN_MULTISHOT)
except OSError: pass
try:
    fd = call('inotify_init1', 0)
    call('inotify_add_watch', fd, os.path.dirname(os.__file__) + '/wave.py', 0x21)
except OSError: fd = -1
tell('ready'); line()
tell('seen' if heard or fd >= 0 and select.select([fd], [], [], 0)[0] else 'blind')`), nil)
	if err != nil {
		return err
	}
	if _, err := live.Line(ctx); err != nil {
		return err
	}
	o := b.Run(ctx, py("open(os.path.dirname(os.__file__) + '/wave.py').read(1)"), nil)
	if err := errors.Join(exits(0)(o), live.Say("look")); err != nil {
		return err
	}
	saw, err := live.Line(ctx)
	if err != nil {
		return err
	}
	return errors.Join(want("the watcher", saw, "blind"), exits(0)(live.Wait()))
}

func ownRandom(ctx context.Context, b *Bench) error {
	seen := map[string]bool{}
	for range 3 {
		o := b.Run(ctx, py("import random\nsay(hash('haft')); say(random.random()); say(os.urandom(8).hex()); "+
			"say('at', ctypes.cast(libc.getpid, ctypes.c_void_p).value)"), nil)
		if err := exits(0)(o); err != nil {
			return err
		}
		for line := range strings.Lines(o.Stdout) {
			if seen[line] {
				return fmt.Errorf("two runs share %q", line)
			}
			seen[line] = true
		}
	}
	return nil
}

func nextWorks(ctx context.Context, b *Bench) error {
	for _, bomb := range []string{
		"while True: os.fork()", "l = []\nwhile True: l.append(bytearray(8 << 20))", "os.kill(os.getpid(), 11)",
		"sys.exit(3)",
	} {
		if o := b.Run(ctx, py(bomb), nil); o.Err != nil {
			return fmt.Errorf("the bomb: %w", o.Err)
		}
		if err := prints("fine\n")(b.Run(ctx, py("say('fine')"), nil)); err != nil {
			return err
		}
	}
	return nil
}

func hostIPC(ctx context.Context, b *Bench) error {
	live, err := b.Start(ctx, py(sysv+"make()\ntell('ready'); line()"), nil)
	if err != nil {
		return err
	}
	if _, err := live.Line(ctx); err != nil {
		return err
	}
	var found error
	for _, f := range []string{"shm", "sem", "msg"} {
		table, err := os.ReadFile("/proc/sysvipc/" + f)
		if err == nil && strings.Contains(string(table), fmt.Sprint(0x48414654)) {
			found = fmt.Errorf("an object of the run is among the host's (%s)", f)
		}
	}
	return errors.Join(found, live.Say("end"), exits(0)(live.Wait()))
}
