package cli

import (
	"context"
	"fmt"

	"haft"
	"haft/app"
	"haft/internal/backend"
	"haft/internal/checkpoint"
	"haft/internal/localsocket"
)

// find returns the system of the data directory: that of the process which serves it, or one in this process.
func (p *Profile) find(ctx context.Context, cfg app.ServiceConfig) (System, error) {
	open := func(ctx context.Context) (*app.Service, error) {
		svc, err := app.OpenService(ctx, cfg)
		if p.Evidence && checkpoint.Mismatched(err) {
			Report(p.Err, err)
			return app.OpenEvidence(ctx, cfg)
		}
		return svc, err
	}
	if p.Database != "" { // which processes share
		svc, err := open(ctx)
		if err != nil {
			return nil, err
		}
		return &backend.Local{Service: svc}, nil
	}
	cfg.Wait = 0 // the host waits
	h := &backend.Host{
		Dir: cfg.Data, Open: open, Wait: p.LockWait, Principal: p.asker(), Lasting: p.Lasting,
		NeedsReduced: p.Given("allow-reduced") && p.Reduced, NeedsAgents: p.Talks,
		Offer: localsocket.Welcome{Command: p.command, Version: p.Version, Reduced: p.Reduced, Agents: p.Talks},
		Note:  func(line string) { fmt.Fprintln(p.Err, line) },
	}
	sys, err := h.Find(ctx)
	if r, ok := sys.(*backend.Remote); ok && r.Served.PID != 0 && p.Given("models") {
		fmt.Fprintln(p.Err, "note: "+r.Served.String()+" has the data directory and decides which models there are")
	}
	return sys, err
}

// asker is on whose behalf requests are sent to the process that serves the data directory. A command that is about
// another principal (AsIf) is done by the user of the system.
func (p *Profile) asker() haft.Principal {
	own := *p
	own.Acting = ""
	if p.AsIf {
		own.User, own.Roles = "", []string{haft.RoleAdmin, haft.RoleApprover}
	}
	return own.Principal()
}
