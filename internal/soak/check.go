package soak

import (
	"fmt"
	"slices"
	"time"
)

// A Rule names one promise.
type Rule string

// The rules.
const (
	RuleStuck     Rule = "stuck"      // what was accepted ends
	RuleLate      Rule = "late"       // it does so within the limit after the last fault
	RuleLost      Rule = "lost"       // what was accepted has a record
	RuleTwice     Rule = "twice"      // a call has at most one effect, unless it is idempotent
	RuleNoEffect  Rule = "no effect"  // success means that the tool ran
	RuleUnknown   Rule = "unknown"    // without a fault the end of a call is known
	RuleDropped   Rule = "dropped"    // what was accepted is not refused afterwards
	RuleChanged   Rule = "changed"    // a final record stays as it is, on every server
	RuleRefusal   Rule = "refusal"    // a refusal is 429 or 503 and says when to come back
	RuleRefusedBy Rule = "refused"    // what was refused has no effect and no open record
	RuleOrder     Rule = "order"      // steps of a chain run in order
	RuleChain     Rule = "chain"      // a chain that has ended has ended all its steps
	RuleEventOnce Rule = "event once" // each ended call has exactly one terminal event
	RuleEventGap  Rule = "event gap"  // a reader that comes back misses nothing and gets nothing twice
	RuleAudit     Rule = "audit"      // the audit log is sound
)

// A Violation is one promise that was not kept.
type Violation struct {
	Rule   Rule
	Key    string // of the request
	ID     string // of the call or chain
	Detail string
}

// String shows a violation on one line.
func (v Violation) String() string {
	return fmt.Sprintf("%s: %s %s: %s", v.Rule, v.Key, v.ID, v.Detail)
}

// Final reports whether nothing more may happen to a call or chain with this status.
func Final(status string) bool {
	switch status {
	case "queued", "running", "pending_approval", "":
		return false
	}
	return true
}

// Count counts violations by rule.
func Count(all []Violation) map[Rule]int {
	n := map[Rule]int{}
	for _, v := range all {
		n[v.Rule]++
	}
	return n
}

// A checker has a history by what it is looked up by.
type checker struct {
	h       *History
	calls   map[string][]Sighting // by call
	chains  map[string][]Sighting // by chain
	ids     map[string][]string   // calls by key
	effects map[string][]Effect   // by key
	found   []Violation
}

// Check returns every promise that h shows to be broken.
func Check(h *History) []Violation {
	c := &checker{h: h, calls: map[string][]Sighting{}, chains: map[string][]Sighting{},
		ids: map[string][]string{}, effects: map[string][]Effect{}}
	c.index()
	for i := range h.Requests {
		c.request(&h.Requests[i])
	}
	c.changed()
	for _, s := range h.Streams {
		c.stream(s)
	}
	for _, a := range h.Audits {
		if !a.Sound {
			c.add(RuleAudit, a.Tenant, "", "%s", a.Output)
		}
	}
	return c.found
}

func (c *checker) add(r Rule, key, id, format string, args ...any) {
	c.found = append(c.found, Violation{r, key, id, fmt.Sprintf(format, args...)})
}

// index sorts the history by time and by what belongs together.
func (c *checker) index() {
	byEnd := slices.Clone(c.h.Sightings)
	slices.SortStableFunc(byEnd, func(a, b Sighting) int { return a.To.Compare(b.To) })
	for _, s := range byEnd {
		if s.ID == "" {
			c.chains[s.Chain] = append(c.chains[s.Chain], s)
			continue
		}
		c.calls[s.ID] = append(c.calls[s.ID], s)
		if s.Key != "" && !slices.Contains(c.ids[s.Key], s.ID) {
			c.ids[s.Key] = append(c.ids[s.Key], s.ID)
		}
	}
	for _, r := range c.h.Requests {
		if r.ID == "" || r.Kind == KindChain {
			continue
		}
		if !slices.Contains(c.ids[r.Key], r.ID) {
			c.ids[r.Key] = append(c.ids[r.Key], r.ID)
		}
		answer := Sighting{From: r.Sent, To: r.Answered, Server: r.Server, ID: r.ID, Key: r.Key, Status: r.Status}
		c.calls[r.ID] = append([]Sighting{answer}, c.calls[r.ID]...)
	}
	for _, e := range c.h.Effects {
		c.effects[e.Key] = append(c.effects[e.Key], e)
	}
	for _, list := range c.effects {
		slices.SortFunc(list, func(a, b Effect) int { return a.At.Compare(b.At) })
	}
}

// request checks what became of one request.
func (c *checker) request(r *Request) {
	keys := []string{r.Key}
	if r.Kind == KindChain {
		keys = r.Steps
	}
	switch {
	case r.Code == 200 && r.Status == "rate_limited":
		c.add(RuleRefusal, r.Key, r.ID, "a refusal was answered with 200")
		c.refused(r, keys)
		return
	case r.Code == 0: // it may have been accepted or not, but what exists must end
	case r.Code == 200 || r.Code == 202:
		if r.Kind == KindChain {
			c.chain(r)
			break
		}
		c.ended(r, r.ID, c.calls[r.ID])
	default:
		c.refusal(r)
		c.refused(r, keys)
		return
	}
	for _, key := range keys {
		c.effect(r, key)
		for _, id := range c.ids[key] {
			c.outcome(r, key, id)
			if id != r.ID {
				c.ended(r, id, c.calls[id])
			}
		}
	}
}

