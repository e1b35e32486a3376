package bench

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"time"

	"haft"
	"haft/app"
)

// service is a whole system with its state on the disk, for the rows about the
// pipeline.
type service struct {
	*app.Service
	dir string
}

// nothing is what a tool that does nothing takes and gives.
type nothing struct{}

// openService opens a system that keeps everything, with a built-in tool that does
// nothing and the job as a registered tool of two tenants.
func (b *bench) openService(ctx context.Context) (_ *service, err error) {
	dir, err := os.MkdirTemp("", "haft-bench-")
	if err != nil {
		return nil, fmt.Errorf("make a directory for state: %w", err)
	}
	s := &service{dir: dir}
	defer func() {
		if err != nil {
			s.close()
		}
	}()
	s.Service, err = app.OpenService(ctx, app.ServiceConfig{
		Config: b.cfg.system(), Data: dir, Builtins: addNoop,
	})
	if err != nil {
		return nil, err
	}
	for _, org := range []string{"light", "flood"} {
		if _, err := s.PutTool(ctx, tenant(org), haft.Draft{Name: "add", Kind: haft.KindPython, Source: source,
			Function: "add"}); err != nil {
			return nil, err
		}
	}
	return s, nil
}

// close removes everything.
func (s *service) close() {
	if s.Service != nil {
		s.Close() //nolint:errcheck // nothing of it is kept
	}
	os.RemoveAll(s.dir)
}

// tenant is somebody of an organisation.
func tenant(org string) haft.Principal {
	return haft.Principal{Org: org, User: "bench", Roles: []string{haft.RoleAdmin}}
}

// add calls the job for a tenant.
func (s *service) add(ctx context.Context, org string) error {
	return checkJob(s.Call(ctx, haft.Call{Tool: "add", Args: json.RawMessage(jobArgs), Principal: tenant(org)}))
}

// noop calls the tool that does nothing.
func (s *service) noop(ctx context.Context) error {
	res, err := s.Call(ctx, haft.Call{Tool: "noop", Principal: tenant("light")})
	if err != nil {
		return err
	}
	if res.Status != haft.StatusSuccess {
		return fmt.Errorf("the call ended with %s: %v", res.Status, res.Error)
	}
	return nil
}

// pipeline measures what a call costs with everything that the engine does: policy,
// limits, records, events and audit on the disk.
func (b *bench) pipeline(ctx context.Context) error {
	b.cfg.Progress("the whole pipeline, recorded on the disk")
	s, err := b.openService(ctx)
	if err != nil {
		return err
	}
	defer s.close()
	samples, err := Interleave(b.cfg.Rounds, []Way{
		{"haft: confined call through the engine, recorded", func() error { return s.add(ctx, "light") }},
		{"python3 -I -S, bare", b.bare(ctx)},
		{"haft: built-in no-op through the engine, recorded", func() error { return s.noop(ctx) }},
	})
	if err != nil {
		return err
	}
	b.ratio("confined Python call through the engine, recorded, p50", samples[0].Quantile(.5), samples[1].Quantile(.5),
		1./10, 1./20)
	alone, err := Interleave(5*b.cfg.Rounds, []Way{{"no-op", func() error { return s.noop(ctx) }}})
	if err != nil {
		return err
	}
	p50 := alone[0].Quantile(.5)
	b.add(Row{What: "pipeline on a built-in no-op, durable, p50 alone (ms)",
		Ours: label(ms(p50)), Ratio: float64(p50) / float64(time.Millisecond), Must: .3, Aim: .2})
	b.report.Samples = append(b.report.Samples, samples[0], samples[2])
	const callers = 64
	rate, err := b.slice(ctx, callers, func() error { return s.noop(ctx) })
	if err != nil {
		return err
	}
	b.add(Row{What: fmt.Sprintf("the same, calls per second with %d callers (thousands)", callers),
		Ours: fmt.Sprintf("%.0f/s", rate), Ratio: rate / 1000, Must: 8, Aim: 12, AtLeast: true})
	return b.fairness(ctx, s)
}

// fairness compares the calls of a light tenant while nobody else is there with
// those while another floods.
func (b *bench) fairness(ctx context.Context, s *service) error {
	b.cfg.Progress("a light tenant beside one that floods")
	quiet, err := Interleave(b.cfg.Rounds, []Way{{"light tenant, quiet", func() error { return s.add(ctx, "light") }}})
	if err != nil {
		return err
	}
	flood, stop := context.WithCancel(ctx)
	defer stop()
	done := make(chan error, 1)
	go func() {
		long := *b
		long.cfg.Slice = time.Hour
		_, err := long.slice(flood, 64, func() error {
			if err := s.add(flood, "flood"); err != nil && flood.Err() == nil {
				return err
			}
			return nil
		})
		done <- err
	}()
	busy, err := Interleave(b.cfg.Rounds,
		[]Way{{"light tenant, another floods", func() error { return s.add(ctx, "light") }}})
	stop()
	if ferr := <-done; err == nil {
		err = ferr
	}
	if err != nil {
		return err
	}
	before, during := quiet[0].Quantile(.99), busy[0].Quantile(.99)
	b.add(Row{What: "p99 of a light tenant while another floods, against its quiet p99",
		Ours: label(ms(during)), Theirs: label(ms(before)) + " quiet", Ratio: float64(during) / float64(before),
		Must: 2.5, Aim: 2})
	return nil
}
