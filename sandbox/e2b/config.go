package e2b

import (
	"cmp"
	"fmt"
	"log/slog"
	"net"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"haft"
)

// Config says which server rents the machines. Only Key is needed for E2B itself.
type Config struct {
	// Key is the API key.
	Key string
	// Domain is that of the server; "" means e2b.app. APIURL and SandboxURL replace the addresses that follow from it.
	Domain, APIURL, SandboxURL string
	// Template is what machines are made from; "" means base. It has Python 3 and the interpreters of the tools.
	Template string
	// Level is what the operator says of a server that is not E2B's own; "" means that nothing is known of it.
	Level haft.Level
	// Owner names this Haft among those that use the same key: it reuses and ends the machines of its owner only.
	Owner string
	// Fresh ends a machine after each run.
	Fresh bool
	// Life is how long a machine lives that nobody extends, and Idle how long one is kept without a run.
	Life, Idle time.Duration
	// Max bounds the machines, MaxOfTenant those of one tenant.
	Max, MaxOfTenant int
	// Logger gets messages that an operator can act on. Nil discards them.
	Logger *slog.Logger
}

// FromEnv reads a configuration from variables: those of E2B's own clients, and HAFT_E2B_TEMPLATE, HAFT_E2B_ISOLATION,
// HAFT_E2B_FRESH and HAFT_E2B_MAX. It is not configured without a key.
func FromEnv(getenv func(string) string) (Config, error) {
	c := Config{Key: getenv("E2B_API_KEY"), Domain: getenv("E2B_DOMAIN"), APIURL: getenv("E2B_API_URL"),
		SandboxURL: getenv("E2B_SANDBOX_URL"), Template: getenv("HAFT_E2B_TEMPLATE"),
		Level: haft.Level(getenv("HAFT_E2B_ISOLATION")), Fresh: getenv("HAFT_E2B_FRESH") != ""}
	if text := getenv("HAFT_E2B_MAX"); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 {
			return c, &haft.Error{Code: haft.CodeInvalid, Message: "HAFT_E2B_MAX is no number of machines from 1 on"}
		}
		c.Max = n
	}
	return c, nil
}

// ownDomain is that of E2B itself, whose sandboxes are virtual machines.
const ownDomain = "e2b.app"

// check completes a configuration, and reports what is wrong with it.
func (c Config) check() (Config, error) {
	if c.Key == "" {
		return c, &haft.Error{Code: haft.CodeUnavailable, Message: "E2B has no key here: set E2B_API_KEY"}
	}
	if strings.ContainsFunc(c.Key, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return c, invalid("E2B_API_KEY is not a key: it has blanks or other characters than ASCII")
	}
	c.Domain, c.Template = cmp.Or(c.Domain, ownDomain), cmp.Or(c.Template, "base")
	if !isHost(c.Domain) {
		return c, invalid("E2B_DOMAIN is not a domain")
	}
	own := c.Domain == ownDomain && c.APIURL == "" && c.SandboxURL == ""
	switch {
	case own && c.Level != "":
		return c, invalid("HAFT_E2B_ISOLATION is for a server that is not E2B's own: the level of E2B is known")
	case own:
		c.Level = haft.LevelMachine
	case c.Level == "":
		c.Level = haft.LevelNone
	}
	if !slices.Contains(haft.Levels(), c.Level) {
		return c, invalid(fmt.Sprintf("HAFT_E2B_ISOLATION is one of %v", haft.Levels()))
	}
	c.APIURL = strings.TrimSuffix(cmp.Or(c.APIURL, "https://api."+c.Domain), "/")
	for name, text := range map[string]string{"E2B_API_URL": c.APIURL, "E2B_SANDBOX_URL": c.SandboxURL} {
		if text == "" {
			continue
		}
		u, err := url.Parse(text)
		if err != nil || u.Host == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" {
			return c, invalid(name + " is not an address, such as https://api.example.com")
		}
		ip := net.ParseIP(u.Hostname())
		local := u.Hostname() == "localhost" || ip.IsLoopback()
		if u.Scheme != "https" && !(u.Scheme == "http" && local) {
			return c, invalid(name + " is not https: the key would be sent in the clear")
		}
	}
	c.SandboxURL = strings.TrimSuffix(c.SandboxURL, "/")
	c.Life = cmp.Or(c.Life, 5*time.Minute)
	return c, nil
}

// isHost reports whether text can be the name of a host, with a port or without.
func isHost(text string) bool {
	return text != "" && len(text) <= 255 && !strings.ContainsFunc(text, func(r rune) bool {
		return !(r >= 'a' && r <= 'z' || r >= '0' && r <= '9' || r == '.' || r == '-' || r == ':')
	})
}

// isID reports whether text can be the id of a sandbox: it becomes a part of addresses.
func isID(text string) bool {
	return text != "" && len(text) <= 64 && !strings.ContainsFunc(text, func(r rune) bool {
		return !(r >= 'a' && r <= 'z' || r >= '0' && r <= '9')
	})
}

// invalid is an error of the configuration.
func invalid(message string) error { return &haft.Error{Code: haft.CodeInvalid, Message: message} }
