package soak

import (
	"context"
	"errors"
	"io"
	"net"
	"net/url"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/net/dns/dnsmessage"

	"haft/internal/skiptest"
)

// shopName is the only host that nameServer knows.
const shopName = "shop.example"

// A nameServer is a DNS server that can stop answering.
type nameServer struct {
	address string // without the port, which is 53: resolv.conf(5) cannot name another
	silent  atomic.Bool
}

// startNames starts a nameServer, or skips the test where port 53 cannot be had.
func startNames(t, inner *testing.T) *nameServer {
	t.Helper()
	var conn net.PacketConn
	var err error
	s := &nameServer{}
	for i := byte(1); i < 32; i++ { // another run of this test may have the first
		s.address = net.IPv4(127, 77, 0, i).String()
		if conn, err = (&net.ListenConfig{}).ListenPacket(t.Context(), "udp", s.address+":53"); err == nil {
			break
		}
	}
	if err != nil {
		skiptest.Lacking(t, "port 53", "a DNS server cannot listen: "+err.Error())
	}
	var group sync.WaitGroup
	group.Go(func() { s.serve(conn) })
	t.Cleanup(func() { _ = conn.Close(); group.Wait() })
	return s
}

// serve answers questions until conn is closed.
func (s *nameServer) serve(conn net.PacketConn) {
	buffer := make([]byte, 1500)
	for {
		n, from, err := conn.ReadFrom(buffer)
		if err != nil {
			return
		}
		var m dnsmessage.Message
		if s.silent.Load() || m.Unpack(buffer[:n]) != nil || len(m.Questions) != 1 {
			continue
		}
		if raw, err := answerQuestion(m).Pack(); err == nil {
			_, _ = conn.WriteTo(raw, from) // whoever asked may be gone
		}
	}
}

// answerQuestion says that shopName has the address 127.0.0.1, which nobody may keep, and that nothing else exists.
func answerQuestion(m dnsmessage.Message) *dnsmessage.Message {
	q := m.Questions[0]
	m.Response, m.Authoritative, m.RecursionAvailable = true, true, true
	m.Answers, m.Authorities, m.Additionals = nil, nil, nil
	switch {
	case q.Name.String() != shopName+".":
		m.RCode = dnsmessage.RCodeNameError
	case q.Type == dnsmessage.TypeA:
		m.Answers = []dnsmessage.Resource{{
			Header: dnsmessage.ResourceHeader{Name: q.Name, Type: q.Type, Class: q.Class},
			Body:   &dnsmessage.AResource{A: [4]byte{127, 0, 0, 1}},
		}}
	}
	return &m
}

// A databaseProxy carries the connections of servers to their Postgres. It can delay answers and cut connections.
type databaseProxy struct {
	url    string
	socket string
	delay  atomic.Int64 // nanoseconds

	mu    sync.Mutex
	isCut bool
	conns map[net.Conn]bool
}

// startProxy starts a proxy of a database.
func startProxy(t *testing.T, d *database) *databaseProxy {
	t.Helper()
	at, err := url.Parse(d.url)
	if err != nil {
		t.Fatal(err)
	}
	ln, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &databaseProxy{socket: filepath.Join(at.Query().Get("host"), ".s.PGSQL.5432"), conns: map[net.Conn]bool{}}
	at.Host, at.RawQuery = ln.Addr().String(), "sslmode=disable"
	p.url = at.String()
	var group sync.WaitGroup
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	group.Go(func() {
		for {
			conn, err := ln.Accept()
			if err != nil {
				return
			}
			group.Go(func() { p.carry(ctx, conn) })
		}
	})
	t.Cleanup(func() { _ = ln.Close(); cancel(); p.cut(); group.Wait() })
	return p
}

// cut closes all connections, and new ones at once until mend.
func (p *databaseProxy) cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.isCut = true
	for c := range p.conns {
		_ = c.Close() // the server may have closed it
	}
}

func (p *databaseProxy) mend() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.isCut = false
}

// register notes that a connection is open, or closes it while connections are cut.
func (p *databaseProxy) register(c net.Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.isCut {
		_ = c.Close() // that is the fault
		return false
	}
	p.conns[c] = true
	return true
}

// forget closes a connection.
func (p *databaseProxy) forget(c net.Conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.conns, c)
	_ = c.Close() // it may be closed
}

// carry copies a connection in both directions until one of them ends.
func (p *databaseProxy) carry(ctx context.Context, near net.Conn) {
	if !p.register(near) {
		return
	}
	defer p.forget(near)
	far, err := (&net.Dialer{}).DialContext(ctx, "unix", p.socket)
	if err != nil || !p.register(far) {
		return
	}
	var group sync.WaitGroup
	group.Go(func() { _, _ = io.Copy(far, near); p.forget(far) }) // ends when near is closed
	p.slowly(ctx, near, far)
	p.forget(far)
	p.forget(near)
	group.Wait()
}

// slowly copies answers, each later by the delay.
func (p *databaseProxy) slowly(ctx context.Context, to io.Writer, from io.Reader) {
	buffer := make([]byte, 64<<10)
	for {
		n, err := from.Read(buffer)
		if n > 0 {
			if wait := time.Duration(p.delay.Load()); wait > 0 {
				until(ctx, wait, func() bool { return false })
			}
			if _, bad := to.Write(buffer[:n]); bad != nil {
				return
			}
		}
		if err != nil || errors.Is(ctx.Err(), context.Canceled) {
			return
		}
	}
}
