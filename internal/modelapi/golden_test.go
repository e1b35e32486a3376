package modelapi_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/txtar"

	"haft"
	"haft/internal/modelapi"
	"haft/schema"
)

// update rewrites the expectations of the golden files with what the code does.
var update = flag.Bool("update", false, "rewrite the golden files in testdata")

// A goldenFile is a txtar with inputs and expectations.
type goldenFile struct {
	name string
	path string
	*txtar.Archive
}

// goldenFiles reads the files of a directory of testdata.
func goldenFiles(t testing.TB, dir string) []goldenFile {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join("testdata", dir, "*.txtar"))
	if err != nil || len(paths) == 0 {
		t.Fatalf("there are no golden files in testdata/%s (%v)", dir, err)
	}
	var all []goldenFile
	for _, path := range paths {
		a, err := txtar.ParseFile(path)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, goldenFile{strings.TrimSuffix(filepath.Base(path), ".txtar"), path, a})
	}
	return all
}

// section returns a section, or nil.
func (g goldenFile) section(name string) []byte {
	for _, f := range g.Files {
		if f.Name == name {
			return f.Data
		}
	}
	return nil
}

// expect compares a section with what the code made, or rewrites it.
func (g goldenFile) expect(t *testing.T, name string, got any) {
	t.Helper()
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	if err := enc.Encode(got); err != nil {
		t.Fatal(err)
	}
	if !*update {
		if diff := cmp.Diff(string(g.section(name)), b.String()); diff != "" {
			t.Errorf("%s, %s (-want +got):\n%s", g.path, name, diff)
		}
		return
	}
	for i := range g.Files {
		if g.Files[i].Name == name {
			g.Files[i].Data = b.Bytes()
			return
		}
	}
	g.Files = append(g.Files, txtar.File{Name: name, Data: b.Bytes()})
}

// save writes the file if expectations are rewritten.
func (g goldenFile) save(t *testing.T) {
	t.Helper()
	if *update && !t.Failed() {
		if err := os.WriteFile(g.path, txtar.Format(g.Archive), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// results reads the results that a golden file gives to the calls. Null stands for
// the result of a call that is not run.
func (g goldenFile) results(t *testing.T, req *modelapi.Request) []*haft.Result {
	t.Helper()
	var results []*haft.Result
	if err := json.Unmarshal(g.section("results.json"), &results); err != nil {
		t.Fatalf("%s: results.json: %v", g.path, err)
	}
	for i, r := range results {
		if refused := req.Calls[i].Refused(); (r == nil) != (refused != nil) {
			t.Errorf("%s: call %d: result %v, refused %v", g.path, i, r, refused)
		} else if r == nil {
			results[i] = refused
		}
	}
	return results
}

func TestAnswers(t *testing.T) {
	for _, g := range goldenFiles(t, "answer") {
		t.Run(g.name, func(t *testing.T) {
			req, err := modelapi.Parse(g.section("answer.json"), "")
			if err != nil {
				t.Fatal(err)
			}
			g.expect(t, "request.json", req)
			messages, err := modelapi.Render(req, g.results(t, req))
			if err != nil {
				t.Fatal(err)
			}
			g.expect(t, "messages.json", messages)
			g.save(t)

			// By its name the format gives the same.
			named, err := modelapi.Parse(g.section("answer.json"), req.Form)
			if diff := cmp.Diff(req, named); diff != "" || err != nil {
				t.Errorf("Parse as %s: %v (-detected +named):\n%s", req.Form, err, diff)
			}
		})
	}
}

func TestTools(t *testing.T) {
	for _, g := range goldenFiles(t, "tools") {
		t.Run(g.name, func(t *testing.T) {
			var tools []haft.Tool
			if err := json.Unmarshal(g.section("tools.json"), &tools); err != nil {
				t.Fatal(err)
			}
			for _, form := range schema.Forms() {
				for _, strict := range []bool{false, true} {
					l, err := modelapi.Tools(form, tools, strict)
					if err != nil {
						t.Fatal(err)
					}
					name := string(form)
					if strict {
						name += "-strict"
					}
					g.expect(t, name+".json", l)
				}
			}
			g.save(t)
		})
	}
}
