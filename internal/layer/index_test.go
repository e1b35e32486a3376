package layer_test

import (
	"cmp"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"haft/internal/layer"
	"haft/internal/requirement"
	"haft/sandbox/sandboxtest"
)

// online returns an installer for the index that this machine is configured for, or
// skips if there is none.
func online(t *testing.T, s *layer.Store, kind string) *layer.Installer {
	t.Helper()
	if testing.Short() {
		t.Skip("short: nothing is fetched from an index")
	}
	in := &layer.Installer{Run: runHost, Scratch: s.Scratch, Index: layer.Index{
		URL: os.Getenv("PIP_INDEX_URL"), Registry: os.Getenv("npm_config_registry"),
		CA: cmp.Or(os.Getenv("PIP_CERT"), os.Getenv("SSL_CERT_FILE"), os.Getenv("NODE_EXTRA_CA_CERTS"),
			systemRoots()),
		Proxy: cmp.Or(os.Getenv("HTTPS_PROXY"), os.Getenv("https_proxy")),
	}}
	var set requirement.Set
	if kind == "npm" {
		npm, err := exec.LookPath("npm")
		node, err2 := exec.LookPath("node")
		if errors.Join(err, err2) != nil {
			sandboxtest.Require(t, "node", "there is no npm")
		}
		in.NPM, in.Node = []string{npm}, node
		set = needs(t, nil, []string{"zod"})
	} else {
		in.Python = python(t)
		set = needs(t, []string{"six"}, nil)
	}
	if _, err := in.Resolve(t.Context(), kind, set, nil); err != nil {
		sandboxtest.Require(t, "index", "the index cannot be asked: "+err.Error())
	}
	return in
}

// systemRoots returns the file of the certificates that this machine trusts, which
// uv and npm do not ask by themselves, or "".
func systemRoots() string {
	for _, f := range []string{"/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt"} {
		if _, err := os.Stat(f); err == nil {
			return f
		}
	}
	return ""
}

func TestPackages_numpy_and_pydantic(t *testing.T) {
	s := open(t, tempDir(t), layer.Config{})
	in := online(t, s, "pip")
	l, lock := install(t, s, in, "pip", needs(t, []string{"numpy", "pydantic>=2"}, nil))
	got := importing(t, l, "import numpy, pydantic, os\nassert numpy.__file__.startswith(sys.argv[1])\n"+
		"class M(pydantic.BaseModel):\n    x: int\nprint(numpy.arange(4).sum(), M(x='3').x)")
	if got != "6 3" {
		t.Errorf("it prints %q", got)
	}
	if list, err := requirement.ReadLock("lock", string(lock)); err != nil || len(list) < 4 {
		t.Errorf("the lock has %d packages: %v", len(list), err)
	}
	t.Logf("%d files, %d MiB in %s", l.Info.Files, l.Info.Bytes>>20, l.Info.Took)

	_, err := in.Resolve(t.Context(), "pip", needs(t, []string{"numpy==99.99"}, nil), nil)
	if p, ok := errors.AsType[*layer.Problem](err); !ok || p.Kind != layer.ProblemVersion ||
		p.Requirement != "numpy==99.99" {
		t.Errorf("a version that is not: %v", err)
	}
	_, err = in.Resolve(t.Context(), "pip", needs(t, []string{"haft-no-such-package-anywhere"}, nil), nil)
	if p, ok := errors.AsType[*layer.Problem](err); !ok || p.Kind != layer.ProblemNotFound ||
		p.Requirement != "haft-no-such-package-anywhere" {
		t.Errorf("a package that is not: %v", err)
	}
}

func TestPackages_uv(t *testing.T) {
	s := open(t, tempDir(t), layer.Config{})
	in := online(t, s, "pip")
	tool, _ := install(t, s, in, "pip", needs(t, []string{"uv"}, nil))
	in.UV = filepath.Join(tool.Dir, "bin", "uv")
	l, lock := install(t, s, in, "pip", needs(t, []string{"pydantic>=2,<3", "six"}, nil))
	if got := importing(t, l, "import pydantic, six; print(pydantic.VERSION.split('.')[0])"); got != "2" {
		t.Errorf("it prints %q", got)
	}
	if list, err := requirement.ReadLock("lock", string(lock)); err != nil || len(list) < 5 {
		t.Errorf("the lock has %d packages: %v", len(list), err)
	}
	for _, tt := range []struct {
		pip  []string
		kind layer.ProblemKind
		name string
	}{
		{[]string{"six==99"}, layer.ProblemVersion, "six==99"},
		{[]string{"haft-no-such-package-anywhere"}, layer.ProblemNotFound, "haft-no-such-package-anywhere"},
		{[]string{"pydantic==2.5.0", "pydantic-core==2.0.1"}, layer.ProblemConflict, "pydantic"},
	} {
		_, err := in.Resolve(t.Context(), "pip", needs(t, tt.pip, nil), nil)
		if p, ok := errors.AsType[*layer.Problem](err); !ok || p.Kind != tt.kind ||
			!strings.Contains(p.Requirement, tt.name) {
			t.Errorf("%v: %+v of %v", tt.pip, p, err)
		}
	}
}

func TestPackages_lodash_and_zod(t *testing.T) {
	s := open(t, tempDir(t), layer.Config{})
	in := online(t, s, "npm")
	l, lock := install(t, s, in, "npm", needs(t, nil, []string{"lodash@^4", "zod@^3"}))
	if strings.Contains(string(lock), "://registry") {
		t.Log("the lock names the registry")
	}
	// As in a sandbox: node_modules in a directory above the tool's.
	work := t.TempDir()
	if err := os.Symlink(filepath.Join(l.Dir, "node_modules"), filepath.Join(work, "node_modules")); err != nil {
		t.Fatal(err)
	}
	for name, source := range map[string]string{
		"tool.mjs": "import _ from 'lodash'; import { z } from 'zod'; console.log(_.capitalize('hELLO'), " +
			"z.number().parse(3))",
		"tool.cjs": "const _ = require('lodash'), { z } = require('zod'); console.log(_.capitalize('hELLO'), " +
			"z.number().parse(3))",
	} {
		file := filepath.Join(work, "deep", name)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(source), 0o644); err != nil {
			t.Fatal(err)
		}
		if out, err := exec.Command(in.Node, file).CombinedOutput(); err != nil || string(out) != "Hello 3\n" {
			t.Errorf("%s prints %s, %v", name, out, err)
		}
	}
	for _, tt := range []struct {
		npm  []string
		kind layer.ProblemKind
		name string
	}{
		{[]string{"lodash@99.99.99"}, layer.ProblemVersion, "lodash@99.99.99"},
		{[]string{"haft-no-such-package-anywhere"}, layer.ProblemNotFound, "haft-no-such-package-anywhere"},
	} {
		_, err := in.Resolve(t.Context(), "npm", needs(t, nil, tt.npm), nil)
		if p, ok := errors.AsType[*layer.Problem](err); !ok || p.Kind != tt.kind ||
			!strings.Contains(p.Requirement, tt.name) {
			t.Errorf("%v: %+v of %v", tt.npm, p, err)
		}
	}
	changed := strings.Replace(string(lock), "sha512-", "sha512-AAAA", 1)
	_, err := s.Layer(t.Context(), layer.Want{Kind: "npm", Lock: []byte(changed)}, in.Install("npm", []byte(changed)))
	if p, ok := errors.AsType[*layer.Problem](err); !ok || p.Kind != layer.ProblemHash {
		t.Errorf("another hash: %+v of %v", p, err)
	}
}
