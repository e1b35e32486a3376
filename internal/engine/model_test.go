package engine_test

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"

	"haft"
	"haft/executor"
	"haft/internal/engine"
	"haft/internal/event"
	"haft/internal/limit"
	"haft/internal/registry"
	"haft/internal/service"
	"haft/internal/store"
	"haft/internal/store/postgres"
	"haft/internal/store/storetest"
	"haft/policy"
)

// The model: two servers share a database, calls and chains are accepted, and servers are
// killed, paused, cut off and stopped in any order. Whatever happens, once all faults are
// gone:
//
//   - every accepted call and chain ends, and none as rate_limited or because the store was away;
//   - a tool that may not run twice runs at most once for a call, and a success means once;
//   - a step of a chain ends as its call does;
//   - calls of one idempotency key run at most once together;
//   - a record that was seen final never changes, and its end is told once.
//
// HAFT_MODEL sets how many histories are tried.

// A model is one history.
type model struct {
	t       *rapid.T
	tb      testing.TB
	url     string
	watch   *store.Store // reads past all faults
	servers [2]*modelServer

	calls sync.WaitGroup // of repeat

	mu       sync.Mutex
	runs     map[haft.CallID]int
	accepted map[haft.CallID]bool // true means that the tool is idempotent
	keyed    map[string]int       // runs by the arguments of calls with a key
	chains   []haft.ChainID
	finals   map[haft.CallID]string
	started  int
}

// A modelServer is a process of the model.
type modelServer struct {
	*api
	m      *model
	store  *store.Store
	faults *faults
	resume func() // nil if it is not paused

	mu   sync.Mutex
	dead bool
}

// Execute implements executor.Executor: the effect of a call is that it is counted. What
// is dead has no effects, and what is paused has them when it goes on.
func (s *modelServer) Execute(ctx context.Context, req executor.Request) (*haft.Result, error) {
	if err := s.faults.pass(); err != nil && s.isDead() {
		return nil, err
	}
	time.Sleep(25 * time.Millisecond) //nolint:forbidigo // or no two servers would ever have one call at once
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.dead {
		return nil, errors.New("it is dead")
	}
	s.m.mu.Lock()
	s.m.runs[req.Call]++
	if string(req.Args) != "{}" {
		s.m.keyed[string(req.Args)]++
	}
	s.m.mu.Unlock()
	return ok(req, `1`), nil
}

func (s *modelServer) isDead() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.dead
}

// open opens a server, or returns nil if the database cannot be reached.
func (m *model) open() *modelServer {
	s := &modelServer{m: m, faults: &faults{}}
	s.store = openFaulty(m.tb, m.url, s.faults)
	rules, err := policy.Compile([]byte(allowAll))
	if err != nil {
		m.t.Fatal(err)
	}
	s.api, err = openAPI(m.tb.Context(), engine.Parts{Store: s.store,
		Registry: registry.New(s.store, registry.Config{
			Review: func(context.Context, haft.Kind, string, bool) ([]haft.Finding, error) { return nil, nil },
		}), Executors: map[haft.Kind]executor.Executor{haft.KindPython: s}}, engine.Config{
		Policy: rules, Beat: 20 * time.Millisecond, DeadAfter: 200 * time.Millisecond, Backlog: 60,
		Limits: limit.Config{Running: 3, PerTenant: 2, Queue: 20},
	}, service.Config{})
	if haft.CodeOf(err) == haft.CodeUnavailable {
		_ = s.store.Close()
		return nil
	}
	if err != nil {
		m.t.Fatal(err)
	}
	return s
}

// start begins a process in a place.
func (m *model) start(i int) {
	s := m.open()
	for range 5 { // as whoever watches over a server does, if the database was slow
		if s != nil {
			break
		}
		s = m.open()
	}
	if s == nil {
		m.t.Fatal("a server does not start")
	}
	m.servers[i] = s
	if m.started++; m.started > 1 {
		return
	}
	for _, name := range []string{"once", "again", "asked"} {
		d := haft.Draft{Name: name, Kind: haft.KindPython, Function: name, Description: "A tool.",
			Source:     "def " + name + "(): pass",
			Parameters: json.RawMessage(`{"type":"object"}`)}
		d.Settings.Idempotent, d.Settings.RequiresApproval = name == "again", name == "asked"
		_, err := s.PutTool(m.tb.Context(), admin("o"), d)
		for try := 0; try < 5 && haft.CodeOf(err) == haft.CodeUnavailable; try++ { // the machine was slow
			_, err = s.PutTool(m.tb.Context(), admin("o"), d)
		}
		if err != nil {
			m.t.Fatal(err)
		}
	}
}

