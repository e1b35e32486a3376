package app

import (
	"context"
	"iter"

	"haft"
	"haft/internal/event"
)

// Stream makes a call and passes its events to show in order, as they come. It reports
// whether all of them were shown.
func (s *Service) Stream(ctx context.Context, c haft.Call, show func(haft.Event)) (*haft.Result, bool, error) {
	watch := func(ctx context.Context, f event.Filter) iter.Seq2[haft.Event, error] { return s.WatchFor(ctx, f, 0) }
	return event.Stream(ctx, c, s.Call, watch, show)
}
