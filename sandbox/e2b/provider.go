package e2b

import (
	"context"

	"haft/sandbox/internal/rented"
)

// A Provider runs commands in machines of E2B. It implements [sandbox.Provider].
//
// Lifecycle: New, Run as often as needed, Close.
type Provider struct {
	*rented.Provider
	server *server
}

// New checks a configuration, and starts to look after machines. It does not speak to the server before the first run,
// except that machines which an earlier process left are ended.
func New(ctx context.Context, cfg Config) (*Provider, error) {
	cfg, err := cfg.check()
	if err != nil {
		return nil, err
	}
	p := &Provider{}
	p.Provider, err = rented.New(ctx, rented.Config{Name: "E2B", Level: cfg.Level, Image: cfg.Template,
		Owner: cfg.Owner, Fresh: cfg.Fresh, Idle: cfg.Idle, Max: cfg.Max, MaxOfTenant: cfg.MaxOfTenant,
		Logger: cfg.Logger}, func(owner string) (rented.Renter, error) {
		cfg.Owner = owner
		p.server = newServer(cfg)
		return p.server, nil
	})
	if err != nil {
		return nil, err
	}
	return p, nil
}

// Close ends all machines that no run uses. It can be called twice.
func (p *Provider) Close() error {
	err := p.Provider.Close()
	p.server.http.CloseIdleConnections()
	return err
}
