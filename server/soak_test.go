package server_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/coder/websocket"

	"haft"
	"haft/executor"
	"haft/internal/event"
)

// A soak is a server with many readers over WebSockets while many calls run.
//
// HAFT_SOAK_SOCKETS=1000 HAFT_SOAK_CALLS=10000 make it as large as what is
// promised: ten readers for each of 100 organisations. The figures are logged.
type soak struct {
	w      *world
	http   *httptest.Server
	caller *http.Client
	orgs   int
	calls  int // of each organisation

	events, cuts, slow atomic.Int64
}

// knob reads a size from the environment.
func knob(t *testing.T, name string, usual int) int {
	text := os.Getenv(name)
	if text == "" {
		return usual
	}
	n, err := strconv.Atoi(text)
	if err != nil || n <= 0 {
		t.Fatalf("%s=%q is not a size", name, text)
	}
	return n
}

// narrow accepts connections whose buffers hold little, so that one who does not
// read is felt by the server and not only by the kernel.
type narrow struct{ net.Listener }

func (l narrow) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return c, c.(*net.TCPConn).SetWriteBuffer(8 << 10)
}

// fragile is a connection that is reset after so many bytes, wherever that is: in
// an answer to the handshake, in a frame, or between two.
type fragile struct {
	*net.TCPConn
	left int // none means for ever
	cut  atomic.Bool
}

func (c *fragile) Read(p []byte) (int, error) {
	if c.left == 0 {
		return c.TCPConn.Read(p)
	}
	if c.left == 1 {
		c.cut.Store(true)
		// With a linger of nothing the kernel sends a reset and forgets what is on
		// its way.
		return 0, errors.Join(io.ErrUnexpectedEOF, c.SetLinger(0), c.Close())
	}
	n, err := c.TCPConn.Read(p[:min(len(p), c.left-1)])
	c.left -= n
	return n, err
}

// A reader watches one organisation until all its calls have ended.
type reader struct {
	s      *soak
	org    string
	life   func() int // bytes until the next connection is cut
	lazy   bool       // it may be dropped
	opened int
	line   *fragile // of the latest connection

	last    int64 // the cursor to come back with
	cursors []int64
	seqs    map[haft.CallID]int64
	ended   int
}

// open connects and goes on after the last event that was read.
func (r *reader) open(ctx context.Context, buffer int) (*socket, error) {
	transport := &http.Transport{DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
		c, err := new(net.Dialer).DialContext(ctx, network, address)
		if err != nil {
			return nil, err
		}
		r.line = &fragile{TCPConn: c.(*net.TCPConn), left: r.life()}
		if buffer > 0 {
			err = r.line.SetReadBuffer(buffer)
		}
		return r.line, err
	}}
	r.opened++
	conn, _, err := websocket.Dial(ctx, fmt.Sprintf("%s/v1/events?after=%d", r.s.http.URL, r.last), &websocket.DialOptions{ //nolint:bodyclose // the library's
		HTTPHeader: http.Header{"Authorization": {"Bearer " + r.org + "/root/admin"}},
		HTTPClient: &http.Client{Transport: transport}})
	if err != nil {
		return nil, err
	}
	conn.SetReadLimit(4 << 20)
	return &socket{ctx: ctx, conn: conn}, nil
}

// drain reads one connection to its end. It returns what is wrong, and nil if the
// connection was cut or ended as a reader may be told.
func (r *reader) drain(s *socket) error {
	defer s.close()
	for r.ended < r.s.calls {
		e, err := s.next()
		if end, ok := errors.AsType[ending](err); ok {
			if end.Code != haft.CodeUnavailable {
				return fmt.Errorf("told after %d: %w", r.last, end)
			}
			r.s.slow.Add(1)
			return nil
		}
		if err != nil && !r.line.cut.Load() && !r.lazy {
			return fmt.Errorf("dropped without a word after %d: %w", r.last, err)
		}
		if err != nil {
			r.s.cuts.Add(1)
			return nil // what was lost by it shows in the comparison
		}
		if e.Principal.Org != r.org {
			return fmt.Errorf("an event of %s", e.Principal.Org)
		}
		if e.Cursor <= r.last || e.Seq != r.seqs[e.Call]+1 {
			return fmt.Errorf("event %d of call %s after %d, cursor %d after %d", e.Seq, e.Call, r.seqs[e.Call],
				e.Cursor, r.last)
		}
		r.last, r.seqs[e.Call] = e.Cursor, e.Seq
		r.cursors = append(r.cursors, e.Cursor)
		r.s.events.Add(1)
		if e.Type == haft.EventCompleted {
			r.ended++
		}
	}
	return nil
}

// follow reads until every call has ended, over as many connections as it takes.
func (r *reader) follow(ctx context.Context) error {
	for r.ended < r.s.calls {
		s, err := r.open(ctx, 0)
		switch {
		case err == nil:
			if err := r.drain(s); err != nil {
				return err
			}
		case r.line != nil && r.line.cut.Load():
			r.s.cuts.Add(1)
		default:
			return fmt.Errorf("come back after %d: %w", r.last, err)
		}
	}
	return nil
}

func (s *soak) reader(org string, life func() int) *reader {
	return &reader{s: s, org: org, life: life, seqs: map[haft.CallID]int64{}}
}

