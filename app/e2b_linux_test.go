package app_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"haft"
	"haft/app"
	"haft/internal/skiptest"
	"haft/sandbox/gvisor"
)

// startE2B starts a server, and returns what E2B's clients need to know of it.
func startE2B(t *testing.T) (url, key string) {
	t.Helper()
	return startE2BIn(t, app.Config{})
}

// startE2BIn is startE2B with the sandbox of a configuration.
func startE2BIn(t *testing.T, cfg app.Config) (url, key string) {
	t.Helper()
	open(t, cfg)
	dir := t.TempDir()
	_, url, stop := startServerWith(t, app.ServerConfig{ServiceConfig: app.ServiceConfig{Config: cfg, Data: dir}})
	t.Cleanup(stop)
	raw, err := os.ReadFile(filepath.Join(dir, "admin.key"))
	if err != nil {
		t.Fatal(err)
	}
	return url, strings.TrimSpace(string(raw))
}

// runE2B runs a program with nothing changed but its environment. Its last line says how many of its
// behaviours were as they should be.
func runE2B(t *testing.T, url, key, program, script string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute) // for a machine that is busy
	defer cancel()
	cmd := exec.CommandContext(ctx, program, filepath.Join("..", "compat", "e2b", "testdata", script))
	cmd.Env = append(os.Environ(), "E2B_API_URL="+url+"/e2b", "E2B_SANDBOX_URL="+url+"/e2b/sandbox",
		"E2B_API_KEY="+key, "CLIENTS="+skiptest.Part(t, "e2b", "e2bjs"))
	out, err := cmd.CombinedOutput()
	lines := strings.Split(strings.TrimSpace(string(out)), "\n")
	var good, all int
	if _, read := fmt.Sscanf(lines[len(lines)-1], "%d of %d", &good, &all); err != nil || read != nil || good != all {
		t.Errorf("%s: %v\n%s", script, err, out)
	}
	t.Log(lines[len(lines)-1])
}

// E2B's own clients work with nothing but their addresses and their key changed.
func TestE2B_clients(t *testing.T) {
	python := filepath.Join(skiptest.Part(t, "e2b", "e2bpy"), "bin", "python")
	for script, program := range map[string]string{"behaviours.py": python, "behaviours_async.py": python,
		"code.py": python, "behaviours.mjs": "node"} {
		t.Run(script, func(t *testing.T) {
			t.Parallel()
			url, key := startE2B(t)
			runE2B(t, url, key, program, script)
		})
	}
}

// E2B's own clients have sandboxes with a kernel of their own, where the operator chooses gVisor.
func TestE2B_gvisor(t *testing.T) {
	if _, err := gvisor.Find(); err != nil {
		skiptest.Lacking(t, "gvisor", haft.MessageOf(err))
	}
	python := filepath.Join(skiptest.Part(t, "e2b", "e2bpy"), "bin", "python")
	for _, script := range []string{"behaviours.py", "code.py"} {
		t.Run(script, func(t *testing.T) {
			url, key := startE2BIn(t, app.Config{Sandbox: "gvisor"})
			status, body := request(t, key, http.MethodPost, url+"/e2b/v2/sandboxes", `{"templateID":"base"}`)
			if status != http.StatusCreated {
				t.Fatal(status, body)
			}
			_, body = request(t, key, http.MethodGet, url+"/v1/sessions", "")
			if !strings.Contains(body, `"level":"kernel"`) || !strings.Contains(body, `"sandbox":"gvisor"`) {
				t.Errorf("the sandbox is %s", body)
			}
			runE2B(t, url, key, python, script)
		})
	}
}

// An agent of smolagents runs its code in sandboxes, which have the packages of the organisation.
func TestE2B_smolagents(t *testing.T) {
	python := filepath.Join(skiptest.Part(t, "e2b", "e2bpy"), "bin", "python")
	url, key := startE2B(t)
	status, body := request(t, key, http.MethodPut, url+"/v1/sandbox_configs/local",
		`{"requirements": {"pip": ["numpy", "pillow"]}}`)
	if status != http.StatusOK && status != http.StatusCreated {
		t.Fatal(status, body)
	}
	// The packages are installed before a client waits for its sandbox.
	status, body = request(t, key, http.MethodPost, url+"/v1/calls",
		`{"tool": "run_code", "args": {"language": "python", "code": "import numpy, PIL"}}`)
	if status != http.StatusOK || !strings.Contains(body, `"status":"success"`) {
		skiptest.Lacking(t, "e2b", "numpy cannot be installed: "+body)
	}
	runE2B(t, url, key, python, "smol.py")
}

