package place

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"haft"
	"haft/executor"
	"haft/executor/script"
	"haft/internal/orgconfig"
	"haft/sandbox"
	"haft/sandbox/cell"
	"haft/sandbox/e2b"
	"haft/sandbox/gvisor"
	"haft/sandbox/local"
	"haft/sandbox/modal"
)

// Config is what a [Set] is made of.
type Config struct {
	// Order is auto, which is also "", or the names of the sandboxes that are used, with commas between.
	Order string
	// Home is the sandbox of this machine that is always there: local or process. Provider and Executor are its own.
	Home     haft.SandboxType
	Provider sandbox.Provider
	Executor *script.Executor
	// Finder and Script are for the executors of the others.
	Finder *script.Finder
	Script script.Config
	// E2B says where machines of E2B come from; nil means what the environment says, see [e2b.FromEnv].
	E2B *e2b.Config
	// Modal says whose sandboxes of Modal are used; nil means what the environment says, see [modal.FromEnv].
	Modal *modal.Config
	// Local is the configuration of the sandbox of this machine, whose directories gVisor shares.
	Local local.Config
	// Owner tells this Haft from others that use the same key of E2B or Modal, a path first; "" means none.
	Owner  string
	Logger *slog.Logger
}

// A Set has all kinds of sandboxes. Close it: that closes the executor of Home too.
type Set struct {
	*Executor
	// Known are all kinds, in the order in which they are tried.
	Known []orgconfig.Place

	cfg       Config
	first     haft.SandboxType                      // where calls run which name no sandbox, if that is not Home
	providers map[haft.SandboxType]sandbox.Provider // those that are available
	closers   []func() error
}

// An opener opens a kind of sandbox. An error says what is missing.
type opener struct {
	typ    haft.SandboxType
	remote bool
	open   func(ctx context.Context) (sandbox.Provider, func() error, error)
}

// openers are the kinds of sandboxes besides Home. A new provider is one more entry here.
func (s *Set) openers() []opener {
	return []opener{
		{haft.SandboxModal, true, s.openModal},
		{haft.SandboxE2B, true, s.openE2B},
		{haft.SandboxGVisor, false, s.openGVisor},
	}
}

// auto is the order in which kinds are tried if the operator says nothing. Modal is last: it is for what names it, or
// demands what nothing before gives.
func auto() []haft.SandboxType {
	return []haft.SandboxType{haft.SandboxE2B, haft.SandboxLocal, haft.SandboxGVisor, haft.SandboxModal}
}

// unavailable is a kind that cannot be had.
func unavailable(why string) func(context.Context) (sandbox.Provider, func() error, error) {
	return func(context.Context) (sandbox.Provider, func() error, error) {
		return nil, nil, &haft.Error{Code: haft.CodeUnavailable, Message: why}
	}
}

// openGVisor opens gVisor where it is installed: in a server, or if it is named.
func (s *Set) openGVisor(ctx context.Context) (sandbox.Provider, func() error, error) {
	if s.cfg.Script.Cold && !slices.Contains(strings.Split(s.cfg.Order, ","), string(haft.SandboxGVisor)) {
		return unavailable("a single run uses it only if it is named: --sandbox gvisor")(ctx)
	}
	return OpenGVisor(ctx, s.cfg.Local, s.cfg.Logger)
}

// OpenGVisor opens gVisor, and returns what closes it.
func OpenGVisor(ctx context.Context, cfg local.Config, log *slog.Logger) (sandbox.Provider, func() error, error) {
	p, err := gvisor.Open(ctx, gvisor.Config{Dir: cfg.Dir, UIDs: cfg.UIDs, Logger: log})
	if err != nil {
		return nil, nil, err
	}
	return p, p.Close, nil
}

// gvisorCells is how many sandboxes of gVisor are kept ready, unless the operator says otherwise: each takes the
// memory of a kernel, some 60 MB.
const gvisorCells = 8

// GVisorCells returns the bounds of prepared sandboxes for gVisor.
func GVisorCells(c cell.Config) cell.Config {
	c.Most, c.Total = cmp.Or(c.Most, gvisorCells), cmp.Or(c.Total, gvisorCells)
	return c
}

// openE2B opens the provider of machines of E2B.
func (s *Set) openE2B(ctx context.Context) (sandbox.Provider, func() error, error) {
	cfg, err := e2b.FromEnv(os.Getenv)
	if s.cfg.E2B != nil {
		cfg, err = *s.cfg.E2B, nil
	}
	if err != nil {
		return nil, nil, err
	}
	if cfg.Owner, err = s.ownerOr(cfg.Owner); err != nil {
		return nil, nil, err
	}
	cfg.Logger = cmp.Or(cfg.Logger, s.cfg.Logger)
	p, err := e2b.New(ctx, cfg)
	if err != nil {
		return nil, nil, err
	}
	return p, p.Close, nil
}

