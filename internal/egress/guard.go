package egress

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"
)

// A Resolver finds the addresses of a name. [net.Resolver] is one.
type Resolver interface {
	// LookupNetIP returns the addresses of host for network "ip", "ip4" or "ip6".
	LookupNetIP(ctx context.Context, network, host string) ([]netip.Addr, error)
}

// Config has the settings of a guard. The zero value reaches the public internet
// and nothing else.
type Config struct {
	// Allow lists ranges that may be reached although they are private, loopback
	// and so on. A metadata address is only allowed by a prefix for it alone.
	Allow []netip.Prefix
	// Names lists local names that may be looked up although they mean something
	// near: "db.internal", or "*.svc" for all below. Their addresses are checked
	// all the same. localhost needs no entry if its addresses are in Allow.
	Names []string
	// Via is the proxy, by its http or https URL, that all connections are made
	// through; nil means that they are made here. Then addresses are the proxy's
	// to check: it is for programs whose rules name every host.
	Via *url.URL
	// Resolver looks up names; nil means the system's DNS servers.
	Resolver Resolver
	// ResolveTimeout bounds a lookup; 0 means 5 seconds.
	ResolveTimeout time.Duration
	// DialTimeout bounds the tries to connect, all together; 0 means 10 seconds.
	DialTimeout time.Duration
	// Tries is how many addresses of one name are tried; 0 means 4.
	Tries int
	// Timeout bounds one request of the client, redirects and body and all; 0
	// means 60 seconds.
	Timeout time.Duration
	// MaxBytes is the longest body that the client reads, after decompression; 0
	// means 64 MiB.
	MaxBytes int64
	// MaxHeaderBytes is the longest header of an answer; 0 means 256 KiB.
	MaxHeaderBytes int64
	// Redirects is how many the client follows; 0 means 10, less than 0 none.
	Redirects int
	// Downgrade lets redirects lead from https to http.
	Downgrade bool
	// Own returns the addresses of this machine, which are refused like loopback:
	// a public one leads to the same services. nil means [net.InterfaceAddrs].
	Own func() ([]net.Addr, error)
	// TLS says how the client verifies servers; nil means the system's way.
	TLS *TLS
	// Mock answers all requests instead of their servers; nil means that they are sent.
	Mock *Mock
}

// ownAge is how long the list of this machine's addresses is used before it is read again.
const ownAge = 10 * time.Second

// Guard refuses to connect to addresses and names that need permission. It is safe for
// concurrent use.
type Guard struct {
	cfg    Config
	dialer net.Dialer
	client func() *http.Client

	mu    sync.Mutex
	own   []netip.Addr
	ownAt time.Time
}

// New returns a guard. It touches nothing outside.
func New(cfg Config) *Guard {
	if cfg.Resolver == nil {
		cfg.Resolver = &net.Resolver{PreferGo: true, Dial: dialDNS}
	}
	if cfg.Own == nil {
		cfg.Own = net.InterfaceAddrs
	}
	cfg.Allow = slices.Clone(cfg.Allow)
	cfg.Names = slices.Clone(cfg.Names)
	setDefault(&cfg.ResolveTimeout, 5*time.Second)
	setDefault(&cfg.DialTimeout, 10*time.Second)
	setDefault(&cfg.Tries, 4)
	setDefault(&cfg.Timeout, 60*time.Second)
	setDefault(&cfg.MaxBytes, 64<<20)
	setDefault(&cfg.MaxHeaderBytes, 256<<10)
	if cfg.Redirects == 0 {
		cfg.Redirects = 10
	}
	g := &Guard{cfg: cfg, dialer: net.Dialer{KeepAlive: 30 * time.Second, FallbackDelay: -1}}
	g.client = sync.OnceValue(g.newClient)
	return g
}

// setDefault replaces a value that was not set.
func setDefault[T int | int64 | time.Duration](v *T, d T) {
	if *v <= 0 {
		*v = d
	}
}

// CheckAddr refuses addresses that need permission: see [Config.Allow].
func (g *Guard) CheckAddr(a netip.Addr) error {
	if r := g.refuseAddr(a); r != nil {
		r.Host = a.String()
		return r.err()
	}
	return nil
}

