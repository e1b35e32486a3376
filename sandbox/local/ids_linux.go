package local

import (
	"cmp"
	"os"
	"sync"

	"haft"
	"haft/sandbox"
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

// An idPool hands out numbers, the longest unused first, so that no run meets what the
// kernel still counts for the run before it. It is safe for concurrent use.
type idPool struct {
	machine           *machine
	first, step, size int
	fixed             int // the only number if the machine is not privileged

	mu   sync.Mutex
	next int
	used map[int]bool
}

// newIDs returns a pool of size numbers, from first on in steps. If the machine is not
// privileged, its only number is fixed.
func newIDs(mc *machine, first, step, size, fixed int) *idPool {
	return &idPool{machine: mc, first: first, step: step, size: size, fixed: fixed, used: map[int]bool{}}
}

// checkOwner refuses a user id that a run cannot have: one that is not of a workspace, or any if the
// machine is not privileged.
func (mc *machine) checkOwner(uid int) error {
	if uid == 0 || mc.privileged && uid >= sandbox.FirstOwner && uid < sandbox.FirstOwner+sandbox.Owners {
		return nil
	}
	return &haft.Error{Code: haft.CodeDenied,
		Message: "the workspace belongs to a user id that this sandbox cannot give to a run"}
}

// openIDs makes the pools of the provider.
func (p *Provider) openIDs() {
	first := int(cmp.Or(p.config.UIDs, defaultUIDs)) + p.instance.number*idsPerInstance
	p.runIDs = newIDs(&p.machine, first, 1, idsForRuns, os.Geteuid())
	p.templateIDs = newIDs(&p.machine, first+idsForRuns, idsPerTemplate, templatesAtOnce, os.Geteuid())
}

// take returns a number that is not in use.
func (p *idPool) take() (int, error) {
	if !p.machine.privileged {
		return p.fixed, nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for range p.size {
		n := p.first + p.next%p.size*p.step
		p.next++
		if !p.used[n] {
			p.used[n] = true
			return n, nil
		}
	}
	return 0, &haft.Error{Code: haft.CodeUnavailable, Message: "too many sandboxes at a time"}
}

// free gives a number back.
func (p *idPool) free(n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.used, n)
}
