package app_test

import (
	"cmp"
	"context"
	"encoding/json"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"haft/app"
	"haft/internal/auth"
	"haft/internal/skiptest"
)

// strictDocument writes the document of a server without its answers for every
// other status, with which no answer would be one that it does not have, and
// without the agent on whose behalf a request is, but for one operation: nearly
// all that is sent would be refused for an agent that is not there. Parts of
// paths have the name of something that is there as an example.
func strictDocument(t *testing.T, url string) string {
	t.Helper()
	status, raw := request(t, "", http.MethodGet, url+"/openapi.json", "")
	var doc map[string]any
	if err := json.Unmarshal([]byte(raw), &doc); status != http.StatusOK || err != nil {
		t.Fatalf("the document: %d, %v", status, err)
	}
	operations := 0
	for path, item := range doc["paths"].(map[string]any) {
		for _, o := range item.(map[string]any) {
			op := o.(map[string]any)
			operations++
			delete(op["responses"].(map[string]any), "default")
			parameters := []any{}
			for _, q := range op["parameters"].([]any) {
				p := q.(map[string]any)
				if p["$ref"] != nil && path != "/v1/whoami" {
					continue
				}
				if name, ok := p["name"].(string); ok && p["in"] == "path" {
					collection := strings.Split(path, "/")[2]
					if example := cmp.Or(there[collection], there[name]); example != "" {
						p["example"] = example
					}
				}
				parameters = append(parameters, p)
			}
			op["parameters"] = parameters
		}
	}
	if operations < 50 {
		t.Fatalf("the document has %d operations", operations)
	}
	out, err := json.Marshal(doc)
	if err != nil {
		t.Fatal(err)
	}
	name := filepath.Join(t.TempDir(), "openapi.json")
	if err := os.WriteFile(name, out, 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

// there are the names of what the test makes, by what paths call them or have them in.
var there = map[string]string{"sandbox_configs": "local", "agent": "worker", "ref": "add", "name": "TOKEN",
	"of": "organisation"}

// unfuzzed are the operations that nothing is sent to, and why.
var unfuzzed = []string{
	"watch", // answers with a stream of events that does not end
	"stop",  // is the emergency stop: after it every other call would be refused alike

	"erase-data", // may remove the administrator's own key
}

// An administrator who sends anything at all is answered as the document says, is
// never told of a fault of ours, and is not answered without the key.
func TestOpenAPI_is_what_the_server_does(t *testing.T) {
	program := filepath.Join(skiptest.Part(t, "schemathesis", "schemathesis"), "bin", "schemathesis")
	open(t, app.Config{})
	dir := t.TempDir()
	_, url, stop := startServerWith(t, app.ServerConfig{
		ServiceConfig: app.ServiceConfig{Data: dir},
		// so that each is told 401, and not 429
		Auth: auth.Config{Attempts: auth.Attempts{Failures: 1_000_000}},
	})
	defer stop()
	raw, err := os.ReadFile(filepath.Join(dir, "admin.key"))
	if err != nil {
		t.Fatal(err)
	}
	key := strings.TrimSpace(string(raw))

	// Something for each to find: it goes on with what it is answered.
	for _, c := range []struct{ method, path, body string }{
		{"POST", "/v1/tools",
			`{"source_code":"def add(a: int, b: int) -> int:\n    \"\"\"Add.\n\n    Args:\n        a: One.\n        b: The other.\n    \"\"\"\n    return a + b\n"}`},
		{"PUT", "/v1/agents/worker", `{}`},
		{"PUT", "/v1/agents/worker/tools/add", ``},
		{"POST", "/v1/calls", `{"tool":"add","args":{"a":2,"b":3}}`},
		{"PUT", "/v1/sandbox_configs/local", `{}`},
		{"PUT", "/v1/secrets/TOKEN", `{"value":"not-a-real-secret"}`},
		{"PUT", "/v1/policies/organisation", "version: 1\n"},
		{"POST", "/v1/webhooks", `{"url":"https://hooks.example/in"}`},
	} {
		if status, body := request(t, key, c.method, url+c.path, c.body); status/100 != 2 {
			t.Fatalf("%s %s: %d %s", c.method, c.path, status, body)
		}
	}

	status, body := request(t, key, http.MethodPost, url+"/v1/keys", `{"name":"other"}`)
	var other struct{ ID string }
	if err := json.Unmarshal([]byte(body), &other); status != http.StatusCreated || err != nil {
		t.Fatalf("another key: %d, %v", status, err)
	}
	hooks, err := filepath.Abs(filepath.Join("testdata", "openapi"))
	if err != nil {
		t.Fatal(err)
	}
	args := []string{
		"run", strictDocument(t, url), "--url", url, "--header", "Authorization: Bearer " + key, "--no-color",
		"--checks",
		"not_a_server_error,status_code_conformance,content_type_conformance,response_schema_conformance,ignored_auth",
		"--phases", "examples,coverage,fuzzing", "--max-examples", "10", "--seed", "1", "--generation-database", "none",
		"--suppress-health-check", "all", "--continue-on-failure", "--no-shrink", "--request-timeout", "60",
		"--warnings", "off",
	}
	for _, id := range unfuzzed {
		args = append(args, "--exclude-operation-id", id)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute) // for a machine that is busy
	defer cancel()
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Dir = t.TempDir() // what it leaves behind, and no configuration of somebody else
	cmd.Env = append(os.Environ(), "SCHEMATHESIS_HOOKS=hooks", "PYTHONPATH="+hooks, "PYTHONDONTWRITEBYTECODE=1",
		"OWN_KEY="+strings.Split(key, "_")[1], "OTHER_KEY="+other.ID)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Errorf("schemathesis: %v\n%s", err, out)
	} else {
		t.Logf("%s", out)
	}
	// Without its key it would have been refused everywhere, and have found nothing.
	if status, body := request(t, key, http.MethodGet, url+"/v1/whoami", ""); status != http.StatusOK {
		t.Errorf("the key is not good any more: %d %s", status, body)
	}
}
