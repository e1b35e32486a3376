package sandboxtest

import (
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

	"haft"
	"haft/sandbox"
)

// fileCases look for files of the host and try to change what they see.
func fileCases() []Case {
	return slices.Concat(readingCases(), writingCases(), nodeCases())
}

// readingCases look for what they must not see.
func readingCases() []Case {
	walled := controls(haft.ControlRoot, haft.ControlLandlock)
	return []Case{{
		Name: "host_secrets_cannot_be_read", Group: Filesystem, Any: walled,
		Story: "Password hashes, keys and the homes of others are not there.",
		Program: py(
			`for p in ('/etc/shadow', '/etc/gshadow', '/etc/sudoers', '/root/.bashrc', '/root/.ssh/id_rsa', '/var/log/dpkg.log', '/etc/machine-id', '/boot/grub/grub.cfg'):
    attempt(p, lambda: readable(p))`),
		Check: refused(deniedFile, "/etc/shadow", "/etc/machine-id"),
	}, {
		Name: "planted_files_of_the_engine_cannot_be_read", Group: Filesystem, Any: walled,
		Story: "Files in the engine's temporary directory, state and home are not there, though the program knows " +
			"their names.",
		Program: py(`for k in E:
    if k.startswith('CANARY'): attempt(k, lambda: readable(E[k]))
attempt('engine', lambda: readable(E['HOST_EXE']))
attempt('dir', lambda: os.listdir(E['HOST_DIR']))`),
		Check: refused(deniedFile, "CANARY0", "CANARY1", "engine", "dir"),
	}, {
		Name: "host_directories_are_not_there", Group: Filesystem, Needs: controls(haft.ControlRoot),
		Story: "Of the host's tree there is nothing but what was mounted.",
		Program: py(
			`for d in ('/root', '/home', '/boot', '/mnt', '/media', '/srv', '/var/lib', '/var/log', '/var/run', '/run', '/sys', '/etc/ssh', '/etc/ssl'):
    def look():
        if not os.listdir(d): raise OSError(errno.ENOENT, '')
        return os.listdir(d)[:3]
    attempt(d, look)`),
		Check: refused(deniedFile, "/root", "/sys", "/run"),
	}, {
		Name: "paths_that_climb_stay_inside", Group: Filesystem, Any: walled,
		Story: "No number of .. and no link of the kernel's leads out.",
		Program: py(`c = E['CANARY0']
for i, p in enumerate(('../' * 40 + c, '/proc/self/root' + c, '/proc/self/root/../..' + c, '/proc/1/root' + c, '/proc/self/cwd/../..' + c, '/proc/thread-self/root' + c, '/dev/fd/../root' + c)):
    attempt('path%d' % i, lambda: readable(p))
def chroot_out():
    os.chroot('.'); [os.chdir('..') for _ in range(40)]; os.chroot('.'); return readable(c)
attempt('chroot', chroot_out)
def by_symlink():
    os.symlink(c, 'link'); return readable('link')
attempt('symlink', by_symlink)`),
		Check: refused(append([]string{"ELOOP"}, deniedFile...), "path0", "path3", "chroot", "symlink"),
	}}
}

