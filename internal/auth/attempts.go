package auth

import (
	"cmp"
	"container/list"
	"net/netip"
	"sync"
	"time"

	"haft"
)

// The defaults of [Attempts].
const (
	defaultFailures = 20
	defaultEvery    = 3 * time.Second
	defaultSources  = 10_000
)

// Attempts says how often credentials may fail. The zero value is good.
type Attempts struct {
	// Failures is how many may come at once from one address; 0 means 20.
	Failures int
	// Every is after which time one more may; 0 means 3 seconds.
	Every time.Duration
	// Sources is how many addresses are remembered; 0 means 10,000. Beyond that the address
	// that failed longest ago is forgotten: secrets cannot be guessed, so that locking others
	// out would be worse.
	Sources int
}

// failures counts those of each source. Networks of IPv6 count as one source,
// because one customer has all the addresses of a /64.
type failures struct {
	most  int
	every time.Duration
	bound int

	mu      sync.Mutex
	sources map[netip.Addr]*list.Element // of *source
	order   *list.List                   // the address that failed last is in front
}

// A source has used up its failures at full, less those that Every gave back.
type source struct {
	addr netip.Addr
	// free is when all its failures are given back.
	free time.Time
}

func newFailures(a Attempts) *failures {
	return &failures{most: cmp.Or(max(a.Failures, 0), defaultFailures), every: cmp.Or(max(a.Every, 0), defaultEvery),
		bound: cmp.Or(max(a.Sources, 0), defaultSources), sources: map[netip.Addr]*list.Element{}, order: list.New()}
}

// network returns what counts as one source with addr. Callers without an address
// are one source.
func network(addr netip.Addr) netip.Addr {
	addr = addr.Unmap().WithZone("")
	if !addr.Is6() {
		return addr
	}
	prefix, _ := addr.Prefix(64) // fits every address of IPv6
	return prefix.Addr()
}

// failed counts a failure, and returns the error for the sender: err, or that there were
// too many. A sender with a valid credential is never refused, however many others fail
// from the same address: that may be a proxy, and secrets cannot be guessed. The bound is
// on how many failures are answered and logged.
func (f *failures) failed(addr netip.Addr, err error) error {
	addr = network(addr)
	now := time.Now()
	f.mu.Lock()
	defer f.mu.Unlock()
	e, ok := f.sources[addr]
	if !ok {
		for f.order.Len() >= f.bound {
			oldest := f.order.Back()
			delete(f.sources, f.order.Remove(oldest).(*source).addr)
		}
		e = f.order.PushFront(&source{addr: addr})
		f.sources[addr] = e
	}
	f.order.MoveToFront(e)
	s := e.Value.(*source)
	if s.free.Before(now) {
		s.free = now
	}
	// Every failure moves free on by every; most of them are most times every.
	if wait := s.free.Sub(now) - time.Duration(f.most-1)*f.every; wait > 0 {
		return &haft.Error{
			Code: haft.CodeRateLimited, Message: "too many credentials from this address were not valid",
			RetryAfter: haft.Millis(min(wait, time.Duration(f.most)*f.every)), Err: err,
		}
	}
	s.free = s.free.Add(f.every)
	return err
}
