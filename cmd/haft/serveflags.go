package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"reflect"
	"strings"
	"time"

	"haft"
	"haft/app"
	"haft/internal/auth"
	"haft/internal/cli"
	"haft/internal/exit"
	"haft/internal/flagvalue"
)

// bounds are the flags that bound what the server takes from outside.
func (s *serveFlags) bounds() []cli.Flag {
	h := &s.cfg.HTTP
	s.header, h.MaxBody, h.Connections, h.Silent, h.Reserve = 32<<10, 8<<20, 8192, 64, 16
	h.Streams, h.OrgStreams, h.ReadTimeout, h.WriteTimeout = 256, 2048, 15*time.Second, 30*time.Second
	s.cfg.Engine.Backlog, s.cfg.Engine.Ceilings.Grace = 20_000, haft.LimitCeilings().Grace
	return []cli.Flag{
		{(*flagvalue.Size)(&h.MaxBody), "max-body", "the most bytes that the body of a request has"},
		{&s.header, "max-header", "the most bytes that the headers of a request have"},
		{&h.Connections, "max-connections",
			"the most connections at once; a new one takes the place of one on which nobody speaks"},
		{&h.PerSource, "max-connections-per-source", "the most connections of one address, or of a /64 of IPv6, and " +
			"the most requests at once of one that a --proxy names; 0 means a quarter of --max-connections"},
		{&h.Silent, "max-silent-per-source",
			"the most connections of one address that bring no request for over a second"},
		{&h.Reserve, "operator-connections",
			"further connections on which only operators are served when all others are in use"},
		{&h.Streams, "max-streams", "the most streams of events that one credential has open"},
		{&h.OrgStreams, "max-org-streams", "the most streams of events that one organisation has open"},
		{&s.cfg.Engine.Backlog, "max-backlog", "the most accepted calls of one organisation, and the most chains, " +
			"that have not ended; ten times as many of all"},
		{&s.cfg.Engine.Ceilings.Grace, "max-grace",
			"the most time that a tool has between SIGTERM and SIGKILL when its call is stopped"},
		{&h.ReadTimeout, "read-timeout", "how long headers, and then the body, may take to arrive"},
		{&h.WriteTimeout, "write-timeout", "how long each write of an answer may take"},
	}
}

// checkBounds checks the bounds. Each has a largest value, so that none can be switched off.
func (s *serveFlags) checkBounds() error {
	h := s.cfg.HTTP
	for _, r := range []struct {
		flag               string
		value, least, most int64
	}{
		{"max-body", h.MaxBody, 1 << 10, 1 << 30}, {"max-header", int64(s.header), 1 << 10, 1 << 20},
		{"max-connections", int64(h.Connections), 1, 1 << 20},
		{"max-connections-per-source", int64(h.PerSource), 0, 1 << 20},
		{"max-silent-per-source", int64(h.Silent), 1, 1 << 20},
		{"operator-connections", int64(h.Reserve), 1, 1 << 16},
		{"max-streams", int64(h.Streams), 1, 1 << 20}, {"max-org-streams", int64(h.OrgStreams), 1, 1 << 20},
		{"max-backlog", int64(s.cfg.Engine.Backlog), 1, 1 << 20},
	} {
		if r.value < r.least || r.value > r.most {
			return exit.Misuse(fmt.Errorf("--%s is between %d and %d", r.flag, r.least, r.most))
		}
	}
	if g := s.cfg.Engine.Ceilings.Grace; g < haft.DefaultLimits().Grace || g > haft.LimitCeilings().Grace {
		return exit.Misuse(fmt.Errorf("--max-grace is between %s and %s", haft.DefaultLimits().Grace,
			haft.LimitCeilings().Grace))
	}
	if min(h.ReadTimeout, h.WriteTimeout) < time.Second || max(h.ReadTimeout, h.WriteTimeout) > time.Hour {
		return exit.Misuse(errors.New("--read-timeout and --write-timeout are between 1s and 1h"))
	}
	return nil
}

// oidcFlags name the issuer whose tokens are accepted besides keys. The environment sets each
// of them too.
type oidcFlags struct {
	issuer auth.Issuer
	roles  []string
}