// refuseAddr returns why a may not be reached, or nil. The caller fills in Host and Port, as
// the tool asked for them.
func (g *Guard) refuseAddr(a netip.Addr) *Refusal {
	if !a.IsValid() || a.Zone() != "" {
		return &Refusal{Rule: RuleRange, Range: "zone", Addr: a, Reason: "the address has a zone or is not valid"}
	}
	if g.allowed(a) {
		return nil
	}
	if v4, form, ok := embedded(a); ok {
		if r := g.refuseAddr(v4); r != nil {
			r.Range, r.Addr = r.Range+" ("+form+")", a
			r.Reason = rangeReason(r.Range)
			return r
		}
		if form == "IPv4-mapped" {
			return nil
		}
	}
	if s, ok := special(a); ok {
		r := &Refusal{Rule: RuleRange, Range: s.name, Addr: a, Reason: rangeReason(s.name)}
		r.Ask = fmt.Sprintf("if it should be reached, ask the operator to allow the range %s "+
			"(haft serve --allow-range)", s.prefix)
		return r
	}
	if g.isOwn(a) {
		return &Refusal{Rule: RuleRange, Range: "own", Addr: a, Reason: "it leads to the machine that runs the tools",
			Ask: "if it should be reached, ask the operator to allow this machine's own address"}
	}
	return nil
}

// rangeReason says why an address in a range is refused.
func rangeReason(name string) string {
	return "it leads to an address that is not public (" + name + ")"
}

// allowed reports whether the operator allowed a by name.
func (g *Guard) allowed(a netip.Addr) bool {
	v4, _, _ := embedded(a)
	alone := slices.Contains(metadata, a) || slices.Contains(metadata, v4)
	return slices.ContainsFunc(g.cfg.Allow, func(p netip.Prefix) bool {
		return p.Contains(a) && (!alone || p.IsSingleIP())
	})
}

// isOwn reports whether a is an address of this machine. If they cannot be
// listed, the ranges above are all there is.
func (g *Guard) isOwn(a netip.Addr) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if now := time.Now(); g.ownAt.IsZero() || now.Sub(g.ownAt) > ownAge {
		addrs, err := g.cfg.Own()
		if err == nil {
			g.own = g.own[:0]
			for _, n := range addrs {
				if p, err := netip.ParsePrefix(n.String()); err == nil {
					g.own = append(g.own, p.Addr().Unmap())
				}
			}
		}
		g.ownAt = now
	}
	return slices.Contains(g.own, a)
}

// CheckHost returns the one spelling of a host, or refuses it: names that mean
// something near, names without a dot, and addresses that CheckAddr refuses. It
// looks nothing up.
func (g *Guard) CheckHost(name string) (string, error) {
	host, r := g.refuseHost(name)
	if r != nil {
		return "", r.err()
	}
	return host, nil
}

// refuseHost is CheckHost.
func (g *Guard) refuseHost(name string) (string, *Refusal) {
	host, err := Canonical(name)
	if err != nil {
		return "", &Refusal{Rule: RuleName, Reason: err.Error()}
	}
	if a, err := netip.ParseAddr(host); err == nil {
		if r := g.refuseAddr(a); r != nil {
			r.Host = host
			return "", r
		}
		return host, nil
	}
	if within(host, "localhost") && g.allowed(loopback4) || g.named(host) {
		return host, nil
	}
	r := &Refusal{Host: host, Rule: RuleName,
		Ask: fmt.Sprintf("if it should be reached, ask the operator to allow the local name %q", host)}
	switch {
	case slices.Contains(metadataNames, host):
		r.Reason = "the name leads to a cloud's metadata"
	case !strings.Contains(host, "."):
		r.Reason = "a name without a dot means a machine nearby"
	case slices.ContainsFunc(localSuffixes, func(s string) bool { return within(host, s) }):
		r.Reason = "the name means a machine nearby"
	default:
		return host, nil
	}
	return "", r
}

// named reports whether the operator allowed a local name.
func (g *Guard) named(host string) bool {
	return slices.ContainsFunc(g.cfg.Names, func(n string) bool {
		if suffix, ok := strings.CutPrefix(n, "*."); ok {
			return strings.HasSuffix(host, "."+strings.ToLower(suffix))
		}
		return strings.EqualFold(n, host)
	})
}
