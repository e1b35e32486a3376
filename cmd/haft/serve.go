package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"haft"
	"haft/app"
	"haft/internal/backend"
	"haft/internal/cli"
	"haft/internal/daemon"
	"haft/internal/exit"
	"haft/internal/flagvalue"
	"haft/internal/localsocket"
	"haft/internal/modelfile"
	"haft/internal/supply"
	"haft/internal/terminal"
	"haft/internal/toolfile"
)

// serveFlags are the flags of serve.
type serveFlags struct {
	cfg              app.ServerConfig // flags set its fields where they can
	addr             string
	proxies, ranges  []string
	tlsCert, tlsKey  string
	pipIndex, npmReg string // the environment may hold credentials, which no default may show
	wheels           []string
	drain, readyWait time.Duration
	logFormat, level string
	header           flagvalue.Size
	oidc             oidcFlags
	tls              *daemon.Certificate // nil without TLS
	models           string
	// during works beside the server and ends it; nil means that only a signal does.
	during func(ctx context.Context, sys *app.Server, at net.Addr) error
}

// serveCommand answers requests over HTTP.
func serveCommand(p *cli.Profile) cli.Command {
	s := &serveFlags{}
	flags := s.flags(p)
	env := []string{"ready-wait", "takeover", "lock-wait", "audit-sink", "models"}
	for _, fl := range flags {
		if strings.HasPrefix(fl.Name, "keep-") || strings.HasPrefix(fl.Name, "oidc-") {
			env = append(env, fl.Name)
		}
	}
	return cli.Command{
		Alone: true,
		Use:   "serve", Short: "Answer requests over HTTP until it is told to stop",
		Long: `serve answers requests over HTTP: on a loopback address and with embedded storage
if nothing else is said. The first time it makes a key for an administrator and
writes it to admin.key in the data directory.

SIGTERM and SIGINT stop it: /readyz answers 503, after --ready-wait the listener
closes, and calls in flight end within --drain. A second signal ends them at once.
SIGHUP reads the certificate, its key and the keys of issuers again.`,
		Example: `  haft serve
  haft serve --addr 0.0.0.0:7717 --host haft.example.com --tls-cert cert.pem --tls-key key.pem`,
		Flags: flags, Env: env,
		Plain: func(ctx context.Context, p *cli.Profile, _ []string) error {
			defer tuneForServer()()
			return s.run(ctx, p)
		},
	}
}

