package supply_test

import (
	"context"
	"errors"
	"fmt"
	"html"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"haft"
	"haft/executor/script"
	"haft/internal/layer"
	"haft/internal/layer/layertest"
	"haft/internal/requirement"
	"haft/internal/supply"
	"haft/sandbox/local"
	"haft/sandbox/process"
	"haft/sandbox/sandboxtest"
)

func TestMain(m *testing.M) {
	local.Init()
	os.Exit(m.Run())
}

// readable makes a directory that the user of a sandbox may read.
func readable(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "haft-supply-test-")
	if err == nil {
		err = os.Chmod(dir, 0o755)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

// open returns a supply in the sandbox of this machine, or skips loudly.
func open(t *testing.T, cfg supply.Config) *supply.Supply {
	t.Helper()
	p, err := local.Open(t.Context(), local.Config{Dir: t.TempDir(), AllowReduced: true})
	if err != nil {
		sandboxtest.Require(t, "sandbox", err.Error())
	}
	t.Cleanup(func() { p.Close() })
	if iso, err := p.Isolation(t.Context()); err != nil || !iso.Has(haft.ControlMountNS) ||
		!iso.Has(haft.ControlNetNS) {
		sandboxtest.Require(t, "sandbox", "there are no namespaces for files and network")
	}
	ask, err := process.Open(process.Config{})
	if err != nil {
		t.Fatal(err)
	}
	finder := script.NewFinder(ask, script.FinderConfig{Path: os.Getenv("PATH"), Home: os.Getenv("HOME")})
	find := func(ctx context.Context, kind haft.Kind) (*script.Runtime, error) { return finder.Find(ctx, kind, "") }
	if _, err := find(t.Context(), haft.KindPython); err != nil {
		sandboxtest.Require(t, "python", err.Error())
	}
	if cfg.Dir == "" {
		cfg.Dir = readable(t)
	}
	if cfg.Path == "" {
		cfg.Path = os.Getenv("PATH")
	}
	s := supply.New(p, find, cfg)
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// needs reads requirements.
func needs(t *testing.T, pip ...string) requirement.Set {
	t.Helper()
	s, err := requirement.Parse("the tool", pip, nil)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// index serves the packages of a directory as a Python index, to those who know
// the password, if there is one.
func index(t *testing.T, dir, password string) (srv *httptest.Server, asked *atomic.Int64) {
	t.Helper()
	asked = &atomic.Int64{}
	srv = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		if _, got, _ := r.BasicAuth(); password != "" && got != password {
			w.Header().Set("WWW-Authenticate", "Basic")
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		if name, ok := strings.CutPrefix(r.URL.Path, "/files/"); ok {
			http.ServeFile(w, r, filepath.Join(dir, filepath.Base(name)))
			return
		}
		name := filepath.Base(r.URL.Path)
		list, err := os.ReadDir(dir)
		if err != nil {
			t.Error(err)
		}
		found := false
		for _, e := range list {
			if strings.HasPrefix(e.Name(), name+"-") {
				found = true
				fmt.Fprintf(w, "<a href=\"/files/%s\">%s</a>\n", html.EscapeString(e.Name()),
					html.EscapeString(e.Name()))
			}
		}
		if !found {
			w.WriteHeader(http.StatusNotFound)
		}
	}))
	t.Cleanup(srv.Close)
	return srv, asked
}

// empty fails if anything is left in the store.
func empty(t *testing.T, dir string) {
	t.Helper()
	for _, sub := range []string{"tmp", "layers", "locks"} {
		if list, err := os.ReadDir(filepath.Join(dir, sub)); err != nil || len(list) > 0 {
			t.Errorf("%s holds %v, %v", sub, list, err)
		}
	}
}

func TestSupply_from_an_index_with_credentials(t *testing.T) {
	files := readable(t)
	layertest.Wheel(t, files, "hafttiny", "1.0", "value = 1\n")
	srv, asked := index(t, files, "hunter2secret")
	url := strings.Replace(srv.URL, "http://", "http://ann:hunter2secret@", 1) + "/simple"
	s := open(t, supply.Config{Index: layer.Index{URL: url}, Installer: "pip"})
	var lines []string
	locks, err := s.Lock(t.Context(), needs(t, "hafttiny"), func(l string) { lines = append(lines, l) })
	if err != nil || len(locks) != 1 || !strings.Contains(string(locks[0].Text), "hafttiny==1.0") {
		t.Fatalf("Lock = %v, %v", locks, err)
	}
	layers, release, err := s.Open(t.Context(), locks, "import hafttiny\nimport os\n",
		func(l string) { lines = append(lines, l) })
	if err != nil {
		t.Fatal(err)
	}
	defer release()
	if len(layers) != 1 || layers[0].Inside != layer.PythonDir || fmt.Sprint(layers[0].Imports) != "[hafttiny]" ||
		asked.Load() == 0 {
		t.Errorf("the layers are %+v", layers)
	}
	if !s.Ready(locks) {
		t.Error("a layer that is open is not ready")
	}
	again, ok := layers[0].Hold()
	if !ok {
		t.Fatal("a layer in use cannot be held")
	}
	again()
	said := strings.Join(lines, "\n") + string(locks[0].Text)
	if len(lines) == 0 || strings.Contains(said, "hunter2") {
		t.Errorf("what was said: %q", said)
	}
}

func TestSupply_failures_say_what_to_do_and_no_secret(t *testing.T) {
	files := readable(t)
	layertest.Wheel(t, files, "hafttiny", "1.0", "value = 1\n")
	srv, _ := index(t, files, "hunter2secret")
	open1, _ := index(t, files, "")
	hang, err := net.Listen("tcp", "127.0.0.1:0") // nobody accepts
	if err != nil {
		t.Fatal(err)
	}
	defer hang.Close()
	for _, tt := range []struct {
		name, url, need string
		limits          haft.Limits
		kind            layer.ProblemKind
		says            string
	}{
		{"wrong password", strings.Replace(srv.URL, "http://", "http://ann:hunter2wrong@", 1) + "/simple", "hafttiny",
			haft.Limits{}, layer.ProblemAccess, "credentials"},
		{"typo", open1.URL + "/simple", "hafttinny", haft.Limits{}, layer.ProblemNotFound, "no package hafttinny"},
		{"version", open1.URL + "/simple", "hafttiny>=7", haft.Limits{}, layer.ProblemVersion, "hafttiny>=7"},
		{"an index that hangs", "http://" + hang.Addr().String() + "/simple", "hafttiny",
			haft.Limits{Wall: haft.Millis(4 * time.Second)}, layer.ProblemTimeout, "took too long"},
		{"an index that is away", "http://127.0.0.1:1/simple", "hafttiny", haft.Limits{}, layer.ProblemNetwork,
			"cannot be reached"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			dir := readable(t)
			s := open(t, supply.Config{Dir: dir, Index: layer.Index{URL: tt.url}, Installer: "pip", Limits: tt.limits})
			_, err := s.Lock(t.Context(), needs(t, tt.need), nil)
			p, ok := errors.AsType[*layer.Problem](err)
			if !ok || p.Kind != tt.kind || !strings.Contains(haft.MessageOf(err), tt.says) {
				t.Errorf("kind %+v of %v", p, err)
			}
			if err != nil && strings.Contains(err.Error(), "hunter2") {
				t.Errorf("the error has the password: %v", err)
			}
			empty(t, dir)
		})
	}
}

