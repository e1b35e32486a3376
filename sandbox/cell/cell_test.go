package cell_test

import (
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"haft"
	"haft/sandbox"
	"haft/sandbox/cell"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// fake is a provider whose runs last until they are finished or stopped.
type fake struct {
	started, live, gone atomic.Int64
	// slow is how long a start takes, by way of boot.
	slow time.Duration
	// fail makes runs end before they are up.
	fail atomic.Bool
	// restless makes runs do more than wait when they are idle.
	restless atomic.Bool
}

// Run implements the provider's method.
func (f *fake) Run(ctx context.Context, spec sandbox.Spec) (sandbox.Exit, error) {
	defer spec.Channel.Close()
	f.started.Add(1)
	f.live.Add(1)
	defer f.gone.Add(1)
	defer f.live.Add(-1)
	if f.fail.Load() {
		_, _ = io.WriteString(spec.Stderr, "broken interpreter")
		return sandbox.Exit{Cause: sandbox.CauseExit, Code: 1}, nil
	}
	exit := sandbox.Exit{Cause: sandbox.CauseFinished}
	for prepared := spec.Prepared; ; {
		select {
		case <-prepared:
			if f.restless.Load() {
				exit.Cause = sandbox.CauseLimit
				break
			}
			prepared = nil
			spec.Idle()
			continue
		case <-spec.Finish:
		case <-ctx.Done():
			exit.Cause = sandbox.CauseCancelled
		}
		spec.Ended(exit)
		return exit, nil
	}
}

// plan returns a plan of tenant whose cells come up by themselves.
func (f *fake) plan(tenant string) cell.Plan {
	up := func(*sandbox.Pipe) error {
		time.Sleep(f.slow) // of the bubble's clock
		if f.fail.Load() {
			return errors.New("it does not answer")
		}
		return nil
	}
	return cell.Plan{Key: cell.Key{Tenant: tenant}, Run: f.Run, Boot: up,
		Warm: func(*sandbox.Pipe) error { return nil }}
}

// take takes a cell, which must work.
func take(t *testing.T, p *cell.Pool, plan cell.Plan) *cell.Cell {
	t.Helper()
	c, err := p.Take(t.Context(), plan)
	if err != nil {
		t.Fatalf("Take: %v", err)
	}
	return c
}

// inBubble runs test with a pool that is closed at the end, on a clock of its own.
func inBubble(t *testing.T, cfg cell.Config, test func(t *testing.T, p *cell.Pool)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		p := cell.New(context.Background(), cfg)
		defer p.Close()
		test(t, p)
	})
}

func TestPool_a_cell_is_taken_once_and_replaced(t *testing.T) {
	inBubble(t, cell.Config{}, func(t *testing.T, p *cell.Pool) {
		f := &fake{slow: 20 * time.Millisecond}
		plan := f.plan("a")
		seen := map[*cell.Cell]bool{}
		for i := range 5 {
			c := take(t, p, plan)
			if seen[c] {
				t.Fatal("a cell was handed out twice")
			}
			seen[c] = true
			if c.Hit != (i > 0) {
				t.Errorf("take %d: hit = %v", i, c.Hit)
			}
			c.Begin(io.Discard, io.Discard)
			c.Release(false)
			<-c.Ended()
			if exit, err := c.Exit(); err != nil || exit.Cause != sandbox.CauseFinished {
				t.Errorf("Exit = %v, %v", exit, err)
			}
			time.Sleep(time.Second)
			synctest.Wait()
			if n := p.Idle(plan.Key); n != 2 {
				t.Errorf("%d cells idle, want 2", n)
			}
		}
	})
}

func TestPool_Try_waits_for_nothing(t *testing.T) {
	inBubble(t, cell.Config{}, func(t *testing.T, p *cell.Pool) {
		f := &fake{}
		plan := f.plan("a")
		if c := p.Try(plan); c != nil || f.live.Load() != 0 {
			t.Fatalf("Try = %v with nothing idle, and %d cells alive", c, f.live.Load())
		}
		take(t, p, plan).Release(false)
		time.Sleep(time.Second)
		for i := range 2 {
			c := p.Try(plan)
			if c == nil || !c.Hit {
				t.Fatalf("try %d: no idle cell", i)
			}
			c.Release(false)
		}
		if c := p.Try(plan); c != nil {
			t.Error("a third cell was there")
		}
		time.Sleep(time.Second)
		if n := p.Idle(plan.Key); n != 2 {
			t.Errorf("%d cells idle after a second, want 2", n)
		}
	})
}

