package soak

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"haft/internal/skiptest"
)

// userTools are Python and TypeScript tools that each organisation has. HOST is replaced.
var userTools = []map[string]any{
	{"name": "double", "source_type": "python", "source_code": `def double(n: int) -> int:
    """Doubles a number.

    Args:
        n: the number
    """
    return 2 * n
`},
	{"name": "triple", "source_type": "typescript", "source_code": `/** Triples a number.
 * @param n the number
 */
export function triple(n: number): number { return 3 * n }
`},
	{"name": "shop", "source_type": "python", "settings": map[string]any{"network": []string{"HOST"}},
		"source_code": `import urllib.request

def shop(n: int) -> str:
    """Asks a host by its name.

    Args:
        n: what to ask for
    """
    with urllib.request.urlopen(f"http://HOST/{n}", timeout=10) as answer:
        return answer.read().decode()
`},
	{"name": "hog", "source_type": "python",
		"settings": map[string]any{"limits": map[string]any{"memory_bytes": 64 << 20}},
		"source_code": `def hog(n: int) -> int:
    """Takes more memory than it may have.

    Args:
        n: a number
    """
    return len(b"x" * (256 << 20)) + n
`},
}

// A useOf says how a tool is called with the number n, and what it must answer.
type useOf struct {
	label, tool string
	args        func(c *usersWorld, n int) any
	at          string // the member of the value that is compared; the value itself if empty
	want        func(n int) string
	often       int // of all calls, in relation to the others
	byName      bool
}

// mcpLabel is the label of the tool of an MCP server.
const mcpLabel = "MCP"

// uses are the tools that users choose from.
var uses = []useOf{
	{label: "Python", tool: "double", args: number, want: times(2), often: 30},
	{label: "Node", tool: "triple", args: number, want: times(3), often: 8},
	{label: mcpLabel, tool: "fx__once", often: 30, want: strconv.Itoa,
		args: func(_ *usersWorld, n int) any { return arguments{Key: strconv.Itoa(n)} }},
	{label: "built-in, in a sandbox", tool: "run_code", at: "stdout", often: 12,
		args: func(_ *usersWorld, n int) any {
			return map[string]any{"language": "bash", "code": fmt.Sprintf("echo $((%d * 7))", n)}
		}, want: func(n int) string { return fmt.Sprintln(n * 7) }},
	{label: "built-in, by name", tool: "http_request", at: "body", often: 10, byName: true,
		args: func(c *usersWorld, n int) any {
			return map[string]any{"method": "GET", "url": fmt.Sprintf("http://%s/%d", c.shop, n)}
		}, want: soldIn},
	{label: "Python, by name", tool: "shop", args: number, want: soldIn, often: 10, byName: true},
}

// hog is a tool that passes its memory limit, which nobody chooses by chance.
var hog = useOf{label: "hog", tool: "hog", args: number}

func number(_ *usersWorld, n int) any { return map[string]any{"n": n} }

func times(factor int) func(n int) string {
	return func(n int) string { return strconv.Itoa(factor * n) }
}

func soldIn(n int) string { return fmt.Sprintf("item %d of the shop", n) }

// A sight is one call as its user saw it.
type sight struct {
	number          int
	tool            string
	byName          bool
	asked, answered time.Time
	// what is success, the status and the kind of failure of another result, the HTTP status of a refusal, or noAnswer.
	what   string
	reason string // of what is no success: what the server said, or what the client found
	detail string // the whole answer
	wrong  bool   // success with a value that is not the answer to the argument
}

// success and noAnswer are two of what a user can see.
const success, noAnswer = "success", "no answer"

// A usersWorld is one server with its users, and what they have seen.
type usersWorld struct {
	*world
	form   usersForm
	data   string
	temp   string
	shop   string // host and port of an HTTP server
	names  *nameServer
	proxy  *databaseProxy
	keys   []string // of users
	client *http.Client
	calls  atomic.Int64 // a number for each

	killed, killedGroups []string // processes and cgroups of a server that was killed

	mu   sync.Mutex
	open map[int]time.Time // when calls were made that have no answer yet
	seen []sight
}

