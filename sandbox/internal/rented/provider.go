package rented

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/sha256"
	_ "embed" // the relay
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strings"
	"time"

	"haft"
	"haft/sandbox"
)

//go:embed relay.py
var relaySource string

// endTime is how long ending all machines may take.
const endTime = 30 * time.Second

// Config says how machines are kept.
type Config struct {
	// Name names who rents them out, such as E2B.
	Name string
	// Level is the isolation that a machine gives.
	Level haft.Level
	// Image is what machines are made from.
	Image string
	// Owner names this Haft among those that use the same account: it reuses and ends the machines of its owner only.
	// "" is an owner that there was not before.
	Owner string
	// Fresh ends a machine after each run.
	Fresh bool
	// Idle is how long one is kept without a run (2 minutes).
	Idle time.Duration
	// Max bounds the machines (20), MaxOfTenant those of one tenant (10).
	Max, MaxOfTenant int
	// Logger gets messages that an operator can act on. Nil discards them.
	Logger *slog.Logger
}

// A Provider runs commands in rented machines. It implements [sandbox.Provider].
//
// Lifecycle: New, Run as often as needed, Close.
type Provider struct {
	cfg    Config
	pool   *pool
	cancel context.CancelFunc
	reaper chan struct{} // closed when it has ended
}

// New starts to look after machines. Open connects the server, for an owner. Nothing is sent before the first run,
// except that machines which an earlier process left are ended.
func New(ctx context.Context, cfg Config, open func(owner string) (Renter, error)) (*Provider, error) {
	known := cfg.Owner != ""
	cfg.Owner, cfg.Idle = cmp.Or(cfg.Owner, strings.ToLower(rand.Text())), cmp.Or(cfg.Idle, 2*time.Minute)
	cfg.Max, cfg.MaxOfTenant = cmp.Or(cfg.Max, 20), cmp.Or(cfg.MaxOfTenant, 10)
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	renter, err := open(cfg.Owner)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	p := &Provider{cfg: cfg, cancel: cancel, reaper: make(chan struct{}), pool: &pool{Renter: renter, cfg: cfg,
		all: map[string]*machine{}, making: map[string]int{}, adopted: map[string]bool{}}}
	go p.look(ctx, known)
	return p, nil
}

// look ends what is not needed any more, on a timer, and at once if an earlier process may have left something.
func (p *Provider) look(ctx context.Context, now bool) {
	defer close(p.reaper)
	tick := time.NewTicker(p.cfg.Idle / 2)
	defer tick.Stop()
	for {
		if now {
			if err := p.pool.reap(ctx, time.Now()); err != nil && ctx.Err() == nil {
				p.cfg.Logger.WarnContext(ctx, "rented sandboxes could not be looked through",
					"server", p.cfg.Name, "err", err)
			}
		}
		select {
		case <-tick.C:
			now = true
		case <-ctx.Done():
			return
		}
	}
}

// Close ends all machines that no run uses. It can be called twice.
func (p *Provider) Close() error {
	p.cancel()
	<-p.reaper
	ctx, cancel := context.WithTimeout(context.Background(), endTime)
	defer cancel()
	p.pool.close(ctx)
	return nil
}

// List returns the running machines that any Haft has made with this account.
func (p *Provider) List(ctx context.Context) ([]Info, error) { return p.pool.List(ctx, "", "") }

// Remove ends a machine that a Haft has made.
func (p *Provider) Remove(ctx context.Context, id string) error {
	list, err := p.List(ctx)
	if err != nil {
		return err
	}
	if !slices.ContainsFunc(list, func(i Info) bool { return i.ID == id }) {
		return &haft.Error{Code: haft.CodeNotFound,
			Message: "Haft has no such sandbox at " + p.cfg.Name + ": see haft sandbox list"}
	}
	return p.pool.End(ctx, id)
}

// Isolation implements [sandbox.Provider]. It states no control: none can be seen from here.
func (p *Provider) Isolation(context.Context) (haft.Isolation, error) { return p.isolation(), nil }

