package supply

import (
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"haft"
	"haft/internal/egress"
	"haft/internal/layer"
)

// The hosts of the public indexes and of their files.
var (
	publicPip = []string{"pypi.org", "files.pythonhosted.org"}
	publicNPM = []string{"registry.npmjs.org"}
)

// systemRoots are the files of trusted certificates on various systems.
var systemRoots = []string{"/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt",
	"/etc/ssl/ca-bundle.pem", "/etc/ssl/cert.pem"}

// FromEnv reads from an environment where packages come from: HAFT_PIP_INDEX_URL,
// HAFT_PIP_EXTRA_INDEX_URL, HAFT_NPM_REGISTRY, HAFT_WHEELS (directories, separated as in
// PATH), HAFT_INDEX_CA, HAFT_INDEX_PROXY, HAFT_INDEX_HOSTS (more hosts that serve files),
// HAFT_OFFLINE and HAFT_INSTALLER. For unset ones, the variables of pip and npm are used.
// HAFT_OSV says where advisories are.
func FromEnv(env func(string) string) Config {
	first := func(names ...string) string {
		for _, n := range names {
			if v := strings.TrimSpace(env(n)); v != "" {
				return v
			}
		}
		return ""
	}
	c := Config{Installer: env("HAFT_INSTALLER"), Advisories: env("HAFT_OSV"), Hosts: fields(env("HAFT_INDEX_HOSTS"))}
	c.Index = layer.Index{
		URL:      first("HAFT_PIP_INDEX_URL", "PIP_INDEX_URL", "UV_DEFAULT_INDEX"),
		Extra:    fields(first("HAFT_PIP_EXTRA_INDEX_URL", "PIP_EXTRA_INDEX_URL")),
		Registry: first("HAFT_NPM_REGISTRY", "npm_config_registry", "NPM_CONFIG_REGISTRY"),
		CA:       first("HAFT_INDEX_CA", "PIP_CERT", "SSL_CERT_FILE", "NODE_EXTRA_CA_CERTS"),
		Proxy:    first("HAFT_INDEX_PROXY", "HTTPS_PROXY", "https_proxy", "HTTP_PROXY", "http_proxy"),
	}
	switch env("HAFT_OFFLINE") {
	case "", "0", "false", "no":
	default:
		c.Index.Offline = true
	}
	wheels := filepath.SplitList(env("HAFT_WHEELS"))
	if len(wheels) == 0 {
		wheels = fields(env("PIP_FIND_LINKS"))
	}
	for _, w := range wheels {
		if info, err := os.Stat(w); err == nil && info.IsDir() && filepath.IsAbs(w) {
			c.Index.Wheels = append(c.Index.Wheels, filepath.Clean(w))
		}
	}
	for _, f := range append([]string{c.Index.CA}, systemRoots...) {
		if info, err := os.Stat(f); f != "" && err == nil && info.Mode().IsRegular() {
			c.Index.CA = f
			break
		}
	}
	return c
}

// fields splits at white space and commas.
func fields(text string) []string {
	return strings.FieldsFunc(text, func(r rune) bool { return r == ' ' || r == ',' || r == '\t' || r == '\n' })
}

// hosts returns the hosts that an installer of a kind may reach, as network rules with
// ports.
func (c Config) hosts(kind string) ([]string, error) {
	urls, public := append([]string{c.Index.URL}, c.Index.Extra...), publicPip
	if kind == "npm" {
		urls, public = []string{c.Index.Registry}, publicNPM
	}
	var list []string
	for _, text := range urls {
		if text == "" {
			continue
		}
		u, err := url.Parse(text)
		if err != nil || u.Hostname() == "" || u.Scheme != "http" && u.Scheme != "https" {
			return nil, &haft.Error{Code: haft.CodeInvalid,
				Message: "the address of the package index that is configured is no http or https URL"}
		}
		host := u.Hostname()
		if strings.Contains(host, ":") {
			host = "[" + host + "]"
		}
		switch {
		case u.Port() != "":
			host += ":" + u.Port()
		case slices.Contains(publicPip, host):
			list = append(list, publicPip...) // its files are on another host
		}
		list = append(list, host)
	}
	if urls[0] == "" {
		list = append(list, public...)
	}
	list = append(list, c.Hosts...)
	slices.Sort(list)
	return slices.Compact(list), nil
}

// proxy makes the proxy of the sandbox of an installer.
func (c Config) proxy(kind string) (*egress.Proxy, error) {
	hosts, err := c.hosts(kind)
	if err != nil {
		return nil, err
	}
	// The operator named these hosts, or uses the public ones. So every address is allowed
	// that the name service of the machine returns for them.
	cfg := egress.Config{Allow: []netip.Prefix{netip.MustParsePrefix("0.0.0.0/0"), netip.MustParsePrefix("::/0")}}
	var rules egress.Rules
	for _, p := range hosts {
		r, err := egress.ParseRule(p)
		if err != nil {
			return nil, err
		}
		rules = append(rules, r)
		cfg.Names = append(cfg.Names, r.Host())
	}
	if c.Index.Proxy != "" {
		if cfg.Via, err = url.Parse(c.Index.Proxy); err != nil || cfg.Via.Hostname() == "" {
			return nil, &haft.Error{Code: haft.CodeInvalid,
				Message: "the proxy for the package index that is configured is no http or https URL"}
		}
	}
	return egress.NewProxy(egress.ProxyConfig{Guard: egress.New(cfg), Rules: rules,
		Limits: egress.Limits{BytesDown: 16 << 30, Requests: 100_000}}), nil
}

// hidden returns the secret parts of the configuration.
func (c Config) hidden() []string {
	var list []string
	for _, text := range append([]string{c.Index.URL, c.Index.Registry, c.Index.Proxy}, c.Index.Extra...) {
		if u, err := url.Parse(text); err == nil && u.User != nil {
			password, _ := u.User.Password()
			for _, s := range []string{u.User.String(), password, url.QueryEscape(password), u.User.Username()} {
				if len(s) >= 4 {
					list = append(list, s)
				}
			}
		}
	}
	for _, kv := range c.Index.Env {
		if _, v, ok := strings.Cut(kv, "="); ok && len(v) >= 4 {
			list = append(list, v)
		}
	}
	// The longest first: one may hold another.
	slices.SortFunc(list, func(a, b string) int { return len(b) - len(a) })
	return list
}