// E2B's own client builds templates, and makes sandboxes from them.
func TestE2B_templates(t *testing.T) {
	python := filepath.Join(skiptest.Part(t, "e2b", "e2bpy"), "bin", "python")
	url, key := startE2B(t)
	status, body := request(t, key, http.MethodPut, url+"/v1/sandbox_configs/local",
		`{"templates": [{"name": "try", "requirements": {"pip": ["six==1.17.0"]}}], "description": "kept"}`)
	if status != http.StatusOK && status != http.StatusCreated {
		t.Fatal(status, body)
	}
	status, body = request(t, key, http.MethodPost, url+"/v1/calls",
		`{"tool": "run_code", "args": {"language": "python", "code": "import six"}, "template": "try"}`)
	if status != http.StatusOK || !strings.Contains(body, `"status":"success"`) {
		skiptest.Lacking(t, "e2b", "six cannot be installed: "+body)
	}
	runE2B(t, url, key, python, "templates.py")
	status, body = request(t, key, http.MethodGet, url+"/v1/sandbox_configs/local", "")
	if status != http.StatusOK || !strings.Contains(body, `"kept"`) || !strings.Contains(body, `"try"`) {
		t.Errorf("building templates has changed the configuration: %s", body)
	}
}

// The files of a sandbox remember which workspaces they come from, and a paused sandbox is one after a restart too.
func TestE2B_origins(t *testing.T) {
	open(t, app.Config{})
	cfg := app.ServerConfig{ServiceConfig: app.ServiceConfig{Data: t.TempDir()}}
	_, url, stop := startServerWith(t, cfg)
	raw, err := os.ReadFile(filepath.Join(cfg.Data, "admin.key"))
	if err != nil {
		t.Fatal(err)
	}
	key := strings.TrimSpace(string(raw))
	ask := func(method, path, body string, want int) (answer string) {
		t.Helper()
		status, answer := request(t, key, method, url+path, body)
		if status != want {
			t.Fatalf("%s %s: %d, want %d: %s", method, path, status, want, answer)
		}
		return answer
	}
	create := func(template string) string {
		t.Helper()
		var box struct{ SandboxID string }
		text := ask("POST", "/e2b/v2/sandboxes", `{"templateID":"`+template+`"}`, http.StatusCreated)
		if err := json.Unmarshal([]byte(text), &box); err != nil {
			t.Fatal(err)
		}
		return box.SandboxID
	}
	ask("POST", "/e2b/sandboxes/"+create("base")+"/snapshots", `{"name":"first"}`, http.StatusCreated)
	at := "/e2b/sandboxes/" + create("first")
	ask("POST", at+"/pause", `{}`, http.StatusNoContent)
	stop()
	server, url, stop := startServerWith(t, cfg)
	t.Cleanup(stop)
	ask("POST", at+"/connect", `{}`, http.StatusCreated)
	ask("POST", at+"/snapshots", `{"name":"second"}`, http.StatusCreated)
	text := ask("GET", "/v1/workspaces/e2b-snapshot-second", "", http.StatusOK)
	if !strings.Contains(text, `"origins":["e2b-paused-`) || !strings.Contains(text, `"e2b-snapshot-first"`) {
		t.Errorf("it says %s", text)
	}
	// A rule that forbids the files of a workspace to commands forbids a sandbox that has them.
	policy := "version: 1\nrules:\n- {id: all, effect: allow}\n- {id: no, effect: deny, " +
		"tools: [\"tool:run_command\"], workspaces: [e2b-snapshot-first]}\n"
	if _, err := server.PutPolicy(t.Context(), root(), false, haft.PolicyText{Text: []byte(policy)}); err != nil {
		t.Fatal(err)
	}
	create("base")
	for _, name := range []string{"first", "second"} {
		ask("POST", "/e2b/v2/sandboxes", `{"templateID":"`+name+`"}`, http.StatusForbidden)
	}
}
