package bench

import (
	"context"
	"fmt"
	"time"

	"haft"
)

// sessionRounds is how often sessions are made.
const sessionRounds = 40

// sessions times making a session and its first command, in turn with a call of a tool over HTTP.
func (b *bench) sessions(ctx context.Context) error {
	if b.cfg.Self == "" {
		return nil
	}
	b.cfg.Progress("sessions")
	s, err := b.serve(ctx)
	if err != nil {
		return err
	}
	defer s.close()
	made := Sample{Name: "haft: a session is made, over HTTP"}
	first := Sample{Name: "haft: first command of a session, over HTTP"}
	e2b := Sample{Name: "haft: a sandbox is made, over E2B's API"}
	e2bFirst := Sample{Name: "haft: first command of a sandbox, over E2B's API"}
	call := Sample{Name: "haft: confined call over HTTP, in turn with sessions"}
	for round := range min(b.cfg.Rounds, sessionRounds) + 1 {
		// Nobody makes sessions without a pause; the one that is kept ready is made in it.
		if err := pauseFor(ctx, min(settle, b.cfg.Slice)); err != nil {
			return err
		}
		start := time.Now()
		raw, err := s.send(ctx, "/v1/sessions", haft.NewSession{})
		created := time.Since(start)
		var session haft.Session
		if err == nil {
			err = decode(raw, &session)
		}
		if err != nil {
			return fmt.Errorf("make a session: %w", err)
		}
		start = time.Now()
		if _, err := s.call(ctx, "run_command",
			map[string]any{"session": session.Name, "argv": []string{"/bin/true"}}); err != nil {
			return fmt.Errorf("run the first command of a session: %w", err)
		}
		commanded := time.Since(start)
		if err := s.remove(ctx, "/v1/sessions/"+session.ID); err != nil {
			return err
		}
		if err := pauseFor(ctx, min(settle, b.cfg.Slice)); err != nil {
			return err
		}
		start = time.Now()
		if err := s.add(ctx); err != nil {
			return err
		}
		called := time.Since(start)
		if err := pauseFor(ctx, min(settle, b.cfg.Slice)); err != nil {
			return err
		}
		box, command, err := s.addE2B(ctx)
		if err != nil {
			return err
		}
		if round > 0 {
			e2b.Times, e2bFirst.Times = append(e2b.Times, box), append(e2bFirst.Times, command)
			made.Times, first.Times = append(made.Times, created), append(first.Times, commanded)
			call.Times = append(call.Times, called)
		}
	}
	b.add(Row{What: "a session is made, p50 (ms)", Ours: label(ms(made.Quantile(.5))), Ratio: ms(made.Quantile(.5)),
		Must: 10, Aim: 5})
	b.add(Row{What: "first command of a session, p50, against a call", Ours: label(ms(first.Quantile(.5))),
		Theirs: label(ms(call.Quantile(.5))) + " a call of a tool", Must: 2, Aim: 1,
		Ratio: float64(first.Quantile(.5)) / float64(call.Quantile(.5))})
	b.add(Row{What: "a sandbox is made over E2B's API, p50 (ms)", Ours: label(ms(e2b.Quantile(.5))),
		Ratio: ms(e2b.Quantile(.5)), Must: 10, Aim: 5})
	b.add(Row{What: "its first command over E2B's API, p50 (ms)", Ours: label(ms(e2bFirst.Quantile(.5))),
		Ratio: ms(e2bFirst.Quantile(.5)), Must: 5, Aim: 3})
	b.report.Samples = append(b.report.Samples, made, first, e2b, e2bFirst)
	return nil
}
