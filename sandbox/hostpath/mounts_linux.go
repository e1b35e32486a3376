package hostpath

import (
	"fmt"
	"os"
	"path"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"haft/sandbox/internal/mountinfo"
)

// mountTable are the mounts that this process sees.
type mountTable []mountinfo.Mount

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

// maxLayers bounds how many overlays of overlays are looked through.
const maxLayers = 4

// parts returns which parts of file systems a path on a mount shows: its own, and
// those of the layers of an overlay.
func (t mountTable) parts(id uint64, real string) []part { return t.partsWithin(id, real, maxLayers) }

func (t mountTable) partsWithin(id uint64, real string, depth int) []part {
	i := slices.IndexFunc(t, func(m mountinfo.Mount) bool { return m.ID == id })
	if i < 0 {
		return nil // unmounted meanwhile
	}
	m := t[i]
	rel := strings.TrimPrefix(strings.TrimPrefix(real, strings.TrimSuffix(m.At, "/")), "/")
	own := part{m.Device, path.Join(m.Root, rel), slices.Contains(kernelKinds, m.Kind)}
	list := []part{own}
	if m.Kind != "overlay" || depth == 0 {
		return list
	}
	for _, dir := range layerDirs(m.Options) {
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
		value = mountinfo.Unescape(value)
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
