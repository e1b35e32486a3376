package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"haft"
	"haft/app"
	"haft/internal/auth"
	"haft/internal/cli"
	"haft/internal/localsocket"
	"haft/internal/modelfile"
	"haft/internal/modeltest"
)

// alone are the scripts that cannot run on a server, and why.
var alone = map[string]string{
	"cli_grammar":            "it looks at a directory of its own, and starts a server",
	"authority_agent_rules":  "it starts servers of its own",
	"authority_audit":        "it changes the database behind a server's back",
	"authority_audit_sink":   "it starts servers of its own",
	"authority_bounds":       "it starts servers of its own",
	"authority_broker_echo":  "it says which addresses may be reached, which a server is told when it starts",
	"authority_connections":  "it starts servers of its own",
	"authority_headers":      "it starts servers of its own",
	"authority_idempotency":  "it starts servers of its own",
	"authority_letta_upsert": "it starts servers of its own",
	"authority_mcp_credentials": "its MCP servers are on a loopback address, which only the environment of its own " +
		"commands allows",
	"authority_mcp_revoked":     "it starts servers of its own",
	"authority_network_revoked": "it starts servers of its own",
	"authority_metrics":         "it starts servers of its own",
	"authority_mount":           "every command of it starts the commands of MCP servers anew, which a server keeps",
	"authority_network":         "it says which addresses may be reached, which a server is told when it starts",
	"authority_revoked":         "it starts servers of its own",
	"authority_scopes":          "it starts servers of its own",
	"authority_user":            "it starts servers of its own",
	"backup":                    "it starts servers of its own",
	"chat_models":               "the models are those of the server",
	"chat_real":                 "the models are those of the server",
	"crash":                     "it kills the process that runs the call, which is then the server of the test",
	"dev":                       "it starts servers of its own",
	"dev_again":                 "it starts servers of its own",
	"first_environment":         "it starts a server of its own",
	"doctor":                    "it is about this machine",
	"gvisor":                    "it is about this machine",
	"init":                      "it works on a data directory",
	"init_asks":                 "it works on a data directory",
	"key": "it begins without any key, which no server does, and moves files of the data " +
		"directory",
	"languages":       "it is about files and not about kept tools",
	"mcp_install":     "it is about files of this machine",
	"real_life":       "haft run with a workspace works on a data directory",
	"real_packages":   "it says which addresses may be reached, which a server is told when it starts",
	"requirements":    "environments are on the machine that runs the tools",
	"run":             "it is about files and not about kept tools",
	"run_attacker":    "it is about files and not about kept tools",
	"run_failures":    "it is about files and not about kept tools",
	"run_network":     "it is about files and not about kept tools",
	"run_workspace":   "it works on a data directory",
	"session":         "it starts servers of its own",
	"session_work":    "it starts servers of its own",
	"sandbox":         "it is about this machine, and starts a server of its own",
	"schema":          "it is about files and not about kept tools",
	"schema_check":    "it is about files and not about kept tools",
	"schema_errors":   "it is about files and not about kept tools",
	"schema_imported": "it is about files and not about kept tools",
	"secret_bind":     "it changes the database behind a server's back",
	"secret_keys":     "master keys are replaced where the data is",
	"serve":           "it starts servers of its own",
	"serve_key":       "it starts servers of its own",
	"serve_live":      "it starts servers of its own",
	"serve_oidc":      "it starts servers of its own",
	"serve_otlp":      "it starts servers of its own",
	"serve_personal":  "it starts servers of its own",
	"serve_reduced":   "it starts servers of its own",
	"serve_recover":   "it starts servers of its own",
	"serve_reload":    "it starts servers of its own",
	"serve_stop":      "it starts servers of its own",
	"serve_tls":       "it starts servers of its own",
	"socket":          "it starts servers of its own",
	"store_trouble":   "it spoils the files of the store",
	"store_two":       "it is about two processes on one directory",
	"webhook":         "it starts servers of its own",
}

// TestScript_server runs the scripts on a server too, one for each script: the
// same commands, output and exit codes, with HAFT_SERVER set. Who a script says
// that it is gets a key for that.
func TestScript_server(t *testing.T) {
	all, err := filepath.Glob("testdata/script/*.txtar")
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", withoutGVisor(os.Getenv("PATH"))) // the servers are in this process
	p := testscript.Params{}
	for _, file := range all {
		if alone[strings.TrimSuffix(filepath.Base(file), ".txtar")] == "" {
			p.Files = append(p.Files, file)
		}
	}
	testscript.Run(t, params(t, p, func(e *testscript.Env) {
		at, stop, err := startServer(t.Context(), filepath.Join(e.WorkDir, "data"),
			e.Values[modelKey{}].(*modeltest.Server), false)
		if err != nil {
			t.Errorf("start a server: %v", err)
			return
		}
		e.Defer(stop)
		e.Setenv("HAFT_TEST_SERVER", at)
	}))
}

// TestScript_socket runs scripts beside a server that commands find by the data directory: the same commands, output
// and exit codes, and nobody needs a key. HAFT_TEST_ALL runs all scripts that can run on a server.
func TestScript_socket(t *testing.T) {
	names := []string{"approvals", "batch", "chain", "events", "policy", "secret_set", "tool_lifecycle", "workspace"}
	if os.Getenv("HAFT_TEST_ALL") != "" {
		names = []string{"*"}
	}
	p := testscript.Params{}
	for _, name := range names {
		files, err := filepath.Glob("testdata/script/" + name + ".txtar")
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			name := strings.TrimSuffix(filepath.Base(file), ".txtar")
			if alone[name] == "" && name != "agent" { // an agent that is not there is another error on a server
				p.Files = append(p.Files, file)
			}
		}
	}
	testscript.Run(t, params(t, p, func(e *testscript.Env) {
		data := filepath.Join(e.WorkDir, "data")
		_, stop, err := startServer(t.Context(), data, e.Values[modelKey{}].(*modeltest.Server), true)
		if err != nil {
			t.Errorf("start a server: %v", err)
			return
		}
		e.Defer(stop)
	}))
}

