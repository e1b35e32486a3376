package soak

import (
	"maps"
	"slices"
	"testing"
	"time"
)

// at is a moment of a made-up history, in seconds.
func at(seconds float64) time.Time {
	return time.Unix(1_800_000_000, 0).Add(time.Duration(seconds * float64(time.Second)))
}

// saw is one sighting of a call with the key k and the id c.
func saw(from float64, server, status, digest string) Sighting {
	return Sighting{From: at(from), To: at(from + 0.1), Server: server, ID: "c", Key: "k", Status: status,
		Digest: digest}
}

// sawChain is one sighting of the chain ch.
func sawChain(from float64, status string, undone int) Sighting {
	return Sighting{From: at(from), To: at(from + 0.1), Server: "A", Chain: "ch", Status: status, Undone: undone}
}

// good is a history of one call that was accepted, ran once and succeeded, after a
// fault that lasted from second 10 to second 20.
func good() *History {
	return &History{
		Limit:  time.Minute,
		Faults: []Fault{{"kill", at(10), at(20)}},
		Requests: []Request{{Kind: KindSubmit, Key: "k", Tenant: "o", Server: "A", Sent: at(1), Answered: at(2),
			Code: 202, ID: "c", Status: "queued"}},
		Sightings: []Sighting{
			saw(3, "A", "running", ""), saw(30, "A", "success", "d1"), saw(31, "B", "success", "d1"),
		},
		Effects: []Effect{{at(5), "k"}},
		Streams: []Stream{{"o", []Event{{7, "c", "success"}}, []Event{{7, "c", "success"}}}},
		Audits:  []Audit{{"o", true, "sound"}},
	}
}

// goodChain is a history of one chain of two steps.
func goodChain() *History {
	h := good()
	h.Requests = []Request{{Kind: KindChain, Key: "p", Steps: []string{"p/a", "p/b"}, Tenant: "o",
		Sent: at(1), Answered: at(2), Code: 202, ID: "ch", Status: "running"}}
	a, b := saw(30, "A", "success", "d1"), saw(30, "A", "success", "d2")
	a.ID, a.Key, b.ID, b.Key = "c1", "p/a", "c2", "p/b"
	h.Sightings = []Sighting{sawChain(3, "running", 2), a, b, sawChain(30, "success", 0)}
	h.Effects = []Effect{{at(5), "p/a"}, {at(25), "p/b"}}
	events := []Event{{7, "c1", "success"}, {8, "c2", "success"}}
	h.Streams = []Stream{{"o", events, events}}
	return h
}

// refusedBy makes the request one that was refused.
func refusedBy(h *History, code int, after string) {
	r := &h.Requests[0]
	r.Code, r.RetryAfter, r.ID, r.Status = code, after, "", ""
	h.Sightings, h.Effects, h.Streams = nil, nil, nil
}

// ends makes the call end with a status that nobody saw before.
func ends(h *History, status string) {
	h.Sightings = []Sighting{saw(30, "A", status, "d1")}
	h.Streams = []Stream{{"o", []Event{{7, "c", status}}, []Event{{7, "c", status}}}}
}

// A checkCase changes a good history.
type checkCase struct {
	of     func() *History
	change func(h *History)
	want   []Rule
}