// A package whose build code reads the host, talks to somebody else than the index
// and writes elsewhere gets at nothing, is named, and leaves nothing.
func TestSupply_hostile_build(t *testing.T) {
	secret := filepath.Join(readable(t), "secret")
	if err := os.WriteFile(secret, []byte("hunter2"), 0o644); err != nil {
		t.Fatal(err)
	}
	var visits atomic.Int64
	elsewhere := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { visits.Add(1) }))
	defer elsewhere.Close()
	port := elsewhere.Listener.Addr().(*net.TCPAddr).Port
	files := readable(t)
	layertest.Wheel(t, files, "hafttiny", "1.0", "")
	layertest.Source(t, files, "haftevil", "1.0", `
import os, socket, urllib.request
def build_wheel(d, config_settings=None, metadata_directory=None):
    got = []
    for name, do in {
        "read": lambda: open("`+secret+`").read(),
        "home": lambda: os.listdir("`+os.Getenv("HOME")+`/.ssh"),
        "net": lambda: socket.create_connection(("127.0.0.1", `+strconv.Itoa(port)+`), 2),
        "proxy": lambda: urllib.request.urlopen("http://127.0.0.1:`+strconv.Itoa(port)+`/", timeout=5).read(),
        "metadata": lambda: urllib.request.urlopen("http://169.254.169.254/", timeout=5).read(),
        "write": lambda: open("/usr/lib/haft-evil", "w"),
        "layers": lambda: open("/build/../opt/haft/python/x", "w"),
    }.items():
        try:
            do()
            got.append(name)
        except OSError:
            pass
    raise SystemExit("the build got at: " + (",".join(got) or "nothing"))
`)
	srv, _ := index(t, files, "")
	dir := readable(t)
	cfg := supply.Config{Dir: dir, Index: layer.Index{URL: srv.URL + "/simple"}, Installer: "pip"}
	_, err := open(t, cfg).Lock(t.Context(), needs(t, "haftevil"), nil)
	if p, ok := errors.AsType[*layer.Problem](err); !ok ||
		p.Kind != layer.ProblemNotFound && p.Kind != layer.ProblemVersion {
		t.Errorf("without building: %v", err)
	}
	cfg.Source = true
	_, err = open(t, cfg).Lock(t.Context(), needs(t, "haftevil", "hafttiny"), nil)
	p, ok := errors.AsType[*layer.Problem](err)
	if !ok || p.Kind != layer.ProblemBuild || !strings.Contains(p.Requirement, "haftevil") ||
		!strings.Contains(haft.MessageOf(err), "the build got at: nothing") {
		t.Errorf("got %+v of %v", p, err)
	}
	if visits.Load() > 0 {
		t.Errorf("the build reached another host %d times", visits.Load())
	}
	empty(t, dir)
}

func TestPackages_by_uv(t *testing.T) {
	if testing.Short() {
		t.Skip("short: nothing is fetched from an index")
	}
	cfg := supply.FromEnv(os.Getenv)
	cfg.Installer, cfg.Path = "uv", "/nonexistent"
	s := open(t, cfg)
	locks, err := s.Lock(t.Context(), needs(t, "six"), nil)
	if err != nil {
		sandboxtest.Require(t, "index", "the index cannot be asked: "+err.Error())
	}
	_, release, err := s.Open(t.Context(), locks, "", nil)
	if err != nil {
		t.Fatal(err)
	}
	release()
	if list, err := requirement.ReadLock("lock", string(locks[0].Text)); err != nil || len(list) != 1 ||
		len(list[0].Hashes) < 2 {
		t.Errorf("uv hashes all files of a version: %v, %v", list, err)
	}
}
