package app

import (
	"context"
	"net/netip"
	"os"
	"time"

	"haft"
	"haft/internal/credential"
	"haft/internal/egress"
	"haft/internal/secret"
)

// CredentialsConfig says where the credentials of calls are fetched from. The zero value
// means the environment: HAFT_CREDENTIALS_URL, _KEY, _SIGNING_KEY, _TIMEOUT, _TTL, _ALLOW
// (ranges, with commas) and _INSECURE. Without a URL nothing is fetched.
type CredentialsConfig struct {
	// URL is where to ask; "" means the environment.
	URL string
	// Key is sent as a bearer token, and Signing signs requests.
	Key, Signing secret.Value
	// Timeout bounds a request. TTL is how long an answer is cached that does not say;
	// see [credential.Config].
	Timeout, TTL time.Duration
	// Allow are ranges of private addresses that may be asked. They do not apply to
	// tools.
	Allow []netip.Prefix
	// Insecure allows http to other machines.
	Insecure bool
}

// fromEnv completes c from the environment.
func (c CredentialsConfig) fromEnv() (CredentialsConfig, error) {
	if c.URL != "" {
		return c, nil
	}
	if c.URL = os.Getenv("HAFT_CREDENTIALS_URL"); c.URL == "" {
		return c, nil
	}
	c.Key, c.Signing = secret.New(os.Getenv("HAFT_CREDENTIALS_KEY")),
		secret.New(os.Getenv("HAFT_CREDENTIALS_SIGNING_KEY"))
	for name, to := range map[string]*time.Duration{"HAFT_CREDENTIALS_TIMEOUT": &c.Timeout,
		"HAFT_CREDENTIALS_TTL": &c.TTL} {
		text := os.Getenv(name)
		if text == "" {
			continue
		}
		d, err := time.ParseDuration(text)
		if err != nil || d < 0 {
			return c, &haft.Error{Code: haft.CodeInvalid, Message: name + " is not a duration such as 30s", Err: err}
		}
		if *to = d; d == 0 {
			*to = -1 // an explicit 0 is not the default
		}
	}
	allow, err := egress.Ranges("HAFT_CREDENTIALS_ALLOW")
	if err != nil {
		return c, err
	}
	c.Allow = append(c.Allow, allow...)
	c.Insecure = c.Insecure || os.Getenv("HAFT_CREDENTIALS_INSECURE") == "1"
	return c, nil
}

// credentials adapts a client to [engine.Credentials].
type credentials struct{ client *credential.Client }

// Fetch implements [engine.Credentials].
func (c credentials) Fetch(ctx context.Context, who haft.Principal, tool haft.Tool,
	call haft.CallID) ([]secret.Named, error) {
	return c.client.Fetch(ctx, credential.Ask{
		Org: who.Org, User: who.User, Agent: who.Agent, Tool: tool.Name, ToolID: string(tool.ID), Call: call,
	})
}

// openCredentials returns what fetches credentials, or nil, and how to close it.
func openCredentials(cfg CredentialsConfig, mock *egress.Mock) (*credentials, func() error, error) {
	cfg, err := cfg.fromEnv()
	if err != nil || cfg.URL == "" {
		return nil, nil, err
	}
	guard := egress.New(egress.Config{Allow: cfg.Allow, Redirects: -1, Mock: mock})
	client, err := credential.New(credential.Config{
		URL: cfg.URL, Insecure: cfg.Insecure, Key: cfg.Key, Signing: cfg.Signing,
		Client: guard.Client(), Timeout: cfg.Timeout, TTL: cfg.TTL,
	})
	if err != nil {
		return nil, nil, err
	}
	return &credentials{client}, func() error { guard.CloseIdle(); return nil }, nil
}
