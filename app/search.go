package app

import (
	"context"
	"net/netip"
	"os"
	"slices"

	"haft"
	"haft/executor/builtin"
	"haft/internal/egress"
	"haft/internal/secret"
)

// SearchConfig configures the search provider of the tool web_search. The zero value
// means the environment: HAFT_SEARCH_PROVIDER, _URL, _KEY and _ALLOW (ranges, with
// commas). Without a provider, the key of a caller decides.
type SearchConfig struct {
	// Provider is searxng, brave, tavily or exa.
	Provider string
	// URL is the address of a SearXNG instance, or of the API of another provider.
	URL string
	// Key is the API key for callers that have none of their own.
	Key secret.Value
	// Allow are ranges of private addresses that the provider may have. They do not
	// apply to tools.
	Allow []netip.Prefix
}

// unavailable returns a function that says why a caller cannot use a built-in tool, by the variables that are stored
// for its calls. If hooked is set, others are fetched for each call, and nobody knows before which.
func (s *Service) unavailable(set *builtin.Set, hooked *bool) func(context.Context, haft.Principal, string) string {
	return func(ctx context.Context, p haft.Principal, name string) string {
		return set.Unavailable(name, func(variable string) bool {
			if *hooked {
				return true
			}
			agent := &haft.Agent{}
			if p.Agent != "" {
				if a, err := s.Store.Agents.Agent(ctx, p.Org, p.Agent); err == nil {
					agent = a
				}
			}
			stored, err := s.vault.Stored(ctx, p.Org, agent.ID)
			return agent.Env[variable] != "" || err == nil && slices.ContainsFunc(
				slices.Concat(stored.Org, stored.Agent), func(v secret.Named) bool { return v.Name == variable })
		})
	}
}

// addSearch adds web_search to set. The function that it returns closes its connections.
func addSearch(set *builtin.Set, cfg SearchConfig, outside egress.Config) (func() error, error) {
	if cfg.Provider == "" && cfg.URL == "" {
		cfg.Provider, cfg.URL = os.Getenv("HAFT_SEARCH_PROVIDER"), os.Getenv("HAFT_SEARCH_URL")
		cfg.Key = secret.New(os.Getenv("HAFT_SEARCH_KEY"))
		var err error
		if cfg.Allow, err = egress.Ranges("HAFT_SEARCH_ALLOW"); err != nil {
			return nil, err
		}
	}
	// The operator says where the provider is, not the caller who searches.
	outside.Allow = cfg.Allow
	guard := egress.New(outside)
	err := builtin.WebSearch(set, builtin.SearchConfig{Provider: cfg.Provider, URL: cfg.URL, Key: cfg.Key,
		Client: guard.Client()})
	return func() error { guard.CloseIdle(); return nil }, err
}
