package soak

import (
	"fmt"
	"path/filepath"
	"sync"
	"syscall"
	"time"
)

// load has n calls accepted that wait in their tool or for their turn, and a few
// whose callers wait, after some that have ended, whose records must stay as they are.
func load(w *world, n int) {
	w.t.Helper()
	w.submit(w.nodes[0], "early", max(20, n/20), false)
	if !until(w.ctx, w.history.Limit, func() bool { return w.open() == 0 }) {
		w.t.Fatal("calls do not end though nothing is broken")
	}
	w.must(w.sweep(w.nodes[0]))
	w.tool.closeGate()
	w.background(func() {
		w.crowd(4, func(i int, who tenant) { w.call(w.nodes[0], who, KindCall, fmt.Sprintf("waited-%d", i), true) })
	})
	w.submit(w.nodes[0], "held", n, true)
	w.running(min(n, pace*len(w.tenants)))
}

// running waits until so many runs have come to the gate.
func (w *world) running(n int) {
	w.t.Helper()
	if !until(w.ctx, w.history.Limit, func() bool { return int(w.tool.held.Load()) >= n }) {
		w.t.Fatalf("%d calls run, want %d", w.tool.held.Load(), n)
	}
}

// noFault shows that the harness is content with a system on which nothing breaks.
func noFault(w *world, n int) {
	load(w, n)
	for i, other := range w.nodes {
		w.submit(other, "other"+other.name, n/4, true)
		w.crowd(n/10, func(j int, who tenant) { w.chain(other, who, fmt.Sprintf("chain%d-%d", i, j)) })
	}
	w.tool.openGate()
	w.crowd(n/10, func(i int, who tenant) { w.call(w.nodes[0], who, KindCall, fmt.Sprintf("quick-%d", i), false) })
}

// kill kills the only server with calls running and waiting, once.
func kill(w *world, n int) {
	load(w, n)
	w.kill()
}

// killOften kills the server again while it recovers and others come in.
func killOften(w *world, n int) {
	load(w, n)
	for round := range 3 {
		w.kill()
		w.submit(w.nodes[0], fmt.Sprintf("round%d", round), n/10, true)
	}
	w.kill()
}

// kill kills the first server, starts it again, and has clients call meanwhile, some
// of whom get no answer.
func (w *world) kill() {
	n := w.nodes[0]
	round := len(w.history.Faults)
	before := w.answered()
	w.fault("kill", func() {
		var group sync.WaitGroup
		group.Go(func() { w.submit(n, fmt.Sprintf("across%d", round), 80, false) })
		until(w.ctx, patience, func() bool { return w.answered() >= before+5 })
		w.must(n.signal(syscall.SIGKILL))
		group.Wait()
		w.must(n.start(w.ctx))
	})
}

// killChains kills the only server with chains that have begun.
func killChains(w *world, n int) {
	w.tool.closeGate()
	w.crowd(n, func(i int, who tenant) { w.chain(w.nodes[0], who, fmt.Sprintf("chain-%d", i)) })
	w.running(min(n, pace))
	w.must(w.sweep(w.nodes[0]))
	w.kill()
}

// killOne kills one of two servers and starts it again. The other one takes over.
func killOne(w *world, n int) {
	load(w, n)
	w.kill()
}

// pause stops one of two servers until the other one takes over from it. Then it
// goes on, as after a suspended machine, and does not know that it was given up.
func pause(w *world, n int) {
	load(w, n)
	a, b := w.nodes[0], w.nodes[1]
	w.fault("pause", func() {
		w.must(a.signal(syscall.SIGSTOP))
		w.tool.openGate()
		before := len(w.tool.seen())
		if !until(w.ctx, 2*time.Minute, func() bool { return len(w.tool.seen()) > before }) {
			w.t.Error("the other server never takes over")
		}
		w.must(w.sweep(b))
		w.must(a.signal(syscall.SIGCONT))
	})
}

// fullDisk takes the space away while calls run and come in.
func fullDisk(w *world, n int) {
	load(w, n)
	w.fault("full disk", func() {
		free := fill(w.t, filepath.Join(w.dir, "data"))
		w.during(n, 3*time.Second)
		free()
	})
}

// outage stops the database for a while.
func outage(lasts time.Duration) func(w *world, n int) {
	return func(w *world, n int) {
		load(w, n)
		w.fault("Postgres stopped", func() {
			w.must(w.db.tell("stop"))
			w.during(n, lasts)
			w.must(w.db.tell("start"))
		})
	}
}

// outageRestart stops the database for a while and then restarts both servers.
func outageRestart(w *world, n int) {
	outage(8*time.Second)(w, n)
	w.fault("restart", func() {
		for _, server := range w.nodes {
			if err := server.signal(stop); err != nil {
				w.t.Logf("stop: %v", err)
			}
			w.must(server.start(w.ctx))
		}
	})
}

// during lets running calls end and others come in while something is broken.
func (w *world) during(n int, lasts time.Duration) {
	end := time.Now().Add(lasts)
	w.tool.openGate()
	w.submit(w.nodes[0], "during", max(10, n/10), false)
	until(w.ctx, time.Until(end), func() bool { return false })
}

// restart tells the server to stop while calls wait, and starts it again.
func restart(w *world, n int) {
	load(w, n)
	w.fault("restart", func() {
		done := make(chan error, 1)
		go func() { done <- w.nodes[0].signal(stop) }()
		w.leaving()
		w.tool.openGate()
		if err := <-done; err != nil {
			w.t.Logf("stop: %v", err)
		}
		w.must(w.nodes[0].start(w.ctx))
	})
}

// leaving waits until the server takes no more requests.
func (w *world) leaving() {
	w.t.Helper()
	if !until(w.ctx, patience, func() bool {
		return get(w.ctx, w.nodes[0], w.tenants[0], "/v1/whoami", new(any)) != nil
	}) {
		w.t.Error("the server still takes requests after it was told to stop")
	}
}

// drain tells the server to stop with calls running that take longer than it waits.
func drain(w *world, n int) {
	load(w, n)
	w.fault("drain", func() {
		if err := w.nodes[0].signal(stop); err != nil {
			w.t.Logf("stop: %v", err)
		}
		w.must(w.nodes[0].start(w.ctx))
	})
}

// overload submits more calls than may wait, and has callers wait at the same time.
func overload(w *world, n int) {
	w.tool.closeGate()
	waiters := func(name string) func() {
		return func() {
			w.crowd(16, func(i int, who tenant) {
				w.call(w.nodes[0], who, KindCall, fmt.Sprintf("%s-%d", name, i),
					true)
			})
		}
	}
	w.background(waiters("first"))
	w.submit(w.nodes[0], "flood", n, true)
	w.background(waiters("last"))
}