// TestCell_channel_outlives_whoever_leaves_first: what a run that has ended left in
// the channel can be read, and the channel is closed when both are done with it.
func TestCell_channel_outlives_whoever_leaves_first(t *testing.T) {
	inBubble(t, cell.Config{}, func(t *testing.T, p *cell.Pool) {
		f := &fake{}
		c := take(t, p, f.plan("a"))
		c.Cancel(errors.New("enough"))
		<-c.Ended()
		synctest.Wait()
		if err := c.Conn.SetDeadline(time.Time{}); err != nil {
			t.Errorf("the channel was closed before the caller had left: %v", err)
		}
		c.Release(false)
		synctest.Wait()
		if err := c.Conn.SetDeadline(time.Time{}); err == nil {
			t.Error("the channel is open after both have left")
		}
	})
}

func TestCell_without_boot_starts_with_the_call(t *testing.T) {
	inBubble(t, cell.Config{}, func(t *testing.T, p *cell.Pool) {
		says := func(ctx context.Context, spec sandbox.Spec) (sandbox.Exit, error) {
			defer spec.Channel.Close()
			_, err := io.WriteString(spec.Stdout, "first")
			return sandbox.Exit{Cause: sandbox.CauseExit}, err
		}
		plan := cell.Plan{Key: cell.Key{Tenant: "a"}, Run: says}
		c := take(t, p, plan)
		synctest.Wait() // whatever would run before Begin has run
		var out strings.Builder
		c.Begin(&out, io.Discard)
		<-c.Ended()
		c.Release(false)
		if out.String() != "first" {
			t.Errorf("got %q, want all that the command wrote", out.String())
		}
		c = take(t, p, plan)
		c.Release(false) // without Begin
		<-c.Ended()
	})
}

func TestPool_keys_never_share(t *testing.T) {
	inBubble(t, cell.Config{}, func(t *testing.T, p *cell.Pool) {
		f := &fake{}
		take(t, p, f.plan("a")).Release(false)
		time.Sleep(time.Second)
		for name, key := range map[string]cell.Key{
			"tenant": {Tenant: "b"}, "environment": {Tenant: "a", Environment: "e"},
			"policy": {Tenant: "a", Policy: "p"}, "tool": {Tenant: "a", Tool: "t"},
		} {
			plan := f.plan("b")
			plan.Key = key
			c := take(t, p, plan)
			if c.Hit {
				t.Errorf("another %s got a idle cell of a", name)
			}
			c.Release(false)
		}
	})
}

func TestPool_follows_demand_and_sleeps_when_idle(t *testing.T) {
	inBubble(t, cell.Config{Most: 8, Idle: time.Minute}, func(t *testing.T, p *cell.Pool) {
		f := &fake{slow: 100 * time.Millisecond}
		plan := f.plan("a")
		for range 200 {
			take(t, p, plan).Release(false)
			time.Sleep(20 * time.Millisecond)
		}
		time.Sleep(time.Second)
		if n := p.Idle(plan.Key); n < 4 || n > 8 {
			t.Errorf("%d cells idle at 50 calls a second, want 4 to 8", n)
		}
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		if n, live := p.Idle(plan.Key), f.live.Load(); n != 0 || live != 0 {
			t.Errorf("%d cells idle and %d alive after two idle minutes, want none", n, live)
		}
		before := f.started.Load()
		time.Sleep(time.Hour)
		if n := f.started.Load() - before; n != 0 {
			t.Errorf("%d cells started while nobody asked", n)
		}
	})
}