// newUsersWorld starts a server on a small file system, or on a Postgres behind a proxy, with organisations, tools and
// users.
func newUsersWorld(t *testing.T, set settings, form usersForm, postgres bool) *usersWorld {
	t.Helper()
	w := &world{t: t, ctx: t.Context(), set: set, dir: t.TempDir(), latest: map[string]Sighting{}}
	c := &usersWorld{world: w, form: form, data: filepath.Join(w.dir, "data"), temp: filepath.Join(w.dir, "tmp"),
		open: map[int]time.Time{}}
	w.must(os.Mkdir(c.data, 0o700))
	w.must(os.Mkdir(c.temp, 0o755))
	w.must(os.Chmod(w.dir, 0o755)) // sandboxes have a user of their own
	w.tool = startTool(t)
	c.client = &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 128, IdleConnTimeout: 5 * time.Second}}
	t.Cleanup(c.client.CloseIdleConnections)
	web := httptest.NewUnstartedServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(rw, "item "+strings.TrimPrefix(r.URL.Path, "/")+" of the shop") // or they have left
	}))
	web.Config.SetKeepAlivesEnabled(false) // each request looks its host up
	web.Start()
	t.Cleanup(web.Close)
	_, port, _ := strings.Cut(web.Listener.Addr().String(), ":")
	c.shop = "localhost:" + port
	w.env = []string{"HOME=" + w.dir, "PATH=" + os.Getenv("PATH"), "TMPDIR=" + c.temp, "HAFT_LOCK_WAIT=10s",
		"HAFT_MCP_ALLOW=127.0.0.1/32", "HAFT_MCP_NAMES=127.0.0.1", "HAFT_ALLOW_RANGES=127.0.0.0/8"}
	w.sc.serve = []string{"--drain", "5s"}
	if postgres {
		c.proxy = startProxy(t, openDatabase(t))
		w.db = &database{url: c.proxy.url}
		w.env = append(w.env, masterKey())
	} else {
		smallDisk(form.disk)(t, c.data)
		t.Run("name server", func(t2 *testing.T) { c.withNames(t, t2, port) })
	}
	for i := range form.orgs {
		org := "local"
		if i > 0 {
			org = fmt.Sprintf("tenant%d", i)
		}
		text := w.command(c.data, "key", "create", "--org", org, "--for-user", "soak", "--role", "admin")
		w.tenants = append(w.tenants, tenant{org, strings.TrimSpace(text)})
	}
	w.addNode(c.data, 0)
	w.put(w.tenants[0], "/v1/policies/server", "application/yaml",
		"version: 1\nroles:\n  admin: [\"tool:*\"]\n  member: [\"tool:*\"]\n")
	for _, who := range w.tenants {
		c.equip(who)
	}
	w.crowd(form.users, func(i int, who tenant) {
		var key struct{ Secret string }
		c.post(who, "/v1/keys", map[string]any{"user": fmt.Sprintf("user%d", i), "roles": []string{"member"}}, &key)
		c.mu.Lock()
		defer c.mu.Unlock()
		c.keys = append(c.keys, key.Secret)
	})
	return c
}

// withNames has the server run in a mount namespace in which /etc/resolv.conf names a DNS server of the test. All is
// made for t; where it is not possible, inner is skipped, and the server finds its host by the name localhost.
func (c *usersWorld) withNames(t, inner *testing.T, port string) {
	conf, script := filepath.Join(c.dir, "resolv.conf"), filepath.Join(c.dir, "haft-with-names")
	const text = `#!/bin/sh
exec unshare --mount /bin/sh -c 'mount --bind "$0" /etc/resolv.conf && exec "$@"' %q %q "$@"
`
	// The address is not known yet, and this shows whether a mount namespace can be had.
	c.must(os.WriteFile(conf, []byte("nameserver 127.77.0.1\n"), 0o644))
	c.must(os.WriteFile(script, fmt.Appendf(nil, text, conf, c.set.binary), 0o755))
	if out, err := exec.CommandContext(c.ctx, script, "version").CombinedOutput(); err != nil {
		skiptest.Lacking(inner, "mount",
			fmt.Sprintf("no mount namespace with its own /etc/resolv.conf: %v %s", err, out))
	}
	var names *nameServer
	inner.Run("port 53", func(t2 *testing.T) { names = startNames(t, t2) })
	if names == nil {
		return
	}
	c.must(os.WriteFile(conf, fmt.Appendf(nil, "nameserver %s\noptions timeout:1\n", names.address), 0o644))
	c.names, c.set.binary, c.shop = names, script, shopName+":"+port
}

// equip gives an organisation the tools.
func (c *usersWorld) equip(who tenant) {
	c.t.Helper()
	c.put(who, "/v1/mcp_servers/fx", "application/json", fmt.Sprintf(`{"url": %q}`, c.tool.url))
	for _, draft := range userTools {
		raw, err := json.Marshal(draft)
		c.must(err)
		var body any
		c.must(json.Unmarshal([]byte(strings.ReplaceAll(string(raw), "HOST", c.shop)), &body))
		c.post(who, "/v1/tools", body, new(any))
	}
}

