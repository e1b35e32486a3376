package bench

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"haft"
	"haft/app"
)

// slice runs do from several callers for one slice and returns how often a
// second it was done.
func (b *bench) slice(ctx context.Context, callers int, do func() error) (float64, error) {
	var (
		done  atomic.Int64
		first error
		once  sync.Once
		wg    sync.WaitGroup
	)
	start := time.Now()
	for range callers {
		wg.Go(func() {
			for time.Since(start) < b.cfg.Slice && ctx.Err() == nil {
				if err := do(); err != nil {
					once.Do(func() { first = err })
					return
				}
				done.Add(1)
			}
		})
	}
	wg.Wait()
	return float64(done.Load()) / time.Since(start).Seconds(), first
}

// cellMemory measures what one more idle cell costs.
func (b *bench) cellMemory(ctx context.Context) error {
	b.cfg.Progress("the memory of idle cells")
	const few, many = 2, 34
	var pss [2]int64
	for i, n := range []int{few, many} {
		cfg := b.cfg.system()
		cfg.Cells.Least, cfg.Cells.Most, cfg.Cells.Total = n, n, n
		a, err := app.Open(ctx, cfg)
		if err != nil {
			return err
		}
		other := &bench{cfg: b.cfg, app: a, job: b.job}
		if _, err = other.call(ctx); err == nil {
			err = waitForCells(ctx, a, "bench", n)
		}
		if err == nil {
			pss[i], err = descendantsPSS()
		}
		a.Close()
		if err != nil {
			return fmt.Errorf("make %d cells: %w", n, err)
		}
	}
	each := float64(pss[1]-pss[0]) / (many - few) / (1 << 20)
	b.add(Row{
		What: "memory of one idle cell (PSS)", Ours: fmt.Sprintf("%.2f MB", each), Ratio: each, Must: 3, Aim: 2,
	})
	return nil
}

// waitForCells waits until n cells of an organisation are idle.
func waitForCells(ctx context.Context, a *app.App, org string, n int) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for a.IdleCells(org) < n {
		select {
		case <-ctx.Done():
			return fmt.Errorf("%d of %d cells are ready: %w", a.IdleCells(org), n, ctx.Err())
		case <-tick.C:
		}
	}
	return nil
}

// asleep runs many calls that sleep at once.
func (b *bench) asleep(ctx context.Context) error {
	n := b.cfg.Sleepers
	if n < 0 {
		return nil
	}
	b.cfg.Progress(fmt.Sprintf("%d calls asleep at once", n))
	tool, err := b.tool(ctx, "sleep", source)
	if err != nil {
		return err
	}
	seconds := 2 + n/100 // long enough for all of them to be asleep together
	var finished, failed atomic.Int64
	var why atomic.Value
	var wg sync.WaitGroup
	done := make(chan struct{})
	for range n {
		wg.Go(func() {
			res, err := b.app.Call(ctx, tool, app.Run{Org: "bench", Args: fmt.Appendf(nil, `{"seconds": %d}`, seconds),
				Limits: haft.Limits{Wall: haft.Millis(2 * time.Minute)}})
			if err != nil || res.Status != haft.StatusSuccess {
				failed.Add(1)
				why.Store(fmt.Sprint(res, err))
				return
			}
			finished.Add(1)
		})
	}
	go func() { wg.Wait(); close(done) }()
	peak, err := peakMemory(done, 2*time.Second)
	if err != nil {
		return err
	}
	row := Row{
		What: fmt.Sprintf("%d calls asleep at once: %d finished; memory in all (PSS)", n, finished.Load()),
		Ours: fmt.Sprintf("%.2f GB", float64(peak)/(1<<30)), Ratio: float64(peak) / (1 << 30), Must: 3, Aim: 2.5,
	}
	if failed.Load() > 0 {
		row.Unmeasured = fmt.Sprintf("%d calls did not finish: %v", failed.Load(), why.Load())
	}
	b.add(row)
	return nil
}

// peakMemory returns the most memory that we and our descendants had until done.
func peakMemory(done <-chan struct{}, every time.Duration) (int64, error) {
	tick := time.NewTicker(every)
	defer tick.Stop()
	var peak int64
	for {
		select {
		case <-done:
			return peak, nil
		case <-tick.C:
			now, err := descendantsPSS()
			if err != nil {
				return 0, err
			}
			peak = max(peak, now)
		}
	}
}
