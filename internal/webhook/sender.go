package webhook

import (
	"cmp"
	"context"
	"errors"
	"iter"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"haft"
	"haft/internal/event"
	"haft/internal/store"
)

// Config says how events are sent. Client, Manage, May and Cursor are needed;
// the zero value of the rest is good.
type Config struct {
	// Client reaches receivers. It must not follow redirects.
	Client *http.Client
	// Manage does something for a principal that may do an action, and writes it to the audit.
	// May reports why a principal may not.
	Manage func(ctx context.Context, p haft.Principal, a haft.Action, kind string,
		do func(context.Context) (any, error)) error
	May func(p haft.Principal, a haft.Action) error
	// Cursor returns that of the last event of all, from which new webhooks go on.
	Cursor func(ctx context.Context) (int64, error)
	// Watch yields events of this process as they happen. Nil means that the log is read every
	// Poll.
	Watch func(ctx context.Context, f event.Filter, after int64) iter.Seq2[haft.Event, error]
	// Seal and Open encrypt and decrypt the secrets of webhooks at rest, with a
	// label. Nil keeps them as they are.
	Seal, Open func(text, label []byte) ([]byte, error)
	// Owner names this process; empty makes a name up.
	Owner string
	// Idle keeps webhooks and sends nothing by itself.
	Idle bool
	// Insecure allows addresses without TLS.
	Insecure bool

	// Poll is how often the store is read for events that Watch did not yield; 0 means 2
	// seconds.
	Poll time.Duration
	// Timeout bounds one try; 0 means 10 seconds.
	Timeout time.Duration
	// Retry says how often and when an event is sent again; the zero value means 10
	// tries, up to 5 seconds apart at first and up to ten minutes at last.
	Retry haft.Backoff
	// DisableAfter is for how long a webhook may fail before it is disabled; 0 means
	// 24 hours.
	DisableAfter time.Duration
	// Sending is how many tries there are at once; 0 means 1,024. A quarter as many
	// more are for webhooks that fail. PerHook is how many of one webhook; 0 means
	// 4. So it takes hundreds of receivers that hang to delay others, and them only
	// until the first time-out.
	Sending, PerHook int
	// Lease is for how long a webhook is this process's where others share its
	// store; 0 means 30 seconds.
	Lease time.Duration
	// Logger gets the errors that an operator can act on. Nil discards.
	Logger *slog.Logger
}

// filled returns the configuration with its defaults.
func (c Config) filled() Config {
	if c.Retry == (haft.Backoff{}) {
		c.Retry = haft.Backoff{Tries: haft.MaxTries, Strategy: haft.Jitter, Initial: haft.Millis(5 * time.Second),
			Max: haft.Millis(10 * time.Minute)}
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	c.Owner = cmp.Or(c.Owner, newID("n_"))
	c.Poll = cmp.Or(c.Poll, 2*time.Second)
	c.Timeout = cmp.Or(c.Timeout, 10*time.Second)
	c.DisableAfter = cmp.Or(c.DisableAfter, 24*time.Hour)
	c.Sending = cmp.Or(c.Sending, 1024)
	c.PerHook = cmp.Or(c.PerHook, 4)
	c.Lease = cmp.Or(c.Lease, 30*time.Second)
	return c
}

// A Sender implements [haft.Webhooks], and sends. It is safe for concurrent use.
//
// Lifecycle: Open, then anything, then Close.
type Sender struct {
	store   *store.Store
	cfg     Config
	well    chan struct{} // tries of webhooks that work
	failing chan struct{} // tries of those that do not
	changed chan struct{} // holds a token if webhooks were changed here

	stop context.CancelFunc
	done sync.WaitGroup
}

var _ haft.Webhooks = (*Sender)(nil)

// Open begins to send. What was not sent by the last process is sent now.
func Open(ctx context.Context, s *store.Store, cfg Config) (*Sender, error) {
	if s == nil || cfg.Client == nil || cfg.Manage == nil || cfg.May == nil || cfg.Cursor == nil {
		return nil, errors.New("a notifier needs a store, a client, who manages, and a cursor")
	}
	cfg = cfg.filled()
	if !s.Shared() {
		cfg.Owner = "here" // there can be no other process, so that no lease of a dead one has to expire
	}
	n := &Sender{
		store: s, cfg: cfg, changed: make(chan struct{}, 1),
		well: make(chan struct{}, cfg.Sending), failing: make(chan struct{}, max(1, cfg.Sending/4)),
	}
	ctx, n.stop = context.WithCancel(context.WithoutCancel(ctx))
	if !cfg.Idle {
		n.done.Go(func() { n.supervise(ctx) })
	}
	return n, nil
}

// Close stops sending and waits for what is being sent.
func (n *Sender) Close() error {
	n.stop()
	n.done.Wait()
	return nil
}

// nudge has the webhooks looked at again.
func (n *Sender) nudge() {
	select {
	case n.changed <- struct{}{}:
	default:
	}
}

// A subscriber is what sends for one webhook.
type subscriber struct {
	revision string
	stop     context.CancelFunc
	gone     chan struct{}
}

// supervise has a subscriber for each webhook that is enabled.
func (n *Sender) supervise(ctx context.Context) {
	running := map[haft.WebhookID]*subscriber{}
	defer func() {
		for _, c := range running {
			c.stop()
			<-c.gone
		}
	}()
	tick := time.NewTicker(n.cfg.Poll)
	defer tick.Stop()
	for {
		if err := n.adjust(ctx, running); err != nil && ctx.Err() == nil {
			n.cfg.Logger.Error("webhooks cannot be read, and those that are new or changed are not sent to", "error",
				err)
		}
		select {
		case <-tick.C:
		case <-n.changed:
		case <-ctx.Done():
			return
		}
	}
}

// adjust starts and stops subscribers until they are those of the webhooks.
func (n *Sender) adjust(ctx context.Context, running map[haft.WebhookID]*subscriber) error {
	active := map[haft.WebhookID]store.Subscription{}
	for after := haft.WebhookID(""); ; {
		list, err := n.store.Webhooks.ActiveWebhooks(ctx, after, store.MaxPage)
		if err != nil {
			return err
		}
		for _, w := range list {
			active[w.ID], after = w, w.ID
		}
		if len(list) < store.MaxPage {
			break
		}
	}
	for id, c := range running {
		ended := false
		select {
		case <-c.gone:
			ended = true
		default:
		}
		if w, ok := active[id]; !ok || ended || w.Revision() != c.revision {
			c.stop()
			<-c.gone
			delete(running, id)
		}
	}
	for id, w := range active {
		if running[id] != nil {
			continue
		}
		ctx, stop := context.WithCancel(ctx)
		c := &subscriber{w.Revision(), stop, make(chan struct{})}
		running[id] = c
		n.done.Go(func() {
			defer close(c.gone)
			n.carry(ctx, w)
		})
	}
	return nil
}
