package sandboxtest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"haft"
	"haft/sandbox"
)

// quotaCases use up what the kernel counts by user, by user namespace or for the
// whole machine, while a neighbour and the engine want a little of it. What a sandbox
// can do about each:
//
//	inotify watchers, POSIX queues   count for the maker of the user namespace, too: refused
//	timers, queued signals           RLIMIT_SIGPENDING, low; without namespaces refused
//	namespaces, fanotify, keys,      refused
//	io_uring, perf, BPF
//	terminals                        /dev/ptmx is not there, or not opened
//	large pages                      refused: no limit of memory counts them
//	locked memory                    RLIMIT_MEMLOCK
//	pipes, epoll watches             by user id: a run has its own where the engine is root,
//	                                 else they are shared, which SECURITY.md states
//	descriptors on their way         the same; a sandbox can be set up all the same
func quotaCases() []Case {
	return []Case{{
		Name: "quotas_of_the_kernel_are_left_to_others", Group: Tenants, Needs: controls(haft.ControlSeccomp),
		Alone: true, Do: quotasLeft,
		Story: "A program that takes as much as it gets of everything that the kernel counts (watches, timers, " +
			"queues, descriptors " +
			"on their way, pipes, keys, terminals, large pages) takes nothing from a neighbour or from the engine.",
	}, {
		Name: "large_pages_of_the_host_are_not_taken", Group: Processes, Needs: controls(haft.ControlSeccomp),
		Story: "Large pages that the operator reserved are not memory that the limit counts: a program can map none.",
		Program: py(`import mmap
attempt('mapping', lambda: mmap.mmap(-1, 2 << 20, flags=0x40000 | mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS) and None)
def file():
    fd = libc.memfd_create(b'x', 4)
    if fd < 0: failed(ctypes.get_errno())
attempt('file', file)
def segment():
    if libc.shmget(0, 2 << 20, 0o4000 | 0o1600) < 0: failed(ctypes.get_errno())
attempt('segment', segment)`),
		Check: refused(deniedCall, "mapping", "file", "segment"),
	}}
}

// kinds is the part of a program that takes one of each thing that the kernel counts.
const kinds = `
import array, fcntl, mmap, select, socket
kept = []
def watch(): kept.append(call('inotify_init1', 0))
def timer():
    number = ctypes.c_int()
    if libc.timer_create(1, None, ctypes.byref(number)) < 0: failed(ctypes.get_errno())
def queue(): kept.append(call('mq_open', 'q%d-%d' % (os.getpid(), len(kept)), os.O_CREAT | os.O_RDWR, 0o600, 0))
def pipe(size=None):
    kept.extend(os.pipe())
    if size: fcntl.fcntl(kept[-1], 1031, size)
    return fcntl.fcntl(kept[-1], 1032)
def flight(n=1):
    a, b = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
    kept.extend((a, b))
    a.sendmsg([b'x'], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array('i', [0] * n))])
def event():
    e = select.epoll(); r, w = os.pipe(); kept.extend((e, r, w))
    e.register(r)
def key(): call('add_key', 'user', 'k%d' % len(kept), 'x', 1, -2)
def terminal(): kept.extend(os.openpty())
ALL = dict(watch=watch, timer=timer, queue=queue, pipe=pipe, flight=flight, event=event, key=key, terminal=terminal)
`

// quotasLeft lets one program take all that it gets, and compares what a second can do
// beside it with what that can do alone.
func quotasLeft(ctx context.Context, b *Bench) error {
	few := py(kinds + "for name in sys.argv[2:] or " + neighbourly() + ": attempt(name, ALL[name])")
	alone := b.Run(ctx, few, nil)
	if err := exits(0)(alone); err != nil {
		return fmt.Errorf("%w\n\t%v", err, alone)
	}
	live, err := b.Start(ctx, py(kinds+`
def all_of(f, *args):
    try:
        for _ in range(2000): f(*args)
    except (OSError, TypeError): pass
for f in (watch, timer, queue, key, terminal):
    if os.fork() == 0: # which has descriptors of its own
        all_of(f); tell('taken'); time.sleep(60); os._exit(0)
    line()
for _ in range(4):
    if os.fork() == 0:
        all_of(flight, 250); tell('taken'); time.sleep(60); os._exit(0)
    line()
if os.fork() == 0:
    all_of(pipe, 1 << 20); tell('taken'); time.sleep(60); os._exit(0)
line()
tell('ready'); line()
os._exit(0)`), func(s *sandbox.Spec) { s.Limits.OpenFiles = 256 })
	if err != nil {
		return err
	}
	for word := ""; word != "ready"; {
		if word, err = live.Line(ctx); err != nil {
			return err
		}
		if word == "taken" {
			if err := live.Say("on"); err != nil {
				return err
			}
		}
	}
	beside := b.Run(ctx, few, nil)
	err = exits(0)(beside)
	if err == nil && beside.Stdout != alone.Stdout {
		err = fmt.Errorf("a neighbour gets\n%s\tinstead of\n%s", indent(beside.Stdout), indent(alone.Stdout))
	}
	if err == nil && alone.Stdout == "" {
		err = errSilent
	}
	return errors.Join(err, stillServes(), live.Say("end"), exits(0)(live.Wait()), left(live.token))
}

// neighbourly names what a neighbour must still get. Pipes and descriptors on their way
// are counted by user id, and an ordinary user has only one for all.
func neighbourly() string {
	if os.Geteuid() != 0 {
		return "[n for n in ALL if n not in ('pipe', 'flight')]"
	}
	return "ALL"
}

// indent sets lines off.
func indent(s string) string {
	return "\t\t" + strings.ReplaceAll(strings.TrimSpace(s), "\n", "\n\t\t") + "\n"
}