func (s *serveFlags) flags(p *cli.Profile) []cli.Flag {
	s.addr, s.logFormat, s.level, s.cfg.Operators = "127.0.0.1:7717", "text", "info", "local"
	c := &s.cfg
	s.drain, c.Engine.DeadAfter, c.Wait = 30*time.Second, 20*time.Second, cli.DefaultLockWait
	if !terminal.Is(p.Out) { // a person at a terminal sends no requests through a load balancer
		s.readyWait = 5 * time.Second
	}
	c.Auth.RequireUser, c.NoRedoLog = os.Getenv("HAFT_REQUIRE_USER") != "", os.Getenv("HAFT_NO_REDO_LOG") != ""
	c.Engine.Personal = os.Getenv("HAFT_REDACT_PERSONAL") != ""
	c.Manage.Retention, c.Packages = haft.DefaultRetention(), supply.FromEnv(os.Getenv)
	return slices.Concat([]cli.Flag{
		{&s.addr, "addr", "the `ADDRESS` to listen on; port 0 takes a free one"},
		{&p.Data, "data", "the `DIR` of the embedded store and of keys ($HAFT_DATA)"},
		{&c.Database, "database", "the `URL` of a Postgres"},
		{&c.Operators, "org", "the organisation whose administrators run the server"},
		{&c.HTTP.Hosts, "host",
			"a `NAME` by which the server is reached, instead of the loopback names; may be given again"},
		{&c.HTTP.Origins, "origin", "the `ORIGIN` of another page that may send requests; may be given again"},
		{&s.proxies, "proxy", "a `RANGE` of addresses whose X-Forwarded-For is believed; may be given again"},
		{&s.ranges, "allow-range", "a `RANGE` of addresses that are not public and that tools may reach all the same " +
			"($HAFT_ALLOW_RANGES); may be given again"},
		{&s.tlsCert, "tls-cert", "the `FILE` of the certificate"},
		{&s.tlsKey, "tls-key", "the `FILE` of its key"},
		{&s.pipIndex, "pip-index",
			"the `URL` of the Python package index ($HAFT_PIP_INDEX_URL, which hides credentials better)"},
		{&s.npmReg, "npm-registry", "the `URL` of the npm registry ($HAFT_NPM_REGISTRY)"},
		{&s.wheels, "wheels",
			"a `DIR` of Python wheels that packages are taken from; may be given again ($HAFT_WHEELS)"},
		{&c.Packages.Index.Offline, "offline", "ask no package index ($HAFT_OFFLINE)"},
		{&c.Packages.Advisories, "osv", "a `FILE`, directory or zip of advisories in the OSV format that packages " +
			"of tools are held against ($HAFT_OSV)"},
		{&c.Packages.Source, "build-from-source",
			"also install packages that have to be built, which runs their code in the sandbox"},
		{&c.Letta.Network, "letta-network", "a `HOST`, or full, for tools of Letta's API; may be given again"},
		{&c.Letta.Programs, "letta-program", "a `PROGRAM` of the host for tools of Letta's API; may be given again"},
		{&c.Sandbox, "sandbox", "where tools run for which nobody names a sandbox: `NAMES` with commas between, the " +
			"first that is available; auto means e2b where it is configured and allowed, else local; modal is for " +
			"what names it"},
		{&c.E2BDomain, "e2b-domain", "the `DOMAIN` below which E2B's API has the hosts of sandboxes, see docs/e2b.md"},
		{&c.Manage.CommandVariables, "mcp-variable", "a reserved variable `NAME` for MCP commands; may be given again"},
		{&c.PublicVariables, "public-variable", "the `NAME` of a variable that is no secret; may be given again"},
		{&s.models, "models", "the `FILE` that says which models agents of all organisations have; env means " +
			"those whose keys are in " +
			"the environment; without it no agent runs here"},
		{&c.Agents.Budget.Steps, "max-turn-steps", "how often an agent may ask its model in one turn; 0 means 50"},
		{&c.Agents.Budget.Tokens, "max-turn-tokens", "how many tokens one turn of an agent may take; 0 means any " +
			"number"},
		{&c.Agents.Budget.Time, "max-turn-time", "how long one turn of an agent may work; 0 means an hour"},
		cli.ReducedFlag(&c.AllowReduced),
		{&c.Engine.Personal, "redact-personal", "remove e-mail addresses, card, bank account and telephone numbers " +
			"from what tools give back ($HAFT_REDACT_PERSONAL)"},
		{&c.Auth.RequireUser, "require-user", "refuse API keys that name no user, and issue none ($HAFT_REQUIRE_USER)"},
		{&s.readyWait, "ready-wait", "how long to answer on after a signal to stop, while /readyz says 503, before " +
			"the listener closes; 0 on a terminal"},
		{&s.drain, "drain", "how long calls may then take to end; a second signal ends them at once"},
		{&c.Engine.DeadAfter, "takeover",
			"how long a server may be silent before others that share its database take its calls over"},
		{&c.NoRedoLog, "no-redo-log",
			"write to the embedded database itself, without a log in front: calls take longer ($HAFT_NO_REDO_LOG)"},
		{&c.Wait, "lock-wait", "how long to wait for another haft that uses the directory"},
		{&c.AuditSink, "audit-sink", "the `FILE` or https URL that gets a copy of every checkpoint of the audit log"},
		{&s.logFormat, "log", "how to write the log to stderr: text, json or none"},
		{&s.level, "log-level", "what to log: debug, info, warn or error"},
	}, s.bounds(), s.oidc.flags(), retentionFlags(&c.Manage.Retention, "keep-"))
}

// logger makes what writes the log.
func (s *serveFlags) logger(w io.Writer) (*slog.Logger, error) {
	var level slog.Level
	if err := level.UnmarshalText([]byte(s.level)); err != nil {
		return nil, exit.Misuse(errors.New("--log-level is debug, info, warn or error"))
	}
	switch s.logFormat {
	case "text":
		return slog.New(slog.NewTextHandler(w, &slog.HandlerOptions{Level: level})), nil
	case "json":
		return slog.New(slog.NewJSONHandler(w, &slog.HandlerOptions{Level: level})), nil
	case "none":
		return slog.New(slog.DiscardHandler), nil
	}
	return nil, exit.Misuse(errors.New("--log is text, json or none"))
}

