package soak

import (
	"bytes"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"text/tabwriter"
	"time"

	"haft/internal/binarytest"
	"haft/internal/skiptest"
)

const stop = syscall.SIGTERM

// settings are what the environment says.
type settings struct {
	long    bool
	binary  string
	serve   []string
	settle  time.Duration
	think   time.Duration // 0: that of the form
	history string
}

func readSettings(t *testing.T) settings {
	t.Helper()
	s := settings{
		long: os.Getenv("HAFT_SOAK") == "long", serve: strings.Fields(os.Getenv("HAFT_SOAK_SERVE")),
		settle: time.Minute, history: os.Getenv("HAFT_SOAK_HISTORY"),
	}
	var err error
	if text := os.Getenv("HAFT_SOAK_SETTLE"); text != "" {
		if s.settle, err = time.ParseDuration(text); err != nil {
			t.Fatal("HAFT_SOAK_SETTLE is a duration, such as 60s")
		}
	}
	if text := os.Getenv("HAFT_SOAK_THINK"); text != "" {
		if s.think, err = time.ParseDuration(text); err != nil {
			t.Fatal("HAFT_SOAK_THINK is a duration, such as 8s")
		}
	}
	if s.binary = os.Getenv("HAFT_SOAK_BINARY"); s.binary == "" {
		s.binary = binarytest.Build(t)
	} else if s.binary, err = filepath.Abs(s.binary); err != nil {
		t.Fatal(err)
	}
	return s
}

// A scenario is one thing that goes wrong.
type scenario struct {
	name string
	// short and long are how many calls or chains it has; a short of 0 leaves it to the
	// long form.
	short, long int
	postgres    bool
	servers     int // 0 means one
	tenants     int // 0 means one
	serve       []string
	mount       func(t *testing.T, dir string)
	run         func(w *world, n int)
}

var scenarios = []scenario{
	{name: "no fault", short: 150, long: 2000, run: noFault},
	{name: "no fault on Postgres", short: 60, long: 1000, postgres: true, run: noFault},
	{name: "no fault, two servers", short: 60, long: 1000, postgres: true, servers: 2, run: noFault},
	{name: "kill", short: 400, long: 2000, run: kill},
	{name: "kill often", long: 1000, run: killOften},
	{name: "kill, ten tenants", short: 600, long: 10_000, tenants: 10, run: kill},
	{name: "kill, chains on Postgres", short: 64, long: 1000, postgres: true, run: killChains, serve: takeover},
	{name: "kill, chains", short: 64, long: 1200, run: killChains},
	{name: "kill one of two", short: 100, long: 600, postgres: true, servers: 2, run: killOne, serve: takeover},
	{name: "pause one of two", short: 200, long: 600, postgres: true, servers: 2, run: pause, serve: takeover},
	{name: "full disk", short: 40, long: 300, mount: smallDisk(64), run: fullDisk},
	{name: "Postgres stopped", short: 200, long: 600, postgres: true, servers: 2, run: outage(8 * time.Second)},
	{name: "Postgres stopped for long", long: 600, postgres: true, servers: 2, run: outage(45 * time.Second)},
	{name: "Postgres stopped, then restart", short: 100, long: 600, postgres: true, servers: 2, run: outageRestart},
	{name: "restart", short: 300, long: 2000, run: restart},
	{name: "drain too short", short: 200, long: 1000, serve: []string{"--drain", "1s"}, run: drain},
	{name: "overload", short: 1400, long: 20_000, run: overload},
}

// takeover has a server given up soon, so that the short form need not wait.
var takeover = []string{"--takeover", "4s"}

