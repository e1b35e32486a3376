package limit

import (
	"container/heap"
	"context"
	"errors"
	"fmt"
	"iter"
	"math"
	"slices"
	"sync"
	"time"

	"haft"
)

// settled is after how long without use a state is taken to be kept by the
// caller of Take, so that it can be loaded again.
const settled = 5 * time.Minute

// quotas has the states of rates and quotas, in memory.
type quotas struct {
	load func(ctx context.Context, keys []string) ([]State, error)
	most int

	mu      sync.Mutex
	entries map[string]*entry
	order   ordered[*entry] // of entries: which may be forgotten first
	loads   map[string]*load
}

// A load is a running load of states. All fields but done are for the callers that waited for
// it.
type load struct {
	done chan struct{}
	err  error
	// left: the loader did not wait for the end, so that another caller has to.
	left bool
}

// Take takes one from each of the rates and quotas of ask, at the given time, or
// nothing from any. It returns their states, to be kept.
//
// If there is too little, the error is a [haft.CodeRateLimited] whose RetryAfter
// is exactly when there will be enough, if no other call takes it. It is 0 if there
// never will be. If the states cannot be loaded, or there are more keys in use
// than the limiter may remember, it is a [haft.CodeUnavailable].
func (l *Limiter) Take(ctx context.Context, ask Ask, now time.Time) ([]State, error) {
	if len(ask.Rates)+len(ask.Windows)+len(ask.Quotas) == 0 {
		return nil, nil
	}
	if err := ask.check(); err != nil {
		return nil, err
	}
	b := &l.quotas
	b.mu.Lock()
	defer b.mu.Unlock()
	at := now.UnixMicro()
	for {
		missing := b.missing(ask)
		if len(missing) == 0 {
			return b.take(ask, at)
		}
		if b.load == nil {
			for _, key := range missing {
				if err := b.add(&entry{key: key, fresh: true, free: math.MaxInt64}, at); err != nil {
					return nil, err
				}
			}
			continue
		}
		if err := b.fetch(ctx, missing, at); err != nil {
			return nil, err
		}
	}
}

// missing returns the keys of ask that are not in memory.
func (b *quotas) missing(ask Ask) []string {
	var keys []string
	for key := range ask.keys() {
		if b.entries[key] == nil {
			keys = append(keys, key)
		}
	}
	return keys
}

// fetch loads the keys that no other call is loading, or else waits for one that is being
// loaded. mu is held, but not while it waits.
func (b *quotas) fetch(ctx context.Context, keys []string, at int64) error {
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("wait for the state of a limit: %w", err)
	}
	var mine []string
	var theirs *load
	ours := &load{done: make(chan struct{}), err: errors.New("the load did not return")}
	for _, key := range keys {
		switch other := b.loads[key]; other {
		case nil:
			b.loads[key] = ours
			mine = append(mine, key)
		case ours: // the key is there twice
		default:
			theirs = other
		}
	}
	if len(mine) == 0 {
		return b.await(ctx, theirs)
	}
	b.run(ctx, ours, mine, at)
	return ours.err
}

// run loads keys and puts them into memory. If Load panics, the waiting calls get an error.
func (b *quotas) run(ctx context.Context, ours *load, keys []string, at int64) {
	var states []State
	defer func() {
		b.mu.Lock()
		for _, key := range keys {
			delete(b.loads, key)
		}
		if ours.err == nil {
			ours.err = b.keep(keys, states, at)
		} else {
			ours.left = ctx.Err() != nil
			ours.err = unavailable("the state of a limit cannot be read", ours.err, 0)
		}
		close(ours.done)
	}()
	b.mu.Unlock()
	states, ours.err = b.load(ctx, stored(keys))
}

func (b *quotas) await(ctx context.Context, theirs *load) error {
	b.mu.Unlock()
	defer b.mu.Lock()
	select {
	case <-theirs.done:
		if theirs.left {
			return nil // and look again
		}
		return theirs.err
	case <-ctx.Done():
		return fmt.Errorf("wait for the state of a limit: %w", ctx.Err())
	}
}

// keep puts loaded states into memory.
func (b *quotas) keep(keys []string, states []State, at int64) error {
	found := make(map[string]State, len(states))
	for _, s := range states {
		found[s.Key] = s
	}
	for _, key := range keys {
		e := &entry{key: key, fresh: true, free: at + settled.Microseconds()}
		if s, ok := found[key]; ok {
			e.fresh = false
			e.tokens, e.used, e.at = s.Tokens, max(0, s.Used), s.At.UnixMicro()
			if !(e.tokens >= 0) { // not a number, or nonsense
				e.tokens = 0
			}
		}
		e.restore(found)
		if err := b.add(e, at); err != nil {
			return err
		}
	}
	return nil
}

// add remembers e, and forgets another if there are too many.
func (b *quotas) add(e *entry, at int64) error {
	if b.entries[e.key] != nil {
		return nil
	}
	if len(b.entries) >= b.most {
		first := b.order[0]
		if first.free > at {
			return unavailable("there are more limits in use than can be remembered", nil, time.Second)
		}
		heap.Pop(&b.order)
		delete(b.entries, first.key)
	}
	b.entries[e.key] = e
	heap.Push(&b.order, e)
	return nil
}

