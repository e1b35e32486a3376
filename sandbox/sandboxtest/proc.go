package sandboxtest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"haft"
)

// procCases look at the machine through /proc.
func procCases() []Case {
	return []Case{{
		Name: "host_processes_are_not_visible", Group: Filesystem, Needs: controls(haft.ControlPIDNS, haft.ControlRoot),
		Story: "There are no processes but those of the run, and their command lines and environments hold nothing " +
			"of the engine's.",
		Do: procQuiet,
	}, {
		Name: "kernel_settings_cannot_be_changed", Group: Filesystem,
		Any:   controls(haft.ControlRoot, haft.ControlLandlock),
		Story: "Nothing below /proc/sys can be opened for writing, nor the trigger of the system request.",
		Program: py(
			`for p in ('/proc/sys/kernel/hostname', '/proc/sys/kernel/core_pattern', '/proc/sys/vm/drop_caches', '/proc/sys/net/ipv4/ip_forward', '/proc/sys/kernel/modprobe', '/proc/sys/fs/binfmt_misc/register', '/proc/sys/kernel/ns_last_pid', '/proc/sysrq-trigger', '/proc/timer_list', '/proc/mtrr', '/proc/acpi/wakeup', '/proc/bus/pci', '/proc/irq/default_smp_affinity'):
    attempt(p, lambda: writable(p))`),
		Check: refused(append([]string{"EISDIR"}, deniedFile...), "/proc/sys/kernel/core_pattern",
			"/proc/sysrq-trigger"),
	}, {
		Name: "kernel_memory_and_symbols_are_hidden", Group: Filesystem,
		Guest: madeUp,
		Any:   controls(haft.ControlRoot, haft.ControlLandlock),
		Story: "Kernel memory, messages, keys and addresses cannot be read.",
		Program: py(`def hidden(p):
    with open(p, 'rb') as f: data = f.read(4096)
    if not data.strip(b'\0'): raise OSError(errno.ENOENT, '')
    return data[:20]
def addresses():
    with open('/proc/kallsyms') as f: s = f.read(65536)
    if not [l for l in s.splitlines() if l.split()[0].strip('0')]: raise OSError(errno.ENOENT, '')
for p in ('/proc/kcore', '/proc/kmsg', '/proc/keys', '/proc/key-users', '/proc/sched_debug', '/proc/timer_list', '/proc/vmallocinfo', '/proc/slabinfo', '/proc/pagetypeinfo', '/proc/iomem', '/proc/latency_stats', '/dev/kmsg', '/dev/mem', '/proc/locks', '/proc/config.gz', '/proc/modules', '/proc/cmdline', '/proc/partitions', '/proc/diskstats', '/proc/mdstat', '/proc/swaps'):
    attempt(p, lambda: hidden(p))
attempt('kallsyms', addresses)`),
		Check: refused(deniedFile, "/proc/kcore", "/proc/keys", "/proc/timer_list", "kallsyms"),
	}, {
		Name: "load_of_the_host_is_not_told", Group: Filesystem, Needs: controls(haft.ControlRoot),
		Guest: madeUp,
		Story: "What the machine does at the moment is a side channel: load, processor times, interrupts and " +
			"pressure are masked.",
		Program: py(`def same(p):
    with open(p, 'rb') as f: data = f.read(256)
    if not data.strip(b'\0'): raise OSError(errno.ENOENT, '')
    return data[:30]
for p in ('/proc/loadavg', '/proc/stat', '/proc/interrupts', '/proc/softirqs', '/proc/schedstat', '/proc/vmstat', '/proc/zoneinfo', '/proc/buddyinfo', '/proc/pressure/cpu', '/proc/meminfo', '/proc/uptime'):
    attempt(p, lambda: same(p))`),
		Check: refused(append([]string{"EOPNOTSUPP", "ENOTSUP"}, deniedFile...), "/proc/loadavg", "/proc/stat"),
	}, {
		Name: "control_groups_and_sysfs_are_not_there", Group: Filesystem, Needs: controls(haft.ControlRoot),
		Story: "Limits cannot be lifted where they are laid down.",
		Program: py(`attempt('cgroup', lambda: os.listdir('/sys/fs/cgroup'))
attempt('kernel', lambda: os.listdir('/sys/kernel'))
attempt('firmware', lambda: os.listdir('/sys/firmware'))
attempt('dmi', lambda: readable('/sys/class/dmi/id/product_uuid'))
attempt('procs', lambda: writable('/sys/fs/cgroup/cgroup.procs'))`),
		Check: refused(deniedFile, "cgroup", "kernel", "procs"),
	}, {
		Name: "cgroup_path_tells_nothing", Group: Filesystem, Needs: controls(haft.ControlCgroupNS),
		Story: "A program sees itself at the root of every hierarchy.", Program: py(`for l in open('/proc/self/cgroup'):
    if l.strip().split(':', 2)[2] != '/': say(l)`),
		Check: prints(""),
	}, {
		Name: "engine_binary_cannot_be_overwritten", Group: Filesystem,
		Any:   controls(haft.ControlRoot, haft.ControlLandlock),
		Story: "The program that set up the sandbox cannot be reached through /proc and replaced (CVE-2019-5736).",
		Do:    exeSafe,
	}, {
		Name: "init_of_the_sandbox_cannot_be_entered", Group: Filesystem,
		Needs: controls(haft.ControlPIDNS, haft.ControlRoot),
		Story: "The first process of the sandbox shows neither memory nor descriptors nor another root.",
		Program: py(`if os.getpid() != 1:
    attempt('mem', lambda: os.close(os.open('/proc/1/mem', os.O_RDWR)))
    attempt('fd', lambda: [os.open('/proc/1/fd/' + f, os.O_RDONLY) for f in os.listdir('/proc/1/fd') if int(f) > 2] and None or failed(errno.ENOENT))
    attempt('root', lambda: readable('/proc/1/root' + E['CANARY0']))
    attempt('cwd', lambda: readable('/proc/1/cwd' + E['CANARY0']))
    attempt('ptrace', lambda: call('ptrace', 16, 1, 0, 0))
say('end ENOENT')`),
		Check: refused(append([]string{"ESRCH"}, deniedFile...), "end"),
	}}
}

