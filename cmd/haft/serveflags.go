package main

import (
	"cmp"
	"errors"
	"net"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"haft/internal/auth"
	"haft/server"
)

// bounds are those on what the server takes from outside.
type bounds struct {
	body, header        size
	connections         int
	perSource, silent   int
	reserve             int
	streams, orgStreams int
	readTime, writeTime time.Duration
	backlog             int
}

func (b *bounds) add(f *pflag.FlagSet) {
	b.body, b.header = 8<<20, 32<<10
	f.Var(&b.body, "max-body", "the most bytes that the body of a request has")
	f.Var(&b.header, "max-header", "the most bytes that the headers of a request have")
	f.IntVar(&b.connections, "max-connections", 8192,
		"the most connections at once; a new one takes the place of one on which nobody speaks")
	f.IntVar(&b.perSource, "max-connections-per-source", 0,
		"the most connections of one address, or of a /64 of IPv6, and the most requests at once of one that a "+
			"--proxy names; 0 means a quarter of --max-connections")
	f.IntVar(&b.silent, "max-silent-per-source", 64,
		"the most connections of one address that bring no request for over a second")
	f.IntVar(&b.reserve, "operator-connections", 16,
		"further connections on which only operators are served when all others are in use")
	f.IntVar(&b.streams, "max-streams", 256, "the most streams of events that one credential has open")
	f.IntVar(&b.orgStreams, "max-org-streams", 2048, "the most streams of events that one organisation has open")
	f.IntVar(&b.backlog, "max-backlog", 20_000, "the most accepted calls of one organisation, and the most chains, "+
		"that have not ended; ten times as many of all")
	f.DurationVar(&b.readTime, "read-timeout", 15*time.Second,
		"how long headers, and then the body, may take to arrive")
	f.DurationVar(&b.writeTime, "write-timeout", 30*time.Second, "how long each write of an answer may take")
}

// set puts the bounds into a configuration. None of them can be taken away.
func (b *bounds) set(c *server.Config) error {
	switch {
	case b.body < 1<<10 || b.body > 1<<30:
		return usage(errors.New("--max-body is between 1KiB and 1GiB"))
	case b.header < 1<<10 || b.header > 1<<20:
		return usage(errors.New("--max-header is between 1KiB and 1MiB"))
	case b.connections < 1 || b.connections > 1<<20:
		return usage(errors.New("--max-connections is between 1 and 1048576"))
	case b.perSource < 0 || b.perSource > 1<<20 || b.silent < 1 || b.silent > 1<<20 || b.reserve < 1 ||
		b.reserve > 1<<16:
		return usage(errors.New("--max-connections-per-source is between 0 and 1048576, --max-silent-per-source " +
			"between 1 and 1048576, --operator-connections between 1 and 65536"))
	case b.streams < 1 || b.streams > 1<<20 || b.orgStreams < 1 || b.orgStreams > 1<<20:
		return usage(errors.New("--max-streams and --max-org-streams are between 1 and 1048576"))
	case b.backlog < 1 || b.backlog > 1<<20:
		return usage(errors.New("--max-backlog is between 1 and 1048576"))
	case b.readTime < time.Second || b.readTime > time.Hour || b.writeTime < time.Second || b.writeTime > time.Hour:
		return usage(errors.New("--read-timeout and --write-timeout are between 1s and 1h"))
	}
	c.MaxBody, c.MaxHeader, c.Connections = int64(b.body), int(b.header), b.connections
	c.PerSource, c.Silent, c.Reserve, c.Streams, c.OrgStreams = b.perSource, b.silent, b.reserve, b.streams,
		b.orgStreams
	c.ReadTimeout, c.WriteTimeout = b.readTime, b.writeTime
	return nil
}

// oidcFlags say whose tokens are believed besides keys. Each has a variable too, such
// as HAFT_OIDC_ISSUER of --oidc-issuer, whose lists have commas.
type oidcFlags struct {
	url, keys, org        string
	audience, orgs, roles []string
	scope                 []string
	claims                auth.Claims
	prefix                string
}

