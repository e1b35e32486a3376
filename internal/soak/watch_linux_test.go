package soak

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"time"
)

// A watcher reads the events of a tenant, and comes back with its cursor, to the
// next server, whenever a stream breaks.
type watcher struct {
	mu   sync.Mutex
	seen []Event
}

func (w *world) startWatcher(who tenant) *watcher {
	r := &watcher{}
	var group sync.WaitGroup
	ctx, cancel := context.WithCancel(w.ctx)
	group.Go(func() {
		last := "0"
		for i := 0; ctx.Err() == nil; i++ {
			// Longer than the heartbeat of a stream: a server that hangs is left.
			_ = read(ctx, w.nodes[i%len(w.nodes)], who, &last, 20*time.Second, r.note) // it always ends with an error
			until(ctx, 200*time.Millisecond, func() bool { return false })
		}
	})
	w.t.Cleanup(func() { cancel(); group.Wait() })
	return r
}

func (r *watcher) note(e Event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.seen = append(r.seen, e)
}

func (r *watcher) events() []Event {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]Event(nil), r.seen...)
}

// catchUp waits until the watcher has so many events, for longer than a stream may be
// silent before the watcher leaves it.
func (r *watcher) catchUp(ctx context.Context, count int) {
	until(ctx, 25*time.Second, func() bool { return len(r.events()) >= count })
}

// streams returns what was read of the events of each tenant.
func (w *world) streams() []Stream {
	all := make([]Stream, len(w.tenants))
	var group sync.WaitGroup
	for i, who := range w.tenants {
		group.Go(func() {
			replay := w.replay(who)
			w.watch[i].catchUp(w.ctx, len(replay))
			all[i] = Stream{who.org, w.watch[i].events(), replay}
		})
	}
	group.Wait()
	return all
}

// replay reads the kept events from the beginning until no more come. If some are
// missing then, it reads again and waits longer, since the machine may be slow.
func (w *world) replay(who tenant) []Event {
	want := 0
	w.mu.Lock()
	for _, s := range w.latest {
		if s.ID != "" && s.Tenant == who.org && s.Server == w.nodes[0].name && Final(s.Status) {
			want++
		}
	}
	w.mu.Unlock()
	var all []Event
	for _, silence := range []time.Duration{time.Second, 4 * time.Second, 15 * time.Second} {
		all = nil
		last := "0"
		note := func(e Event) { all = append(all, e) }
		_ = read(w.ctx, w.nodes[len(w.nodes)-1], who, &last, silence, note) // it ends with silence
		if len(all) >= want {
			break
		}
	}
	return all
}

var errSilence = errors.New("the stream is silent")

// read reads one stream of terminal events until it breaks or is silent for a while.
func read(ctx context.Context, n *node, who tenant, last *string, silence time.Duration, note func(Event)) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	timer := time.AfterFunc(silence, func() { cancel(errSilence) })
	defer timer.Stop()
	address := n.base() + "/v1/events?type=tool_completed&after=" + *last
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return err
	}
	req.Header.Set("Authorization", "Bearer "+who.key)
	res, err := httpClient.Do(req)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		return fmt.Errorf("the stream was answered with %s", res.Status)
	}
	lines := bufio.NewScanner(res.Body)
	lines.Buffer(nil, 1<<24)
	id, data := "", ""
	for lines.Scan() {
		timer.Reset(silence)
		name, text, _ := strings.Cut(lines.Text(), ": ")
		switch name {
		case "id":
			id = text
		case "data":
			data = text
		case "":
			if lines.Text() != "" {
				continue // a comment
			}
			if err := event(data, note); err != nil {
				return err
			}
			if id != "" {
				*last = id // only now is the event whole
			}
			id, data = "", ""
		}
	}
	return lines.Err()
}

// event notes an event, or returns why the stream ends.
func event(data string, note func(Event)) error {
	if data == "" {
		return nil
	}
	var e struct {
		Type   string `json:"type"`
		Cursor int64  `json:"cursor"`
		ID     string `json:"call_id"`
		Data   struct {
			Status string `json:"status"`
		} `json:"data"`
	}
	if err := json.Unmarshal([]byte(data), &e); err != nil {
		return err
	}
	if e.Type == "error" {
		return errors.New("the server ends the stream")
	}
	note(Event{e.Cursor, e.ID, e.Data.Status})
	return nil
}