// procQuiet compares what /proc shows inside with what the engine is.
func procQuiet(ctx context.Context, b *Bench) error {
	o := b.Run(ctx, py(`for p in sorted(os.listdir('/proc')):
    if not p.isdigit(): continue
    for f in ('cmdline', 'environ'):
        try: say(p, f, open('/proc/%s/%s' % (p, f), 'rb').read().decode('utf-8', 'replace').replace('\0', ' ')[:3000].replace('\n', ' '))
        except OSError as e: say(p, f, errno.errorcode[e.errno])
say('host', os.path.exists('/proc/' + E['HOST_PID'] + '/stat') and open('/proc/' + E['HOST_PID'] + '/stat').read())`), nil)
	if err := exits(0)(o); err != nil {
		return err
	}
	if n := strings.Count(o.Stdout, " cmdline "); n == 0 || n > 4 {
		return fmt.Errorf("%d processes are visible: %v", n, o)
	}
	given, _ := b.spec(sh(""))
	for _, kv := range os.Environ() {
		if _, v, _ := strings.Cut(kv, "="); len(v) > 4 && strings.Contains(o.Stdout, kv) &&
			!strings.Contains(strings.Join(given.Env, " "), kv) {
			name, _, _ := strings.Cut(kv, "=")
			return fmt.Errorf("the engine's variable %s is visible", name)
		}
	}
	exe, err := os.Executable()
	if err != nil {
		return fmt.Errorf("find our own program: %w", err)
	}
	for line := range strings.Lines(o.Stdout) {
		if !strings.Contains(line, "HOST_EXE=") && !strings.Contains(line, "HOST_EXE'") && strings.Contains(line, exe) {
			return fmt.Errorf("the path of the engine is visible: %q", line)
		}
	}
	return nil
}

// exeSafe attacks the engine's binary and looks at it afterwards.
func exeSafe(ctx context.Context, b *Bench) error {
	exe, err := os.Executable()
	if err != nil {
		return fmt.Errorf("find our own program: %w", err)
	}
	before, err := os.Stat(exe)
	if err != nil {
		return fmt.Errorf("look at our own program: %w", err)
	}
	// A busy text file is no refusal: it is writable a moment later. Changing the
	// mode to what it is needs a writable mount and does no harm.
	o := b.Run(ctx, py(`for p in ('/proc/self/exe', '/proc/1/exe', '/proc/%d/exe' % os.getppid(), E['HOST_EXE']):
    if p == '/proc/0/exe': continue
    def again():
        fd = os.open(p, os.O_RDONLY)
        os.close(os.open('/proc/self/fd/%d' % fd, os.O_WRONLY | os.O_APPEND))
    def mode(): os.chmod(p, os.stat(p).st_mode & 0o7777)
    attempt('write:' + p, again)
    attempt('mode:' + p, mode)`), nil)
	if err := refused(append([]string{"ETXTBSY"}, deniedFile...), "mode:/proc/self/exe",
		"mode:/proc/1/exe")(o); err != nil {
		return fmt.Errorf("%w\n\t%v", err, o)
	}
	after, err := os.Stat(exe)
	if err != nil || after.Size() != before.Size() || !after.ModTime().Equal(before.ModTime()) ||
		after.Mode() != before.Mode() {
		return errors.New("the engine's binary has changed")
	}
	return nil
}
