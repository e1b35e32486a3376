package gvisor

import (
	"context"
	"errors"
	"testing"
	"time"

	"haft"
)

// Who asks while a trial hangs waits as long as it wants to, and no longer. A failed trial is believed for a while.
func TestProve_waits_for_the_trial_of_others(t *testing.T) {
	hangs := &trial{over: make(chan struct{})}
	p := &Provider{trial: hangs}
	gone, cancel := context.WithCancelCause(t.Context())
	cancel(errors.New("the caller has gone"))
	if err := p.prove(gone); err == nil || err.Error() != "the caller has gone" {
		t.Errorf("a caller that has gone gets %v", err)
	}
	answers := make(chan error, 2)
	for range cap(answers) {
		go func() { answers <- p.prove(t.Context()) }()
	}
	hangs.err, hangs.ended = &haft.Error{Code: haft.CodeUnavailable, Message: "it does not run"}, time.Now()
	close(hangs.over)
	for range cap(answers) {
		if err := <-answers; haft.CodeOf(err) != haft.CodeUnavailable {
			t.Errorf("who waited gets %v", err)
		}
	}
	if err := p.prove(t.Context()); haft.CodeOf(err) != haft.CodeUnavailable || p.trial != hangs {
		t.Errorf("right after a trial that failed, another one says %v", err)
	}
}
