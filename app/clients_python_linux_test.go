package app_test

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"haft/internal/skiptest"
	"haft/sandbox/sandboxtest"
)

// pythonClient is the client for Python with what checks it.
type pythonClient struct {
	dir string // of its sources
	bin string // of the environment
	env []string
}

// command is a program of the environment in the directory of the client.
func (c pythonClient) command(ctx context.Context, program string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, filepath.Join(c.bin, program), args...)
	cmd.Dir = c.dir
	cmd.Env = append(os.Environ(), c.env...)
	return cmd
}

// run runs a program of the environment.
func (c pythonClient) run(t *testing.T, program string, args ...string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute) // for a machine that is busy
	defer cancel()
	if out, err := c.command(ctx, program, args...).CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", program, err, out)
	} else {
		t.Logf("%s", out)
	}
}

// install installs the client from a place, without what it depends on, and returns
// where it is then.
func (c pythonClient) install(t *testing.T, from string) string {
	t.Helper()
	to := t.TempDir()
	c.run(t, "python", "-m", "pip", "install", "-q", "--no-deps", "--no-build-isolation", "--target", to, from)
	if _, err := os.Stat(filepath.Join(to, "haft", "py.typed")); err != nil {
		t.Fatalf("what was installed is not whole: %v", err)
	}
	return to
}

// The client for Python installs from its directory and from the repository, is well
// typed, and does with a real server what its tests say.
func TestClients_python(t *testing.T) {
	root, err := filepath.Abs("..")
	if err != nil {
		t.Fatal(err)
	}
	c := pythonClient{dir: filepath.Join(root, "clients", "python"),
		bin: filepath.Join(skiptest.Part(t, "clients", "clientspy"), "bin")}
	c.env = []string{
		"PYTHONDONTWRITEBYTECODE=1", "PYTHONPATH=", "RUFF_NO_CACHE=true", "MYPY_CACHE_DIR=" + t.TempDir(),
		"PIP_DISABLE_PIP_VERSION_CHECK=1", "PIP_ROOT_USER_ACTION=ignore",
		// The repository may belong to somebody else, as in a container.
		"GIT_CONFIG_COUNT=1", "GIT_CONFIG_KEY_0=safe.directory", "GIT_CONFIG_VALUE_0=*",
	}
	t.Run("installs_from_the_repository", func(t *testing.T) {
		t.Parallel()
		if _, err := os.Stat(filepath.Join(root, ".git")); err != nil {
			t.Skipf("this is no clone of a repository: %v", err)
		}
		if out, err := c.command(t.Context(), "python", "-m", "pip", "download", "-q", "--no-deps", "-d", t.TempDir(),
			"idna==3.20").CombinedOutput(); err != nil {
			sandboxtest.Require(t, "index", "the index cannot be asked: "+string(out))
		}
		fresh := pythonClient{dir: t.TempDir(), bin: filepath.Join(t.TempDir(), "venv", "bin"), env: c.env}
		c.run(t, "python", "-m", "venv", filepath.Dir(fresh.bin))
		fresh.run(t, "pip", "install", "-q", "git+file://"+root+"#subdirectory=clients/python")
		fresh.run(t, "python", "-c", "import haft; print(haft.Client('http://127.0.0.1:1'), haft.__version__)")
		fresh.run(t, "pip", "check")
	})
	t.Run("is_checked", func(t *testing.T) {
		t.Parallel()
		c.run(t, "python", "tools/unasync.py", "--check")
		c.run(t, "ruff", "check", ".")
		c.run(t, "ruff", "format", "--check", ".")
		c.run(t, "mypy")
	})
	// Agents of frameworks have a process of their own: they leave things behind that pytest
	// takes for faults of the next test.
	frameworks := []string{"tests/test_docs.py", "tests/test_frameworks.py"}
	for name, args := range map[string][]string{
		"works_with_a_server":       {"--ignore=" + frameworks[0], "--ignore=" + frameworks[1]},
		"works_in_agent_frameworks": frameworks,
		"works_in_crewai":           append([]string{"-k", "TestAgents or its_python_runs"}, frameworks...),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := c
			site := c.install(t, c.dir)
			if name == "works_in_crewai" { // whose packages fit to no others
				c.bin = filepath.Join(skiptest.Part(t, "crewai", "crewpy"), "bin")
				c.env = append(slices.Clone(c.env), "HAFT_FRAMEWORK=crewai", "HOME="+t.TempDir())
			}
			c.env = append(slices.Concat(c.env, clientServer(t)), "PYTHONPATH="+site,
				"HAFT_OPENAPI="+filepath.Join(root, "server", "testdata", "openapi.json"))
			c.run(t, "python", append([]string{"-m", "pytest", "-q", "-p", "no:cacheprovider"}, args...)...)
		})
	}
}
