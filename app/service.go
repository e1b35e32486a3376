package app

import (
	"context"
	_ "embed" // the default policy
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"time"

	"haft"
	"haft/executor"
	"haft/executor/builtin"
	"haft/executor/script"
	"haft/internal/agents"
	"haft/internal/agentstate"
	"haft/internal/audit"
	"haft/internal/authority"
	"haft/internal/checkpoint"
	"haft/internal/datadir"
	"haft/internal/egress"
	"haft/internal/egress/session"
	"haft/internal/engine"
	"haft/internal/pdftext"
	"haft/internal/registry"
	"haft/internal/secret"
	"haft/internal/secret/vault"
	"haft/internal/service"
	sandboxed "haft/internal/session"
	"haft/internal/store"
	"haft/internal/store/postgres"
	"haft/internal/store/sqlite"
	"haft/internal/supply"
	"haft/internal/toolsource"
	"haft/internal/webhook"
	"haft/internal/workspace"
	"haft/policy"
)

// ServiceConfig configures a [Service]. The zero value keeps tools and calls in
// memory.
type ServiceConfig struct {
	Config
	// Data is the directory of the embedded store and of keys; "" keeps nothing.
	Data string
	// Database is the address of a Postgres; "" means the embedded store.
	Database string
	// Wait is how long to wait for another process that has locked Data.
	Wait time.Duration
	// Busy says that many calls will come, see [sqlite.Config].
	Busy bool
	// NoRedoLog writes no log in front of the embedded store. HAFT_NO_REDO_LOG in the
	// environment does the same. A log that an earlier process left is still read.
	NoRedoLog bool
	// Policy is the policy of the server until one is stored. Nil means that only
	// administrators may call tools.
	Policy []byte
	// PublicVariables are names of variables whose values are no secrets, and may be seen.
	PublicVariables []string
	// Allow are ranges of private addresses that fetching tools may reach.
	Allow []netip.Prefix
	// Egress configures outgoing connections: which local names may be looked up, by
	// which resolver, and which authorities are trusted. Its Allow is added to Allow.
	Egress egress.Config
	// MasterKey encrypts the keys of secrets: 32 random bytes, or those in base64.
	// Nil means that of MasterKeyFile, else of the environment
	// (HAFT_MASTER_KEY_FILE, HAFT_MASTER_KEY, or what HAFT_MASTER_KEY_COMMAND
	// prints), else master.key in Data, which is made when it is needed first.
	MasterKey     []byte
	MasterKeyFile string
	// Search configures the search provider of the tool web_search.
	Search SearchConfig
	// Credentials says where the credentials of calls are fetched from.
	Credentials CredentialsConfig
	// Upstream says how MCP servers are reached.
	Upstream UpstreamConfig
	// SelfReview allows the author of a version with findings to accept it.
	SelfReview bool
	// Builtins adds built-in tools of a program that embeds Haft.
	Builtins func(*builtin.Set) error
	// Progress is called with each line of progress while packages are installed, and
	// with "" at the end: for the person at the terminal. Nil shows no progress.
	Progress func(line string)
	// Webhooks adjusts how events are sent to webhooks. Deliver sends them; without it
	// they are stored until a server sends them.
	Webhooks webhook.Config
	Deliver  bool
	// AuditSink is where a copy of every checkpoint of the audit goes, see
	// [checkpoint.OpenSink]; "" means nowhere.
	AuditSink string
	// Engine adjusts the pipeline, and Manage what is managed around it.
	Engine engine.Config
	Manage service.Config
	// Agents says how agents are run.
	Agents agents.Config
}

// defaultPolicy is the policy of a server that has none: only administrators may call tools.
//
//go:embed default_policy.yaml
var defaultPolicy []byte

// DefaultPolicy returns the document of a server that has none.
func DefaultPolicy() []byte { return slices.Clone(defaultPolicy) }

// A Service is an engine with all its parts. Close it.
type Service struct {
	*engine.Engine
	*service.API
	*service.PolicyManager
	*service.ServerManager
	*service.SandboxManager
	*service.SecretManager
	*service.RetentionManager
	*service.DataManager
	*webhook.Sender
	*checkpoint.AuditLog
	App      *App
	Store    *store.Store
	Registry *registry.Registry
	// AgentLoop runs agents.
	AgentLoop *agents.Agents

	dir *datadir.Dir // with an empty path if nothing is kept
	// digestKey makes digests of arguments and results.
	digestKey []byte
	keeper    *checkpoint.Keeper // nil if nothing is signed
	vault     *vault.Vault
	locker    *supply.Locker
	sessions  *sandboxed.Manager
	closers   []func() error
}

