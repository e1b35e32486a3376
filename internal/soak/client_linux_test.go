package soak

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"
)

// patience is how long a client waits for an answer.
const patience = 20 * time.Second

var httpClient = &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 64, IdleConnTimeout: 5 * time.Second}}

// do sends one request and returns the answer with its body.
func do(ctx context.Context, n *node, who tenant, method, path, kind, body string) (*http.Response, []byte, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, n.base()+path, strings.NewReader(body))
	if err != nil {
		return nil, nil, err
	}
	req.Header.Set("Authorization", "Bearer "+who.key)
	if body != "" {
		req.Header.Set("Content-Type", kind)
	}
	res, err := httpClient.Do(req)
	if err != nil {
		return nil, nil, err
	}
	defer res.Body.Close()
	raw, err := io.ReadAll(res.Body)
	return res, raw, err
}

// put sets something up, which must work.
func (w *world) put(who tenant, path, kind, body string) {
	w.t.Helper()
	res, raw, err := do(w.ctx, w.nodes[0], who, http.MethodPut, path, kind, body)
	if err != nil || res.StatusCode >= 300 {
		w.t.Fatalf("PUT %s: %v\n%s", path, err, raw)
	}
}

// get reads a JSON document.
func get(ctx context.Context, n *node, who tenant, path string, to any) error {
	res, raw, err := do(ctx, n, who, http.MethodGet, path, "", "")
	if err != nil {
		return err
	}
	if res.StatusCode != http.StatusOK {
		return fmt.Errorf("GET %s: %s", path, res.Status)
	}
	return json.Unmarshal(raw, to)
}

// send makes one request of r and notes it with its answer.
func (w *world) send(n *node, who tenant, r Request, path, body string) Request {
	r.Tenant, r.Server, r.Sent = who.org, n.name, time.Now()
	res, raw, err := do(w.ctx, n, who, http.MethodPost, path, "application/json", body)
	r.Answered = time.Now()
	if err == nil {
		var answer struct{ ID, Status string }
		_ = json.Unmarshal(raw, &answer) // a refusal has neither
		r.Code, r.RetryAfter, r.ID, r.Status = res.StatusCode, res.Header.Get("Retry-After"), answer.ID, answer.Status
		if r.Code >= 300 {
			r.ID, r.Status = "", ""
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.history.Requests = append(w.history.Requests, r)
	return r
}

// answered counts the requests that were made.
func (w *world) answered() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.history.Requests)
}

// call asks for one call: one in the background, or one that is waited for.
func (w *world) call(n *node, who tenant, kind, key string, hold bool) Request {
	body := fmt.Sprintf(`{"tool": "fx__once", "args": {"key": %q, "hold": %v}, "wait": %v}`, key, hold,
		kind == KindCall)
	return w.send(n, who, Request{Kind: kind, Key: key}, "/v1/calls", body)
}

// chain asks for a chain of three steps in the background, each of which goes on
// whatever became of the one before.
func (w *world) chain(n *node, who tenant, key string) Request {
	r := Request{Kind: KindChain, Key: key}
	var steps []string
	after := ""
	for _, id := range []string{"a", "b", "c"} {
		name := key + "/" + id
		r.Steps = append(r.Steps, name)
		steps = append(steps, fmt.Sprintf(`{"id": %q, "tool": "fx__once", "after": [%s], "on_error": "continue",
			"args": {"key": %q, "hold": true}}`, id, after, name))
		after = strconv.Quote(id)
	}
	return w.send(n, who, r, "/v1/chains", `{"background": true, "steps": [`+strings.Join(steps, ",")+`]}`)
}

// crowd has count requests made, some at a time and of all tenants in turn.
func (w *world) crowd(count int, one func(i int, who tenant)) {
	var group sync.WaitGroup
	next := make(chan int)
	for range min(16, count) {
		group.Go(func() {
			for i := range next {
				one(i, w.tenants[i%len(w.tenants)])
			}
		})
	}
	for i := range count {
		next <- i
	}
	close(next)
	group.Wait()
}

// submit has calls accepted by a server in the background.
func (w *world) submit(n *node, name string, count int, hold bool) {
	w.crowd(count, func(i int, who tenant) { w.call(n, who, KindSubmit, fmt.Sprintf("%s-%d", name, i), hold) })
}

// record is as much of a record as is looked at.
type record struct {
	Call struct {
		ID    string    `json:"id"`
		Chain string    `json:"chain"`
		Args  arguments `json:"args"`
	} `json:"call"`
	Status string          `json:"status"`
	Result json.RawMessage `json:"result"`
}

