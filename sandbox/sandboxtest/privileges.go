package sandboxtest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"haft"
	"haft/sandbox"
)

// Why a case has no meaning for a provider with a guest kernel.
const (
	unseen = "the host sees no process of the program, but only the guest kernel's"
	madeUp = "what the program sees is the guest kernel's own, and nothing of the host"
)

// privilegeCases look at what a program has when it starts.
func privilegeCases() []Case {
	return slices.Concat(birthCases(), identityCases(), namespaceCases(), signalCases())
}

// birthCases are about descriptors, terminals and signals.
func birthCases() []Case {
	return []Case{{
		Name: "only_four_descriptors_are_open", Group: Descriptors,
		Story: "Besides stdin, stdout, stderr and the channel nothing is inherited, not even what the engine's own " +
			"parent left open.",
		Program: py(`for fd in range(4096):
    try: os.fstat(fd)
    except OSError:
        if fd < 4: say(fd, 'missing')
        continue
    if fd > 3: say(fd, 'open')
say('end')`),
		Check: prints("end\n"),
	}, {
		Name: "descriptors_lead_nowhere", Group: Descriptors,
		Story: "The standard descriptors are no files or directories of the host.",
		Program: py(`import stat
for fd in range(4):
    m = os.fstat(fd).st_mode
    if stat.S_ISREG(m) or stat.S_ISDIR(m) or stat.S_ISBLK(m): say(fd, oct(m))
say('end')`),
		Check: prints("end\n"),
	}, {
		Name: "there_is_no_terminal", Group: Descriptors,
		Story: "No descriptor is a terminal, and there is no controlling one to push keystrokes into.",
		Program: py(`import fcntl
for fd in range(4):
    if os.isatty(fd): say('terminal', fd)
def tty():
    fd = os.open('/dev/tty', os.O_RDWR)
    fcntl.ioctl(fd, 0x5412, b'x')
attempt('tty', tty)`),
		Check: refused(deniedFile, "tty"),
	}, {
		Name: "keystrokes_cannot_be_forged", Group: Descriptors, Needs: controls(haft.ControlSeccomp),
		Story: "TIOCSTI and TIOCLINUX are denied on any descriptor.",
		Program: py(`import fcntl
attempt('sti', lambda: fcntl.ioctl(0, 0x5412, b'x'))
attempt('linux', lambda: fcntl.ioctl(0, 0x541c, b'\x02'))
def pty():
    m, s = os.openpty(); fcntl.ioctl(s, 0x5412, b'x')
attempt('pty', pty)`),
		Check: refused(append([]string{"ENOTTY"}, deniedFile...), "sti", "linux", "pty"),
	}, {
		Name: "signals_are_at_their_defaults", Group: Descriptors,
		Guest: unseen,
		Story: "No signal is blocked or ignored because the engine did so.",
		Do:    signalsAtDefaults,
	}}
}

