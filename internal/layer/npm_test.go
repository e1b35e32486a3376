package layer_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha512"
	"encoding/base64"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"haft"
	"haft/internal/layer"
	"haft/internal/requirement"
	"haft/sandbox/sandboxtest"
)

// registry is one for npm that has a few packages, by name and version.
func registry(t *testing.T, packages map[string]map[string]map[string]any) *httptest.Server {
	t.Helper()
	mux := http.NewServeMux()
	srv := httptest.NewServer(mux)
	t.Cleanup(srv.Close)
	for name, versions := range packages {
		doc := map[string]any{}
		for version, manifest := range versions {
			manifest["name"], manifest["version"] = name, version
			text, err := json.Marshal(manifest)
			if err != nil {
				t.Fatal(err)
			}
			var buf bytes.Buffer
			gz := gzip.NewWriter(&buf)
			tw := tar.NewWriter(gz)
			for file, data := range map[string]string{
				"package.json": string(text), "index.js": "module.exports = '" + version + "'",
				"setup.js": "require('fs').writeFileSync('made.txt', 'made')",
			} {
				err := tw.WriteHeader(&tar.Header{Name: "package/" + file, Mode: 0o644, Size: int64(len(data))})
				if _, err2 := tw.Write([]byte(data)); errors.Join(err, err2) != nil {
					t.Fatal(errors.Join(err, err2))
				}
			}
			if err := errors.Join(tw.Close(), gz.Close()); err != nil {
				t.Fatal(err)
			}
			sum := sha512.Sum512(buf.Bytes())
			at := "/" + name + "/-/" + name + "-" + version + ".tgz"
			mux.HandleFunc(at, func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(buf.Bytes()) })
			manifest["dist"] = map[string]any{"tarball": srv.URL + at,
				"integrity": "sha512-" + base64.StdEncoding.EncodeToString(sum[:])}
			if manifest["scripts"] != nil {
				manifest["hasInstallScript"] = true
			}
			doc[version] = manifest
		}
		latest := "1.0.0"
		mux.HandleFunc("/"+name, func(w http.ResponseWriter, _ *http.Request) {
			_ = json.NewEncoder(w).Encode(map[string]any{"name": name, "versions": doc,
				"dist-tags": map[string]string{"latest": latest}})
		})
	}
	return srv
}

// npmInstaller returns one that uses srv.
func npmInstaller(t *testing.T, s *layer.Store, srv *httptest.Server) *layer.Installer {
	t.Helper()
	npm, err := exec.LookPath("npm")
	node, err2 := exec.LookPath("node")
	if errors.Join(err, err2) != nil {
		sandboxtest.Require(t, "node", "there is no npm")
	}
	return &layer.Installer{Run: runHost, Scratch: s.Scratch, NPM: []string{npm}, Node: node,
		Index: layer.Index{Registry: srv.URL}}
}

func TestNPM_install(t *testing.T) {
	srv := registry(t, map[string]map[string]map[string]any{
		"haft-tiny": {"1.0.0": {"scripts": map[string]string{"postinstall": "node setup.js"}}, "2.0.0": {}},
		"haft-user": {"1.0.0": {"dependencies": map[string]string{"haft-tiny": "^1.0.0"}}},
	})
	s := open(t, tempDir(t), layer.Config{})
	in := npmInstaller(t, s, srv)
	l, lock := install(t, s, in, "npm", needs(t, nil, []string{"haft-user"}))
	out, err := exec.Command(in.Node, "-p", "require('"+l.Dir+"/node_modules/haft-tiny')").Output()
	if err != nil || strings.TrimSpace(string(out)) != "1.0.0" {
		t.Errorf("it prints %s, %v", out, err)
	}
	made := filepath.Join("node_modules", "haft-tiny", "made.txt")
	if _, err := os.Stat(filepath.Join(l.Dir, made)); err == nil {
		t.Error("a script of a package was run")
	}
	if strings.Contains(string(lock), srv.URL) {
		t.Errorf("the lock names the registry: %s", lock)
	}
	in.Scripts = true
	with, err := s.Layer(t.Context(), layer.Want{Kind: "npm", Runtime: "with scripts", Lock: lock},
		in.Install("npm", lock))
	if err != nil {
		t.Fatal(err)
	}
	defer with.Close()
	if _, err := os.Stat(filepath.Join(with.Dir, made)); err != nil {
		t.Errorf("no script was run though they may: %v", err)
	}
}

func TestNPM_says_which_requirement_failed(t *testing.T) {
	srv := registry(t, map[string]map[string]map[string]any{
		"haft-tiny": {"1.0.0": {}, "2.0.0": {}},
		"haft-old":  {"1.0.0": {"peerDependencies": map[string]string{"haft-tiny": "^1.0.0"}}},
	})
	s := open(t, tempDir(t), layer.Config{})
	in := npmInstaller(t, s, srv)
	for _, tt := range []struct {
		name               string
		npm                []string
		kind               layer.ProblemKind
		code               haft.Code
		requirement, other string
	}{
		{"typo", []string{"haft-tinny"}, layer.ProblemNotFound, haft.CodeInvalid, "haft-tinny", ""},
		{"version", []string{"haft-tiny@^7"}, layer.ProblemVersion, haft.CodeInvalid, "haft-tiny@^7", ""},
		{"conflict", []string{"haft-tiny@^2", "haft-old"}, layer.ProblemConflict, haft.CodeConflict, "haft-tiny@2.0.0",
			"haft-old"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, err := in.Resolve(t.Context(), "npm", needs(t, nil, tt.npm), nil)
			p, ok := errors.AsType[*layer.Problem](err)
			if !ok || p.Kind != tt.kind || haft.CodeOf(err) != tt.code ||
				!strings.Contains(p.Requirement, tt.requirement) || !strings.Contains(p.Other, tt.other) {
				t.Errorf("got %+v of %v", p, err)
			}
		})
	}
	tool, err := requirement.Parse("the tool", nil, []string{"haft-tiny@^1 || ^3"})
	org, err2 := requirement.Parse("the organisation", nil, []string{"haft-tiny@2.0.0"})
	_, err = in.Resolve(t.Context(), "npm", contradicting(t, tool, org, errors.Join(err, err2)), nil)
	if p, ok := errors.AsType[*layer.Problem](err); !ok || p.Kind != layer.ProblemVersion ||
		p.Requirement != "haft-tiny@^1 2.0.0 || ^3 2.0.0" ||
		!strings.Contains(haft.MessageOf(err), "(asked for by the tool and the organisation)") {
		t.Errorf("a contradiction: %+v of %v", p, err)
	}
	lock, err := in.Resolve(t.Context(), "npm", needs(t, nil, []string{"haft-tiny"}), nil)
	if err != nil {
		t.Fatal(err)
	}
	changed := []byte(strings.Replace(string(lock), `"integrity":"sha512-`, `"integrity":"sha512-AAAA`, 1))
	_, err = s.Layer(t.Context(), layer.Want{Kind: "npm", Lock: changed}, in.Install("npm", changed))
	if p, ok := errors.AsType[*layer.Problem](err); !ok || p.Kind != layer.ProblemHash {
		t.Errorf("another hash: %+v of %v", p, err)
	}
	srv.Close()
	_, err = in.Resolve(t.Context(), "npm", needs(t, nil, []string{"haft-tiny"}), nil)
	if p, ok := errors.AsType[*layer.Problem](err); !ok || p.Kind != layer.ProblemNetwork {
		t.Errorf("nobody there: %+v of %v", p, err)
	}
}
