package chains

import (
	"context"
	"strconv"
	"testing"
	"time"

	"haft"
)

// TestChainWork_of_one_organisation_does_not_keep_others_waiting: every organisation has a
// chain that goes on, and all are run once.
func TestChainWork_of_one_organisation_does_not_keep_others_waiting(t *testing.T) {
	end, ran := make(chan struct{}), make(chan chainRef, 10*chainsAtOnce)
	w := newChainWork(10*chainsAtOnce, func(f func(context.Context)) bool { go f(t.Context()); return true },
		func(_ context.Context, c chainRef) {
			if c.org == "a" {
				<-end
			}
			ran <- c
		})
	for i := range 2 * chainsAtOnce {
		w.push(chainRef{"a", haft.ChainID("a" + strconv.Itoa(i))})
	}
	for i := range 5 {
		w.push(chainRef{"b", haft.ChainID("b" + strconv.Itoa(i))})
	}
	for range 5 {
		if c := <-ran; c.org != "b" {
			t.Errorf("%s has run first", c.org)
		}
	}
	close(end)
	for range 2 * chainsAtOnce {
		<-ran
	}
	left := func() int {
		w.mu.Lock()
		defer w.mu.Unlock()
		return len(w.queues) + len(w.orgs) + w.workers
	}
	for left() != 0 { // or the test takes too long
		time.Sleep(time.Millisecond) //nolint:forbidigo // the last workers are about to say so
	}
}
