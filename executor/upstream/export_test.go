package upstream

import (
	"context"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"haft"
)

// Said returns the last words of every command on stderr.
func (p *Pool) Said() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	said := ""
	for _, s := range p.slots {
		if live := s.live(); live != nil && live.cmd != nil {
			said += live.cmd.stderr.String()
		}
	}
	return said
}

// Session returns the SDK's session with a server, for what tools do not use.
func (p *Pool) Session(ctx context.Context, who haft.Principal, ref string) (*mcp.ClientSession, error) {
	to, err := p.resolve(ctx, who, ref, nil)
	if err != nil {
		return nil, err
	}
	s, err := p.acquire(ctx, to)
	if err != nil {
		return nil, err
	}
	defer s.slot.release(true)
	return s.client, nil
}

// SpawnLocked spawns a goroutine while the lock of the pool is held.
func (p *Pool) SpawnLocked() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.spawn(func() {})
}
