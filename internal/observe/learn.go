package observe

import (
	"encoding/json"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
	"time"

	"haft"
)

// Learn returns the least declaration that covers what was touched. Names in the directories of a run's own are not
// listed one by one: many are made up anew each time.
func Learn(all haft.Touched) Declared {
	files, programs, hosts := map[string]bool{}, map[string]bool{}, map[string]bool{}
	for _, a := range all.Accesses {
		switch {
		case a.Kind == haft.AccessRead || a.Kind == haft.AccessWrite:
			name := general(a.Name)
			files[name] = files[name] || a.Kind == haft.AccessWrite
		case a.Kind == haft.AccessProgram:
			programs[a.Name] = true
		case !a.Denied:
			hosts[a.Name] = true
		}
	}
	d := Declared{Programs: slices.Sorted(maps.Keys(programs)), Hosts: slices.Sorted(maps.Keys(hosts))}
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if files[name] {
			name += ":rw"
		}
		d.Files = append(d.Files, name)
	}
	return d
}

// ownDirs are the directories of which every run has its own.
var ownDirs = []string{"/work", "/tmp", "/var/tmp", "/dev/shm"}

// general returns the pattern that a file is declared by.
func general(name string) string {
	for _, dir := range ownDirs {
		if below(name, []string{dir}) {
			return dir + "/**"
		}
	}
	// A name may have characters that mean something in a pattern.
	name = strings.NewReplacer(`\`, `\\`, "*", `\*`, "?", `\?`, "[", `\[`).Replace(name)
	if rest, ok := strings.CutPrefix(name, "/proc/"); ok {
		if number := strings.TrimLeft(rest, "0123456789"); number != rest {
			return "/proc/*" + number // of a process, which has another one the next time
		}
	}
	return name
}

// The headroom of proposed limits: how many times what was used, and the least.
const (
	timeHeadroom, leastTime     = 4, 2 * time.Second
	memoryHeadroom, leastMemory = 2, 64 << 20
	memoryStep                  = 16 << 20
)

// Proposal returns the settings that d and the highest usage of the calls need, and the rest of d as a declaration, as
// YAML for a test file.
func (d Declared) Proposal(most haft.Usage) string {
	var b strings.Builder
	list := func(indent, name string, entries []string) {
		if len(entries) > 0 {
			text, _ := json.Marshal(entries) // strings always encode; JSON is YAML
			fmt.Fprintf(&b, "%s%s: %s\n", indent, name, text)
		}
	}
	b.WriteString("settings:\n")
	network, other := split(d.Hosts, func(h string) bool {
		return !strings.HasPrefix(h, "unix:") && !strings.HasPrefix(h, socketPrefix)
	})
	programs, files := split(d.Programs, func(p string) bool { return slices.Contains(programDirs, path.Dir(p)) })
	for i, p := range programs {
		programs[i] = path.Base(p)
	}
	slices.Sort(programs)
	list("  ", "network", network)
	list("  ", "programs", slices.Compact(programs))
	wall := max(most.Wall.D()*timeHeadroom, leastTime).Round(time.Second)
	memory := (max(most.MaxRSS*memoryHeadroom, leastMemory) + memoryStep - 1) / memoryStep * memoryStep
	fmt.Fprintf(&b, "  limits: {wall_ms: %d, memory_bytes: %d}\n", wall.Milliseconds(), memory)
	if len(d.Files)+len(files)+len(other) == 0 {
		b.WriteString("touches: {}\n")
		return b.String()
	}
	b.WriteString("touches:\n")
	list("  ", "files", d.Files)
	list("  ", "programs", files)
	list("  ", "hosts", other)
	return b.String()
}

// programDirs are the directories of which settings name programs.
var programDirs = []string{"/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin"}

// split returns the entries for which is is true, and the others.
func split(list []string, is func(string) bool) (yes, no []string) {
	for _, entry := range list {
		if is(entry) {
			yes = append(yes, entry)
		} else {
			no = append(no, entry)
		}
	}
	return yes, no
}