// writingCases try to change what others will see.
func writingCases() []Case {
	walled := controls(haft.ControlRoot, haft.ControlLandlock)
	return []Case{{
		Name: "interpreter_cannot_be_changed", Group: Filesystem, Any: walled,
		Story: "What all runs share, the standard library and its caches above all, cannot be written to.",
		Program: py(`lib = os.path.dirname(os.__file__)
attempt('append', lambda: writable(os.__file__))
attempt('create', lambda: os.close(os.open(lib + '/haft_case.py', os.O_CREAT | os.O_WRONLY)))
attempt('cache', lambda: os.close(os.open(lib + '/__pycache__/haft_case.pyc', os.O_CREAT | os.O_WRONLY)))
attempt('mkdir', lambda: os.mkdir(lib + '/haft_case'))
attempt('rmdir', lambda: os.rmdir(lib + '/json'))
attempt('bin', lambda: os.close(os.open('/usr/bin/haft-case', os.O_CREAT | os.O_WRONLY)))
attempt('chmod', lambda: os.chmod(sys.executable, os.stat(sys.executable).st_mode & 0o7777))
attempt('utime', lambda: os.utime(os.__file__, ns=(os.stat(os.__file__).st_atime_ns, os.stat(os.__file__).st_mtime_ns)))`),
		Check: refused(deniedFile, "append", "create", "cache", "mkdir", "bin"),
	}, {
		Name: "root_directory_cannot_be_changed", Group: Filesystem, Needs: controls(haft.ControlRoot),
		Story: "The tree itself is read-only but for the private places.",
		Program: py(`for d in ('/', '/etc', '/usr', '/bin', '/lib', '/proc', '/var', '/run', '/sys'):
    attempt(d, lambda: os.mkdir(d + '/haft-case'))`),
		Check: refused(deniedFile, "/", "/usr", "/proc"),
	}, {
		Name: "hard_links_do_not_cross", Group: Filesystem, Any: walled,
		Story: "A file of the host cannot be linked into the work directory.",
		Program: py(`attempt('interpreter', lambda: os.link(os.path.realpath(sys.executable), 'l1'))
attempt('library', lambda: os.link(os.__file__, 'l2'))
attempt('canary', lambda: os.link(E['CANARY0'], 'l3'))`),
		Check: refused(append([]string{"EXDEV"}, deniedFile...), "interpreter", "library", "canary"),
	}, {
		Name: "every_mount_is_harmless", Group: Filesystem, Needs: controls(haft.ControlRoot),
		Guest: madeUp,
		Story: "What is mounted honours no set-user-id bits, what is of the host is read-only, and no mount tells " +
			"where the engine keeps things.",
		Do: mountsHarmless,
	}}
}

// nodeCases try to gain by what they make: programs, devices, attributes.
func nodeCases() []Case {
	return []Case{{
		Name: "set_user_id_bits_do_nothing", Group: Filesystem,
		Needs: controls(haft.ControlNoNewPriv, haft.ControlRoot),
		Story: "A set-user-id program of the host or of one's own gives nothing.",
		Program: py(`import shutil, subprocess
shutil.copy('/usr/bin/id', 'id')
try: os.chmod('id', 0o6755)
except OSError: pass
say(subprocess.run(['./id', '-u'], capture_output=True, text=True).stdout.strip() == str(os.getuid()))
say(libc.prctl(39, 0, 0, 0, 0)) # PR_GET_NO_NEW_PRIVS`),
		Check: prints("True\n1\n"),
	}, {
		Name: "device_nodes_cannot_be_made", Group: Filesystem, Needs: controls(haft.ControlCaps),
		Story: "Neither disks nor memory can be reached by a node of one's own.",
		Program: py(`import stat
attempt('disk', lambda: os.mknod('d', stat.S_IFBLK | 0o600, os.makedev(8, 0)))
attempt('mem', lambda: os.mknod('m', stat.S_IFCHR | 0o600, os.makedev(1, 1)))
attempt('kmsg', lambda: os.mknod('/tmp/k', stat.S_IFCHR | 0o600, os.makedev(1, 11)))`),
		Check: refused(deniedFile, "disk", "mem"),
	}, {
		Name: "dev_holds_nothing_of_the_host", Group: Filesystem, Needs: controls(haft.ControlRoot),
		Guest: madeUp,
		Story: "There are no disks, no terminals, no memory and no log among the devices.",
		Program: py(
			`for d in ('sda', 'vda', 'nvme0n1', 'mem', 'kmem', 'port', 'kmsg', 'console', 'tty0', 'fuse', 'kvm', 'net/tun', 'loop-control', 'mapper/control', 'vsock', 'vhost-net', 'userfaultfd', 'snapshot', 'input', 'dri', 'cuse', 'uinput'):
    attempt(d, lambda: (os.stat('/dev/' + d), os.open('/dev/' + d, os.O_RDONLY)) and None)`),
		Check: refused(deniedFile, "vda", "mem", "kmsg", "fuse", "kvm"),
	}, {
		Name: "capabilities_cannot_be_put_on_files", Group: Filesystem, Needs: controls(haft.ControlCaps),
		Story: "No file gets capabilities or trusted attributes.",
		Program: py(`open('f', 'w').close()
attempt('capability', lambda: os.setxattr('f', 'security.capability', bytes.fromhex('0100000200200000000000000000000000000000')))
attempt('trusted', lambda: os.setxattr('f', 'trusted.haft', b'x'))`),
		Check: refused(append([]string{"ENOTSUP", "EOPNOTSUPP"}, deniedFile...), "capability", "trusted"),
	}}
}

