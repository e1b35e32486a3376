// Package embedding asks an endpoint for the vectors of passages and queries, so that searches find what means the same
// in other words.
//
// The passages of an agent are embedded in the background, when one is added and when the agent searches, a batch at a
// time and the newest first; a search waits for a batch, and for its own vector, no longer than a moment. If the
// endpoint fails, it is left alone for a while that grows, and searches are by words alone. Nothing is lost by that:
// which passages lack a vector is seen in the store.
package embedding

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"haft"
	"haft/internal/memorystore"
	"haft/internal/model"
	"haft/internal/pause"
)

// The bounds.
const (
	maxText    = 8_000 // bytes of a text that are embedded; shorter ones are tried if the model reads less
	minText    = 500
	maxAgents  = 1_000 // whose passages are being embedded
	maxOfOrg   = 100   // of them of one organisation, so that others have places
	maxOrgs    = 10_000
	maxRounds  = 1_000 // batches of one pass
	maxAsked   = 4     // batches at once
	maxTries   = 6     // of a batch; the next search or passage begins anew
	maxPause   = time.Minute
	batchTime  = 2 * time.Minute // for one answer: of a batch without a GPU it takes long
	searchTime = 3 * time.Second // that the vectors of a search may take
	firstPause = 5 * time.Second
)

// A Source makes vectors of length 1, see [model.Client.Embed].
type Source interface {
	Model() string
	Embed(ctx context.Context, org string, texts []string) ([][]float32, error)
}

// Config has what an index needs. All fields are required but the logger and the times.
type Config struct {
	Store  memorystore.Vectors
	Source Source
	// Redact returns what removes the secrets of an agent from texts that leave for the endpoint.
	Redact func(ctx context.Context, org string, agent haft.AgentID) (func(string) string, error)
	Logger *slog.Logger
	// SearchTime is how long a search waits, and FirstPause how long an endpoint is left alone that has failed once;
	// 0 means 3 and 5 seconds.
	SearchTime, FirstPause time.Duration
}

// An Index keeps the vectors of passages up to date. It is safe for concurrent use.
type Index struct {
	cfg   Config
	ctx   context.Context //nolint:containedctx // it ends with Close
	end   context.CancelFunc
	wg    sync.WaitGroup
	slots chan struct{}
	dim   atomic.Int64 // of the last vector

	mu      sync.Mutex
	passes  map[target]*pass
	agents  map[string]int    // how many passes an organisation has
	outages map[string]outage // by organisation, since each may have its own key
}

var _ memorystore.Embedder = (*Index)(nil)

// A target is an agent whose passages are embedded.
type target struct {
	org   string
	agent haft.AgentID
}

// A pass embeds the passages of an agent, one batch after the other.
type pass struct {
	asked bool          // whether there is to be one more batch
	next  chan struct{} // closed after a batch that has not begun yet
}

// An outage is an endpoint that fails for an organisation.
type outage struct {
	tries int
	until time.Time
}

// errOutage is why an endpoint is not even asked.
var errOutage = errors.New("the endpoint of embeddings has failed and is left alone for a while")

