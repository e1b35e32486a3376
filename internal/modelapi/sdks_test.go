package modelapi_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"haft"
	"haft/internal/goldentest"
	"haft/internal/modelapi"
	"haft/internal/skiptest"
	"haft/schema"
)

// An sdkAnswer is a golden file for the vendors' packages.
type sdkAnswer struct {
	Name     string          `json:"name"`
	Form     schema.Form     `json:"form"`
	Legacy   bool            `json:"legacy"`
	Answer   json.RawMessage `json:"answer"`
	Messages json.RawMessage `json:"messages"`
}

// An sdkTools is a list of tools for the vendors' packages.
type sdkTools struct {
	Name  string          `json:"name"`
	Form  schema.Form     `json:"form"`
	Tools json.RawMessage `json:"tools"`
}

// runSDKs runs a script with the vendors' packages, which are in an environment of
// their own. Without it the test is skipped, or fails if HAFT_REQUIRE names sdks.
func runSDKs(t *testing.T, in, out any) {
	t.Helper()
	python, err := filepath.Abs(filepath.Join("..", "..", ".haft", "testsdks", "bin", "python"))
	if err == nil {
		_, err = os.Stat(python)
	}
	if err != nil {
		skiptest.Lacking(t, "sdks", fmt.Sprintf("the vendors' packages of testdata/sdks.txt are not in "+
			".haft/testsdks: run make setup-more (%v)", err))
	}
	stdin, err := json.Marshal(in)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute) // they take seconds to be imported
	defer cancel()
	cmd := exec.CommandContext(ctx, python, "-I", filepath.Join("testdata", "sdks.py"))
	var stderr bytes.Buffer
	cmd.Stdin, cmd.Stderr = bytes.NewReader(stdin), &stderr
	stdout, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v: %s", err, stderr.String())
	}
	if err := json.Unmarshal(stdout, out); err != nil {
		t.Fatal(err)
	}
}

// TestClients_of_vendors holds what we write against the types of the vendors' own packages, and
// reads every answer also as these packages write it.
func TestClients_of_vendors(t *testing.T) {
	var in struct {
		Answers []sdkAnswer `json:"answers"`
		Tools   []sdkTools  `json:"tools"`
	}
	requests := map[string]*modelapi.Request{}
	for _, g := range goldentest.Files(t, "testdata/answer", 1) {
		raw := []byte(g.Text("answer.json"))
		req, err := modelapi.Parse(raw, "")
		if err != nil {
			t.Fatal(err)
		}
		requests[g.Name] = req
		messages, err := modelapi.Render(req, results(t, g, req))
		if err != nil {
			t.Fatal(err)
		}
		in.Answers = append(in.Answers, sdkAnswer{g.Name, req.Form, req.Legacy, raw, messages})
	}
	for _, g := range goldentest.Files(t, "testdata/tools", 1) {
		var tools []haft.Tool
		if err := json.Unmarshal([]byte(g.Text("tools.json")), &tools); err != nil {
			t.Fatal(err)
		}
		for _, form := range modelapi.Forms() {
			for _, strict := range []bool{false, true} {
				l, err := modelapi.Tools(form, tools, strict)
				if err != nil {
					t.Fatal(err)
				}
				in.Tools = append(in.Tools, sdkTools{fmt.Sprintf("%s strict=%v", g.Name, strict), form, l.Tools})
			}
		}
	}
	var out struct {
		Errors []string                     `json:"errors"`
		Dumps  map[string][]json.RawMessage `json:"dumps"`
	}
	runSDKs(t, in, &out)
	for _, e := range out.Errors {
		t.Error(e)
	}
	for name, want := range requests {
		if len(out.Dumps[name]) == 0 {
			t.Errorf("%s: the package wrote nothing", name)
		}
		for i, dump := range out.Dumps[name] {
			got, err := modelapi.Parse(dump, "")
			if err != nil {
				t.Errorf("%s, written in way %d: %v\n%.500s", name, i, err, dump)
				continue
			}
			if diff := cmp.Diff(want, got, cmp.Transformer("JSON", decoded)); diff != "" {
				t.Errorf("%s, written in way %d (-want +got):\n%s", name, i, diff)
			}
		}
	}
}

// decoded makes JSON texts comparable that say the same.
func decoded(raw json.RawMessage) any {
	if len(raw) == 0 {
		return nil
	}
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.UseNumber()
	var v any
	if err := dec.Decode(&v); err != nil {
		return err.Error()
	}
	return v
}