// OpenService opens a Service.
func OpenService(ctx context.Context, cfg ServiceConfig) (_ *Service, err error) {
	s := &Service{}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.Close())
		}
	}()
	if err := s.openStore(ctx, cfg); err != nil {
		return nil, err
	}
	if err := s.openAudit(ctx, cfg); err != nil {
		return nil, err
	}
	cfg.Keep, cfg.owner = true, datadir.Owner(cfg.Data, s.digestKey)
	if cfg.Egress, err = cfg.egressConfig(); err != nil {
		return nil, err
	}
	if cfg.Data != "" && cfg.Packages.Dir == "" {
		cfg.Packages.Dir = filepath.Join(cfg.Data, "layers")
	}
	if s.App, err = Open(ctx, cfg.Config); err != nil {
		return nil, err
	}
	s.closers = append(s.closers, s.App.Close)
	s.sessions = sandboxed.New(sandboxed.Config{Home: s.App.Sandboxes.Home, Open: s.App.Sandboxes.OpenSession})
	s.locker = &supply.Locker{Store: s.Store.Tools, Supply: s.App.Supply, Progress: cfg.Progress, Shared: s.shared}
	s.AgentLoop = agents.New(s.Store)
	spaces := workspace.New(s.Store, workspace.Config{Dir: cfg.workspaces(), InSession: s.sessions.Brings})
	s.closers = append(s.closers, spaces.Close, func() error { s.sessions.Close(); return nil })
	tools, err := s.builtins(cfg, spaces)
	if err != nil {
		return nil, err
	}
	hooked := false // whether variables of calls are fetched
	s.Registry = registry.New(s.Store, registry.Config{
		Unavailable: s.unavailable(tools, &hooked),
		Derive:      s.derive, Lock: s.locker.Lock, Scan: s.locker.Scan, Review: s.App.Review, Judge: s.judge,
		SelfReview: s.mayAcceptOwn(cfg.SelfReview),
		Builtin:    tools.Tools(),
		HasProgram: script.HasSystemProgram, CanIsolate: s.App.Sandboxes.CanIsolate,
	})
	ec, err := s.engineConfig(cfg)
	if err != nil {
		return nil, err
	}
	ec.RunsCode = tools.RunsCode
	s.endSessions(&ec)
	if err := s.openSecrets(ctx, cfg, &ec); err != nil {
		return nil, err
	}
	hooked = ec.Credentials != nil
	pool, err := s.openUpstream(ctx, &cfg, &ec)
	if err != nil {
		return nil, err
	}
	scripts := agentstate.Executor{Executor: s.App.Sandboxes, States: s.AgentLoop.Memory()}
	wired := make(chan struct{})
	ec.Started = wired // what was accepted before may need the engine that is being made
	parts := engine.Parts{
		Store: s.Store, Registry: s.Registry,
		Workspaces: spaces,
		Executors: map[haft.Kind]executor.Executor{
			haft.KindBuiltin: tools, haft.KindPython: scripts, haft.KindTypeScript: scripts,
			haft.KindJavaScript: scripts, haft.KindBash: scripts, haft.KindMCP: pool,
		},
	}
	if s.Engine, err = engine.Open(ctx, parts, ec); err != nil {
		return nil, fmt.Errorf("open the engine: %w", err)
	}
	s.closers = append(s.closers, s.Engine.Close)
	s.openAPI(parts, ec, cfg.Manage)
	if err := s.openAgents(cfg.Agents, ec); err != nil {
		return nil, err
	}
	close(wired)
	if err := s.openWebhooks(ctx, cfg); err != nil {
		return nil, err
	}
	return s, nil
}

// workspaces is the directory of workspaces; empty means that there can be none.
func (c ServiceConfig) workspaces() string {
	if c.Data == "" {
		return ""
	}
	return filepath.Join(c.Data, "workspaces")
}

