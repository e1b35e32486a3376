package soak

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"
)

// A row is a phase as the table has it.
type row struct {
	name  string
	calls int
	seen  map[string]int // what was no success
	why   map[string]int // the same in the words of the server
	took  []time.Duration
	back  time.Duration
}

// add counts a call.
func (r *row) add(s sight) {
	r.calls++
	if s.what == success {
		r.took = append(r.took, s.answered.Sub(s.asked))
	} else {
		r.seen[s.what]++
		r.why[s.what+" ("+s.reason+")"]++
	}
}

// columns are the headings of the table.
var columns = []string{"phase", "calls", "success", "else", "p50", "p99", "back after"}

// cells are the row as texts.
func (r *row) cells() []string {
	slices.Sort(r.took)
	part := func(share float64) string {
		if len(r.took) == 0 {
			return "–"
		}
		return brief(r.took[min(len(r.took)-1, int(share*float64(len(r.took))))])
	}
	other, back := counts(r.seen), "–"
	if other == "" {
		other = "–"
	}
	if r.back > 0 {
		back = brief(r.back)
	}
	return []string{r.name, strconv.Itoa(r.calls), strconv.Itoa(len(r.took)), other, part(0.5), part(0.99), back}
}

// brief prints a time with two digits or so.
func brief(d time.Duration) string {
	if d < 100*time.Millisecond {
		return d.Round(time.Millisecond).String()
	}
	return d.Round(10 * time.Millisecond).String()
}

// usersTable prints rows for a person.
func usersTable(rows []row) string {
	var b bytes.Buffer
	out := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	fmt.Fprintln(out, strings.ToUpper(strings.Join(columns, "\t")))
	for _, r := range rows {
		fmt.Fprintln(out, strings.Join(r.cells(), "\t"))
	}
	_ = out.Flush() // into memory
	return b.String()
}

// usersMarkdown prints rows for a document.
func usersMarkdown(rows []row) string {
	var b strings.Builder
	line := func(cells []string) { fmt.Fprintf(&b, "| %s |\n", strings.Join(cells, " | ")) }
	line(columns)
	line([]string{"---", "--:", "--:", "---", "--:", "--:", "--:"})
	for _, r := range rows {
		line(r.cells())
	}
	return b.String()
}

// A footprint is what a server has.
type footprint struct {
	stockOf
	memory, descriptors, threads int // memory in MiB
}

func (f footprint) String() string {
	return fmt.Sprintf("%d MiB, %d descriptors, %d threads, %d processes, %d cgroups, %d temporary files", f.memory,
		f.descriptors, f.threads, f.processes, f.groups, f.files)
}

// above lists what is more than it was before, but for what a server may keep: so many more idle cells, connections to
// a database, threads that wait, and memory that it has not given back yet.
func (f footprint) above(before footprint, cells int) (list []string) {
	grown := max(0, f.processes-before.processes) // a cell has a process, 3 cgroups and 12 descriptors of the server
	for _, one := range []struct {
		what      string
		now, most int
	}{
		{"MiB of memory", f.memory, before.memory + before.memory/2 + 64},
		{"descriptors", f.descriptors, before.descriptors + 32 + 16*grown},
		{"threads", f.threads, before.threads + 32},
		{"processes", f.processes, before.processes + cells},
		{"cgroups", f.groups, before.groups + 16 + 4*grown},
		{"temporary files", f.files, before.files + 16},
	} {
		if one.now > one.most {
			list = append(list, fmt.Sprintf("%d %s (%d at most)", one.now, one.what, one.most))
		}
	}
	return list
}

// atRest returns what the server has while nobody calls.
func (c *usersWorld) atRest() footprint {
	c.client.CloseIdleConnections()
	httpClient.CloseIdleConnections()
	pid := c.nodes[0].cmd.Process.Pid
	f := footprint{stockOf: stock(pid, c.temp)}
	proc := filepath.Join("/proc", strconv.Itoa(pid))
	for _, dir := range []struct {
		name string
		n    *int
	}{{"fd", &f.descriptors}, {"task", &f.threads}} {
		entries, err := os.ReadDir(filepath.Join(proc, dir.name))
		c.must(err)
		*dir.n = len(entries)
	}
	status, err := os.ReadFile(filepath.Join(proc, "status"))
	c.must(err)
	_, after, _ := strings.Cut(string(status), "VmRSS:")
	if words := strings.Fields(after); len(words) > 0 {
		kib, err := strconv.Atoi(words[0])
		c.must(err)
		f.memory = kib >> 10
	}
	return f
}
