package bench

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"time"

	"haft"
	"haft/app"
	"haft/internal/audit"
	"haft/internal/store"
	"haft/schema"
)

// A Series is how long something takes while something else grows.
type Series struct {
	Grows  string // what grows, with its unit
	What   string // what is timed
	Points []Point
}

// A Point is the median of one size.
type Point struct {
	N    int
	Took time.Duration
}

// Slope fits a power of the size to the times, by least squares of their logarithms: 0 is flat, 1 is linear.
func (s Series) Slope() float64 {
	var n, sx, sy, sxx, sxy float64
	for _, p := range s.Points {
		if p.N <= 0 {
			continue // a size of nothing has no logarithm
		}
		x, y := math.Log(float64(p.N)), math.Log(ms(p.Took))
		n, sx, sy, sxx, sxy = n+1, sx+x, sy+y, sxx+x*x, sxy+x*y
	}
	if d := n*sxx - sx*sx; d > 0 {
		return (n*sxy - sx*sy) / d
	}
	return 0
}

// Each is what one more of what grows takes, between the smallest size and the largest.
func (s Series) Each() time.Duration {
	if len(s.Points) < 2 {
		return 0
	}
	first, last := s.Points[0], s.Points[len(s.Points)-1]
	return (last.Took - first.Took) / time.Duration(max(last.N-first.N, 1))
}

// Run measures what cfg says, and writes the page and the chart that it names.
func Run(ctx context.Context, cfg Config) (*Report, error) {
	rep, err := Measure(ctx, cfg)
	if err != nil {
		return nil, err
	}
	if cfg.Grow || cfg.Page != "" {
		if rep.Growth, err = Grow(ctx, cfg); err != nil {
			return nil, err
		}
	}
	if cfg.Chart != "" {
		err = rep.WriteChart(cfg.Chart)
	}
	if err == nil && cfg.Page != "" {
		err = rep.WriteDocument(cfg.Page)
	}
	return rep, err
}

// Grow measures what grows with what: see [Series]. Measured alone, after [Measure] or without it.
func Grow(ctx context.Context, cfg Config) ([]Series, error) {
	cfg.setDefaults()
	b := &growth{&bench{cfg: cfg, report: &Report{}}}
	var all []Series
	for _, step := range []func(context.Context) ([]Series, error){b.growTools, b.growHistory, b.growTenants,
		b.growOutput,
		b.growCallers} {
		list, err := step(ctx)
		if err != nil {
			return nil, err
		}
		all = append(all, list...)
	}
	return all, nil
}

// growth is a measurement of what grows.
type growth struct{ *bench }

// sizes are the powers of ten from a size up to the largest, which Config.Most bounds.
func (b *growth) sizes(from, to int) []int {
	var list []int
	for n := from; n < to; n *= 10 {
		if b.cfg.Most <= 0 || n <= b.cfg.Most {
			list = append(list, n)
		}
	}
	if b.cfg.Most <= 0 || to <= b.cfg.Most {
		list = append(list, to)
	}
	return list
}

// median times do for Config.Rounds rounds.
func (b *growth) median(do func(i int) error) (time.Duration, error) {
	i := 0
	list, err := Interleave(b.cfg.Rounds, []Way{{"growth", func() error { i++; return do(i) }}})
	if err != nil {
		return 0, err
	}
	return list[0].Quantile(.5), nil
}

// A thing is something to time at every size.
type thing struct {
	what string
	do   func(i int) error
}

// grow times several things at sizes which to makes.
func (b *growth) grow(grows string, sizes []int, to func(n int) error, things []thing) ([]Series, error) {
	list := make([]Series, len(things))
	for i, t := range things {
		list[i] = Series{Grows: grows, What: t.what}
	}
	for _, n := range sizes {
		b.cfg.Progress(fmt.Sprintf("%d %s", n, grows))
		if err := to(n); err != nil {
			return nil, fmt.Errorf("make %d %s: %w", n, grows, err)
		}
		for i, t := range things {
			took, err := b.median(t.do)
			if err != nil {
				return nil, fmt.Errorf("%s with %d %s: %w", t.what, n, grows, err)
			}
			list[i].Points = append(list[i].Points, Point{n, took})
		}
	}
	return list, nil
}