// openAPI puts together what manages the parts of calls.
func (s *Service) openAPI(parts engine.Parts, ec engine.Config, c service.Config) {
	c.Rules = authority.Rules{Managers: ec.Managers, Operators: ec.Operators}
	c.Sessions, c.Memory = s.sessions, s.AgentLoop.Memory().Store
	c.Owner, c.Egress, c.Ceilings, c.PruneEvery, c.Logger = ec.Owner, ec.Egress, ec.Ceilings, ec.Beat, ec.Logger
	if c.Vault == nil {
		c.Vault = s.vault
	}
	s.API = service.New(s.Engine, parts, c)
	s.PolicyManager, s.ServerManager, s.SandboxManager = s.API.Policies, s.API.Servers, s.API.Sandboxes
	s.SecretManager, s.RetentionManager, s.DataManager = s.API.Variables, s.API.Retainer, s.API.Data
}

// openAgents runs the turns of agents.
func (s *Service) openAgents(cfg agents.Config, ec engine.Config) error {
	s.closers = append(s.closers, s.AgentLoop.Close)
	return s.AgentLoop.Open(agents.Parts{
		Engine: s.Engine, Finder: s.API, Artifacts: s.API.Files, Tools: s.Registry, Vault: s.vault, Logger: ec.Logger,
		Names: ec.Names, Personal: ec.Personal, Rules: authority.Rules{Managers: ec.Managers, Operators: ec.Operators},
		Recheck: func(ctx context.Context, p haft.Principal) (haft.Principal, error) {
			now, _, err := ec.Recheck(ctx, p)
			return now, err
		},
	}, cfg)
}

// Close ends everything, last first. It can be called twice.
func (s *Service) Close() error {
	var errs []error
	for i := len(s.closers) - 1; i >= 0; i-- {
		errs = append(errs, s.closers[i]())
	}
	s.closers = nil
	return errors.Join(errs...)
}

// Healthy makes a real call, of a script in a sandbox and through the whole
// pipeline, and reports why its result is wrong. A process that merely runs proves
// nothing.
func (s *Service) Healthy(ctx context.Context) error {
	if s.keeper != nil {
		if err := s.keeper.Err(); err != nil {
			return fmt.Errorf("the audit log is not signed: %w", err)
		}
	}
	res, err := s.Canary(ctx, "run_code", json.RawMessage(`{"language": "python", "code": "6*7"}`))
	if err != nil {
		return fmt.Errorf("the canary call has no result: %w", err)
	}
	var out struct {
		Value json.RawMessage `json:"value"`
	}
	if err := json.Unmarshal(res.Value, &out); err != nil || string(out.Value) != "42" {
		return &haft.Error{Code: haft.CodeUnavailable,
			Message: "the canary call ended with " + string(res.Status) + " and not with its value"}
	}
	return nil
}

// openStore opens the store of the service.
func (s *Service) openStore(ctx context.Context, cfg ServiceConfig) (err error) {
	if s.Store, err = openStore(ctx, cfg, nil); err == nil {
		s.closers = append(s.closers, s.Store.Close)
	}
	return err
}

// openStore opens the store that cfg asks for. What accept returns is written to the
// audit if a part of the redo log is lost; nil refuses that.
func openStore(ctx context.Context, cfg ServiceConfig, accept func(*store.LogLoss) audit.Entry) (*store.Store, error) {
	var db *store.Store
	var err error
	if cfg.Database != "" {
		if err := makeDataDir(cfg); err != nil {
			return nil, err
		}
		db, err = postgres.Open(ctx, cfg.Database, postgres.Config{})
	} else {
		db, err = sqlite.Open(ctx, sqlite.Config{
			Dir: cfg.Data, Wait: cfg.Wait, Busy: cfg.Busy, Logger: cfg.Logger, Siblings: datadir.Siblings(),
			NoLog: cfg.NoRedoLog || os.Getenv("HAFT_NO_REDO_LOG") != "", AcceptLoss: accept,
		})
	}
	if err != nil {
		return nil, err // which says that it is about the store
	}
	return db, nil
}

// makeDataDir makes the data directory beside a Postgres, as the embedded store does for
// itself, and logs what it will contain: an operator may take it for empty.
func makeDataDir(cfg ServiceConfig) error {
	if cfg.Data == "" {
		return nil
	}
	if _, err := os.Stat(cfg.Data); !errors.Is(err, fs.ErrNotExist) {
		return nil // other errors are found where it is used
	}
	if err := os.MkdirAll(cfg.Data, 0o700); err != nil {
		return fmt.Errorf("make the data directory: %w", err)
	}
	if cfg.Logger != nil {
		cfg.Logger.Info("made the data directory: tools and calls are in the database, keys and installed packages "+
			"are here; keep a copy of the keys",
			"dir", cfg.Data, "keys", "auth.key audit.key digest.key master.key")
	}
	return nil
}