// call makes the calls of an organisation, one after the other.
func (s *soak) call(ctx context.Context, org string) error {
	for range s.calls {
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, s.http.URL+"/v1/calls",
			strings.NewReader(`{"tool":"f"}`))
		if err != nil {
			return err
		}
		req.Header.Set("Authorization", "Bearer "+org+"/root/admin")
		req.Header.Set("Content-Type", "application/json")
		res, err := s.caller.Do(req)
		if err != nil {
			return err
		}
		raw, err := io.ReadAll(res.Body)
		if err := errors.Join(err, res.Body.Close()); err != nil {
			return err
		}
		if res.StatusCode != http.StatusOK {
			return fmt.Errorf("status %d: %s", res.StatusCode, raw)
		}
	}
	return nil
}

// kept returns the cursors of all events of an organisation, as the store has them.
func (s *soak) kept(t *testing.T, org string) []int64 {
	t.Helper()
	cursors := []int64{}
	for after := int64(0); ; after = cursors[len(cursors)-1] {
		list, err := s.w.store.Events.EventsAfter(t.Context(), event.Filter{Org: org}, after, 500)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range list {
			cursors = append(cursors, e.Cursor)
		}
		if len(list) < 500 {
			return cursors
		}
	}
}

// chatty writes some output and gives back its arguments. In the first
// organisation it tells so much of its progress that one who does not read cannot
// be kept.
func chatty(ctx context.Context, req executor.Request) (*haft.Result, error) {
	req.Stdout([]byte(strings.Repeat("all work and no play\n", 50)))
	if req.Principal.Org == soakOrg(0) {
		for i := range 12 {
			req.Progress(json.RawMessage(strconv.Itoa(i)))
		}
	}
	return echo(ctx, req)
}

// newSoak starts a server and registers the tool of every organisation.
func newSoak(t *testing.T) (s *soak, readers int) {
	sockets, calls := knob(t, "HAFT_SOAK_SOCKETS", 20), knob(t, "HAFT_SOAK_CALLS", 200)
	s = &soak{w: setup(t, nil), orgs: min(sockets, max(5, sockets/10))}
	s.calls = max(1, calls/s.orgs)
	s.w.set(chatty)
	s.http = httptest.NewUnstartedServer(s.w.server.Handler())
	s.http.Listener = narrow{s.http.Listener}
	s.http.Start()
	t.Cleanup(s.http.Close)
	transport := &http.Transport{MaxIdleConnsPerHost: s.orgs}
	t.Cleanup(transport.CloseIdleConnections)
	s.caller = &http.Client{Transport: transport}
	for org := range s.orgs {
		s.w.must(201, soakOrg(org)+"/root/admin", "POST", "/v1/tools", draft("f", ""))
	}
	return s, sockets / s.orgs
}

func soakOrg(n int) string { return fmt.Sprintf("org%d", n) }

// Every event arrives once, in order, at its organisation only; connections that
// are cut at random resume without loss; and one that does not read changes
// nothing for the others, and is itself told nothing wrong when it reads again.
func TestEvents_soak(t *testing.T) {
	s, perOrg := newSoak(t)
	var good, stalled []*reader
	var asleep []*socket
	for org := range s.orgs {
		for i := range perOrg {
			chance := rand.New(rand.NewPCG(uint64(org), uint64(i)))
			good = append(good, s.reader(soakOrg(org), func() int { return 1 + chance.IntN(60_000) }))
		}
		lazy := s.reader(soakOrg(org), func() int { return 0 })
		lazy.lazy = true
		sock, err := lazy.open(t.Context(), 4<<10)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(sock.close)
		stalled, asleep = append(stalled, lazy), append(asleep, sock)
	}
	begin := time.Now()
	var all sync.WaitGroup
	for _, r := range good {
		all.Go(func() {
			if err := r.follow(t.Context()); err != nil {
				t.Errorf("a reader of %s: %v", r.org, err)
			}
		})
	}
	for org := range s.orgs {
		all.Go(func() {
			if err := s.call(t.Context(), soakOrg(org)); err != nil {
				t.Errorf("a caller of %s: %v", soakOrg(org), err)
			}
		})
	}
	all.Wait()
	t.Logf("%d readers of %d organisations got %d events of %d calls over %d cuts, told %d times that they are "+
		"slow, in %v",
		len(good), s.orgs, s.events.Load(), s.orgs*s.calls, s.cuts.Load(), s.slow.Load(), time.Since(begin))

	// Now those that slept wake up: what they got is what they can have, and they
	// come back for the rest.
	for i, r := range stalled {
		all.Go(func() {
			check(t, r.line.SetReadBuffer(1<<20))
			if err := errors.Join(r.drain(asleep[i]), r.follow(t.Context())); err != nil {
				t.Errorf("one of %s that did not read: %v", r.org, err)
			}
		})
	}
	all.Wait()
	if stalled[0].opened < 2 {
		t.Errorf("%d events waited for one that did not read", len(stalled[0].cursors))
	}
	t.Logf("with the %d that did not read: %d events, %d cuts, told %d times, in %v", len(stalled), s.events.Load(),
		s.cuts.Load(), s.slow.Load(), time.Since(begin))
	for org := range s.orgs {
		want := s.kept(t, soakOrg(org))
		for _, r := range append(slices.Clone(good), stalled...) {
			if r.org == soakOrg(org) && !slices.Equal(r.cursors, want) {
				t.Errorf("a reader of %s got %d events, and %d happened", r.org, len(r.cursors), len(want))
			}
		}
	}
}
