package rented

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"sync"
	"testing"
	"time"
)

// A rentedName is a machine of which only the name counts.
type rentedName string

// ID implements [Machine].
func (n rentedName) ID() string { return string(n) }

// Start implements [Machine].
func (rentedName) Start(context.Context, []string) (Process, error) {
	return nil, errors.ErrUnsupported
}

// Upload implements [Machine].
func (rentedName) Upload(context.Context, string, io.Reader) error { return errors.ErrUnsupported }

// Last implements [Machine].
func (rentedName) Last(context.Context, time.Duration) error { return nil }

// A rentals is a server of which each answer is a function of the test.
type rentals struct {
	list   func() []Info
	create func() string
	during func(what, id string) // is called in Reuse and End

	mu            sync.Mutex
	reused, ended []string
}

// Create implements [Renter].
func (r *rentals) Create(context.Context, Want) (Machine, error) { return rentedName(r.create()), nil }

// Reuse implements [Renter].
func (r *rentals) Reuse(_ context.Context, i Info) (Machine, error) {
	r.note(&r.reused, "reuse", i.ID)
	return rentedName(i.ID), nil
}

// List implements [Renter].
func (r *rentals) List(context.Context, string, string) ([]Info, error) { return r.list(), nil }

// End implements [Renter].
func (r *rentals) End(_ context.Context, id string) error { r.note(&r.ended, "end", id); return nil }

// note notes what is done with a machine.
func (r *rentals) note(list *[]string, what, id string) {
	r.mu.Lock()
	*list = append(*list, id)
	r.mu.Unlock()
	if r.during != nil {
		r.during(what, id)
	}
}

// poolOf returns a pool of a server.
func poolOf(r *rentals) *pool {
	return &pool{Renter: r, all: map[string]*machine{}, making: map[string]int{}, adopted: map[string]bool{},
		cfg: Config{Name: "X", Owner: "one", Idle: time.Hour, Max: 9, MaxOfTenant: 9,
			Logger: slog.New(slog.DiscardHandler)}}
}

// get acquires a machine, and returns its name.
func get(t *testing.T, p *pool) string {
	m, err := p.acquire(t.Context(), Want{State: "s"}, "acme")
	if err != nil {
		t.Error(err)
		return ""
	}
	return m.ID()
}

// A machine that another run is being given is listed by the server before it is known here: it is not taken over.
func TestAcquire_takes_over_no_machine_that_is_being_made(t *testing.T) {
	listing, made, hold := make(chan struct{}), make(chan struct{}), make(chan struct{})
	names := make(chan string, 2)
	names <- "first"
	names <- "second"
	r := &rentals{}
	r.list = func() []Info { close(listing); <-made; return []Info{{ID: "first"}} }
	r.create = func() string {
		name := <-names
		if name == "first" {
			close(made)
			<-hold
		}
		return name
	}
	p, got := poolOf(r), make(chan string)
	go func() { got <- get(t, p) }()
	<-listing
	other := make(chan string)
	go func() { other <- get(t, p) }()
	mine := <-got
	close(hold)
	if theirs := <-other; mine != "second" || theirs != "first" || len(r.reused)+len(r.ended) != 0 {
		t.Errorf("the runs have %q and %q, reused %q, ended %q", mine, theirs, r.reused, r.ended)
	}
}

// An attached machine has a connection.
type attached struct {
	rentedName
	detached int
}

// Detach closes it.
func (a *attached) Detach() error { a.detached++; return nil }

// The connection to a machine is given back when the machine ends.
func TestEnd_gives_the_connection_back(t *testing.T) {
	p, a := poolOf(&rentals{}), &attached{rentedName: "x"}
	p.all["x"] = &machine{Machine: a}
	if p.end(t.Context(), "x"); a.detached != 1 || len(p.all) != 0 {
		t.Errorf("detached %d times, kept %v", a.detached, p.all)
	}
}

// What is taken over is not ended at the same time, and what is ended is not taken over.
func TestReap_and_acquire_share_no_machine(t *testing.T) {
	reap := func(p *pool) {
		if err := p.reap(t.Context(), time.Now()); err != nil {
			t.Error(err)
		}
	}
	for first, c := range map[string]struct {
		then func(p *pool)
		want string
	}{
		"reuse": {reap, "left"},
		"end":   {func(p *pool) { _ = get(t, p) }, "new"},
	} {
		r := &rentals{list: func() []Info { return []Info{{ID: "left"}} }, create: func() string { return "new" }}
		p := poolOf(r)
		r.during = func(what, _ string) {
			if what == first {
				c.then(p)
			}
		}
		if first == "reuse" {
			if name := get(t, p); name != c.want {
				t.Errorf("the run has %q", name)
			}
		} else {
			reap(p)
		}
		if len(r.reused)+len(r.ended) != 1 || p.all[c.want] == nil || len(p.all) != 1 {
			t.Errorf("%s first: reused %q, ended %q, kept %v", first, r.reused, r.ended, p.all)
		}
	}
}