// growTools times calls and searches among more and more tools.
func (b *growth) growTools(ctx context.Context) ([]Series, error) {
	s, err := b.openService(ctx)
	if err != nil {
		return nil, err
	}
	defer s.close()
	made := 0
	return b.grow("tools", b.sizes(10, 10_000), func(n int) error {
		for ; made < n; made++ {
			tool := haft.Tool{Org: "light", Name: fmt.Sprintf("tool_%05d", made),
				Category: fmt.Sprint("category", made%20),
				Version: haft.Version{Kind: haft.KindPython, Digest: fmt.Sprint("d", made),
					Description: fmt.Sprintf("Does thing %d with words that all tools have.", made),
					Created:     time.Now()}}
			if _, _, _, err := s.Store.Tools.PutTool(ctx, tool, store.PutOptions{Activate: true}); err != nil {
				return fmt.Errorf("keep a tool: %w", err)
			}
		}
		return nil
	}, []thing{
		{"call of a built-in tool", func(int) error { return s.noop(ctx) }},
		{"search for a tool", func(i int) error {
			found, err := s.Store.Tools.SearchTools(ctx, "light", fmt.Sprintf("thing %d", i%10), 10)
			if err == nil && len(found) == 0 {
				err = errors.New("no tool is found")
			}
			return err
		}},
	})
}

// growHistory times calls and searches with more and more calls in the past, which are written to the store directly.
func (b *growth) growHistory(ctx context.Context) ([]Series, error) {
	s, err := b.openService(ctx)
	if err != nil {
		return nil, err
	}
	defer s.close()
	made := 0
	sizes := append([]int{0}, b.sizes(1000, 1_000_000)...)
	return b.grow("calls in the past", sizes, func(n int) error {
		for ; made < n; made += pastAtOnce {
			if err := s.Store.Commit(ctx, past(made)); err != nil {
				return fmt.Errorf("keep calls: %w", err)
			}
		}
		if err := b.indexed(ctx, s); err != nil {
			return err
		}
		return s.noop(ctx) // an entry of this tool is found also in an empty store
	}, []thing{
		{"call of a built-in tool, recorded", func(int) error { return s.noop(ctx) }},
		{"newest 50 calls", func(int) error {
			list, err := s.Store.Calls.Records(ctx, haft.CallFilter{Org: "light", Limit: 50})
			if err == nil && len(list) == 0 {
				err = errors.New("no call is listed")
			}
			return err
		}},
		{"search of the audit log by tool", func(int) error {
			list, _, err := s.Store.Audit.FindAudit(ctx, "light", haft.AuditFilter{Tool: "noop", Limit: 50},
				haft.AuditPlace{})
			if err == nil && len(list) == 0 {
				err = errors.New("no entry is found")
			}
			return err
		}},
	})
}

// indexed has the audit log made searchable, as a server does in the background, and says how long that took.
func (b *growth) indexed(ctx context.Context, s *service) error {
	start := time.Now()
	_, _, err := s.Store.Audit.FindAudit(ctx, "light", haft.AuditFilter{Tool: "noop", Limit: 1}, haft.AuditPlace{})
	b.cfg.Progress("the audit log was made searchable in " + Round(time.Since(start)))
	return err
}

// pastAtOnce is how many calls of the past are written at once.
const pastAtOnce = 500