func (o *oidcFlags) flags() []cli.Flag {
	i := &o.issuer
	return []cli.Flag{
		{&i.URL, "oidc-issuer", "the `URL` of an OpenID Connect issuer whose tokens are believed"},
		{&i.Audience, "oidc-audience", "a `NAME` that the issuer knows this server by; may be given again"},
		{&i.Keys, "oidc-keys", "the `URL` of the issuer's keys, if discovery does not find it"},
		{&i.Org, "oidc-org", "the organisation of all the issuer's users"},
		{&i.Claims.Org, "oidc-org-claim", "or the `CLAIM` that names the organisation, such as org or /tenant/name"},
		{&i.Orgs, "oidc-orgs",
			"with --oidc-org-claim: an `ORG` that the issuer may name; * means every one; may be given again"},
		{&i.Claims.User, "oidc-user-claim", "the `CLAIM` that names the user; sub if it is left out"},
		{&i.UserPrefix, "oidc-user-prefix", "what goes before the name of the user"},
		{&i.Claims.Agent, "oidc-agent-claim", "the `CLAIM` that names an agent"},
		{&i.Claims.Roles, "oidc-roles-claim", "the `CLAIM` that has the roles, such as /realm_access/roles"},
		{&o.roles, "oidc-role", "`THEIRS=OURS`: which role of ours one of the issuer's stands for; others count for " +
			"nothing; may be given again"},
		{&i.Claims.Scope, "oidc-scope-claim", "the `CLAIM` that has the scope; a token without it may do nothing"},
		{&i.Scope, "oidc-scope",
			"what all tokens of the issuer are confined to, as of an API key; may be given again"},
	}
}

// issuers returns the issuers that the flags name: one or none. It is checked when it is
// opened.
func (o *oidcFlags) issuers() ([]auth.Issuer, error) {
	i := o.issuer
	if i.URL == "" {
		if !reflect.ValueOf(*o).IsZero() {
			return nil, exit.Misuse(errors.New("what is said of OpenID Connect is of --oidc-issuer, which is missing"))
		}
		return nil, nil
	}
	i.Roles = map[string]string{}
	for _, pair := range o.roles {
		theirs, ours, ok := strings.Cut(pair, "=")
		if !ok || theirs == "" || ours == "" {
			return nil, exit.Misuse(errors.New("--oidc-role is THEIRS=OURS, such as haft-admins=admin"))
		}
		i.Roles[theirs] = ours
	}
	if err := auth.CheckIssuer(i); err != nil {
		return nil, exit.Misuse(err)
	}
	return []auth.Issuer{i}, nil
}

// reload reads again, on SIGHUP, what is not in the store: the certificate and the keys
// of issuers. Rules, keys and secrets are in the store, where changes hold at once.
func (s *serveFlags) reload(log *slog.Logger, sys *app.Server) {
	if s.tls != nil {
		if pair, err := s.tls.Load(); err != nil {
			log.Error("the certificate was not reloaded; the old one stays", "err", err)
		} else {
			log.Info("the certificate was reloaded", "file", s.tls.Cert, "serial", pair.Leaf.SerialNumber.Text(16),
				"expires", pair.Leaf.NotAfter)
		}
	}
	for _, url := range sys.Auth.RefetchKeys() {
		log.Info("the keys of the issuer are fetched again with the next token", "issuer", url)
	}
	log.Info("reloaded")
}

// sameSignal is how soon after the first signal another one is the same: timeout(1) and
// some supervisors send it to the process and then to its group.
const sameSignal = 500 * time.Millisecond

// stop ends a server after the first signal: readiness goes down while everything is still
// answered, so that load balancers send elsewhere; then the listener closes, and calls in
// flight get the rest of --drain. A second signal ends both waits at once. The caller closes
// sys, which hands over the calls that have not ended. The channel again has all signals, also
// the first: without it the same signal, sent twice, could kill the process.
func (s *serveFlags) stop(ctx context.Context, log *slog.Logger, sys *app.Server, again chan os.Signal) error {
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	stopping := time.Now()
	go func() {
		for {
			select {
			case <-again:
				if time.Since(stopping) < sameSignal {
					continue
				}
				log.Warn("told to stop again: calls in flight are ended now; the next signal kills the server")
				signal.Stop(again) // main has restored the default, which is to die
				cancel()
			case <-ctx.Done():
			}
			return
		}
	}()
	log.Info("stopping: not ready any more", "ready_wait", s.readyWait, "drain", s.drain)
	s.notifyManager(ctx, log, "STOPPING=1\nSTATUS=waiting for calls to end")
	sys.HTTP.Leave()
	select {
	case <-time.After(s.readyWait):
	case <-ctx.Done():
	}
	log.Info("stopping: the listener closes")
	end, stopWaiting := context.WithTimeout(ctx, s.drain)
	defer stopWaiting()
	// What waits is others' from now on. Shutdown comes before Drain, which refuses calls,
	// also those that a call in flight makes.
	left := sys.AgentLoop.Leave(end)
	sys.Engine.HandOver(end)
	return errors.Join(left, sys.HTTP.Shutdown(end), sys.Drain(end))
}
