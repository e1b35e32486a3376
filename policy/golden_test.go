package policy_test

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/tools/txtar"

	"haft"
	"haft/policy"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// TestGolden runs testdata/*.txtar. An archive holds policy.yaml, and org.yaml if
// it is about composing; then for every request*.json a decision*.txt, for every
// filter*.json a filtered*.txt, or error.txt if the policy does not compile.
func TestGolden(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatalf("no golden files: %v", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txtar"), func(t *testing.T) { runGolden(t, file) })
	}
}

func runGolden(t *testing.T, file string) {
	ar, err := txtar.ParseFile(file)
	if err != nil {
		t.Fatal(err)
	}
	in, want := map[string]string{}, map[string]string{}
	out := &txtar.Archive{Comment: ar.Comment}
	for _, f := range ar.Files {
		if strings.HasSuffix(f.Name, ".txt") {
			want[f.Name] = string(f.Data)
		} else {
			in[f.Name] = string(f.Data)
		}
	}
	got := map[string]string{}
	p, err := compileAll(in)
	if err != nil {
		if haft.CodeOf(err) != haft.CodeInvalid {
			t.Errorf("the error is not the author's: %v", err)
		}
		got["error.txt"] = haft.MessageOf(err) + "\n"
	}
	for _, f := range ar.Files {
		if strings.HasSuffix(f.Name, ".txt") {
			continue
		}
		out.Files = append(out.Files, f)
		if name, text := answer(t, p, f); name != "" && err == nil {
			got[name] = text
			out.Files = append(out.Files, txtar.File{Name: name, Data: []byte(text)})
		}
	}
	if e, ok := got["error.txt"]; ok {
		out.Files = append(out.Files, txtar.File{Name: "error.txt", Data: []byte(e)})
	}
	if *update {
		if err := os.WriteFile(file, txtar.Format(out), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", file, diff)
	}
}

// compileAll compiles the documents of an archive.
func compileAll(in map[string]string) (*policy.Policy, error) {
	p, err := policy.Compile([]byte(in["policy.yaml"]))
	if err != nil {
		return nil, err
	}
	if in["org.yaml"] == "" {
		return p, nil
	}
	org, err := policy.Compile([]byte(in["org.yaml"]))
	if err != nil {
		return nil, err
	}
	return policy.Compose(p, org), nil
}

// request is a Request as the archives write it.
type request struct {
	Principal   haft.Principal   `json:"principal"`
	Tool        haft.Tool        `json:"tool"`
	Args        json.RawMessage  `json:"args"`
	Annotations haft.Annotations `json:"annotations"`
	Scope       []string         `json:"scope"`
	// Of filters:
	Direction policy.Direction `json:"direction"`
	Value     json.RawMessage  `json:"value"`
	Stdout    string           `json:"stdout"`
}

func (r request) request() policy.Request {
	return policy.Request{Principal: r.Principal, Tool: r.Tool, Args: r.Args, Annotations: r.Annotations,
		Scope: r.Scope}
}

// answer returns the name and text of what a file asks for.
func answer(t *testing.T, p *policy.Policy, f txtar.File) (string, string) {
	t.Helper()
	if !strings.HasSuffix(f.Name, ".json") {
		return "", ""
	}
	var r request
	dec := json.NewDecoder(bytes.NewReader(f.Data))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&r); err != nil {
		t.Fatalf("%s: %v", f.Name, err)
	}
	base := strings.TrimSuffix(f.Name, ".json")
	if id, ok := strings.CutPrefix(base, "request"); ok {
		return "decision" + id + ".txt", p.Explain(r.request()).String()
	}
	id, ok := strings.CutPrefix(base, "filter")
	if !ok {
		t.Fatalf("%s: what is it?", f.Name)
	}
	return "filtered" + id + ".txt", filtered(p, r)
}

// filtered writes what filters make of a request.
func filtered(p *policy.Policy, r request) string {
	var b strings.Builder
	write := func(f policy.Filtered, what string) {
		fmt.Fprintf(&b, "%s\n", what)
		for _, x := range f.Findings {
			fmt.Fprintf(&b, "%s\n", x)
		}
		if err := f.Err(); err != nil {
			fmt.Fprintf(&b, "refused: %s\n", haft.MessageOf(err))
		}
	}
	f, err := p.Screen(r.request(), r.Direction).JSON(context.Background(), r.Value)
	if err != nil {
		return "error: " + haft.MessageOf(err) + "\n"
	}
	write(f, "value: "+string(f.Value))
	if r.Stdout != "" {
		if f, err = p.Screen(r.request(), r.Direction).Text(context.Background(), "stdout", r.Stdout); err != nil {
			return "error: " + haft.MessageOf(err) + "\n"
		}
		write(f, "stdout: "+f.Text)
	}
	return b.String()
}
