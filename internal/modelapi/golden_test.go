package modelapi_test

import (
	"bytes"
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"

	"haft"
	"haft/internal/goldentest"
	"haft/internal/modelapi"
	"haft/schema"
)

// expect compares a section with what the code made, as JSON.
func expect(t *testing.T, g *goldentest.File, name string, got any) {
	t.Helper()
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	if err := enc.Encode(got); err != nil {
		t.Fatal(err)
	}
	g.Expect(t, name, b.String())
}

// results reads the results that a golden file gives to the calls. Null stands for
// the result of a call that is not run.
func results(t *testing.T, g *goldentest.File, req *modelapi.Request) []*haft.Result {
	t.Helper()
	var results []*haft.Result
	if err := json.Unmarshal([]byte(g.Text("results.json")), &results); err != nil {
		t.Fatalf("%s: results.json: %v", g.Name, err)
	}
	for i, r := range results {
		if refused := req.Calls[i].Refused(); (r == nil) != (refused != nil) {
			t.Errorf("%s: call %d: result %v, refused %v", g.Name, i, r, refused)
		} else if r == nil {
			results[i] = refused
		}
	}
	return results
}

func TestAnswers(t *testing.T) {
	goldentest.Run(t, "testdata/answer", 1, func(t *testing.T, g *goldentest.File) {
		answer := []byte(g.Text("answer.json"))
		req, err := modelapi.Parse(answer, "")
		if err != nil {
			t.Fatal(err)
		}
		expect(t, g, "request.json", req)
		messages, err := modelapi.Render(req, results(t, g, req))
		if err != nil {
			t.Fatal(err)
		}
		expect(t, g, "messages.json", messages)

		// By its name the format gives the same.
		named, err := modelapi.Parse(answer, req.Form)
		if diff := cmp.Diff(req, named); diff != "" || err != nil {
			t.Errorf("Parse as %s: %v (-detected +named):\n%s", req.Form, err, diff)
		}
	})
}

func TestTools(t *testing.T) {
	goldentest.Run(t, "testdata/tools", 1, func(t *testing.T, g *goldentest.File) {
		var tools []haft.Tool
		if err := json.Unmarshal([]byte(g.Text("tools.json")), &tools); err != nil {
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
				expect(t, g, name+".json", l)
			}
		}
	})
}
