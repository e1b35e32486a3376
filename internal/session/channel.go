package session

import (
	"cmp"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"time"

	"haft"
)

// Bounds on the channel. The window is what the agent sends of one request before the
// host has read it.
const (
	window    = 1 << 20
	maxFrame  = 2 << 20
	maxQueued = 4 * window
	// maxEvent bounds a message, but for those that list files, and maxStray what may come
	// for requests that are over, besides what was on its way when they were broken off.
	maxEvent = 64 << 10
	maxList  = 512 << 10
	maxStray = 64 << 20
	// sendTime is how long the agent may take to read what it is sent.
	sendTime = 10 * time.Second
	maxItems = 1 << 14
	headSize = 4
	dataHead = 6
)

// The streams of a request.
const (
	streamIn     = 0
	streamOut    = 1
	streamErr    = 2
	streamAnswer = 3
)

// errProtocol is the cause of the end of a session whose agent broke the protocol.
var errProtocol = errors.New("the agent of the session broke the protocol")

// A message is what host and agent tell each other about a request.
type message struct {
	ID    uint32 `json:"id"`
	Op    string `json:"op,omitempty"`
	Event string `json:"event,omitempty"`

	// Of events.
	Code    json.RawMessage `json:"code,omitempty"`
	Message string          `json:"message,omitempty"`
	PID     int             `json:"pid,omitempty"`
	Size    int64           `json:"size,omitempty"`
	N       int64           `json:"n,omitempty"`
	Entries json.RawMessage `json:"entries,omitempty"` // a list
	Cut     bool            `json:"cut,omitempty"`
}

// An item is what a request got: data of a stream, or an event.
type item struct {
	size   int // of its frame
	stream byte
	data   []byte
	event  *message
}

// A channel is the host's end of the connection to an agent.
type channel struct {
	conn conn
	fail func(error) // called when nothing more comes; it ends the session

	writing sync.Mutex

	mu    sync.Mutex
	last  uint32
	open  map[uint32]*request
	stray int // bytes that came for no request, less what those that were broken off may still send
	err   error
}

// A request is one of those that are under way.
type request struct {
	ch    *channel
	id    uint32
	ready chan struct{} // has an element if there may be items
	paid  chan struct{} // has an element if there may be credit

	// Guarded by ch.mu.
	items   []item
	lists   bool // its answer lists files
	ignored bool // nothing that comes is of interest
	over    bool // the agent has said how it ended
	queued  int
	credit  int // bytes that may be sent to the agent
	refused error
	ended   error
}

// A conn is what a channel needs of the socket.
type conn interface {
	io.ReadWriter
	SetWriteDeadline(time.Time) error
}

// newChannel returns a channel on conn.
func newChannel(conn conn, fail func(error)) *channel {
	return &channel{conn: conn, fail: fail, open: map[uint32]*request{}}
}

// send sends one frame.
func (c *channel) send(payload []byte) error {
	c.writing.Lock()
	defer c.writing.Unlock()
	b := binary.BigEndian.AppendUint32(make([]byte, 0, headSize+len(payload)), uint32(len(payload)))
	err := c.conn.SetWriteDeadline(time.Now().Add(sendTime))
	if err == nil {
		_, err = c.conn.Write(append(b, payload...))
	}
	if err != nil {
		c.fail(fmt.Errorf("write to the session: %w", err)) // a frame may be there in part
		return fmt.Errorf("write to the session: %w", err)
	}
	return nil
}

// start makes a request. Fields are the members of the message besides id and op.
func (c *channel) start(op string, fields map[string]any) (*request, error) {
	r := &request{ch: c, ready: make(chan struct{}, 1), paid: make(chan struct{}, 1), credit: window,
		lists: op == "list" || op == "stat"}
	c.mu.Lock()
	if c.err != nil {
		defer c.mu.Unlock()
		return nil, c.err
	}
	c.last++
	r.id = c.last
	c.open[r.id] = r
	c.mu.Unlock()
	if err := r.control(op, fields); err != nil {
		r.close()
		return nil, err
	}
	return r, nil
}

// control sends a message about the request.
func (r *request) control(op string, fields map[string]any) error {
	m := map[string]any{"id": r.id, "op": op}
	for k, v := range fields {
		m[k] = v
	}
	b, err := json.Marshal(m)
	if err != nil {
		return fmt.Errorf("encode a request to the session: %w", err)
	}
	return r.ch.send(b)
}

// close forgets the request. What still comes for it is dropped: as much as may wait to be read
// is no fault of the agent, which did not know.
func (r *request) close() {
	r.ch.mu.Lock()
	defer r.ch.mu.Unlock()
	if r.ch.open[r.id] == r && !r.over {
		r.ch.stray -= maxQueued + maxAnswer
	}
	delete(r.ch.open, r.id)
}

// next returns what came next. It lets the agent send more in its place.
func (r *request) next(ctx context.Context) (item, error) {
	for {
		if ctx.Err() != nil {
			return item{}, context.Cause(ctx)
		}
		r.ch.mu.Lock()
		if len(r.items) > 0 {
			it := r.items[0]
			r.items = r.items[1:]
			r.queued -= it.size
			r.ch.mu.Unlock()
			if n := len(it.data); n > 0 && it.stream != streamAnswer {
				if err := r.control("read_by", map[string]any{"n": n}); err != nil {
					return item{}, err
				}
			}
			return it, nil
		}
		err := r.ended
		r.ch.mu.Unlock()
		if err != nil {
			return item{}, err
		}
		select {
		case <-r.ready:
		case <-ctx.Done():
			return item{}, context.Cause(ctx)
		}
	}
}

