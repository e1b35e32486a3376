package event

import (
	"context"
	"iter"
	"time"

	"haft"
)

// lastEvent is how long to wait for the last event of a call that has its result: the
// event is written before the result is returned, and only has to be read.
const lastEvent = 2 * time.Second

// Stream makes a call and passes its events, which watch yields, to show in order, as they come. It
// reports whether all of them were shown.
func Stream(ctx context.Context, c haft.Call, call func(context.Context, haft.Call) (*haft.Result, error),
	watch func(context.Context, Filter) iter.Seq2[haft.Event, error], show func(haft.Event)) (*haft.Result, bool,
	error) {
	if c.ID == "" {
		c.ID = haft.NewCallID()
	}
	watching, cancel := context.WithCancel(ctx)
	defer cancel()
	done := make(chan bool, 1)
	go func() {
		shown := false
		defer func() { done <- shown }()
		// No event can be missed: the id is new, so it has no events yet.
		for ev, err := range watch(watching, Filter{Org: c.Principal.Org, Call: c.ID}) {
			if err != nil {
				return
			}
			show(ev)
			if ev.Type == haft.EventCompleted || ev.Type == haft.EventApproval {
				shown = true
				return
			}
		}
	}()
	res, err := call(ctx, c)
	if err == nil {
		select {
		case shown := <-done:
			return res, shown, nil
		case <-time.After(lastEvent):
		}
	}
	cancel()
	return res, <-done, err
}
