package mcpcatalog

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"haft"
)

// official is the member of _meta in which a registry says what it knows.
const official = "io.modelcontextprotocol.registry/official"

// A published version is one answer of the registry.
type published struct {
	Server map[string]any `json:"server"`
	Meta   map[string]any `json:"_meta"`
}

func publish(name, version, status string, latest bool, more map[string]any) published {
	server := map[string]any{"name": name, "version": version, "description": "Does things"}
	for key, value := range more {
		server[key] = value
	}
	return published{server, map[string]any{official: map[string]any{"status": status, "isLatest": latest,
		"publishedAt": "2026-01-02T03:04:05Z"}}}
}

// registry speaks the API of the official registry: pages with cursors, filters, versions of one server, and problems
// with the status 404. It counts its requests.
func registry(t *testing.T, all []published) (Registry, *atomic.Int32) {
	var asked atomic.Int32
	answer := func(w http.ResponseWriter, status int, v any) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		if err := json.NewEncoder(w).Encode(v); err != nil {
			t.Error(err)
		}
	}
	latest := func(p published) bool { return p.Meta[official].(map[string]any)["isLatest"].(bool) }
	mux := http.NewServeMux()
	mux.HandleFunc("GET /base/v0.1/servers", func(w http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		q := r.URL.Query()
		var found []published
		for _, p := range all {
			if strings.Contains(p.Server["name"].(string), q.Get("search")) &&
				(q.Get("version") != "latest" || latest(p)) {
				found = append(found, p)
			}
		}
		limit, err := strconv.Atoi(q.Get("limit"))
		if err != nil || limit > 100 {
			answer(w, http.StatusUnprocessableEntity, map[string]any{"title": "limit"})
			return
		}
		from, _ := strconv.Atoi(strings.TrimPrefix(q.Get("cursor"), "after:")) // none is the first page
		to := min(from+limit, len(found))
		meta := map[string]any{"count": to - from}
		if to < len(found) {
			meta["nextCursor"] = fmt.Sprint("after:", to)
		}
		answer(w, http.StatusOK, map[string]any{"servers": found[from:to], "metadata": meta})
	})
	mux.HandleFunc("GET /base/v0.1/servers/{name}/versions/{version}", func(w http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		for _, p := range all {
			if p.Server["name"] == r.PathValue("name") && (p.Server["version"] == r.PathValue("version") ||
				r.PathValue("version") == "latest" && latest(p)) {
				answer(w, http.StatusOK, p)
				return
			}
		}
		answer(w, http.StatusNotFound, map[string]any{"error": "Server not found"})
	})
	srv := httptest.NewServer(mux)
	t.Cleanup(srv.Close)
	return Registry{client(), srv.URL + "/base"}, &asked
}

// client follows no redirect, as the one of the command.
func client() *http.Client {
	return &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
}

func TestRegistry(t *testing.T) {
	npm := map[string]any{"packages": []any{map[string]any{"registryType": "npm", "identifier": "files",
		"version": "1.0.0", "transport": map[string]any{"type": "stdio"}}}}
	all := []published{publish("io.example/files", "1.0.0", "active", false, npm),
		publish("io.example/files", "2.0.0+a", "active", true, map[string]any{"remotes": []any{map[string]any{
			"type": "streamable-http", "url": "https://files.example/mcp"}}}),
		publish("io.example/old", "1", "deprecated", true, npm), publish("io.example/gone", "1", "deleted", true, npm)}
	for n := range 230 {
		all = append(all, publish(fmt.Sprintf("io.example/many%03d", n), "1", "active", true, npm))
	}
	r, asked := registry(t, all)

	list, more, err := r.Search(t.Context(), "many")
	if err != nil || more || len(list) != 230 || asked.Load() != 3 {
		t.Errorf("Search = %d entries in %d requests, more %v: %v", len(list), asked.Load(), more, err)
	}
	list, _, err = r.Search(t.Context(), "files")
	if err != nil || len(list) != 1 || list[0].Version != "2.0.0+a" {
		t.Errorf("Search gives other versions than the latest: %+v, %v", list, err)
	}
	for ref, want := range map[string]string{"io.example/files": "https://files.example/mcp",
		"io.example/files@2.0.0+a": "https://files.example/mcp", "io.example/files@1.0.0": "npx -y files@1.0.0",
		"io.example/old": "npx -y files@1.0.0"} {
		e, err := r.Entry(t.Context(), ref)
		if err != nil {
			t.Fatalf("%s: %v", ref, err)
		}
		i, err := e.Install("srv", Choice{})
		if err != nil || i.Server.URL+strings.Join(i.Server.Command, " ") != want {
			t.Errorf("%s becomes %+v, %v", ref, i, err)
		}
	}
	e, err := r.Entry(t.Context(), "io.example/gone")
	if _, bad := e.Install("srv", Choice{}); err != nil || haft.CodeOf(bad) != haft.CodeInvalid {
		t.Errorf("a deleted version is installed: %v, %v", err, bad)
	}
	for _, ref := range []string{"io.example/none", "io.example/files@9"} {
		if _, err := r.Entry(t.Context(), ref); haft.CodeOf(err) != haft.CodeNotFound {
			t.Errorf("%s: %v", ref, err)
		}
	}
	before := asked.Load()
	for _, ref := range []string{"files", "a/../../b", "a/b/c", "a/b@../..", "a/b@1?x=y", "a/b@", "@1", ""} {
		if _, err := r.Entry(t.Context(), ref); haft.CodeOf(err) != haft.CodeNotFound && ref != "a/b@" {
			t.Errorf("%q: %v", ref, err)
		}
	}
	if n := asked.Load() - before; n > 1 {
		t.Errorf("%d requests were made for what cannot be a name", n)
	}
}