// stop ends the process in a place: as by kill -9, or in order.
func (m *model) stop(i int, kill bool) {
	s := m.servers[i]
	m.servers[i] = nil
	if kill {
		s.faults.set(true, 0)
		s.mu.Lock()
		s.dead = true
		s.mu.Unlock()
	}
	if s.resume != nil {
		s.resume()
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(m.tb.Context()), 50*time.Millisecond)
	defer cancel()
	if !kill {
		_ = s.Drain(ctx) // as long as it takes, or not
	}
	if err := errors.Join(s.Close(), s.store.Close()); err != nil && !kill && haft.CodeOf(err) != haft.CodeUnavailable {
		m.t.Errorf("stop: %v", err)
	}
}

// submit has calls accepted, in the background.
func (m *model) submit(s *modelServer, n int, tool string) {
	var wg sync.WaitGroup
	turns := make(chan struct{}, 32)
	for range n {
		wg.Go(func() {
			turns <- struct{}{}
			defer func() { <-turns }()
			ctx, cancel := context.WithTimeout(m.tb.Context(), 2*time.Second)
			defer cancel()
			rec, err := s.Submit(ctx, haft.Call{Tool: tool, Principal: user("o", "ann"), Args: json.RawMessage(`{}`)})
			if err != nil {
				if code := haft.CodeOf(err); code != haft.CodeRateLimited && code != haft.CodeUnavailable {
					m.t.Errorf("Submit: %v", err)
				}
				return
			}
			m.mu.Lock()
			m.accepted[rec.Call.ID] = tool == "again"
			m.mu.Unlock()
		})
	}
	wg.Wait()
}

// repeat makes a call with a key for which the caller does not wait long, again and again.
func (m *model) repeat(s *modelServer) {
	key := string(rune('0' + rapid.IntRange(0, 3).Draw(m.t, "key")))
	c := haft.Call{Tool: "once", Principal: user("o", "ann"), Args: json.RawMessage(`{"k":` + key + `}`),
		IdempotencyKey: key}
	async := rapid.Bool().Draw(m.t, "async")
	m.calls.Go(func() {
		ctx, cancel := context.WithTimeout(m.tb.Context(), 5*time.Second)
		defer cancel()
		if async {
			_, _ = s.Submit(ctx, c)
		} else {
			_, _ = s.Call(ctx, c)
		}
	})
}

// answer agrees to all that waits for a person.
func (m *model) answer(s *modelServer) {
	ctx, cancel := context.WithTimeout(m.tb.Context(), 2*time.Second)
	defer cancel()
	for a, err := range s.Approvals(ctx, approver("o"), haft.ApprovalFilter{}) {
		if err != nil {
			return
		}
		_, _ = s.Decide(ctx, approver("o"), a.ID, haft.Answer{Approve: true})
	}
}

// cancel cancels some calls, where it can.
func (m *model) cancel(s *modelServer) {
	m.mu.Lock()
	ids := slices.Sorted(maps.Keys(m.accepted))
	m.mu.Unlock()
	ctx, cancel := context.WithTimeout(m.tb.Context(), 2*time.Second)
	defer cancel()
	for _, id := range ids[max(0, len(ids)-3):] {
		_ = s.Cancel(ctx, user("o", "ann"), id)
	}
}

// chain has a chain of two steps accepted.
func (m *model) chain(s *modelServer) {
	ctx, cancel := context.WithTimeout(m.tb.Context(), 2*time.Second)
	defer cancel()
	c, err := s.Run(ctx, user("o", "ann"), haft.Plan{Background: true, Steps: []haft.Step{
		{ID: "a", Tool: "once", OnError: haft.OnErrorContinue},
		{ID: "b", Tool: rapid.SampledFrom([]string{"once", "asked"}).Draw(m.t, "tool"), After: []string{"a"},
			OnError: haft.OnErrorContinue}}})
	if err == nil {
		m.mu.Lock()
		m.chains = append(m.chains, c.ID)
		m.mu.Unlock()
	}
}

