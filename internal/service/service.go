// Package service manages what calls are made of and what is left of them: tools, agents,
// policies, MCP servers, sandbox configurations, secrets, the history of calls, requests
// for approval, retention, export and erasure. Calls themselves run in package engine, to
// which this package talks through the interfaces of [Engine].
//
// Each manager owns one area. [API] is the sum of those that implement [haft.Service].
package service

import (
	"context"
	"crypto/rand"
	"iter"
	"log/slog"
	"time"

	"haft"
	"haft/internal/authority"
	"haft/internal/callenv"
	"haft/internal/egress/route"
	"haft/internal/engine"
	"haft/internal/event"
	"haft/internal/filestore"
	"haft/internal/memory"
	"haft/internal/memorystore"
	"haft/internal/registry"
	"haft/internal/secret"
	"haft/internal/session"
	"haft/internal/store"
	"haft/internal/workspace"
	"haft/policy"
)

// page is how many rows are read at once.
const page = 100

// Config has the settings of a service. The zero value is useful.
type Config struct {
	// Owner names this process where several share a store; empty makes a name up.
	Owner string
	// Rules say who may do what.
	Rules authority.Rules
	// Vault keeps the variables of organisations and agents. Nil keeps those of
	// agents in their rows, and none of organisations.
	Vault Vault
	// Upstream reaches MCP servers. Nil means that there are none.
	Upstream Upstream
	// Egress knows the hosts of a network. Nil means that no network can be given.
	Egress route.Guard
	// Ceilings are the highest limits of a server; zero fields are those of package haft.
	Ceilings haft.Limits
	// CommandVariables are reserved names that variables of an MCP server may have which is a
	// command: PYTHONPATH decides which code it loads, and LD_PRELOAD too.
	CommandVariables []string
	// KeepEvents is how long events can be replayed; 0 means a week.
	KeepEvents time.Duration
	// Retention says how long calls are kept that have ended, where an organisation has
	// no bounds of its own; zero fields are those of [haft.DefaultRetention].
	Retention haft.Retention
	// Sessions has the sandboxes that live for many calls; nil means that there are none.
	Sessions *session.Manager
	// Memory is that of agents; nil means one whose passages are found by their words alone.
	Memory *memorystore.Store
	// PruneEvery is how often a round of pruning may begin; 0 means 4 seconds.
	PruneEvery time.Duration
	// Logger is told what an operator could act on. Nil discards.
	Logger *slog.Logger
}

