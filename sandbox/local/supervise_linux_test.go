package local

import (
	"os"
	"os/exec"
	"testing"
	"time"

	"haft"
	"haft/sandbox"
	"haft/sandbox/local/internal/cgroup"
)

// idleGuard supervises an idle command that has used too much. Begun says that its call has begun, which
// the guard has not noticed yet.
func idleGuard(t *testing.T, begun bool) (g *guard, killed *bool) {
	t.Helper()
	tree := &cgroup.Tree{}
	group, err := tree.New("none", cgroup.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	begin := make(chan struct{})
	if begun {
		close(begin)
	}
	killed = new(bool)
	p := &Provider{machine: machine{tree: tree}}
	return &guard{
		r:     &run{p: p, group: group, spec: &sandbox.Spec{Limits: haft.DefaultLimits()}},
		s:     subject{kill: func() { *killed = true }, startMeter: func(*watch) {}},
		phase: idle, base: -2 * idleCPU, begin: begin, meter: time.NewTimer(time.Hour),
	}, killed
}

// A command is not ended for what it does in its call, though that is noticed before the beginning of the
// call is: by the host, or by the init.
func TestGuard_limits_of_an_idle_command(t *testing.T) {
	check := func(g *guard) { g.checkMeters(g.r.group.ReadCPU()) }
	for _, c := range []struct {
		name  string
		begun bool
		do    func(*guard)
		ends  bool
	}{
		{"the host, before the call", false, check, true},
		{"the host, after its beginning", true, check, false},
		{"the init, before the call", false,
			func(g *guard) { g.handle(message{Kind: msgLimit, Limit: string(haft.FailPIDs), Idle: true}) }, true},
		{"the init, after its beginning", true,
			func(g *guard) { g.handle(message{Kind: msgLimit, Limit: string(haft.FailPIDs), Idle: true}) }, false},
		{"the init, late", true, func(g *guard) {
			g.start()
			g.handle(message{Kind: msgLimit, Limit: string(haft.FailPIDs), Idle: true})
		}, false},
		{"the init, in the call", true, func(g *guard) {
			g.start()
			g.handle(message{Kind: msgLimit, Limit: string(haft.FailPIDs)})
		}, true},
		{"the host, when it is being ended", true, func(g *guard) {
			g.setCause(sandbox.CauseCancelled, "")
			check(g)
		}, true},
	} {
		g, killed := idleGuard(t, c.begun)
		if c.do(g); *killed != c.ends || (g.phase == running) == c.ends && g.a.stop != sandbox.CauseLimit {
			t.Errorf("%s: killed %v, want %v; phase %d, cause %q", c.name, *killed, c.ends, g.phase, g.a.stop)
		}
		g.meter.Stop()
	}
}

// A meter that has found an idle command at work goes on by the limits of its call, if that has begun.
func TestMeters_go_on_after_idle(t *testing.T) {
	child := exec.Command("sleep", "60")
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = child.Process.Kill()
		_ = child.Wait() // killed
	}()
	reports := make(chan message, 8)
	ms := newMeters(func(m message) { reports <- m })
	pid := os.Getpid()
	ms.start(pid, &watch{Idle: true, Processes: 1000, CPU: time.Hour, Reap: true})
	for m := range reports {
		if m.Kind != msgLimit {
			continue // it was one process when it was looked at first
		}
		if !m.Idle || m.Limit != string(haft.FailPIDs) {
			t.Fatalf("idle with a child: %+v", m)
		}
		break
	}
	ms.start(pid, &watch{CPU: 1, Reap: true})
	stop := time.After(time.Minute)
	for {
		select {
		case m := <-reports:
			if m.Kind != msgLimit || m.Idle || m.Limit != string(haft.FailCPU) {
				t.Errorf("in its call: %+v", m)
			}
			ms.stop(&message{PID: pid}, true)
			return
		case <-stop:
			t.Fatal("the meter has ended")
		default: // this uses processor time
		}
	}
}
