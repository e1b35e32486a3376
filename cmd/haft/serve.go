package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"haft"
	"haft/app"
	"haft/internal/supply"
)

// serving has the flags of serve.
type serving struct {
	persona
	addr             string
	hosts, origins   []string
	proxies, ranges  []string
	tlsCert, tlsKey  string
	pipIndex, npmReg string
	wheels           []string
	offline, source  bool
	drain, readyWait time.Duration
	takeover         time.Duration
	requireUser      bool
	noRedoLog        bool
	logFormat, level string
	sink             string
	bounds           bounds
	oidc             oidcFlags
	tls              *certificate // nil without TLS
	keep             haft.Retention
	keepFromEnv      func() error
}

// serveCommand answers requests over HTTP.
func serveCommand(std streams) *cobra.Command {
	s := &serving{}
	cmd := &cobra.Command{
		Use: "serve", Short: "Answer requests over HTTP until it is told to stop",
		Long: `serve answers requests over HTTP: on a loopback address and with embedded storage
if nothing else is said. The first time it makes a key for an administrator and
writes it to admin.key in the data directory.

SIGTERM and SIGINT stop it: /readyz answers 503, after --ready-wait the listener
closes, and calls in flight end within --drain. A second signal ends them at once.
SIGHUP reads the certificate, its key and the keys of issuers again.`,
		Example: `  haft serve
  haft serve --addr 0.0.0.0:7717 --host haft.example.com --tls-cert cert.pem --tls-key key.pem`,
		Args: func(c *cobra.Command, list []string) error { return usageArgs(cobra.NoArgs(c, list)) },
		RunE: func(c *cobra.Command, _ []string) error {
			defer long()()
			return s.run(c.Context(), std)
		},
	}
	f := cmd.Flags()
	f.StringVar(&s.addr, "addr", "127.0.0.1:7717", "the `ADDRESS` to listen on; port 0 takes a free one")
	f.StringVar(&s.data, "data", "", "the `DIR` of the embedded store and of keys ($HAFT_DATA)")
	f.StringVar(&s.database, "database", "", "the `URL` of a Postgres")
	f.StringVar(&s.org, "org", "local", "the organisation whose administrators run the server")
	f.StringArrayVar(&s.hosts, "host", nil,
		"a `NAME` by which the server is reached, instead of the loopback names; may be given again")
	f.StringArrayVar(&s.origins, "origin", nil,
		"the `ORIGIN` of another page that may send requests; may be given again")
	f.StringArrayVar(&s.proxies, "proxy", nil,
		"a `RANGE` of addresses whose X-Forwarded-For is believed; may be given again")
	f.StringArrayVar(&s.ranges, "allow-range", nil,
		"a `RANGE` of addresses that are not public and that tools may reach all the same ($HAFT_ALLOW_RANGES); may "+
			"be given again")
	f.StringVar(&s.tlsCert, "tls-cert", "", "the `FILE` of the certificate")
	f.StringVar(&s.tlsKey, "tls-key", "", "the `FILE` of its key")
	f.StringVar(&s.pipIndex, "pip-index", "",
		"the `URL` of the Python package index ($HAFT_PIP_INDEX_URL, which hides credentials better)")
	f.StringVar(&s.npmReg, "npm-registry", "", "the `URL` of the npm registry ($HAFT_NPM_REGISTRY)")
	f.StringArrayVar(&s.wheels, "wheels", nil,
		"a `DIR` of Python wheels that packages are taken from; may be given again ($HAFT_WHEELS)")
	f.BoolVar(&s.offline, "offline", false, "ask no package index ($HAFT_OFFLINE)")
	f.BoolVar(&s.source, "build-from-source", false,
		"also install packages that have to be built, which runs their code in the sandbox")
	allowReduced(f, &s.reduced)
	f.BoolVar(&s.requireUser, "require-user", os.Getenv("HAFT_REQUIRE_USER") != "",
		"refuse API keys that name no user, and issue none ($HAFT_REQUIRE_USER)")
	f.DurationVar(&s.readyWait, "ready-wait", readyWait(std),
		"how long to answer on after a signal to stop, while /readyz says 503, before the listener closes "+
			"($HAFT_READY_WAIT; 5s, and 0 on a terminal)")
	f.DurationVar(&s.drain, "drain", 30*time.Second,
		"how long calls may then take to end; a second signal ends them at once")
	f.DurationVar(&s.takeover, "takeover", envDuration("HAFT_TAKEOVER", 20*time.Second),
		"how long a server may be silent before others that share its database take its calls over ($HAFT_TAKEOVER)")
	f.BoolVar(&s.noRedoLog, "no-redo-log", os.Getenv("HAFT_NO_REDO_LOG") != "",
		"write to the embedded database itself, without a log in front: calls take longer ($HAFT_NO_REDO_LOG)")
	f.DurationVar(&s.lockWait, "lock-wait", lockWait(), "how long to wait for another haft that uses the directory")
	f.StringVar(&s.sink, "audit-sink", os.Getenv("HAFT_AUDIT_SINK"),
		"the `FILE` or https URL that gets a copy of every checkpoint of the audit log ($HAFT_AUDIT_SINK)")
	s.bounds.add(f)
	s.oidc.add(f)
	s.keepFromEnv = serveKeep(f, &s.keep)
	f.StringVar(&s.logFormat, "log", "text", "how to write the log to stderr: text, json or none")
	f.StringVar(&s.level, "log-level", "info", "what to log: debug, info, warn or error")
	return cmd
}

