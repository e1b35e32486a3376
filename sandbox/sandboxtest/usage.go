package sandboxtest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"haft"
	"haft/sandbox"
)

// workSource defines work(seconds), which takes that much processor time.
const workSource = `def work(seconds):
    end = time.process_time() + seconds
    while time.process_time() < end: pass
`

// usageOfCall lets a program work before it begins and after.
func usageOfCall(ctx context.Context, b *Bench) error {
	usage, err := usageAfterBegin(ctx, b, 0.6, `b = bytearray(30 << 20); work(0.15)
if os.fork() == 0: work(0.1); os._exit(0)
os.wait()`)
	if err != nil {
		return err
	}
	if usage.CPU < b.leastCPU(haft.Millis(220e6)) || usage.CPU > haft.Millis(550e6) ||
		usage.MaxRSS < 30<<20 || usage.MaxRSS > 200<<20 {
		return fmt.Errorf("usage is %+v, with 30 MiB and 250 ms of work after 600 ms that were not the call's", usage)
	}
	return nil
}

// leastCPU is the least processor time that may be reported for a program that has used d by its own clock. That of
// a guest kernel goes on while a process waits for a processor, which on a busy machine is most of the time.
func (b *Bench) leastCPU(d haft.Millis) haft.Millis {
	if b.iso.Has(haft.ControlKernel) {
		return d / 8
	}
	return d
}

// usageKnownOrNot has a call use 50 ms and 20 MiB, in a program of its own and in one that
// was prepared ahead.
func usageKnownOrNot(ctx context.Context, b *Bench) error {
	const call = "b = bytearray(20 << 20); work(0.05)\n"
	o := b.Run(ctx, py(workSource+call), nil)
	cold := errors.Join(exits(0)(o), knownOrNot(o.Exit.Usage, b.leastCPU(haft.Millis(45e6)), haft.Millis(2e9)))
	usage, err := usageAfterBegin(ctx, b, 0.6, call)
	if err == nil {
		err = knownOrNot(usage, b.leastCPU(haft.Millis(45e6)), haft.Millis(500e6)) // less than the preparation
	}
	if err != nil {
		err = fmt.Errorf("prepared ahead: %w", err)
	}
	return errors.Join(cold, err)
}

// knownOrNot checks the usage of a call that used 50 ms and 20 MiB as readers of its JSON
// see it.
func knownOrNot(u haft.Usage, least, most haft.Millis) error {
	raw, err := json.Marshal(u)
	if err != nil {
		return fmt.Errorf("encode the usage: %w", err)
	}
	var seen struct {
		CPU    *haft.Millis `json:"cpu_ms"`
		MaxRSS *int64       `json:"max_rss_bytes"`
	}
	if err := json.Unmarshal(raw, &seen); err != nil {
		return fmt.Errorf("decode the usage: %w", err)
	}
	if seen.CPU != nil && (*seen.CPU < least || *seen.CPU > most) {
		return fmt.Errorf("the processor time of 50 ms of work is reported as %v", *seen.CPU)
	}
	if seen.MaxRSS != nil && (*seen.MaxRSS < 20<<20 || *seen.MaxRSS > 200<<20) {
		return fmt.Errorf("the memory of a program that fills 20 MiB is reported as %d bytes", *seen.MaxRSS)
	}
	return nil
}

// usageAfterBegin returns what Ended tells of a call. Its program takes some seconds of a
// processor to prepare, and is finished while it is alive, as calls are.
func usageAfterBegin(ctx context.Context, b *Bench, prepare float64, call string) (haft.Usage, error) {
	begin, finish := make(chan struct{}), make(chan struct{})
	var usage haft.Usage
	source := workSource + fmt.Sprintf("work(%g); tell('ready'); line()\n%s\ntell('done'); time.sleep(60)", prepare,
		call)
	live, err := b.Start(ctx, py(source), func(s *sandbox.Spec) {
		s.Begin, s.Finish = begin, finish
		ended := s.Ended
		s.Ended = func(e sandbox.Exit) {
			usage = e.Usage
			ended(e)
		}
	})
	if err != nil {
		return usage, err
	}
	if _, err := live.Line(ctx); err != nil {
		return usage, err
	}
	close(begin)
	if err := live.Say("go"); err != nil {
		return usage, err
	}
	if _, err := live.Line(ctx); err != nil {
		return usage, err
	}
	close(finish)
	o := live.Wait() // after which usage is set
	return usage, caused(sandbox.CauseFinished)(o)
}
