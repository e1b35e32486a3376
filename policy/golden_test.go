package policy_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"

	"haft"
	"haft/internal/goldentest"
	"haft/policy"
)

// TestGolden runs testdata/*.txtar. An archive holds policy.yaml, and org.yaml if
// it is about composing; then for every request*.json a decision*.txt, for every
// filter*.json a filtered*.txt, or error.txt if the policy does not compile.
func TestGolden(t *testing.T) {
	goldentest.Run(t, "testdata", 1, func(t *testing.T, g *goldentest.File) {
		p, err := compileAll(g)
		if err != nil {
			if haft.CodeOf(err) != haft.CodeInvalid {
				t.Errorf("the error is not the author's: %v", err)
			}
			g.Expect(t, "error.txt", haft.MessageOf(err)+"\n")
			return
		}
		made := 0
		for _, f := range slices.Clone(g.Files) {
			if name, text := answer(t, p, f); name != "" {
				g.Expect(t, name, text)
				made++
			}
		}
		texts := 0
		for _, f := range g.Files {
			if strings.HasSuffix(f.Name, ".txt") {
				texts++
			}
		}
		if made != texts {
			t.Errorf("%d sections are expected, %d are made", texts, made)
		}
	})
}

// compileAll compiles the documents of an archive.
func compileAll(g *goldentest.File) (*policy.Policy, error) {
	p, err := policy.Compile([]byte(g.Text("policy.yaml")))
	if err != nil {
		return nil, err
	}
	text, ok := g.Section("org.yaml")
	if !ok {
		return p, nil
	}
	org, err := policy.Compile([]byte(text))
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
