package modal

import (
	"context"
	"log/slog"
	"os"
	"strings"
	"time"

	"github.com/modal-labs/modal-client/go"

	"haft/sandbox/internal/rented"
)

// A Provider runs commands in sandboxes of Modal. It implements [sandbox.Provider].
//
// Lifecycle: New, Run as often as needed, Close.
type Provider struct {
	*rented.Provider
	client *modal.Client
}

// An Info describes a machine that Haft has made.
type Info = rented.Info

// New checks a configuration, and starts to look after machines. It does not speak to the server before the first run,
// except that machines which an earlier process left are ended.
func New(ctx context.Context, cfg Config) (*Provider, error) {
	cfg, err := cfg.check()
	if err != nil {
		return nil, err
	}
	if env := os.Getenv("MODAL_SERVER_URL"); env != cfg.Server && (env != "" || cfg.Server != ownServer) {
		return nil, invalid("the server of Modal is set by MODAL_SERVER_URL only")
	}
	if v2 := os.Getenv("MODAL_SANDBOX_V2"); v2 == "0" || strings.EqualFold(v2, "false") {
		return nil, invalid("MODAL_SANDBOX_V2 is off: Haft uses sandboxes of the second version")
	}
	p := &Provider{}
	p.Provider, err = rented.New(ctx, rented.Config{Name: "Modal", Level: cfg.Level, Image: cfg.image(),
		Owner: cfg.Owner, Fresh: cfg.Fresh, Idle: cfg.Idle, Max: cfg.Max, MaxOfTenant: cfg.MaxOfTenant,
		Logger: cfg.Logger}, func(owner string) (rented.Renter, error) {
		cfg.Owner = owner
		client, err := connect(cfg)
		p.client = client
		return &account{cfg: cfg, client: client, lock: make(chan struct{}, 1), build: make(chan struct{}, 1)}, err
	})
	if err != nil {
		return nil, err
	}
	return p, nil
}

// connect makes the client of the SDK. It speaks to nobody yet.
func connect(cfg Config) (*modal.Client, error) {
	noWait := time.Duration(0)
	// The SDK's messages hold texts of the server. A server that is busy is reported, and not waited for.
	params := &modal.ClientParams{TokenID: cfg.TokenID, TokenSecret: cfg.TokenSecret, MaxThrottleWait: &noWait,
		Logger: slog.New(slog.DiscardHandler)}
	newOf(&params.Config) // the profiles of a file, which could name another server, are not read
	client, err := modal.NewClientWithOptions(params)
	if err != nil {
		return nil, problem(err)
	}
	return client, nil
}

// newOf sets p to a new value of a type whose name is not exported.
func newOf[T any](p **T) { *p = new(T) }

// image is what makes a machine different from others of the same tenant.
func (c Config) image() string {
	if c.VM {
		return c.App + " " + c.Image + " vm"
	}
	return c.App + " " + c.Image
}

// Close ends all machines that no run uses. It can be called twice.
func (p *Provider) Close() error {
	err := p.Provider.Close()
	p.client.Close()
	return err
}