// builtins returns the built-in tools.
func (s *Service) builtins(cfg ServiceConfig, spaces *workspace.Store) (*builtin.Set, error) {
	set := &builtin.Set{Logger: cfg.Logger}
	guard, pdfs := egress.New(cfg.Egress), &pdftext.Reader{}
	s.closers = append(s.closers, pdfs.Close)
	more := func(*builtin.Set) error { return nil }
	if cfg.Builtins != nil {
		more = cfg.Builtins
	}
	if err := errors.Join(
		more(set),
		builtin.RunCode(set, s.App.Sandboxes, builtin.CodeConfig{TypeScript: s.App.executor.TypeScript,
			Sessions: s.sessions}),
		builtin.RunCommand(set, s.sessions),
		builtin.RunCodeWithTools(set, s.App.Sandboxes, builtin.CodeConfig{TypeScript: s.App.executor.TypeScript}),
		builtin.FetchWebpage(set, guard.Client(),
			func(ctx context.Context, org string, f []byte, n int) (builtin.PDF, error) {
				text, err := pdfs.Text(ctx, org, f, n)
				return builtin.PDF(text), err
			}),
		builtin.HTTPRequest(set, guard.Client()),
		s.sourceTool().Add(set),
		s.AgentLoop.AddTools(set, spaces),
	); err != nil {
		return nil, fmt.Errorf("add the built-in tools: %w", err)
	}
	end, err := addSearch(set, cfg.Search, cfg.Egress)
	if err != nil {
		return nil, fmt.Errorf("add the web search: %w", err)
	}
	s.closers = append(s.closers, end)
	return set, nil
}

// engineConfig completes the configuration of the engine with keys and policy.
func (s *Service) engineConfig(cfg ServiceConfig) (engine.Config, error) {
	ec := cfg.Engine
	if ec.Names == nil {
		ec.Names = secret.NewPublicNames(cfg.PublicVariables)
	}
	if ec.Logger == nil {
		ec.Logger = cfg.Logger
	}
	if ec.Sandboxes == nil {
		ec.Sandboxes = s.App.Sandboxes.Known
	}
	if ec.Egress == nil {
		ec.Egress = &session.Opener{Guard: egress.New(cfg.Egress), Logger: s.App.cfg.Logger}
	}
	if ec.Packages == nil {
		ec.Packages = s.locker
	}
	if ec.Heavy == nil {
		// Built-in tools that run code need a processor, like scripts. run_command waits more than it computes,
		// as shells and servers do, and is bounded by the number of sessions.
		ec.Heavy = func(t haft.Tool) bool {
			return t.Version.Kind != haft.KindBuiltin && t.Version.Kind != haft.KindMCP ||
				t.ID == "builtin:run_code" || t.ID == "builtin:run_code_with_tools" ||
				t.ID == "builtin:"+toolsource.ToolName
		}
	}
	if ec.Recheck == nil {
		var err error
		if ec.Recheck, err = s.recheckKept(); err != nil {
			return ec, err
		}
	}
	text := cfg.Policy
	if text == nil {
		text = defaultPolicy
	}
	var err error
	if ec.Policy, err = policy.Compile(text); err != nil {
		return ec, fmt.Errorf("compile the policy of the server: %w", err)
	}
	if cfg.Data == "" {
		return ec, nil
	}
	ec.Checkpoint, ec.DigestKey = s.keeper.Sign, s.digestKey
	if t, ok := ec.Observer.(interface{ SetKey(key []byte) }); ok && len(s.digestKey) > 0 {
		t.SetKey(s.digestKey)
	}
	return ec, nil
}

// DataDir is the default data directory: $HAFT_DATA, or one in the user's directory for
// state.
func DataDir() (string, error) {
	if dir := os.Getenv("HAFT_DATA"); dir != "" {
		return dir, nil
	}
	if dir := os.Getenv("XDG_STATE_HOME"); filepath.IsAbs(dir) {
		return filepath.Join(dir, "haft"), nil
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return "", &haft.Error{Code: haft.CodeInvalid,
			Message: "there is no home directory: say where to keep state with --data", Err: err}
	}
	return filepath.Join(home, ".local", "state", "haft"), nil
}