func TestPool_a_burst_waits_and_does_not_fail(t *testing.T) {
	inBubble(t, cell.Config{Starting: 2}, func(t *testing.T, p *cell.Pool) {
		f := &fake{slow: 10 * time.Millisecond}
		var wg sync.WaitGroup
		for range 100 {
			wg.Go(func() {
				c, err := p.Take(t.Context(), f.plan("a"))
				if err != nil {
					t.Errorf("Take: %v", err)
					return
				}
				time.Sleep(time.Second)
				c.Release(false)
			})
		}
		wg.Wait()
	})
}

func TestPool_a_burst_of_one_tenant_does_not_hold_up_another(t *testing.T) {
	inBubble(t, cell.Config{Starting: 1, Least: 1, Most: 1}, func(t *testing.T, p *cell.Pool) {
		f := &fake{slow: 10 * time.Millisecond}
		var wg sync.WaitGroup
		for range 100 {
			wg.Go(func() {
				c, err := p.Take(t.Context(), f.plan("greedy"))
				if err != nil {
					t.Errorf("Take: %v", err)
					return
				}
				c.Release(false)
			})
		}
		synctest.Wait()
		began := time.Now()
		take(t, p, f.plan("modest")).Release(false)
		if d := time.Since(began); d > 50*time.Millisecond {
			t.Errorf("the other tenant waited %v behind a burst that lasts 1s", d)
		}
		wg.Wait()
	})
}

func TestPool_a_broken_interpreter_is_reported_and_not_respawned(t *testing.T) {
	inBubble(t, cell.Config{Backoff: time.Second}, func(t *testing.T, p *cell.Pool) {
		f := &fake{}
		f.fail.Store(true)
		for range 50 {
			_, err := p.Take(t.Context(), f.plan("a"))
			e, ok := errors.AsType[*cell.StartError](err)
			if !ok || !strings.Contains(e.Said, "broken interpreter") {
				t.Fatalf("Take = %v, want a StartError with what it said", err)
			}
			time.Sleep(10 * time.Millisecond)
		}
		if n := f.started.Load(); n > 3 {
			t.Errorf("%d starts within half a second, want two for the call and at most one for stock", n)
		}
		f.fail.Store(false)
		time.Sleep(5 * time.Second)
		take(t, p, f.plan("a")).Release(false)
	})
}

func TestPool_one_outage_is_one_error(t *testing.T) {
	inBubble(t, cell.Config{Starting: 8, Backoff: time.Second}, func(t *testing.T, p *cell.Pool) {
		f := &fake{slow: 10 * time.Millisecond}
		f.fail.Store(true)
		var mu sync.Mutex
		seen := map[error]bool{}
		var wg sync.WaitGroup
		for i := range 20 {
			wg.Go(func() {
				time.Sleep(time.Duration(i) * time.Millisecond) // of the bubble's clock
				_, err := p.Take(t.Context(), f.plan("a"))
				mu.Lock()
				defer mu.Unlock()
				seen[err] = true
			})
		}
		wg.Wait()
		if len(seen) != 1 || seen[nil] {
			t.Errorf("%d different errors of starts that failed together, want one", len(seen))
		}
	})
}

func TestPool_a_refusal_is_no_breakage(t *testing.T) {
	inBubble(t, cell.Config{}, func(t *testing.T, p *cell.Pool) {
		plan := (&fake{}).plan("a")
		denied := &haft.Error{Code: haft.CodeDenied, Message: "no"}
		plan.Run = func(_ context.Context, spec sandbox.Spec) (sandbox.Exit, error) {
			return sandbox.Exit{}, errors.Join(denied, spec.Channel.Close())
		}
		plan.Boot = func(*sandbox.Pipe) error { return io.EOF }
		for range 2 {
			if _, err := p.Take(t.Context(), plan); haft.CodeOf(err) != haft.CodeDenied {
				t.Errorf("Take = %v, want the provider's refusal", err)
			}
		}
	})
}

