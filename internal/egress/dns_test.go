package egress_test

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/net/dns/dnsmessage"

	"haft"
	"haft/internal/egress"
)

// zone is a small real DNS server on loopback, over UDP and TCP.
type zone struct {
	// answer returns what name stands for: addresses, or a name to go on with.
	// A nil answer is "no such name".
	mu     sync.Mutex
	names  map[string][]string
	asked  map[string]int
	flip   map[string][][]string // one list after the other, the last for ever
	silent map[string]bool
	addr   string
}

// serveDNS starts a server and returns a resolver that asks it and nobody else.
func serveDNS(t testing.TB, names map[string][]string) (*zone, *net.Resolver) {
	t.Helper()
	tcp, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	udp, err := net.ListenPacket("udp", tcp.Addr().String())
	for range 20 { // somebody else may have that port for UDP
		if err == nil {
			break
		}
		tcp.Close()
		if tcp, err = net.Listen("tcp", "127.0.0.1:0"); err != nil {
			t.Fatal(err)
		}
		udp, err = net.ListenPacket("udp", tcp.Addr().String())
	}
	if err != nil {
		t.Fatal(err)
	}
	z := &zone{names: names, asked: map[string]int{}, flip: map[string][][]string{}, silent: map[string]bool{},
		addr: udp.LocalAddr().String()}
	var wg sync.WaitGroup
	wg.Go(func() {
		buf := make([]byte, 4096)
		for {
			n, from, err := udp.ReadFrom(buf)
			if err != nil {
				return
			}
			if out := z.reply(buf[:n], 512); out != nil {
				_, _ = udp.WriteTo(out, from)
			}
		}
	})
	wg.Go(func() {
		for {
			c, err := tcp.Accept()
			if err != nil {
				return
			}
			wg.Go(func() { z.stream(c) })
		}
	})
	t.Cleanup(func() {
		udp.Close()
		tcp.Close()
		wg.Wait()
	})
	return z, &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, network, _ string) (net.Conn, error) {
		return egress.DialDNS(ctx, network, z.addr)
	}}
}

// stream answers over TCP, where answers may be long.
func (z *zone) stream(c net.Conn) {
	defer c.Close()
	for {
		var size [2]byte
		if _, err := io.ReadFull(c, size[:]); err != nil {
			return
		}
		buf := make([]byte, binary.BigEndian.Uint16(size[:]))
		if _, err := io.ReadFull(c, buf); err != nil {
			return
		}
		out := z.reply(buf, 65535)
		if out == nil {
			return
		}
		if _, err := c.Write(append(binary.BigEndian.AppendUint16(nil, uint16(len(out))), out...)); err != nil {
			return
		}
	}
}

// set changes the zone.
func (z *zone) set(change func()) {
	z.mu.Lock()
	defer z.mu.Unlock()
	change()
}

// lookup returns the answers for a name.
func (z *zone) lookup(name string, counted bool) ([]string, bool, bool) {
	z.mu.Lock()
	defer z.mu.Unlock()
	if z.silent[name] {
		return nil, false, true
	}
	if lists := z.flip[name]; len(lists) > 0 {
		i := min(z.asked[name], len(lists)-1)
		if counted {
			z.asked[name]++
		}
		return lists[i], true, false
	}
	if counted {
		z.asked[name]++
	}
	a, ok := z.names[name]
	return a, ok, false
}

// reply makes an answer of at most size bytes.
func (z *zone) reply(raw []byte, size int) []byte {
	var p dnsmessage.Parser
	h, err := p.Start(raw)
	if err != nil {
		return nil
	}
	q, err := p.Question()
	if err != nil {
		return nil
	}
	build := func(truncated bool) []byte {
		b := dnsmessage.NewBuilder(nil, dnsmessage.Header{ID: h.ID, Response: true, Authoritative: true,
			RecursionAvailable: true, Truncated: truncated})
		b.EnableCompression()
		_ = b.StartQuestions()
		_ = b.Question(q)
		_ = b.StartAnswers()
		name, owner := strings.ToLower(strings.TrimSuffix(q.Name.String(), ".")), q.Name
		for range 20 {
			answers, _, silent := z.lookup(name, q.Type == dnsmessage.TypeA && !truncated)
			if silent {
				return nil
			}
			var next string
			for _, a := range answers {
				hdr := dnsmessage.ResourceHeader{Name: owner, Class: dnsmessage.ClassINET, TTL: 0}
				addr, err := netip.ParseAddr(a)
				switch {
				case truncated:
				case err != nil:
					next = a
					_ = b.CNAMEResource(hdr, dnsmessage.CNAMEResource{CNAME: dnsmessage.MustNewName(a + ".")})
				case addr.Is4() && q.Type == dnsmessage.TypeA:
					_ = b.AResource(hdr, dnsmessage.AResource{A: addr.As4()})
				case addr.Is6() && q.Type == dnsmessage.TypeAAAA:
					_ = b.AAAAResource(hdr, dnsmessage.AAAAResource{AAAA: addr.As16()})
				}
			}
			if next == "" {
				break
			}
			name, owner = next, dnsmessage.MustNewName(next+".")
		}
		out, err := b.Finish()
		if err != nil {
			return nil
		}
		return out
	}
	_, known, silent := z.lookup(strings.ToLower(strings.TrimSuffix(q.Name.String(), ".")), false)
	if silent {
		return nil
	}
	if !known {
		b := dnsmessage.NewBuilder(nil, dnsmessage.Header{ID: h.ID, Response: true, Authoritative: true,
			RCode: dnsmessage.RCodeNameError})
		_ = b.StartQuestions()
		_ = b.Question(q)
		out, _ := b.Finish()
		return out
	}
	out := build(false)
	if len(out) > size {
		out = build(true)
	}
	return out
}

