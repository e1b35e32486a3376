package engine

import (
	"context"
	"runtime"
	"time"

	"haft"
	"haft/internal/authority"
	"haft/internal/chains"
	"haft/internal/circuit"
	"haft/internal/egress/route"
	"haft/internal/event"
	"haft/internal/journal"
	"haft/internal/membership"
)

// wire makes the parts of an engine, which have been allocated, known to each other. Each
// part has the state of its own concern, and names the parts that it needs.
func (e *Engine) wire(ctx context.Context, parts Parts) {
	registry := parts.Registry
	rules := authority.Rules{Managers: e.cfg.Managers, Operators: e.cfg.Operators}
	*e.calls = callTable{cfg: e.cfg, executions: map[haft.CallID]*execution{}, recording: map[haft.CallID]bool{}}
	e.calls.ctx, e.calls.cancel = context.WithCancelCause(context.WithoutCancel(ctx))
	e.members = membership.New(e.calls.ctx, membership.Config{Store: e.store.Processes, Beat: e.cfg.Beat,
		DeadAfter: e.cfg.DeadAfter, Drop: e.drop, Logger: e.cfg.Logger})
	log := journal.New(e.store, e.members.Owner, membership.GivenUp, overtaken)
	e.hub = event.New(event.Config{Log: log, Logger: e.cfg.Logger})
	e.chains = chains.New(chainHost{e}.host(), chains.Config{Store: e.store, Authority: rules, Most: e.cfg.Backlog,
		Names: e.cfg.Names, Sealer: e.cfg.Sealer, Logger: e.cfg.Logger})
	e.wireStages(parts, rules, log)
	*e.approvals = approvals{
		store: e.store, authority: rules, authorizer: e.authorizer, dispatcher: e.dispatcher,
		permissions: e.permissions, recorder: e.recorder, redaction: e.redaction, orgs: e.orgs, seals: e.seals,
	}
	*e.recovery = recovery{
		cfg: e.cfg, store: e.store, registry: registry, calls: e.calls, chains: e.chains, dispatcher: e.dispatcher,
		members: e.members, recorder: e.recorder, seals: e.seals,
	}
	*e.operator = operator{
		cfg: e.cfg, store: e.store, authority: rules, calls: e.calls, entrance: e.entrance,
		permissions: e.permissions, recorder: e.recorder, redaction: e.redaction,
	}
	*e.housekeeper = housekeeper{cfg: e.cfg, journal: log, approvals: e.approvals, recovery: e.recovery}
	*e.permissions = permissions{
		cfg: e.cfg, store: e.store, authorizer: e.authorizer, calls: e.calls, members: e.members,
		operator: e.operator, recorder: e.recorder, redaction: e.redaction, orgs: e.orgs,
		seals: e.seals, reviews: map[string]bool{}, waiting: map[string]haft.Principal{},
		ends: map[string]time.Time{}, turns: make(chan struct{}, reviewsAtOnce),
	}
	d := e.dispatcher
	d.cfg, d.store, d.journal, d.calls, d.chains = e.cfg, e.store, log, e.calls, e.chains
	d.members, d.pipeline, d.recorder, d.recovery, d.redaction = e.members, e.pipeline, e.recorder, e.recovery,
		e.redaction
	e.permissions.run = e.permissions.reviewOrg
}

// wireStages is wire for the parts that have the stages of the pipeline.
func (e *Engine) wireStages(parts Parts, rules authority.Rules, log *journal.Journal) {
	registry := parts.Registry
	*e.redaction = redaction{cfg: e.cfg, store: e.store, digests: e.digests, env: e.env}
	*e.filters = filters{screens: make(chan struct{}, max(1, runtime.NumCPU()/2))}
	*e.egress = egressPlanner{cfg: e.cfg, calls: e.calls, env: e.env, plan: route.NewPlanner(e.cfg.Egress,
		e.store.MCPServers)}
	*e.seals = callSealer{cfg: e.cfg, members: e.members, permissions: e.permissions, redaction: e.redaction}
	*e.authorizer = authorizer{
		cfg: e.cfg, store: e.store, registry: registry, calls: e.calls, digests: e.digests, egress: e.egress,
		env: e.env, filters: e.filters, operator: e.operator, permissions: e.permissions, redaction: e.redaction,
		orgs: e.orgs, files: parts.Files, workspaces: parts.Workspaces, authority: rules, turns: chains.NewLocks(),
		blocks: circuit.NewBlocks(e.cfg.BlockFor),
	}
	*e.entrance = entrance{
		cfg: e.cfg, store: e.store, registry: registry, files: parts.Files, workspaces: parts.Workspaces,
		authority: rules, journal: log,
		authorizer: e.authorizer, calls: e.calls, digests: e.digests, dispatcher: e.dispatcher, limiter: e.limiter,
		members: e.members, permissions: e.permissions, pipeline: e.pipeline, recorder: e.recorder,
		redaction: e.redaction, seals: e.seals,
	}
	*e.limiter = limiter{cfg: e.cfg, store: e.store, authorizer: e.authorizer}
	*e.runner = runner{
		cfg: e.cfg, store: e.store, registry: registry, files: parts.Files, workspaces: parts.Workspaces,
		authority: rules, authorizer: e.authorizer,
		calls: e.calls, digests: e.digests, dispatcher: e.dispatcher, egress: e.egress, entrance: e.entrance,
		env: e.env, filters: e.filters, permissions: e.permissions, pipeline: e.pipeline, recorder: e.recorder,
		redaction: e.redaction, executors: parts.Executors, breaker: circuit.NewBreakers(e.cfg.Breaker),
		installs: chains.NewLocks(),
	}
	*e.recorder = recorder{
		cfg: e.cfg, store: e.store, files: parts.Files, hub: e.hub, journal: log, calls: e.calls, chains: e.chains,
		digests: e.digests, entrance: e.entrance, members: e.members, redaction: e.redaction, seals: e.seals,
	}
	*e.pipeline = pipeline{
		cfg: e.cfg, journal: log, authorizer: e.authorizer, calls: e.calls, dispatcher: e.dispatcher,
		entrance: e.entrance, filters: e.filters, limiter: e.limiter, permissions: e.permissions,
		recorder: e.recorder, redaction: e.redaction, runner: e.runner, seals: e.seals,
	}
	e.pipeline.stages = stages(e.authorizer, e.limiter, e.runner)
	e.limiter.open()
}

// drop ends the calls that this process has under a name which others have given up, and returns
// how many they are.
func (e *Engine) drop(owner string) int {
	dropped := 0
	e.calls.mu.Lock()
	for _, ex := range e.calls.executions {
		if ex.owner == owner {
			ex.cancel(membership.ErrDropped)
			dropped++
		}
	}
	e.calls.mu.Unlock()
	e.dispatcher.Forget()
	return dropped
}
