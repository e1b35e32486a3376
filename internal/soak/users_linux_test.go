package soak

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// usersForm is a size of TestUsers.
type usersForm struct {
	users, orgs int
	think       time.Duration // the mean time between two calls of a user
	healthy     time.Duration // how long nothing is broken
	broken      time.Duration // how long something is
	rest        time.Duration // how long users go on when it is mended
	back        time.Duration // when the first success has to come
	disk        int           // MiB
	idle        time.Duration // how long nobody calls before what the server has is counted
	cells       int           // how many more idle cells a server may have then
}

var (
	shortForm = usersForm{users: 60, orgs: 4, think: 1500 * time.Millisecond, healthy: 3 * time.Second,
		broken: 3 * time.Second, rest: 2 * time.Second, back: 15 * time.Second, disk: 64, cells: 64}
	longForm = usersForm{users: 1000, orgs: 20, think: 8 * time.Second, healthy: time.Minute,
		broken: 20 * time.Second, rest: 25 * time.Second, back: 30 * time.Second, disk: 1024,
		idle: 70 * time.Second, cells: 16} // a cell that nobody wants is kept for a minute
)

// tolerance is the share of calls that may be refused with 429 or 503 while nothing is broken: a server that is
// overloaded says so.
const tolerance = 0.01

// pauseTime is how long a server is stopped. To a process that is what a clock that jumps forward looks like: all
// timers are late at once, and certificates, leases and deadlines have aged. A test must not set the clock of the
// machine.
const pauseTime = 5 * time.Second

// A phase is a time in which users call.
type phase struct {
	name string
	// fault breaks something, and returns what mends it. nil: nothing is broken.
	fault   func(c *usersWorld) (mend func())
	lasts   time.Duration      // how long it is broken; 0 means form.broken
	allowed func(s sight) bool // what users may see then besides success
	about   func(s sight) bool // the calls that the fault is about; nil: all

	from, mended, to time.Time
}

// refused reports whether the answer says that nothing ran, and when to come back.
func refused(s sight) bool { return s.what == "429" || s.what == "503" }

func byName(s sight) bool { return s.byName }

// unreached is what a user sees of a tool that does not reach its host.
func unreached(s sight) bool { return s.byName && s.what == "error: exception" }

// embeddedPhases are those of a server with embedded storage. It is killed first, so that what it has at the end is
// compared with what the same process had long before.
func embeddedPhases() []*phase {
	return []*phase{
		{name: "killed, started again", fault: killServer,
			allowed: func(s sight) bool { return refused(s) || s.what == noAnswer }},
		{name: "no fault"},
		{name: "tools out of memory", fault: runHogs,
			allowed: func(s sight) bool { return isHog(s) && (s.what == hogged || s.what == rested) },
			about:   func(s sight) bool { return !isHog(s) }},
		{name: "disk full", fault: fillDisk, allowed: refused},
		{name: "stopped for 5 s", fault: pauseServer, lasts: pauseTime, allowed: func(s sight) bool {
			return refused(s) || unreached(s) || s.what == "timeout"
		}},
		{name: "DNS gone", fault: silenceNames, allowed: unreached, about: byName},
		{name: "no fault again"},
	}
}

// postgresPhases are those of a server on Postgres.
func postgresPhases() []*phase {
	return []*phase{
		{name: "no fault, Postgres"},
		{name: "Postgres answers 200 ms later", fault: slowDatabase, allowed: refused},
		{name: "Postgres cut off", fault: cutDatabase, allowed: refused},
		{name: "no fault again, Postgres"},
	}
}

// TestUsers has many users call tools of all kinds while things break, checks every answer, writes down what the users
// see, and looks for what is left of it in the end. HAFT_SOAK_REPORT names a file for the table.
func TestUsers(t *testing.T) {
	set, form := readSettings(t), longForm
	if !set.long {
		t.Parallel()
		form = shortForm
	}
	form.think = cmp.Or(set.think, form.think)
	var mu sync.Mutex
	rows := map[bool][]row{}
	t.Run("all", func(t *testing.T) {
		for _, postgres := range []bool{false, true} {
			name, phases := "embedded", embeddedPhases()
			if postgres {
				name, phases = "Postgres", postgresPhases()
			}
			t.Run(name, func(t *testing.T) {
				if !set.long {
					t.Parallel()
				}
				c := newUsersWorld(t, set, form, postgres)
				if c.names == nil {
					phases = slices.DeleteFunc(phases, func(p *phase) bool { return p.name == "DNS gone" })
				}
				c.live(phases)
				c.checkEffects()
				list := c.judge(phases)
				c.keep()
				mu.Lock()
				defer mu.Unlock()
				rows[postgres] = list
			})
		}
	})
	text := usersTable(slices.Concat(rows[false], rows[true]))
	t.Logf("what %d users of %d organisations saw, each with a call about every %s:\n%s", form.users, form.orgs,
		form.think, text)
	if name := os.Getenv("HAFT_SOAK_REPORT"); name != "" {
		if err := os.WriteFile(name, []byte(usersMarkdown(slices.Concat(rows[false], rows[true]))), 0o644); err != nil {
			t.Error(err)
		}
	}
}