// Who waits for a cell hears at once that its run is over, also if the provider did not
// get as far as to close the channel: Boot would wait for as long as it may.
func TestPool_a_run_that_is_over_is_not_waited_for(t *testing.T) {
	inBubble(t, cell.Config{Boot: time.Hour}, func(t *testing.T, p *cell.Pool) {
		plan := (&fake{}).plan("a")
		plan.Run = func(context.Context, sandbox.Spec) (sandbox.Exit, error) {
			return sandbox.Exit{}, &haft.Error{Code: haft.CodeDenied, Message: "no"}
		}
		plan.Boot = func(conn *sandbox.Pipe) error {
			_, err := conn.Read(make([]byte, 1))
			return err
		}
		began := time.Now()
		if _, err := p.Take(t.Context(), plan); haft.CodeOf(err) != haft.CodeDenied || time.Since(began) > time.Minute {
			t.Errorf("Take = %v after %v, want the provider's refusal at once", err, time.Since(began))
		}
	})
}

// A call that takes a cell has the processor first: the replacement is not begun
// at once, unless none is left.
func TestPool_replaces_after_a_moment(t *testing.T) {
	inBubble(t, cell.Config{Least: 2}, func(t *testing.T, p *cell.Pool) {
		f := &fake{}
		plan := f.plan("a")
		take(t, p, plan).Release(false)
		time.Sleep(time.Second)
		started := f.started.Load()
		first := take(t, p, plan)
		synctest.Wait()
		if n := f.started.Load(); n != started {
			t.Errorf("%d cells were started while one was still idle", n-started)
		}
		second := take(t, p, plan)
		synctest.Wait()
		if n := f.started.Load(); n == started {
			t.Error("none was started though none was left")
		}
		first.Release(false)
		second.Release(false)
		time.Sleep(time.Second)
		if n := p.Idle(plan.Key); n != 2 {
			t.Errorf("%d cells idle, want 2", n)
		}
	})
}

func TestPool_drop_empties_a_key(t *testing.T) {
	inBubble(t, cell.Config{}, func(t *testing.T, p *cell.Pool) {
		f := &fake{}
		a, b := f.plan("a"), f.plan("b")
		busy := take(t, p, a)
		take(t, p, b).Release(false)
		time.Sleep(time.Second)
		p.Drop(func(k cell.Key) bool { return k.Tenant == "a" })
		synctest.Wait()
		if p.Idle(a.Key) != 0 || p.Idle(b.Key) != 2 {
			t.Errorf("idle a=%d b=%d, want 0 and 2", p.Idle(a.Key), p.Idle(b.Key))
		}
		select {
		case <-busy.Ended():
			t.Error("the cell in use was ended")
		default:
		}
		busy.Release(false)
	})
}

func TestPool_total_is_a_bound_and_the_idlest_gives_way(t *testing.T) {
	inBubble(t, cell.Config{Least: 2, Total: 4, Idle: time.Hour}, func(t *testing.T, p *cell.Pool) {
		f := &fake{}
		for _, tenant := range []string{"a", "b", "c"} {
			take(t, p, f.plan(tenant)).Release(false)
			time.Sleep(time.Second)
		}
		synctest.Wait()
		sum := 0
		for _, tenant := range []string{"a", "b", "c"} {
			sum += p.Idle(cell.Key{Tenant: tenant})
		}
		if sum > 4 || p.Idle(cell.Key{Tenant: "c"}) != 2 {
			t.Errorf("%d idle in all, want at most 4; %d of the last key, want 2", sum,
				p.Idle(cell.Key{Tenant: "c"}))
		}
	})
}

func TestPool_a_cell_that_dies_idle_is_not_handed_out(t *testing.T) {
	inBubble(t, cell.Config{}, func(t *testing.T, p *cell.Pool) {
		f := &fake{}
		plan := f.plan("a")
		die := make(chan struct{})
		run := plan.Run
		plan.Run = func(ctx context.Context, spec sandbox.Spec) (sandbox.Exit, error) {
			ctx, cancel := context.WithCancel(ctx)
			defer cancel()
			stop := make(chan struct{})
			defer close(stop)
			go func() {
				select {
				case <-die:
					cancel()
				case <-stop:
				}
			}()
			return run(ctx, spec)
		}
		take(t, p, plan).Release(false)
		time.Sleep(time.Second)
		close(die)
		synctest.Wait()
		if n := p.Idle(plan.Key); n != 0 {
			t.Errorf("%d dead cells idle", n)
		}
	})
}

