package session

import (
	"context"
	"errors"
	"testing"
)

// While a context is made, those who want to end or interrupt one wait no longer than they want.
func TestSession_contexts_are_not_waited_for_without_end(t *testing.T) {
	s := &Session{ctx: t.Context(), making: make(timedMutex, 1)}
	if err := s.making.take(t.Context()); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for name, do := range map[string]func(context.Context, string) error{
		"EndContext": s.EndContext, "Interrupt": s.Interrupt,
	} {
		if err := do(ctx, "python"); !errors.Is(err, context.Canceled) {
			t.Errorf("%s = %v", name, err)
		}
	}
}
