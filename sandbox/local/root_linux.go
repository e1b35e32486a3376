package local

import (
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"haft"
	"haft/sandbox"
	"haft/sandbox/internal/mountinfo"
	"haft/sandbox/local/internal/plan"
)

// The user inside. It has no privilege and no password.
const (
	insideID   = GuestID
	insideName = "haft"
)

// attributes of everything that is mounted from the host.
const (
	attrReadOnly = unix.MOUNT_ATTR_RDONLY | unix.MOUNT_ATTR_NOSUID | unix.MOUNT_ATTR_NODEV
	attrWritable = unix.MOUNT_ATTR_NOSUID | unix.MOUNT_ATTR_NODEV
	// Device nodes do not work on a nodev mount.
	attrDevice = unix.MOUNT_ATTR_RDONLY | unix.MOUNT_ATTR_NOSUID | unix.MOUNT_ATTR_NOEXEC
)

// devices are all that /dev has.
var devices = []string{"null", "zero", "full", "random", "urandom"}

// A tree is a part of the host that becomes a mount inside.
type tree struct {
	host, inside string
	attr         uint64
	slot         int // of the plan, or -1 if the init binds it by path
	// file, if not nil, is what is mounted; host is then what the kernel calls it.
	file *os.File
	// given says that the slot has a descriptor of the host's file, and not of a
	// detached mount.
	given bool
	// under says that the mount point lies in a mount that a user named and may be
	// able to write to: nothing is made there, and no link is followed on the way.
	under bool
}

// root plans the root of a sandbox: a small tmpfs with mount points for the files of the
// host, which becomes "/". It returns the trees that the parent has to detach for it, in
// the order of their slots.
//
// All paths of the plan are relative to the new root until it is pivoted into,
// so that no step can touch the host.
func (p *Provider) root(pl *plan.Plan, spec *sandbox.Spec) ([]tree, error) {
	pl.Umask(0o022)
	pl.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, "")
	pl.Mount("haft", p.instance.mountOn, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, "size=1m,nr_inodes=4096,mode=0755")
	pl.Chdir(p.instance.mountOn)
	var trees []tree
	if p.config.Kernel != nil {
		trees = append(trees, p.machine.kernelRoot(pl, p.config.Kernel))
	}
	made := map[string]bool{".": true}
	for _, dir := range []string{"dev", "etc", "proc", "tmp", "var", "var/tmp", "work", "dev/shm", "run"} {
		mkdirs(pl, made, dir)
	}
	mounts, err := p.machine.planMounts(pl, made, spec)
	if err != nil {
		return nil, err
	}
	trees = append(trees, mounts...)
	for _, name := range devices {
		t := tree{host: "/dev/" + name, inside: "dev/" + name, attr: attrDevice}
		trees = append(trees, p.machine.bind(pl, made, t, false))
	}
	for link, target := range map[string]string{"fd": "/proc/self/fd", "stdin": "/proc/self/fd/0",
		"stdout": "/proc/self/fd/1", "stderr": "/proc/self/fd/2"} {
		pl.Symlink(target, "dev/"+link)
	}
	if spec.Terminals {
		mkdirs(pl, made, "dev/pts")
		pl.Symlink("pts/ptmx", "dev/ptmx")
		if !slices.ContainsFunc(spec.Mounts, func(m sandbox.Mount) bool {
			in := path.Clean(m.Inside)
			return in == "/home" || in == "/home/user" || strings.HasPrefix(in, "/home/user/")
		}) {
			mkdirs(pl, made, "home") // who works at a terminal may expect a home
			pl.Symlink("/work", "home/user")
		}
	}
	etc(pl, made, spec.Network == sandbox.NetworkEgress || spec.Loopback)
	return slices.DeleteFunc(trees, func(t tree) bool { return t.slot < 0 }), nil
}

