package server_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/coder/websocket"

	"haft"
	"haft/executor"
	"haft/server"
)

// A stream reads events of either kind of connection.
type stream interface {
	// next returns the next event, or what the stream ends with.
	next() (haft.Event, error)
	close()
}

// An ending is what a stream ends with.
type ending struct {
	Type    string    `json:"type"`
	Code    haft.Code `json:"code"`
	Message string    `json:"message"`
}

func (e ending) Error() string { return string(e.Code) + ": " + e.Message }

// sse reads server-sent events.
type sse struct {
	body   io.ReadCloser
	lines  *bufio.Scanner
	lastID string // as a browser keeps it
	beats  int
}

// watchSSE opens a stream of server-sent events.
func (w *world) watchSSE(ctx context.Context, who, query string, headers ...string) *sse {
	w.t.Helper()
	r, err := http.NewRequestWithContext(ctx, "GET", w.http.URL+"/v1/events"+query, nil)
	if err != nil {
		w.t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+who)
	for i := 0; i+1 < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	res, err := w.http.Client().Do(r) //nolint:bodyclose // close does
	if err != nil {
		w.t.Fatal(err)
	}
	if res.StatusCode != 200 || res.Header.Get("Content-Type") != "text/event-stream" {
		w.t.Fatalf("no stream: %d %v", res.StatusCode, res.Header)
	}
	s := &sse{body: res.Body, lines: bufio.NewScanner(res.Body)}
	s.lines.Buffer(nil, 4<<20)
	return s
}

func (s *sse) close() { s.body.Close() }

func (s *sse) next() (haft.Event, error) {
	var kind, data string
	for s.lines.Scan() {
		name, value, _ := strings.Cut(s.lines.Text(), ": ")
		switch name {
		case "id":
			s.lastID = value
		case "event":
			kind = value
		case "data":
			data = value
		case "":
			if value == "heartbeat" {
				s.beats++
			}
			if data == "" {
				continue
			}
			if kind == "error" {
				var e ending
				if err := json.Unmarshal([]byte(data), &e); err != nil {
					return haft.Event{}, err
				}
				return haft.Event{}, e
			}
			var e haft.Event
			return e, json.Unmarshal([]byte(data), &e)
		}
	}
	return haft.Event{}, errors.Join(io.ErrUnexpectedEOF, s.lines.Err())
}

// socket reads events of a WebSocket.
type socket struct {
	ctx   context.Context
	conn  *websocket.Conn
	beats []int64
}

// watchSocket opens a WebSocket.
func (w *world) watchSocket(ctx context.Context, who, query string) *socket {
	w.t.Helper()
	conn, _, err := websocket.Dial(ctx, w.http.URL+"/v1/events"+query, &websocket.DialOptions{ //nolint:bodyclose // the library's
		HTTPHeader: http.Header{"Authorization": {"Bearer " + who}}, HTTPClient: w.http.Client()})
	if err != nil {
		w.t.Fatal(err)
	}
	conn.SetReadLimit(4 << 20)
	return &socket{ctx: ctx, conn: conn}
}

func (s *socket) close() { s.conn.CloseNow() } //nolint:errcheck // a test leaves

func (s *socket) next() (haft.Event, error) {
	for {
		_, raw, err := s.conn.Read(s.ctx)
		if err != nil {
			return haft.Event{}, err
		}
		var end ending
		if err := json.Unmarshal(raw, &end); err != nil {
			return haft.Event{}, err
		}
		if end.Type == "error" {
			_, _, err := s.conn.Read(s.ctx)
			if code := websocket.CloseStatus(err); code < 4400 {
				return haft.Event{}, fmt.Errorf("closed with %d after %w", code, end)
			}
			return haft.Event{}, end
		}
		var e haft.Event
		if err := json.Unmarshal(raw, &e); err != nil {
			return haft.Event{}, err
		}
		if e.Type != "heartbeat" {
			return e, nil
		}
		s.beats = append(s.beats, e.Cursor)
	}
}

// both runs a test with either kind of connection.
func both(t *testing.T, change func(*server.Config),
	test func(t *testing.T, w *world, open func(ctx context.Context, who, query string) stream)) {
	t.Run("sse", func(t *testing.T) {
		w := setup(t, change)
		test(t, w, func(ctx context.Context, who, query string) stream { return w.watchSSE(ctx, who, query) })
	})
	t.Run("websocket", func(t *testing.T) {
		w := setup(t, change)
		test(t, w, func(ctx context.Context, who, query string) stream { return w.watchSocket(ctx, who, query) })
	})
}

func within(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	t.Cleanup(cancel)
	return ctx
}

