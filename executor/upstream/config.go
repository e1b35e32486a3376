package upstream

import (
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"net/url"
	"time"

	"haft"
	"haft/internal/secret"
	"haft/sandbox"
)

// A Directory knows the servers of organisations.
type Directory interface {
	// Server returns the server of that name or id with the values of its headers,
	// environment and client secret, or [haft.CodeNotFound].
	Server(ctx context.Context, org, ref string) (haft.MCPServer, error)
}

// A Vault keeps what people were granted, encrypted. An empty user is the
// organisation itself.
type Vault interface {
	// Grant returns what is kept, or [haft.CodeNotFound].
	Grant(ctx context.Context, org, server, user string) ([]byte, error)
	// PutGrant keeps a grant in the place of the one that is there; nil removes it.
	PutGrant(ctx context.Context, org, server, user string, grant []byte) error
}

// A Place is where a command runs.
type Place struct {
	Provider sandbox.Provider
	// Name is the provider's.
	Name string
	// Spec has the command, its environment, mounts, limits and network. The
	// streams are the pool's.
	Spec sandbox.Spec
	// Done, if not nil, gives back what the place is made of, after the run.
	Done func()
}

// Config has what a pool stands on, and its bounds. Zero fields get defaults.
type Config struct {
	// Directory is required.
	Directory Directory
	// Place finds where the command of a server runs, with that environment. Nil
	// means that commands are not run here.
	Place func(ctx context.Context, s haft.MCPServer, env map[string]string) (*Place, error)
	// Client sends requests to servers that have an address. It refuses addresses
	// that nobody may reach, and must not bound how long a body takes. Nil means
	// that there are none.
	Client *http.Client
	// Egress wraps the transport of Client for what is sent for one server, with these
	// headers: it refuses what the server may not reach, and records the rest. Nil
	// means that the transport is used as it is.
	Egress func(s haft.MCPServer, headers map[string]string, next http.RoundTripper) http.RoundTripper
	// Fits reports whether a secret that is bound so may go into a request. Nil means
	// that none may.
	Fits func(b *secret.Binding, method string, to *url.URL) bool
	// Permit reports, as an error with [haft.CodeDenied] or [haft.CodeNotFound], why a
	// server may not be used any more as it is. Sessions of such a server end, see
	// [Pool.Recheck]. Nil means that every one may.
	Permit func(ctx context.Context, s haft.MCPServer) error
	// RecheckEvery is how often that is asked without being told; 0 means never.
	RecheckEvery time.Duration
	// Vault keeps grants. Nil means that nobody can log in.
	Vault Vault
	// Elicit answers what a server asks a person, by a message and a schema. Nil
	// tells servers that nobody can be asked.
	Elicit func(ctx context.Context, message string, schema json.RawMessage) (action string, content map[string]any,
		err error)
	// ClientMetadata is the address of a document that describes this client to
	// authorisation servers; "" means that it registers itself.
	ClientMetadata string
	// Changed hears that a server lists other tools than those it is known by. It
	// returns at once.
	Changed func(org, server string)
	// Version is that of the program.
	Version string

	// Connect, List and Call bound how long each may take, where neither server
	// nor call says; 0 means 30 seconds, 30 seconds and a minute.
	Connect, List, Call time.Duration
	// Idle is after which time without a call a session is closed; 0 means 5
	// minutes.
	Idle time.Duration
	// Health is how often a session is asked whether it lives; 0 means 30 seconds.
	Health time.Duration
	// Sessions and PerOrg bound how many there are; 0 means 256 and 64.
	Sessions, PerOrg int
	// MaxMessage is the longest message of a server in bytes; 0 means 16 MiB.
	MaxMessage int
	// MaxTools and MaxPages bound a list; 0 means 1,000 and 100.
	MaxTools, MaxPages int
	// LoginFor is how long a login waits for a person; 0 means 10 minutes.
	LoginFor time.Duration
	// Logger hears what an operator could act on. Nil discards.
	Logger *slog.Logger
}

// filled returns the configuration with its defaults.
func (c Config) filled() Config {
	for _, d := range []struct {
		at  *time.Duration
		def time.Duration
	}{
		{&c.Connect, 30 * time.Second}, {&c.List, 30 * time.Second}, {&c.Call, time.Minute}, {&c.Idle, 5 * time.Minute},
		{&c.Health, 30 * time.Second}, {&c.LoginFor, 10 * time.Minute},
	} {
		if *d.at <= 0 {
			*d.at = d.def
		}
	}
	for _, d := range []struct {
		at  *int
		def int
	}{{&c.Sessions, 256}, {&c.PerOrg, 64}, {&c.MaxMessage, 16 << 20}, {&c.MaxTools, 1000}, {&c.MaxPages, 100}} {
		if *d.at <= 0 {
			*d.at = d.def
		}
	}
	if c.Version == "" {
		c.Version = "dev"
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if c.Changed == nil {
		c.Changed = func(string, string) {}
	}
	return c
}