// TestSoak runs every scenario: all at once in the short form, which waits more than
// it computes, and one after the other in the long form.
func TestSoak(t *testing.T) {
	set := readSettings(t)
	if !set.long {
		t.Parallel() // with TestUsers
	}
	var mu sync.Mutex
	var rows []string
	t.Run("all", func(t *testing.T) {
		for _, sc := range scenarios {
			t.Run(sc.name, func(t *testing.T) {
				n := sc.long
				if !set.long {
					if n = sc.short; n == 0 {
						t.Skip("only in the long form, which takes longer than CI has: make soak")
					}
					t.Parallel()
				}
				began := time.Now()
				w := newWorld(t, sc, set)
				sc.run(w, n)
				bad := w.finish()
				mu.Lock()
				defer mu.Unlock()
				rows = append(rows, w.row(time.Since(began), bad))
				report(t, bad)
			})
		}
	})
	t.Logf("what was seen:\n%s", table(rows))
}

// report fails the test with a few violations of each rule.
func report(t *testing.T, bad []Violation) {
	t.Helper()
	shown := map[Rule]int{}
	for _, v := range bad {
		if shown[v.Rule]++; shown[v.Rule] <= 3 {
			t.Error(v)
		}
	}
	for rule, n := range shown {
		if n > 3 {
			t.Errorf("%s: %d in all", rule, n)
		}
	}
}

// row sums up one scenario.
func (w *world) row(took time.Duration, bad []Violation) string {
	var accepted, refused, lost int
	for _, r := range w.history.Requests {
		switch {
		case r.Code == 0:
			lost++
		case r.Code == 200 || r.Code == 202:
			accepted++
		default:
			refused++
		}
	}
	ends := map[string]int{}
	for _, s := range w.latest {
		if s.ID != "" && s.Server == w.nodes[0].name {
			ends[s.Status]++
		}
	}
	var broken time.Duration
	for _, f := range w.history.Faults {
		broken += f.To.Sub(f.From)
	}
	return fmt.Sprintf("%s\t%d\t%d\t%d\t%d\t%s\t%s\t%s\t%s", w.sc.name, accepted, refused, lost, len(w.history.Effects),
		broken.Round(100*time.Millisecond), took.Round(100*time.Millisecond), counts(ends), counts(Count(bad)))
}

// counts prints a count of each, in order.
func counts[K ~string](n map[K]int) string {
	var b bytes.Buffer
	for _, k := range slices.Sorted(maps.Keys(n)) {
		fmt.Fprintf(&b, "%s %d, ", k, n[k])
	}
	return string(bytes.TrimSuffix(b.Bytes(), []byte(", ")))
}

func table(rows []string) string {
	var b bytes.Buffer
	out := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	fmt.Fprintln(out, "SCENARIO\tACCEPTED\tREFUSED\tNO ANSWER\tEFFECTS\tBROKEN\tTOOK\tENDS\tVIOLATIONS")
	for _, r := range rows {
		fmt.Fprintln(out, r)
	}
	_ = out.Flush() // into memory
	return b.String()
}

// smallDisk puts a file system of so many MiB at a directory.
func smallDisk(size int) func(t *testing.T, dir string) {
	return func(t *testing.T, dir string) {
		if os.Geteuid() != 0 {
			skiptest.Lacking(t, "root", "only root can mount a small file system")
		}
		if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, fmt.Sprintf("size=%dm,mode=0700", size)); err != nil {
			skiptest.Lacking(t, "mount", "a small file system cannot be mounted: "+err.Error())
		}
		t.Cleanup(func() {
			if err := syscall.Unmount(dir, syscall.MNT_DETACH); err != nil {
				t.Errorf("unmount: %v", err)
			}
		})
	}
}

// fill takes all space of a directory and returns how to give it back.
func fill(t *testing.T, dir string) (free func()) {
	name := filepath.Join(dir, "ballast")
	f, err := os.OpenFile(name, os.O_CREATE|os.O_WRONLY|os.O_EXCL, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	block := make([]byte, 64<<10)
	for size := len(block); size >= 1; {
		if _, err := f.Write(block[:size]); err != nil {
			size /= 2
		}
	}
	_ = f.Close() // it is full
	return func() {
		if err := os.Remove(name); err != nil {
			t.Fatal(err)
		}
	}
}
