package egress

import (
	"bufio"
	"context"
	"io"
	"net"
)

// DialDNS connects to a DNS server as the guard's own resolver does.
var DialDNS = dialDNS

// Scrubbed is r without a value, which becomes its placeholder.
func Scrubbed(r io.Reader, value, placeholder string) io.Reader {
	b := &Broker{cfg: BrokerConfig{Secrets: []Secret{{Hosts: Rules{Full()}}}}}
	_ = b.remember(Secret{Name: "KEY", Placeholder: placeholder}, value, nil)
	return b.cleaner(Dest{Host: "a.example", Port: 80}).reader(r)
}

// ReadRequest reads a request as the proxy does.
func ReadRequest(r io.Reader) (method, host string, err error) {
	req, h, err := readRequest(bufio.NewReaderSize(r, maxHead))
	if err != nil {
		return "", "", err
	}
	return req.Method, h.host, nil
}

// DialInside connects as the transports of a guard do, also if a mock answers.
func DialInside(ctx context.Context, g *Guard, address string) (net.Conn, error) {
	return g.dial(ctx, "tcp", address)
}