// config checks the flags and sets the other fields of the configuration.
func (s *serveFlags) config(p *cli.Profile) (cfg app.ServerConfig, err error) {
	cfg = s.cfg
	if err := checkSandbox(cfg.Sandbox); err != nil {
		return cfg, err
	}
	if cfg.Logger, err = s.logger(p.Err); err != nil {
		return cfg, err
	}
	if s.readyWait < 0 || s.drain < 0 {
		return cfg, exit.Misuse(errors.New("--ready-wait and --drain must not be negative"))
	}
	if cfg.Data, err = p.Dir(); err != nil {
		return cfg, err
	}
	keep := cfg.Manage.Retention
	if err := keep.Check(); err != nil {
		return cfg, exit.Misuse(err)
	}
	if cfg.Engine.DeadAfter < time.Second {
		return cfg, exit.Misuse(errors.New("--takeover is a second at least: a server that is only busy must not be " +
			"given up"))
	}
	cfg.Engine.BacklogAll, cfg.Engine.Beat = 10*cfg.Engine.Backlog, cfg.Engine.DeadAfter/5
	cfg.Logger.Info("calls that have ended are pruned, see haft calls retention; --keep-calls none and the like "+
		"keep them", "refused", flagvalue.AgeText(keep.Refused),
		"refused_count", flagvalue.CountText(keep.RefusedCount),
		"calls", flagvalue.AgeText(keep.Calls), "calls_count", flagvalue.CountText(keep.CallsCount))
	if cfg.Agents.Models, err = modelfile.ForServer(s.models, os.Getenv, cfg.Logger); err != nil {
		return cfg, exit.Misuse(err)
	}
	cfg.HTTP.Version, cfg.HTTP.MaxHeader, cfg.Packages.Verify = version, int(s.header), true
	index := &cfg.Packages.Index
	index.URL, index.Registry = cmp.Or(s.pipIndex, index.URL), cmp.Or(s.npmReg, index.Registry)
	for _, w := range s.wheels {
		if abs, err := filepath.Abs(w); err == nil {
			index.Wheels = append(index.Wheels, abs)
		}
	}
	if err := s.checkBounds(); err != nil {
		return cfg, err
	}
	if cfg.Auth.Issuers, err = s.oidc.issuers(); err != nil {
		return cfg, err
	}
	cfg.Auth.Client = daemon.IssuerClient()
	if cfg.Allow, err = toolfile.Prefixes("--allow-range", s.ranges); err != nil {
		return cfg, err
	}
	if cfg.HTTP.Proxies, err = toolfile.Prefixes("--proxy", s.proxies); err != nil {
		return cfg, err
	}
	if (s.tlsCert == "") != (s.tlsKey == "") {
		return cfg, exit.Misuse(errors.New("--tls-cert and --tls-key go together"))
	}
	if s.tlsCert != "" {
		s.tls = &daemon.Certificate{Cert: s.tlsCert, Key: s.tlsKey}
		if _, err := s.tls.Load(); err != nil {
			return cfg, exit.Misuse(err)
		}
		cfg.Upstream.Protect = append(cfg.Upstream.Protect, s.tlsKey)
		cfg.HTTP.TLS = s.tls.Config()
	}
	return cfg, nil
}

// run serves until ctx ends, and then stops: see stop.
func (s *serveFlags) run(ctx context.Context, p *cli.Profile) error {
	hangup := make(chan os.Signal, 1) // never the end of a server: one that is not awaited is dropped
	signal.Notify(hangup, syscall.SIGHUP)
	cfg, err := s.config(p)
	if err != nil {
		return err
	}
	// A core file would hold every secret that is held ready, and the keys.
	if err := syscall.Setrlimit(syscall.RLIMIT_CORE, &syscall.Rlimit{}); err != nil {
		return fmt.Errorf("forbid core files: %w", err)
	}
	var lc net.ListenConfig
	ln, err := lc.Listen(ctx, "tcp", s.addr) // first: a port that is taken changes nothing
	if err != nil {
		return exit.Advise(exit.Misuse(fmt.Errorf("listen: %w", err)),
			"name another address with --addr; port 0 takes a free one")
	}
	if cfg.Database == "" {
		if err := backend.AskToYield(ctx, cfg.Data, version); err != nil {
			cfg.Logger.Warn("the process that has the data directory was not asked to leave it", "err", err)
		}
	}
	sys, err := app.OpenServer(ctx, cfg)
	if err != nil {
		advice := "look at the data directory (" + cfg.Data + "), or name another with --data DIR"
		if haft.CodeOf(err) == haft.CodeConflict {
			advice = "commands such as haft call work with the one that runs; for a second server name another " +
				"directory with --data DIR (this is " + cfg.Data + ")"
		}
		return errors.Join(exit.Advise(err, advice), ln.Close())
	}
	again := make(chan os.Signal, 1)
	signal.Notify(again, os.Interrupt, syscall.SIGTERM)
	served := make(chan error, 1)
	go func() { served <- sys.HTTP.Serve(ln) }()
	local, where := s.serveLocal(cfg, sys)
	s.greet(ctx, p, sys, ln.Addr())
	fmt.Fprint(p.Out, where)
	s.notifyManager(ctx, cfg.Logger, "READY=1\nSTATUS=listening on "+ln.Addr().String())
	ctx, leave := context.WithCancel(ctx)
	defer leave()
	worked := make(chan error, 1)
	go func() {
		if s.during == nil {
			worked <- nil
			return
		}
		defer leave()
		worked <- s.during(ctx, sys, ln.Addr())
	}()
	for {
		select {
		case <-hangup:
			s.reload(cfg.Logger, sys)
			continue
		case err = <-served:
			leave()
		case <-ctx.Done():
			err = errors.Join(s.stop(ctx, cfg.Logger, sys, again), <-served, <-local)
		}
		return errors.Join(err, <-worked, sys.Close())
	}
}