// filled returns the configuration with its defaults.
func (c Config) filled() Config {
	if c.Owner == "" {
		c.Owner = "p_" + rand.Text()
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if c.Rules.Operators == "" {
		c.Rules.Operators = authority.EveryOrg
	}
	if c.KeepEvents == 0 {
		c.KeepEvents = 7 * 24 * time.Hour
	}
	if c.PruneEvery == 0 {
		c.PruneEvery = 4 * time.Second
	}
	c.Ceilings, c.Retention = c.Ceilings.Or(haft.LimitCeilings()), c.Retention.Or(haft.DefaultRetention())
	return c
}

// A Vault keeps the variables of organisations and of agents: what is put into it
// can be used, replaced and removed, and not be read back. An empty agent means
// the organisation itself.
type Vault interface {
	callenv.Vault
	// List says what is stored in one scope, by name.
	List(ctx context.Context, org string, agent haft.AgentID) ([]secret.Info, error)
	// Put stores a value in the place of the one that is there, and where it may
	// go: nil means where that may, and no hosts means everywhere.
	Put(ctx context.Context, org string, agent haft.AgentID, name string, v secret.Value, b *secret.Binding) error
	// Remove removes a value, or returns [haft.CodeNotFound].
	Remove(ctx context.Context, org string, agent haft.AgentID, name string) error
	// PutEnv makes env all that is stored for an agent: an empty value keeps the one
	// that is there. What has to be written for that is given to write, which writes
	// the agent with it, or neither. It may be called more than once.
	PutEnv(ctx context.Context, org string, agent haft.AgentID, env map[string]secret.Value,
		write func(store.OwnSecrets) error) error
}

// Changes is how the engine learns that permissions have changed, or that something was done
// without a call.
type Changes interface {
	// Charge takes what a decision says that a call costs, for work that is no call, and
	// writes an entry of the audit about it.
	Charge(ctx context.Context, p haft.Principal, d policy.Decision, kind string, body any) error
	// Log writes an entry of the audit that is not about a call, and has the calls of the
	// organisation, or of all if org is empty, decided again.
	Log(ctx context.Context, p haft.Principal, org, kind string, body any) error
	// AnnounceChange has everything that is kept in memory of an organisation read again,
	// here and on other servers, and its calls decided again.
	AnnounceChange(ctx context.Context, org string) error
}

// Decisions are made by the engine about calls, and needed here too.
type Decisions interface {
	// Rules returns the policy that holds in an organisation now.
	Rules(ctx context.Context, org string) (*policy.Policy, error)
	// CheckSandbox reports why nothing can run in a sandbox of that name.
	CheckSandbox(name, pointer string) error
	// ServerHosts returns the hosts that an MCP server can reach.
	ServerHosts(s haft.MCPServer) ([]string, error)
	// Explain says what would be decided about a call.
	Explain(ctx context.Context, c haft.Call) (policy.Decision, error)
	// Answerable reports whether p could answer a request for approval.
	Answerable(ctx context.Context, p haft.Principal, a haft.Approval) bool
	// Answer writes what p says to a request that waits, and has its call go on or ends it.
	Answer(ctx context.Context, p haft.Principal, a *haft.Approval, answer haft.Answer) (*haft.Approval, error)
}

// Work is the rest of what the engine does for the service.
type Work interface {
	// Go runs work in the background until the engine is closed. It reports whether it
	// still takes work.
	Go(work func(context.Context)) bool
	// Seen returns the record of a call, if one of the actions lets p have it.
	Seen(ctx context.Context, p haft.Principal, id haft.CallID, actions ...haft.Action) (*haft.Record, error)
	// WatchFor yields events that fit a filter, and Cursor is that of the last event.
	WatchFor(ctx context.Context, f event.Filter, after int64) iter.Seq2[haft.Event, error]
	Cursor(ctx context.Context) (int64, error)
}

// base is what all managers have.
type base struct {
	cfg       Config
	store     *store.Store
	registry  *registry.Registry
	memory    *memorystore.Store
	authority authority.Rules

	// The parts of the engine that managers use.
	calls     haft.Caller
	plans     haft.Planner
	operator  haft.Operator
	changes   Changes
	decisions Decisions
	work      Work
}

// log writes an entry of the audit about a change of p's organisation.
func (b *base) log(ctx context.Context, p haft.Principal, kind string, body any) error {
	return b.changes.Log(ctx, p, p.Org, kind, body)
}

// askWorkspace asks the policy whether p may use a workspace without a call. Rules name an agent by its id or
// its name, as for calls.
func (b *base) askWorkspace(ctx context.Context, p haft.Principal, w *haft.CallWorkspace) error {
	rules, err := b.decisions.Rules(ctx, p.Org)
	if err != nil {
		return err
	}
	req := policy.Request{Principal: p, Workspace: w}
	if p.Agent != "" {
		agent, err := b.store.Agents.Agent(ctx, p.Org, p.Agent)
		if haft.CodeOf(err) == haft.CodeNotFound {
			return &haft.Error{Code: haft.CodeDenied, Message: "there is no such agent in this organisation"}
		}
		if err != nil {
			return err
		}
		req.Principal.Agent, req.AgentName = string(agent.ID), agent.Name
	}
	return rules.CheckWorkspace(req)
}

// manage has do run if p may do the action, and writes to the audit that it was done,
// with what do returns.
func (b *base) manage(ctx context.Context, p haft.Principal, a haft.Action, kind string,
	do func(context.Context) (any, error)) error {
	if err := b.authority.May(p, a); err != nil {
		return err
	}
	body, err := do(ctx)
	if err != nil {
		return err
	}
	return b.log(ctx, p, kind, body)
}

// An API is everything that an API can do. It implements [haft.Service]; what is no part
// of that is in the fields.
type API struct {
	haft.Caller
	haft.Planner
	haft.Operator
	*ToolManager
	*AgentManager
	*ApprovalManager
	*History

	Policies   *PolicyManager
	Servers    *ServerManager
	Sandboxes  *SandboxManager
	Variables  *SecretManager
	Retainer   *RetentionManager
	Data       *DataManager
	Files      *FileManager
	Sessions   *SessionManager
	Workspaces haft.Workspaces
	Snapshots  *SnapshotManager
	Memory     *memory.API

	base *base
}

var (
	_ haft.Service    = (*API)(nil)
	_ haft.MCPServers = (*ServerManager)(nil)
	_ haft.Sandboxes  = (*SandboxManager)(nil)
	_ haft.Meter      = (*History)(nil)
	_ haft.Retainer   = (*RetentionManager)(nil)
	_ haft.Eraser     = (*DataManager)(nil)
	_ haft.Files      = (*FileManager)(nil)
)

// New returns a service over an engine and its parts. It prunes old calls until the engine
// is closed.
func New(e *engine.Engine, parts engine.Parts, cfg Config) *API {
	cfg = cfg.filled()
	files := parts.Files
	if files == nil {
		files = filestore.New(parts.Store, filestore.Config{})
	}
	spaces := parts.Workspaces
	if spaces == nil {
		spaces = workspace.New(parts.Store, workspace.Config{})
	}
	if cfg.Memory == nil {
		cfg.Memory = memorystore.New(parts.Store)
	}
	b := &base{cfg: cfg, store: parts.Store, registry: parts.Registry, authority: cfg.Rules,
		memory: cfg.Memory, calls: e, plans: e, operator: e, changes: e, decisions: e, work: e}
	a := &API{
		Caller: e, Planner: e, Operator: e, base: b,
		ToolManager: &ToolManager{b}, AgentManager: &AgentManager{b}, ApprovalManager: &ApprovalManager{b},
		History: &History{b}, Policies: &PolicyManager{b}, Servers: &ServerManager{base: b},
		Sandboxes: &SandboxManager{b}, Variables: &SecretManager{b}, Retainer: &RetentionManager{b, files, spaces},
		Files: &FileManager{b, files}, Sessions: &SessionManager{b, cfg.Sessions},
	}
	kept := &workspace.API{Store: spaces, Rules: cfg.Rules, Files: a.Files, Log: b.log, Ask: b.askWorkspace}
	a.Workspaces, a.Snapshots = kept.Roles(), &SnapshotManager{a.Sessions, kept}
	a.Memory = &memory.API{Store: b.memory, Agents: parts.Store.Agents, Rules: cfg.Rules, Log: b.log}
	a.Data = &DataManager{base: b, tools: a.ToolManager, agents: a.AgentManager, approvals: a.ApprovalManager,
		servers: a.Servers, sandboxes: a.Sandboxes, files: files, workspaces: spaces}
	e.Go(a.Retainer.pruneLoop)
	e.Go(a.Retainer.indexLoop)
	return a
}

// Authorize reports why p may not do an action to a resource. Every method of this package
// and of the engine that somebody calls asks the same rules first. Whether p may call a
// tool is decided by the authorize stage of the engine.
func (a *API) Authorize(p haft.Principal, act haft.Action, res authority.Resource) error {
	return a.base.authority.Authorize(p, act, res)
}

// May is Authorize for what belongs to the organisation as a whole.
func (a *API) May(p haft.Principal, act haft.Action) error { return a.base.authority.May(p, act) }

// Manage has do run if p may do the action, and writes to the audit that it was
// done, with what do returns.
func (a *API) Manage(ctx context.Context, p haft.Principal, act haft.Action, kind string,
	do func(context.Context) (any, error)) error {
	return a.base.manage(ctx, p, act, kind, do)
}
