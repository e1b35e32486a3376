package conversation

import (
	"cmp"
	"fmt"
	"math"
	"sync"

	"haft"
	"haft/internal/model"
)

const (
	// maxTokens bounds what a server may say that one answer took.
	maxTokens = 1 << 40
	// minOutput is how many tokens an answer may have at least: some vendors refuse less.
	minOutput = 16
)

// A purse is what a turn may take and what it took. What a turn takes counts for the turn that began it too, so that a
// turn with all that it begins takes no more than it may.
type purse struct {
	up *purse // of the turn that began this one, if it is known here

	mu   sync.Mutex
	most haft.Budget
	used haft.TurnUsage
}

// spend adds what was taken. Time is only that of the turn itself, since turns run beside each other.
func (p *purse) spend(u haft.TurnUsage) {
	for ; p != nil; p, u.Time = p.up, 0 {
		p.mu.Lock()
		t := &p.used
		t.Steps, t.Input, t.Output, t.Cached = t.Steps+u.Steps, t.Input+u.Input, t.Output+u.Output, t.Cached+u.Cached
		t.Cost, t.Time = min(t.Cost, math.MaxInt64-u.Cost)+u.Cost, t.Time+u.Time
		p.mu.Unlock()
	}
}

// total is what was taken so far.
func (p *purse) total() haft.TurnUsage {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.used
}

// time is how long the turn may still work.
func (p *purse) time() haft.Millis {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.most.Time - p.used.Time
}

// left is what may still be taken, or why nothing may. Zero fields have no bound.
func (p *purse) left() (left haft.Budget, end *ending) {
	for ; p != nil; p = p.up {
		p.mu.Lock()
		most, used := p.most, p.used
		p.mu.Unlock()
		if end := exhausted(most, used); end != nil {
			return left, end
		}
		rest := haft.Budget{Steps: most.Steps - used.Steps, Time: most.Time - used.Time}
		if most.Tokens > 0 {
			rest.Tokens = most.Tokens - used.Input - used.Output
		}
		if most.Cost > 0 {
			rest.Cost = most.Cost - used.Cost
		}
		left = lesser(left, rest)
	}
	return left, nil
}

// exhausted returns why a turn may not take more, or nil.
func exhausted(b haft.Budget, u haft.TurnUsage) *ending {
	switch {
	case u.Steps >= b.Steps:
		return limited(haft.StopSteps, fmt.Sprint(b.Steps, " steps"))
	case b.Tokens > 0 && u.Input+u.Output >= b.Tokens:
		return limited(haft.StopTokens, fmt.Sprint(b.Tokens, " tokens"))
	case b.Cost > 0 && u.Cost >= b.Cost:
		return limited(haft.StopCost, fmt.Sprintf("%d.%06d for what it costs", b.Cost/1_000_000, b.Cost%1_000_000))
	case u.Time >= b.Time:
		return timeUp(b)
	}
	return nil
}

// timeUp is the end of a turn that has no time left.
func timeUp(b haft.Budget) *ending { return limited(haft.StopTime, fmt.Sprint(b.Time.D(), " of time")) }

// limited is the end of a turn that took what it may.
func limited(stop haft.StopReason, most string) *ending {
	return &ending{stop: stop, note: "I stopped here: this turn has reached its limit of " + most + "."}
}

// lesser is what two budgets allow both.
func lesser(b, most haft.Budget) haft.Budget {
	return haft.Budget{Steps: within(b.Steps, most.Steps), Tokens: within(b.Tokens, most.Tokens),
		Time: within(b.Time, most.Time), Cost: within(b.Cost, most.Cost)}
}

// within bounds what somebody wants. 0 means nothing in particular, or no bound.
func within[T int | int64 | haft.Millis](wanted, most T) T {
	if wanted <= 0 || most > 0 && wanted > most {
		return most
	}
	return wanted
}

// count adds what a request took, and learns how many tokens the model makes of a text. What the server does not say is
// estimated from the request and from the bytes that the model wrote.
func (r *run) count(req model.Request, used model.Usage, wrote int, step bool) {
	if used.Input > 0 && step {
		r.ratio = min(max(float64(used.Input)/float64(max(size(req), 1)), 0.75), 4)
	} else if used.Input <= 0 {
		used.Input = int(float64(size(req)) * r.ratio)
	}
	if used.Output <= 0 {
		used.Output = (wrote + 3) / 4
	}
	used = model.Usage{Input: min(used.Input, maxTokens), Output: min(used.Output, maxTokens),
		Cached: min(max(used.Cached, 0), maxTokens)}
	u := haft.TurnUsage{Input: used.Input, Output: used.Output, Cached: used.Cached, Cost: r.model.cost(used)}
	if step {
		u.Steps, r.tooLong = 1, false
	}
	r.purse.spend(u)
}

// cost is the price of an answer, in millionths of the unit.
func (m *Model) cost(u model.Usage) int64 {
	cached := min(u.Cached, u.Input)
	micros := (float64(u.Input-cached)*float64(m.Input) + float64(cached)*float64(cmp.Or(m.Cached, m.Input)) +
		float64(u.Output)*float64(m.Output)) / 1_000_000
	return int64(min(micros, math.MaxInt64/2))
}

// affordable is how many tokens an answer may have: most, or what is left of a budget. 0 has no bound.
func (m *Model) affordable(most int, left haft.Budget) int {
	n := within(most, left.Tokens)
	if left.Cost > 0 && m.Output > 0 {
		n = within(n, int(min(float64(left.Cost)/float64(m.Output)*1_000_000, maxTokens))+1)
	}
	if n > 0 && n != most {
		n = max(n, within(most, minOutput))
	}
	return n
}