// Actions of a history.
func (m *model) step() {
	i := rapid.IntRange(0, 1).Draw(m.t, "server")
	s := m.servers[i]
	what := rapid.SampledFrom([]string{"submit", "submit", "burst", "chain", "chain", "kill", "stop", "pause", "resume",
		"cut", "heal", "lose", "wait",
		"repeat", "repeat", "ask", "answer", "cancel"}).Draw(m.t, "action")
	if s == nil {
		m.start(i)
		return
	}
	if s.resume != nil && what != "kill" {
		what = "resume" // who is paused does nothing else
	}
	switch what {
	case "submit":
		m.submit(s, 5, "once")
		m.submit(s, 3, "again")
	case "burst":
		for range 25 { // more than the queue of the limiter takes
			m.calls.Go(func() {
				ctx, cancel := context.WithTimeout(m.tb.Context(), time.Second)
				defer cancel()
				_, _ = s.Call(ctx, haft.Call{Tool: "again", Principal: user("o", "ann"), Args: json.RawMessage(`{}`)})
			})
		}
		m.submit(s, 60, "once")
	case "chain":
		m.chain(s)
	case "repeat":
		m.repeat(s)
	case "ask":
		m.submit(s, 3, "asked")
	case "answer":
		m.answer(s)
	case "cancel":
		m.cancel(s)
	case "kill":
		m.stop(i, true)
	case "stop":
		m.stop(i, false)
	case "pause":
		s.resume = s.faults.pause()
		m.rest(rapid.SampledFrom([]int{20, 300, 600}).Draw(m.t, "ms")) // not given up, just now, or a while ago
	case "resume":
		if s.resume != nil {
			s.resume()
			s.resume = nil
		}
	case "cut":
		s.faults.set(true, 0)
	case "heal":
		s.faults.set(false, 0)
	case "lose":
		s.faults.set(false, rapid.IntRange(1, 5).Draw(m.t, "commits"))
	case "wait":
		m.rest(50)
	}
}

// rest lets time pass, in which the servers go on.
func (m *model) rest(ms int) {
	time.Sleep(time.Duration(ms) * time.Millisecond) //nolint:forbidigo // it is part of the history
	m.look()
}

// look reads every record, and remembers those that are final.
func (m *model) look() (open int) {
	filter := haft.CallFilter{Org: "o", Limit: store.MaxPage}
	for {
		list, err := m.watch.Calls.Records(m.tb.Context(), filter)
		if err != nil {
			m.t.Fatal(err)
		}
		m.mu.Lock()
		for _, r := range list {
			filter.Before = r.Call.ID
			if !r.Status.Final() {
				open++
				continue
			}
			raw, err := json.Marshal(r)
			if err != nil {
				m.t.Fatal(err)
			}
			if before, ok := m.finals[r.Call.ID]; ok && before != string(raw) {
				m.t.Errorf("a final record has changed:\n%s\n%s", before, raw)
			}
			m.finals[r.Call.ID] = string(raw)
		}
		m.mu.Unlock()
		if len(list) < filter.Limit {
			return open
		}
	}
}

// settle ends all faults and waits until everything has ended.
func (m *model) settle() {
	for i, s := range m.servers {
		if s == nil {
			m.start(i)
			continue
		}
		if s.resume != nil {
			s.resume()
			s.resume = nil
		}
		s.faults.set(false, 0)
	}
	m.calls.Wait()
	for deadline := time.Now().Add(3 * time.Minute); ; {
		m.answer(m.servers[0])
		open := m.look()
		for _, id := range m.chains {
			c, err := m.watch.Chains.Chain(m.tb.Context(), "o", id)
			if err != nil {
				m.t.Fatal(err)
			}
			if !c.Status.Final() {
				open++
			}
		}
		if open == 0 {
			return
		}
		if time.Now().After(deadline) {
			m.t.Fatalf("%d calls and chains do not end", open)
		}
		m.rest(20)
	}
}

