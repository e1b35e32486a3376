package modal

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

// Config says whose sandboxes of Modal are used, and what is in them. The two tokens have to be there.
type Config struct {
	// TokenID and TokenSecret are those of Modal's own clients.
	TokenID, TokenSecret string
	// Server is the address of the API; "" is Modal's. Modal's SDK takes it from MODAL_SERVER_URL only, and so does
	// [FromEnv]: it is here to be checked.
	Server string
	// App is the app of Modal that sandboxes belong to (haft). Image is the container image that they are made from
	// (python:3.13-slim). It has Python 3 and the interpreters of the tools.
	App, Image string
	// VM asks for virtual machines and not for gVisor.
	VM bool
	// Level is what the operator says of a server that is not Modal's own; "" means that nothing is known of it.
	Level haft.Level
	// Owner names this Haft among those that use the same account: it reuses and ends the machines of its owner only.
	Owner string
	// Fresh ends a machine after each run.
	Fresh bool
	// Life is how long a machine lives besides its first run (1 hour), and Idle how long one is kept without a run
	// (2 minutes).
	Life, Idle time.Duration
	// Max bounds the machines, MaxOfTenant those of one tenant.
	Max, MaxOfTenant int
	// Logger gets messages that an operator can act on. Nil discards them.
	Logger *slog.Logger
}

// FromEnv reads a configuration from variables: those of Modal's own clients, and HAFT_MODAL_APP, HAFT_MODAL_IMAGE,
// HAFT_MODAL_RUNTIME, HAFT_MODAL_ISOLATION, HAFT_MODAL_FRESH and HAFT_MODAL_MAX. A profile in a file is not read.
func FromEnv(getenv func(string) string) (Config, error) {
	c := Config{TokenID: getenv("MODAL_TOKEN_ID"), TokenSecret: getenv("MODAL_TOKEN_SECRET"),
		Server: getenv("MODAL_SERVER_URL"), App: getenv("HAFT_MODAL_APP"), Image: getenv("HAFT_MODAL_IMAGE"),
		Level: haft.Level(getenv("HAFT_MODAL_ISOLATION")), Fresh: getenv("HAFT_MODAL_FRESH") != ""}
	switch runtime := getenv("HAFT_MODAL_RUNTIME"); runtime {
	case "", "gvisor":
	case "vm":
		c.VM = true
	default:
		return c, invalid("HAFT_MODAL_RUNTIME is gvisor or vm")
	}
	if text := getenv("HAFT_MODAL_MAX"); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 {
			return c, invalid("HAFT_MODAL_MAX is no number of machines from 1 on")
		}
		c.Max = n
	}
	return c, nil
}

// ownServer is the address of Modal's own API.
const ownServer = "https://api.modal.com:443"

// check completes a configuration, and reports what is wrong with it.
func (c Config) check() (Config, error) {
	for name, token := range map[string]string{"MODAL_TOKEN_ID": c.TokenID, "MODAL_TOKEN_SECRET": c.TokenSecret} {
		if c.TokenID == "" || c.TokenSecret == "" {
			return c, &haft.Error{Code: haft.CodeUnavailable,
				Message: "Modal has no token here: set MODAL_TOKEN_ID and MODAL_TOKEN_SECRET"}
		}
		if strings.ContainsFunc(token, func(r rune) bool { return r <= ' ' || r > '~' }) {
			return c, invalid(name + " is not a token: it has blanks or other characters than ASCII")
		}
	}
	c.Server, c.App, c.Image = cmp.Or(c.Server, ownServer), cmp.Or(c.App, "haft"), cmp.Or(c.Image, "python:3.13-slim")
	if strings.ContainsFunc(c.Image, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return c, invalid("HAFT_MODAL_IMAGE is not the name of an image") // it becomes a line of a Dockerfile
	}
	stated := c.Level != ""
	if !stated {
		c.Level = haft.LevelNone
		if c.Server == ownServer && c.VM {
			c.Level = haft.LevelMachine
		} else if c.Server == ownServer {
			c.Level = haft.LevelKernel
		}
	}
	if !slices.Contains(haft.Levels(), c.Level) {
		return c, invalid(fmt.Sprintf("HAFT_MODAL_ISOLATION is one of %v", haft.Levels()))
	}
	u, err := url.Parse(c.Server)
	if err != nil || u.Host == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" || u.Path != "" {
		return c, invalid("MODAL_SERVER_URL is not an address, such as https://api.example.com:443")
	}
	if host := strings.ToLower(u.Hostname()); stated && (host == "modal.com" || strings.HasSuffix(host, ".modal.com")) {
		return c, invalid("HAFT_MODAL_ISOLATION is for a server that is not Modal's own: the level of Modal is known")
	}
	// The SDK speaks without TLS to http, and to all machines of a server that has one of these addresses.
	local := u.Hostname() == "localhost" || net.ParseIP(u.Hostname()).IsLoopback()
	if u.Scheme != "https" && !(u.Scheme == "http" && local) || u.Hostname() == "172.21.0.1" {
		return c, invalid("MODAL_SERVER_URL is not https: the token and the code would be sent in the clear")
	}
	if u.Scheme == "https" && local {
		return c, invalid("MODAL_SERVER_URL is https on this machine: the SDK would speak without TLS to its machines")
	}
	c.Life, c.Idle = cmp.Or(c.Life, time.Hour), cmp.Or(c.Idle, 2*time.Minute)
	return c, nil
}

// invalid is an error of the configuration.
func invalid(message string) error { return &haft.Error{Code: haft.CodeInvalid, Message: message} }