// identityCases are about the user, the groups and the capabilities of the program.
func identityCases() []Case {
	return []Case{{
		Name: "there_are_no_capabilities", Group: Descriptors, Needs: controls(haft.ControlCaps),
		Guest: unseen,
		Story: "Every set of capabilities that is in force is empty.",
		Do: statusSays("CapInh 0000000000000000", "CapPrm 0000000000000000", "CapEff 0000000000000000",
			"CapAmb 0000000000000000"),
	}, {
		// An ordinary user can empty it only in a user namespace of its own.
		Name: "capabilities_can_never_be_regained", Group: Descriptors,
		Guest: unseen,
		Needs: controls(haft.ControlCaps, haft.ControlUserNS),
		Story: "The bounding set of capabilities is empty too.", Do: statusSays("CapBnd 0000000000000000"),
	}, {
		Name: "no_new_privileges_is_set", Group: Descriptors, Needs: controls(haft.ControlNoNewPriv),
		Guest: unseen,
		Story: "Nothing that is executed can gain privileges.", Do: statusSays("NoNewPrivs 1"),
	}, {
		Name: "system_calls_are_filtered", Group: Descriptors, Needs: controls(haft.ControlSeccomp),
		Guest: unseen,
		Story: "A filter of system calls is in force.", Do: statusSays("Seccomp 2"),
	}, {
		Name: "is_not_root_of_the_host", Group: Descriptors, Needs: controls(haft.ControlUserNS), Do: notRoot,
		Guest: unseen,
		Story: "Seen from the host, the program does not run as root, and root is in no mapping of its namespace.",
	}, {
		Name: "identity_cannot_be_changed", Group: Descriptors, Needs: controls(haft.ControlCaps),
		Story: "No other user or group can be taken on, that of another tenant included.",
		Program: py(`for n in (0, 1, 1000, 65533, 100000):
    if n == os.getuid(): continue
    attempt('uid%d' % n, lambda: os.setuid(n))
    attempt('resuid%d' % n, lambda: os.setresuid(n, n, n))
    if n != os.getgid(): attempt('gid%d' % n, lambda: os.setgid(n))
attempt('groups', lambda: os.setgroups([1, 2]))
open('f', 'w').close()
attempt('chown', lambda: os.chown('f', 54321, 54321))`),
		// EINVAL: the identity is not mapped, so there is nothing to become.
		Check: refused(append([]string{"EINVAL"}, deniedCall...), "uid1", "gid1", "groups", "chown"),
	}, {
		Name: "groups_of_the_engine_are_gone", Group: Descriptors, Needs: controls(haft.ControlUserNS),
		Story:   "No supplementary group of the engine is kept that would open files of the host.",
		Program: py(`say([g for g in os.getgroups() if g not in (os.getgid(), 65534)])`),
		Check:   prints("[]\n"),
	}}
}

// namespaceCases compare each namespace with the engine's.
func namespaceCases() []Case {
	var cases []Case
	for _, x := range []struct {
		name    string
		control haft.Control
	}{
		{"user", haft.ControlUserNS}, {"mnt", haft.ControlMountNS}, {"pid", haft.ControlPIDNS},
		{"net", haft.ControlNetNS},
		{"ipc", haft.ControlIPCNS}, {"uts", haft.ControlUTSNS}, {"cgroup", haft.ControlCgroupNS},
		{"time", haft.ControlTimeNS},
	} {
		guest := ""
		if x.name == "cgroup" || x.name == "time" {
			guest = madeUp // its kernel has no such namespaces
		}
		cases = append(cases, Case{
			Name: x.name + "_namespace_is_its_own", Guest: guest, Group: Descriptors, Needs: controls(x.control),
			Story: "A namespace that is promised is another than the engine's.",
			Do: func(ctx context.Context, b *Bench) error {
				ours, err := os.Readlink("/proc/self/ns/" + x.name)
				if err != nil {
					return fmt.Errorf("read our namespace: %w", err)
				}
				o := b.Run(ctx, sh("readlink /proc/self/ns/"+x.name), nil)
				if err := exits(0)(o); err != nil {
					return err
				}
				theirs := strings.TrimSpace(o.Stdout)
				if !strings.HasPrefix(theirs, x.name+":[") || theirs == ours {
					return fmt.Errorf("the engine is in %s, the program in %q", ours, theirs)
				}
				return nil
			},
		})
	}
	return append(cases, Case{
		Name: "hostname_is_not_the_hosts", Group: Descriptors, Needs: controls(haft.ControlUTSNS), Do: otherHostname,
		Story: "The name of the machine is not told and cannot be set.",
	}, Case{
		Name: "uptime_is_not_the_hosts", Group: Descriptors, Needs: controls(haft.ControlTimeNS), Do: otherUptime,
		Story: "The monotonic clock does not tell when the machine was started.",
	})
}

