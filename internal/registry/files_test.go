package registry_test

import (
	"fmt"
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
		"long":           {one(strings.Repeat("a", haft.MaxToolFilePath+1)), "too long"},
		"deep":           {one("1/2/3/4/5/6/7/8/9"), "too deep"},
		"artifact":       {one("out/x"), "artifacts"},
		"bytecode":       {one("a.pyc"), "compiled"},
		"library":        {one("a.SO"), "compiled"},
		"standard":       {one("json/x.py"), "module of Python itself"},
		"twice":          {append(one("a"), one("a")...), "twice"},
		"directory":      {append(one("a/b"), one("a")...), "directory of another"},
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
