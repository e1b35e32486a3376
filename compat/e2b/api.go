package e2b

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"maps"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"haft"
	"haft/server"
)

// Prefix is where the control API is, SandboxPrefix where sandboxes are. Signed addresses of files
// that a client makes are below the root, at FilesPath, whatever address it was given.
const (
	Prefix        = "/e2b"
	SandboxPrefix = Prefix + "/sandbox"
	FilesPath     = "/files"
)

// The ports of E2B's own programs in a sandbox.
const (
	envdPort = 49983
	codePort = 49999
)

// Headers that say which sandbox, and which port of it, a request is for, and with which right.
const (
	idHeader      = "E2b-Sandbox-Id"
	portHeader    = "E2b-Sandbox-Port"
	tokenHeader   = "X-Access-Token"
	trafficHeader = "E2b-Traffic-Access-Token"
)

// Config says what the API is made of. All fields are needed but where they say so, and Domain and Limits.
type Config struct {
	// Call makes a call, and passes its events to show in order. It reports whether all of them
	// were shown.
	Call func(ctx context.Context, c haft.Call, show func(haft.Event)) (*haft.Result, bool, error)
	// Cancel ends a call that waits for a person.
	Cancel func(ctx context.Context, p haft.Principal, id haft.CallID) error
	// Sessions, Files, Worker and Ports are the sessions of the server.
	Sessions haft.Sessions
	Files    haft.SessionFiles
	Worker   haft.SessionWorker
	Ports    server.PortDialer
	// Keeper keeps the files of sandboxes in Workspaces. Nil means that none are paused, and that there are no
	// snapshots.
	Keeper     Keeper
	Workspaces haft.Workspaces
	// Key seals what the server writes about paused sandboxes. If it is empty, none is resumed after a restart.
	Key []byte
	// Configs has the templates, in the configuration of the sandbox that sessions are. Nil means that there are none
	// but the server's own.
	Configs haft.Sandboxes
	Sandbox haft.SandboxType
	// Identify authenticates a request to the control API, whose key is in the header
	// Authorization.
	Identify func(w http.ResponseWriter, r *http.Request) (server.Identity, error)
	// Busy returns why a request without a key is not served now. Refused reports a request that was
	// refused because of its token.
	Busy    func(r *http.Request) error
	Refused func(r *http.Request, err error)
	// Recheck returns the principal of a sandbox as its credential is good now, if it still is
	// good for the action.
	Recheck func(ctx context.Context, p haft.Principal, a haft.Action) (haft.Principal, error)
	// Domain is the one below which sandboxes are reached as PORT-ID.DOMAIN; empty means that
	// they are reached by headers only.
	Domain string
	// Limits are those of each sandbox; zero fields get defaults.
	Limits haft.Limits
}

// defaultLimits are those of a sandbox, where they differ from those of a call: its commands run for
// long, and nobody reads their output from a file.
func defaultLimits() haft.Limits {
	return haft.Limits{Wall: haft.Millis(time.Hour), CPU: haft.Millis(time.Hour), Stdout: 16 << 20, Stderr: 16 << 20,
		Result: 16 << 20}
}

// An API serves E2B's clients. It is safe for concurrent use.
//
// Lifecycle: New, ServeHTTP, Close, Wait.
type API struct {
	cfg     Config
	control *http.ServeMux
	inside  *http.ServeMux // what is done in a sandbox

	ctx   context.Context // ends with the API
	close context.CancelFunc
	work  sync.WaitGroup // builds of templates

	recheckEvery time.Duration // how often the key of an open stream is looked up

	mu        sync.Mutex
	sandboxes map[string]*sandbox
	moving    map[boxKey]chan struct{} // sandboxes that are kept, resumed or ended now, until that is over
	builds    []*build                 // the newest last
	// pausedEnv are the variables of sandboxes that this process has paused. They are not kept elsewhere.
	pausedEnv map[boxKey]*variables
	changed   map[string]bool // organisations that were changed; "" is all
	looking   bool            // a goroutine looks at them
}