// A registry may be anybody: what it answers is bounded, and counts for what was asked only.
func TestRegistry_hostile(t *testing.T) {
	entry := `{"server": {"name": "io.example/evil", "version": "1", "remotes": [{"type": "sse", "url": "https://evil.example"}]}}`
	var asked atomic.Int32
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		n := asked.Add(1)
		kind, _, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
		switch kind {
		case "endless":
			fmt.Fprintf(w, `{"servers": [%s], "metadata": {"nextCursor": "%d"}}`, entry, n)
		case "same":
			fmt.Fprintf(w, `{"servers": [%s], "metadata": {"nextCursor": "x"}}`, entry)
		case "large":
			fmt.Fprintf(w, `{"servers": [%s], "x": "%s"}`, entry, strings.Repeat("x", MaxCatalogue))
		case "moved":
			http.Redirect(w, r, "https://evil.example", http.StatusFound)
		case "down":
			http.Error(w, "no", http.StatusBadGateway)
		case "html":
			fmt.Fprint(w, "<!doctype html>")
		case "other":
			fmt.Fprint(w, entry)
		case "two":
			fmt.Fprintf(w, `[%s, %s]`, entry, entry)
		}
	}))
	t.Cleanup(srv.Close)
	for kind, want := range map[string]struct {
		requests int32
		code     haft.Code
		more     bool
	}{"endless": {maxPages, "", true}, "same": {2, "", true}, "large": {1, haft.CodeUnavailable, false},
		"moved": {1, haft.CodeUnavailable, false}, "down": {1, haft.CodeUnavailable, false},
		"html": {1, haft.CodeInvalid, false}} {
		asked.Store(0)
		_, more, err := Registry{client(), srv.URL + "/" + kind}.Search(t.Context(), "x")
		if err != nil && haft.CodeOf(err) != want.code || err == nil && want.code != "" || more != want.more ||
			asked.Load() != want.requests {
			t.Errorf("%s: more %v, %v after %d requests", kind, more, err, asked.Load())
		}
	}
	for _, kind := range []string{"other", "two", "html"} {
		if e, err := (Registry{client(), srv.URL + "/" + kind}).Entry(t.Context(), "io.example/good"); err == nil {
			t.Errorf("%s: %+v is taken for another server", kind, e)
		}
	}
	for url, code := range map[string]haft.Code{"http://registry.example": haft.CodeInvalid, "x": haft.CodeInvalid,
		"https://user:pw@registry.example": haft.CodeInvalid, "file:///etc/passwd": haft.CodeInvalid} {
		_, _, err := Registry{client(), url}.Search(t.Context(), "x")
		if haft.CodeOf(err) != code || strings.Contains(err.Error(), "pw@") {
			t.Errorf("the registry %s: %v", url, err)
		}
	}
}

// A file may have several versions of a server, in any order.
func TestFind(t *testing.T) {
	versions := []published{publish("a/b", "2", "active", true, nil), publish("a/b", "1", "active", false, nil)}
	for range 2 {
		raw, err := json.Marshal(map[string]any{"servers": versions})
		if err != nil {
			t.Fatal(err)
		}
		list, err := Parse(raw)
		if err != nil {
			t.Fatal(err)
		}
		for ref, want := range map[string]string{"a/b": "2", "a/b@1": "1", "a/b@2": "2"} {
			if e, err := Find(list, ref); err != nil || e.Version != want {
				t.Errorf("%s is version %q: %v", ref, e.Version, err)
			}
		}
		slices.Reverse(versions)
	}
}
