package e2b

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"haft"
)

// A machine is a sandbox of E2B. It is used by one run at a time.
type machine struct {
	id, token, base string
	state           string // the digest of tenant and configuration
	tenant          string
	layers          map[string]bool // where packages are
	ends            time.Time
	idle            time.Time // since when nobody uses it
}

// A pool has the machines of one provider.
type pool struct {
	*api
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
func (p *pool) acquire(ctx context.Context, state, tenant string, internet bool) (*machine, error) {
	for tenant != "" && !p.cfg.Fresh {
		m := p.takeIdle(state)
		if m == nil {
			break
		}
		if err := p.refresh(ctx, m); err == nil {
			return m, nil
		} else if !errors.Is(err, errGone) {
			p.release(ctx, m, false)
			return nil, err
		}
		p.forget(m)
	}
	if err := p.reserve(ctx, tenant); err != nil {
		return nil, err
	}
	m, err := p.adopt(ctx, state, tenant)
	if m == nil && err == nil {
		m, err = p.create(ctx, state, internet)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.making[tenant]--; p.making[tenant] == 0 {
		delete(p.making, tenant)
	}
	if err != nil {
		return nil, err
	}
	m.tenant = tenant
	p.all[m.id] = m
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

// refresh extends the life of a machine if half of it is over.
func (p *pool) refresh(ctx context.Context, m *machine) error {
	if time.Until(m.ends) > p.cfg.Life/2 {
		return nil
	}
	if err := p.extend(ctx, m.id); err != nil {
		return err
	}
	m.ends = time.Now().Add(p.cfg.Life)
	return nil
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
				"all sandboxes of E2B are in use: %d are the most, and %d of an organisation", p.cfg.Max,
				p.cfg.MaxOfTenant)}
		}
		old = p.idle[i]
		p.idle = slices.Delete(p.idle, i, i+1)
	}
	p.making[tenant]++
	p.mu.Unlock()
	if old != nil {
		p.end(ctx, old)
	}
	return nil
}

// adopt returns a machine of that state which an earlier process has left, or nil. One in which something runs is
// ended.
func (p *pool) adopt(ctx context.Context, state, tenant string) (*machine, error) {
	p.mu.Lock()
	first := !p.adopted[state] && tenant != "" && !p.cfg.Fresh
	p.adopted[state] = true
	p.mu.Unlock()
	if !first {
		return nil, nil
	}
	list, err := p.list(ctx, map[string]string{metaOwner: p.cfg.Owner, metaState: state})
	if err != nil {
		return nil, err
	}
	for _, info := range list {
		if p.knows(info.ID) {
			continue
		}
		m, err := p.connect(ctx, info.ID, state)
		if err != nil {
			continue // it may have just ended
		}
		if n, err := p.processes(ctx, m); err == nil && n == 0 {
			return m, nil
		}
		p.end(ctx, m)
	}
	return nil, nil
}

// knows reports whether a machine is one of this process.
func (p *pool) knows(id string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.all[id] != nil
}

// forget drops a machine that has ended.
func (p *pool) forget(m *machine) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.all, m.id)
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
		p.end(ctx, m)
	}
}

// end ends a machine. One that cannot be ended now is ended by the reaper, or by its time.
func (p *pool) end(ctx context.Context, m *machine) {
	if err := p.kill(context.WithoutCancel(ctx), m.id); err != nil {
		p.cfg.Logger.WarnContext(ctx, "a sandbox of E2B could not be ended now", "sandbox", m.id, "err", err)
	}
	p.forget(m)
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
		p.end(ctx, m)
	}
	list, err := p.list(ctx, map[string]string{metaOwner: p.cfg.Owner})
	if err != nil {
		return err
	}
	var errs []error
	for _, info := range list {
		if !p.knows(info.ID) && now.Sub(info.Started) >= reapAge {
			errs = append(errs, p.kill(ctx, info.ID))
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
		work.Go(func() { p.end(ctx, m) })
	}
	work.Wait()
}