// New returns an index. Close ends what it does in the background.
func New(cfg Config) *Index {
	if cfg.SearchTime == 0 {
		cfg.SearchTime = searchTime
	}
	if cfg.FirstPause == 0 {
		cfg.FirstPause = firstPause
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	ctx, end := context.WithCancel(context.Background()) //nolint:forbidigo // it outlives the calls that need it
	return &Index{cfg: cfg, ctx: ctx, end: end, slots: make(chan struct{}, maxAsked), passes: map[target]*pass{},
		agents: map[string]int{}, outages: map[string]outage{}}
}

// Close ends what is under way.
func (x *Index) Close() {
	x.mu.Lock()
	x.end()
	x.mu.Unlock() // from here on, none begins
	x.wg.Wait()
}

// Added implements [memorystore.Embedder].
func (x *Index) Added(org string, agent haft.AgentID) { x.request(target{org, agent}) }

// Query implements [memorystore.Embedder].
func (x *Index) Query(ctx context.Context, org string, agent haft.AgentID, text string) ([]float32, string) {
	until := time.NewTimer(x.cfg.SearchTime)
	defer until.Stop()
	vectors, err := x.embed(ctx, x.cfg.SearchTime, target{org, agent}, []string{text})
	if err != nil {
		return nil, ""
	}
	select {
	case <-x.request(target{org, agent}):
	case <-until.C:
	case <-ctx.Done():
	}
	return vectors[0], x.cfg.Source.Model()
}

// request has one more batch embedded for an agent. What it returns is closed when that is done, or is not to be.
func (x *Index) request(to target) <-chan struct{} {
	x.mu.Lock()
	defer x.mu.Unlock()
	p := x.passes[to]
	if p == nil {
		p = &pass{next: make(chan struct{})}
		if len(x.passes) >= maxAgents || x.agents[to.org] >= maxOfOrg || x.ctx.Err() != nil {
			close(p.next)
			return p.next
		}
		x.passes[to] = p
		x.agents[to.org]++
		x.wg.Go(func() { x.run(to, p) })
	}
	p.asked = true
	return p.next
}

// run is a pass. It ends when no passage lacks a vector, or when the endpoint has failed too often.
func (x *Index) run(to target, p *pass) {
	more := false
	for rounds, tries := 0, 0; ; rounds++ {
		x.mu.Lock()
		done := p.next
		if !p.asked && !more || rounds == maxRounds || tries == maxTries || x.ctx.Err() != nil {
			delete(x.passes, to)
			if x.agents[to.org]--; x.agents[to.org] == 0 {
				delete(x.agents, to.org)
			}
			close(done)
			x.mu.Unlock()
			return
		}
		p.asked, p.next = false, make(chan struct{})
		x.mu.Unlock()
		var err error
		more, err = x.round(to)
		close(done)
		if tries++; err == nil {
			tries = 0
			continue
		}
		more = true
		_ = pause.For(x.ctx, max(x.cfg.FirstPause, time.Until(x.outage(to.org).until)))
	}
}

// round embeds one batch, and reports whether there may be more.
func (x *Index) round(to target) (more bool, err error) {
	select {
	case x.slots <- struct{}{}:
		defer func() { <-x.slots }()
	case <-x.ctx.Done():
		return false, x.ctx.Err()
	}
	missing, err := x.cfg.Store.Unembedded(x.ctx, to.org, to.agent, x.cfg.Source.Model(), int(x.dim.Load()),
		model.MaxEmbedded)
	if err != nil || len(missing) == 0 {
		return false, err
	}
	var ids []haft.PassageID
	var texts []string
	for _, p := range missing {
		ids, texts = append(ids, p.ID), append(texts, p.Text)
	}
	vectors, err := x.embed(x.ctx, batchTime, to, texts)
	if err != nil {
		return true, err
	}
	return true, x.cfg.Store.PutVectors(x.ctx, to.org, to.agent, x.cfg.Source.Model(), ids, vectors)
}

// embed returns the vectors of texts, without the secrets of an agent. One is empty if the endpoint refuses its text
// and takes others.
func (x *Index) embed(ctx context.Context, limit time.Duration, to target, texts []string) (vectors [][]float32,
	err error) {
	if time.Now().Before(x.outage(to.org).until) {
		return nil, errOutage
	}
	within, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	redact, err := x.cfg.Redact(within, to.org, to.agent)
	if err == nil {
		clean := make([]string, len(texts))
		for i, t := range texts {
			clean[i] = redact(t)
		}
		vectors, err = x.ask(within, to.org, clean)
	}
	if ctx.Err() == nil { // else nobody knows how the endpoint is
		x.report(to.org, err)
	}
	return vectors, err
}

// ask asks for the vectors of texts, in shorter form if they are too long, and one by one if one may be why there is no
// answer.
func (x *Index) ask(ctx context.Context, org string, texts []string) (vectors [][]float32, err error) {
	var fault *model.Fault
	for most := maxText; most >= minText; most /= 2 {
		short := make([]string, len(texts))
		for i, t := range texts {
			short[i] = strings.ToValidUTF8(t[:min(len(t), most)], "")
		}
		vectors, err = x.cfg.Source.Embed(ctx, org, short)
		if !errors.As(err, &fault) || fault.Kind != model.TooLong {
			break
		}
	}
	switch {
	case err == nil:
		x.dim.Store(int64(len(vectors[0])))
		return vectors, nil
	case fault == nil || !fault.Text():
		return nil, err
	case len(texts) == 1:
		_, err = x.cfg.Source.Embed(ctx, org, []string{"text"}) // whether it is the text or the endpoint
		return make([][]float32, 1), err
	}
	for i := range texts {
		one, err := x.ask(ctx, org, texts[i:i+1])
		if err != nil {
			return nil, err
		}
		vectors = append(vectors, one...)
	}
	return vectors, nil
}

// outage returns the outage of an organisation, or none.
func (x *Index) outage(org string) outage {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.outages[org]
}

// report notes how the endpoint did for an organisation, and how long to leave it alone. The first failure is logged,
// without what the endpoint says, which may quote a text.
func (x *Index) report(org string, err error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	was := x.outages[org]
	if err == nil {
		delete(x.outages, org)
		return
	}
	wait, kind, status := x.cfg.FirstPause<<min(was.tries, maxTries), string(haft.CodeOf(err)), 0
	if f, ok := errors.AsType[*model.Fault](err); ok {
		wait, kind, status = max(wait, f.RetryAfter), string(f.Kind), f.Status
	}
	if wait = min(wait, maxPause); len(x.outages) >= maxOrgs {
		clear(x.outages)
	}
	x.outages[org] = outage{was.tries + 1, time.Now().Add(wait)}
	if was.tries == 0 {
		x.cfg.Logger.Warn("passages are found by their words alone: the endpoint of embeddings fails", "org", org,
			"kind", kind, "status", status)
	}
}