// visibleMounts returns the mounts of spec, and those that programs need to use the
// host's network. A mount below one of the latter is left out.
func visibleMounts(spec *sandbox.Spec) []sandbox.Mount {
	mounts := slices.Clone(spec.Mounts)
	if spec.Network != sandbox.NetworkFull {
		return mounts
	}
	for _, name := range []string{"/etc/resolv.conf", "/etc/ssl"} {
		if _, err := os.Stat(name); err != nil {
			continue
		}
		mounts = slices.DeleteFunc(mounts, func(m sandbox.Mount) bool {
			return m.Host == m.Inside && !m.Writable && (m.Host == name || strings.HasPrefix(m.Host, name+"/"))
		})
		mounts = append(mounts, sandbox.Mount{Host: name, Inside: name})
	}
	return mounts
}

// planMounts plans the mounts of spec, parents before children.
func (mc *machine) planMounts(pl *plan.Plan, made map[string]bool, spec *sandbox.Spec) ([]tree, error) {
	mounts := visibleMounts(spec)
	slices.SortStableFunc(mounts, func(a, b sandbox.Mount) int { return strings.Compare(a.Inside, b.Inside) })
	if len(mounts) > maxMounts {
		return nil, &haft.Error{Code: haft.CodeInvalid,
			Message: fmt.Sprintf("%d mounts, %d are the most", len(mounts), maxMounts)}
	}
	var trees []tree
	for _, m := range mounts {
		inside := strings.TrimPrefix(path.Clean(m.Inside), "/")
		if !path.IsAbs(m.Inside) || inside == "" || !path.IsAbs(m.Host) || reserved(inside) {
			return nil, &haft.Error{Code: haft.CodeInvalid, Message: "a mount is not at an absolute path of its own"}
		}
		if m.File != nil && ownRoot(inside) {
			return nil, &haft.Error{Code: haft.CodeInvalid,
				Message: "a mount would cover a directory that the sandbox needs itself"}
		}
		t := tree{host: m.Host, inside: inside, attr: attrReadOnly, file: m.File, under: under(m, mounts)}
		if m.Writable {
			t.attr = attrWritable
		}
		if target, ok := linkWithin(m, mounts); ok && !t.under {
			mkdirs(pl, made, path.Dir(inside))
			if !made[inside] {
				pl.Symlink(target, inside)
				made[inside] = true
			}
			continue
		}
		info, err := t.find()
		if err != nil {
			return nil, &sandbox.SetupError{Step: "mount", Path: m.Inside, Err: errnoIn(err)}
		}
		trees = append(trees, mc.bind(pl, made, t, info.IsDir()))
	}
	return trees, nil
}

// find looks at what is to be mounted: at what is open, or at what the path leads to.
func (t *tree) find() (os.FileInfo, error) {
	host, err := "", error(nil)
	if t.file != nil {
		// For an init that has to open it again, see [plan.Plan.Bind].
		host, err = os.Readlink(fmt.Sprintf("/proc/self/fd/%d", t.file.Fd()))
	} else {
		host, err = filepath.EvalSymlinks(t.host)
	}
	if err != nil {
		return nil, err
	}
	if t.host = host; t.file != nil {
		return t.file.Stat()
	}
	return os.Stat(host)
}

// under reports whether the mount point of m lies in one of those mounts that come
// with a descriptor: a user named it, who may also be able to write there.
func under(m sandbox.Mount, mounts []sandbox.Mount) bool {
	return slices.ContainsFunc(mounts, func(o sandbox.Mount) bool {
		return o.File != nil && strings.HasPrefix(m.Inside, o.Inside+"/")
	})
}