// startServer starts a server as haft serve does, but for an API that hands out
// keys.
func startServer(ctx context.Context, data string, model *modeltest.Server, local bool) (at string, stop func(),
	err error) {
	issuer := &keyIssuer{}
	cfg := app.ServerConfig{}
	if cfg.Agents.Models, err = modelfile.Parse("models.toml", modelsFile(model)); err != nil {
		return "", nil, err
	}
	cfg.Data = data
	cfg.HTTP.Version = version
	cfg.HTTP.Mounts = map[string]http.Handler{"GET /test/key": issuer}
	cfg.AllowReduced = true // what a machine gives is what is tried
	sys, err := app.OpenServer(ctx, cfg)
	if err != nil {
		return "", nil, err
	}
	issuer.sys = sys
	var lc net.ListenConfig
	ln, err := lc.Listen(ctx, "tcp", "127.0.0.1:0")
	if err == nil && local {
		_ = ln.Close() // nobody was served
		ln, err = localsocket.Listen(data, localsocket.Welcome{Command: "serve", Reduced: true, Agents: true}, nil)
	}
	if err != nil {
		return "", nil, errors.Join(err, sys.Close())
	}
	served := make(chan error, 1)
	go func() { served <- sys.HTTP.Serve(ln) }()
	return "http://" + ln.Addr().String(), func() {
		end, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
		defer cancel()
		if err := errors.Join(sys.HTTP.Shutdown(end), sys.Drain(end), <-served, sys.Close()); err != nil {
			fmt.Fprintln(os.Stderr, "stop the server of a script:", err)
		}
	}, nil
}

// A keyIssuer hands out a key for whoever one says to be. It is what makes a profile
// of flags and environment one that a server knows.
type keyIssuer struct{ sys *app.Server }

// ServeHTTP implements http.Handler.
func (d *keyIssuer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var p haft.Principal
	if err := json.Unmarshal([]byte(r.FormValue("for")), &p); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	by := haft.Principal{Org: p.Org, User: "test", Roles: []string{haft.RoleAdmin}}
	if a, err := d.sys.Agent(r.Context(), by, p.Agent); err == nil {
		p.Agent = string(a.ID)
	}
	_, token, err := d.sys.Auth.Keyring.Issue(r.Context(), auth.Trusted(by),
		auth.Key{Name: "of the script", User: p.User, Agent: p.Agent, Roles: p.Roles})
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	fmt.Fprint(w, token.Reveal())
}

// impersonate sets HAFT_SERVER and HAFT_KEY for the profile of a command line, if
// the script runs on a server.
func impersonate(ctx context.Context, args []string) error {
	at := os.Getenv("HAFT_TEST_SERVER")
	if at == "" || len(args) == 0 {
		return nil
	}
	p := haft.Principal{
		Org:   cmp.Or(flagOf(args, "org"), os.Getenv("HAFT_ORG"), "local"),
		User:  cmp.Or(flagOf(args, "user"), os.Getenv("HAFT_USER")),
		Agent: cmp.Or(flagOf(args, "agent"), os.Getenv("HAFT_AGENT")), Roles: flagsOf(args, "role"),
	}
	line := strings.Join(args, " ")
	switch {
	case strings.HasPrefix(line, "key create"):
		p.Roles = nil // they are of the key
	case strings.HasPrefix(line, "policy explain"), slices.Contains(args, "--dry-run"):
		// An administrator asks what holds for others.
		p.User, p.Agent, p.Roles = os.Getenv("HAFT_USER"), "", []string{haft.RoleAdmin, haft.RoleApprover}
	}
	if p.User == "" {
		p.User = (&cli.Profile{}).Principal().User
	}
	if p.Org == "" || slices.Contains(args, "--org=") {
		p.Org = "local" // there is no key of nobody
	}
	if args[0] == "secret" {
		p.Agent = "" // it is whose secret it is
	}
	if len(p.Roles) == 0 {
		p.Roles = strings.FieldsFunc(os.Getenv("HAFT_ROLES"), func(r rune) bool { return r == ',' || r == ' ' })
	}
	if len(p.Roles) == 0 {
		p.Roles = []string{haft.RoleAdmin, haft.RoleApprover}
	}
	who, err := json.Marshal(p)
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, at+"/test/key?for="+url.QueryEscape(string(who)), nil)
	if err != nil {
		return err
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil || res.StatusCode != http.StatusOK {
		return fmt.Errorf("no key for %s: %s %w", who, text, err)
	}
	return errors.Join(os.Setenv("HAFT_SERVER", at), os.Setenv("HAFT_KEY", string(text)))
}

// flagsOf returns the values of a flag on a command line.
func flagsOf(args []string, name string) (values []string) {
	for i, a := range args {
		if v, ok := strings.CutPrefix(a, "--"+name+"="); ok {
			values = append(values, v)
		}
		if a == "--"+name && i+1 < len(args) {
			values = append(values, args[i+1])
		}
	}
	return values
}

// flagOf returns the last value of a flag on a command line.
func flagOf(args []string, name string) string {
	values := flagsOf(args, name)
	if len(values) == 0 {
		return ""
	}
	return slices.Clone(values)[len(values)-1]
}