func TestEvents_resume_without_loss_or_repetition(t *testing.T) {
	both(t, nil, func(t *testing.T, w *world, open func(context.Context, string, string) stream) {
		w.tool("f", "")
		const calls = 30
		ctx := within(t)
		var caller sync.WaitGroup
		defer caller.Wait()
		caller.Go(func() {
			for range calls {
				w.ask(user, "POST", "/v1/calls", `{"tool":"f"}`)
			}
		})
		// Every connection is cut after three events.
		ended, last, seqs := 0, int64(0), map[haft.CallID]int64{}
		for ended < calls {
			s := open(ctx, user, fmt.Sprintf("?after=%d", last))
			for range 3 {
				e, err := s.next()
				if err != nil {
					t.Fatalf("after %d events: %v", ended, err)
				}
				if e.Cursor <= last || e.Seq != seqs[e.Call]+1 {
					t.Fatalf("event %d of call %s after %d, cursor %d after %d", e.Seq, e.Call, seqs[e.Call], e.Cursor,
						last)
				}
				last, seqs[e.Call] = e.Cursor, e.Seq
				if e.Type == haft.EventCompleted {
					if ended++; ended == calls {
						break
					}
				}
			}
			s.close()
		}
		if len(seqs) != calls {
			t.Errorf("events of %d calls, want %d", len(seqs), calls)
		}
	})
}

func TestEvents_only_of_what_was_asked_for_and_may_be_seen(t *testing.T) {
	both(t, nil, func(t *testing.T, w *world, open func(context.Context, string, string) stream) {
		w.tool("f", "")
		w.tool("g", "")
		w.must(201, admin, "POST", "/v1/agents", `{"name":"smith","tools":["g"]}`)
		w.call(other, `{"tool":"f"}`) // not ann's
		w.call(user, `{"tool":"f"}`)
		mine := w.call(user, `{"tool":"g"}`)
		w.call(admin, `{"tool":"g","agent":"smith"}`)
		marker := w.call(user, `{"tool":"f"}`)
		ctx := within(t)
		read := func(who, query string) (seen []haft.Event) {
			s := open(ctx, who, "?after=0"+query)
			defer s.close()
			for {
				e, err := s.next()
				if err != nil {
					t.Fatalf("%s %s: %v", who, query, err)
				}
				if e.Call == marker.Call && query == "" {
					return seen
				}
				seen = append(seen, e)
				if e.Type == haft.EventCompleted && query != "" {
					return seen
				}
			}
		}
		for _, e := range read(user, "") {
			if e.Principal.User != "ann" {
				t.Errorf("ann sees what %s does", e.Principal.User)
			}
		}
		users := map[string]bool{}
		for _, e := range read(admin, "") {
			users[e.Principal.User] = true
		}
		if !users["ann"] || !users["bob"] || !users["root"] {
			t.Errorf("an administrator sees %v", users)
		}
		for query, fits := range map[string]func(haft.Event) bool{
			"&tool=g":                    func(e haft.Event) bool { return e.Tool == "g" },
			"&user=bob":                  func(e haft.Event) bool { return e.Principal.User == "bob" },
			"&agent=smith":               func(e haft.Event) bool { return e.Principal.Agent != "" },
			"&call=" + string(mine.Call): func(e haft.Event) bool { return e.Call == mine.Call },
			"&type=tool_completed":       func(e haft.Event) bool { return e.Type == haft.EventCompleted },
		} {
			list := read(admin, query)
			if len(list) == 0 {
				t.Errorf("%s gives nothing", query)
			}
			for _, e := range list {
				if !fits(e) {
					t.Errorf("%s gives %+v", query, e)
				}
			}
		}
	})
}

func TestEvents_of_another_organisation_never_come(t *testing.T) {
	both(t, nil, func(t *testing.T, w *world, open func(context.Context, string, string) stream) {
		w.tool("f", "")
		w.must(201, stranger, "POST", "/v1/tools", draft("f", ""))
		mine := w.call(user, `{"tool":"f"}`)
		theirs := w.call(stranger, `{"tool":"f"}`)
		s := open(within(t), stranger, "?after=0")
		defer s.close()
		e, err := s.next()
		if err != nil || e.Call != theirs.Call || e.Call == mine.Call {
			t.Errorf("got %+v, %v", e, err)
		}
	})
}

func TestEvents_heartbeats_carry_a_cursor(t *testing.T) {
	w := setup(t, func(c *server.Config) { c.Heartbeat = 20 * time.Millisecond })
	w.tool("f", "")
	first := w.call(user, `{"tool":"f"}`)
	// Nothing fits, so that only heartbeats come; a client that resumes after one misses nothing.
	s := w.watchSSE(within(t), user, "?after=0&tool=none")
	defer s.close()
	for s.lastID == "" && s.lines.Scan() {
		if name, value, _ := strings.Cut(s.lines.Text(), ": "); name == "id" {
			s.lastID = value
		}
	}
	second := w.call(user, `{"tool":"f"}`)
	back := w.watchSSE(within(t), user, "?after=0", "Last-Event-ID", s.lastID)
	defer back.close()
	e, err := back.next()
	if err != nil || e.Call != second.Call {
		t.Errorf("after the heartbeat comes %s (%v), want %s; %s was before", e.Call, err, second.Call, first.Call)
	}
}

