package session

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"
)

// hostile returns a channel whose agent sends these payloads, and what ends the channel.
func hostile(t *testing.T, payloads func(id uint32) [][]byte) (*request, <-chan error) {
	t.Helper()
	host, agent := net.Pipe()
	failed := make(chan error, 8)
	c := newChannel(host, func(err error) { failed <- err })
	done := make(chan struct{})
	go func() { defer close(done); c.serve() }()
	go func() { // it reads everything that it is sent
		buf := make([]byte, 1<<16)
		for {
			if _, err := agent.Read(buf); err != nil {
				return
			}
		}
	}()
	t.Cleanup(func() {
		if err := errors.Join(agent.Close(), host.Close()); err != nil {
			t.Error(err)
		}
		<-done
	})
	r, err := c.start("exec", nil)
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		for _, p := range payloads(r.id) {
			if _, err := agent.Write(append(binary.BigEndian.AppendUint32(nil, uint32(len(p))), p...)); err != nil {
				return // the host has seen enough
			}
		}
	}()
	return r, failed
}

// data is a frame of output.
func data(id uint32, n int) []byte {
	b := binary.BigEndian.AppendUint32([]byte{0}, id)
	return append(append(b, streamOut), make([]byte, n)...)
}

func TestChannel_an_agent_that_breaks_the_protocol_ends_it(t *testing.T) {
	many := func(n int, p []byte) [][]byte {
		var out [][]byte
		for range n {
			out = append(out, p)
		}
		return out
	}
	event := func(format string, args ...any) []byte { return fmt.Appendf(nil, format, args...) }
	for name, payloads := range map[string]func(id uint32) [][]byte{
		"an empty frame":     func(uint32) [][]byte { return [][]byte{{}} },
		"no JSON":            func(uint32) [][]byte { return [][]byte{[]byte("x")} },
		"data without an id": func(uint32) [][]byte { return [][]byte{{0, 0, 0}} },
		"a large event": func(id uint32) [][]byte {
			return [][]byte{event(`{"id":%d,"event":"x","message":"%s"}`, id, strings.Repeat("x", maxEvent))}
		},
		"a huge list": func(id uint32) [][]byte {
			return [][]byte{event(`{"id":%d,"entries":[%s{}]}`, id, strings.Repeat("{},", maxList/3))}
		},
		"many events":             func(id uint32) [][]byte { return many(maxItems+1, event(`{"id":%d,"event":""}`, id)) },
		"data beyond the window":  func(id uint32) [][]byte { return many((maxQueued+maxAnswer)>>19, data(id, 1<<20)) },
		"data for nobody":         func(uint32) [][]byte { return many(maxStray>>20+1, data(99, 1<<20)) },
		"more read than was sent": func(id uint32) [][]byte { return [][]byte{event(`{"id":%d,"event":"read","n":1}`, id)} },
		"a number that overflows": func(id uint32) [][]byte {
			return [][]byte{event(`{"id":%d,"event":"read","n":9223372036854775807}`, id)}
		},
		"a number that is below 0": func(id uint32) [][]byte { return [][]byte{event(`{"id":%d,"event":"read","n":-1}`, id)} },
	} {
		t.Run(name, func(t *testing.T) {
			r, failed := hostile(t, payloads)
			select {
			case err := <-failed:
				if !errors.Is(err, errProtocol) {
					t.Errorf("it ended by %v", err)
				}
			case <-time.After(time.Minute):
				t.Fatal("the channel goes on")
			}
			for {
				if _, err := r.next(t.Context()); err != nil {
					break // what came before is read, then there is an error
				}
			}
		})
	}
}

// What was on its way when a request was broken off does not end the session, however many are: a
// flood does, as does one for requests that had ended.
func TestChannel_requests_that_are_broken_off(t *testing.T) {
	c := newChannel(nil, func(error) {})
	request := func(id uint32) *request {
		r := &request{ch: c, id: id, ready: make(chan struct{}, 1), paid: make(chan struct{}, 1), credit: window}
		c.open[id] = r
		return r
	}
	const many = 2 * maxStray / window
	for id := range uint32(many) {
		r := request(id)
		r.close()
		r.close() // as who closes a stream twice
		if err := c.deliver(data(id, window)); err != nil {
			t.Fatalf("request %d: %v", id, err)
		}
	}
	most := c.stray
	for id := range uint32(many) {
		r := request(id)
		if err := c.deliver(fmt.Appendf(nil, `{"id":%d,"event":"done"}`, id)); err != nil {
			t.Fatal(err)
		}
		r.close()
	}
	if want := many * (dataHead + window - maxQueued - maxAnswer); most != want || c.stray != want {
		t.Errorf("stray is %d, then %d; want %d", most, c.stray, want)
	}
	flood := data(1, window)
	for range (maxStray-c.stray)/len(flood) + 1 {
		if err := c.deliver(flood); err != nil {
			return
		}
	}
	t.Error("a flood goes on")
}

// A flood does not keep a caller whose context has ended.
func TestChannel_a_flood_does_not_hold_a_caller(t *testing.T) {
	r, _ := hostile(t, func(id uint32) [][]byte {
		var out [][]byte
		for range maxItems / 2 {
			out = append(out, fmt.Appendf(nil, `{"id":%d,"event":"x"}`, id))
		}
		return out
	})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := r.await(ctx, "done"); !errors.Is(err, context.Canceled) {
		t.Errorf("await = %v", err)
	}
}

func FuzzChannel(f *testing.F) {
	f.Add([]byte(`{"id":1,"event":"started","pid":7}`))
	f.Add(data(1, 3))
	f.Add([]byte(`{"id":1,"event":"read","n":-1}`))
	f.Fuzz(func(t *testing.T, payload []byte) {
		if len(payload) == 0 {
			return
		}
		c := newChannel(nil, func(error) {})
		r := &request{ch: c, id: 1, ready: make(chan struct{}, 1), credit: window}
		c.open[1] = r
		if err := c.deliver(payload); err != nil && !errors.Is(err, errProtocol) {
			t.Errorf("deliver = %v", err)
		}
		if r.credit < 0 || r.credit > window || r.queued < 0 {
			t.Errorf("credit %d, queued %d", r.credit, r.queued)
		}
		u := &running{r: r}
		for _, it := range r.items {
			if it.event == nil {
				it.stream = streamAnswer
				_ = u.data(it) // an error ends the session
			}
		}
		_ = json.Valid(u.answer)
	})
}