// check holds the end against the rules.
func (m *model) check() {
	for id, idempotent := range m.accepted {
		r, err := m.watch.Calls.Record(m.tb.Context(), "o", id)
		if err != nil {
			m.t.Errorf("an accepted call is gone: %v", err)
			continue
		}
		n := m.runs[id]
		switch {
		case r.Status == haft.StatusRate, r.Status == haft.StatusError: // no tool here fails by itself
			m.t.Errorf("an accepted call of %s ended as %s: %+v, approval %s", r.Call.Tool, r.Status, r.Result.Error,
				r.Result.Approval)
		case r.Status == haft.StatusSuccess && n == 0:
			m.t.Errorf("call %s is a success and never ran", id)
		case n > 1 && !idempotent:
			m.t.Errorf("call %s is %s and ran %d times", id, r.Status, n)
		}
	}
	for args, n := range m.keyed {
		if n > 1 {
			m.t.Errorf("calls of one key, with %s, ran %d times", args, n)
		}
	}
	m.checkEvents()
	for id, n := range m.runs { // steps of chains, and calls that were not acknowledged
		if idempotent, known := m.accepted[id]; !known && n > 1 {
			r, err := m.watch.Calls.Record(m.tb.Context(), "o", id)
			if err != nil || r.Call.Tool == "once" {
				m.t.Errorf("call %s, idempotent %v, ran %d times: %v", id, idempotent, n, err)
			}
		}
	}
	for _, id := range m.chains {
		calls, err := m.watch.Calls.Records(m.tb.Context(), haft.CallFilter{Org: "o", Chain: id, Limit: 100})
		ran := 0
		ends := map[haft.CallID]haft.Status{}
		for _, r := range calls {
			ends[r.Call.ID] = r.Status
			ran += m.runs[r.Call.ID]
			if r.Status == haft.StatusRate || r.Status == haft.StatusError &&
				!strings.Contains(r.Result.Error.Message, "the tool did not run") {
				m.t.Errorf("a step of a chain ended as %s: %+v", r.Status, r.Result.Error)
			}
		}
		if err != nil || ran > 2 {
			m.t.Errorf("the two steps of a chain ran %d times, %v", ran, err)
		}
		c, err := m.watch.Chains.Chain(m.tb.Context(), "o", id)
		if err != nil {
			m.t.Fatal(err)
		}
		for _, s := range c.Steps {
			if s.Result == nil || s.Result.Status != ends[s.Call] {
				m.t.Errorf("step %s of a chain ended as %+v, its call as %q", s.ID, s.Result, ends[s.Call])
			}
		}
	}
}

// checkEvents holds the events against the records: every end is told once.
func (m *model) checkEvents() {
	ends := map[haft.CallID]int{}
	for after := int64(0); ; {
		list, err := m.watch.Events.EventsAfter(m.tb.Context(), event.Filter{Org: "o"}, after, store.MaxPage)
		if err != nil {
			m.t.Fatal(err)
		}
		for _, e := range list {
			if after = e.Cursor; e.Type == haft.EventCompleted {
				ends[e.Call]++
			}
		}
		if len(list) == 0 {
			break
		}
	}
	for id := range m.finals {
		if ends[id] != 1 {
			m.t.Errorf("the end of call %s is told %d times", id, ends[id])
		}
	}
}

func TestModel_of_two_servers(t *testing.T) {
	histories := "8"
	if n := os.Getenv("HAFT_MODEL"); n != "" {
		histories = n
	}
	// Rapid would try a hundred, and a history takes a second.
	for name, value := range map[string]string{"rapid.checks": histories, "rapid.shrinktime": "15s"} {
		before := flag.Lookup(name).Value.String()
		check(t, flag.Set(name, value))
		t.Cleanup(func() { check(t, flag.Set(name, before)) })
	}
	rapid.Check(t, func(rt *rapid.T) {
		m := &model{t: rt, tb: t, url: storetest.Postgres(t), runs: map[haft.CallID]int{}, keyed: map[string]int{},
			accepted: map[haft.CallID]bool{}, finals: map[haft.CallID]string{}}
		var err error
		if m.watch, err = postgres.Open(t.Context(), m.url, postgres.Config{Conns: 2}); err != nil {
			rt.Fatal(err)
		}
		defer func() {
			for i, s := range m.servers {
				if s != nil {
					m.stop(i, true)
				}
			}
			check(t, m.watch.Close())
		}()
		m.start(0)
		m.start(1)
		for range rapid.IntRange(5, 25).Draw(rt, "steps") {
			m.step()
		}
		m.settle()
		m.check()
	})
}
