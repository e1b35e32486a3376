package deploy_test

import (
	"archive/zip"
	"bytes"
	"io"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"haft/internal/skiptest"
)

// checkout clones the repository as it is committed: make release removes dist, which may be a person's.
func checkout(t *testing.T) string {
	root, err := filepath.Abs("..")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(root, ".git")); err != nil {
		t.Skipf("this is no clone of a repository: %v", err)
	}
	if _, err := exec.LookPath("git"); err != nil {
		skiptest.Lacking(t, "git", err.Error())
	}
	dir := filepath.Join(t.TempDir(), "haft")
	do(t, root, "git", "clone", "--quiet", "--shared", ".", dir)
	return dir
}

// do runs a program in a directory, and returns what it prints.
func do(t *testing.T, dir, program string, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), program, args...)
	cmd.Dir = dir
	cmd.Env = append(slices.DeleteFunc(os.Environ(), func(kv string) bool { // of the make that runs this test
		return strings.HasPrefix(kv, "MAKE") || strings.HasPrefix(kv, "MFLAGS")
	}), "HAFT_ALLOW_REDUCED=1", "XDG_STATE_HOME="+t.TempDir(),
		// The repository may belong to somebody else, as in a container.
		"GIT_CONFIG_COUNT=1", "GIT_CONFIG_KEY_0=safe.directory", "GIT_CONFIG_VALUE_0=*")
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil {
		t.Fatalf("%s %s: %v\n%s%s", program, strings.Join(args, " "), err, &out, &errs)
	}
	return out.String()
}

// make install gives a program that runs tools, and its manual. make release packs the same program, and its checksums
// are those of all files.
func TestMake_install_and_release(t *testing.T) {
	dir, prefix := checkout(t), t.TempDir()
	do(t, dir, "make", "install", "PREFIX="+prefix)
	installed := filepath.Join(prefix, "bin", "haft")
	version := do(t, dir, installed, "version")
	commit := strings.TrimSpace(do(t, dir, "git", "describe", "--tags", "--always", "--abbrev=12"))
	if !strings.Contains(version, commit) {
		t.Errorf("haft version prints %q, want %s in it", version, commit)
	}
	const tool = "def double(n: int) -> int:\n    return 2 * n\n"
	if err := os.WriteFile(filepath.Join(prefix, "double.py"), []byte(tool), 0o600); err != nil {
		t.Fatal(err)
	}
	if got := do(t, prefix, installed, "run", "double.py", "--arg", "n=21"); got != "42\n" {
		t.Errorf("haft run prints %q, want 42", got)
	}
	for _, page := range []string{"haft.1", "haft-run.1"} {
		text, err := os.ReadFile(filepath.Join(prefix, "share", "man", "man1", page)) //nolint:gosec // as named
		if err != nil || !bytes.Contains(text, []byte(".SH NAME")) {
			t.Errorf("%s is no page of the manual: %v", page, err)
		}
	}

	do(t, dir, "make", "release", "PLATFORMS=linux/"+runtime.GOARCH)
	dist := filepath.Join(dir, "dist")
	var listed []string
	for line := range strings.Lines(do(t, dist, "sha256sum", "--check", "SHA256SUMS")) {
		name, _, _ := strings.Cut(line, ": ")
		listed = append(listed, name)
	}
	entries, err := os.ReadDir(dist)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if !slices.Contains(listed, e.Name()) && e.Name() != "SHA256SUMS" {
			t.Errorf("SHA256SUMS does not have %s", e.Name())
		}
	}
	wheels, err := filepath.Glob(filepath.Join(dist, "haft-*linux*.whl"))
	if err != nil || len(wheels) != 1 {
		t.Fatalf("the wheels are %v, %v, of %v", wheels, err, listed)
	}
	if got := do(t, dir, programOf(t, wheels[0]), "version"); got != version {
		t.Errorf("haft version of the wheel prints %q, and of make install %q", got, version)
	}
}

// programOf unpacks the program of a wheel.
func programOf(t *testing.T, wheel string) string {
	r, err := zip.OpenReader(wheel)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close() //nolint:errcheck // it was only read
	i := slices.IndexFunc(r.File, func(f *zip.File) bool { return path.Base(f.Name) == "haft" })
	if i < 0 {
		t.Fatalf("%s has no haft", wheel)
	}
	from, err := r.File[i].Open()
	if err != nil {
		t.Fatal(err)
	}
	name := filepath.Join(t.TempDir(), "haft")
	to, err := os.OpenFile(name, os.O_CREATE|os.O_WRONLY, 0o700) //nolint:gosec // a program
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.Copy(to, from); err != nil { //nolint:gosec // our own wheel
		t.Fatal(err)
	}
	if err := to.Close(); err != nil {
		t.Fatal(err)
	}
	return name
}