// openModal opens the provider of sandboxes of Modal.
func (s *Set) openModal(ctx context.Context) (sandbox.Provider, func() error, error) {
	cfg, err := modal.FromEnv(os.Getenv)
	if s.cfg.Modal != nil {
		cfg, err = *s.cfg.Modal, nil
	}
	if err != nil {
		return nil, nil, err
	}
	if cfg.Owner, err = s.ownerOr(cfg.Owner); err != nil {
		return nil, nil, err
	}
	cfg.Logger = cmp.Or(cfg.Logger, s.cfg.Logger)
	p, err := modal.New(ctx, cfg)
	if err != nil {
		return nil, nil, err
	}
	return p, p.Close, nil
}

// ownerOr returns the owner that is set, or the digest of [Config].Owner and the name of the host.
func (s *Set) ownerOr(owner string) (string, error) {
	if owner != "" || s.cfg.Owner == "" {
		return owner, nil
	}
	host, _ := os.Hostname() // without a name, the directory has to do
	dir, err := filepath.Abs(s.cfg.Owner)
	if err != nil {
		return "", fmt.Errorf("find the data directory: %w", err)
	}
	sum := sha256.Sum256([]byte(host + "\x00" + dir))
	return hex.EncodeToString(sum[:10]), nil
}

// Open opens the kinds of sandboxes that are configured.
func Open(ctx context.Context, cfg Config) (*Set, error) {
	s := &Set{cfg: cfg, providers: map[haft.SandboxType]sandbox.Provider{cfg.Home: cfg.Provider},
		Executor: &Executor{Home: cfg.Home, Places: map[haft.SandboxType]Place{cfg.Home: {Executor: cfg.Executor}}}}
	s.closers = []func() error{func() error { cfg.Executor.Close(); return nil }}
	all := map[haft.SandboxType]orgconfig.Place{cfg.Home: placeOf(cfg.Home, false, cfg.Provider)}
	for _, o := range s.openers() {
		if o.typ == cfg.Home {
			continue
		}
		p, end, err := o.open(ctx)
		if err != nil {
			all[o.typ] = orgconfig.Place{Type: o.typ, Remote: o.remote, Missing: haft.MessageOf(err)}
			continue
		}
		sc := cfg.Script
		sc.Cold = sc.Cold || o.remote // a machine that waits costs money
		if o.typ == haft.SandboxGVisor {
			sc.Cells = GVisorCells(sc.Cells)
		}
		x := script.New(context.WithoutCancel(ctx), p, string(o.typ), cfg.Finder, sc)
		s.closers = append(s.closers, end, func() error { x.Close(); return nil })
		all[o.typ], s.providers[o.typ] = placeOf(o.typ, o.remote, p), p
		s.Places[o.typ] = Place{Executor: x, Remote: o.remote}
	}
	if err := s.arrange(all); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

// arrange brings the kinds into order. Those that the operator does not name cannot be used.
func (s *Set) arrange(all map[haft.SandboxType]orgconfig.Place) error {
	order, chosen := auto(), s.cfg.Order != "" && s.cfg.Order != "auto"
	if chosen {
		var err error
		if order, err = parse(s.cfg.Order, all); err != nil {
			return err
		}
	}
	for _, t := range order {
		if p, ok := all[t]; ok {
			s.Known = append(s.Known, p)
			delete(all, t)
		}
	}
	if first := s.Known[0]; chosen && first.Type != s.cfg.Home {
		s.first = first.Type
	}
	for _, t := range haft.SandboxTypes() {
		if p, ok := all[t]; ok {
			if p.Missing == "" {
				p.Missing = "the operator has not named it: see --sandbox"
			}
			s.Known = append(s.Known, p)
		}
	}
	return nil
}

// parse reads the order of an operator. All that is named must be available.
func parse(text string, all map[haft.SandboxType]orgconfig.Place) ([]haft.SandboxType, error) {
	var list []haft.SandboxType
	for name := range strings.SplitSeq(text, ",") {
		t := haft.SandboxType(strings.TrimSpace(name))
		p, known := all[t]
		switch {
		case !known || slices.Contains(list, t):
			return nil, &haft.Error{Code: haft.CodeInvalid,
				Message: "the sandboxes are auto, or some of local, process, gvisor, e2b and modal with commas " +
					"between, but not local and process together"}
		case p.Missing != "":
			return nil, &haft.Error{Code: haft.CodeUnavailable, Message: "the sandbox " + string(t) +
				" is not available: " + p.Missing}
		}
		list = append(list, t)
	}
	return list, nil
}

// HomeOf returns the name of the sandbox of this machine that an order needs.
func HomeOf(order string) string {
	for name := range strings.SplitSeq(order, ",") {
		switch t := haft.SandboxType(strings.TrimSpace(name)); t {
		case haft.SandboxLocal, haft.SandboxProcess, haft.SandboxGVisor:
			return string(t)
		}
	}
	return string(haft.SandboxLocal)
}

// OpenSession starts the sandbox of a session in the place that its request names, see [script.Executor.OpenSession].
func (s *Set) OpenSession(ctx context.Context, req executor.Request) (*cell.Cell, haft.Isolation, error) {
	t := s.Home
	if len(req.Places) > 0 {
		t = req.Places[0]
	}
	p := s.Places[t]
	x, ok := p.Executor.(*script.Executor)
	if !ok || p.Remote {
		return nil, haft.Isolation{}, &haft.Error{Code: haft.CodeInvalid,
			Message: "sessions do not run in the sandbox " + string(t)}
	}
	return x.OpenSession(ctx, p.request(req))
}

// Elsewhere returns what runs calls which name no sandbox, if that is not Home; else nil.
func (s *Set) Elsewhere() executor.Executor {
	if s.first == "" {
		return nil
	}
	return &Executor{Home: s.first, Places: s.Places}
}

// Close ends what Open opened, last first.
func (s *Set) Close() error {
	var errs []error
	for i := len(s.closers) - 1; i >= 0; i-- {
		errs = append(errs, s.closers[i]())
	}
	s.closers = nil
	return errors.Join(errs...)
}

// Drop ends the idle sandboxes of an organisation, or of all if org is empty.
func (s *Set) Drop(org string) {
	for _, p := range s.Places {
		if x, ok := p.Executor.(*script.Executor); ok {
			x.Drop(org)
		}
	}
}

// An Info describes a kind of sandbox.
type Info struct {
	Type haft.SandboxType `json:"type"`
	// Missing says why it cannot be used; empty means that it can.
	Missing string `json:"missing,omitempty"`
	// Remote says that code and data leave this machine.
	Remote    bool           `json:"remote,omitempty"`
	Isolation haft.Isolation `json:"isolation"`
}

// Kinds describes all kinds of sandboxes, in the order in which they are tried.
func (s *Set) Kinds(ctx context.Context) []Info {
	list := make([]Info, 0, len(s.Known))
	for _, k := range s.Known {
		info := Info{Type: k.Type, Missing: k.Missing, Remote: k.Remote,
			Isolation: haft.Isolation{Controls: []haft.Control{}}}
		if p := s.providers[k.Type]; p != nil && k.Missing == "" {
			iso, err := p.Isolation(ctx)
			if info.Isolation = iso; err != nil {
				info.Missing = haft.MessageOf(err)
			}
		}
		list = append(list, info)
	}
	return list
}

// Machines are those that Haft rents from one server.
type Machines interface {
	// List returns the running machines that any Haft has made with the account.
	List(ctx context.Context) ([]e2b.Info, error)
	// Remove ends one of them. The error has [haft.CodeNotFound] if there is none of that id.
	Remove(ctx context.Context, id string) error
}

// Machines returns the servers that rent machines to this Haft, by kind.
func (s *Set) Machines() map[haft.SandboxType]Machines {
	all := map[haft.SandboxType]Machines{}
	for t, p := range s.providers {
		if m, ok := p.(Machines); ok {
			all[t] = m
		}
	}
	return all
}

// Default returns the sandbox that tools run in where nobody names one, and its name.
func (s *Set) Default() (sandbox.Provider, string) {
	t := cmp.Or(s.first, s.cfg.Home)
	return s.providers[t], string(t)
}

// CanIsolate reports why no sandbox here gives a level of isolation.
func (s *Set) CanIsolate(ctx context.Context, level haft.Level) error {
	have, err := s.cfg.Provider.Isolation(ctx)
	if err != nil {
		return err
	}
	err = sandbox.Need{Level: level}.Check(have)
	if err != nil && slices.ContainsFunc(s.Known, func(k orgconfig.Place) bool {
		return k.Missing == "" && k.Level(ctx).AtLeast(level)
	}) {
		return nil
	}
	return err
}

// placeOf describes an open place. Only a trial tells whether gVisor runs here.
func placeOf(t haft.SandboxType, remote bool, p sandbox.Provider) orgconfig.Place {
	place := orgconfig.Place{Type: t, Remote: remote, Level: levelOf(p)}
	if t == haft.SandboxGVisor {
		place.Try = func(ctx context.Context) error {
			_, err := p.Isolation(ctx)
			return err
		}
	}
	return place
}

// levelOf returns what asks a provider for its isolation.
func levelOf(p sandbox.Provider) func(context.Context) haft.Level {
	return func(ctx context.Context) haft.Level {
		iso, err := p.Isolation(ctx)
		if err != nil {
			return haft.LevelNone
		}
		return iso.Level
	}
}
