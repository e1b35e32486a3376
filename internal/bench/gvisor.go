package bench

import (
	"context"
	"fmt"
	"os/exec"
	"time"

	"haft/app"
	"haft/sandbox/gvisor"
)

// guestRounds bounds how often calls in gVisor are timed: making a cell takes half a second.
const guestRounds = 40

// guestKernel times calls in prepared gVisor sandboxes, in turn with runsc do, and measures their memory.
func (b *bench) guestKernel(ctx context.Context) error {
	runsc, err := gvisor.Find()
	if err != nil {
		b.note("gVisor is not installed: haft doctor --fix")
		return nil
	}
	b.cfg.Progress("calls in gVisor")
	const few, many = 2, 6
	var pss [2]int64
	for i, n := range []int{few, many} {
		if pss[i], err = b.inGuests(ctx, n, func(other *bench) error {
			if n != few {
				return nil
			}
			return other.guestLatency(ctx, runsc, n)
		}); err != nil {
			return fmt.Errorf("measure gVisor: %w", err)
		}
	}
	each := float64(pss[1]-pss[0]) / (many - few) / (1 << 20)
	b.add(Row{What: "memory of one idle cell in gVisor (PSS)", Ours: fmt.Sprintf("%.1f MB", each), Ratio: each,
		Must: 96, Aim: 48})
	return nil
}

// inGuests calls measure with a system whose n cells are in gVisor, and returns the memory of its cells.
func (b *bench) inGuests(ctx context.Context, n int, measure func(*bench) error) (int64, error) {
	cfg := b.cfg.system()
	cfg.Sandbox, cfg.Cells.Least, cfg.Cells.Most, cfg.Cells.Total = "gvisor", n, n, n
	a, err := app.Open(ctx, cfg)
	if err != nil {
		return 0, err
	}
	defer a.Close()
	other := &bench{cfg: b.cfg, app: a, job: b.job, python: b.python, report: b.report}
	if _, err := other.call(ctx); err != nil {
		return 0, err
	}
	if err := measure(other); err != nil {
		return 0, err
	}
	if err := waitForCells(ctx, a, "bench", n); err != nil {
		return 0, err
	}
	return descendantsPSS()
}

// guestLatency times calls that find one of n cells ready.
func (b *bench) guestLatency(ctx context.Context, runsc string, n int) error {
	ours, theirs := Sample{Name: "haft: call in gVisor"}, Sample{Name: "gVisor (runsc do) + python3"}
	for range min(b.cfg.Rounds, guestRounds) {
		if err := waitForCells(ctx, b.app, "bench", n); err != nil { // else one is being made, which takes a processor
			return err
		}
		start := time.Now()
		if _, err := b.call(ctx); err != nil {
			return err
		}
		ours.Times = append(ours.Times, time.Since(start))
		if err := waitForCells(ctx, b.app, "bench", n); err != nil {
			return err
		}
		start = time.Now()
		if err := exec.CommandContext(ctx, runsc, "--network=none", "--ignore-cgroups", "do", b.python, "-I", "-S",
			"-c", "pass").Run(); err != nil {
			return fmt.Errorf("runsc do: %w", err)
		}
		theirs.Times = append(theirs.Times, time.Since(start))
	}
	mine, other := ours.Quantile(.5), theirs.Quantile(.5)
	b.add(Row{What: "Python call in gVisor, prepared, p50", Ours: label(ms(mine)),
		Theirs: label(ms(other)) + " runsc do python3", Ratio: float64(mine) / float64(other),
		Must: 1. / 20, Aim: 1. / 40})
	b.report.Samples = append(b.report.Samples, ours, theirs)
	return nil
}