// write sends data to the request, as fast as it is read there. One that was refused reads nothing.
func (r *request) write(ctx context.Context, data []byte) error {
	for len(data) > 0 {
		r.ch.mu.Lock()
		n, err := min(r.credit, len(data), window/4), cmp.Or(r.ended, r.refused)
		r.credit -= n
		r.ch.mu.Unlock()
		switch {
		case err != nil:
			return err
		case n <= 0:
			select {
			case <-r.paid:
			case <-ctx.Done():
				return context.Cause(ctx)
			}
			continue
		}
		b := binary.BigEndian.AppendUint32([]byte{0}, r.id)
		if err := r.ch.send(append(append(b, streamIn), data[:n]...)); err != nil {
			return err
		}
		data = data[n:]
	}
	return nil
}

// wake tells who waits for the request.
func (r *request) wake() {
	for _, c := range []chan struct{}{r.ready, r.paid} {
		select {
		case c <- struct{}{}:
		default:
		}
	}
}

// serve reads from the agent until that ends or breaks the protocol. The session learns of it before the requests do,
// so that these can say why it has ended.
func (c *channel) serve() {
	c.fail(c.read())
	c.mu.Lock()
	c.err = ended("it has ended")
	for _, r := range c.open {
		r.ended = c.err
		r.wake()
	}
	c.mu.Unlock()
}

// ended is the error of a session that is no more.
func ended(why string) error {
	return &haft.Error{Code: haft.CodeNotFound, Message: "the session is gone: " + why +
		"; what it held in memory and files is lost"}
}

// read delivers frames.
func (c *channel) read() error {
	var head [headSize]byte
	for {
		if _, err := io.ReadFull(c.conn, head[:]); err != nil {
			return fmt.Errorf("read from the session: %w", err)
		}
		n := binary.BigEndian.Uint32(head[:])
		if n == 0 || n > maxFrame {
			return fmt.Errorf("%w: a frame of %d bytes", errProtocol, n)
		}
		payload := make([]byte, n)
		if _, err := io.ReadFull(c.conn, payload); err != nil {
			return fmt.Errorf("read from the session: %w", err)
		}
		if err := c.deliver(payload); err != nil {
			return err
		}
	}
}

// deliver gives a frame to its request.
func (c *channel) deliver(payload []byte) error {
	var it item
	var id uint32
	if payload[0] == 0 {
		if len(payload) < dataHead {
			return fmt.Errorf("%w: data without an id", errProtocol)
		}
		id = binary.BigEndian.Uint32(payload[1:])
		it = item{stream: payload[dataHead-1], data: payload[dataHead:]}
	} else {
		if len(payload) > maxList {
			return fmt.Errorf("%w: a message of %d bytes", errProtocol, len(payload))
		}
		m := &message{}
		if err := json.Unmarshal(payload, m); err != nil {
			return fmt.Errorf("%w: a message that is not JSON", errProtocol)
		}
		id, it.event = m.ID, m
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	r := c.open[id]
	if r == nil || r.ignored {
		if c.stray += len(payload); c.stray > maxStray {
			return fmt.Errorf("%w: data that nobody asked for", errProtocol)
		}
		return nil
	}
	if it.event != nil && len(payload) > maxEvent && !r.lists {
		return fmt.Errorf("%w: a message of %d bytes", errProtocol, len(payload))
	}
	if it.event != nil && it.event.Event == "read" {
		if it.event.N < 0 || it.event.N > int64(window-r.credit) {
			return fmt.Errorf("%w: more was read than was sent", errProtocol)
		}
		r.credit += int(it.event.N)
		r.wake()
		return nil
	}
	if it.event != nil && slices.Contains([]string{"done", "exited", "ran", "refused"}, it.event.Event) {
		r.over = true
		if it.event.Event == "refused" {
			r.refused = refusal(it.event)
		}
	}
	it.size = len(payload)
	r.queued += it.size
	if r.items = append(r.items, it); r.queued > maxQueued+maxAnswer || len(r.items) > maxItems {
		return fmt.Errorf("%w: more data than it may send", errProtocol)
	}
	r.wake()
	return nil
}

// await waits for one of the events, and drops data. A refusal is an error.
func (r *request) await(ctx context.Context, events ...string) (*message, error) {
	for {
		it, err := r.next(ctx)
		if err != nil {
			return nil, err
		}
		if it.event == nil {
			continue
		}
		if it.event.Event == "refused" {
			return nil, refusal(it.event)
		}
		for _, e := range events {
			if it.event.Event == e {
				return it.event, nil
			}
		}
	}
}

// refusal is what the agent says that cannot be done.
func refusal(m *message) error {
	var kind string
	_ = json.Unmarshal(m.Code, &kind) // what is no text is of no known kind
	code := map[string]haft.Code{"not_found": haft.CodeNotFound, "conflict": haft.CodeConflict,
		"denied": haft.CodeDenied}[kind]
	if code == "" {
		code = haft.CodeInvalid
	}
	return &haft.Error{Code: code, Message: clip(m.Message, 1<<10)}
}

// clip returns text without what is beyond n bytes.
func clip(s string, n int) string {
	if len(s) > n {
		return s[:n] + "…"
	}
	return s
}

// ignore drops what comes for the request from now on.
func (r *request) ignore() {
	r.ch.mu.Lock()
	defer r.ch.mu.Unlock()
	r.ignored, r.items = true, nil
}