// logger makes what writes the log.
func (s *serving) logger(w io.Writer) (*slog.Logger, error) {
	var level slog.Level
	if err := level.UnmarshalText([]byte(s.level)); err != nil {
		return nil, usage(errors.New("--log-level is debug, info, warn or error"))
	}
	switch s.logFormat {
	case "text":
		return slog.New(slog.NewTextHandler(w, &slog.HandlerOptions{Level: level})), nil
	case "json":
		return slog.New(slog.NewJSONHandler(w, &slog.HandlerOptions{Level: level})), nil
	case "none":
		return slog.New(slog.DiscardHandler), nil
	}
	return nil, usage(errors.New("--log is text, json or none"))
}

// config reads the flags.
func (s *serving) config(w io.Writer) (app.ServerConfig, error) {
	var cfg app.ServerConfig
	var err error
	if cfg.Logger, err = s.logger(w); err != nil {
		return cfg, err
	}
	if s.readyWait < 0 || s.drain < 0 {
		return cfg, usage(errors.New("--ready-wait and --drain must not be negative"))
	}
	if cfg.Data, err = s.dir(); err != nil {
		return cfg, err
	}
	cfg.Database, cfg.Wait, cfg.Operators, cfg.AuditSink = s.database, s.lockWait, s.org, s.sink
	if err := s.keepFromEnv(); err != nil {
		return cfg, err
	}
	cfg.Manage.Retention = s.keep
	if s.takeover < time.Second {
		return cfg, usage(errors.New("--takeover is a second at least: a server that is only busy must not be " +
			"given up"))
	}
	cfg.Engine.Backlog, cfg.Engine.BacklogAll = s.bounds.backlog, 10*s.bounds.backlog
	cfg.Engine.DeadAfter, cfg.Engine.Beat = s.takeover, s.takeover/5
	cfg.Logger.Info("calls that have ended are pruned, see haft calls retention; --keep-calls none and the like "+
		"keep them",
		"refused", ageText(s.keep.Refused), "refused_count", numberText(s.keep.RefusedCount), "calls",
		ageText(s.keep.Calls), "calls_count", numberText(s.keep.CallsCount))
	cfg.Auth.RequireUser, cfg.NoRedoLog = s.requireUser, s.noRedoLog
	cfg.Packages = s.packages()
	cfg.AllowReduced = s.reduced
	cfg.HTTP.Version, cfg.HTTP.Hosts, cfg.HTTP.Origins = version, s.hosts, s.origins
	if err := s.bounds.set(&cfg.HTTP); err != nil {
		return cfg, err
	}
	if cfg.Auth.Issuers, err = s.oidc.issuers(); err != nil {
		return cfg, err
	}
	cfg.Auth.Client = issuerClient()
	if cfg.Allow, err = prefixes(s.ranges); err != nil {
		return cfg, err
	}
	for _, p := range s.proxies {
		prefix, err := netip.ParsePrefix(p)
		if err != nil {
			return cfg, usage(errors.New("--proxy is a range of addresses, such as 10.0.0.0/8"))
		}
		cfg.HTTP.Proxies = append(cfg.HTTP.Proxies, prefix)
	}
	if (s.tlsCert == "") != (s.tlsKey == "") {
		return cfg, usage(errors.New("--tls-cert and --tls-key go together"))
	}
	if s.tlsCert != "" {
		s.tls = &certificate{cert: s.tlsCert, key: s.tlsKey}
		if err := s.tls.load(); err != nil {
			return cfg, usage(err)
		}
		cfg.Upstream.Protect = append(cfg.Upstream.Protect, s.tlsKey)
		cfg.HTTP.TLS = s.tls.config()
	}
	return cfg, nil
}