func (o *oidcFlags) add(f *pflag.FlagSet) {
	text := func(to *string, name, what string) {
		f.StringVar(to, name, "", what+" ($"+variable(name)+")")
	}
	list := func(to *[]string, name, what string) {
		f.StringArrayVar(to, name, nil, what+"; may be given again ($"+variable(name)+")")
	}
	text(&o.url, "oidc-issuer", "the `URL` of an OpenID Connect issuer whose tokens are believed")
	list(&o.audience, "oidc-audience", "a `NAME` that the issuer knows this server by")
	text(&o.keys, "oidc-keys", "the `URL` of the issuer's keys, if discovery does not find it")
	text(&o.org, "oidc-org", "the organisation of all the issuer's users")
	text(&o.claims.Org, "oidc-org-claim", "or the `CLAIM` that names the organisation, such as org or /tenant/name")
	list(&o.orgs, "oidc-orgs", "with --oidc-org-claim: an `ORG` that the issuer may name; * means every one")
	text(&o.claims.User, "oidc-user-claim", "the `CLAIM` that names the user; sub if it is left out")
	text(&o.prefix, "oidc-user-prefix", "what goes before the name of the user")
	text(&o.claims.Agent, "oidc-agent-claim", "the `CLAIM` that names an agent")
	text(&o.claims.Roles, "oidc-roles-claim", "the `CLAIM` that has the roles, such as /realm_access/roles")
	list(&o.roles, "oidc-role",
		"`THEIRS=OURS`: which role of ours one of the issuer's stands for; others count for nothing")
	text(&o.claims.Scope, "oidc-scope-claim", "the `CLAIM` that has the scope; a token without it may do nothing")
	list(&o.scope, "oidc-scope", "what all tokens of the issuer are confined to, as of an API key")
}

// variable is the name of a flag in the environment.
func variable(flag string) string {
	return "HAFT_" + strings.ToUpper(strings.ReplaceAll(flag, "-", "_"))
}

// fromEnv fills in what no flag said.
func (o *oidcFlags) fromEnv() {
	for name, to := range map[string]*string{
		"oidc-issuer": &o.url, "oidc-keys": &o.keys, "oidc-org": &o.org, "oidc-org-claim": &o.claims.Org,
		"oidc-user-claim":  &o.claims.User,
		"oidc-user-prefix": &o.prefix, "oidc-agent-claim": &o.claims.Agent, "oidc-roles-claim": &o.claims.Roles,
		"oidc-scope-claim": &o.claims.Scope,
	} {
		*to = cmp.Or(*to, os.Getenv(variable(name)))
	}
	for name, to := range map[string]*[]string{"oidc-audience": &o.audience, "oidc-orgs": &o.orgs,
		"oidc-role": &o.roles, "oidc-scope": &o.scope} {
		if *to == nil {
			*to = strings.FieldsFunc(os.Getenv(variable(name)), func(r rune) bool { return r == ',' })
		}
	}
}

// issuers returns those that the flags name: one or none. Whether it can be believed
// is decided where it is opened.
func (o *oidcFlags) issuers() ([]auth.Issuer, error) {
	o.fromEnv()
	if o.url == "" {
		if o.keys+o.org+o.prefix != "" || o.claims != (auth.Claims{}) ||
			len(o.audience)+len(o.orgs)+len(o.roles)+len(o.scope) > 0 {
			return nil, usage(errors.New("what is said of OpenID Connect is of --oidc-issuer, which is missing"))
		}
		return nil, nil
	}
	i := auth.Issuer{URL: o.url, Audience: o.audience, Keys: o.keys, Org: o.org, Orgs: o.orgs, Claims: o.claims,
		UserPrefix: o.prefix, Roles: map[string]string{}}
	if len(o.scope) > 0 {
		i.Scope = o.scope
	}
	for _, pair := range o.roles {
		theirs, ours, ok := strings.Cut(pair, "=")
		if !ok || theirs == "" || ours == "" {
			return nil, usage(errors.New("--oidc-role is THEIRS=OURS, such as haft-admins=admin"))
		}
		i.Roles[theirs] = ours
	}
	if err := auth.CheckIssuer(i); err != nil {
		return nil, usage(err)
	}
	return []auth.Issuer{i}, nil
}

// issuerClient fetches the keys of issuers. The operator names them, so they may be
// in a private network; they lead nowhere else.
func issuerClient() *http.Client {
	return &http.Client{
		Timeout:       15 * time.Second,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		Transport: &http.Transport{
			Proxy: http.ProxyFromEnvironment, ForceAttemptHTTP2: true,
			DialContext:         (&net.Dialer{Timeout: 5 * time.Second}).DialContext,
			TLSHandshakeTimeout: 5 * time.Second, ResponseHeaderTimeout: 10 * time.Second,
			MaxResponseHeaderBytes: 64 << 10, IdleConnTimeout: 30 * time.Second, MaxIdleConns: 2,
		},
	}
}
