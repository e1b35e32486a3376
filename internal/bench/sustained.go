package bench

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// A contest is a measurement of ways beside each other.
type contest struct{ *bench }

// A Load is what callers without pauses got from one way.
type Load struct {
	Way, Version  string
	Callers       int
	Rate          float64 // calls per second
	P50, P95, P99 time.Duration
	// Processor is what a call took of the processors of the whole machine, kernel workers included. Inside
	// is what it took of it in the process of the server alone, where there is one.
	Processor, Inside time.Duration
	// Memory is what the way took at the most with this many callers, above what there was before it was
	// opened (PSS), in bytes; 0 is not measured.
	Memory int64
	Calls  int
}

const (
	// turns is how often each way is loaded, in turn with the others.
	turns = 3
	// settle is for what a way does after its calls, such as replacing cells, so that it does not fall into
	// the turn of the next.
	settle = 500 * time.Millisecond
	// memoryCallers is how many callers there are while memory is measured.
	memoryCallers = 4
	// tooSlow is how many slices a turn may take because each caller makes at least one call.
	tooSlow = 5
)

// loading is one way with one number of callers, under way.
type loading struct {
	Load
	of     *opened
	sample Sample
	busy   time.Duration
	inside time.Duration
	took   time.Duration
	left   bool // out, because it would take too long
}

// opened is a contender that takes calls.
type opened struct {
	contender
	*ready
	failed error
	rate   float64 // of its last turn
}

// bareStart is an interpreter that is started by loops of a shell, the fastest start that there is.
type bareStart struct {
	python, version string
	rate            float64
}

// sustained loads Haft and what people use otherwise by callers without pauses, in turn, beside starts of the
// interpreter by loops of a shell.
func (b *contest) sustained(ctx context.Context) error {
	b.cfg.Progress("callers without pauses, ours and others in turn")
	var ways []*opened
	defer func() {
		for _, w := range ways {
			w.close()
		}
	}()
	for _, c := range append(b.ours(ctx), b.theirs(ctx)...) {
		w := &opened{contender: c}
		if err := b.try(ctx, w); err != nil {
			return err
		}
		if w.failed == nil {
			ways = append(ways, w)
		}
	}
	var loads []*loading
	for _, w := range ways {
		for _, n := range b.cfg.Callers {
			loads = append(loads, &loading{of: w, Load: Load{Way: w.name, Version: w.version, Callers: n}})
		}
	}
	starts := b.bareStarts(ctx)
	for range turns {
		for _, s := range starts {
			rate, err := b.shellLoops(ctx, s.python)
			if err != nil {
				return err
			}
			s.rate += rate / turns
		}
		for _, l := range loads {
			if err := b.turn(ctx, l); err != nil {
				return err
			}
		}
	}
	for _, l := range loads {
		if l.of.failed == nil && len(l.sample.Times) > 0 {
			b.report.Loads = append(b.report.Loads, l.finish())
		}
	}
	b.loadRows(starts)
	return nil
}

// try opens a way and makes one call. One that is not ours is left out if that fails.
func (b *contest) try(ctx context.Context, w *opened) error {
	r, err := w.open(ctx)
	if err == nil {
		if err = r.do(ctx, 0); err != nil {
			r.close()
		}
	}
	w.ready = r
	return b.fail(ctx, w, err)
}

// fail leaves a way out that does not work here, unless it is ours.
func (b *contest) fail(ctx context.Context, w *opened, err error) error {
	if err == nil {
		return nil
	}
	if !w.optional || ctx.Err() != nil {
		return &WayError{w.name, err}
	}
	if w.failed == nil {
		w.failed = err
		b.note("left out: %s %s does not work here: %.300s", w.name, w.version, err)
	}
	return nil
}

// turn loads a way for one slice.
func (b *contest) turn(ctx context.Context, l *loading) error {
	if l.of.failed != nil || b.leaveOut(l) {
		return nil
	}
	inside := func() time.Duration {
		if l.of.server == nil {
			return 0
		}
		return l.of.server.processor()
	}
	var mu sync.Mutex
	before, self, began := machineBusy(), inside(), time.Now()
	err := b.callers(ctx, l.Callers, func(caller int) error {
		start := time.Now()
		if err := l.of.do(ctx, caller); err != nil {
			return err
		}
		took := time.Since(start)
		mu.Lock()
		defer mu.Unlock()
		l.sample.Times = append(l.sample.Times, took)
		return nil
	})
	l.took += time.Since(began)
	if err == nil {
		err = pauseFor(ctx, min(settle, b.cfg.Slice))
	}
	l.busy += machineBusy() - before
	l.inside += inside() - self
	if l.of.rate = 0; len(l.sample.Times) > 0 {
		l.of.rate = float64(len(l.sample.Times)) / l.took.Seconds()
	}
	return b.fail(ctx, l.of, err)
}

// leaveOut leaves out a load, and says so, if a turn of it would take minutes: by the rate of the last turn of its way,
// which had fewer callers. Ways of Haft are never left out.
func (b *contest) leaveOut(l *loading) bool {
	if !l.of.optional || l.of.rate == 0 || l.Callers <= memoryCallers {
		return false
	}
	if len(l.sample.Times) == 0 && !l.left && float64(l.Callers)/l.of.rate > (tooSlow*b.cfg.Slice).Seconds() {
		l.left = true
		b.note("left out: %d callers of %s, which makes %.1f calls a second", l.Callers, l.of.name, l.of.rate)
	}
	return l.left
}