// watch runs a program that waits, and calls look for each of its processes with the
// status that the host's /proc shows. What the program can see itself does not matter.
func watch(ctx context.Context, b *Bench, look func(pid int, status map[string]string) error) error {
	live, err := b.Start(ctx, sh(`echo ready >&3; read -r x <&3`), nil)
	if err != nil {
		return err
	}
	if _, err := live.Line(ctx); err != nil {
		return err
	}
	pids, err := marked(live.token)
	if err != nil || len(pids) == 0 && linux {
		return fmt.Errorf("its processes cannot be found: %w", err)
	}
	var all []error
	for _, pid := range pids {
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
		if err != nil {
			all = append(all, fmt.Errorf("look at a process: %w", err))
			continue
		}
		status := map[string]string{}
		for line := range strings.Lines(string(text)) {
			name, value, _ := strings.Cut(line, ":")
			status[name] = strings.TrimSpace(value)
		}
		all = append(all, look(pid, status))
	}
	return errors.Join(errors.Join(all...), live.Say("end"), exits(0)(live.Wait()))
}

// otherKernel wants a program to have a kernel that is not the host's, and that the host sees no process of it.
func otherKernel(ctx context.Context, b *Bench) error {
	host, err := os.ReadFile("/proc/version")
	if err != nil {
		return fmt.Errorf("read our kernel's version: %w", err)
	}
	live, err := b.Start(ctx, sh(`cat /proc/version; sleep 1`), nil) // a command of a session has no channel
	if err != nil {
		return err
	}
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	seen := 0
	for running := true; running; {
		select {
		case <-live.done:
			running = false
		case <-tick.C:
			pids, err := marked(live.token)
			if err != nil {
				return fmt.Errorf("look for processes: %w", err)
			}
			seen = max(seen, len(pids))
		}
	}
	o := live.Wait()
	if err := exits(0)(o); err != nil {
		return err
	}
	if seen > 0 || o.Stdout == string(host) {
		return fmt.Errorf("a kernel of its own is promised: the host sees %d processes, and the version is %q",
			seen, o.Stdout)
	}
	return nil
}

// statusSays wants fields of the status to have values, given as "name value".
func statusSays(fields ...string) func(context.Context, *Bench) error {
	return func(ctx context.Context, b *Bench) error {
		return watch(ctx, b, func(_ int, status map[string]string) error {
			for _, f := range fields {
				name, value, _ := strings.Cut(f, " ")
				if status[name] != value {
					return fmt.Errorf("%s is %q, want %q", name, status[name], value)
				}
			}
			return nil
		})
	}
}

// signalsAtDefaults looks for signals that are blocked or ignored. The numbers 32
// and 33 do not count: the C library reserves them, no program can use them, and some
// versions of make start their children with them ignored.
func signalsAtDefaults(ctx context.Context, b *Bench) error {
	const ofTheLibrary = 1<<31 | 1<<32
	return watch(ctx, b, func(_ int, status map[string]string) error {
		for _, name := range []string{"SigBlk", "SigIgn"} {
			set, err := strconv.ParseUint(status[name], 16, 64)
			if err != nil {
				return fmt.Errorf("read %s: %w", name, err)
			}
			if set&^ofTheLibrary != 0 {
				return fmt.Errorf("%s is %q, want none", name, status[name])
			}
		}
		return nil
	})
}

// notRoot looks for the root of the host.
func notRoot(ctx context.Context, b *Bench) error {
	return watch(ctx, b, func(pid int, status map[string]string) error {
		if slices.Contains(strings.Fields(status["Uid"]), "0") {
			return fmt.Errorf("process %d is root on the host: %q", pid, status["Uid"])
		}
		uids, err := os.ReadFile(fmt.Sprintf("/proc/%d/uid_map", pid))
		if err != nil {
			return fmt.Errorf("look at a mapping: %w", err)
		}
		for line := range strings.Lines(string(uids)) {
			if f := strings.Fields(line); len(f) == 3 && f[1] == "0" {
				return fmt.Errorf("root of the host is mapped: %q", line)
			}
		}
		return nil
	})
}

