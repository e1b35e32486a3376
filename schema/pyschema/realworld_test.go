package pyschema_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"haft"
	"haft/internal/goldentest"
	"haft/schema"
	"haft/schema/pyschema"
)

// A realPackage is a package whose functions are meant as tools of agents.
type realPackage struct {
	name  string         // of the golden file
	path  string         // of its modules
	least int            // functions there
	newer map[string]int // modules with syntax that needs Python 3.n
}

// TestDerive_realPackages derives every public function of three packages from
// PyPI, whose code is read and never run, with descriptions required and without.
// What comes out is in testdata/realworld, for a person to read and to agree with:
// the parameters, with a ? after those that are optional, or each reason for a
// refusal.
func TestDerive_realPackages(t *testing.T) {
	all := needPython(t)
	for _, p := range []realPackage{
		{name: "letta", path: "letta/functions/function_sets", least: 25},
		{name: "strands_tools", path: "strands_tools", least: 200},
		// Before Python 3.12 there was no backslash within the braces of an f-string.
		{name: "swarms_tools", path: "swarms_tools", least: 110, newer: map[string]int{"search/google_search.py": 12}},
	} {
		t.Run(p.name, func(t *testing.T) {
			root := testenv(t, "testsources", filepath.FromSlash(p.path))
			python := all[len(all)-1]
			outcomes := walkPackage(t, newLasting(t, python).read, root)
			if len(outcomes) < p.least {
				t.Errorf("there are %d functions, want at least %d", len(outcomes), p.least)
			}
			compareOutcomes(t, "testdata/realworld/"+p.name+".txt", python, outcomes, p.newer)
		})
	}
}

// An outcome is what became of a function.
type outcome struct{ function, result string }

// walkPackage derives the functions of all modules below root.
func walkPackage(t *testing.T, read pyschema.Reader, root string) []outcome {
	var all []outcome
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || filepath.Ext(path) != ".py" {
			return err
		}
		source, err := os.ReadFile(path)
		if err != nil || len(strings.TrimSpace(string(source))) == 0 {
			return err
		}
		module, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		all = append(all, walkModule(t, once(read), filepath.ToSlash(module), source)...)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// walkModule derives the functions of one module.
func walkModule(t *testing.T, read pyschema.Reader, module string, source []byte) []outcome {
	ctx := withTimeout(t, time.Minute)
	names, err := (&pyschema.Deriver{Read: read}).Functions(ctx, source)
	if err != nil {
		return []outcome{{module, refusal(t, module, err)}}
	}
	var all []outcome
	for _, name := range names {
		function := module + ":" + name
		start := time.Now()
		sig, err := derived(t, function, read, source, name, false)
		var result string
		if err == nil {
			result = "ok " + summary(sig)
		} else {
			result = refusal(t, function, err)
			if sig, err := derived(t, function, read, source, name, true); err == nil {
				result += "\n  ok where descriptions are optional " + summary(sig)
			}
		}
		if d := time.Since(start); d > 90*time.Second {
			t.Errorf("%s takes %s", function, d)
		}
		all = append(all, outcome{function, result})
	}
	return all
}

// derived derives a function, and checks that what comes out can be used.
func derived(t *testing.T, function string, read pyschema.Reader, source []byte, name string,
	optional bool) (*schema.Signature, error) {
	t.Helper()
	sig, err := pyschema.Derive(withTimeout(t, time.Minute), read, source,
		schema.Options{Function: name, DescriptionsOptional: optional})
	if err != nil {
		return nil, err
	}
	if h := schema.Health(sig.Parameters); h.Status == haft.HealthInvalid {
		t.Errorf("%s: the schema is invalid: %v", function, h.Reasons)
	}
	if _, err := schema.Compile(sig.Parameters); err != nil {
		t.Errorf("%s: the schema does not compile: %v", function, err)
	}
	if sig.Returns != nil {
		if _, err := schema.Compile(sig.Returns); err != nil {
			t.Errorf("%s: the schema of what it returns does not compile: %v", function, err)
		}
	}
	return sig, nil
}

// summary returns the parameters with their types.
func summary(sig *schema.Signature) string {
	var all []string
	properties := sig.Parameters.Object("properties")
	for _, name := range properties.Keys() {
		text := name
		if !slices.Contains(sig.Parameters.Array("required"), any(name)) {
			text += "?"
		}
		all = append(all, text+" "+typeName(properties.Object(name)))
	}
	return "(" + strings.Join(all, ", ") + ")"
}

// typeName returns a short name for what a schema accepts.
func typeName(s *schema.Object) string {
	var all []string
	for _, b := range s.Array("anyOf") {
		all = append(all, typeName(b.(*schema.Object)))
	}
	switch {
	case len(all) > 0:
		return strings.Join(all, " | ")
	case s.Has("enum"):
		return "enum of " + strconv.Itoa(len(s.Array("enum")))
	case s.String("type") == "array" && s.Object("items") != nil:
		return "array of " + typeName(s.Object("items"))
	case s.String("type") == "":
		return "any"
	}
	return s.String("type")
}

// refusal returns the reasons in err, one in a line. Each must be about the source
// and say where.
func refusal(t *testing.T, function string, err error) string {
	t.Helper()
	reasons := []error{err}
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		reasons = joined.Unwrap()
	}
	text := "refused"
	for _, r := range reasons {
		e, ok := errors.AsType[*schema.SourceError](r)
		if !ok || e.Line < 1 {
			t.Errorf("%s: %v does not say where in the source", function, r)
			continue
		}
		short := *e
		short.Write = ""
		text += "\n  " + short.Error()
	}
	return text
}

// compareOutcomes compares with the golden file, but for modules that are newer
// than Python.
func compareOutcomes(t *testing.T, file string, p python, outcomes []outcome, newer map[string]int) {
	t.Helper()
	var got []string
	for _, o := range outcomes {
		got = append(got, o.function+": "+o.result+"\n")
	}
	if goldentest.Updating() {
		if err := os.WriteFile(file, []byte(strings.Join(got, "")), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	tooNew := func(entry string) bool {
		module, _, _ := strings.Cut(entry, ":")
		return newer[module] > 0 && !p.atLeast(newer[module])
	}
	var want []string
	for line := range strings.Lines(string(text)) {
		if strings.HasPrefix(line, " ") && len(want) > 0 {
			want[len(want)-1] += line
		} else {
			want = append(want, line)
		}
	}
	if diff := cmp.Diff(slices.DeleteFunc(want, tooNew), slices.DeleteFunc(got, tooNew)); diff != "" {
		t.Errorf("outcomes with Python %s (-want +got), run with -update and read them:\n%s", p, diff)
	}
}