// finish computes what was measured.
func (l *loading) finish() Load {
	n := len(l.sample.Times)
	l.Calls, l.Rate = n, float64(n)/l.took.Seconds()
	l.P50, l.P95, l.P99 = l.sample.Quantile(.5), l.sample.Quantile(.95), l.sample.Quantile(.99)
	l.Processor, l.Inside = l.busy/time.Duration(max(n, 1)), l.inside/time.Duration(max(n, 1))
	return l.Load
}

// callers runs do from several callers without pauses for one slice.
func (b *contest) callers(ctx context.Context, n int, do func(caller int) error) error {
	var (
		first error
		once  sync.Once
		wg    sync.WaitGroup
	)
	start := time.Now()
	for caller := range n {
		wg.Go(func() {
			for again := true; again && ctx.Err() == nil; again = time.Since(start) < b.cfg.Slice {
				if err := do(caller); err != nil {
					once.Do(func() { first = err })
					return
				}
			}
		})
	}
	wg.Wait()
	return errors.Join(first, ctx.Err())
}

// pauseFor waits.
func pauseFor(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-t.C:
		return nil
	}
}

// bareStarts are the interpreters whose start is the baseline: the one that tools get, and that of the system
// if it is another. Both are the real binaries: the first was asked where it is, and no shim of a version
// manager is in /usr/bin.
func (b *contest) bareStarts(ctx context.Context) []*bareStart {
	starts := []*bareStart{{python: b.python}}
	if system, err := filepath.EvalSymlinks("/usr/bin/python3"); err == nil && system != b.python {
		starts = append(starts, &bareStart{python: system})
	}
	for _, s := range starts {
		s.version = versionOf(ctx, s.python, "--version") + place(s.python)
	}
	return starts
}

// place says where an interpreter is from.
func place(python string) string {
	switch {
	case strings.Contains(python, "pyenv"):
		return " of pyenv"
	case strings.HasPrefix(python, "/usr/bin/"):
		return " of the system"
	}
	return ""
}

// shellLoops starts an interpreter from one loop of a shell for each processor, and returns how often a second.
func (b *contest) shellLoops(ctx context.Context, python string) (float64, error) {
	const loop = `n=0; trap 'echo $n; exit 0' TERM; echo 0
while "$1" -I -S -c pass; do n=$((n+1)); done; exit 1`
	var cmds []*exec.Cmd
	var outs []*strings.Builder
	start := time.Now()
	for range loops() {
		cmd, out := exec.CommandContext(ctx, "/bin/sh", "-c", loop, "sh", python), &strings.Builder{}
		cmd.Stdout = out
		if err := cmd.Start(); err != nil {
			return 0, fmt.Errorf("start a shell: %w", err)
		}
		cmds, outs = append(cmds, cmd), append(outs, out)
	}
	// At least so long that each has started one.
	err := pauseFor(ctx, max(b.cfg.Slice, 500*time.Millisecond))
	total := 0
	for i, cmd := range cmds {
		_ = cmd.Process.Signal(syscall.SIGTERM) // a loop that has failed is gone, and Wait says so
		if werr := cmd.Wait(); werr != nil && err == nil {
			err = fmt.Errorf("start %s in a loop: %w", python, werr)
		}
		lines := strings.Fields(outs[i].String())
		if len(lines) > 0 {
			n, nerr := strconv.Atoi(lines[len(lines)-1])
			err = errors.Join(err, nerr)
			total += n
		}
	}
	return float64(total) / time.Since(start).Seconds(), err
}

// loops is how many loops start interpreters: one for each processor.
func loops() int { return runtime.NumCPU() }

// memory measures what ways need, each alone: what there is while some callers use it, above what there was before.
func (b *contest) memory(ctx context.Context) error {
	b.cfg.Progress("the memory of ours and others")
	for _, c := range append(b.ours(ctx), b.theirs(ctx)...) {
		at := -1
		for i, l := range b.report.Loads {
			if l.Way == c.name && l.Callers == memoryCallers {
				at = i
			}
		}
		if at < 0 {
			continue // it was left out
		}
		peak, err := b.memoryOf(ctx, c)
		if err := b.fail(ctx, &opened{contender: c}, err); err != nil {
			return err
		}
		b.report.Loads[at].Memory = peak
	}
	return nil
}

// memoryOf opens a way, loads it, and returns the most memory that it had.
func (b *contest) memoryOf(ctx context.Context, c contender) (int64, error) {
	b.app.Drop("") // cells of rows before would end while it is measured
	if err := pauseFor(ctx, min(settle, b.cfg.Slice)); err != nil {
		return 0, err
	}
	before, err := descendantsPSS()
	if err != nil {
		return 0, err
	}
	r, err := c.open(ctx)
	if err != nil {
		return 0, err
	}
	defer r.close()
	done, loaded := make(chan struct{}), make(chan error, 1)
	go func() {
		defer close(done)
		loaded <- b.callers(ctx, memoryCallers, func(caller int) error { return r.do(ctx, caller) })
	}()
	peak, err := peakMemory(done, 100*time.Millisecond)
	<-done
	return max(peak-before, 0), errors.Join(err, <-loaded)
}

// othersBusy measures how many processors other programs use, while this one waits.
func othersBusy(ctx context.Context, d time.Duration) (float64, error) {
	before, start := machineBusy(), time.Now()
	if err := pauseFor(ctx, d); err != nil {
		return 0, err
	}
	return (machineBusy() - before).Seconds() / time.Since(start).Seconds(), nil
}

// workDir makes the directory of this run.
func (b *bench) workDir() (func(), error) {
	dir, err := os.MkdirTemp("", "haft-bench-")
	if err != nil {
		return nil, fmt.Errorf("make a directory: %w", err)
	}
	b.dir = dir
	return func() { os.RemoveAll(dir) }, (&contest{b}).writeDrivers()
}
