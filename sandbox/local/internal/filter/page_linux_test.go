package filter_test

import (
	"os"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/elastic/go-seccomp-bpf/arch"
	"golang.org/x/sys/unix"

	"haft/sandbox/local/internal/filter"
)

// pageModes are the filters of the modes, by their letters on the page.
var pageModes = map[string]filter.Config{
	"n": {},
	"m": {Uncounted: true},
	"r": {Reduced: true, Scoped: true, Uncounted: true},
	"s": {Reduced: true, Uncounted: true},
	"i": {Reduced: true, Scoped: true, Uncounted: true, Internet: true},
}

// A sample has arguments of a call that is judged by them: some that every mode allows, and some that none allows.
type sample struct{ allowed, refused []uint64 }

var samples = map[string]sample{
	"clone":             {[]uint64{unix.CLONE_VM | unix.CLONE_THREAD}, []uint64{unix.CLONE_NEWUSER}},
	"fcntl":             {[]uint64{3, unix.F_GETFD}, []uint64{3, unix.F_SETLEASE}},
	"ioctl":             {[]uint64{0, unix.TCGETS}, []uint64{0, unix.TIOCSTI}},
	"memfd_create":      {[]uint64{0, 0}, []uint64{0, unix.MFD_HUGETLB}},
	"mmap":              {[]uint64{0, 4096, 3, 0x22}, []uint64{0, 4096, 3, 0x40022}},
	"personality":       {[]uint64{0}, []uint64{0x0400000}},
	"prctl":             {[]uint64{unix.PR_SET_NAME}, []uint64{unix.PR_SET_SECCOMP}},
	"prlimit64":         {[]uint64{0}, []uint64{1}},
	"sched_setaffinity": {[]uint64{0}, []uint64{1}},
	"setpriority":       {[]uint64{unix.PRIO_PROCESS, 0}, []uint64{unix.PRIO_PROCESS, 1}},
	"setsockopt":        {[]uint64{3, unix.SOL_TCP, 1}, []uint64{3, unix.SOL_SOCKET, unix.SO_ATTACH_FILTER}},
	"shmget":            {[]uint64{0, 4096, 0o600}, []uint64{0, 4096, 0o4600}},
	"socket":            {nil, []uint64{unix.AF_PACKET}}, // no family is allowed in all modes
	"socketpair":        {[]uint64{unix.AF_UNIX, unix.SOCK_STREAM}, []uint64{unix.AF_INET, unix.SOCK_STREAM}},
}

// A syscallPage is what docs/syscalls.md says.
type syscallPage struct {
	letters                []string
	allowed, judged        map[string]string // the letters of the modes, by call
	shared, killed, absent []string
}

// readPage reads the page.
func readPage(t *testing.T) syscallPage {
	t.Helper()
	raw, err := os.ReadFile("../../../../docs/syscalls.md")
	if err != nil {
		t.Fatal(err)
	}
	p := syscallPage{allowed: map[string]string{}, judged: map[string]string{}}
	lists := map[string]*[]string{"Answers EOPNOTSUPP or ENOSYS without namespaces": &p.shared,
		"Ends the process": &p.killed, "Answers ENOSYS": &p.absent}
	heading := ""
	for line := range strings.Lines(string(raw)) {
		line = strings.TrimSpace(line)
		cells := strings.Split(strings.Trim(line, "| "), " | ")
		switch {
		case strings.HasPrefix(line, "## "):
			heading = strings.TrimPrefix(line, "## ")
		case lists[heading] != nil && line != "":
			*lists[heading] = strings.Split(line, ", ") // the last paragraph
		case len(cells) == 2 && len(cells[0]) == 1:
			p.letters = append(p.letters, cells[0])
		case len(cells) == 3 && heading == "Allowed" && cells[0] != "modes":
			to := p.allowed
			if strings.HasPrefix(cells[2], "*by argument:*") {
				to = p.judged
			}
			for _, call := range strings.Split(cells[1], ", ") {
				to[call] = cells[0]
			}
		}
	}
	return p
}

// The program that the kernel gets judges every number as the page says, in every mode. TestPage makes the page from
// the rules, before they are compiled.
func TestCompile_does_what_the_page_says(t *testing.T) {
	if runtime.GOARCH != "amd64" {
		t.Skip("the page is that of amd64")
	}
	info, err := arch.GetInfo("")
	if err != nil {
		t.Fatal(err)
	}
	p := readPage(t)
	if len(p.letters) != len(pageModes) || len(p.allowed) < 200 || len(p.judged) != len(samples) ||
		len(p.shared) == 0 || len(p.killed) == 0 || len(p.absent) == 0 {
		t.Fatalf("the page is not understood: modes %v, %d calls allowed and %d by argument", p.letters, len(p.allowed),
			len(p.judged))
	}
	for _, letter := range p.letters {
		c, ok := pageModes[letter]
		if !ok {
			t.Fatalf("the page has a mode %q", letter)
		}
		insts := compiled(t, c)
		for nr := range uint32(601) {
			name := info.SyscallNumbers[int(nr)]
			check := func(args []uint64, fits func(uint32) bool) {
				if got := judgeBy(t, insts, uint32(info.ID), nr, args...); !fits(got) {
					t.Errorf("mode %s: %d %s(%v) = %#x, and the page says otherwise", letter, nr, name, args, got)
				}
			}
			is := func(want uint32) func(uint32) bool { return func(got uint32) bool { return got == want } }
			refused := func(got uint32) bool { return got&unix.SECCOMP_RET_ACTION_FULL == unix.SECCOMP_RET_ERRNO }
			if s := samples[name]; strings.Contains(p.judged[name], letter) {
				if s.allowed != nil {
					check(s.allowed, is(allow))
				}
				check(s.refused, refused)
				continue
			}
			all := ^uint64(0)
			for _, args := range [][]uint64{{0, 0, 0, 0, 0, 0}, {1, 1, 1, 1, 1, 1}, {all, all, all, all, all, all}} {
				switch {
				case strings.Contains(p.allowed[name], letter):
					check(args, is(allow))
				case slices.Contains(p.killed, name):
					check(args, is(kill))
				case slices.Contains(p.absent, name):
					check(args, is(absent))
				case c.Reduced && slices.Contains(p.shared, name), p.judged[name] != "":
					check(args, refused)
				default:
					check(args, is(denied))
				}
			}
		}
	}
}
