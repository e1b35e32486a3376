package registry_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"haft"
	"haft/internal/registry"
)

func TestPut_files(t *testing.T) {
	r := newRegistry(t)
	many := make([]haft.ToolFile, haft.MaxToolFiles+1)
	for i := range many {
		many[i].Path = fmt.Sprintf("f%d.txt", i)
	}
	long := strings.Repeat("x", registry.MaxSource)
	one := func(path string) []haft.ToolFile { return []haft.ToolFile{{Path: path, Text: "x"}} }
	for name, c := range map[string]struct {
		files []haft.ToolFile
		want  string
	}{
		"up":             {one("../x.py"), "not a clean relative path"},
		"up inside":      {one("a/../../x.py"), "not a clean relative path"},
		"absolute":       {one("/etc/x.py"), "not a clean relative path"},
		"empty":          {one(""), "not a clean relative path"},
		"dot":            {one("."), "not a clean relative path"},
		"trailing slash": {one("a/"), "not a clean relative path"},
		"backslash":      {one(`a\b.py`), "not a clean relative path"},
		"NUL":            {one("a\x00.py"), "not a clean relative path"},
		"newline":        {one("a\nb.py"), "not a clean relative path"},
		"not UTF-8":      {one("a\xff.py"), "not a clean relative path"},
		"hidden":         {one("a/.b/c.py"), "hidden"},
		"package":        {one("lib/package.json"), "tells Node.js"},
		"long":           {one(strings.Repeat("a", haft.MaxToolFilePath+1)), "too long"},
		"deep":           {one("1/2/3/4/5/6/7/8/9"), "too deep"},
		"artifact":       {one("out/x"), "artifacts"},
		"bytecode":       {one("a.pyc"), "compiled"},
		"library":        {one("a.SO"), "compiled"},
		"standard":       {one("json/x.py"), "module of Python itself"},
		"twice":          {append(one("a"), one("a")...), "twice"},
		"directory":      {append(one("a/b"), one("a")...), "directory of another"},
		"latin-1":        {[]haft.ToolFile{{Path: "h.py", Data: []byte("x = '\xe9'")}}, "not text in UTF-8"},
		"latin-1 script": {[]haft.ToolFile{{Path: "h.CJS", Data: []byte("x = '\xe9'")}}, "not text in UTF-8"},
		"NUL in code":    {[]haft.ToolFile{{Path: "h.sh", Data: []byte("ls\x00")}}, "not text in UTF-8"},
		"archive":        {[]haft.ToolFile{{Path: "a.dat", Data: []byte("PK\x03\x04\xff")}}, "compiled code"},
		"archive behind text": {[]haft.ToolFile{{Path: "a.dat", Data: []byte("hello PK\x05\x06\x00\x00")}},
			"compiled code"},
		"program":   {[]haft.ToolFile{{Path: "a.txt", Data: []byte("\x7fELF\x02\x00")}}, "compiled code"},
		"wasm":      {[]haft.ToolFile{{Path: "a", Data: []byte("\x00asm\x01")}}, "compiled code"},
		"of a list": {[]haft.ToolFile{{Path: "a", Omitted: true}}, "has no content"},
		"both": {[]haft.ToolFile{{Path: "a", Text: "x", Data: []byte("y")}},
			"content or content_base64"},
		"large": {[]haft.ToolFile{{Path: "a", Text: long + "x"}}, "is the most"},
		"together": {[]haft.ToolFile{{Path: "a", Text: long}, {Path: "b", Text: long}, {Path: "c", Text: "x"}},
			"together"},
		"many": {many, "is the most"},
	} {
		d := add()
		d.Files = c.files
		_, err := r.Put(t.Context(), ann, d)
		if haft.CodeOf(err) != haft.CodeInvalid || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, want %q", name, err, c.want)
		}
	}
}

// TestPut_files_are_of_the_version: equal files have one form and one digest, and every file is
// reviewed.
func TestPut_files_are_of_the_version(t *testing.T) {
	r := newRegistry(t)
	put := func(files ...haft.ToolFile) *haft.Change {
		d := add()
		d.Files = files
		return mustPut(t, r, ann, d)
	}
	put(haft.ToolFile{Path: "b.py", Text: "x"}, haft.ToolFile{Path: "a.txt", Data: []byte("y")})
	if c := put(haft.ToolFile{Path: "a.txt", Text: "y"}, haft.ToolFile{Path: "b.py", Data: []byte("x")}); !c.Same {
		t.Error("the same files in another form are another version")
	}
	c := put(haft.ToolFile{Path: "b.py", Text: "z"}, haft.ToolFile{Path: "c.bin", Data: []byte{0xff}})
	want := []string{"a.txt: removed", "b.py: changed", "c.bin: added"}
	if diff := cmp.Diff(want, c.Files); diff != "" || c.Same {
		t.Errorf("changes (-want +got):\n%s", diff)
	}
	if f := c.Tool.Version.Review.Findings; len(f) != 1 || f[0].File != "c.bin" {
		t.Errorf("findings: got %+v, want one about c.bin", f)
	}
	c = put(haft.ToolFile{Path: "b.py", Text: "\n# finding high"})
	if f := c.Tool.Version.Review.Findings; len(f) != 1 || f[0].File != "b.py" || f[0].Line != 2 || c.Waiting == 0 {
		t.Errorf("findings: got %+v, want one in b.py that makes the version wait", f)
	}
}