// checkCases are histories that are allowed, and for each rule some that break it.
var checkCases = map[string]checkCase{
	"good":                   {good, func(*History) {}, nil},
	"a good chain":           {goodChain, func(*History) {}, nil},
	"unknown during a fault": {good, func(h *History) { ends(h, "unknown") }, nil},
	"unknown, and it never ran": {good, func(h *History) {
		ends(h, "unknown")
		h.Effects = nil
	}, nil},
	"idempotent, and it ran twice": {good, func(h *History) {
		h.Requests[0].Idempotent = true
		h.Effects = append(h.Effects, Effect{at(25), "k"})
	}, nil},
	"no answer, and nothing happened": {good, func(h *History) { refusedBy(h, 0, "") }, nil},
	"no answer, and it ran": {good, func(h *History) {
		h.Requests[0].Code, h.Requests[0].ID, h.Requests[0].Status = 0, "", ""
	}, nil},
	"refused": {good, func(h *History) { refusedBy(h, 429, "1") }, nil},
	"refused and recorded": {good, func(h *History) {
		refusedBy(h, 503, "1")
		h.Sightings = []Sighting{saw(3, "A", "rate_limited", "d1")}
	}, nil},
	"two servers read at once, and one is older": {good, func(h *History) {
		s := saw(29.95, "B", "running", "")
		s.To = at(30.5)
		h.Sightings = []Sighting{saw(30, "A", "success", "d1"), s, saw(32, "B", "success", "d1")}
	}, nil},

	"never ends": {good, func(h *History) {
		h.Sightings = []Sighting{saw(90, "A", "running", "")}
	}, []Rule{RuleStuck}},
	"ends, and is open again": {good, func(h *History) {
		h.Sightings = append(h.Sightings, saw(40, "A", "running", ""))
	}, []Rule{RuleChanged, RuleStuck}},
	"ends after the limit": {good, func(h *History) {
		h.Sightings = []Sighting{saw(81, "A", "success", "d1")}
	}, []Rule{RuleLate}},
	"no answer, and it is stuck": {good, func(h *History) {
		refusedBy(h, 0, "")
		h.Sightings = []Sighting{saw(90, "A", "queued", "")}
	}, []Rule{RuleStuck}},
	"no record": {good, func(h *History) {
		h.Sightings = nil
	}, []Rule{RuleLost}},
	"ran twice": {good, func(h *History) {
		h.Effects = append(h.Effects, Effect{at(25), "k"})
	}, []Rule{RuleTwice}},
	"no answer, and it ran twice": {good, func(h *History) {
		refusedBy(h, 0, "")
		h.Effects = []Effect{{at(5), "k"}, {at(6), "k"}}
	}, []Rule{RuleTwice}},
	"success without an effect": {good, func(h *History) {
		h.Effects = nil
	}, []Rule{RuleNoEffect}},
	"unknown, and nothing was broken": {good, func(h *History) {
		ends(h, "unknown")
		h.Faults = nil
	}, []Rule{RuleUnknown}},
	"unknown, and the fault was over": {good, func(h *History) {
		ends(h, "unknown")
		h.Requests[0].Sent, h.Requests[0].Answered = at(21), at(22)
	}, []Rule{RuleUnknown}},
	"accepted and then refused": {good, func(h *History) {
		ends(h, "rate_limited")
		h.Effects = nil
	}, []Rule{RuleDropped}},
	"another status": {good, func(h *History) {
		h.Sightings = append(h.Sightings, saw(40, "A", "validation_error", "d2"))
	}, []Rule{RuleChanged, RuleEventOnce}},
	"another result": {good, func(h *History) {
		h.Sightings = append(h.Sightings, saw(40, "A", "success", "d2"))
	}, []Rule{RuleChanged}},
	"another result at the other": {good, func(h *History) {
		h.Sightings[2].Digest = "d2"
	}, []Rule{RuleChanged}},
	"another status than was answered": {good, func(h *History) {
		h.Requests[0].Kind, h.Requests[0].Code, h.Requests[0].Status = KindCall, 200, "unknown"
	}, []Rule{RuleChanged}},
	"refused without a time": {good, func(h *History) {
		refusedBy(h, 429, "")
	}, []Rule{RuleRefusal}},
	"refused with another code": {good, func(h *History) {
		refusedBy(h, 500, "1")
	}, []Rule{RuleRefusal}},
	"refused, and it ran": {good, func(h *History) {
		refusedBy(h, 503, "1")
		h.Effects = []Effect{{at(5), "k"}}
	}, []Rule{RuleRefusedBy}},
	"refused, and its record open": {good, func(h *History) {
		refusedBy(h, 503, "1")
		h.Sightings = []Sighting{saw(90, "A", "queued", "")}
	}, []Rule{RuleRefusedBy}},
	"refused with 200": {good, func(h *History) {
		refusedBy(h, 200, "")
		h.Requests[0].Status, h.Requests[0].ID = "rate_limited", "c"
	}, []Rule{RuleRefusal}},

	"a chain never ends": {goodChain, func(h *History) {
		h.Sightings[3] = sawChain(90, "running", 1)
	}, []Rule{RuleStuck}},
	"a chain ends early": {goodChain, func(h *History) {
		h.Sightings[3].Undone = 1
	}, []Rule{RuleChain}},
	"a chain changes": {goodChain, func(h *History) {
		h.Sightings = append(h.Sightings, sawChain(40, "error", 0))
	}, []Rule{RuleChanged}},
	"steps run in another order": {goodChain, func(h *History) {
		h.Effects[1].At = at(4)
	}, []Rule{RuleOrder}},
	"a step runs twice": {goodChain, func(h *History) {
		h.Effects = append(h.Effects, Effect{at(26), "p/b"})
	}, []Rule{RuleTwice}},
	"a step is stuck": {goodChain, func(h *History) {
		h.Sightings[2].Status = "running"
	}, []Rule{RuleStuck}},
	"a chain has no record": {goodChain, func(h *History) {
		h.Sightings = h.Sightings[1:3]
	}, []Rule{RuleLost}},

	"no event": {good, func(h *History) {
		h.Streams[0].Live, h.Streams[0].Replay = nil, nil
	}, []Rule{RuleEventOnce}},
	"two events": {good, func(h *History) {
		h.Streams[0].Live = twoEvents()
		h.Streams[0].Replay = twoEvents()
	}, []Rule{RuleEventOnce}},
	"another event": {good, func(h *History) {
		h.Streams[0].Replay[0].Status = "error"
	}, []Rule{RuleEventOnce}},
	"a missed event": {good, func(h *History) { h.Streams[0].Live = nil }, []Rule{RuleEventGap}},
	"an event twice": {good, func(h *History) {
		h.Streams[0].Live = append(h.Streams[0].Live, h.Streams[0].Live[0])
	}, []Rule{RuleEventGap}},
	"the audit is broken": {good, func(h *History) { h.Audits[0].Sound = false }, []Rule{RuleAudit}},
}

func TestCheck(t *testing.T) {
	for name, c := range checkCases {
		t.Run(name, func(t *testing.T) {
			h := c.of()
			c.change(h)
			found := Check(h)
			if got := slices.Sorted(maps.Keys(Count(found))); !slices.Equal(got, c.want) {
				t.Errorf("the rules %q are broken, want %q: %v", got, c.want, found)
			}
		})
	}
}

func twoEvents() []Event { return []Event{{7, "c", "success"}, {8, "c", "success"}} }

func TestFinal(t *testing.T) {
	for status, want := range map[string]bool{
		"": false, "queued": false, "running": false, "pending_approval": false,
		"success": true, "unknown": true, "rate_limited": true,
	} {
		if got := Final(status); got != want {
			t.Errorf("Final(%q) is %v", status, got)
		}
	}
}