// past makes calls that ended, with their audit entries.
func past(from int) store.Batch {
	began := time.Now().Add(-24 * time.Hour)
	b := store.Batch{}
	for i := from; i < from+pastAtOnce; i++ {
		p := haft.Principal{Org: "light", User: fmt.Sprint("u", i%100), Agent: fmt.Sprint("a", i%10)}
		id := haft.CallID(fmt.Sprintf("c%08d", i))
		tool, at := fmt.Sprint("tool", i%1000), began.Add(time.Duration(i)*time.Millisecond)
		b.Records = append(b.Records, haft.Record{
			Call:   haft.Call{ID: id, Tool: tool, Principal: p, Args: json.RawMessage(`{}`)},
			Status: haft.StatusSuccess, Created: at, Ended: at, Owner: "bench",
			Result: &haft.Result{Call: id, Status: haft.StatusSuccess},
		})
		b.Audit = append(b.Audit, audit.Entry{Org: "light", Kind: "call.ended", Actor: p, Call: id, Tool: tool,
			Time: at})
	}
	return b
}

// growTenants times calls of more and more organisations, one after the other.
func (b *growth) growTenants(ctx context.Context) ([]Series, error) {
	s, err := b.openService(ctx)
	if err != nil {
		return nil, err
	}
	defer s.close()
	tenants := 1
	call := func(i int) error {
		res, err := s.Call(ctx, haft.Call{Tool: "noop", Principal: tenant(fmt.Sprint("org", i%tenants))})
		if err == nil && res.Status != haft.StatusSuccess {
			err = fmt.Errorf("the call ended with %s: %v", res.Status, res.Error)
		}
		return err
	}
	return b.grow("tenants", b.sizes(1, 1000), func(n int) error {
		tenants = n
		for i := range n {
			if err := call(i); err != nil {
				return err
			}
		}
		return nil
	}, []thing{{"call of a built-in tool, of each in turn", call}})
}

// printing is the job of the row on output.
const printing = `
def write(size: int) -> int:
    """Write.

    Args:
        size: How many bytes.
    """
    line = "0123456789abcde\n" * 64
    left = size
    while left > 0:
        print(line[:left], end="")
        left -= len(line)
    return size
`

// growOutput times confined calls that print more and more.
func (b *growth) growOutput(ctx context.Context) ([]Series, error) {
	a, err := app.Open(ctx, b.cfg.system())
	if err != nil {
		return nil, err
	}
	defer a.Close()
	src := app.Source{Name: "write", Kind: haft.KindPython, Text: []byte(printing), Function: "write"}
	tool, err := a.Prepare(ctx, src, schema.Options{}, haft.Output{})
	if err != nil {
		return nil, err
	}
	size := 0
	sizes := b.sizes(1000, 50_000_000)
	return b.grow("bytes of output", sizes, func(n int) error { size = n; return nil },
		[]thing{{"confined call that prints them", func(int) error {
			res, err := a.Call(ctx, tool, app.Run{Org: "bench", Args: fmt.Appendf(nil, `{"size": %d}`, size),
				Limits: haft.Limits{Stdout: 64 << 20}})
			if err == nil && res.Status != haft.StatusSuccess {
				err = fmt.Errorf("the call ended with %s: %v", res.Status, res.Error)
			}
			return err
		}}})
}

// growCallers measures calls of more and more callers without pauses. What is timed is the share of one call
// of all the time: each caller has to wait for the others.
func (b *growth) growCallers(ctx context.Context) ([]Series, error) {
	s, err := b.openService(ctx)
	if err != nil {
		return nil, err
	}
	defer s.close()
	out := Series{Grows: "callers", What: "share of one call of a built-in tool"}
	for _, n := range b.sizes(1, 1000) {
		b.cfg.Progress(fmt.Sprintf("%d callers", n))
		rate, err := b.slice(ctx, n, func() error { return s.noop(ctx) })
		if err != nil {
			return nil, fmt.Errorf("%d callers: %w", n, err)
		}
		out.Points = append(out.Points, Point{n, time.Duration(float64(time.Second) / max(rate, 1e-9))})
	}
	return []Series{out}, nil
}
