package rented

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"haft"
)

// A machine is a rented one. It is used by one run at a time.
type machine struct {
	Machine
	state  string // the digest of tenant and configuration
	tenant string
	layers map[string]bool // where packages are
	idle   time.Time       // since when nobody uses it
}

// A pool has the machines of one provider.
type pool struct {
	Renter
	cfg Config
	// What holds whenever mu is free: every machine of idle is in all.
	mu      sync.Mutex
	all     map[string]*machine
	idle    []*machine
	making  map[string]int  // by tenant, machines that are being made
	adopted map[string]bool // the states whose machines of an earlier process were looked for
	closed  bool
}

// acquire returns a machine for a run: an idle one of that state, one that an earlier process of this owner left, or a
// new one. Release it.
func (p *pool) acquire(ctx context.Context, want Want, tenant string) (*machine, error) {
	for tenant != "" && !p.cfg.Fresh {
		m := p.takeIdle(want.State)
		if m == nil {
			break
		}
		err := m.Last(ctx, want.Last)
		if err == nil {
			return m, nil
		}
		p.release(ctx, m, false)
		if !errors.Is(err, ErrGone) {
			return nil, err
		}
	}
	if err := p.reserve(ctx, tenant); err != nil {
		return nil, err
	}
	next, err := p.adopt(ctx, want, tenant)
	if next == nil && err == nil {
		next, err = p.Create(ctx, want)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.making[tenant]--; p.making[tenant] == 0 {
		delete(p.making, tenant)
	}
	if errors.Is(err, ErrGone) { // there is no machine yet
		err = &haft.Error{Code: haft.CodeUnavailable, Message: haft.MessageOf(err)}
	}
	if err != nil {
		return nil, err
	}
	m := &machine{Machine: next, state: want.State, tenant: tenant, layers: map[string]bool{}}
	p.all[m.ID()] = m
	return m, nil
}

// takeIdle returns a machine of that state that nobody uses, or nil.
func (p *pool) takeIdle(state string) *machine {
	p.mu.Lock()
	defer p.mu.Unlock()
	i := slices.IndexFunc(p.idle, func(m *machine) bool { return m.state == state })
	if i < 0 {
		return nil
	}
	m := p.idle[i]
	p.idle = slices.Delete(p.idle, i, i+1)
	return m
}

// reserve makes room for another machine of a tenant, or reports that there is none.
func (p *pool) reserve(ctx context.Context, tenant string) error {
	p.mu.Lock()
	all, own := len(p.all), 0
	for t, n := range p.making {
		all += n
		if t == tenant {
			own += n
		}
	}
	for _, m := range p.all {
		if m.tenant == tenant {
			own++
		}
	}
	if p.closed {
		p.mu.Unlock()
		return &haft.Error{Code: haft.CodeUnavailable, Message: "Haft is closing"}
	}
	var old *machine
	if all >= p.cfg.Max || own >= p.cfg.MaxOfTenant {
		i := slices.IndexFunc(p.idle, func(m *machine) bool { return own < p.cfg.MaxOfTenant || m.tenant == tenant })
		if i < 0 {
			p.mu.Unlock()
			return &haft.Error{Code: haft.CodeRateLimited, RetryAfter: haft.Millis(time.Second), Message: fmt.Sprintf(
				"all sandboxes of %s are in use: %d are the most, and %d of an organisation", p.cfg.Name,
				p.cfg.Max, p.cfg.MaxOfTenant)}
		}
		old = p.idle[i]
		p.idle = slices.Delete(p.idle, i, i+1)
	}
	p.making[tenant]++
	p.mu.Unlock()
	if old != nil {
		p.end(ctx, old.ID())
	}
	return nil
}

// adopt returns a machine of that state which an earlier process has left, or nil. One in which something runs is
// ended.
func (p *pool) adopt(ctx context.Context, want Want, tenant string) (Machine, error) {
	p.mu.Lock()
	first := !p.adopted[want.State] && tenant != "" && !p.cfg.Fresh
	p.adopted[want.State] = true
	p.mu.Unlock()
	if !first {
		return nil, nil
	}
	list, err := p.List(ctx, p.cfg.Owner, want.State)
	if err != nil {
		return nil, err
	}
	if p.othersMake() {
		return nil, nil // what is listed may be a machine that another run is being given
	}
	for _, info := range list {
		if !p.claim(info.ID, tenant) {
			continue
		}
		m, err := p.Reuse(ctx, info)
		if err == nil && m.Last(ctx, want.Last) == nil {
			return m, nil
		}
		detach(m)
		p.end(ctx, info.ID)
	}
	return nil, nil
}

// othersMake reports whether more than one machine is being made.
func (p *pool) othersMake() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	all := 0
	for _, n := range p.making {
		all += n
	}
	return all > 1
}

// claim takes a machine that this process does not know: then nobody else takes or ends it.
func (p *pool) claim(id, tenant string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.all[id] != nil {
		return false
	}
	p.all[id] = &machine{tenant: tenant}
	return true
}

// drop forgets a machine that has ended, and gives back the connection to it if the provider keeps one.
func (p *pool) drop(id string) {
	p.mu.Lock()
	m := p.all[id]
	delete(p.all, id)
	p.mu.Unlock()
	if m != nil {
		detach(m.Machine)
	}
}

// detach gives back the connection to a machine, which may be nil.
func detach(m Machine) {
	if d, ok := m.(interface{ Detach() error }); ok {
		_ = d.Detach() // nobody uses it any more
	}
}

// release gives a machine back after a run. One that is not clean is ended.
func (p *pool) release(ctx context.Context, m *machine, clean bool) {
	p.mu.Lock()
	keep := clean && m.tenant != "" && !p.cfg.Fresh && !p.closed
	if keep {
		m.idle = time.Now()
		p.idle = append(p.idle, m)
	}
	p.mu.Unlock()
	if !keep {
		p.end(ctx, m.ID())
	}
}

// end ends a machine. One that cannot be ended now is ended by the reaper, or by its time.
func (p *pool) end(ctx context.Context, id string) {
	if err := p.End(context.WithoutCancel(ctx), id); err != nil {
		p.cfg.Logger.WarnContext(ctx, "a rented sandbox could not be ended now", "server", p.cfg.Name, "sandbox", id,
			"err", err)
	}
	p.drop(id)
}

// reapAge is how old a machine is at least that is ended because nobody knows it: a younger one may be one that is
// being made.
const reapAge = 3 * time.Minute

// reap ends machines that were idle for too long, and those of this owner that this process does not know.
func (p *pool) reap(ctx context.Context, now time.Time) error {
	p.mu.Lock()
	var old []*machine
	p.idle = slices.DeleteFunc(p.idle, func(m *machine) bool {
		over := now.Sub(m.idle) >= p.cfg.Idle
		if over {
			old = append(old, m)
		}
		return over
	})
	p.mu.Unlock()
	for _, m := range old {
		p.end(ctx, m.ID())
	}
	list, err := p.List(ctx, p.cfg.Owner, "")
	if err != nil {
		return err
	}
	var errs []error
	for _, info := range list {
		if now.Sub(info.Started) >= reapAge && p.claim(info.ID, "") {
			errs = append(errs, p.End(ctx, info.ID))
			p.drop(info.ID)
		}
	}
	return errors.Join(errs...)
}

// close ends all machines.
func (p *pool) close(ctx context.Context) {
	p.mu.Lock()
	p.closed = true
	list := p.idle
	p.idle = nil
	p.mu.Unlock()
	var work sync.WaitGroup
	for _, m := range list {
		work.Go(func() { p.end(ctx, m.ID()) })
	}
	work.Wait()
}
