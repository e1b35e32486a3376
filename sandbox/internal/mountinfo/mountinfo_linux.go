package mountinfo

import (
	"fmt"
	"os"
	"strconv"
	"strings"
)

// A Mount is one line of /proc/self/mountinfo.
type Mount struct {
	ID      uint64
	Device  string // major:minor
	Root    string // which directory of the file system it shows
	At      string // where
	Kind    string // of the file system, such as ext4
	Options string // of the file system, escaped
}

// Read returns all mounts.
func Read() ([]Mount, error) {
	text, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return nil, fmt.Errorf("read the mounts: %w", err)
	}
	var list []Mount
	for line := range strings.Lines(string(text)) {
		m, err := parse(line)
		if err != nil {
			return nil, err
		}
		list = append(list, m)
	}
	return list, nil
}

// parse reads a line, see proc_pid_mountinfo(5):
//
//	36 35 98:0 /mnt1 /mnt2 rw,noatime master:1 - ext3 /dev/root rw,errors=continue
func parse(line string) (Mount, error) {
	before, after, ok := strings.Cut(line, " - ")
	f, g := strings.Fields(before), strings.Fields(after)
	if !ok || len(f) < 6 || len(g) < 3 {
		return Mount{}, fmt.Errorf("a line of mountinfo has %d and %d fields", len(f), len(g))
	}
	id, err := strconv.ParseUint(f[0], 10, 64)
	if err != nil {
		return Mount{}, fmt.Errorf("read the number of a mount: %w", err)
	}
	return Mount{ID: id, Device: f[2], Root: Unescape(f[3]), At: Unescape(f[4]), Kind: g[0], Options: g[2]}, nil
}

// Unescape reads the octal numbers by which the kernel writes blanks: \040.
func Unescape(s string) string {
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