func otherHostname(ctx context.Context, b *Bench) error {
	host, err := os.Hostname()
	if err != nil {
		return fmt.Errorf("find our name: %w", err)
	}
	o := b.Run(ctx, py("import socket\nsay(socket.gethostname())\nattempt('set', lambda: socket.sethostname('evil'))"),
		nil)
	if err := exits(0)(o); err != nil {
		return err
	}
	name, rest, _ := strings.Cut(o.Stdout, "\n")
	if name == "" || name == host {
		return fmt.Errorf("the program is told %q, which is the host's name", name)
	}
	o.Stdout = rest
	return refused(deniedCall, "set")(o)
}

func otherUptime(ctx context.Context, b *Bench) error {
	host, err := os.ReadFile("/proc/uptime")
	if err != nil {
		return fmt.Errorf("read our uptime: %w", err)
	}
	o := b.Run(ctx, py("say(time.clock_gettime(time.CLOCK_BOOTTIME)); say(time.clock_gettime(time.CLOCK_MONOTONIC))"),
		nil)
	if err := exits(0)(o); err != nil {
		return err
	}
	var up, boot, mono float64
	if _, err := fmt.Sscan(string(host), &up); err != nil {
		return fmt.Errorf("read our uptime: %w", err)
	}
	if _, err := fmt.Sscan(o.Stdout, &boot, &mono); err != nil {
		return fmt.Errorf("read its uptime: %w", err)
	}
	for _, v := range []float64{boot, mono} {
		if v > up-60 && v < up+60 {
			return fmt.Errorf("its clock says %.0f s, the host is up for %.0f s", v, up)
		}
	}
	return nil
}

// signalCases try to reach other processes. Those that kill first check that the engine is
// not visible: outside a sandbox, a kill of everything would end the user's session.
func signalCases() []Case {
	guard := `
try: argv = open('/proc/%s/cmdline' % E['HOST_PID']).read().split('\0')
except OSError: argv = ['']
if os.path.basename(argv[0]) == os.path.basename(E['HOST_EXE']): say('sees', 'host'); sys.exit(0)
`
	confined := func(o Outcome) error {
		if strings.Contains(o.Stdout, "sees") {
			return errors.New("the host's processes are visible")
		}
		return o.Err
	}
	return []Case{{
		Name: "kill_of_its_group_does_not_reach_the_engine", Group: Descriptors, Alone: true,
		Story: "A program is in a session and a process group of its own.",
		Program: py(
			`if os.getpgrp() == int(E['HOST_GROUP']) or os.getsid(0) == int(E['HOST_SESSION']): say('shared'); sys.exit(0)
say('alone')
os.kill(0, 9)`),
		Check: all(caused(sandbox.CauseSignal, sandbox.CauseExit),
			func(o Outcome) error { return want("stdout", o.Stdout, "alone\n") }),
	}, {
		Name: "signals_do_not_reach_the_host", Group: Descriptors, Needs: controls(haft.ControlPIDNS),
		Story: "The engine and its parents have no number that a program could signal.",
		Program: py(`for pid in (int(E['HOST_PID']), 2, 100, 1000):
    if pid > 64: attempt('kill%d' % pid, lambda: os.kill(pid, 0))
say('end ESRCH')`),
		Check: refused(append([]string{"ESRCH"}, deniedCall...), "end"),
	}, {
		Name: "kill_of_everything_kills_only_its_own", Group: Descriptors, Needs: controls(haft.ControlPIDNS),
		Alone:   true,
		Story:   "Signals to all processes stay in the sandbox.",
		Program: py(guard + "if os.fork() == 0: time.sleep(60)\nos.kill(-1, 9)\nsay('alive')\n"),
		// Alone among its processes it is not killed itself; as a child of the
		// sandbox's init it may be, with init.
		Check: confined,
	}, {
		Name: "init_of_the_sandbox_cannot_be_killed_to_flee", Group: Descriptors, Needs: controls(haft.ControlPIDNS),
		Alone:   true,
		Story:   "Killing the first process of the sandbox is refused or ends the sandbox, and frees nobody.",
		Program: py(guard + "if os.getpid() != 1:\n    try: os.kill(1, 9)\n    except OSError: pass\nsay('alive')\n"),
		Check:   confined,
	}}
}
