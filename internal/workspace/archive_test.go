package workspace_test

import (
	"archive/tar"
	"bytes"
	"context"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/iotest"

	"haft"
	"haft/internal/workspace"
)

// archiveOf makes a tar archive.
func archiveOf(t *testing.T, list ...tar.Header) io.Reader {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, h := range list {
		text := h.PAXRecords["text"]
		h.PAXRecords, h.Size = nil, int64(len(text))
		if err := w.WriteHeader(&h); err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(w, text); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return &b
}

// file is the header of a file with its content.
func file(name, text string) tar.Header {
	return tar.Header{Name: name, Mode: 0o640, Typeflag: tar.TypeReg, PAXRecords: map[string]string{"text": text}}
}

// from is an archive to be imported.
func from(files io.Reader) workspace.Archive {
	return workspace.Archive{AboutName: "about", About: []byte("me"), Dir: "files", Files: files}
}

// What was imported is exported as it was, but for bits and kinds of files that nobody needs.
func TestImport_and_Export(t *testing.T) {
	a := open(t, workspace.Config{})
	in := archiveOf(t, tar.Header{Name: "./", Typeflag: tar.TypeDir, Mode: 0o755},
		tar.Header{Name: "d", Typeflag: tar.TypeDir, Mode: 0o750}, file("d/a", "text"),
		tar.Header{Name: "d/hard", Linkname: "d/a", Typeflag: tar.TypeLink},
		tar.Header{Name: "d/away", Linkname: "/etc/passwd", Typeflag: tar.TypeSymlink},
		tar.Header{Name: "pipe", Typeflag: tar.TypeFifo, Mode: 0o600},
		tar.Header{Name: "device", Typeflag: tar.TypeChar, Mode: 0o600},
		tar.Header{Name: "setuid", Typeflag: tar.TypeReg, Mode: 0o4755})
	if err := a.Import(t.Context(), ann, haft.NewWorkspace{Name: "in"}, from(in)); err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if err := a.Export(t.Context(), ann, "in", "files", &out, func([]string) {}); err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	for r := tar.NewReader(&out); ; {
		h, err := r.Next()
		if err != nil {
			break
		}
		text, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		got[h.Name] = fmt.Sprintf("%c %o %s", h.Typeflag, h.Mode, text)
		if h.Typeflag == tar.TypeSymlink || h.Typeflag == tar.TypeLink {
			got[h.Name] = fmt.Sprintf("%c %s", h.Typeflag, h.Linkname)
		}
	}
	first, second := "d/a", "d/hard" // in any order
	if strings.HasPrefix(got[first], "1") {
		first, second = second, first
	}
	want := map[string]string{"d": "5 750 ", first: "0 640 text", second: "1 " + first, "d/away": "2 /etc/passwd",
		"setuid": "0 755 "}
	if !maps.Equal(got, want) {
		t.Errorf("got %v\nwant %v", got, want)
	}
	err := a.Export(t.Context(), bob, "in", "files", io.Discard, func([]string) {})
	if haft.CodeOf(err) != haft.CodeNotFound {
		t.Errorf("somebody else exports it: %v", err)
	}
}

// An archive writes nothing outside of its directory, and no more than the quota; what is refused leaves nothing.
func TestImport_trusts_no_archive(t *testing.T) {
	a := open(t, workspace.Config{})
	outside := filepath.Join(t.TempDir(), "outside")
	if err := os.WriteFile(outside, []byte("mine"), 0o666); err != nil {
		t.Fatal(err)
	}
	deep := []tar.Header{}
	for i := range 80 {
		deep = append(deep, tar.Header{Name: strings.Repeat("d/", i) + "d", Typeflag: tar.TypeDir, Mode: 0o700})
	}
	link := tar.Header{Name: "l", Linkname: filepath.Dir(outside), Typeflag: tar.TypeSymlink}
	for name, list := range map[string][]tar.Header{
		"up":                 {file("../x", "evil")},
		"absolute":           {file(outside, "evil")},
		"through a link":     {link, file("l/outside", "evil")},
		"over a link":        {{Name: "l", Linkname: outside, Typeflag: tar.TypeSymlink}, file("l", "evil")},
		"link of a file":     {{Name: "h", Linkname: outside, Typeflag: tar.TypeLink}},
		"link through links": {link, {Name: "h", Linkname: "l/outside", Typeflag: tar.TypeLink}},
		"link of a link":     {link, {Name: "h", Linkname: "l", Typeflag: tar.TypeLink}},
		"twice":              {file("a", "1"), file("a", "2")},
		"the description":    {file("../about", "evil")},
		"no directory":       {file("a/b", "1")},
		"deep":               deep,
		"long":               {file(strings.Repeat("x", 2000), "1")},
		"many":               slices.Repeat([]tar.Header{{Name: "d", Typeflag: tar.TypeDir}}, 30),
		"large":              {file("a", strings.Repeat("x", 3<<20))},
	} {
		err := a.Import(t.Context(), ann, haft.NewWorkspace{Name: "in",
			Quota: haft.WorkspaceSize{Bytes: 2 << 20, Inodes: 20}}, from(archiveOf(t, list...)))
		if err == nil {
			t.Errorf("%s is imported", name)
			if err := a.RemoveWorkspace(t.Context(), ann, "in"); err != nil {
				t.Fatal(err)
			}
		}
		if strings.Contains(haft.MessageOf(err), outside) {
			t.Errorf("%s: the message names a path: %v", name, err)
		}
	}
	err := a.Import(t.Context(), ann, haft.NewWorkspace{Name: "in"}, from(strings.NewReader("no archive")))
	if haft.CodeOf(err) != haft.CodeInvalid {
		t.Errorf("what is no archive: %v", err)
	}
	gone := &haft.Error{Code: haft.CodeNotFound, Message: "the session has ended"}
	err = a.Import(t.Context(), ann, haft.NewWorkspace{Name: "in"}, from(iotest.ErrReader(gone)))
	if haft.CodeOf(err) != haft.CodeNotFound {
		t.Errorf("an archive that its sender breaks off: %v", err)
	}
	if raw, err := os.ReadFile(outside); err != nil || string(raw) != "mine" {
		t.Errorf("a file outside has %q, %v", raw, err)
	}
	if left, err := filepath.Glob(filepath.Join(a.dir, "workspaces", "*", "*")); err != nil || len(left) != 1 {
		t.Errorf("beside the home of w there is something left: %v %v", left, err)
	}
	if err := a.Import(t.Context(), ann, haft.NewWorkspace{Name: "../w"}, from(archiveOf(t))); err == nil {
		t.Error("a name with a path")
	}
}

// Files that come from other workspaces are under the rules on those, also if that is found while they are read, and
// who reads them is told where they come from.
func TestImport_says_where_files_come_from(t *testing.T) {
	a := open(t, workspace.Config{})
	denied := &haft.Error{Code: haft.CodeDenied, Message: "prod"}
	a.Ask = func(_ context.Context, _ haft.Principal, w *haft.CallWorkspace) error {
		if slices.Contains(w.Origins, "prod") {
			return denied
		}
		return nil
	}
	in := from(archiveOf(t, file("a", "text")))
	asked := 0
	in.From = func() ([]string, error) { asked++; return []string{"test", "in", "dev", "test"}, nil }
	a.check(a.Import(t.Context(), ann, haft.NewWorkspace{Name: "in"}, in))
	w, err := a.Workspace(t.Context(), ann, "in")
	if a.check(err); asked != 2 || !slices.Equal(w.Origins, []string{"dev", "test"}) {
		t.Errorf("asked %d times, from %v", asked, w.Origins)
	}
	var names []string
	a.check(a.Export(t.Context(), ann, "in", "files", io.Discard, func(from []string) { names = from }))
	if !slices.Equal(names, []string{"dev", "test", "in"}) {
		t.Errorf("exported from %v", names)
	}
	for what, later := range map[string]func() ([]string, error){
		"a rule":  func() ([]string, error) { return []string{"prod"}, nil },
		"secrets": func() ([]string, error) { return nil, denied },
	} {
		for _, from := range []int{0, 1} {
			calls := 0
			in := workspace.Archive{AboutName: "about", Dir: "files", Files: archiveOf(t, file("a", "text"))}
			in.From = func() ([]string, error) {
				if calls++; calls > from {
					return later()
				}
				return nil, nil
			}
			err := a.Import(t.Context(), ann, haft.NewWorkspace{Name: "out"}, in)
			if haft.CodeOf(err) != haft.CodeDenied {
				t.Errorf("%s, from call %d on: %v", what, from, err)
			}
			if _, err := a.Workspace(t.Context(), ann, "out"); haft.CodeOf(err) != haft.CodeNotFound {
				t.Errorf("%s, from call %d on: it is there: %v", what, from, err)
			}
		}
	}
}
