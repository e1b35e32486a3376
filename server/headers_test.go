package server_test

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"haft"
	"haft/server"
)

// headerAPI honours one header at one address.
type headerAPI struct{ got chan string }

func (headerAPI) Action(*http.Request) haft.Action { return haft.ToolsRead }

func (d headerAPI) Serve(_ http.ResponseWriter, r *http.Request, who server.Identity) {
	d.got <- r.Header.Get(server.TurnHeader) + who.Principal.Agent
}

func (headerAPI) Headers(r *http.Request) []string {
	if r.URL.Path == "/other/turn" {
		return []string{server.TurnHeader}
	}
	return nil
}

func TestHeaders_that_nobody_honours_are_refused(t *testing.T) {
	api := headerAPI{make(chan string, 1)}
	w := setup(t, func(c *server.Config) {
		c.APIs = map[string]server.API{"/other/": api}
		c.Mounts = map[string]http.Handler{"/mount": http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.WriteHeader(http.StatusNoContent)
		})}
		c.Headers = map[string][]string{"/mount": {server.AgentHeader}}
	})
	w.tool("f", "")
	w.must(201, admin, "POST", "/v1/agents", `{"name":"smith","tools":["f"]}`)
	for _, c := range []struct {
		name, method, path, body, header, value string
		status                                  int
		says                                    string
	}{
		{"agent of the API", "GET", "/v1/tools", "", "Haft-Agent", "smith", 400,
			"Haft-Agent has no meaning at this address; name the agent in the query, ?as=NAME"},
		{"in another case", "GET", "/v1/tools", "", "hAFT-aGENT", "smith", 400, "Haft-Agent"},
		{"with an underscore", "GET", "/v1/tools", "", "haft_agent", "smith", 400, "has no meaning"},
		{"turn of the API", "POST", "/v1/calls", `{"tool":"f"}`, "X-Haft-Turn", "t", 400, "X-Haft-Turn"},
		{"one that there is not", "GET", "/v1/whoami", "", "Haft-Org", "evil", 400, "Haft-Org"},
		{"a name that may be a value", "GET", "/v1/whoami", "", "Haft-" + strings.Repeat("a", 100), "1", 400,
			"that begins with Haft-"},
		{"at no address", "GET", "/nothing", "", "Haft-Agent", "smith", 400, "Haft-Agent"},
		{"of a probe", "GET", "/healthz", "", "Haft-Agent", "smith", 400, "Haft-Agent"},
		{"of another route of an API", "GET", "/other/other", "", "X-Haft-Turn", "t", 400, "X-Haft-Turn"},
		{"of an API that honours another", "GET", "/other/turn", "", "Haft-Agent", "smith", 400, "Haft-Agent"},
		{"empty where it is honoured", "GET", "/mount", "", "Haft-Agent", " ", 400, "once"},
		{"too long where it is honoured", "GET", "/mount", "", "Haft-Agent", strings.Repeat("a", 201), 400,
			"200 characters"},
		{"where it is honoured", "GET", "/mount", "", "Haft-Agent", "smith", 204, ""},
		{"key of a batch", "POST", "/v1/calls/batch", `{"calls":[{"tool":"f"}]}`, "Idempotency-Key", "k", 400,
			"Idempotency-Key has no meaning for this operation"},
		{"key of a plan", "POST", "/v1/chains", `{"steps":[{"id":"a","tool":"f"}]}`, "Idempotency-Key", "k", 400,
			"Idempotency-Key"},
		{"key of what a model returned", "POST", "/v1/tool_calls", `{}`, "Idempotency-Key", "k", 400,
			"Idempotency-Key"},
		{"key of a call", "POST", "/v1/calls", `{"tool":"f"}`, "Idempotency-Key", "k", 200, ""},
		{"condition of a secret", "PUT", "/v1/secrets/A", `{"value":"x"}`, "If-Match", `"x"`, 400, "If-Match"},
		{"condition of a new key", "POST", "/v1/keys", `{"user":"ann"}`, "If-None-Match", "*", 400, "If-None-Match"},
		{"condition by time", "PUT", "/v1/agents/smith", `{}`, "If-Unmodified-Since", "Mon, 01 Jan 2024 00:00:00 GMT",
			400, "If-Unmodified-Since"},
		{"condition that holds", "PUT", "/v1/agents/neo", `{}`, "If-None-Match", "*", 201, ""},
		{"what browsers send", "GET", "/v1/tools", "", "If-Modified-Since", "Mon, 01 Jan 2024 00:00:00 GMT", 200, ""},
		{"what others send", "GET", "/v1/tools", "", "X-Stainless-Lang", "js", 200, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			a := w.ask(admin, c.method, c.path, c.body, c.header, c.value)
			if a.status != c.status || !strings.Contains(string(a.body), c.says) {
				t.Errorf("got %d %s", a.status, a.body)
			}
			if c.status == 400 {
				problemOf(t, a)
			}
		})
	}
	w.must(200, admin, "GET", "/other/turn", "", "X-Haft-Turn", "t1")
	if got := <-api.got; got != "t1" {
		t.Errorf("the API got %q", got)
	}
}

