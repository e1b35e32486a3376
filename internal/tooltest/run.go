package tooltest

import (
	"context"
	"fmt"
	"regexp"
	"runtime"
	"slices"
	"sync"
	"time"

	"haft"
	"haft/internal/yamltree"
)

// Config says which cases are run, and how.
type Config struct {
	// Run and Tags choose cases: by a part of FILE/NAME, and by a tag. Nil and none mean all.
	Run  *regexp.Regexp
	Tags []string
	// Repeat runs each case so often, to find those that pass only sometimes.
	Repeat int
	// Parallel is how many run at once; 0 means two for each processor.
	Parallel int
	// Sandboxes are those that all cases run in, one after the other; none means the default.
	Sandboxes []string
	// Record asks real APIs for the answers of cases that have a file for them, and keeps them.
	Record bool
	// RealNetwork allows cases with network: real to reach it.
	RealNetwork bool
	// Advisories is a file, a directory or a zip archive of known vulnerabilities in the OSV format, which are looked
	// for in the locks of the tools; empty means none.
	Advisories string
	// Learn observes all calls, and reports the least settings that they need.
	Learn bool
	// Coverage counts the lines of tools that run. Profile finds out where they spend their time, and counts none.
	Coverage, Profile bool
	// Reduced allows runs where there are no namespaces.
	Reduced bool
	// Progress shows how packages are installed, and Done is called with each case that has ended, one at a time.
	Progress func(line string)
	Done     func(Outcome)
}

// State is what became of a case.
type State string

// The states.
const (
	Passed  State = "passed"
	Failed  State = "failed"
	Skipped State = "skipped"
	Flaky   State = "flaky" // it passed and failed
)

// An Outcome is what became of one case.
type Outcome struct {
	File    string       `json:"file"`
	At      yamltree.Pos `json:"at"`
	Name    string       `json:"name"`
	Tags    []string     `json:"tags,omitempty"`
	Sandbox string       `json:"sandbox,omitempty"`
	State   State        `json:"state"`
	// Why says why it was skipped.
	Why    string  `json:"why,omitempty"`
	Faults []Fault `json:"faults,omitempty"`
	// Runs is how often it ran, and Passes how often it passed.
	Runs   int `json:"runs,omitempty"`
	Passes int `json:"passes,omitempty"`
	// Took is on the clock, with everything around the calls.
	Took haft.Millis `json:"took_ms"`
	// Result is that of the last call.
	Result *haft.Result `json:"result,omitempty"`
	// Profile is where the last run spent its time, with Config.Profile: the places with the most.
	Profile []Spent `json:"profile,omitempty"`

	baseline     bool
	time, memory float64 // of the calls of the case, in nanoseconds and bytes
}

// A Report is what became of all cases.
type Report struct {
	Outcomes []Outcome     `json:"outcomes"`
	Gates    []Verdict     `json:"gates,omitempty"`
	Took     haft.Millis   `json:"took_ms"`
	Count    map[State]int `json:"count"`
	// Learned is what the tools of each file need, with Config.Learn.
	Learned []Learned `json:"learned,omitempty"`
	// Coverage is which lines ran, with Config.Coverage, or if a file demands some.
	Coverage []Covered `json:"coverage,omitempty"`
}

// Good reports whether nothing failed.
func (r *Report) Good() bool {
	return r.Count[Failed]+r.Count[Flaky] == 0 &&
		!slices.ContainsFunc(r.Gates, func(g Verdict) bool { return g.Closed })
}

// Run runs the cases of files. An error means that they could not be run; a case that fails is in the report.
func Run(ctx context.Context, files []*File, cfg Config) (*Report, error) {
	begin := time.Now()
	if cfg.Parallel <= 0 {
		cfg.Parallel = 2 * runtime.GOMAXPROCS(0)
	}
	r := &runner{cfg: &cfg, report: &Report{Count: map[State]int{}}}
	for _, f := range files {
		r.focus = r.focus || slices.ContainsFunc(f.Cases, func(c Case) bool { return c.Focus })
	}
	sandboxes := cfg.Sandboxes
	if len(sandboxes) == 0 {
		sandboxes = []string{""}
	}
	for _, s := range sandboxes {
		if err := r.runAll(ctx, files, s); err != nil {
			return nil, err
		}
	}
	for i := range r.report.Outcomes {
		r.report.Count[r.report.Outcomes[i].State]++
	}
	r.report.Took = haft.Millis(time.Since(begin))
	return r.report, nil
}

// A runner is one Run.
type runner struct {
	cfg    *Config
	focus  bool // only cases with focus are run
	mu     sync.Mutex
	report *Report
}

// A job is one case that is to be run.
type job struct {
	place *place
	c     *Case
	out   *Outcome
	base  *job // whose time and memory those of the case are compared with
}

// runAll runs the cases of all files in one sandbox.
func (r *runner) runAll(ctx context.Context, files []*File, sandbox string) (err error) {
	talks := slices.ContainsFunc(files, func(f *File) bool {
		return slices.ContainsFunc(f.Cases, func(c Case) bool { return c.talks() })
	})
	w, err := openWorld(ctx, r.cfg, sandbox, talks)
	if err != nil {
		return err
	}
	defer func() {
		if closed := w.close(); err == nil {
			err = closed
		}
	}()
	var jobs []*job
	for _, f := range files {
		list, err := r.plan(ctx, w, f, sandbox)
		if err != nil {
			return err
		}
		jobs = append(jobs, list...)
	}
	r.runJobs(ctx, jobs)
	if ctx.Err() != nil {
		return fmt.Errorf("run the cases: %w", context.Cause(ctx))
	}
	for _, j := range jobs {
		r.report.Outcomes = append(r.report.Outcomes, *j.out)
	}
	for _, f := range files {
		r.gates(w, f, sandbox)
	}
	return nil
}

