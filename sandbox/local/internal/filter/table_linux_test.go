package filter

import (
	"bytes"
	"flag"
	"fmt"
	"maps"
	"os"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/elastic/go-seccomp-bpf/arch"
)

var update = flag.Bool("update", false, "rewrite docs/syscalls.md")

// page is the table for reviewers.
const page = "../../../../docs/syscalls.md"

// modes are the filters that a program can run under.
var modes = []struct {
	name, title string
	config      Config
}{
	{"n", "namespaces, memory counted by a cgroup", Config{}},
	{"m", "namespaces, memory counted by a meter", Config{Uncounted: true}},
	{"r", "reduced, Landlock keeps signals inside (ABI 6)", Config{Reduced: true, Scoped: true, Uncounted: true}},
	{"s", "reduced, on an older kernel", Config{Reduced: true, Uncounted: true}},
	{"i", "reduced, with the host's network", Config{Reduced: true, Scoped: true, Uncounted: true, Internet: true}},
}

// reasons returns why each call is allowed, whatever its arguments or by them.
func reasons(t *testing.T, c Config) map[string]string {
	t.Helper()
	why := map[string]string{}
	add := func(name, reason string) {
		if reason == "" || why[name] != "" {
			t.Errorf("%s has no reason, or two", name)
		}
		why[name] = reason
	}
	for _, g := range granted(c) {
		for _, name := range g.names {
			add(name, g.why)
		}
	}
	for name, j := range judged(c) {
		add(name, "*by argument:* "+j.why)
	}
	return why
}

// Every system call that this architecture has is judged in every mode as the page
// says, and no call is allowed without a reason.
func TestPage(t *testing.T) {
	if runtime.GOARCH != "amd64" {
		t.Skip("the page is that of amd64")
	}
	info, err := arch.GetInfo("")
	if err != nil {
		t.Fatal(err)
	}
	in := map[string]string{}  // letters of the modes, by call
	why := map[string]string{} // reason, by call
	for _, m := range modes {
		reason, rs := reasons(t, m.config), rules(m.config, nil, info)
		for name, nr := range info.SyscallNames {
			r, ok := rs[uint32(nr)]
			if !ok || r.arg == nil && r.verdict != allow {
				continue
			}
			if reason[name] == "" {
				t.Errorf("mode %s allows %s, without a reason", m.title, name)
			}
			in[name], why[name] = in[name]+m.name, reason[name]
		}
	}
	var b bytes.Buffer
	b.WriteString(head)
	for _, m := range modes {
		fmt.Fprintf(&b, "| %s | %s |\n", m.name, m.title)
	}
	byWhy := map[string][]string{}
	for name, letters := range in {
		byWhy[letters+"\x00"+why[name]] = append(byWhy[letters+"\x00"+why[name]], name)
	}
	b.WriteString("\n## Allowed\n\n| modes | calls | why |\n|---|---|---|\n")
	for _, key := range slices.SortedFunc(maps.Keys(byWhy), func(x, y string) int {
		return 10*(len(strings.Split(y, "\x00")[0])-len(strings.Split(x, "\x00")[0])) + strings.Compare(x, y)
	}) {
		letters, reason, _ := strings.Cut(key, "\x00")
		slices.Sort(byWhy[key])
		fmt.Fprintf(&b, "| %s | %s | %s |\n", letters, strings.Join(byWhy[key], ", "), reason)
	}
	known := func(names []string) string {
		return strings.Join(slices.DeleteFunc(slices.Sorted(slices.Values(names)), func(n string) bool {
			_, ok := info.SyscallNames[n]
			return !ok
		}), ", ")
	}
	fmt.Fprintf(&b, "\n## Answers EOPNOTSUPP or ENOSYS without namespaces\n\n%s\n",
		known(slices.Collect(maps.Keys(shared))))
	fmt.Fprintf(&b, "\n## Ends the process\n\n%s\n", known(killed))
	fmt.Fprintf(&b, "\n## Answers ENOSYS\n\nPrograms that meet it go another way. Where a meter counts memory, "+
		"%s are refused too: no process need map what they make.\n\n%s\n", known(slices.Collect(maps.Keys(uncounted))),
		known(missing))
	var rest []string
	for name := range info.SyscallNames {
		if in[name] == "" && !slices.Contains(killed, name) && !slices.Contains(missing, name) {
			rest = append(rest, name)
		}
	}
	fmt.Fprintf(&b, "\n## Answers EPERM in every mode\n\nSo does every number that has no name here.\n\n%s\n",
		known(rest))
	if *update {
		if err := os.WriteFile(page, b.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if got, err := os.ReadFile(page); err != nil || !bytes.Equal(got, b.Bytes()) {
		t.Errorf("docs/syscalls.md is not what the filters do (%v): run go test ./sandbox/local/internal/filter "+
			"-update and read the difference", err)
	}
}

// head is the beginning of the page.
const head = `# System calls of the local sandbox

For reviewers: which system calls a confined program may make, in which mode, and why. A test makes this page from the filters.

| letter | mode |
|---|---|
`

// A name that no architecture has is a typing error, and allows or refuses nothing.
func TestLists_name_calls_that_exist(t *testing.T) {
	known := map[string]bool{}
	for _, name := range []string{"amd64", "arm64", "386", "arm"} {
		info, err := arch.GetInfo(name)
		if err != nil {
			t.Fatal(err)
		}
		for call := range info.SyscallNames {
			known[call] = true
		}
	}
	lists := slices.Concat(slices.Collect(maps.Keys(uncounted)), slices.Collect(maps.Keys(shared)), missing, killed,
		template.names)
	for _, groups := range [][]group{everywhere, namespaced, reduced, signals, internet} {
		for _, g := range groups {
			lists = append(lists, g.names...)
		}
	}
	for _, name := range lists {
		if !known[name] {
			t.Errorf("no architecture has a call %q", name)
		}
	}
}