// Who names an agent is never more than the agent, however it is spelled.
func TestAgent_in_the_query(t *testing.T) {
	api := headerAPI{make(chan string, 1)}
	w := setup(t, func(c *server.Config) { c.APIs = map[string]server.API{"/other/": api} })
	var smith haft.Agent
	w.must(201, admin, "POST", "/v1/agents", `{"name":"smith"}`).into(t, &smith)
	for query, status := range map[string]int{"as=smith": 200, "%61s=smith": 200, "as=%73mith": 200, "as=": 422,
		"as": 422, "as=smith&as=": 422, "as=smith&as=smith": 422, "as=none": 404, "aS=smith": 422} {
		a := w.ask(admin, "GET", "/v1/whoami?"+query, "")
		if a.status != status {
			t.Errorf("%s: %d %s", query, a.status, a.body)
			continue
		}
		if self := (server.Self{}); status == 200 {
			if a.into(t, &self); self.Principal.Agent != string(smith.ID) {
				t.Errorf("%s is %+v", query, self.Principal)
			}
		}
	}
	w.must(200, admin, "GET", "/other/x?as=smith", "")
	if got := <-api.got; got != string(smith.ID) {
		t.Errorf("at an API it is %q", got)
	}
	if a := w.ask(user, "GET", "/other/x?as=smith", ""); a.status != 403 {
		t.Errorf("somebody who may not act as the agent: %d %s", a.status, a.body)
	}
}

// A client that is gone has nothing done for it.
func TestRequests_of_a_client_that_is_gone(t *testing.T) {
	w := setup(t, nil)
	w.tool("f", "")
	gone, leave := context.WithCancel(t.Context())
	leave()
	for path, body := range map[string]string{
		"/v1/calls/batch": `{"calls":[` + strings.TrimSuffix(strings.Repeat(`{"tool":"f"},`, 128), ",") + `]}`,
		"/v1/chains":      `{"background":true,"steps":[{"id":"a","tool":"f"}]}`,
	} {
		r := httptest.NewRequestWithContext(gone, "POST", path, strings.NewReader(body))
		r.Host = "localhost"
		r.Header.Set("Authorization", "Bearer "+admin)
		if got := serve(w.server.Handler(), r); got.status != 503 || got.bytes > 1<<20 {
			t.Errorf("%s: %d, %d bytes: %s", path, got.status, got.bytes, got.body)
		}
	}
	var calls server.Page[haft.Record]
	if w.must(200, admin, "GET", "/v1/calls", "").into(t, &calls); len(calls.Data) != 0 {
		t.Errorf("%d calls were made", len(calls.Data))
	}
}

// What the documents name is there: headers of Haft are honoured somewhere or are
// those of answers, and parameters are those of the operation.
func TestDocs_name_what_there_is(t *testing.T) {
	honoured := []string{server.AgentHeader, server.TurnHeader}
	sent := []string{"X-Haft-Timestamp", "X-Haft-Signature", "X-Haft-Refused"} // by us
	w := setup(t, nil)
	var doc struct {
		Paths map[string]map[string]struct {
			Parameters []struct{ Name, In, Ref string }
		}
	}
	if err := json.Unmarshal(w.server.OpenAPI(), &doc); err != nil {
		t.Fatal(err)
	}
	takes := func(path, name string) bool {
		for pattern, item := range doc.Paths {
			ok, err := regexp.MatchString("^"+regexp.MustCompile(`\{[a-z]+\}`).ReplaceAllString(pattern, "[^/?]+")+"$",
				path)
			if err != nil {
				t.Fatal(err)
			}
			for _, op := range item {
				for _, p := range op.Parameters {
					if ok && (p.In == "query" && p.Name == name || name == "as") {
						return true
					}
				}
			}
		}
		return false
	}
	var files []string
	for _, pattern := range []string{"../docs/*.md", "../README.md", "../clients/*/README.md", "../AGENTS.md"} {
		found, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, found...)
	}
	header := regexp.MustCompile(`\b(?:X-)?Haft-[A-Z][A-Za-z-]+`)
	query := regexp.MustCompile(`(/v1/[A-Za-z_/]+)\?([a-z_]+=[^\s"'` + "`" + `#)]*)`)
	row := regexp.MustCompile("(?m)^\\| `(/v1/[a-z_/]+)` \\| (.*?) \\| (.*?) \\|$")
	name := regexp.MustCompile("`([a-z_]+)[=`]")
	order := regexp.MustCompile("`([a-z_]+)=")
	headers, parameters := 0, 0
	for _, file := range files {
		raw, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, h := range header.FindAllString(string(raw), -1) {
			if headers++; !slices.Contains(slices.Concat(honoured, sent), h) {
				t.Errorf("%s names the header %s, which nobody honours", file, h)
			}
		}
		for _, m := range query.FindAllStringSubmatch(string(raw), -1) {
			for part := range strings.SplitSeq(m[2], "&") {
				key, _, _ := strings.Cut(part, "=")
				if parameters++; !takes(m[1], key) {
					t.Errorf("%s names the parameter %s of %s, which it does not take", file, key, m[1])
				}
			}
		}
		for _, m := range row.FindAllStringSubmatch(string(raw), -1) {
			filters := name.FindAllStringSubmatch(m[2], -1)
			for _, n := range append(filters, order.FindAllStringSubmatch(m[3], -1)...) {
				if parameters++; !takes(m[1], n[1]) {
					t.Errorf("%s names the filter %s of %s, which it does not take", file, n[1], m[1])
				}
			}
		}
	}
	if headers < 2 || parameters < 20 {
		t.Errorf("only %d headers and %d parameters were found in the documents", headers, parameters)
	}
}
