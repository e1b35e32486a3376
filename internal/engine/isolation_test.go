package engine_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"haft"
	"haft/executor"
	"haft/internal/engine"
	"haft/internal/limit"
)

// A crowd calls at once. Every user has a word of their own in arguments and
// environment, and sees no other's in results, output, errors, events and
// records.
func TestIsolation_of_a_crowd(t *testing.T) {
	orgs, users, calls := 10, 20, 5
	if n, err := strconv.Atoi(os.Getenv("HAFT_SOAK_ORGS")); err == nil {
		orgs, calls = n, 20 // 50 are a thousand users
	}
	w := setup(t, allowAll, engine.Config{Limits: limit.Config{Queue: 1000}})
	for o := range orgs {
		w.tool(orgName(o), "whoami", nil)
	}
	w.script.set(func(_ context.Context, r executor.Request) (*haft.Result, error) {
		if r.Env["WHO"] != r.Principal.Org+"/"+r.Principal.User {
			return nil, fmt.Errorf("%s has the environment of %s", r.Principal.User, r.Env["WHO"])
		}
		r.Stdout([]byte("I am " + word(r.Principal)))
		if strings.Contains(string(r.Args), `"x":3,`) {
			res := failing(r, haft.StatusError, haft.FailException)
			res.Error.Message = "no luck for " + word(r.Principal)
			return res, nil
		}
		return ok(r, `{"me":"`+word(r.Principal)+`","args":`+string(r.Args)+`}`), nil
	})
	var wg sync.WaitGroup
	for o := range orgs {
		for u := range users {
			p := user(orgName(o), fmt.Sprintf("user-%d", u))
			ready := make(chan struct{})
			wg.Go(func() { watchOwn(t, w, p, calls, ready) })
			wg.Go(func() { <-ready; callOwn(t, w, p, calls) })
		}
	}
	wg.Wait()
	for o := range 3 {
		p := user(orgName(o), "user-0")
		n := 0
		for r, err := range w.Records(t.Context(), p, haft.CallFilter{Limit: 1000}) {
			if err != nil {
				t.Fatal(err)
			}
			if r.Call.Principal.User != p.User || r.Call.Principal.Org != p.Org {
				t.Errorf("%s sees a call of %s", p.User, r.Call.Principal.User)
			}
			n++
		}
		if n != calls {
			t.Errorf("%s sees %d calls, want %d", p.User, n, calls)
		}
	}
	if n := w.script.count(); n != orgs*users*calls {
		t.Errorf("%d runs, want %d", n, orgs*users*calls)
	}
}

func orgName(i int) string { return fmt.Sprintf("org-%d", i) }

// word is what only p may see.
func word(p haft.Principal) string { return "<" + p.Org + "/" + p.User + ">" }

// foreign returns a word of somebody else in text.
func foreign(text string, p haft.Principal) string {
	text = strings.ReplaceAll(strings.ReplaceAll(text, `\u003c`, "<"), `\u003e`, ">")
	for {
		i := strings.Index(text, "<org-")
		if i < 0 {
			return ""
		}
		text = text[i:]
		if !strings.HasPrefix(text, word(p)) {
			return text[:min(len(text), 40)]
		}
		text = text[1:]
	}
}

// watchOwn watches the events of p until all of its calls have ended.
func watchOwn(t *testing.T, w *world, p haft.Principal, calls int, ready chan<- struct{}) {
	ctx, cancel := context.WithTimeout(t.Context(), 4*time.Minute)
	defer cancel()
	seqs := map[haft.CallID]int64{}
	ended := 0
	close(ready)
	for e, err := range w.Watch(ctx, p, haft.EventFilter{}, 0) {
		if err != nil {
			t.Errorf("%s: watch: %v", p.User, err)
			return
		}
		if e.Principal.Org != p.Org || e.Principal.User != p.User {
			t.Errorf("%s got an event of %s/%s", p.User, e.Principal.Org, e.Principal.User)
		}
		if f := foreign(string(e.Data), p); f != "" {
			t.Errorf("%s got an event with %s", p.User, f)
		}
		if seqs[e.Call]++; e.Seq != seqs[e.Call] {
			t.Errorf("%s: event %d of a call has seq %d", p.User, seqs[e.Call], e.Seq)
		}
		if e.Type == haft.EventCompleted {
			if ended++; ended == calls {
				return
			}
		}
	}
	t.Errorf("%s: %d of %d calls ended", p.User, ended, calls)
}

// callOwn makes the calls of p and looks at what comes back.
func callOwn(t *testing.T, w *world, p haft.Principal, calls int) {
	for i := range calls {
		res, err := w.Call(t.Context(), haft.Call{Tool: "whoami", Principal: p,
			Env:  map[string]string{"WHO": p.Org + "/" + p.User},
			Args: json.RawMessage(fmt.Sprintf(`{"x":%d,"path":%q}`, i, word(p)))})
		if err != nil {
			t.Errorf("%s: %v", p.User, err)
			return
		}
		raw, err := json.Marshal(res)
		if err != nil {
			t.Error(err)
		}
		if f := foreign(string(raw), p); f != "" {
			t.Errorf("%s got a result with %s", p.User, f)
		}
		if want := i != 3; (res.Status == haft.StatusSuccess) != want {
			t.Errorf("%s: call %d is %s: %+v", p.User, i, res.Status, res.Error)
		}
	}
}