// listen starts a server that says hello to everybody and counts them.
func listen(t testing.TB) (port string, count func() int) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	var mu sync.Mutex
	n := 0
	wg.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			mu.Lock()
			n++
			mu.Unlock()
			_, _ = io.WriteString(c, "hello")
			c.Close()
		}
	})
	t.Cleanup(func() {
		l.Close()
		wg.Wait()
	})
	_, port, _ = net.SplitHostPort(l.Addr().String())
	return port, func() int {
		mu.Lock()
		defer mu.Unlock()
		return n
	}
}

var loopback = []netip.Prefix{netip.MustParsePrefix("127.0.0.1/32")}

func TestGuard_DialContext_checks_what_it_resolved(t *testing.T) {
	many := slices.Repeat([]string{"127.0.0.1"}, 1000)
	_, resolver := serveDNS(t, map[string][]string{
		"good.example":      {"127.0.0.1"},
		"evil.example":      {"10.0.0.7"},
		"mixed.example":     {"127.0.0.1", "10.0.0.7"},
		"mixed6.example":    {"127.0.0.1", "fd00:ec2::254"},
		"mapped.example":    {"::ffff:10.0.0.7"},
		"nat64.example":     {"64:ff9b::a00:7"},
		"meta.example":      {"169.254.169.254"},
		"chain.example":     {"chain2.example"},
		"chain2.example":    {"chain3.example"},
		"chain3.example":    {"10.0.0.7"},
		"goodchain.example": {"good.example"},
		"huge.example":      many,
		"hugeevil.example":  append(many[:1000:1000], "10.0.0.7"),
		"empty.example":     {},
	})
	port, count := listen(t)
	g := egress.New(egress.Config{Allow: loopback, Resolver: resolver})
	tests := []struct {
		host string
		want haft.Code // "" for a connection
	}{
		{"good.example", ""}, {"GOOD.example.", ""}, {"goodchain.example", ""}, {"huge.example", ""}, {"127.0.0.1", ""},
		{"localhost", ""},
		{"evil.example", haft.CodeDenied}, {"mixed.example", haft.CodeDenied}, {"mixed6.example", haft.CodeDenied},
		{"mapped.example", haft.CodeDenied},
		{"nat64.example", haft.CodeDenied}, {"meta.example", haft.CodeDenied}, {"chain.example", haft.CodeDenied},
		{"hugeevil.example", haft.CodeDenied},
		{"none.example", haft.CodeNotFound}, {"empty.example", haft.CodeNotFound},
	}
	for _, tt := range tests {
		t.Run(tt.host, func(t *testing.T) {
			before := count()
			c, err := g.DialContext(t.Context(), "tcp", net.JoinHostPort(tt.host, port))
			if tt.want == "" {
				if err != nil {
					t.Fatalf("DialContext = %v", err)
				}
				defer c.Close()
				if b, err := io.ReadAll(c); string(b) != "hello" {
					t.Errorf("read %q, %v", b, err)
				}
				return
			}
			if haft.CodeOf(err) != tt.want {
				t.Fatalf("DialContext = %v, want code %s", err, tt.want)
			}
			if strings.Contains(haft.MessageOf(err), "10.0.0.7") ||
				strings.Contains(haft.MessageOf(err), "169.254.169.254") {
				t.Errorf("the message tells what the name resolved to: %s", haft.MessageOf(err))
			}
			if count() != before {
				t.Error("there was a connection")
			}
		})
	}
}