// A cell that is ended for what it does while it is idle is not handed out, and the
// plan hears of it.
func TestPool_a_restless_cell_is_not_idle(t *testing.T) {
	inBubble(t, cell.Config{}, func(t *testing.T, p *cell.Pool) {
		f := &fake{}
		f.restless.Store(true)
		plan := f.plan("a")
		var spoilt atomic.Int32
		plan.Spoilt = func() { spoilt.Add(1) }
		take(t, p, plan).Release(false) // which starts one for itself, and others to be idle
		synctest.Wait()
		if n := p.Idle(plan.Key); n != 0 || spoilt.Load() == 0 {
			t.Errorf("%d restless cells are idle, the plan heard of %d", n, spoilt.Load())
		}
	})
}

func TestPool_take_ends_with_its_context(t *testing.T) {
	inBubble(t, cell.Config{}, func(t *testing.T, p *cell.Pool) {
		f := &fake{slow: time.Hour}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		plan := f.plan("a")
		plan.Warm = nil
		began := time.Now()
		done := make(chan error)
		go func() {
			_, err := p.Take(ctx, plan)
			done <- err
		}()
		// The fake's boot cannot be interrupted, unlike a read from the channel.
		if err := <-done; !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Take = %v after %v, want the deadline", err, time.Since(began))
		}
	})
}

func TestPool_reuse_gives_the_same_cell_again(t *testing.T) {
	inBubble(t, cell.Config{}, func(t *testing.T, p *cell.Pool) {
		f := &fake{}
		plan := f.plan("a")
		plan.Reuse = true
		first := take(t, p, plan)
		first.Begin(io.Discard, io.Discard)
		first.Release(true)
		second := take(t, p, plan)
		if second != first || !second.Hit {
			t.Error("the second call got another cell")
		}
		second.Release(false)
		if third := take(t, p, plan); third == first {
			t.Error("a cell that was ended came back")
		} else {
			third.Release(false)
		}
	})
}

func TestPool_close_ends_everything(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := cell.New(context.Background(), cell.Config{Least: 3})
		f := &fake{}
		busy := take(t, p, f.plan("a"))
		time.Sleep(time.Second)
		p.Close()
		if n := f.live.Load(); n != 0 {
			t.Errorf("%d runs are left", n)
		}
		<-busy.Ended()
		busy.Release(false)
		if _, err := p.Take(t.Context(), f.plan("a")); !errors.Is(err, cell.ErrClosed) {
			t.Errorf("Take = %v, want ErrClosed", err)
		}
		p.Close()
	})
}

func TestPool_hammer(t *testing.T) {
	f := &fake{}
	p := cell.New(t.Context(), cell.Config{Most: 4, Total: 6, Starting: 4, Idle: time.Millisecond})
	var wg sync.WaitGroup
	for i := range 16 {
		wg.Go(func() {
			plan := f.plan(string(rune('a' + i%5)))
			plan.Reuse = i%4 == 0
			plan.Key.Tool = map[bool]string{true: "reused"}[plan.Reuse]
			for n := range 200 {
				c, err := p.Take(t.Context(), plan)
				if err != nil {
					t.Errorf("Take: %v", err)
					return
				}
				c.Begin(io.Discard, io.Discard)
				if n%7 == 0 {
					c.Cancel(errors.New("stop"))
				}
				c.Release(n%3 == 0)
				if n%50 == 0 {
					p.Drop(func(k cell.Key) bool { return k.Tenant == "b" })
				}
			}
		})
	}
	wg.Wait()
	p.Close()
	if f.live.Load() != 0 || f.started.Load() != f.gone.Load() {
		t.Errorf("%d started, %d gone, %d alive", f.started.Load(), f.gone.Load(), f.live.Load())
	}
}

// dial has a run's egress serve one end of a pipe and returns the other.
func dial(spec sandbox.Spec) net.Conn {
	near, far := net.Pipe()
	go spec.ServeEgress(context.Background(), far)
	return near
}