// serveLocal answers commands that find the server by its data directory. It returns a channel that has the error when
// that ends, and a line for the operator.
func (s *serveFlags) serveLocal(cfg app.ServerConfig, sys *app.Server) (done chan error, line string) {
	done = make(chan error, 1)
	ln, err := localsocket.Listen(cfg.Data, localsocket.Welcome{Command: "serve", Version: version,
		Reduced: cfg.AllowReduced, Agents: cfg.Agents.Models != nil}, nil)
	if err != nil { // such as of a second server with this directory, which share a Postgres
		cfg.Logger.Warn("commands do not find this server by its data directory", "err", err)
		done <- nil
		return done, ""
	}
	go func() { done <- sys.HTTP.Serve(ln) }()
	return done, "commands of this user find it by " + ln.Path() + "\n"
}

// notifyManager sends the state of the server to the service manager, as sd_notify(3) does, if
// there is one. A failure is no reason to stop.
func (s *serveFlags) notifyManager(ctx context.Context, log *slog.Logger, state string) {
	if err := daemon.Notify(ctx, os.Getenv("NOTIFY_SOCKET"), state); err != nil {
		log.Warn("the service manager was not told", "err", err)
	}
}

// greet says where the server is, how to get in and what it can promise.
func (s *serveFlags) greet(ctx context.Context, p *cli.Profile, sys *app.Server, at net.Addr) {
	scheme := "http"
	if s.tlsCert != "" {
		scheme = "https"
	}
	fmt.Fprintf(p.Out, "listening on %s://%s\n", scheme, at)
	switch {
	case sys.Auth.FirstFile != "" && terminal.Is(p.Out):
		fmt.Fprintf(p.Out, "first key: %s (shown once; also in %s)\n", sys.Auth.First.Reveal(), sys.Auth.FirstFile)
	case sys.Auth.FirstFile != "":
		// Output that is not looked at is kept somewhere.
		fmt.Fprintf(p.Out, "first key: in %s\n", sys.Auth.FirstFile)
	}
	provider, name := sys.App.Provider()
	if iso, err := provider.Isolation(ctx); err == nil {
		fmt.Fprintf(p.Out, "sandbox %s: isolation %s\n", name, iso.Level)
		if iso.Level == haft.LevelReduced && !s.cfg.AllowReduced {
			fmt.Fprintln(p.Err, paint(p.Err, yellow, "haft:"),
				"tools that need the sandbox are refused, because it is reduced: haft doctor says why; "+
					"--allow-reduced allows it")
		}
	}
	if tcp, ok := at.(*net.TCPAddr); ok && !tcp.IP.IsLoopback() && s.tlsCert == "" {
		fmt.Fprintln(p.Err, paint(p.Err, yellow, "haft:"),
			"others can reach this address and there is no TLS: keys can be read on the way")
	}
	if tcp, ok := at.(*net.TCPAddr); ok && !tcp.IP.IsLoopback() && len(s.cfg.HTTP.Hosts) == 0 {
		fmt.Fprintln(p.Err, paint(p.Err, yellow, "haft:"),
			"without --host only requests to loopback names are answered")
	}
}