// TestTools_lists_have_no_content: a page of tools would have hundreds of megabytes of files.
func TestTools_lists_have_no_content(t *testing.T) {
	r := newRegistry(t)
	d := add()
	d.Files = []haft.ToolFile{{Path: "b.py", Text: "x"}}
	c := mustPut(t, r, ann, d)
	for _, f := range []haft.ToolFilter{{}, {Search: d.Name}} {
		found := 0
		for tool, err := range r.Tools(t.Context(), ann, f) {
			if err != nil {
				t.Fatal(err)
			}
			if tool.ID != c.Tool.ID {
				continue
			}
			found++
			if diff := cmp.Diff([]haft.ToolFile{{Path: "b.py", Omitted: true}}, tool.Version.Files); diff != "" {
				t.Errorf("%+v lists (-want +got):\n%s", f, diff)
			}
		}
		if found != 1 {
			t.Errorf("%+v lists the tool %d times", f, found)
		}
	}
	whole, err := r.Tool(t.Context(), ann, string(c.Tool.ID))
	if err != nil || whole.Version.Files[0].Text != "x" {
		t.Errorf("the tool itself: %+v, %v", whole, err)
	}
}

// TestPut_reviews_files_in_both_languages: a file is read in its own language and in that of the
// tool, unless it is data, and what nothing can read needs a person.
func TestPut_reviews_files_in_both_languages(t *testing.T) {
	for _, c := range []struct {
		tool haft.Kind
		file haft.ToolFile
		can  string // the languages that can read it
		want string
	}{
		{haft.KindJavaScript, haft.ToolFile{Path: "h.py", Text: "x"}, "python javascript", "python javascript: "},
		{haft.KindJavaScript, haft.ToolFile{Path: "h.py", Text: "x"}, "python", "python javascript: "},
		{haft.KindJavaScript, haft.ToolFile{Path: "h.py", Text: "x"}, "bash", "python javascript: high"},
		{haft.KindJavaScript, haft.ToolFile{Path: "h.ts", Text: "x"}, "typescript", "typescript: "},
		{haft.KindBash, haft.ToolFile{Path: "lib", Text: "x"}, "", "bash: high"},
		{haft.KindBash, haft.ToolFile{Path: "lib.md", Text: "x"}, "", ": "},
		{haft.KindPython, haft.ToolFile{Path: "h.sh", Text: "x"}, "", "bash: high"},
		{haft.KindPython, haft.ToolFile{Path: "lib", Text: "x"}, "", ": "},
		{haft.KindPython, haft.ToolFile{Path: "a.bin", Data: []byte{0xff, 0}}, "", ": medium"},
		{haft.KindBash, haft.ToolFile{Path: "lib", Data: []byte("ls \xff")}, "", ": high"},
		{haft.KindBash, haft.ToolFile{Path: "lib", Data: []byte("GIF89a\xff")}, "", ": high"},
		{haft.KindBash, haft.ToolFile{Path: "a.gif", Data: []byte("GIF89a\xff")}, "", ": low"},
	} {
		var asked []string
		read := func(_ context.Context, kind haft.Kind, source string, several bool) ([]haft.Finding, error) {
			if !several {
				t.Error("the reviewer does not know that there are several files")
			}
			if source != "x" {
				return nil, nil
			}
			asked = append(asked, string(kind))
			if kind == "" || slices.Contains(strings.Fields(c.can), string(kind)) {
				return nil, nil
			}
			return []haft.Finding{{Rule: "source-unreadable", Severity: haft.SeverityHigh}}, nil
		}
		d := add()
		d.Kind, d.Files = c.tool, []haft.ToolFile{c.file}
		r := registry.New(open(t), registry.Config{Derive: derive, Review: read})
		var found []string
		for _, f := range mustPut(t, r, ann, d).Tool.Version.Review.Findings {
			found = append(found, string(f.Severity))
		}
		if got := strings.Join(asked, " ") + ": " + strings.Join(found, " "); got != c.want {
			t.Errorf("%s in a tool of %s, read by %q: got %q, want %q", c.file.Path, c.tool, c.can, got, c.want)
		}
	}
}

// TestPut_programs_that_run_code: an interpreter among the programs of a tool needs a person.
func TestPut_programs_that_run_code(t *testing.T) {
	for name, want := range map[string]int{"git": 0, "bash": 1, "python3.12": 1, "node": 1} {
		d := add()
		d.Settings.Programs = []string{name}
		f := mustPut(t, newRegistry(t), ann, d).Tool.Version.Review.Findings
		if len(f) != want || want == 1 && f[0].Severity != haft.SeverityHigh {
			t.Errorf("%s: got %+v", name, f)
		}
	}
}
