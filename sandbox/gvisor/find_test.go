package gvisor_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"haft"
	"haft/sandbox/gvisor"
)

func TestVersion_is_pinned(t *testing.T) {
	if !regexp.MustCompile(`^v0\.0\.0-\d{14}-[0-9a-f]{12}$`).MatchString(gvisor.Version()) {
		t.Errorf("Version() = %q, want a pseudo-version", gvisor.Version())
	}
}

func TestFind(t *testing.T) {
	tests := []struct {
		name  string
		cache os.FileMode // of the program in the cache; 0 is none
		path  os.FileMode // of the one in PATH
		want  string      // the directory of what is found
		code  haft.Code
	}{
		{"nowhere", 0, 0, "", haft.CodeDenied},
		{"in the path", 0, 0o755, "path", ""},
		{"in the cache", 0o755, 0, "cache", ""},
		{"the cache comes first", 0o755, 0o755, "cache", ""},
		{"others can change it", 0o757, 0, "", haft.CodeDenied},
		{"a group can change the one in the path", 0, 0o775, "", haft.CodeDenied},
		{"one that others can change hides no other", 0o722, 0o755, "", haft.CodeDenied},
		{"not a program", 0o644, 0, "", haft.CodeDenied},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			dir := t.TempDir()
			t.Setenv("XDG_CACHE_HOME", filepath.Join(dir, "cache"))
			t.Setenv("HOME", dir)
			t.Setenv("PATH", filepath.Join(dir, "path"))
			cache, err := os.UserCacheDir()
			if err != nil {
				t.Fatal(err)
			}
			put(t, filepath.Join(cache, "haft", "gvisor", gvisor.Version(), "runsc"), test.cache)
			put(t, filepath.Join(dir, "path", "runsc"), test.path)
			name, err := gvisor.Find()
			if haft.CodeOf(err) != test.code {
				t.Fatalf("Find = %q, %v, want code %q", name, err, test.code)
			}
			if test.code == "" && !strings.Contains(strings.TrimPrefix(name, dir), test.want) {
				t.Errorf("Find = %s, want the one in the %s", name, test.want)
			}
		})
	}
}

// put makes a file.
func put(t *testing.T, name string, mode os.FileMode) {
	t.Helper()
	if mode == 0 {
		return
	}
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, []byte("#!"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(name, mode); err != nil {
		t.Fatal(err)
	}
}

func TestInstall_needs_go(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	if _, err := gvisor.Install(t.Context(), nil); haft.CodeOf(err) != haft.CodeUnavailable {
		t.Errorf("Install = %v, want code %q", err, haft.CodeUnavailable)
	}
}

// What is built is what the go command made, in one step, and nothing is left of the building.
func TestInstall(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("XDG_CACHE_HOME", filepath.Join(dir, "cache"))
	t.Setenv("HOME", dir)
	bin := filepath.Join(dir, "bin")
	put(t, filepath.Join(bin, "go"), 0o755)
	script := `#!/bin/sh
case "$CGO_ENABLED $GOFLAGS $*" in
"0  install "*" gvisor.dev/gvisor/runsc@` + gvisor.Version() + `") echo built >"$GOBIN/runsc" ;;
*) exit 1 ;;
esac
`
	if err := os.WriteFile(filepath.Join(bin, "go"), []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", bin)
	t.Setenv("GOFLAGS", "-mod=vendor")
	name, err := gvisor.Install(t.Context(), os.Stderr)
	if err != nil {
		t.Fatal(err)
	}
	if found, err := gvisor.Find(); err != nil || found != name {
		t.Errorf("Find = %q, %v, want %q", found, err, name)
	}
	left, err := os.ReadDir(filepath.Dir(name))
	if err != nil || len(left) != 1 {
		t.Errorf("beside the program: %v, %v", left, err)
	}
	if err := os.WriteFile(filepath.Join(bin, "go"), []byte("#!/bin/sh\nexit 1\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	if _, err := gvisor.Install(t.Context(), nil); haft.CodeOf(err) != haft.CodeUnavailable {
		t.Errorf("Install = %v, want code %q", err, haft.CodeUnavailable)
	}
}