// overlays plans an overlay over every directory that is mounted read-only, so that runs
// do not share its inodes: a run could notice another one by a lock or a watch on a file
// that both can read.
//
// Left out are directories with mounts below them, of the host's or of the spec,
// which an overlay would hide, and names that overlay options cannot hold. Single
// files and devices cannot be overlaid.
func (mc *machine) overlays(pl *plan.Plan, spec *sandbox.Spec, base string) {
	if !mc.overlay {
		return
	}
	hostMounts, err := mountinfo.Read()
	if err != nil {
		return // any directory may have mounts below it
	}
	for _, m := range spec.Mounts {
		if m.File == nil {
			if info, err := os.Lstat(m.Host); err != nil || !info.IsDir() {
				continue
			}
		} else if info, err := m.File.Stat(); err != nil || !info.IsDir() {
			continue
		}
		if m.Writable || strings.ContainsAny(m.Inside, `:,\`) || under(m, spec.Mounts) {
			continue
		}
		below := func(o sandbox.Mount) bool { return strings.HasPrefix(o.Inside, m.Inside+"/") }
		belowHost := func(o mountinfo.Mount) bool { return strings.HasPrefix(o.At, m.Host+"/") }
		if slices.ContainsFunc(spec.Mounts, below) || slices.ContainsFunc(hostMounts, belowHost) {
			continue
		}
		pl.Overlay(base+strings.TrimPrefix(m.Inside, "/"), base+"run")
	}
}

// maxMounts keeps the descriptors of one message below the kernel's bound.
const maxMounts = 235

// reserved reports whether a path belongs to the sandbox itself.
func reserved(inside string) bool {
	for _, own := range []string{"proc", "dev", "tmp", "work", "var/tmp"} {
		if inside == own || strings.HasPrefix(inside, own+"/") && own != "work" {
			return true
		}
	}
	return false
}

// ownRoot reports whether a path is that of a directory in which the sandbox keeps
// something of its own.
func ownRoot(inside string) bool {
	return slices.Contains([]string{"etc", "var", "run", "work"}, inside)
}

// linkWithin returns the target of a mount that is a symbolic link to something
// that another mount shows: /bin, which is usr/bin today, stays a link.
func linkWithin(m sandbox.Mount, mounts []sandbox.Mount) (string, bool) {
	if m.Host != m.Inside || m.File != nil {
		return "", false
	}
	target, err := os.Readlink(m.Host)
	if err != nil {
		return "", false
	}
	full := target
	if !path.IsAbs(full) {
		full = path.Join(path.Dir(m.Host), full)
	}
	return target, slices.ContainsFunc(mounts, func(o sandbox.Mount) bool {
		return o.Host == o.Inside && o.Host != m.Host && (full == o.Host || strings.HasPrefix(full, o.Host+"/"))
	})
}

// bind plans one mount. A privileged parent detaches the tree and hands it over,
// since the user inside may not be able to traverse the path to it. An ordinary
// user's init has the same rights as its parent, and binds by path; where somebody
// else named the path, it makes sure that it is what the parent has open.
func (mc *machine) bind(pl *plan.Plan, made map[string]bool, t tree, dir bool) tree {
	if t.under {
		made[t.inside] = true // it is there, or the mount fails
	} else if dir {
		mkdirs(pl, made, t.inside)
	} else if mkdirs(pl, made, path.Dir(t.inside)); !made[t.inside] {
		pl.File(t.inside, 0o444, nil)
		made[t.inside] = true
	}
	if mc.privileged {
		if t.slot = pl.Attach(t.host, t.inside); t.under || t.file != nil {
			pl.Strict()
		}
		return t
	}
	t.slot = -1
	if t.file != nil {
		t.slot, t.given = pl.Given(t.host), true
	}
	if t.file != nil || t.under {
		pl.Bind(t.host, t.inside, t.attr, t.slot)
		return t
	}
	pl.Mount(t.host, t.inside, "", unix.MS_BIND|unix.MS_REC, "")
	pl.Attr(t.inside, t.attr, true)
	return t
}

// mkdirs plans a directory and its parents, each once.
func mkdirs(pl *plan.Plan, made map[string]bool, dir string) {
	if made[dir] || dir == "/" {
		return
	}
	mkdirs(pl, made, path.Dir(dir))
	pl.Mkdir(dir, 0o755)
	made[dir] = true
}

// etc plans the files that libraries need. With egress, names are looked up outside, and with
// nothing but a loopback nowhere: inside, a lookup must fail at once and not after the timeout of a resolver.
func etc(pl *plan.Plan, made map[string]bool, loopback bool) {
	hosts, order := "127.0.0.1 localhost haft\n::1 localhost\n", "files dns"
	if loopback {
		hosts, order = "127.0.0.1 localhost haft\n", "files"
	}
	type file struct{ name, text string }
	var more []file
	if loopback { // there is no IPv6: the wildcard address that programs take first has to be that of IPv4
		more = append(more, file{"gai.conf", "precedence ::ffff:0:0/96 100\n"})
	}
	for _, f := range append(more, []file{
		{"passwd", fmt.Sprintf("%s:x:%d:%d::/work:/bin/sh\nnobody:x:65534:65534::/:/bin/false\n", insideName, insideID,
			insideID)},
		{"group", fmt.Sprintf("%s:x:%d:\nnogroup:x:65534:\n", insideName, insideID)},
		{"hosts", hosts},
		{"nsswitch.conf", "passwd: files\ngroup: files\nhosts: " + order + "\n"},
		{"hostname", "haft\n"},
	}...) {
		if !made["etc"] || made["etc/"+f.name] {
			continue
		}
		pl.File("etc/"+f.name, 0o444, []byte(f.text))
	}
	// The time zone is a link into what the runtime brings.
	if zone, err := os.Readlink("/etc/localtime"); err == nil && !made["etc/localtime"] {
		pl.Symlink(zone, "etc/localtime")
	}
}

// private plans what belongs to one run alone: one tmpfs, so that one quota holds
// for all its directories together, and a view of its own processes. The base is
// "" in the new root, which is the current directory, or "/" in a template's.
func private(pl *plan.Plan, spec *sandbox.Spec, base string, proc bool) {
	l := spec.Limits
	pl.Mount("haft", base+"tmp", "tmpfs", unix.MS_NOSUID|unix.MS_NODEV,
		fmt.Sprintf("size=%d,nr_inodes=%d,mode=0755", l.Disk, l.Inodes+privateInodes))
	for _, d := range []struct {
		name string
		mode uint32
	}{{"tmp", 0o1777}, {"work", 0o755}, {"shm", 0o1777}, {"vartmp", 0o1777}} {
		pl.Mkdir(base+"tmp/"+d.name, d.mode)
		pl.Chmod(base+"tmp/"+d.name, d.mode)
	}
	pl.Mkdir(base+"tmp/work/out", 0o755)
	pl.Keep(base + "tmp")
	for _, m := range [][2]string{{"work", "work"}, {"shm", "dev/shm"}, {"vartmp", "var/tmp"}, {"tmp", "tmp"}} {
		pl.Mount(base+"tmp/"+m[0], base+m[1], "", unix.MS_BIND, "")
	}
	if proc {
		// subset=pid (Linux 5.8) leaves only the processes: no kcore, kallsyms,
		// keys, sys, sysrq-trigger, meminfo, stat, loadavg or uptime to mask.
		pl.Mount("proc", base+"proc", "proc", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC,
			"subset=pid,hidepid=invisible")
	}
	if spec.Terminals {
		// Every mount is an instance of its own (Linux 4.7): no terminal of the host or of
		// another run is in it. A terminal is kernel memory that nobody counts.
		pl.Mount("devpts", base+"dev/pts", "devpts", unix.MS_NOSUID|unix.MS_NOEXEC,
			"newinstance,ptmxmode=0666,mode=0600,max=4")
	}
}

// privateInodes are those of the directories above, which are not the tool's.
const privateInodes = 6

// files plans the files that are handed in, below base.
func files(pl *plan.Plan, base string, list []sandbox.File) error {
	made := map[string]bool{".": true}
	for _, f := range list {
		if !filepath.IsLocal(f.Name) || path.Clean(f.Name) != f.Name || strings.ContainsRune(f.Name, 0) ||
			len(f.Name) > 4000 {
			return &haft.Error{Code: haft.CodeInvalid, Message: "the name of a file is not a clean relative path"}
		}
		dirs := strings.Split(path.Dir(f.Name), "/")
		for i := range dirs {
			if d := path.Join(dirs[:i+1]...); !made[d] {
				pl.Mkdir(base+d, 0o755)
				made[d] = true
			}
		}
		mode := uint32(f.Mode.Perm())
		if mode == 0 {
			mode = 0o644
		}
		pl.File(base+f.Name, mode, f.Data)
	}
	return nil
}
