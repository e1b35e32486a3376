package app

import (
	"net/netip"
	"os"

	"haft/executor/builtin"
	"haft/internal/egress"
	"haft/internal/secret"
)

// SearchConfig says whom the tool web_search asks. The zero value is what the
// environment says: HAFT_SEARCH_PROVIDER, _URL, _KEY and _ALLOW (ranges, with
// commas); if that is silent there is no such tool.
type SearchConfig struct {
	// Provider is searxng, brave, tavily or exa.
	Provider string
	// URL is the address of a SearXNG instance, or that of another's API.
	URL string
	// Key is what the provider wants, for callers that have none of their own.
	Key secret.Value
	// Allow are ranges in which the provider may be though they are not public. They
	// are not those of tools.
	Allow []netip.Prefix
}

// addSearch adds web_search to set, if it is configured. The function it returns
// ends its connections.
func addSearch(set *builtin.Set, cfg SearchConfig, outside egress.Config) (func() error, error) {
	if cfg.Provider == "" && cfg.URL == "" {
		cfg.Provider, cfg.URL = os.Getenv("HAFT_SEARCH_PROVIDER"), os.Getenv("HAFT_SEARCH_URL")
		if cfg.Provider == "" && cfg.URL == "" {
			return nil, nil
		}
		cfg.Key = secret.New(os.Getenv("HAFT_SEARCH_KEY"))
		var err error
		if cfg.Allow, err = parsePrefixes("HAFT_SEARCH_ALLOW"); err != nil {
			return nil, err
		}
	}
	// Where the provider is, is the operator's word and not that of who searches.
	outside.Allow = cfg.Allow
	guard := egress.New(outside)
	err := builtin.WebSearch(set, builtin.SearchConfig{Provider: cfg.Provider, URL: cfg.URL, Key: cfg.Key,
		Client: guard.Client()})
	return func() error { guard.CloseIdle(); return nil }, err
}
