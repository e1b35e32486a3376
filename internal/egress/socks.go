package egress

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net/netip"
)

// What SOCKS5 answers (RFC 1928, 6).
const (
	socksOK          = 0x00
	socksFailed      = 0x01
	socksNotAllowed  = 0x02
	socksUnreachable = 0x04
	socksCommand     = 0x07
	socksAddress     = 0x08
)

// errSOCKS is the end of a connection that does not speak SOCKS5.
var errSOCKS = errors.New("not SOCKS5")

// serveSOCKS serves one connection whose first byte says SOCKS5. CONNECT is all
// it can do: BIND would let connections in, and UDP is not checked.
func (p *Proxy) serveSOCKS(ctx context.Context, c *client, br *bufio.Reader) {
	if err := socksGreet(c, br); err != nil {
		return
	}
	t, refusal := p.begin(c, "socks")
	if refusal != nil {
		socksReply(c, socksNotAllowed)
		return
	}
	defer t.end()
	host, port, code, err := socksRequest(br)
	if err != nil {
		t.refuse(&Refusal{Rule: RuleProtocol, Reason: "only CONNECT of SOCKS5 is served"})
		socksReply(c, code)
		return
	}
	p.tunnel(ctx, &tunnel{record: t, client: c, br: br, host: host, port: port, reply: func(err error) bool {
		switch {
		case err == nil:
			return socksReply(c, socksOK)
		case t.Refusal != nil:
			socksReply(c, socksNotAllowed)
		default:
			socksReply(c, socksUnreachable)
		}
		return false
	}})
}

// socksGreet agrees on an authentication method: none is needed. It reads a name and a
// password and forgets them, for programs that always send them.
func socksGreet(c *client, br *bufio.Reader) error {
	var b [2]byte
	if _, err := io.ReadFull(br, b[:]); err != nil {
		return err
	}
	methods := make([]byte, b[1])
	if _, err := io.ReadFull(br, methods); err != nil {
		return err
	}
	method := byte(0xff)
	for _, m := range methods {
		if m == 0x00 || m == 0x02 && method == 0xff {
			method = m
		}
	}
	if _, err := c.Write([]byte{0x05, method}); err != nil || method == 0xff {
		return errSOCKS
	}
	if method == 0x00 {
		return nil
	}
	for i := range 2 { // VER ULEN UNAME, PLEN PASSWD (RFC 1929)
		n := 2 - i
		if _, err := io.ReadFull(br, b[:n]); err != nil {
			return err
		}
		if _, err := br.Discard(int(b[n-1])); err != nil {
			return err
		}
	}
	_, err := c.Write([]byte{0x01, 0x00})
	return err
}

// socksRequest reads the destination. Names are not changed: the tunnel checks them.
func socksRequest(br *bufio.Reader) (host string, port uint16, code byte, err error) {
	var b [4]byte
	if _, err := io.ReadFull(br, b[:]); err != nil {
		return "", 0, socksFailed, err
	}
	if b[0] != 0x05 || b[2] != 0 {
		return "", 0, socksFailed, errSOCKS
	}
	var size int
	switch b[3] {
	case 0x01:
		size = 4
	case 0x03:
		n, err := br.ReadByte()
		if err != nil {
			return "", 0, socksFailed, err
		}
		size = int(n)
	case 0x04:
		size = 16
	default:
		return "", 0, socksAddress, errSOCKS
	}
	rest := make([]byte, size+2)
	if _, err := io.ReadFull(br, rest); err != nil {
		return "", 0, socksFailed, err
	}
	if b[1] != 0x01 {
		return "", 0, socksCommand, errSOCKS
	}
	host = string(rest[:size])
	if b[3] != 0x03 {
		a, _ := netip.AddrFromSlice(rest[:size]) // 4 or 16 bytes: it is one
		host = a.String()
	}
	return host, binary.BigEndian.Uint16(rest[size:]), socksOK, nil
}

// socksReply sends a reply without the bound address, which would reveal the address of a
// name.
func socksReply(c *client, code byte) bool {
	_, err := c.Write([]byte{0x05, code, 0x00, 0x01, 0, 0, 0, 0, 0, 0})
	return err == nil
}
