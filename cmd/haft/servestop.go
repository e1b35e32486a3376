package main

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"os/signal"
	"time"

	"haft/app"
)

// readyWait is the default of --ready-wait: $HAFT_READY_WAIT, else nothing for a person
// at a terminal, who sends no requests through a load balancer, else five seconds.
func readyWait(std streams) time.Duration {
	usual := 5 * time.Second
	if isTerminal(std.out) {
		usual = 0
	}
	return envDuration("HAFT_READY_WAIT", usual)
}

// sameSignal is how soon after the first signal another one is the same: timeout(1) and
// some supervisors send it to the process and then to its group.
const sameSignal = 500 * time.Millisecond

// stop ends a server after the first signal: readiness goes down while everything is
// still answered, so that load balancers send elsewhere; then the listener closes, and
// calls in flight get the rest of --drain. A second signal ends both waits at once. The
// caller closes sys, which hands over the calls that have not ended. Again has the signals,
// also the first: whoever listened only from now on could be killed by the same signal.
func (s *serving) stop(ctx context.Context, log *slog.Logger, sys *app.Server, again chan os.Signal) error {
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	told := time.Now()
	go func() {
		for {
			select {
			case <-again:
				if time.Since(told) < sameSignal {
					continue
				}
				log.Warn("told to stop again: calls in flight are ended now; the next signal kills the server")
				signal.Stop(again) // main has restored the default, which is to die
				cancel()
			case <-ctx.Done():
			}
			return
		}
	}()
	log.Info("stopping: not ready any more", "ready_wait", s.readyWait, "drain", s.drain)
	s.manager(ctx, log, "STOPPING=1\nSTATUS=waiting for calls to end")
	sys.HTTP.Leave()
	select {
	case <-time.After(s.readyWait):
	case <-ctx.Done():
	}
	log.Info("stopping: the listener closes")
	end, stopWaiting := context.WithTimeout(ctx, s.drain)
	defer stopWaiting()
	// What waits is others' from now on. Shutdown comes before Drain, which refuses calls,
	// also those that a call in flight makes.
	sys.Engine.HandOver(end)
	return errors.Join(sys.HTTP.Shutdown(end), sys.Drain(end))
}