// isolation is the same for every run.
func (p *Provider) isolation() haft.Isolation {
	iso := haft.Isolation{Level: p.cfg.Level, Controls: []haft.Control{}}
	for _, c := range haft.Controls() {
		iso.Missing = append(iso.Missing, haft.Gap{Control: c,
			Reason: "it cannot be seen in a machine of another server"})
	}
	return iso
}

// Run implements [sandbox.Provider].
func (p *Provider) Run(ctx context.Context, spec sandbox.Spec) (sandbox.Exit, error) {
	channel, err := takeChannel(spec.Channel)
	if channel != nil {
		defer channel.Close()
	}
	if err == nil {
		err = p.check(spec)
	}
	if err != nil {
		return sandbox.Exit{}, err
	}
	for again := false; ; again = true {
		if err := ctx.Err(); err != nil {
			return sandbox.Exit{}, fmt.Errorf("run a command at %s: %w", p.cfg.Name, err)
		}
		m, err := p.pool.acquire(ctx, p.want(spec), spec.Tenant)
		if err != nil {
			return sandbox.Exit{}, err
		}
		r := newRun(p, m, spec, channel)
		exit, err := r.do(ctx)
		p.pool.release(ctx, m, err == nil && r.clean)
		if errors.Is(err, ErrGone) && !r.begun && !again {
			continue // it has ended while nobody used it
		}
		return exit, err
	}
}

// check refuses what cannot be done in another machine.
func (p *Provider) check(spec sandbox.Spec) error {
	if err := spec.Check(); err != nil {
		return err
	}
	if err := spec.Need.Check(p.isolation()); err != nil {
		return err
	}
	if spec.Network == sandbox.NetworkEgress {
		return denied("a rented sandbox cannot be held to named hosts: run this tool in a sandbox of this machine")
	}
	if spec.Observe {
		return denied("what a tool touches is not seen in a rented sandbox: run it in the sandbox local")
	}
	if spec.Terminals {
		return denied("a rented sandbox has no sessions of Haft")
	}
	size := 0
	for _, f := range spec.Files {
		size += len(f.Data)
	}
	if size > maxFiles {
		return invalid(fmt.Sprintf("the files of a run at %s have at most %d bytes", p.cfg.Name, maxFiles))
	}
	for _, m := range spec.Mounts {
		if m.Writable {
			return denied("a directory of this machine, such as a workspace, cannot be written to from a rented " +
				"sandbox")
		}
		if st, err := os.Stat(m.Host); err != nil || m.Host != m.Inside && !st.IsDir() {
			return &sandbox.SetupError{Step: "mount", Path: m.Inside, Err: errnoOf(err)}
		}
	}
	return nil
}

// maxFiles bounds the files of a run.
const maxFiles = 64 << 20

// denied is the error of what this provider refuses.
func denied(message string) error { return &haft.Error{Code: haft.CodeDenied, Message: message} }

// invalid is the error of a run that asks for too much.
func invalid(message string) error { return &haft.Error{Code: haft.CodeInvalid, Message: message} }

// unavailable is the error of a machine that does not do what it should.
func unavailable(message string) error {
	return &haft.Error{Code: haft.CodeUnavailable, Message: message}
}

// want says what machine a run needs. Runs whose states are the same may use one machine, one after the other.
func (p *Provider) want(spec sandbox.Spec) Want {
	raw, _ := json.Marshal(struct { // strings always encode
		Tenant, Image, Network, Relay string
		Layers                        []string
	}{spec.Tenant, p.cfg.Image, string(spec.Network), relaySource, layersOf(spec)})
	sum := sha256.Sum256(raw)
	limits := spec.Limits.Or(haft.DefaultLimits())
	return Want{State: hex.EncodeToString(sum[:16]), Internet: spec.Network == sandbox.NetworkFull,
		Last: startTime + limits.Wall.D() + limits.Grace.D() + 2*killTime}
}
