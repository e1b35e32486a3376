package local

import (
	"os"
	"sync"

	"haft"
)

// The user ids of the host, by instance. A run has one of its own, since the
// kernel keeps counts by user: pipes, watches, descriptors in flight. A template
// has a block, of which its forks take one each.
const (
	defaultUIDs     = 0x70000000
	idsPerInstance  = 1 << 20
	idsForRuns      = 1 << 16
	idsPerTemplate  = 1 << 12
	templatesAtOnce = (idsPerInstance - idsForRuns) / idsPerTemplate
)

// ids hands out numbers, the longest unused first, so that no run meets what the
// kernel still counts for one before it.
type ids struct {
	mu        sync.Mutex
	runs      pool
	templates pool
}

// A pool is a set of numbers below size.
type pool struct {
	next uint32
	used map[uint32]bool
}

// take returns a number below size.
func (p *pool) take(size uint32) (uint32, error) {
	if p.used == nil {
		p.used = map[uint32]bool{}
	}
	for range size {
		n := p.next % size
		p.next++
		if !p.used[n] {
			p.used[n] = true
			return n, nil
		}
	}
	return 0, &haft.Error{Code: haft.CodeUnavailable, Message: "too many sandboxes at a time"}
}

// firstUID is the first id of this instance.
func (p *Provider) firstUID() int {
	base := p.config.UIDs
	if base == 0 {
		base = defaultUIDs
	}
	return int(base) + p.number*idsPerInstance
}

// takeUID returns an id of the host for one run, or our own.
func (p *Provider) takeUID() (int, error) {
	if !p.privileged {
		return os.Geteuid(), nil
	}
	p.ids.mu.Lock()
	defer p.ids.mu.Unlock()
	n, err := p.ids.runs.take(idsForRuns)
	return p.firstUID() + int(n), err
}

// freeUID gives an id back.
func (p *Provider) freeUID(id int) {
	if p.privileged {
		p.ids.mu.Lock()
		defer p.ids.mu.Unlock()
		delete(p.ids.runs.used, uint32(id-p.firstUID()))
	}
}

// takeBlock returns the first id of the host for a template, or our own.
func (p *Provider) takeBlock() (int, error) {
	if !p.privileged {
		return os.Geteuid(), nil
	}
	p.ids.mu.Lock()
	defer p.ids.mu.Unlock()
	n, err := p.ids.templates.take(templatesAtOnce)
	return p.firstUID() + idsForRuns + int(n)*idsPerTemplate, err
}

// freeBlock gives a block back.
func (p *Provider) freeBlock(id int) {
	if p.privileged {
		p.ids.mu.Lock()
		defer p.ids.mu.Unlock()
		delete(p.ids.templates.used, uint32((id-p.firstUID()-idsForRuns)/idsPerTemplate))
	}
}
