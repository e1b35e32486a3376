package sandboxtest

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"sync/atomic"

	"golang.org/x/sys/unix"
)

// A host is this machine, prepared with things that no program may find: files with a
// secret, sockets with a listener, and a descriptor that careless providers pass on.
type host struct {
	secret string
	dir    string
	// shared is a directory that other users of the host may look into: a program may run as any.
	shared   string
	canaries []string
	fd       int
	mounts   string

	tcp4, tcp6, lan, udp string
	abstract, socket     string
	// Sockets of datagrams, without a file and with one.
	datagram, datagramName string
	closers                []func() error
	// reached counts connections and datagrams that came through.
	reached atomic.Int64
}

// openHost plants everything.
func openHost(ctx context.Context) (*host, error) {
	h := &host{secret: "secret-" + rand.Text(), fd: -1}
	err := h.plant()
	if err == nil {
		err = h.listen(ctx)
	}
	if err == nil {
		h.mounts, err = mountTable()
	}
	if err != nil {
		return nil, errors.Join(err, h.close())
	}
	return h, nil
}

// plant puts the secret into files where an engine or its user would have some.
func (h *host) plant() error {
	dir, err := os.MkdirTemp("", "haft-case-")
	if err != nil {
		return fmt.Errorf("make a directory: %w", err)
	}
	h.dir = dir
	h.atClose(func() error { return os.RemoveAll(dir) })
	if h.shared, err = os.MkdirTemp("", "haft-case-shared-"); err != nil {
		return fmt.Errorf("make a directory: %w", err)
	}
	h.atClose(func() error { return os.RemoveAll(h.shared) })
	if err := os.Chmod(h.shared, 0o755); err != nil {
		return fmt.Errorf("make a directory: %w", err)
	}
	places := []string{dir, filepath.Dir(dir)}
	if home, err := os.UserHomeDir(); err == nil {
		places = append(places, home)
	}
	for _, p := range places {
		f, err := os.CreateTemp(p, ".haft-case-canary-")
		if err != nil {
			continue // a home need not be writable
		}
		name := f.Name()
		h.atClose(func() error { return os.Remove(name) })
		_, err = f.WriteString(h.secret)
		if err := errors.Join(err, f.Chmod(0o644), f.Close()); err != nil {
			return fmt.Errorf("plant a canary: %w", err)
		}
		h.canaries = append(h.canaries, name)
	}
	if len(h.canaries) < 2 {
		return errors.New("plant a canary: there is no place to write to")
	}
	// Without O_CLOEXEC on purpose.
	if h.fd, err = unix.Open(h.canaries[0], unix.O_RDONLY, 0); err != nil {
		return fmt.Errorf("open a canary: %w", err)
	}
	h.atClose(func() error { return unix.Close(h.fd) })
	return nil
}

// listen opens the sockets. What the machine does not have, such as IPv6, or
// paths short enough for a socket, is left out.
func (h *host) listen(ctx context.Context) error {
	var config net.ListenConfig
	for _, x := range []struct {
		network, address string
		must             bool
		to               *string
	}{
		{"tcp4", "127.0.0.1:0", true, &h.tcp4},
		{"tcp6", "[::1]:0", false, &h.tcp6},
		{"tcp4", "0.0.0.0:0", false, &h.lan},
		{"unix", filepath.Join(h.shared, "socket"), linux, &h.socket},
		{"unix", "@haft-case-" + rand.Text(), linux, &h.abstract},
	} {
		l, err := config.Listen(ctx, x.network, x.address)
		if err != nil && x.must {
			return fmt.Errorf("listen on %s: %w", x.network, err)
		}
		if err != nil {
			continue
		}
		h.atClose(l.Close)
		*x.to = l.Addr().String()
		go h.accept(l)
	}
	if h.lan != "" {
		_, port, _ := net.SplitHostPort(h.lan)
		h.lan = net.JoinHostPort(lanAddress(), port)
	}
	for _, x := range []struct {
		network, address string
		must             bool
		to               *string
	}{
		{"udp4", "127.0.0.1:0", true, &h.udp},
		{"unixgram", filepath.Join(h.shared, "datagram"), linux, &h.datagram},
		{"unixgram", "@haft-case-" + rand.Text(), linux, &h.datagramName},
	} {
		c, err := config.ListenPacket(ctx, x.network, x.address)
		if err != nil && x.must {
			return fmt.Errorf("listen on %s: %w", x.network, err)
		}
		if err != nil {
			continue
		}
		h.atClose(c.Close)
		*x.to = c.LocalAddr().String()
		go h.receive(c)
	}
	for _, name := range []string{h.socket, h.datagram} {
		if name == "" {
			continue
		}
		if err := os.Chmod(name, 0o666); err != nil { // only a sandbox keeps another user of the host away
			return fmt.Errorf("open a socket to all: %w", err)
		}
	}
	return nil
}

