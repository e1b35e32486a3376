package egress

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"time"

	"haft"
)

var (
	loopback4 = netip.AddrFrom4([4]byte{127, 0, 0, 1})
	loopback6 = netip.IPv6Loopback()
)

// headStart is how long one address may take before the next is tried in parallel (RFC
// 8305).
const headStart = 250 * time.Millisecond

// dialDNS connects to a DNS server for one question. The Go resolver gives up on
// a question when its context ends, but leaves it waiting for some seconds; the C
// library's does not even give up. A closed connection ends it.
func dialDNS(ctx context.Context, network, address string) (net.Conn, error) {
	var d net.Dialer
	c, err := d.DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	context.AfterFunc(ctx, func() { c.Close() }) // the resolver ends ctx after each question
	return c, nil
}

// DialContext connects to address (HOST:PORT) over TCP. It resolves the name
// itself, refuses it if one of its addresses is refused, and connects to one of
// the addresses that it checked.
func (g *Guard) DialContext(ctx context.Context, network, address string) (net.Conn, error) {
	if g.cfg.Mock != nil {
		return nil, errMocked("", 0)
	}
	return g.dial(ctx, network, address)
}

// dial is DialContext, also for the requests that a mock sends to real servers.
func (g *Guard) dial(ctx context.Context, network, address string) (net.Conn, error) {
	if g.cfg.Mock != nil && !g.cfg.Mock.Real {
		return nil, errMocked("", 0)
	}
	switch network {
	case "tcp", "tcp4", "tcp6":
	default:
		r := &Refusal{Rule: RuleProtocol, Reason: "only TCP connections are made"}
		return nil, r.err()
	}
	host, portText, err := net.SplitHostPort(address)
	if err != nil {
		return nil, &haft.Error{Code: haft.CodeInvalid, Message: "the address is not HOST:PORT", Err: err}
	}
	port, err := strconv.ParseUint(portText, 10, 16)
	if err != nil || port == 0 {
		return nil, &haft.Error{Code: haft.CodeInvalid, Message: "the port is not a number from 1 to 65535", Err: err}
	}
	if g.cfg.Via != nil {
		return g.dialVia(ctx, host, address)
	}
	addrs, err := g.resolve(ctx, network, host, uint16(port))
	if err != nil {
		return nil, err
	}
	return g.dialAny(ctx, host, addrs, uint16(port))
}

// resolve returns the addresses of host. It fails if one of them may not be reached.
func (g *Guard) resolve(ctx context.Context, network, name string, port uint16) ([]netip.Addr, error) {
	host, r := g.refuseHost(name)
	if r != nil {
		r.Port = port
		return nil, r.err()
	}
	addrs, err := g.lookup(ctx, network, host)
	if err != nil {
		return nil, err
	}
	for i, a := range addrs {
		a = a.Unmap()
		if r := g.refuseAddr(a); r != nil {
			r.Host, r.Port = host, port
			if host != a.String() { // a range of one address would reveal it
				r.Ask = fmt.Sprintf("if it should be reached, ask the operator to allow the %s addresses of %s",
					r.Range, host)
			}
			return nil, r.err()
		}
		addrs[i] = a
	}
	return addrs, nil
}

// lookup returns the addresses of host, at least one.
func (g *Guard) lookup(ctx context.Context, network, host string) ([]netip.Addr, error) {
	if a, err := netip.ParseAddr(host); err == nil {
		return []netip.Addr{a}, nil
	}
	if within(host, "localhost") {
		// RFC 6761: localhost is not a question for the DNS.
		if network == "tcp6" {
			return []netip.Addr{loopback6}, nil
		}
		return []netip.Addr{loopback4}, nil
	}
	ctx, cancel := context.WithTimeout(ctx, g.cfg.ResolveTimeout)
	defer cancel()
	family := "ip" + network[len("tcp"):]
	// The final dot disables the search list of the system, so that the checked name is
	// resolved.
	addrs, err := g.cfg.Resolver.LookupNetIP(ctx, family, host+".")
	if err != nil {
		if dns, ok := errors.AsType[*net.DNSError](err); ok && dns.IsNotFound {
			return nil, &haft.Error{Code: haft.CodeNotFound, Message: fmt.Sprintf("there is no host %s", host),
				Err: err}
		}
		return nil, &haft.Error{Code: haft.CodeUnavailable,
			Message: fmt.Sprintf("the host %s could not be looked up", host), Err: err}
	}
	if len(addrs) == 0 {
		return nil, &haft.Error{Code: haft.CodeNotFound, Message: fmt.Sprintf("the host %s has no address", host)}
	}
	return slices.Clone(addrs), nil
}

// dialAny connects to the first of addrs that answers. The next is tried when one
// fails or takes long, and no more than Config.Tries of them.
func (g *Guard) dialAny(ctx context.Context, host string, addrs []netip.Addr, port uint16) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, g.cfg.DialTimeout)
	defer cancel()
	addrs = interleave(addrs)
	addrs = addrs[:min(len(addrs), g.cfg.Tries)]
	type answer struct {
		conn net.Conn
		err  error
	}
	answers := make(chan answer)
	var (
		first   net.Conn
		fault   error
		running int
		timer   = time.NewTimer(headStart)
	)
	defer timer.Stop()
	tryNext := func() {
		to := netip.AddrPortFrom(addrs[0], port).String()
		go func() {
			c, err := g.dialer.DialContext(ctx, "tcp", to)
			answers <- answer{c, err}
		}()
		addrs, running, fault = addrs[1:], running+1, nil
		timer.Reset(headStart)
	}
	for running > 0 || first == nil && len(addrs) > 0 {
		if first == nil && len(addrs) > 0 && (running == 0 || fault != nil) {
			tryNext()
		}
		select {
		case a := <-answers:
			running--
			switch {
			case a.err != nil:
				fault = a.err
			case first != nil:
				a.conn.Close()
			default:
				first = a.conn
				cancel() // the others; each still answers
			}
		case <-timer.C:
			if first == nil && len(addrs) > 0 {
				tryNext()
			}
		}
	}
	if first == nil {
		return nil, &haft.Error{Code: haft.CodeUnavailable, Message: fmt.Sprintf("no connection to %s", host),
			Err: fault}
	}
	return first, nil
}

// interleave puts the families in turn, beginning with the resolver's first, so
// that a broken family costs one try and not all.
func interleave(addrs []netip.Addr) []netip.Addr {
	var a, b []netip.Addr
	for _, x := range addrs {
		if x.Is4() == addrs[0].Is4() {
			a = append(a, x)
		} else {
			b = append(b, x)
		}
	}
	out := make([]netip.Addr, 0, len(addrs))
	for i := range max(len(a), len(b)) {
		if i < len(a) {
			out = append(out, a[i])
		}
		if i < len(b) {
			out = append(out, b[i])
		}
	}
	return out
}