func TestEvents_a_cursor_of_another_database_is_refused(t *testing.T) {
	both(t, nil, func(t *testing.T, w *world, open func(context.Context, string, string) stream) {
		s := open(within(t), user, "?after="+strconv.FormatInt(1<<62, 10))
		defer s.close()
		_, err := s.next()
		if e, ok := errors.AsType[ending](err); !ok || e.Code != haft.CodeConflict {
			t.Errorf("got %v", err)
		}
	})
}

func TestEvents_end_with_the_credential(t *testing.T) {
	both(t, nil, func(t *testing.T, w *world, open func(context.Context, string, string) stream) {
		s := open(within(t), "acme/brief/user", "")
		defer s.close()
		_, err := s.next()
		if e, ok := errors.AsType[ending](err); !ok || e.Code != haft.CodeUnauthenticated {
			t.Errorf("got %v", err)
		}
	})
}

func TestEvents_end_with_the_server(t *testing.T) {
	both(t, nil, func(t *testing.T, w *world, open func(context.Context, string, string) stream) {
		s := open(within(t), user, "")
		defer s.close()
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
		defer cancel()
		received := make(chan error, 1)
		go func() { _, err := s.next(); received <- err }()
		if err := w.server.Shutdown(ctx); err != nil {
			t.Errorf("Shutdown: %v", err)
		}
		if e, ok := errors.AsType[ending](<-received); !ok || e.Code != haft.CodeUnavailable {
			t.Errorf("the reader got %v", e)
		}
		if a := w.ask(user, "GET", "/v1/events", ""); a.status != 503 {
			t.Errorf("a new stream: %d %s", a.status, a.body)
		}
	})
}

// floods is how many events are more than connections hold.
const floods = 1000

// flood is a service whose events never end.
type flood struct {
	haft.Service
	stopped chan struct{}
}

func (f flood) Watch(ctx context.Context, p haft.Principal, _ haft.EventFilter, _ int64) iter.Seq2[haft.Event, error] {
	return func(yield func(haft.Event, error) bool) {
		defer close(f.stopped)
		for i := int64(1); ctx.Err() == nil; i++ {
			e := haft.Event{Cursor: i, Seq: i, Type: haft.EventOutput, Call: "c", Principal: p,
				Data: json.RawMessage(`"` + strings.Repeat("x", 10_000) + `"`)}
			if !yield(e, nil) {
				return
			}
			if i == floods {
				yield(haft.Event{}, &haft.Error{Code: haft.CodeUnavailable,
					Message: "events came faster than they were read; go on after the last one"})
				return
			}
		}
	}
}

func TestEvents_a_slow_reader_gets_an_error_and_is_dropped(t *testing.T) {
	both(t, nil, func(t *testing.T, w *world, open func(context.Context, string, string) stream) {
		stopped := make(chan struct{})
		s, err := server.New(flood{w.engine, stopped}, people{}, server.Config{})
		if err != nil {
			t.Fatal(err)
		}
		w.http.Config.Handler = s.Handler()
		in := open(within(t), user, "")
		defer in.close()
		n := 0
		for {
			_, err := in.next()
			if e, ok := errors.AsType[ending](err); ok {
				if e.Code != haft.CodeUnavailable || n != floods {
					t.Errorf("after %d events: %v", n, e)
				}
				break
			}
			if err != nil {
				t.Fatal(err)
			}
			n++
		}
		<-stopped
		if err := s.Shutdown(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

func TestEvents_who_does_not_read_is_cut(t *testing.T) {
	both(t, nil, func(t *testing.T, w *world, open func(context.Context, string, string) stream) {
		stopped := make(chan struct{})
		s, err := server.New(flood{w.engine, stopped}, people{}, server.Config{WriteTimeout: 100 * time.Millisecond})
		if err != nil {
			t.Fatal(err)
		}
		w.http.Config.Handler = s.Handler()
		in := open(within(t), user, "")
		defer in.close()
		select { // it never reads
		case <-stopped:
		case <-time.After(time.Minute):
			t.Error("the stream goes on")
		}
		if err := s.Shutdown(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

func TestEvents_output_comes_while_the_tool_runs(t *testing.T) {
	w := setup(t, nil)
	w.tool("f", "")
	seen := make(chan struct{})
	w.set(func(ctx context.Context, req executor.Request) (*haft.Result, error) {
		if req.Stdout != nil {
			req.Stdout([]byte("half way\n"))
		}
		select {
		case <-seen:
		case <-ctx.Done():
		}
		return echo(ctx, req)
	})
	var queued haft.Result
	w.must(202, user, "POST", "/v1/calls", `{"tool":"f","wait":false}`).into(t, &queued)
	s := w.watchSSE(within(t), user, "?after=0&call="+string(queued.Call))
	defer s.close()
	for {
		e, err := s.next()
		if err != nil {
			t.Fatal(err)
		}
		if e.Type == haft.EventOutput || e.Type == haft.EventExecuting {
			break
		}
	}
	close(seen)
	var rec haft.Record
	w.must(200, user, "GET", "/v1/calls/"+string(queued.Call)+"?wait=10", "").into(t, &rec)
	if rec.Status != haft.StatusSuccess {
		t.Errorf("the call is %s", rec.Status)
	}
}
