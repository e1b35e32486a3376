package egress

import (
	"io"
	"net"
	"sync"
	"time"
)

// relay passes bytes both ways until both ends have closed or nothing has moved
// for too long. raw was read from the program already.
func (p *Proxy) relay(t *tunnel, server net.Conn, raw []byte) {
	if _, err := server.Write(raw); err != nil {
		t.Outcome = OutcomeFailed
		return
	}
	p.pump(t.client, t.br, server, server, server)
}

// relayPlain passes bytes both ways where plain TCP is allowed. The server's are
// passed on at once; if the program's begin with TLS the name has to fit all the
// same, as a program that is mistaken or misled would want it.
func (p *Proxy) relayPlain(t *tunnel, server net.Conn) {
	t.Scheme = TCP
	first := &firstWords{tunnel: t, server: server, idle: p.cfg.Limits.Idle}
	p.pump(t.client, first, server, server, server)
	if first.err != nil {
		t.fail(first.err)
	}
}

// firstWords is what a program sends, looked at once.
type firstWords struct {
	tunnel *tunnel
	server net.Conn
	idle   time.Duration
	raw    []byte
	done   bool
	err    error
}

// Read implements [io.Reader].
func (f *firstWords) Read(b []byte) (int, error) {
	t := f.tunnel
	if !f.done {
		f.done = true
		first, err := t.br.Peek(1)
		if err != nil {
			return 0, err
		}
		if first[0] == 0x16 {
			t.Scheme = HTTPS
			raw, err := readHello(t.client, t.br, t.host)
			if err != nil {
				f.err = err
				f.server.Close() // so that the other direction ends too
				return 0, err
			}
			f.raw = raw
		}
	}
	if len(f.raw) > 0 {
		n := copy(b, f.raw)
		f.raw = f.raw[n:]
		return n, nil
	}
	return t.br.Read(b)
}

// pump copies from the program (up) to the server and from the server (down) to
// the program until both are done, or one fails, or nothing has moved for as long
// as a connection may rest. It closes both ends.
func (p *Proxy) pump(c net.Conn, up io.Reader, server io.Writer, down io.Reader, end io.Closer) {
	var (
		wg    sync.WaitGroup
		idle  = p.cfg.Limits.Idle
		close = sync.OnceFunc(func() {
			c.Close()
			end.Close()
		})
		watch = time.AfterFunc(idle, close)
	)
	alive := func() { watch.Reset(idle) }
	if cl, ok := c.(*client); ok {
		cl.idle = p.cfg.Limits.Total // the watch is what counts: one way may rest while the other runs
	}
	one := func(dst io.Writer, src io.Reader) {
		if p.copy(dst, src, alive) != nil || !closeWrite(dst) {
			close()
		}
	}
	wg.Go(func() { one(server, up) })
	one(c, down)
	wg.Wait()
	watch.Stop()
	close()
}

// copy copies until src ends and calls moved after each piece.
func (p *Proxy) copy(dst io.Writer, src io.Reader, moved func()) error {
	buf := p.buffers.Get().(*[]byte)
	defer p.buffers.Put(buf)
	for {
		n, err := src.Read(*buf)
		if n > 0 {
			moved()
			if _, err := dst.Write((*buf)[:n]); err != nil {
				return err
			}
		}
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// closeWrite says that no more will be sent, so that the other side can finish
// what it has to say. It returns false if dst cannot say that.
func closeWrite(dst any) bool {
	switch d := dst.(type) {
	case *client:
		return closeWrite(d.Conn)
	case interface{ CloseWrite() error }:
		return d.CloseWrite() == nil
	}
	return false
}

// Bounds of what is still read from a program that was refused.
const (
	lingerBytes = 256 << 10
	lingerTime  = time.Second
)

// linger reads what a program still sends after it was answered. If the
// connection were closed with bytes unread, the kernel would reset it, and the
// program might never see the answer.
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
