package backend

import (
	"context"
	"errors"
	"net"
	"sync"
	"time"

	"haft"
	"haft/app"
	"haft/client"
	"haft/internal/localsocket"
	"haft/internal/pause"
)

// The times of a [Host].
const (
	// findEvery is how often a directory is looked at that another process has and does not serve.
	findEvery = 25 * time.Millisecond
	// serveAfter is when a short command begins to serve others: most end before.
	serveAfter = time.Second
	// yieldFor is how long a process leaves the directory to the one that asked for it.
	yieldFor = 2 * time.Second
	// endWait is how long requests of others may take to end when a process ends, and signalWait if a signal ends it.
	endWait, signalWait = 30 * time.Second, 10 * time.Second
	// noteAfter is when the person is shown what is waited for.
	noteAfter = time.Second
)

// A Host gives a command the system of a data directory. If another process serves the directory, that is asked. Else
// the system is opened in this process, which then serves it to others until it ends; the next one that has a request
// takes over. A request goes to one process only: the one that has accepted its connection.
type Host struct {
	// Dir is the data directory, and Open opens its system without waiting for a process that has it, see [app.InUse].
	Dir  string
	Open func(ctx context.Context) (*app.Service, error)
	// Wait is how long to wait for a process that has the directory and does not serve it.
	Wait time.Duration
	// Principal is on whose behalf requests are sent.
	Principal haft.Principal
	// Offer is what this process is for others: a command of a version, that runs tools without namespaces or agents.
	Offer localsocket.Welcome
	// NeedsReduced and NeedsAgents say what the command wants of the process that serves the directory. A process that
	// lacks it yields the directory, unless it is a server of its own.
	NeedsReduced, NeedsAgents bool
	// Lasting says that this process runs for long. It works on its own system as others do, so that it can yield.
	Lasting bool
	// Note shows a line to the person. It is safe for concurrent use.
	Note func(line string)

	mu     sync.Mutex
	here   *served   // nil while this process serves nobody
	ended  bool      // the command has
	resume time.Time // before it the directory is for the process that asked for it
}

// Find returns the system: a [*Local] for a command that is short and first, else a [*Remote].
func (h *Host) Find(ctx context.Context) (System, error) {
	until := time.Now().Add(h.Wait)
	for {
		w, err := h.probe(ctx, false)
		switch {
		case err == nil && w.Yields && h.lacks(w):
			_, err = h.probe(ctx, true)
		case err == nil:
			if h.NeedsReduced && !w.Reduced {
				h.Note("note: " + w.String() + " has the data directory and decides how tools are confined: start it " +
					"with --allow-reduced")
			}
			return h.remote(w)
		}
		if err != nil && !errors.Is(err, localsocket.ErrNotServed) {
			return nil, err
		}
		svc, err := h.Open(ctx)
		if err == nil {
			return h.first(ctx, svc)
		}
		if !app.InUse(err) || time.Now().After(until) {
			return nil, err
		}
		if err := pause.For(ctx, findEvery); err != nil {
			return nil, err
		}
	}
}

// first returns the system of the process that has the directory.
func (h *Host) first(ctx context.Context, svc *app.Service) (System, error) {
	if svc.Engine == nil { // opened to look at the audit log only
		return &Local{Service: svc}, nil
	}
	if h.Lasting {
		if err := h.serve(ctx, svc, true); err != nil {
			return nil, errors.Join(err, svc.Close())
		}
		return h.remote(localsocket.Welcome{})
	}
	timer := time.AfterFunc(serveAfter, func() {
		if err := h.serve(ctx, svc, false); err != nil && !errors.Is(err, errEnded) {
			h.Note("note: other commands have to wait for this one: " + err.Error())
		}
	})
	return &Local{Service: svc, leave: func(ctx context.Context) error {
		timer.Stop()
		return h.end(ctx)
	}}, nil
}

// AskToYield asks the process that serves a directory to leave it to this one, which is of a version and needs the
// directory for itself. It does not wait. A process that does not yield, or does not answer, is no error.
func AskToYield(ctx context.Context, dir, version string) error {
	who := haft.Principal{Org: "local"}
	_, err := (&Host{Dir: dir, Principal: who, Offer: localsocket.Welcome{Version: version}}).probe(ctx, true)
	if errors.Is(err, localsocket.ErrNotServed) {
		return nil
	}
	return err
}

// probe asks the process that serves the directory what it offers, or to yield it.
func (h *Host) probe(ctx context.Context, yield bool) (localsocket.Welcome, error) {
	conn, w, err := localsocket.Dial(ctx, h.Dir, localsocket.Hello{Version: h.Offer.Version, Principal: h.Principal,
		Yield: yield})
	if err != nil {
		return w, err
	}
	return w, conn.Close()
}

// lacks reports whether another process does not offer what this one needs.
func (h *Host) lacks(w localsocket.Welcome) bool {
	return h.NeedsReduced && !w.Reduced || h.NeedsAgents && !w.Agents
}

// remote returns the system of whichever process serves the directory, which is the one of w now.
func (h *Host) remote(w localsocket.Welcome) (System, error) {
	c, err := client.New(client.Config{URL: "http://localhost", Dial: h.dial, Name: "haft/" + h.Offer.Version})
	if err != nil {
		return nil, err
	}
	r := NewRemote(c)
	r.Served, r.leave = w, h.end
	return r, nil
}

// errLater says that the directory is for another process now.
var errLater = errors.New("the data directory is left to another process")

// dial connects to the process that serves the directory. If there is none, this process opens the system and serves
// it.
func (h *Host) dial(ctx context.Context) (net.Conn, error) {
	until := time.Now().Add(h.Wait)
	for {
		conn, _, err := localsocket.Dial(ctx, h.Dir, localsocket.Hello{Version: h.Offer.Version,
			Principal: h.Principal})
		if !errors.Is(err, localsocket.ErrNotServed) {
			return conn, err
		}
		err = h.takeOver(ctx)
		if err != nil && !errors.Is(err, errLater) && (!app.InUse(err) || time.Now().After(until)) {
			return nil, err
		}
		if err != nil {
			if err := pause.For(ctx, findEvery); err != nil {
				return nil, err
			}
		}
	}
}

// takeOver opens the system in this process and serves it.
func (h *Host) takeOver(ctx context.Context) error {
	h.mu.Lock()
	later := h.here != nil || time.Now().Before(h.resume)
	h.mu.Unlock()
	if later {
		return errLater
	}
	// The system outlives the request that needs it.
	ctx = context.WithoutCancel(ctx)
	svc, err := h.Open(ctx)
	if err != nil {
		return err
	}
	if err := h.serve(ctx, svc, true); err != nil {
		return errors.Join(err, svc.Close())
	}
	return nil
}