// take takes from entries that are all there.
func (b *quotas) take(ask Ask, at int64) ([]State, error) {
	if !b.sorted(ask) {
		return nil, invalid("one key is used for a rate and for a quota")
	}
	type before struct {
		e      *entry
		tokens float64
		used   int64
	}
	var few [8]before
	taken := few[:0]
	var short shortage
	for i := range ask.Rates {
		e := b.entries[ask.Rates[i].Key]
		e.refill(&ask.Rates[i], at)
		taken = append(taken, before{e, e.tokens, e.used})
		short.note(&short.rates, e.spend(&ask.Rates[i], at))
	}
	windows, undo := b.begin(ask.Windows, at, &short)
	for i := range ask.Quotas {
		e := b.entries[ask.Quotas[i].Key]
		e.turn(&ask.Quotas[i], at)
		taken = append(taken, before{e, e.tokens, e.used})
		short.note(&short.quotas, e.count(&ask.Quotas[i], at))
	}
	err := short.err()
	if err != nil {
		for i := len(taken) - 1; i >= 0; i-- { // a key may be there twice
			taken[i].e.tokens, taken[i].e.used = taken[i].tokens, taken[i].used
		}
		undo()
	}
	for i := range ask.Windows {
		e := b.entries[ask.Windows[i].Key+windowMark]
		b.release(e, e.idle(&ask.Windows[i]), at)
	}
	for i := range ask.Rates {
		e := taken[i].e
		b.release(e, e.full(&ask.Rates[i]), at)
	}
	for i := range ask.Quotas {
		e := taken[len(ask.Rates)+i].e
		b.release(e, e.end(&ask.Quotas[i]), at)
	}
	if err != nil {
		return nil, err
	}
	states := make([]State, 0, len(taken))
	for i := range taken {
		e := taken[i].e
		if !slices.ContainsFunc(states, func(s State) bool { return s.Key == e.key }) { // a handful
			states = append(states, e.state())
		}
	}
	return append(states, windows...), nil
}

// begin counts a call in each of the windows. It returns the states of what it changed, and how to
// take it back.
func (b *quotas) begin(windows []Window, at int64, short *shortage) (states []State, undo func()) {
	var back []func()
	for i := range windows {
		e := b.entries[windows[i].Key+windowMark]
		e.rewind(at)
		before := slices.Clone(e.spans)
		n, wait := e.begin(&windows[i], at)
		short.note(&short.rates, wait)
		states = append(states, State{Key: spanKey(e.key, n), Used: e.spans[n].calls,
			At: time.UnixMicro(e.spans[n].last).UTC()})
		back = append(back, func() { e.spans = before })
	}
	return states, func() {
		for _, f := range slices.Backward(back) { // a key may be there twice
			f()
		}
	}
}

// sorted reports whether each key is that of a rate or that of a quota.
func (b *quotas) sorted(ask Ask) bool {
	for key, kind := range ask.keys() {
		if !b.entries[key].is(kind) {
			return false
		}
	}
	return true
}

// keys yields the keys of the rates and quotas.
func (a *Ask) keys() iter.Seq2[string, kind] {
	return func(yield func(string, kind) bool) {
		for i := range a.Rates {
			if !yield(a.Rates[i].Key, rateKind) {
				return
			}
		}
		for i := range a.Windows {
			if !yield(a.Windows[i].Key+windowMark, windowKind) {
				return
			}
		}
		for i := range a.Quotas {
			if !yield(a.Quotas[i].Key, quotaKind) {
				return
			}
		}
	}
}

// release notes when e may be forgotten: when it is as if it were fresh, or when
// it can be loaded again.
func (b *quotas) release(e *entry, free, at int64) {
	if b.load != nil {
		free = min(free, at+settled.Microseconds())
	}
	e.free = free
	heap.Fix(&b.order, e.index)
}

// A shortage is what there is too little of, and for how long, in microseconds.
type shortage struct {
	rates, quotas bool
	never         bool
	wait          int64
}

// note notes for how long there is too little, and where: 0 means that there is enough, and
// less than 0 that it will not change.
func (s *shortage) note(where *bool, wait int64) {
	*where = *where || wait != 0
	s.never = s.never || wait < 0
	s.wait = max(s.wait, wait)
}

func (s *shortage) err() error {
	if !s.rates && !s.quotas {
		return nil
	}
	e := &haft.Error{
		Code: haft.CodeRateLimited, Message: "too many calls in a short time",
		RetryAfter: haft.Millis(time.Duration(s.wait) * time.Microsecond),
	}
	if s.quotas {
		e.Message = "the quota of calls is used up"
	}
	if s.never {
		e.RetryAfter = 0
	}
	return e
}

func unavailable(message string, cause error, wait time.Duration) error {
	return &haft.Error{Code: haft.CodeUnavailable, Message: message, RetryAfter: haft.Millis(wait), Err: cause}
}
