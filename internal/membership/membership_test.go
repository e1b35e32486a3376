package membership_test

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"time"

	"haft/internal/membership"
	"haft/internal/store"
	"haft/sandbox"
)

// lost is a store in which this process was given up.
type lost struct{ membership.Store }

func (lost) Join(context.Context, string) error              { return nil }
func (lost) Beat(context.Context, string) error              { return store.ErrGivenUp }
func (lost) Beats(context.Context) (map[string]int64, error) { return nil, nil }

// What runs in a process that was given up has no time to clean up: others may run it already.
func TestGivenUp_ends_the_term_without_grace(t *testing.T) {
	m := membership.New(t.Context(), membership.Config{Store: lost{}, Beat: time.Hour, DeadAfter: time.Hour,
		Drop: func(string) int { return 0 }, Logger: slog.New(slog.DiscardHandler)})
	if err := m.Join(t.Context(), "p_old"); err != nil {
		t.Fatal(err)
	}
	term, _, done := m.During(t.Context())
	defer done()
	go m.KeepAlive(t.Context())
	m.Hurry()
	<-term.Done()
	if cause := context.Cause(term); !errors.Is(cause, sandbox.ErrNoGrace) || !membership.IsGivenUp(cause) {
		t.Errorf("the cause is %v", cause)
	}
}