// New makes an API.
func New(cfg Config) *API {
	cfg.Limits = cfg.Limits.Or(defaultLimits())
	if len(cfg.Key) == 0 {
		cfg.Key = []byte(rand.Text())
	}
	a := &API{cfg: cfg, control: http.NewServeMux(), inside: http.NewServeMux(), sandboxes: map[string]*sandbox{},
		moving: map[boxKey]chan struct{}{}, pausedEnv: map[boxKey]*variables{}, changed: map[string]bool{},
		recheckEvery: 5 * time.Second}
	a.ctx, a.close = context.WithCancel(context.Background())
	controlHandlers{a}.routes()
	processHandlers{a}.routes()
	fileHandlers{a}.routes()
	codeHandlers{a}.routes()
	return a
}

// Close ends all streams, commands and builds of templates. It does not wait for them.
func (a *API) Close() { a.close() }

// Wait waits after Close until templates are what they were before the builds that it has ended: that needs the store.
func (a *API) Wait() { a.work.Wait() }

// Mount adds the API to a server, with which it ends.
func (a *API) Mount(cfg *server.Config) {
	mounts := map[string]http.Handler{}
	maps.Copy(mounts, cfg.Mounts)
	mounts[Prefix+"/"] = http.StripPrefix(Prefix, a.control)
	mounts[SandboxPrefix+"/"] = http.StripPrefix(SandboxPrefix, a)
	mounts[FilesPath] = a
	cfg.Mounts, cfg.ByHost = mounts, a
	noting := cfg.Noting
	cfg.Noting = func(org string) {
		a.Changed(org)
		if noting != nil {
			noting(org)
		}
	}
	leaving := cfg.Leaving
	cfg.Leaving = func() {
		a.Close()
		if leaving != nil {
			leaving()
		}
	}
}

// identify authenticates a request to the control API.
func (a *API) identify(w http.ResponseWriter, r *http.Request, act haft.Action) (haft.Principal, error) {
	asked := r.Clone(r.Context())
	if key := r.Header.Get("X-Api-Key"); key != "" {
		asked.Header.Set("Authorization", "Bearer "+plainKey(key))
	}
	who, err := a.cfg.Identify(w, asked)
	r.Body = asked.Body // that of a signed request is checked while it is read
	if err != nil {
		return haft.Principal{}, err
	}
	return who.Principal, who.Permit(act)
}

// keyMark is what E2B's keys begin with. Older clients refuse a key that does not begin with it and
// go on with hexadecimal digits.
const keyMark = "e2b_"

// plainKey returns a key of Haft as it is, or as it was before it was written in hexadecimal digits.
func plainKey(key string) string {
	if digits, ok := strings.CutPrefix(key, keyMark); ok {
		if plain, err := hex.DecodeString(digits); err == nil {
			return string(plain)
		}
	}
	return key
}

// ServeHTTP serves a request to a sandbox.
func (a *API) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	id, port, err := a.target(r)
	if err == nil {
		if err = a.cfg.Busy(r); err != nil { // a token is nobody's key: not that of an operator either
			a.cfg.Refused(r, err)
		}
	}
	if err != nil {
		faultOf(err).write(w, "")
		return
	}
	var s *sandbox
	if id == "" && r.URL.Path == FilesPath {
		s = a.signer(r) // the address of a file has no other name of its sandbox than its signature
	} else {
		s = a.sandbox(id)
	}
	if s == nil {
		a.cfg.Refused(r, errGone)
		errGone.write(w, id)
		return
	}
	holder, err := a.admit(r, s, port)
	if err != nil {
		a.cfg.Refused(r, err)
		faultOf(err).write(w, id)
		return
	}
	r = r.WithContext(context.WithValue(r.Context(), accessKey{}, access{s, holder}))
	switch port {
	case envdPort, codePort:
		_, pattern := a.inside.Handler(r)
		if pattern == "" || isCode(pattern) != (port == codePort) {
			errNoRoute.write(w, id)
			return
		}
		a.inside.ServeHTTP(w, r)
	default:
		a.servePort(w, r, s, port)
	}
}