// plan makes the jobs of a file, and the organisations that they need.
func (r *runner) plan(ctx context.Context, w *world, f *File, sandbox string) ([]*job, error) {
	var jobs []*job
	for i := range f.Cases {
		c := &f.Cases[i]
		if !r.chosen(f, c) {
			continue
		}
		j := r.newJob(f, c, sandbox)
		jobs = append(jobs, j)
		if j.out.State == Skipped {
			continue
		}
		policy, err := f.policyText(c)
		if err != nil {
			return nil, err
		}
		if j.place, err = w.place(ctx, f, policy); err != nil {
			return nil, err
		}
	}
	if f.Generated.Count != 0 && !r.focus {
		p, err := w.place(ctx, f, "")
		if err != nil {
			return nil, err
		}
		made, err := p.generate()
		if err != nil {
			return nil, err
		}
		for _, c := range made {
			if r.chosen(f, c) {
				j := r.newJob(f, c, sandbox)
				j.place = p
				jobs = append(jobs, j)
			}
		}
	}
	setBaseline(jobs)
	return jobs, nil
}

// newJob makes the job of a case.
func (r *runner) newJob(f *File, c *Case, sandbox string) *job {
	j := &job{c: c, out: &Outcome{File: f.Path, At: c.At, Name: c.Name, Tags: c.Tags, Sandbox: sandbox}}
	switch {
	case c.Skip != "":
		j.out.State, j.out.Why = Skipped, c.Skip
	case r.focus && !c.Focus:
		j.out.State, j.out.Why = Skipped, "another case has focus"
	}
	return j
}

// setBaseline finds the case that ratios refer to: the one that says so, or the first.
func setBaseline(jobs []*job) {
	var base *job
	for _, j := range jobs {
		if j.out.State != Skipped && (base == nil || j.c.Baseline && !base.c.Baseline) {
			base = j
		}
	}
	for _, j := range jobs {
		if j.out.State != Skipped && j.c.Expect.TimeRatio+j.c.Expect.MemoryRatio > 0 {
			j.base, base.out.baseline = base, true
		}
	}
	if base != nil && base.c.Baseline {
		base.out.baseline = true
	}
}

// chosen reports whether the flags choose a case.
func (r *runner) chosen(f *File, c *Case) bool {
	if r.cfg.Run != nil && !r.cfg.Run.MatchString(f.Path+"/"+c.Name) {
		return false
	}
	return len(r.cfg.Tags) == 0 || slices.ContainsFunc(c.Tags, func(t string) bool {
		return slices.Contains(r.cfg.Tags, t)
	})
}

// measuredRuns is how often a case is run whose time is compared: the fastest run counts.
const measuredRuns = 3

// runJobs runs jobs beside each other, and afterwards, one by one, those whose time counts.
func (r *runner) runJobs(ctx context.Context, jobs []*job) {
	queue := make(chan *job)
	var workers sync.WaitGroup
	for range r.cfg.Parallel {
		workers.Go(func() {
			for j := range queue {
				r.runJob(ctx, j, max(r.cfg.Repeat, 1))
			}
		})
	}
	var measured []*job
	for _, j := range jobs {
		if j.out.baseline {
			measured = slices.Insert(measured, 0, j)
			continue
		}
		if j.base != nil {
			measured = append(measured, j)
			continue
		}
		if ctx.Err() == nil {
			queue <- j
		}
	}
	close(queue)
	workers.Wait()
	for _, j := range measured {
		if ctx.Err() == nil {
			r.runJob(ctx, j, max(r.cfg.Repeat, measuredRuns))
		}
	}
}

// runJob runs a case so often, and notes what became of it.
func (r *runner) runJob(ctx context.Context, j *job, times int) {
	begin, o := time.Now(), j.out
	for o.State != Skipped && o.Runs < times && ctx.Err() == nil {
		run := j.place.runCase(ctx, j.c)
		o.Runs++
		if len(run.faults) == 0 {
			o.Passes++
		} else if len(o.Faults) == 0 {
			o.Faults = run.faults
		}
		o.Result, o.Profile = run.last, mostSpent(run.spent)
		o.time, o.memory = least(o.time, run.time), least(o.memory, run.memory)
	}
	o.Took = haft.Millis(time.Since(begin))
	if more := j.ratios(); len(more) > 0 && ctx.Err() == nil {
		o.Faults, o.Passes = append(o.Faults, more...), 0
	}
	switch {
	case o.State == Skipped || ctx.Err() != nil:
	case o.Passes == o.Runs:
		o.State = Passed
	case o.Passes == 0:
		o.State = Failed
	default:
		o.State = Flaky
		o.Faults = append([]Fault{{"flaky", fmt.Sprintf("passed %d of %d times", o.Passes, o.Runs)}}, o.Faults...)
	}
	r.done(*o)
}

// least is the smaller one of two figures, of which the first may not be known yet.
func least(a, b float64) float64 {
	if a == 0 {
		return b
	}
	return min(a, b)
}

// done says that a case has ended.
func (r *runner) done(o Outcome) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.cfg.Done != nil {
		r.cfg.Done(o)
	}
}
