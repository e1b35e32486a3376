// Package goldentest compares what code makes with what files of testdata say. The flag
// -update writes it into the files instead.
package goldentest

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/txtar"
)

var update = flag.Bool("update", false, "write what comes out into the golden files")

// Updating reports whether expectations are rewritten.
func Updating() bool { return *update }

// Equal compares a file with what the code made.
func Equal(t testing.TB, file string, got []byte) {
	t.Helper()
	if *update {
		write(t, file, got)
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(want, got) {
		t.Errorf("%s differs; go test -update rewrites it (-want +got):\n%s", file, cmp.Diff(string(want), string(got)))
	}
}

func write(t testing.TB, file string, data []byte) {
	t.Helper()
	if err := os.WriteFile(file, data, 0o644); err != nil { //nolint:gosec // a file of the repository
		t.Fatal(err)
	}
}

// A File is a txtar archive with inputs and expectations. Its comment says what it is
// about.
type File struct {
	Name string // without directory and ending
	path string
	*txtar.Archive
}

// Files reads dir/*.txtar, of which there must be at least so many.
func Files(t testing.TB, dir string, least int) []*File {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(dir, "*.txtar"))
	if err != nil {
		t.Fatal(err)
	}
	if len(paths) < least {
		t.Errorf("there are %d golden files in %s, want at least %d", len(paths), dir, least)
	}
	var all []*File
	for _, path := range paths {
		a, err := txtar.ParseFile(path)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, &File{strings.TrimSuffix(filepath.Base(path), ".txtar"), path, a})
	}
	return all
}

// Run runs a test for each of [Files], and rewrites the file if it is updated.
func Run(t *testing.T, dir string, least int, test func(*testing.T, *File)) {
	for _, f := range Files(t, dir, least) {
		t.Run(f.Name, func(t *testing.T) {
			test(t, f)
			f.Save(t)
		})
	}
}

// Section returns the text of a section, and whether it is there.
func (f *File) Section(name string) (string, bool) {
	i := slices.IndexFunc(f.Files, func(s txtar.File) bool { return s.Name == name })
	if i < 0 {
		return "", false
	}
	return string(f.Files[i].Data), true
}

// Text returns the text of a section, or "".
func (f *File) Text(name string) string {
	text, _ := f.Section(name)
	return text
}

// Expect compares a section with what the code made, or puts that in its place.
func (f *File) Expect(t testing.TB, name, got string) {
	t.Helper()
	want, ok := f.Section(name)
	switch {
	case ok && want == got:
	case *update:
		f.set(name, got)
	default:
		t.Errorf("%s: %s (-want +got):\n%s", f.path, name, cmp.Diff(want, got))
	}
}

// ExpectResult expects schema.json with what the code made or, where it failed, error
// with the text of the error. matches compares them; nil means that they are equal.
func (f *File) ExpectResult(t testing.TB, made string, err error, matches func(want, got string) bool) {
	t.Helper()
	name, other, got := "schema.json", "error", made
	if err != nil {
		name, other, got = "error", "schema.json", err.Error()+"\n"
	}
	if want, ok := f.Section(name); ok && matches != nil && matches(want, got) {
		return
	}
	f.Expect(t, name, got)
	if *update {
		f.Files = slices.DeleteFunc(f.Files, func(s txtar.File) bool { return s.Name == other })
	}
}

func (f *File) set(name, text string) {
	for i := range f.Files {
		if f.Files[i].Name == name {
			f.Files[i].Data = []byte(text)
			return
		}
	}
	f.Files = append(f.Files, txtar.File{Name: name, Data: []byte(text)})
}

// Save writes the file if it is updated and the test has not failed.
func (f *File) Save(t testing.TB) {
	t.Helper()
	if len(bytes.TrimSpace(f.Comment)) == 0 {
		t.Errorf("%s does not begin with what it is about", f.path)
	}
	if *update && !t.Failed() {
		write(t, f.path, txtar.Format(f.Archive))
	}
}