// mountsHarmless reads the mount table of a program.
func mountsHarmless(ctx context.Context, b *Bench) error {
	o := b.Run(ctx, py("os.write(1, open('/proc/self/mountinfo', 'rb').read())"), nil)
	if err := exits(0)(o); err != nil {
		return err
	}
	private := []string{"/work", "/work/out", "/tmp", "/dev", "/dev/shm", "/dev/mqueue", "/dev/pts", "/run", "/var/tmp",
		"/proc", "/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom", "/dev/tty"}
	n := 0
	for line := range strings.Lines(o.Stdout) {
		f := strings.Fields(line)
		if len(f) < 6 {
			return fmt.Errorf("a mount reads %q", line)
		}
		n++
		at, options := f[4], strings.Split(f[5], ",")
		if !slices.Contains(options, "nosuid") {
			return fmt.Errorf("%s is mounted without nosuid: %q", at, line)
		}
		if !slices.Contains(options, "nodev") && !strings.HasPrefix(at, "/dev/") {
			return fmt.Errorf("%s is mounted without nodev: %q", at, line)
		}
		if !slices.Contains(private, at) && !strings.HasPrefix(at, "/proc/") && !slices.Contains(options, "ro") {
			return fmt.Errorf("%s can be written to: %q", at, line)
		}
	}
	if n < 3 {
		return errSilent
	}
	if strings.Contains(o.Stdout, path.Base(b.host.dir)) ||
		strings.Contains(o.Stdout, path.Dir(b.host.dir)+"/") && path.Dir(b.host.dir) != "/tmp" {
		return errors.New("the mount table names the directory of the engine")
	}
	return nil
}

