package egress

import (
	"bufio"
	"context"
	"io"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// relay passes bytes both ways until both ends have closed or are idle too long. raw was
// already read from the program.
func (p *Proxy) relay(t *tunnel, server net.Conn, raw []byte) {
	if _, err := server.Write(raw); err != nil {
		t.Outcome = OutcomeFailed
		return
	}
	m := p.newRelayer(t.client, server)
	m.copy(t.client, server)
	m.copy(server, t.br)
	m.wait()
}

// relayPlain passes bytes both ways where plain TCP is allowed. What the server
// says is passed on at once; what the program says first is looked at. TLS has to
// be for the right server, and HTTP is served request by request, as a program
// that is mistaken or misled would want it. A program that means to hide what it
// says can do so here: the rule allows anything.
func (p *Proxy) relayPlain(ctx context.Context, t *tunnel, server net.Conn) {
	t.Scheme = TCP
	m := p.newRelayer(t.client, server)
	m.copy(t.client, server)
	var raw []byte
	switch detectProtocol(t.br) {
	case HTTPS:
		t.Scheme = HTTPS
		hello, err := readHello(ctx, t.client, t.br, t.host)
		if err != nil {
			t.fail(err)
			m.close()
			m.wait()
			return
		}
		raw = hello
	case HTTP:
		if t.http && m.detach() {
			p.serveHTTP(ctx, t.client, t.br, &authority{track: t.record, scheme: HTTP, host: t.host, port: t.port})
			return
		}
	}
	if _, err := server.Write(raw); err != nil {
		m.close()
	}
	m.copy(server, t.br)
	m.wait()
}

// methods are the beginnings of HTTP requests. Other bytes are passed on unchanged.
var methods = []string{"GET ", "HEAD ", "POST ", "PUT ", "PATCH ", "DELETE ", "OPTIONS ", "TRACE ", "CONNECT ",
	"PROPFIND ", "REPORT ", "MKCOL ", "COPY ", "MOVE "}

// detectProtocol returns the protocol that the program's first bytes show: HTTPS, HTTP, or
// TCP for all others. It reads no more than it needs.
func detectProtocol(br *bufio.Reader) string {
	for n := 1; ; n++ {
		b, err := br.Peek(n)
		if err != nil {
			return TCP
		}
		if b[0] == 0x16 {
			return HTTPS
		}
		begun := slices.ContainsFunc(methods, func(m string) bool {
			k := min(n, len(m))
			return string(b[:k]) == m[:k]
		})
		switch {
		case !begun || n == maxPath:
			return TCP
		case b[n-1] == '\n':
			line := strings.TrimRight(string(b), "\r\n")
			if strings.HasSuffix(line, " HTTP/1.1") || strings.HasSuffix(line, " HTTP/1.0") {
				return HTTP
			}
			return TCP
		}
	}
}

// relayer copies both ways between a program and a server until both have ended, one
// fails, or nothing was copied for the idle time.
type relayer struct {
	proxy    *Proxy
	idle     time.Duration
	watch    *time.Timer
	close    func() // both ends
	wg       sync.WaitGroup
	detached atomic.Bool
	spoke    atomic.Bool
	end      io.Closer
}

// newRelayer returns a relayer that copies nothing yet.
func (p *Proxy) newRelayer(c net.Conn, end io.Closer) *relayer {
	m := &relayer{proxy: p, idle: p.cfg.Limits.Idle, end: end}
	m.close = sync.OnceFunc(func() {
		if !m.detached.Load() {
			c.Close()
		}
		end.Close()
	})
	m.watch = time.AfterFunc(m.idle, m.close)
	if cl, ok := c.(*client); ok {
		cl.idle = p.cfg.Limits.Total // the watch is what counts: one way may rest while the other runs
	}
	return m
}

// copy copies one way in a goroutine.
func (m *relayer) copy(dst io.Writer, src io.Reader) {
	m.wg.Go(func() {
		_, err := m.proxy.copy(dst, src, func() {
			m.spoke.Store(true)
			m.watch.Reset(m.idle)
		})
		if err != nil || !closeWrite(dst) {
			m.close()
		}
	})
}

// wait waits for both ways and closes both ends.
func (m *relayer) wait() {
	m.wg.Wait()
	m.watch.Stop()
	m.close()
}

// detach ends the relayer and the server's end, and leaves the program's open. It
// returns false, and everything is closed, if something was copied already.
func (m *relayer) detach() bool {
	m.detached.Store(true)
	m.end.Close()
	m.wg.Wait()
	m.watch.Stop()
	return !m.spoke.Load()
}

// copy copies until src ends, calls moved after each piece, and returns how many bytes it
// wrote.
func (p *Proxy) copy(dst io.Writer, src io.Reader, moved func()) (written int64, err error) {
	buf := p.buffers.Get().(*[]byte)
	defer p.buffers.Put(buf)
	for {
		n, err := src.Read(*buf)
		if n > 0 {
			moved()
			n, err := dst.Write((*buf)[:n])
			if written += int64(n); err != nil {
				return written, err
			}
		}
		if err == io.EOF {
			return written, nil
		}
		if err != nil {
			return written, err
		}
	}
}

// closeWrite says that no more will be sent, so that the other side can finish. It returns
// false if dst cannot say that.
func closeWrite(dst any) bool {
	switch d := dst.(type) {
	case *client:
		return closeWrite(d.Conn)
	case interface{ CloseWrite() error }:
		return d.CloseWrite() == nil
	}
	return false
}

// Bounds of the data that is still read from a refused program.
const (
	lingerBytes = 256 << 10
	lingerTime  = time.Second
)

// linger reads what a program still sends after it was answered. If the connection were
// closed with unread bytes, the kernel would reset it, and the program might never see the
// answer.
func linger(c *client) {
	if !closeWrite(c) {
		return
	}
	end := time.Now().Add(lingerTime)
	var buf [4 << 10]byte
	for n := 0; n < lingerBytes; {
		if c.Conn.SetReadDeadline(end) != nil {
			return
		}
		m, err := c.Conn.Read(buf[:])
		if err != nil {
			return
		}
		n += m
	}
}