// An access is the sandbox of a request, and with whose credential the request is made.
type access struct {
	sandbox *sandbox
	holder  haft.Principal
}

// accessKey is the context key of the access of a request.
type accessKey struct{}

// accessOf returns the access of a request.
func accessOf(ctx context.Context) access {
	got, _ := ctx.Value(accessKey{}).(access)
	return got
}

// sandboxOf returns the sandbox of a request.
func sandboxOf(ctx context.Context) *sandbox { return accessOf(ctx).sandbox }

// target returns which sandbox and port a request is for: as the name of the host says, or else the
// headers.
func (a *API) target(r *http.Request) (id string, port int, err error) {
	if id, port, ok := a.hostTarget(r.Host); ok {
		return id, port, nil
	}
	port = envdPort
	if text := r.Header.Get(portHeader); text != "" {
		port, err = strconv.Atoi(text)
		if err != nil || port < 1 || port > 65535 {
			return "", 0, invalid("a port is a number from 1 to 65535")
		}
	}
	return r.Header.Get(idHeader), port, nil
}

// hostTarget reads a host such as 3000-iabc.example.com.
func (a *API) hostTarget(host string) (id string, port int, ok bool) {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	label, domain, _ := strings.Cut(strings.ToLower(host), ".")
	number, id, found := strings.Cut(label, "-")
	if a.cfg.Domain == "" || !found || domain != a.cfg.Domain {
		return "", 0, false
	}
	port, err := strconv.Atoi(number)
	return id, port, err == nil && port > 0 && port < 65536
}

// Hosts reports whether a request is for a sandbox by the name of its host.
func (a *API) Hosts(r *http.Request) bool {
	_, _, ok := a.hostTarget(r.Host)
	return ok
}

// admit checks the right of a request to do something in a sandbox, and returns whose right it is.
func (a *API) admit(r *http.Request, s *sandbox, port int) (haft.Principal, error) {
	envd, traffic := r.Header.Get(tokenHeader), r.Header.Get(trafficHeader)
	g, found := s.granted(func(g grant) bool {
		return same(envd, g.token) || forTraffic(r, port) && same(traffic, g.traffic)
	})
	switch {
	case found:
		return g.holder, nil
	case port == envdPort && r.URL.Path == "/health":
		return s.owner, nil // it says no more than that the sandbox lives
	case port == envdPort && r.URL.Path == FilesPath && envd == "":
		if sig, ok := readSignature(r); ok {
			if g, found = s.signed(sig, time.Now()); found {
				return g.holder, nil
			}
		}
	}
	return haft.Principal{}, errToken
}

// forTraffic reports whether the token for ports is enough for a request. It runs no code: clients send
// only this token to make, list, restart and end contexts, and both to run code.
func forTraffic(r *http.Request, port int) bool {
	path := r.URL.Path
	return port != envdPort && (port != codePort || path == "/contexts" || strings.HasPrefix(path, "/contexts/"))
}

// same compares two secrets in a time that does not depend on what they have in common.
func same(a, b string) bool {
	x, y := sha256.Sum256([]byte(a)), sha256.Sum256([]byte(b))
	return b != "" && subtle.ConstantTimeCompare(x[:], y[:]) == 1
}

// principal returns on whose behalf a request to a sandbox is made.
func (a *API) principal(ctx context.Context, act haft.Action) (haft.Principal, error) {
	return a.cfg.Recheck(ctx, accessOf(ctx).holder, act)
}

// isCode reports whether a route is one of the port for code.
func isCode(pattern string) bool {
	return strings.Contains(pattern, "/execute") || strings.Contains(pattern, "/contexts")
}
