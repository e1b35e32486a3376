package hostpath

import (
	"fmt"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// A mount is one line of mountinfo.
type mount struct {
	id      uint64
	device  string // major:minor
	root    string // which directory of the file system it shows
	at      string // where
	kind    string
	options string // of the file system, escaped
}

// mountTable are the mounts that this process sees.
type mountTable []mount

// A part is a directory of a file system, whichever mount shows it.
type part struct {
	device, path string
	kernel       bool
}

// kernelKinds are file systems in which files are not files: they show processes and
// settings of the host.
var kernelKinds = []string{
	"proc", "sysfs", "cgroup", "cgroup2", "debugfs", "tracefs", "securityfs", "selinuxfs", "smackfs", "bpf", "configfs",
	"pstore", "efivarfs", "binfmt_misc", "fusectl", "devtmpfs", "devpts", "mqueue", "nsfs", "rpc_pipefs", "nfsd",
	"resctrl",
}

// readMounts reads the table.
func readMounts() (mountTable, error) {
	text, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return nil, fmt.Errorf("read the mounts: %w", err)
	}
	var table mountTable
	for line := range strings.Lines(string(text)) {
		m, err := parseMount(line)
		if err != nil {
			return nil, err
		}
		table = append(table, m)
	}
	return table, nil
}

// parseMount reads a line, see proc_pid_mountinfo(5):
//
//	36 35 98:0 /mnt1 /mnt2 rw,noatime master:1 - ext3 /dev/root rw,errors=continue
func parseMount(line string) (mount, error) {
	before, after, ok := strings.Cut(line, " - ")
	f, g := strings.Fields(before), strings.Fields(after)
	if !ok || len(f) < 6 || len(g) < 3 {
		return mount{}, fmt.Errorf("a line of mountinfo has %d and %d fields", len(f), len(g))
	}
	id, err := strconv.ParseUint(f[0], 10, 64)
	if err != nil {
		return mount{}, fmt.Errorf("read the number of a mount: %w", err)
	}
	return mount{id: id, device: f[2], root: unescape(f[3]), at: unescape(f[4]), kind: g[0], options: g[2]}, nil
}

// unescape reads the octal numbers by which the kernel writes blanks: \040.
func unescape(s string) string {
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] == '\\' && i+3 < len(s) {
			if n, err := strconv.ParseUint(s[i+1:i+4], 8, 8); err == nil {
				b.WriteByte(byte(n))
				i += 3
				continue
			}
		}
		b.WriteByte(s[i])
	}
	return b.String()
}

// maxLayers bounds how many overlays of overlays are looked through.
const maxLayers = 4

// parts returns which parts of file systems a path on a mount shows: its own, and
// those of the layers of an overlay.
func (t mountTable) parts(id uint64, real string) []part { return t.partsWithin(id, real, maxLayers) }

func (t mountTable) partsWithin(id uint64, real string, depth int) []part {
	i := slices.IndexFunc(t, func(m mount) bool { return m.id == id })
	if i < 0 {
		return nil // unmounted meanwhile
	}
	m := t[i]
	rel := strings.TrimPrefix(strings.TrimPrefix(real, strings.TrimSuffix(m.at, "/")), "/")
	own := part{m.device, path.Join(m.root, rel), slices.Contains(kernelKinds, m.kind)}
	list := []part{own}
	if m.kind != "overlay" || depth == 0 {
		return list
	}
	for _, dir := range layerDirs(m.options) {
		fd, err := unix.Open(dir, unix.O_PATH|unix.O_CLOEXEC, 0)
		if err != nil {
			continue // layers of a container are often not visible in it
		}
		st, err := statOf(fd)
		layer, linkErr := os.Readlink(fmt.Sprintf("/proc/self/fd/%d", fd)) // dir may be a link, as Docker's are
		if err == nil && linkErr == nil {
			list = append(list, t.partsWithin(st.mount, path.Join(layer, own.path), depth-1)...)
		}
		_ = unix.Close(fd) // only looked at
	}
	return list
}

// layerDirs returns the directories that the options of an overlay name, as mountinfo
// writes them. lowerdir is a list, in which a backslash stands before a colon that is a part
// of a name; lowerdir+ and datadir+, of the mount API of Linux 6.8, are one directory each.
// Where one text can be read in two ways, both are returned: a directory too many shows
// nothing.
func layerDirs(options string) []string {
	var list []string
	for option := range strings.SplitSeq(options, ",") {
		name, value, _ := strings.Cut(option, "=")
		value = unescape(value)
		switch name {
		case "lowerdir":
			for _, dir := range splitLayers(value) {
				list = append(list, dir, unquote(dir))
			}
		case "lowerdir+", "datadir+", "upperdir", "workdir":
			list = append(list, value, unquote(value))
		}
	}
	list = slices.DeleteFunc(list, func(dir string) bool { return !path.IsAbs(dir) })
	slices.Sort(list)
	return slices.Compact(list)
}

// splitLayers splits a list at the colons that have no backslash before them.
func splitLayers(text string) []string {
	var list []string
	start := 0
	for i := 0; i < len(text); i++ {
		switch text[i] {
		case '\\':
			i++
		case ':':
			list = append(list, text[start:i])
			start = i + 1
		}
	}
	return append(list, text[start:])
}

// unquote takes away the backslashes that stand before other characters.
func unquote(text string) string {
	var b strings.Builder
	for i := 0; i < len(text); i++ {
		if text[i] == '\\' && i+1 < len(text) {
			i++
		}
		b.WriteByte(text[i])
	}
	return b.String()
}

// within reports whether a clean absolute path is dir or lies in it.
func within(name, dir string) bool {
	return name == dir || strings.HasPrefix(name, strings.TrimSuffix(dir, "/")+"/")
}
