package soak

// stream checks the events of one tenant.
func (c *checker) stream(s Stream) {
	ends, live, status := map[string]int{}, map[int64]int{}, map[string]string{}
	for _, e := range s.Replay {
		ends[e.ID]++
		status[e.ID] = e.Status
	}
	for _, e := range s.Live {
		live[e.Cursor]++
	}
	for i := range c.h.Requests {
		if r := &c.h.Requests[i]; r.Tenant == s.Tenant {
			c.terminal(r, ends, status)
		}
	}
	for _, e := range s.Replay {
		if live[e.Cursor] == 0 {
			c.add(RuleEventGap, "", e.ID, "the reader that came back has missed event %d", e.Cursor)
		}
	}
	before := int64(0)
	for _, e := range s.Live {
		if e.Cursor <= before {
			c.add(RuleEventGap, "", e.ID, "event %d came after event %d", e.Cursor, before)
		}
		before = max(before, e.Cursor)
	}
}

// terminal checks that each call of a request that was accepted and has ended has one
// terminal event, which says what the record says.
func (c *checker) terminal(r *Request, ends map[string]int, status map[string]string) {
	if r.Code != 200 && r.Code != 202 && r.Code != 0 || r.Code == 200 && r.Status == "rate_limited" {
		return
	}
	keys := []string{r.Key}
	if r.Kind == KindChain {
		keys = r.Steps
	}
	for _, key := range keys {
		for _, id := range c.ids[key] {
			s := last(c.calls[id])
			switch n := ends[id]; {
			case !Final(s.Status):
			case n != 1:
				c.add(RuleEventOnce, key, id, "it is %s and has %d terminal events", s.Status, n)
			case status[id] != "" && status[id] != s.Status:
				c.add(RuleEventOnce, key, id, "its event says %s, its record %s", status[id], s.Status)
			}
		}
	}
}
