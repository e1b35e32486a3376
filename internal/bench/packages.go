package bench

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"time"

	"haft"
	"haft/app"
	"haft/executor"
	"haft/internal/requirement"
	"haft/schema"
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
		b.report.Rows = append(b.report.Rows, Row{What: what, Must: 2, Aim: 1.5, Unmeasured: haft.MessageOf(err)})
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
	b.report.Rows = append(b.report.Rows, Row{
		What: what, Ours: label(ms(with.Quantile(.5))), Ratio: float64(with.Quantile(.5)) / float64(plain.Quantile(.5)),
		Must: 2, Aim: 1.5,
		Theirs: label(ms(plain.Quantile(.5))) + " without; " + strings.TrimSpace(label(ms(bare[0].Quantile(.5)))) +
			" bare import numpy",
	})
	b.report.Samples = append(b.report.Samples, with, bare[0])
	return nil
}

// timed times calls that find a cell ready.
func (b *bench) timed(ctx context.Context, org, text string, layers []executor.Layer) (Sample, error) {
	src := app.Source{Name: "add", Kind: haft.KindPython, Text: []byte(text), Function: "add"}
	tool, err := b.app.Prepare(ctx, src, schema.Options{}, haft.Output{})
	if err != nil {
		return Sample{}, err
	}
	call := func() (*haft.Result, error) {
		res, err := b.app.Call(ctx, tool, app.Run{Org: org, Args: []byte(`{"a": 19, "b": 23}`), Layers: layers})
		if err == nil && string(res.Value) != "42" {
			err = fmt.Errorf("the call ended with %s: %v", res.Status, res.Error)
		}
		return res, err
	}
	sample := Sample{Name: "haft: confined call, " + org}
	for n := 0; n <= min(b.cfg.Rounds, numpyRounds); n++ {
		if n > 0 {
			if err := b.parked(ctx, org); err != nil {
				return sample, err
			}
		}
		began := time.Now()
		if _, err := call(); err != nil {
			return sample, err
		}
		if n > 0 {
			sample.Times = append(sample.Times, time.Since(began))
		}
	}
	return sample, nil
}

// parked waits until the cells of an organisation are ready.
func (b *bench) parked(ctx context.Context, org string) error {
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for range 12000 {
		if b.app.IdleCells(org) >= 2 { // none is being made, which would take the processor
			return nil
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-tick.C:
		}
	}
	return errors.New("no cell gets ready")
}