// sweep looks at every call and every open chain at one server.
func (w *world) sweep(n *node) error {
	for _, who := range w.tenants {
		cursor := ""
		for more := true; more; more = cursor != "" {
			var page struct {
				Data []record `json:"data"`
				Next string   `json:"next_cursor"`
			}
			from := time.Now()
			path := "/v1/calls?limit=1000&sort=created&cursor=" + url.QueryEscape(cursor)
			if err := get(w.ctx, n, who, path, &page); err != nil {
				return err
			}
			to := time.Now()
			for _, r := range page.Data {
				w.see(Sighting{From: from, To: to, Tenant: who.org, Server: n.name, Chain: r.Call.Chain, ID: r.Call.ID,
					Key: r.Call.Args.Key, Status: r.Status, Digest: digest(r.Result)})
			}
			cursor = page.Next
		}
	}
	return w.sweepChains(n)
}

// sweepChains looks at every chain that was accepted.
func (w *world) sweepChains(n *node) error {
	w.mu.Lock()
	var chains []Request
	for _, r := range w.history.Requests {
		if r.Kind == KindChain && r.ID != "" {
			chains = append(chains, r)
		}
	}
	w.mu.Unlock()
	for _, r := range chains {
		if err := w.sweepChain(n, r); err != nil {
			return err
		}
	}
	return nil
}

// sweepChain looks at one chain.
func (w *world) sweepChain(n *node, r Request) error {
	var c struct {
		Status string `json:"status"`
		Steps  []struct {
			State string `json:"state"`
		} `json:"steps"`
	}
	s := Sighting{From: time.Now(), Tenant: r.Tenant, Server: n.name, Chain: r.ID}
	if err := get(w.ctx, n, w.owner(r.Tenant), "/v1/chains/"+r.ID, &c); err != nil {
		return err
	}
	s.To, s.Status = time.Now(), c.Status
	for _, step := range c.Steps {
		if step.State != "done" && step.State != "skipped" {
			s.Undone++
		}
	}
	w.see(s)
	return nil
}

func (w *world) owner(org string) tenant {
	for _, who := range w.tenants {
		if who.org == org {
			return who
		}
	}
	return tenant{}
}

// see notes a sighting if it differs from the one before.
func (w *world) see(s Sighting) {
	w.mu.Lock()
	defer w.mu.Unlock()
	at := s.Server + s.ID + s.Chain
	if old, ok := w.latest[at]; ok && old.Status == s.Status && old.Digest == s.Digest && old.Undone == s.Undone {
		return
	}
	w.latest[at] = s
	w.history.Sightings = append(w.history.Sightings, s)
}

// digest is of a result in a form in which order and spaces do not count.
func digest(raw json.RawMessage) string {
	if len(raw) == 0 {
		return ""
	}
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		return "not JSON"
	}
	canonical, err := json.Marshal(v) // sorts the keys
	if err != nil {
		return "not JSON"
	}
	sum := sha256.Sum256(canonical)
	return hex.EncodeToString(sum[:8])
}

// observe looks at every server again and again until everything has ended, and
// reports whether it did in time. It spends a quarter of the time on looking.
func (w *world) observe(most time.Duration) bool {
	var next time.Time
	return until(w.ctx, most, func() bool {
		began := time.Now()
		if began.Before(next) {
			return false
		}
		done := w.open() == 0
		for _, n := range w.nodes {
			if err := w.sweep(n); err != nil {
				w.t.Logf("list the calls at %s: %v", n.name, err)
			}
		}
		next = time.Now().Add(3 * time.Since(began))
		return done
	})
}

// open counts the tenants and chains with something open, at the first server that
// answers. Whatever cannot be asked counts as open.
func (w *world) open() int {
	count := 0
	n := w.nodes[len(w.nodes)-1]
	for _, who := range w.tenants {
		var page struct {
			Data []record `json:"data"`
		}
		err := get(w.ctx, n, who, "/v1/calls?limit=1&status=queued,running,pending_approval", &page)
		if err != nil || len(page.Data) > 0 {
			count++
		}
	}
	if count > 0 {
		return count
	}
	w.mu.Lock()
	var chains []Request
	for _, r := range w.history.Requests {
		if r.Kind == KindChain && r.ID != "" && !Final(w.latest[n.name+r.ID].Status) {
			chains = append(chains, r)
		}
	}
	w.mu.Unlock()
	for _, r := range chains {
		if err := w.sweepChain(n, r); err != nil {
			return count + 1
		}
		w.mu.Lock()
		if !Final(w.latest[n.name+r.ID].Status) {
			count++
		}
		w.mu.Unlock()
		if count > 0 {
			return count // the others can wait
		}
	}
	return count
}