// artifactCases put traps where the engine collects.
func artifactCases() []Case {
	collect := func(s *sandbox.Spec) { s.Collect = true }
	only := func(names string) func(Outcome) error {
		return all(exits(0), func(o Outcome) error {
			if err := want("artifacts", describe(o), names); err != nil {
				return err
			}
			if len(o.Exit.ArtifactsCut) == 0 {
				return errors.New("nothing is said about what was left out")
			}
			return nil
		})
	}
	return []Case{{
		Name: "links_and_devices_are_no_artifacts", Group: Filesystem, Spec: collect,
		Story: "Only regular files come back: no links, whatever they lead to, no pipes, no sockets.",
		Program: py(`import socket
os.symlink('/etc/passwd', 'out/link'); os.symlink(E['CANARY0'], 'out/canary'); os.symlink('/dev/zero', 'out/zero')
os.symlink('ok', 'out/inner'); os.symlink('/', 'out/dir'); os.symlink('/proc/kmsg', 'out/kmsg')
try: os.mkfifo('out/fifo')
except OSError: pass
try: socket.socket(socket.AF_UNIX).bind('out/socket')
except OSError: pass
open('out/ok', 'w').write('fine')`),
		Check: only("ok:4"),
	}, {
		Name: "out_directory_may_not_be_a_link", Group: Filesystem, Spec: collect,
		Story: "A link in the place of out is not followed.", Program: sh(`rmdir out && ln -s "$HOST_DIR" out`),
		Check: only(""),
	}, {
		Name: "out_directory_may_not_be_a_file", Group: Filesystem, Spec: collect,
		Story: "A file in the place of out is no harm.", Program: sh(`rmdir out && echo x > out`),
		Check: only(""),
	}, {
		Name: "artifacts_are_counted", Group: Filesystem, Spec: collect,
		Story:   "No more artifacts come back than allowed.",
		Program: sh(`for i in 1 2 3 4 5 6 7 8 9 10 11 12; do echo $i > out/f$i; done`),
		Check: all(exits(0), func(o Outcome) error {
			if len(o.Exit.Artifacts) != 8 || len(o.Exit.ArtifactsCut) == 0 {
				return fmt.Errorf("%d artifacts came back of 8, and %v was cut", len(o.Exit.Artifacts),
					o.Exit.ArtifactsCut)
			}
			return nil
		}),
	}, {
		Name: "artifacts_are_weighed", Group: Filesystem, Spec: collect,
		Story: "No more bytes come back than allowed, and holes count as bytes.",
		Program: py("os.truncate(os.open('out/hole', os.O_CREAT | os.O_WRONLY), 8 << 20); open('out/z', " +
			"'w').write('zz')"),
		Check: only("z:2"),
	}, {
		Name: "artifact_names_are_what_they_are", Group: Filesystem, Spec: collect,
		Story: "Options, upper and lower case, composed letters or not, and 255 bytes are names like others; what " +
			"is no text is left out, and a name of two lines is given back or left out.",
		Program: py(
			`for n in ('-rf', 'new\nline', 'Case', 'case', '\u00e9', 'e\u0301', 'n' * 255): open('out/' + n, 'w').close()
open(b'out/\xff\xfe', 'w').close()`),
		Check: func(o Outcome) error {
			whole := len(o.Exit.Artifacts)
			o.Exit.Artifacts = slices.DeleteFunc(slices.Clone(o.Exit.Artifacts),
				func(a haft.Artifact) bool { return a.Name == "new\nline" })
			if len(o.Exit.Artifacts) == whole && len(o.Exit.ArtifactsCut) < 2 {
				return errors.New("a name of two lines is neither given back nor told of")
			}
			return only("-rf:0 Case:0 case:0 e\u0301:0 " + strings.Repeat("n", 255) + ":0 \u00e9:0")(o)
		},
	}, {
		Name: "unreadable_and_deep_artifacts_do_no_harm", Group: Filesystem, Spec: collect,
		Story: "Files without permissions and trees without end neither fail the run nor stay behind.",
		Program: py(`open('out/a', 'w').write('a')
os.mkdir('out/locked'); open('out/locked/f', 'w').close()
try: os.fchmod(os.open('out/locked', os.O_RDONLY), 0)
except PermissionError: os.mkdir('out/closed', 0) # where attributes cannot be changed
for _ in range(200): os.mkdir('d'); os.chdir('d')`),
		Check: all(exits(0), func(o Outcome) error {
			if !strings.Contains(describe(o), "a:1") {
				return fmt.Errorf("artifacts are %q", describe(o))
			}
			return nil
		}),
	}, {
		Name: "swapped_links_are_never_followed", Group: Filesystem, Do: swappedLinks,
		Story: "A file that turns into a link and back while the engine collects never leads it out.",
	}}
}

// swappedLinks lets a child swap a file and a link to a secret while the program
// ends and its artifacts are read.
func swappedLinks(ctx context.Context, b *Bench) error {
	swap := py(`open('a', 'w').write('mine')
os.symlink(E['CANARY0'], 'b'); os.rename('a', 'out/f')
if os.fork() == 0:
    while True:
        os.rename('b', 'out/f')
        open('a', 'w').write('mine'); os.rename('a', 'out/f')
        os.symlink(E['CANARY0'], 'b')
time.sleep(0.02)
os._exit(0)`)
	for range 8 {
		o := b.Run(ctx, swap, func(s *sandbox.Spec) { s.Collect = true })
		if err := exits(0)(o); err != nil {
			return err
		}
		if len(o.Exit.Artifacts)+len(o.Exit.ArtifactsCut) == 0 {
			return errors.New("nothing was collected")
		}
		for _, a := range o.Exit.Artifacts {
			if strings.Contains(string(a.Data), b.host.secret) {
				return errors.New("a link was followed out of the sandbox")
			}
		}
	}
	return nil
}