// live goes through all phases. What the server has is compared at two times at which nobody calls: after the first
// phases, up to the first without a fault, and at the end.
func (c *usersWorld) live(phases []*phase) {
	c.t.Helper()
	first := slices.IndexFunc(phases, func(p *phase) bool { return p.fault == nil }) + 1
	c.warm()
	c.work(func() { c.goThrough(phases[:first]) })
	c.wait(c.form.idle)
	before := c.atRest()
	c.work(func() { c.goThrough(phases[first:]) })
	c.wait(c.form.idle)
	var after footprint
	flat := until(c.ctx, 90*time.Second, func() bool {
		after = c.atRest()
		return len(after.above(before, c.form.cells)) == 0
	})
	c.t.Logf("at rest: %v after the first time without a fault, %v at the end", before, after)
	if !flat {
		c.t.Errorf("the server has more than before: %s", strings.Join(after.above(before, c.form.cells), ", "))
	}
	if c.killed != nil && anyOf(c.killed) {
		c.t.Error("processes of the server that was killed are still there")
	}
	for _, g := range c.killedGroups {
		if _, err := os.Stat(g); err == nil {
			c.t.Errorf("the cgroup %s of the server that was killed is still there", filepath.Base(g))
		}
	}
}

// checkEffects holds what users saw of the MCP tool against how often it ran: once for a success, never for a refusal,
// and never twice.
func (c *usersWorld) checkEffects() {
	c.t.Helper()
	ran := map[string]int{}
	for _, e := range c.tool.seen() {
		if ran[e.Key]++; ran[e.Key] > 1 {
			c.t.Errorf("the MCP tool ran %d times for one call", ran[e.Key])
		}
	}
	for _, s := range c.seen {
		n, known := ran[strconv.Itoa(s.number)]
		if known && refused(s) || s.tool == mcpLabel && s.what == success && n != 1 {
			c.t.Errorf("the MCP tool ran %d times for a call whose user saw %s (%s)", n, s.what, s.reason)
		}
	}
}

// warm calls each tool of each organisation once, so that templates exist before time is measured.
func (c *usersWorld) warm() {
	c.crowd(len(c.tenants)*len(uses), func(i int, who tenant) { c.call(who.key, uses[i/len(c.tenants)]) })
	for _, s := range c.seen {
		if s.what != success || s.wrong {
			c.t.Fatalf("%s does not work before anything is broken: %s %s", s.tool, s.what, s.detail)
		}
	}
	c.seen = nil
}

// goThrough lets the time of some phases pass, and breaks and mends what they break.
func (c *usersWorld) goThrough(phases []*phase) {
	for _, p := range phases {
		p.from = time.Now()
		if p.fault == nil {
			c.wait(c.form.healthy)
		} else {
			mend := p.fault(c)
			c.wait(cmp.Or(p.lasts, c.form.broken))
			mend()
			p.mended = time.Now()
			if !until(c.ctx, c.form.back, func() bool { _, ok := c.back(p); return ok }) {
				c.t.Errorf("%s: no success within %s after it was mended", p.name, c.form.back)
			}
			c.wait(c.form.rest)
			// What the next fault does must not be taken for this one's.
			until(c.ctx, userPatience, func() bool { return !c.waits(p.mended) })
		}
		p.to = time.Now()
	}
}

// wait lets time pass.
func (c *usersWorld) wait(d time.Duration) { until(c.ctx, d, func() bool { return false }) }

// waits reports whether somebody still has no answer to a call of before a time.
func (c *usersWorld) waits(since time.Time) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, asked := range c.open {
		if asked.Before(since) {
			return true
		}
	}
	return false
}

