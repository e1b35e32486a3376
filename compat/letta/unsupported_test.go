package letta_test

import (
	"net/http"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"haft/compat/letta"
)

// notSupported are the rows of the table in docs/letta.md.
func notSupported(t *testing.T) (names []string) {
	t.Helper()
	text, err := os.ReadFile("../../docs/letta.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(text), "\n## Not supported\n")
	section, _, _ = strings.Cut(section, "\n## ")
	for _, m := range regexp.MustCompile(`(?m)^\| ([^|]+) \| [^|]+ \|$`).FindAllStringSubmatch(section, -1) {
		if m[1] != "not here" {
			names = append(names, m[1])
		}
	}
	return names
}

// Whatever Letta's clients send is either a route of Haft's or answered with 501 and a name that the documentation
// lists.
func TestEvery_request_of_the_clients(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("testdata/routes.txt")
	if err != nil {
		t.Fatal(err)
	}
	w, listed := setup(t), notSupported(t)
	if !slices.Equal(listed, letta.AbsentNames()) {
		t.Errorf("docs/letta.md lists %q, and these are not here: %q", listed, letta.AbsentNames())
	}
	n, named := 0, map[string]bool{}
	for line := range strings.Lines(string(text)) {
		f := strings.Fields(line)
		if f[0] == "#" {
			continue
		}
		n++
		method, path := f[1], strings.ReplaceAll(strings.TrimPrefix(f[2], "/v1"), "{id}", "x")
		r, err := http.NewRequestWithContext(t.Context(), method, "http://x"+letta.Prefix+"/v1"+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		if w.api.Action(r) != "" {
			continue
		}
		for _, slash := range []string{"", "/"} {
			a := w.ask(admin, method, path+slash, "")
			_, detail, _ := strings.Cut(a.body, `"detail":"not supported here: `)
			name, _, _ := strings.Cut(detail, ": ")
			if named[name] = true; a.status != 501 || !slices.Contains(listed, name) {
				t.Errorf("letta-client %s, %s %s%s: %d %s", f[0], method, path, slash, a.status, a.body)
			}
		}
	}
	if n < 300 {
		t.Errorf("%d requests", n)
	}
	t.Logf("%d of %d names answer requests of the clients", len(named), len(listed))
}

// What no client sends is not there, and asks for a credential too.
func TestUnsupported_is_no_catch_all(t *testing.T) {
	t.Parallel()
	w := setup(t)
	for what, want := range map[string]int{"GET /nothing": 404, "GET /agents/x/nothing": 404, "GET /foldersx": 404,
		"POST /agents/x": 405, "DELETE /tools": 405, "GET /folders/a/b/c": 501} {
		method, path, _ := strings.Cut(what, " ")
		if a := w.ask(admin, method, path, ""); a.status != want {
			t.Errorf("%s: %d %s", what, a.status, a.body)
		}
	}
	if a := w.ask(nobody, "GET", "/folders/x", ""); a.status != 401 {
		t.Errorf("without a key: %d", a.status)
	}
}

// What supported requests can ask for and is not here is answered with 501, and docs/letta.md lists it by its name.
func TestUnsupported_in_requests(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../docs/letta.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(text), "\n## Not supported\n")
	section, _, _ = strings.Cut(section, "\n## ")
	var listed []string
	row := regexp.MustCompile("(?m)^\\| [^|]+ \\| `([^`]+)`[^|]* \\| [^|]+ \\|$")
	for _, m := range row.FindAllStringSubmatch(section, -1) {
		listed = append(listed, m[1])
	}
	w := setup(t)
	of := "/agents/" + w.hire("helper").ID
	var tried []string
	for _, tt := range []struct{ name, method, path, body string }{
		{"client_tools", "POST", "/messages", `{"input":"x","client_tools":[{"name":"x"}]}`},
		{"tool_return", "POST", "/messages", `{"messages":[{"type":"tool_return","tool_returns":[]}]}`},
		{"tool_return", "POST", "/messages", `{"messages":[{"type":"approval","approvals":[{"type":"tool",` +
			`"tool_call_id":"x","tool_return":"1","status":"success"}]}]}`},
		{"role", "POST", "/messages", `{"messages":[{"role":"system","content":"x"}]}`},
		{"role", "POST", "/messages/stream", `{"messages":[{"type":"message","role":"assistant","content":"x"}]}`},
		{"image", "POST", "/messages", `{"input":[{"type":"image","source":{}}]}`},
		{"override_system", "POST", "/messages", `{"input":"x","override_system":"x"}`},
		{"callback_url", "POST", "/messages/async", `{"input":"x","callback_url":"http://x"}`},
		{"created_at", "POST", "/archival-memory", `{"text":"x","created_at":"2026-01-01T00:00:00Z"}`},
		{"last_stop_reason", "GET", "", ""},
		{"use_legacy_format", "GET", "/export?use_legacy_format=true", ""},
	} {
		path := of + tt.path
		if tt.path == "" {
			path = "/agents/?last_stop_reason=error"
		}
		if a := w.ask(admin, tt.method, path, tt.body); a.status != 501 {
			t.Errorf("%s: %d %s", tt.name, a.status, a.body)
		}
		tried = append(tried, tt.name)
	}
	if tried = slices.Compact(tried); !slices.Equal(listed, tried) {
		t.Errorf("docs/letta.md lists %q, and these are not here: %q", listed, tried)
	}
}