// refusal checks the answer to a request that was not accepted.
func (c *checker) refusal(r *Request) {
	switch {
	case r.Code != 429 && r.Code != 503:
		c.add(RuleRefusal, r.Key, r.ID, "it was answered with %d", r.Code)
	case r.RetryAfter == "":
		c.add(RuleRefusal, r.Key, r.ID, "%d came without Retry-After", r.Code)
	}
}

// refused checks that a refusal was one.
func (c *checker) refused(r *Request, keys []string) {
	for _, key := range keys {
		if n := len(c.effects[key]); n > 0 {
			c.add(RuleRefusedBy, key, r.ID, "it was refused with %d and ran %d times", r.Code, n)
		}
		for _, id := range c.ids[key] {
			if s := last(c.calls[id]); !Final(s.Status) {
				c.add(RuleRefusedBy, key, id, "it was refused with %d and its record is %s", r.Code, s.Status)
			}
		}
	}
}

// ended checks that a call or chain was seen to end in time.
func (c *checker) ended(r *Request, id string, seen []Sighting) {
	shown := func(s Sighting) bool { return s.Digest != "" || Final(s.Status) || s.From.After(r.Answered) }
	if !slices.ContainsFunc(seen, shown) {
		c.add(RuleLost, r.Key, id, "it was answered with %d, and no server has shown it since", r.Code)
		return
	}
	due := c.due(r)
	i := slices.IndexFunc(seen, func(s Sighting) bool { return Final(s.Status) })
	switch {
	case i < 0 || !Final(last(seen).Status):
		c.add(RuleStuck, r.Key, id, "it is %s at the end", last(seen).Status)
	case seen[i].From.After(due):
		late := seen[i].From.Sub(due).Round(time.Millisecond)
		c.add(RuleLate, r.Key, id, "it was not seen to end until %s after its time", late)
	}
}

// due is when a request must have come to its end.
func (c *checker) due(r *Request) time.Time {
	from := r.Answered
	for _, f := range c.h.Faults {
		if f.To.After(from) {
			from = f.To
		}
	}
	return from.Add(c.h.Limit)
}

// effect checks how often the tool ran.
func (c *checker) effect(r *Request, key string) {
	if n := len(c.effects[key]); n > 1 && !r.Idempotent {
		c.add(RuleTwice, key, r.ID, "its tool ran %d times", n)
	}
}

// outcome checks how a call ended whose tool never fails.
func (c *checker) outcome(r *Request, key, id string) {
	seen := c.calls[id]
	i := slices.IndexFunc(seen, func(s Sighting) bool { return Final(s.Status) })
	if i < 0 {
		return
	}
	overlaps := func(f Fault) bool { return f.From.Before(seen[i].To) && f.To.After(r.Sent) }
	faulty := slices.ContainsFunc(c.h.Faults, overlaps)
	success := false
	for _, s := range seen[i:] {
		success = success || s.Status == "success"
	}
	switch status := last(seen).Status; {
	case success && len(c.effects[key]) == 0:
		c.add(RuleNoEffect, key, id, "it is a success, and its tool never ran")
	case success || status == "":
	case status == "unknown" || status == "cancelled" || status == "error" || status == "timeout":
		if !faulty {
			c.add(RuleUnknown, key, id, "it ended as %s, and nothing was broken while it ran", status)
		}
	default:
		c.add(RuleDropped, key, id, "it was accepted and ended as %s", status)
	}
}

// chain checks one chain that was accepted.
func (c *checker) chain(r *Request) {
	seen := c.chains[r.ID]
	c.ended(r, r.ID, seen)
	if s := last(seen); Final(s.Status) && s.Undone > 0 {
		c.add(RuleChain, r.Key, r.ID, "it is %s, and %d of its steps have not ended", s.Status, s.Undone)
	}
	for i := 1; i < len(r.Steps); i++ {
		before, after := c.effects[r.Steps[i-1]], c.effects[r.Steps[i]]
		// A step whose call was lost on the way to its tool ends without an effect.
		if len(before) > 0 && len(after) > 0 && after[0].At.Before(before[0].At) {
			c.add(RuleOrder, r.Steps[i], r.ID, "it ran before the step before it")
		}
	}
}

// changed checks that what was seen as final stays as it is.
func (c *checker) changed() {
	for _, group := range []map[string][]Sighting{c.calls, c.chains} {
		for id, seen := range group {
			if s := firstChange(seen); s != nil {
				c.add(RuleChanged, s[1].Key, id, "it was %s at %s and is %s at %s",
					s[0].Status, s[0].Server, s[1].Status, s[1].Server)
			}
		}
	}
}

// firstChange returns a final sighting and a later one that differs, or nil. One is
// later if it was asked for after the answer to the other.
func firstChange(seen []Sighting) []Sighting {
	for i, a := range seen {
		if !Final(a.Status) {
			continue
		}
		for _, b := range seen[i+1:] {
			if b.From.Before(a.To) {
				continue
			}
			if a.Status != b.Status || a.Digest != "" && b.Digest != "" && a.Digest != b.Digest {
				return []Sighting{a, b}
			}
		}
	}
	return nil
}

func last(seen []Sighting) Sighting {
	if len(seen) == 0 {
		return Sighting{}
	}
	return seen[len(seen)-1]
}
