package upstream

import (
	"context"
	"fmt"
	"sync"
	"time"

	"haft"
)

// Recheck has every session looked at soon: whether its server may still be used, see
// [Config.Permit]. It returns at once.
func (p *Pool) Recheck() {
	select {
	case p.changed <- struct{}{}:
	default: // it is going to be done anyway, and has not begun
	}
}

// recheckWhenTold rechecks whenever somebody says that something changed, and every now
// and then where others may have changed it.
func (p *Pool) recheckWhenTold() {
	var often <-chan time.Time
	if p.cfg.RecheckEvery > 0 {
		tick := time.NewTicker(p.cfg.RecheckEvery)
		defer tick.Stop()
		often = tick.C
	}
	for {
		select {
		case <-p.ctx.Done():
			return
		case <-p.changed:
		case <-often:
		}
		p.recheck(p.ctx)
	}
}

// recheck ends the sessions, and those that are being opened, whose servers may not be
// used any more as they are. Their calls end with the reason. What is opened from now on
// is decided about by the one who opens it.
func (p *Pool) recheck(ctx context.Context) {
	if p.cfg.Permit == nil {
		return
	}
	p.mu.Lock()
	slots := make([]*slot, 0, len(p.slots))
	for _, s := range p.slots {
		slots = append(slots, s)
	}
	p.mu.Unlock()
	var ending sync.WaitGroup
	for _, s := range slots {
		err := p.cfg.Permit(ctx, s.server)
		switch code := haft.CodeOf(err); {
		case err == nil:
			continue
		case code != haft.CodeDenied && code != haft.CodeNotFound:
			if ctx.Err() == nil {
				p.cfg.Logger.Warn("whether an MCP server may still be used cannot be found out",
					"org", s.server.Org, "server", s.server.Name, "error", err)
			}
			continue
		}
		p.mu.Lock()
		if p.slots[s.key] == s {
			delete(p.slots, s.key)
		}
		p.mu.Unlock()
		p.cfg.Logger.Info("the session with an MCP server is ended",
			"org", s.server.Org, "server", s.server.Name, "reason", haft.MessageOf(err))
		why := &haft.Error{Code: haft.CodeDenied, Err: err,
			Message: fmt.Sprintf("the MCP server was ended while the call ran: %s; the call may have had effects",
				haft.MessageOf(err))}
		ending.Go(func() { s.endFor(why) })
	}
	ending.Wait()
}