// back returns how long after the fault was mended the first call succeeded that was made after it.
func (c *usersWorld) back(p *phase) (after time.Duration, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, s := range slices.Backward(c.seen) {
		if s.answered.Before(p.mended) {
			break // they are in the order of their answers
		}
		if s.what == success && s.asked.After(p.mended) && (p.about == nil || p.about(s)) {
			after, ok = s.answered.Sub(p.mended), true
		}
	}
	return after, ok
}

// hogged is what a user sees of a tool that passes its memory limit, and rested what users see of one that did so too
// often.
const (
	hogged = "limit: limit_memory"
	rested = "error: circuit_open"
)

func isHog(s sight) bool { return s.tool == hog.label }

// runHogs has tools pass their memory limit beside the others, until it is mended.
func runHogs(c *usersWorld) func() {
	stop := make(chan struct{})
	var group sync.WaitGroup
	for i := range c.form.orgs {
		group.Go(func() {
			dice := rand.New(rand.NewPCG(seed, uint64(i)))
			for c.think(dice, stop) {
				c.call(c.keys[i], hog)
			}
		})
	}
	return func() { close(stop); group.Wait() }
}

// fillDisk takes all space of the data directory.
func fillDisk(c *usersWorld) func() { return fill(c.t, c.data) }

// pauseServer stops the process of the server, and not those of its sandboxes, and lets it go on.
func pauseServer(c *usersWorld) func() {
	c.must(c.nodes[0].signal(syscall.SIGSTOP))
	return func() { c.must(c.nodes[0].signal(syscall.SIGCONT)) }
}

// killServer kills the server, and starts it again.
func killServer(c *usersWorld) func() {
	pid := c.nodes[0].cmd.Process.Pid
	c.killed, c.killedGroups = tree(pid), groupsOf(pid)
	c.must(c.nodes[0].signal(syscall.SIGKILL))
	return func() { c.must(c.nodes[0].start(context.WithoutCancel(c.ctx))) }
}

// silenceNames has the DNS server answer nothing.
func silenceNames(c *usersWorld) func() {
	c.names.silent.Store(true)
	return func() { c.names.silent.Store(false) }
}

// slowDatabase has each answer of Postgres come 200 ms later.
func slowDatabase(c *usersWorld) func() {
	c.proxy.delay.Store(int64(200 * time.Millisecond))
	return func() { c.proxy.delay.Store(0) }
}

// cutDatabase cuts all connections to Postgres, and refuses new ones.
func cutDatabase(c *usersWorld) func() {
	c.proxy.cut()
	return c.proxy.mend
}

// belongs returns the phase that a call counts for: the first with a fault that it overlaps with, or else the one in
// which it was made.
func belongs(phases []*phase, s sight) *phase {
	found := phases[0]
	for _, p := range phases {
		if p.fault != nil && !s.asked.After(p.mended) && !s.answered.Before(p.from) {
			return p
		}
		if s.asked.After(p.from) {
			found = p
		}
	}
	return found
}

// judge checks what users saw, and returns a row of each phase.
func (c *usersWorld) judge(phases []*phase) (rows []row) {
	c.t.Helper()
	of := map[*phase][]sight{}
	for _, s := range c.seen {
		p := belongs(phases, s)
		of[p] = append(of[p], s)
	}
	for _, p := range phases {
		r := row{name: p.name, seen: map[string]int{}, why: map[string]int{}}
		for _, s := range of[p] {
			r.add(s)
		}
		p.check(c, of[p], float64(r.seen["429"]+r.seen["503"]) <= tolerance*float64(len(of[p])))
		if p.fault != nil {
			r.back, _ = c.back(p)
		}
		c.t.Logf("%s: %s", p.name, counts(r.why))
		rows = append(rows, r)
	}
	return rows
}

// check fails the test for each kind of answer that users may not see.
func (p *phase) check(c *usersWorld, seen []sight, tolerated bool) {
	c.t.Helper()
	bad, example := map[string]int{}, map[string]string{}
	for _, s := range seen {
		what := s.what
		switch {
		case s.wrong:
			what = "a wrong value"
		case what == success, p.fault == nil && tolerated && refused(s), p.fault != nil && p.allowed(s):
			continue
		}
		key := fmt.Sprintf("%s: %s", s.tool, what)
		bad[key]++
		example[key] = s.detail
	}
	for key, n := range bad {
		c.t.Errorf("%s: %d of %d calls saw what they must not see: %s, such as\n%s", p.name, n, len(seen), key,
			example[key])
	}
	if len(seen) == 0 {
		c.t.Errorf("%s: nobody called", p.name)
	}
}
