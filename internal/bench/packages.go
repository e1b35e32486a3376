package bench

import (
	"context"
	"fmt"
	"os/exec"
	"strings"
	"time"

	"haft"
	"haft/app"
	"haft/executor"
	"haft/internal/requirement"
)

// numpyRounds is how often calls with numpy are timed: each waits until a cell is
// ready, which takes as long as importing numpy.
const numpyRounds = 40

// packages times a call of a tool that imports numpy, beside the same call without
// it and a bare interpreter that imports it. Cells are warm: what is measured is
// the call and not the pace at which cells are made.
func (b *bench) packages(ctx context.Context) error {
	if !b.cfg.Numpy {
		return nil
	}
	b.cfg.Progress("a tool with numpy, beside the same without")
	const what = "call with numpy, cells warm, p50, against the same without"
	set, err := requirement.Parse("the benchmark", []string{"numpy"}, nil)
	if err != nil {
		return err
	}
	layers, release, err := b.app.Supply.Provide(ctx, set, []byte("import numpy\n"), false, b.cfg.Progress)
	if err != nil {
		b.add(Row{What: what, Must: 2, Aim: 1.5, Unmeasured: haft.MessageOf(err)})
		return ctx.Err()
	}
	defer release()
	plain, err := b.timed(ctx, "plain", source, nil)
	if err != nil {
		return err
	}
	with, err := b.timed(ctx, "numpy", "import numpy\n"+source, layers)
	if err != nil {
		return err
	}
	bare, err := Interleave(min(b.cfg.Rounds, numpyRounds), []Way{{"python3 -c 'import numpy', bare", func() error {
		return exec.CommandContext(ctx, b.python, "-I", "-S", "-B", "-c",
			fmt.Sprintf("import sys; sys.path.append(%+q); import numpy", layers[0].Dir)).Run()
	}}})
	if err != nil {
		return err
	}
	b.add(Row{
		What: what, Ours: label(ms(with.Quantile(.5))), Ratio: float64(with.Quantile(.5)) / float64(plain.Quantile(.5)),
		Must: 2, Aim: 1.5,
		Theirs: label(ms(plain.Quantile(.5))) + " without; " + strings.TrimSpace(label(ms(bare[0].Quantile(.5)))) +
			" bare import numpy",
	})
	b.report.Samples = append(b.report.Samples, with, bare[0])
	return b.coldNumpy(ctx, layers, bare[0].Quantile(.5))
}

// coldNumpy times calls of a tool with numpy that find no cell ready, so that they import it.
func (b *bench) coldNumpy(ctx context.Context, layers []executor.Layer, bare time.Duration) error {
	tool, err := b.tool(ctx, "add", "import numpy\n"+source)
	if err != nil {
		return err
	}
	cold := Sample{Name: "haft: no cell ready, numpy"}
	for range min(b.cfg.Rounds, numpyRounds) {
		b.app.Drop("numpy")
		start := time.Now()
		res, err := b.app.Call(ctx, tool, app.Run{Org: "numpy", Args: []byte(jobArgs), Layers: layers})
		if err := checkJob(res, err); err != nil {
			return err
		}
		if res.Timeline.Cell != "hit" {
			cold.Times = append(cold.Times, time.Since(start))
		}
	}
	b.add(Row{What: "no cell ready, with numpy, p50, against bare import numpy", Ours: label(ms(cold.Quantile(.5))),
		Theirs: label(ms(bare)), Ratio: float64(cold.Quantile(.5)) / float64(bare), Must: 1.2, Aim: 1})
	b.report.Samples = append(b.report.Samples, cold)
	return nil
}

// timed times calls that find a cell ready.
func (b *bench) timed(ctx context.Context, org, text string, layers []executor.Layer) (Sample, error) {
	sample := Sample{Name: "haft: confined call, " + org}
	tool, err := b.tool(ctx, "add", text)
	if err != nil {
		return sample, err
	}
	for n := 0; n <= min(b.cfg.Rounds, numpyRounds); n++ {
		if n > 0 {
			// With two, none is being made, which would take the processor.
			if err := waitForCells(ctx, b.app, org, 2); err != nil {
				return sample, err
			}
		}
		began := time.Now()
		res, err := b.app.Call(ctx, tool, app.Run{Org: org, Args: []byte(jobArgs), Layers: layers})
		if err := checkJob(res, err); err != nil {
			return sample, err
		}
		if n > 0 {
			sample.Times = append(sample.Times, time.Since(began))
		}
	}
	return sample, nil
}