// packages says where packages come from.
func (s *serving) packages() supply.Config {
	c := supply.FromEnv(os.Getenv)
	c.Verify, c.Source = true, s.source
	c.Index.Offline = c.Index.Offline || s.offline
	if s.pipIndex != "" {
		c.Index.URL = s.pipIndex
	}
	if s.npmReg != "" {
		c.Index.Registry = s.npmReg
	}
	for _, w := range s.wheels {
		if abs, err := filepath.Abs(w); err == nil {
			c.Index.Wheels = append(c.Index.Wheels, abs)
		}
	}
	return c
}

// run serves until ctx ends, and then stops: see stop.
func (s *serving) run(ctx context.Context, std streams) error {
	hangup := make(chan os.Signal, 1) // never the end of a server: one that is not awaited is dropped
	signal.Notify(hangup, syscall.SIGHUP)
	cfg, err := s.config(std.err)
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
		return usage(fmt.Errorf("listen: %w", err))
	}
	sys, err := app.OpenServer(ctx, cfg)
	if err != nil {
		return errors.Join(advise(err, "look at the data directory ("+cfg.Data+"), or name another with --data DIR"),
			ln.Close())
	}
	again := make(chan os.Signal, 1)
	signal.Notify(again, os.Interrupt, syscall.SIGTERM)
	served := make(chan error, 1)
	go func() { served <- sys.HTTP.Serve(ln) }()
	s.greet(ctx, std, sys, ln.Addr())
	s.manager(ctx, cfg.Logger, "READY=1\nSTATUS=listening on "+ln.Addr().String())
	for {
		select {
		case <-hangup:
			s.reload(cfg.Logger, sys)
			continue
		case err = <-served:
		case <-ctx.Done():
			err = errors.Join(s.stop(ctx, cfg.Logger, sys, again), <-served)
		}
		return errors.Join(err, sys.Close())
	}
}

// manager tells the service manager. One that cannot be told is no reason to stop.
func (s *serving) manager(ctx context.Context, log *slog.Logger, state string) {
	if err := notify(ctx, state); err != nil {
		log.Warn("the service manager was not told", "err", err)
	}
}

// greet says where the server is, how to get in and what it can promise.
func (s *serving) greet(ctx context.Context, std streams, sys *app.Server, at net.Addr) {
	scheme := "http"
	if s.tlsCert != "" {
		scheme = "https"
	}
	fmt.Fprintf(std.out, "listening on %s://%s\n", scheme, at)
	switch {
	case sys.Auth.FirstFile != "" && isTerminal(std.out):
		fmt.Fprintf(std.out, "first key: %s (shown once; also in %s)\n", sys.Auth.First.Reveal(), sys.Auth.FirstFile)
	case sys.Auth.FirstFile != "":
		// Output that is not looked at is kept somewhere.
		fmt.Fprintf(std.out, "first key: in %s\n", sys.Auth.FirstFile)
	}
	provider, name := sys.App.Provider()
	if iso, err := provider.Isolation(ctx); err == nil {
		fmt.Fprintf(std.out, "sandbox %s: isolation %s\n", name, iso.Level)
		if iso.Level == haft.LevelReduced && !s.reduced {
			fmt.Fprintln(std.err, paint(std.err, yellow, "haft:"),
				"tools that need the sandbox are refused, because it is reduced: haft doctor says why; "+
					"--allow-reduced allows it")
		}
	}
	if tcp, ok := at.(*net.TCPAddr); ok && !tcp.IP.IsLoopback() && s.tlsCert == "" {
		fmt.Fprintln(std.err, paint(std.err, yellow, "haft:"),
			"others can reach this address and there is no TLS: keys can be read on the way")
	}
	if tcp, ok := at.(*net.TCPAddr); ok && !tcp.IP.IsLoopback() && len(s.hosts) == 0 {
		fmt.Fprintln(std.err, paint(std.err, yellow, "haft:"),
			"without --host only requests to loopback names are answered")
	}
}
