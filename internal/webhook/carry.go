package webhook

import (
	"context"
	"errors"
	"sync"
	"time"

	"haft"
	"haft/internal/event"
	"haft/internal/store"
)

// pageSize is how many events are looked at before a webhook moves on.
const pageSize = 100

// keepEvery is how often the place of a webhook is kept if nothing was for it.
const keepEvery = 10 * time.Second

// A round is one run of a subscriber: the webhook as it is now, which the subscribers of
// single calls change.
type round struct {
	n      *Sender
	secret string

	mu   sync.Mutex
	hook haft.Webhook
	dead []haft.DeadLetter
	// stale says that another process may have moved the webhook on.
	stale bool
}

// carry sends the events of one webhook until ctx ends or it is disabled.
func (n *Sender) carry(ctx context.Context, w store.Subscription) {
	secret, err := n.unseal(w.ID, w.Secret)
	if err != nil {
		n.cfg.Logger.Error("the secret of a webhook cannot be read: nothing is sent", "webhook", w.ID, "org", w.Org,
			"error", err)
		<-ctx.Done() // until it is changed, or the process ends
		return
	}
	r := &round{n: n, secret: secret, hook: w.Webhook}
	wake, unwatch := n.watch(ctx, w.Org)
	defer unwatch()
	defer func() { // so that another process need not wait for the end of the lease
		if _, err := n.store.Webhooks.LeaseWebhook(context.WithoutCancel(ctx), w.ID, n.cfg.Owner, 0); err != nil {
			n.cfg.Logger.Info("the lease of a webhook is not given back", "webhook", w.ID, "error", err)
		}
	}()
	kept := time.Now()
	for ctx.Err() == nil && !r.hook.Disabled {
		more, err := r.page(ctx, &kept)
		if err != nil && ctx.Err() == nil {
			n.cfg.Logger.Warn("a webhook cannot go on for now", "webhook", w.ID, "org", w.Org, "error", err)
			more = false
		}
		if more {
			continue
		}
		select {
		case <-wake:
		case <-time.After(n.cfg.Poll):
		case <-ctx.Done():
		}
	}
}

// watch returns a channel that gets a value when something happened in an organisation.
func (n *Sender) watch(ctx context.Context, org string) (<-chan struct{}, func()) {
	wake := make(chan struct{}, 1)
	if n.cfg.Watch == nil {
		return wake, func() {}
	}
	ctx, stop := context.WithCancel(ctx)
	var watching sync.WaitGroup
	watching.Go(func() {
		for ctx.Err() == nil {
			for _, err := range n.cfg.Watch(ctx, event.Filter{Org: org}, -1) {
				select {
				case wake <- struct{}{}:
				default:
				}
				if err != nil {
					break // too slow, or the end of all; the log has what was missed
				}
			}
			select {
			case <-time.After(n.cfg.Poll):
			case <-ctx.Done():
			}
		}
	})
	return wake, func() { stop(); watching.Wait() }
}

// page deals with the next events, and reports whether there may be more.
func (r *round) page(ctx context.Context, kept *time.Time) (more bool, err error) {
	n := r.n
	if err := r.lease(ctx); err != nil || r.stale {
		return false, err
	}
	events, err := n.store.Events.EventsAfter(ctx, event.Filter{Org: r.hook.Org}, r.hook.Position, pageSize)
	if errors.Is(err, event.ErrLost) {
		n.cfg.Logger.Error("a webhook was away for longer than events are kept: some are not sent", "webhook",
			r.hook.ID, "org", r.hook.Org)
		events, err = n.store.Events.EventsAfter(ctx, event.Filter{Org: r.hook.Org}, 0, pageSize)
	}
	if err != nil || len(events) == 0 {
		return false, err
	}
	wanted := r.sort(events)
	if len(wanted) == 0 && time.Since(*kept) < keepEvery && len(events) < pageSize {
		r.hook.Position = events[len(events)-1].Cursor
		return true, nil
	}
	// No other process may begin while this goes on.
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	var renewing sync.WaitGroup
	renewing.Go(func() { r.renew(ctx, stop) })
	whole := r.send(ctx, wanted)
	stop()
	renewing.Wait()
	r.mu.Lock()
	defer r.mu.Unlock()
	if whole {
		r.hook.Position = events[len(events)-1].Cursor
	} else if !r.hook.Disabled {
		r.stale = true
		return false, nil
	}
	*kept = time.Now()
	dead := r.dead
	r.dead = nil
	if err := n.store.Webhooks.MoveWebhook(context.WithoutCancel(ctx), n.cfg.Owner, r.hook, dead); err != nil {
		r.stale = true
		return false, err
	}
	return len(events) == pageSize || len(wanted) > 0, nil
}

// lease takes the lease of the webhook, and reads its position again if another process may
// have moved it. The round stays stale if another process has the lease.
func (r *round) lease(ctx context.Context) error {
	n := r.n
	mine, err := n.store.Webhooks.LeaseWebhook(ctx, r.hook.ID, n.cfg.Owner, n.cfg.Lease)
	if err != nil || !mine {
		r.stale = true
		return err
	}
	if !r.stale {
		return nil
	}
	w, err := n.store.Webhooks.Webhook(ctx, r.hook.Org, r.hook.ID)
	if err != nil {
		return err
	}
	r.hook, r.dead, r.stale = w.Webhook, nil, false
	return nil
}

// renew keeps the lease until ctx ends, and ends everything if it is lost.
func (r *round) renew(ctx context.Context, stop context.CancelFunc) {
	tick := time.NewTicker(r.n.cfg.Lease / 3)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			mine, err := r.n.store.Webhooks.LeaseWebhook(ctx, r.hook.ID, r.n.cfg.Owner, r.n.cfg.Lease)
			if err == nil && !mine {
				stop()
				return
			}
		case <-ctx.Done():
			return
		}
	}
}

// sort returns the events that the webhook is for, by call, each in order.
func (r *round) sort(events []haft.Event) [][]haft.Event {
	var calls [][]haft.Event
	place := map[haft.CallID]int{}
	for _, e := range events {
		if !r.hook.Wants(e) {
			continue
		}
		i, ok := place[e.Call]
		if !ok {
			i = len(calls)
			place[e.Call] = i
			calls = append(calls, nil)
		}
		calls[i] = append(calls[i], e)
	}
	return calls
}

// send sends the events of several calls, some at once, and reports whether all
// are received or dead.
func (r *round) send(ctx context.Context, calls [][]haft.Event) bool {
	next := make(chan []haft.Event)
	var senders sync.WaitGroup
	var mu sync.Mutex
	whole := true
	for range min(r.n.cfg.PerHook, len(calls)) {
		senders.Go(func() {
			for events := range next {
				for _, e := range events {
					if !r.deliver(ctx, e) {
						mu.Lock()
						whole = false
						mu.Unlock()
						break
					}
				}
			}
		})
	}
	for _, events := range calls {
		next <- events
	}
	close(next)
	senders.Wait()
	return whole
}
