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
	// Server returns the server with that name or id, including the values of its
	// headers, environment and client secret, or [haft.CodeNotFound].
	Server(ctx context.Context, org, ref string) (haft.MCPServer, error)
}

// A Vault stores OAuth grants, encrypted. An empty user stands for the organisation
// itself.
type Vault interface {
	// Grant returns the stored grant, or [haft.CodeNotFound].
	Grant(ctx context.Context, org, server, user string) ([]byte, error)
	// PutGrant replaces the stored grant; nil removes it.
	PutGrant(ctx context.Context, org, server, user string, grant []byte) error
}

// A Place is where a command runs.
type Place struct {
	Provider sandbox.Provider
	// Name is the provider's name.
	Name string
	// Spec has the command, its environment, mounts, limits and network. The pool sets
	// the streams.
	Spec sandbox.Spec
	// Done, if not nil, releases the resources of the place after the run.
	Done func()
}

// Config has the dependencies of a pool, and its bounds. Zero fields get defaults.
type Config struct {
	// Directory is required.
	Directory Directory
	// Place returns where the command of a server runs, with this environment. Nil
	// means that this pool runs no commands.
	Place func(ctx context.Context, s haft.MCPServer, env map[string]string) (*Place, error)
	// Client sends requests to servers that have an address. It must refuse forbidden
	// addresses, and must not bound how long reading a body takes. Nil means that this
	// pool reaches no addresses.
	Client *http.Client
	// Egress wraps the transport of Client for the requests of one server, which have
	// these headers. It refuses requests that the server may not make, and records the
	// others. Nil means that the transport is used unchanged.
	Egress func(s haft.MCPServer, headers map[string]string, next http.RoundTripper) http.RoundTripper
	// Fits reports whether a secret with this binding may go into a request. Nil means
	// that no bound secret may.
	Fits func(b *secret.Binding, method string, to *url.URL) bool
	// Permit returns an error with [haft.CodeDenied] or [haft.CodeNotFound] if a server
	// may no longer be used as it is. The pool then ends its sessions, see
	// [Pool.Recheck]. Nil permits every server.
	Permit func(ctx context.Context, s haft.MCPServer) error
	// RecheckEvery is how often Permit is asked without a call of Recheck; 0 means never.
	RecheckEvery time.Duration
	// Vault stores grants. Nil means that nobody can log in.
	Vault Vault
	// Elicit answers a question of a server to a person, which is a message and a
	// schema. If nil, servers learn that no person can be asked.
	Elicit func(ctx context.Context, message string, schema json.RawMessage) (action string, content map[string]any,
		err error)
	// ClientMetadata is the address of a document that describes this client to
	// authorisation servers; "" means that the client registers itself.
	ClientMetadata string
	// Changed is called when the tools that a server lists differ from the known ones.
	// It must return at once.
	Changed func(org, server string)
	// Version is the version of the program.
	Version string

	// Connect, List and Call bound how long each may take, unless the server or the call
	// sets its own limit; 0 means 30 seconds, 30 seconds and a minute.
	Connect, List, Call time.Duration
	// Idle is how long a session without calls stays open; 0 means 5 minutes.
	Idle time.Duration
	// Health is how often an open session is pinged; 0 means 30 seconds.
	Health time.Duration
	// Ping is how long a server may take to answer a ping; 0 means 5 seconds. The session of one that does not answer
	// two in a row is ended.
	Ping time.Duration
	// Sessions and PerOrg bound the number of sessions; 0 means 256 and 64.
	Sessions, PerOrg int
	// MaxMessage is the longest message of a server in bytes; 0 means 16 MiB.
	MaxMessage int
	// MaxTools and MaxPages bound a list of tools; 0 means 1,000 and 100.
	MaxTools, MaxPages int
	// LoginFor is how long a login waits for a person; 0 means 10 minutes.
	LoginFor time.Duration
	// Logger gets messages that an operator can act on. Nil discards them.
	Logger *slog.Logger
}

// withDefaults returns the configuration with defaults in place of zero fields.
func (c Config) withDefaults() Config {
	setDefault(&c.Connect, 30*time.Second)
	setDefault(&c.List, 30*time.Second)
	setDefault(&c.Call, time.Minute)
	setDefault(&c.Idle, 5*time.Minute)
	setDefault(&c.Health, 30*time.Second)
	setDefault(&c.Ping, 5*time.Second)
	setDefault(&c.LoginFor, 10*time.Minute)
	setDefault(&c.Sessions, 256)
	setDefault(&c.PerOrg, 64)
	setDefault(&c.MaxMessage, 16<<20)
	setDefault(&c.MaxTools, 1000)
	setDefault(&c.MaxPages, 100)
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

// setDefault sets a field that is not positive to its default.
func setDefault[T int | time.Duration](field *T, value T) {
	if *field <= 0 {
		*field = value
	}
}