// WEAKNESS: a name that is public when it is checked and private when it is
// dialled.
// VERIFIES: there is one resolution, and its address is the one that is dialled.
func TestGuard_DialContext_resolves_once(t *testing.T) {
	z, resolver := serveDNS(t, map[string][]string{})
	z.set(func() { z.flip["rebind.example"] = [][]string{{"127.0.0.2"}, {"127.0.0.1"}} })
	port, count := listen(t) // on 127.0.0.1, which is what must not be reached
	g := egress.New(egress.Config{Allow: []netip.Prefix{netip.MustParsePrefix("127.0.0.2/32")}, Resolver: resolver})
	if _, err := g.DialContext(t.Context(), "tcp", "rebind.example:"+port); haft.CodeOf(err) != haft.CodeUnavailable {
		t.Errorf("first: %v, want no connection to 127.0.0.2", err)
	}
	z.set(func() {
		if n := z.asked["rebind.example"]; n != 1 {
			t.Errorf("asked %d times, want once", n)
		}
	})
	_, err := g.DialContext(t.Context(), "tcp", "rebind.example:"+port)
	if r := refusalIn(t, err); r.Range != "loopback" || r.Host != "rebind.example" {
		t.Errorf("second: %+v", r)
	}
	if n := count(); n != 0 {
		t.Errorf("%d connections to what was never checked", n)
	}
}

func TestGuard_DialContext_gives_up(t *testing.T) {
	z, resolver := serveDNS(t, map[string][]string{})
	z.set(func() { z.silent["slow.example"] = true })
	g := egress.New(egress.Config{Allow: loopback, Resolver: resolver, ResolveTimeout: 50 * time.Millisecond})
	if _, err := g.DialContext(t.Context(), "tcp", "slow.example:80"); haft.CodeOf(err) != haft.CodeUnavailable {
		t.Errorf("a server that never answers: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := g.DialContext(ctx, "tcp", "127.0.0.1:1"); err == nil {
		t.Error("a context that has ended gave a connection")
	}
}

func TestGuard_DialContext_tries_the_next_address(t *testing.T) {
	port, _ := listen(t)
	_, resolver := serveDNS(t, map[string][]string{"two.example": {"127.0.0.9", "127.0.0.1"}})
	g := egress.New(egress.Config{Allow: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}, Resolver: resolver})
	c, err := g.DialContext(t.Context(), "tcp", "two.example:"+port)
	if err != nil {
		t.Fatal(err)
	}
	c.Close()
	g = egress.New(egress.Config{Allow: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")},
		Resolver: fixed{netip.MustParseAddr("127.0.0.9"), netip.MustParseAddr("127.0.0.1")}, Tries: 1})
	if c, err := g.DialContext(t.Context(), "tcp", "two.example:"+port); err == nil {
		c.Close()
		t.Error("more addresses were tried than Tries says")
	}
}

// fixed is a resolver with one answer.
type fixed []netip.Addr

func (f fixed) LookupNetIP(context.Context, string, string) ([]netip.Addr, error) { return f, nil }

func TestGuard_DialContext_refuses_what_is_not_TCP(t *testing.T) {
	g := egress.New(egress.Config{Allow: loopback})
	for _, tt := range []struct {
		network, address string
		code             haft.Code
	}{
		{"udp", "127.0.0.1:53", haft.CodeDenied}, {"unix", "/run/x.sock", haft.CodeDenied},
		{"ip:icmp", "127.0.0.1", haft.CodeDenied}, {"tcp", "127.0.0.1", haft.CodeInvalid},
		{"tcp", "127.0.0.1:0", haft.CodeInvalid}, {"tcp", "127.0.0.1:http", haft.CodeInvalid},
		{"tcp", "127.0.0.1:99999", haft.CodeInvalid}, {"tcp", ":80", haft.CodeDenied},
		{"tcp", "[fe80::1%lo]:80", haft.CodeDenied},
	} {
		c, err := g.DialContext(t.Context(), tt.network, tt.address)
		if err == nil {
			c.Close()
			t.Errorf("DialContext(%s, %s) gave a connection", tt.network, tt.address)
		} else if e, ok := errors.AsType[*haft.Error](err); !ok || e.Message == "" || e.Code != tt.code {
			t.Errorf("DialContext(%s, %s) = %v, want words for a caller and code %s", tt.network, tt.address, err,
				tt.code)
		}
	}
}

// asked is a resolver that remembers what it was asked.
type asked struct{ host string }

func (a *asked) LookupNetIP(_ context.Context, _, host string) ([]netip.Addr, error) {
	a.host = host
	return []netip.Addr{netip.MustParseAddr("10.0.0.7")}, nil
}

// A name without its final dot would be tried below the domains that the system
// searches, which are near.
func TestGuard_DialContext_keeps_the_search_list_out(t *testing.T) {
	r := &asked{}
	_, err := egress.New(egress.Config{Resolver: r}).DialContext(t.Context(), "tcp", "api.example:80")
	if err == nil || r.host != "api.example." {
		t.Errorf("asked for %q, %v", r.host, err)
	}
}
