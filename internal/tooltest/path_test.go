package tooltest

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"haft"
)

// A test names only files below its directory, also by way of links.
func TestFile_within(t *testing.T) {
	outside, dir := t.TempDir(), t.TempDir()
	for _, path := range []string{filepath.Join(outside, "key"), filepath.Join(dir, "data.csv")} {
		if err := os.WriteFile(path, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for link, to := range map[string]string{"key": filepath.Join(outside, "key"), "out": outside,
		"dangling": filepath.Join(outside, "new")} {
		if err := os.Symlink(to, filepath.Join(dir, link)); err != nil {
			t.Fatal(err)
		}
	}
	f := &File{Path: filepath.Join(dir, "a_test.yaml")}
	for name, want := range map[string]bool{"data.csv": true, "new.yaml": true, "sub/none.csv": true, "..": false,
		"../key": false, "sub/../../key": false, filepath.Join(outside, "key"): false, "key": false, "out/key": false,
		"out/new.yaml": false, "dangling": false} {
		if _, err := f.within(name); (err == nil) != want {
			t.Errorf("within(%q): %v", name, err)
		}
	}
}

// Tools and their files may lie beside the directory of the test, and not outside of its repository, also by way of
// links. The reader of a pipe would wait for ever.
func TestFile_toolPath(t *testing.T) {
	outside, repo := t.TempDir(), t.TempDir()
	pipe, other, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer pipe.Close()  //nolint:errcheck // it is only named
	defer other.Close() //nolint:errcheck // as above
	for _, dir := range []string{".git", "tests", "a/b", "a/x"} {
		if err := os.MkdirAll(filepath.Join(repo, dir), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	for _, path := range []string{filepath.Join(outside, "key.py"), filepath.Join(repo, "tool.py"),
		filepath.Join(repo, "tests", "side.py"), filepath.Join(repo, "tests", "data.csv"),
		filepath.Join(repo, "a", "x", "key.py"), filepath.Join(repo, ".git", "config")} {
		if err := os.WriteFile(path, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for link, to := range map[string]string{"link.py": filepath.Join(outside, "key.py"), "out": outside,
		"side.tool.json": filepath.Join(outside, "key.py"), "own.py": "../tool.py", "../deep": "a/b", "../x": outside,
		"stdin": "/proc/self/fd/" + strconv.Itoa(int(pipe.Fd()))} {
		if err := os.Symlink(to, filepath.Join(repo, "tests", link)); err != nil {
			t.Fatal(err)
		}
	}
	if err := syscall.Mkfifo(filepath.Join(repo, "tests", "pipe.py"), 0o600); err != nil {
		t.Fatal(err)
	}
	f := &File{Path: filepath.Join(repo, "tests", "a_test.yaml")}
	for name, want := range map[string]string{"../tool.py": "", "../tool.py:one": "", "..": "", "own.py": "",
		"none.py":                      "",
		filepath.Join(repo, "tool.py"): "", "link.py": "is not below", "out": "is not below", "side.py": "is not below",
		filepath.Join(outside, "key.py"): "is not below", filepath.Join(outside, "key.py") + ":f": "is not below",
		"../..": "is not below", "pipe.py": "no regular file"} {
		if got, err := f.toolPath(name); (err == nil) != (want == "") || !strings.Contains(haft.MessageOf(err), want) {
			t.Errorf("toolPath(%q) = %q, %v", name, got, err)
		}
	}
	for name, want := range map[string]string{"data.csv": "", "data.csv:other.csv": "", "../tool.py": "",
		"link.py": "is not below", "link.py:x": "is not below", "out/key.py": "is not below",
		filepath.Join(outside, "key.py"): "is not below", "pipe.py:x": "no regular file",
		"../.git/config:c": "is not below", "stdin": "find a file",
		// The link leads to a/b, so that the kernel looks in a; who cleans the name first looks in x.
		repo + "/deep/../x/key.py": "is not below"} {
		if got, err := f.filePath(name); (err == nil) != (want == "") || !strings.Contains(fmt.Sprint(err), want) {
			t.Errorf("filePath(%q) = %q, %v", name, got, err)
		}
	}
	if err := os.Symlink(filepath.Join(outside, "key.py"), filepath.Join(repo, "tests", GatesFile)); err != nil {
		t.Fatal(err)
	}
	if err := f.addGates(); haft.CodeOf(err) != haft.CodeInvalid {
		t.Errorf("gates by a link: %v", err)
	}
	if _, err := f.within("pipe.py"); haft.CodeOf(err) != haft.CodeInvalid {
		t.Errorf("a pipe with what a test reads: %v", err)
	}
}

// Without a repository the current directory counts, if it has the test file.
func TestFile_projectDir(t *testing.T) {
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "tests"), 0o700); err != nil {
		t.Fatal(err)
	}
	f := &File{Path: filepath.Join(dir, "tests", "a_test.yaml")}
	own, err := filepath.EvalSymlinks(filepath.Join(dir, "tests"))
	if err != nil {
		t.Fatal(err)
	}
	if got, err := f.projectDir(); got != own || err != nil {
		t.Errorf("outside of the current directory: %q, %v", got, err)
	}
	t.Chdir(dir)
	t.Setenv("HOME", filepath.Join(dir, "home"))
	if err := os.Mkdir(filepath.Join(dir, "home"), 0o700); err != nil {
		t.Fatal(err)
	}
	if got, err := f.projectDir(); got != own || err != nil {
		t.Errorf("the home directory is below the current directory: %q, %v", got, err)
	}
	t.Setenv("HOME", t.TempDir())
	if got, err := f.projectDir(); got != filepath.Dir(own) || err != nil {
		t.Errorf("below the current directory: %q, %v", got, err)
	}
}
