package policy_test

import (
	"encoding/json"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"golang.org/x/tools/txtar"

	"haft"
	"haft/policy"
)

// place is how errors of Compile begin.
var place = regexp.MustCompile(`^line [1-9][0-9]*, column [0-9]+: .`)

// FuzzCompile: any text is a policy that decides, or an error that names the
// line.
func FuzzCompile(f *testing.F) {
	files, err := filepath.Glob("testdata/*.txtar")
	if err != nil {
		f.Fatal(err)
	}
	for _, file := range files {
		ar, err := txtar.ParseFile(file)
		if err != nil {
			f.Fatal(err)
		}
		for _, x := range ar.Files {
			if strings.HasSuffix(x.Name, ".yaml") {
				f.Add(string(x.Data))
			}
		}
	}
	f.Add(`{"version": 1, "rules": [{"id": "a", "effect": "allow"}]}`)
	f.Add("version: 1\nrules:\n  - id: a\n    effect: deny\n    when: |\n      args.x ==\n        1\n")
	f.Add(strings.Repeat("[", 100))
	f.Add(strings.Repeat("- ", 100))
	f.Add(strings.Repeat("a: ", 100))
	req := policy.Request{
		Principal: haft.Principal{Org: "acme", User: "ann", Roles: []string{"operator", "lead"}},
		Tool:      haft.Tool{Name: "delete_x", Version: haft.Version{Kind: haft.KindPython}},
		Args:      json.RawMessage(`{"path": "/tmp/s3cr3t", "a": [1, 2, 3], "amount": 7}`),
	}
	f.Fuzz(func(t *testing.T, text string) {
		start := time.Now()
		defer func() {
			if took := time.Since(start); took > 90*time.Second {
				t.Errorf("Compile(%q) and Explain took %v", text, took)
			}
		}()
		p, err := policy.Compile([]byte(text))
		if err != nil {
			if m := haft.MessageOf(err); haft.CodeOf(err) != haft.CodeInvalid || !place.MatchString(m) ||
				!utf8.ValidString(m) {
				t.Errorf("Compile(%q) = %v", text, err)
			}
			return
		}
		d := p.Explain(req)
		if rank(d.Effect) < 0 || d.Reason == "" {
			t.Errorf("Compile(%q).Explain = %+v", text, d)
		}
		if !strings.Contains(text, marker) && strings.Contains(d.String(), marker) {
			t.Errorf("Compile(%q) tells a value: %s", text, d)
		}
		if _, err := p.Screen(req, policy.Input).JSON(t.Context(), req.Args); err != nil {
			t.Errorf("Compile(%q).Filter: %v", text, err)
		}
	})
}

// FuzzFilter: what goes on is JSON, the same bytes if nothing was found, and free
// of what is masked and refused.
func FuzzFilter(f *testing.F) {
	for _, s := range []string{`{"a": "AKIAABCD"}`, `["x", {"AKIAABCD": 1}]`, `"key=\u0041KIAABCD"`, `4111111111111111`,
		`{"a":1,"a":2}`, `"AKIAAKIAABCD no-go"`, `{"bad": "no-go"}`} {
		f.Add(s)
	}
	p, err := policy.Compile([]byte(`version: 1
filters:
  - {id: keys, on: both, pattern: "AKIA[A-Z]{4}", action: mask}
  - {id: wide, on: both, pattern: "key=[A-Z]+", action: mask}
  - {id: cards, on: both, pattern: "41{15}", action: mask}
  - {id: no, on: both, pattern: "no-go", action: refuse}
`))
	if err != nil {
		f.Fatal(err)
	}
	forbidden := regexp.MustCompile(`AKIA[A-Z]{4}|key=[A-Z]+|41{15}|no-go`)
	f.Fuzz(func(t *testing.T, raw string) {
		got, err := p.Screen(policy.Request{}, policy.Output).JSON(t.Context(), json.RawMessage(raw))
		switch {
		case err != nil:
			if haft.CodeOf(err) != haft.CodeInvalid {
				t.Errorf("Filter(%q): %v", raw, err)
			}
		case got.Refused != (got.Err() != nil) || got.Refused && got.Value != nil:
			t.Errorf("Filter(%q) = %+v", raw, got)
		case !got.Masked && !got.Refused && string(got.Value) != raw:
			t.Errorf("Filter(%q) alters to %q in silence", raw, got.Value)
		case got.Masked && len(got.Findings) == 0:
			t.Errorf("Filter(%q) masks in silence", raw)
		case !got.Refused && raw != "":
			var v any
			if err := json.Unmarshal(got.Value, &v); err != nil {
				t.Errorf("Filter(%q) = %q: %v", raw, got.Value, err)
			}
			walk(v, func(s string) {
				if forbidden.MatchString(s) {
					t.Errorf("Filter(%q) = %q", raw, got.Value)
				}
			})
		}
		for _, x := range got.Findings {
			if forbidden.MatchString(x.String()) {
				t.Errorf("Filter(%q) tells %s", raw, x)
			}
		}
	})
}

// walk calls f for every text and key.
func walk(v any, f func(string)) {
	switch v := v.(type) {
	case string:
		f(v)
	case []any:
		for _, x := range v {
			walk(x, f)
		}
	case map[string]any:
		for k, x := range v {
			f(k)
			walk(x, f)
		}
	}
}