// post makes something, which must work.
func (c *usersWorld) post(who tenant, path string, body, to any) {
	raw, err := json.Marshal(body)
	if err == nil {
		var res *http.Response
		res, raw, err = do(c.ctx, c.nodes[0], who, http.MethodPost, path, "application/json", string(raw))
		if err == nil && res.StatusCode >= 300 {
			err = fmt.Errorf("POST %s: %s %s", path, res.Status, raw)
		}
	}
	if err == nil {
		err = json.Unmarshal(raw, to)
	}
	if err != nil {
		c.t.Error(err) // not of the test's goroutine alone
	}
}

// work has all users call until during returns, and returns when the last call is answered.
func (c *usersWorld) work(during func()) {
	stop := make(chan struct{})
	var group sync.WaitGroup
	for i, key := range c.keys {
		group.Go(func() {
			dice := rand.New(rand.NewPCG(seed, uint64(i)))
			for c.think(dice, stop) {
				c.call(key, choose(dice))
			}
		})
	}
	during()
	close(stop)
	group.Wait()
}

// seed makes what users choose the same in each run. When they choose it depends on the machine.
const seed = 22

// think waits for the time between two calls, exponentially distributed, and reports whether to go on.
func (c *usersWorld) think(dice *rand.Rand, stop <-chan struct{}) bool {
	wait := time.NewTimer(min(time.Duration(dice.ExpFloat64()*float64(c.form.think)), 10*c.form.think))
	defer wait.Stop()
	select {
	case <-wait.C:
		return true
	case <-stop:
		return false
	}
}

// choose chooses a tool by chance.
func choose(dice *rand.Rand) useOf {
	all := 0
	for _, u := range uses {
		all += u.often
	}
	n := dice.IntN(all)
	for _, u := range uses {
		if n -= u.often; n < 0 {
			return u
		}
	}
	return uses[0]
}

// userPatience is longer than a server waits for a store that is away.
const userPatience = 45 * time.Second

// call makes one call and notes what its user sees.
func (c *usersWorld) call(key string, use useOf) {
	n := int(c.calls.Add(1)) + 1_000_000
	s := sight{number: n, tool: use.label, byName: use.byName, asked: time.Now(), what: noAnswer}
	c.mu.Lock()
	c.open[n] = s.asked
	c.mu.Unlock()
	raw, err := json.Marshal(map[string]any{"tool": use.tool, "args": use.args(c, n), "wait": true})
	c.noError(err)
	ctx, cancel := context.WithTimeout(c.ctx, userPatience)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.nodes[0].base()+"/v1/calls",
		strings.NewReader(string(raw)))
	c.noError(err)
	req.Header.Set("Authorization", "Bearer "+key)
	req.Header.Set("Content-Type", "application/json")
	res, err := c.client.Do(req)
	if err == nil {
		raw, err = io.ReadAll(res.Body)
		_ = res.Body.Close() // it was read
	}
	if s.answered = time.Now(); err != nil {
		s.detail = err.Error()
		s.reason = s.detail[strings.LastIndex(s.detail, ": ")+1:]
	} else {
		s.read(use, n, res, raw)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.open, n)
	c.seen = append(c.seen, s)
}

// noError fails the test, and not only the goroutine of a user.
func (c *usersWorld) noError(err error) {
	if err != nil {
		c.t.Error(err)
	}
}

// read says what an answer means for the user.
func (s *sight) read(use useOf, n int, res *http.Response, raw []byte) {
	var answer struct {
		Status string
		Value  json.RawMessage
		Error  *struct{ Kind, Message string }
		Detail string
	}
	err := json.Unmarshal(raw, &answer)
	if s.reason = answer.Detail; answer.Error != nil {
		s.reason = answer.Error.Message
	}
	if s.detail = shorten(string(raw)); res.StatusCode != http.StatusOK || err != nil {
		s.what = strconv.Itoa(res.StatusCode)
		if (res.StatusCode == 429 || res.StatusCode == 503) && res.Header.Get("Retry-After") == "" {
			s.what += " without Retry-After"
		}
		return
	}
	if s.what = answer.Status; s.what != success {
		if answer.Error != nil && answer.Error.Kind != answer.Status {
			s.what += ": " + answer.Error.Kind
		}
		return
	}
	s.wrong = use.want == nil || valueAt(answer.Value, use.at) != use.want(n)
	if !s.wrong {
		s.detail = ""
	}
}

// valueAt returns a member of a value, or the value, as text.
func valueAt(raw json.RawMessage, member string) string {
	if member != "" {
		var object map[string]json.RawMessage
		if json.Unmarshal(raw, &object) != nil {
			return string(raw)
		}
		raw = object[member]
	}
	var text string
	if json.Unmarshal(raw, &text) == nil {
		return text
	}
	return string(raw)
}
