package cell_test

import (
	"testing"
	"testing/synctest"
	"time"

	"haft/sandbox"
	"haft/sandbox/cell"
)

// A call that finds no cell has the processors: others are made when it has ended, or after a moment.
func TestPool_makes_no_cells_beside_a_call_that_found_none(t *testing.T) {
	inBubble(t, cell.Config{}, func(t *testing.T, p *cell.Pool) {
		f := &fake{slow: 20 * time.Millisecond}
		c := take(t, p, f.plan("a"))
		if n := f.started.Load(); n != 1 {
			t.Errorf("%d cells started, want that of the call", n)
		}
		c.Release(false)
		synctest.Wait()
		if n := f.started.Load(); n != 3 {
			t.Errorf("%d cells started after the call, want two more", n)
		}
		long := take(t, p, f.plan("b"))
		defer long.Release(false)
		time.Sleep(time.Second)
		synctest.Wait()
		if n := p.Idle(f.plan("b").Key); n != 2 {
			t.Errorf("%d cells idle beside a long call, want 2", n)
		}
	})
}

// A cell that a call waits for goes to it as it is: to warm it takes as long as the call.
func TestPool_warms_no_cell_that_a_call_waits_for(t *testing.T) {
	inBubble(t, cell.Config{Starting: 1}, func(t *testing.T, p *cell.Pool) {
		f := &fake{slow: 20 * time.Millisecond}
		plan := f.plan("a")
		warmed := 0
		plan.Warm = func(*sandbox.Pipe) error {
			time.Sleep(time.Second) // of the bubble's clock
			warmed++
			return nil
		}
		take(t, p, plan).Release(false)
		time.Sleep(10 * time.Second)
		for range 2 { // the idle ones
			defer take(t, p, plan).Release(false)
		}
		synctest.Wait()
		began := time.Now()
		c := take(t, p, plan)
		defer c.Release(false)
		if took := time.Since(began); took > 100*time.Millisecond || c.Hit {
			t.Errorf("a call waited for %v, hit: %v, want a cell as soon as it is up", took, c.Hit)
		}
		time.Sleep(10 * time.Second)
		synctest.Wait()
		if idle := p.Idle(plan.Key); idle < 2 || warmed != 2+idle {
			t.Errorf("%d cells are idle, %d were warmed, 2 of them are in use", idle, warmed)
		}
	})
}

func TestPool_drop_ends_cells_that_are_being_made(t *testing.T) {
	inBubble(t, cell.Config{}, func(t *testing.T, p *cell.Pool) {
		f := &fake{}
		plan := f.plan("a")
		plan.Warm = func(*sandbox.Pipe) error {
			time.Sleep(time.Second) // of the bubble's clock
			return nil
		}
		take(t, p, plan).Release(false)
		synctest.Wait()
		if n := f.live.Load(); n != 2 {
			t.Errorf("%d cells are being made, want 2", n)
		}
		p.Drop(func(cell.Key) bool { return true })
		synctest.Wait()
		if n := f.live.Load(); n != 0 {
			t.Errorf("%d cells of a dropped key live", n)
		}
	})
}