// receive counts the datagrams.
func (h *host) receive(c net.PacketConn) {
	buf := make([]byte, 64)
	for {
		if _, _, err := c.ReadFrom(buf); err != nil {
			return
		}
		h.reached.Add(1)
	}
}

// accept counts the connections, and sends the secret to each.
func (h *host) accept(l net.Listener) {
	for {
		c, err := l.Accept()
		if err != nil {
			return
		}
		h.reached.Add(1)
		_, _ = c.Write([]byte(h.secret)) // the count is what matters
		_ = c.Close()
	}
}

// lanAddress is an address of this machine that is not a loopback.
func lanAddress() string {
	addrs, err := net.InterfaceAddrs()
	if err == nil {
		for _, a := range addrs {
			if n, ok := a.(*net.IPNet); ok && n.IP.To4() != nil && !n.IP.IsLoopback() {
				return n.IP.String()
			}
		}
	}
	return "127.0.0.2"
}

// env returns the variables that name the targets of the programs.
func (h *host) env() []string {
	exe, err := os.Executable()
	if err != nil {
		exe = "/proc/self/exe"
	}
	session, err := unix.Getsid(0)
	if err != nil {
		session = -1 // of which there is none
	}
	env := []string{
		"PATH=/usr/bin:/bin", "HOST_GROUP=" + strconv.Itoa(unix.Getpgrp()), "HOST_SESSION=" + strconv.Itoa(session),
		"HOST_PID=" + strconv.Itoa(os.Getpid()), "HOST_EXE=" + exe, "HOST_DIR=" + h.dir,
		"TCP4=" + h.tcp4, "TCP6=" + h.tcp6, "LAN=" + h.lan, "UDP=" + h.udp,
		"SOCKET=" + h.socket, "ABSTRACT=" + h.abstract,
		"DATAGRAM=" + h.datagram, "DATAGRAM_NAME=" + h.datagramName,
	}
	for i, c := range h.canaries {
		env = append(env, fmt.Sprintf("CANARY%d=%s", i, c))
	}
	return env
}

// unchanged reports what has happened to the host.
func (h *host) unchanged() error {
	for _, c := range h.canaries {
		data, err := os.ReadFile(c)
		if err != nil || !bytes.Equal(data, []byte(h.secret)) {
			return fmt.Errorf("a file of the host was changed or removed: %w", err)
		}
	}
	if n := h.reached.Load(); n > 0 {
		return fmt.Errorf("%d connections or datagrams reached the host", n)
	}
	now, err := mountTable()
	if err != nil {
		return err
	}
	if now != h.mounts {
		return errors.New("the mounts of the host have changed")
	}
	return nil
}

// atClose adds what is to be undone, the last first.
func (h *host) atClose(f func() error) { h.closers = append([]func() error{f}, h.closers...) }

// close takes everything away.
func (h *host) close() error {
	var all []error
	for _, c := range h.closers {
		all = append(all, c())
	}
	return errors.Join(all...)
}
