package app_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"haft"
	"haft/app"
	"haft/internal/layer"
	"haft/internal/layer/layertest"
	"haft/internal/supply"
)

// wheels makes the packages of these tests, and a service that installs them.
func wheels(t *testing.T, policy string, advisories ...string) *app.Service {
	t.Helper()
	open(t, app.Config{}) // skips where there is no sandbox
	dir := newPlace(t).dir
	files := filepath.Join(dir, "wheels")
	if err := os.Mkdir(files, 0o755); err != nil {
		t.Fatal(err)
	}
	layertest.Wheel(t, files, "hafttiny", "1.0", "value = 1\n")
	layertest.Wheel(t, files, "haftuser", "1.0",
		"import hafttiny\nvalue = 10 * hafttiny.value\nclass Order:\n    pass\n", "hafttiny<2")
	layertest.Wheel(t, files, "pyserial:serial", "6.0", "def safe_load(text):\n    return {'read': text}\n")
	layertest.Wheel(t, files, "haftdeath", "1.0",
		"import os\nif not os.environ.get('HAFT_CALL_ID'):\n    os._exit(3)\nvalue = 'alive'\n")
	cfg := app.ServiceConfig{Data: filepath.Join(dir, "state"), Config: app.Config{Packages: supply.Config{
		Index: layer.Index{Wheels: []string{files}, Offline: true}, Installer: "pip",
	}}}
	if policy != "" {
		cfg.Policy = []byte(policy)
	}
	for i, text := range advisories {
		cfg.Packages.Advisories = filepath.Join(dir, "osv")
		name := filepath.Join(dir, "osv", fmt.Sprintf("%d.json", i))
		err := os.MkdirAll(filepath.Dir(name), 0o755)
		if err := errors.Join(err, os.WriteFile(name, []byte(text), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	cfg.AllowReduced = true // what a machine gives is what is tried
	s, err := app.OpenService(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// putTool registers a Python tool with no parameters whose body is given.
func putTool(t *testing.T, s *app.Service, name, head, body string, pip ...string) *haft.Change {
	t.Helper()
	source := head + "\ndef " + name + "():\n    \"\"\"Do it.\"\"\"\n    " + strings.ReplaceAll(body, "\n", "\n    ") +
		"\n"
	c, err := s.PutTool(t.Context(), root(), haft.Draft{Kind: haft.KindPython, Source: source,
		Needs: haft.Requirements{Pip: pip}})
	if err != nil {
		t.Fatalf("PutTool %s: %v", name, err)
	}
	return c
}

// valueOf calls a tool and returns what it gives.
func valueOf(t *testing.T, s *app.Service, name string) string {
	t.Helper()
	res, err := s.Call(t.Context(), haft.Call{Tool: name, Principal: root()})
	if err != nil {
		t.Fatal(err)
	}
	if res.Status != haft.StatusSuccess {
		t.Fatalf("%s ended with %s: %+v, notices %v", name, res.Status, res.Error, res.Notices)
	}
	return string(res.Value)
}

// A package with an advisory, here one that another needs, is a finding of the review.
func TestPackages_advisories(t *testing.T) {
	osv := func(severity string) string {
		return `{"id": "X-1", "summary": "It is bad.", "database_specific": {"severity": "` + severity + `"}, "affected": [
			{"package": {"ecosystem": "PyPI", "name": "hafttiny"},
			"ranges": [{"type": "ECOSYSTEM", "events": [{"introduced": "0"}, {"fixed": "1.1"}]}]}]}`
	}
	words := "hafttiny 1.0 has a known vulnerability, fixed in 1.1: It is bad."
	s := wheels(t, "", osv("HIGH"))
	c := putTool(t, s, "ten", "import haftuser", "return haftuser.value", "HaftUser")
	if c.Waiting != 1 || !strings.Contains(strings.Join(c.Warnings, "\n"), words) {
		t.Errorf("a vulnerable package is kept as %+v", c)
	}
	res, err := s.Call(t.Context(), haft.Call{Tool: "ten", Principal: root()})
	if err == nil && res.Status == haft.StatusSuccess {
		t.Error("the tool runs before a person has looked")
	}
	if c := putTool(t, s, "none", "", "return 1"); c.Waiting != 0 || len(c.Warnings) > 0 {
		t.Errorf("a tool without packages is kept as %+v", c)
	}
	s = wheels(t, "version: 1\nreview: {warn: low, ask: high, refuse: medium}\n", osv("MODERATE"))
	_, err = s.PutTool(t.Context(), root(), haft.Draft{Needs: haft.Requirements{Pip: []string{"HaftUser"}},
		Source: "def ten():\n    \"\"\"Do it.\"\"\"\n"})
	if haft.CodeOf(err) != haft.CodeDenied || !strings.Contains(haft.MessageOf(err), words) {
		t.Errorf("a policy that refuses: %v", err)
	}
}

func TestPackages_fifty_callers_of_a_new_environment(t *testing.T) {
	s := wheels(t, "")
	c := putTool(t, s, "ten", "import haftuser", "return haftuser.value", "HaftUser")
	if c.Tool.Version.Lock.Pip == "" || c.Tool.Version.Requirements.Pip[0] != "haftuser" {
		t.Fatalf("the version is %+v", c.Tool.Version)
	}
	events, stop := context.WithCancel(t.Context())
	var progress []string
	var watching sync.WaitGroup
	watching.Go(func() {
		for e, err := range s.Watch(events, root(), haft.EventFilter{}, 0) {
			if err != nil {
				return
			}
			if e.Type == haft.EventProgress {
				progress = append(progress, string(e.Data))
			}
		}
	})
	var wg sync.WaitGroup
	for range 50 {
		wg.Go(func() {
			res, err := s.Call(t.Context(), haft.Call{Tool: "ten", Principal: root()})
			if err != nil || string(res.Value) != "10" {
				t.Errorf("Call = %+v, %v", res, err)
			}
		})
	}
	wg.Wait()
	stop()
	watching.Wait()
	st, err := s.App.Supply.Store()
	if err != nil {
		t.Fatal(err)
	}
	list, err := st.List(t.Context())
	if err != nil || len(list) != 1 || !list[0].InUse {
		t.Errorf("the layers are %+v, %v", list, err)
	}
	if len(progress) == 0 || !strings.Contains(progress[0], `"phase":"packages"`) {
		t.Errorf("progress is told as %q", progress)
	}
	if swept, err := st.GC(t.Context(), 0, 0); err != nil || len(swept.Removed) > 0 {
		t.Errorf("a layer in use was removed: %+v, %v", swept, err)
	}
}

func TestPackages_a_version_keeps_its_packages(t *testing.T) {
	s := wheels(t, "")
	first := putTool(t, s, "one", "import hafttiny", "return hafttiny.value", "hafttiny")
	again := putTool(t, s, "one", "import hafttiny", "return hafttiny.value", "hafttiny")
	if !again.Same {
		t.Errorf("the same again is version %d", again.Tool.Version.Number)
	}
	index, err := filepath.Glob(filepath.Join(filepath.Dir(filepath.Dir(s.App.Supply.Dir())), "wheels"))
	if err != nil || len(index) != 1 {
		t.Fatalf("the index is %v, %v", index, err)
	}
	layertest.Wheel(t, index[0], "hafttiny", "1.5", "value = 5\n")
	if got := valueOf(t, s, "one"); got != "1" {
		t.Errorf("after a new release of the package it gives %s", got)
	}
	if again := putTool(t, s, "one", "import hafttiny", "return hafttiny.value", "hafttiny"); !again.Same {
		t.Error("a new release of a package alone makes a version")
	}
	d := haft.Draft{Kind: haft.KindPython, Source: first.Tool.Version.Source, Needs: first.Tool.Version.Requirements,
		Relock: true}
	up, err := s.PutTool(t.Context(), root(), d)
	if err != nil || up.Same || up.Tool.Version.Number != 2 || up.Tool.Version.Lock == first.Tool.Version.Lock {
		t.Fatalf("upgraded: %+v, %v", up, err)
	}
	if got := valueOf(t, s, "one"); got != "5" {
		t.Errorf("the upgraded version gives %s", got)
	}
	res, err := s.Call(t.Context(), haft.Call{Tool: "one", Digest: first.Tool.Version.Digest, Principal: root()})
	if err != nil || string(res.Value) != "1" {
		t.Errorf("the version before gives %+v, %v", res, err)
	}
}

func TestPackages_of_the_organisation(t *testing.T) {
	s := wheels(t, "")
	ctx := t.Context()
	putTool(t, s, "plain", "import haftuser", "return haftuser.value")
	res, err := s.Call(ctx, haft.Call{Tool: "plain", Principal: root()})
	if err != nil || res.Error == nil || !strings.Contains(res.Error.Message, "No module named 'haftuser'") ||
		!strings.Contains(res.Error.Message, "add that as a requirement") {
		t.Fatalf("without: %+v, %v", res, err)
	}
	_, err = s.PutSandboxConfig(ctx, root(), haft.SandboxConfig{Type: haft.SandboxLocal,
		Needs: haft.Requirements{Pip: []string{"haftuser", "hafttiny<2"}}})
	if err != nil {
		t.Fatal(err)
	}
	if got := valueOf(t, s, "plain"); got != "10" {
		t.Errorf("with the organisation's packages it gives %s", got)
	}
	source := "def other():\n    \"\"\"Do it.\"\"\"\n"
	_, err = s.PutTool(ctx, root(), haft.Draft{Kind: haft.KindPython, Source: source,
		Needs: haft.Requirements{Pip: []string{"hafttiny>=3"}}})
	if haft.CodeOf(err) != haft.CodeConflict || !strings.Contains(haft.MessageOf(err), "the tool asks for") ||
		!strings.Contains(haft.MessageOf(err), "the sandbox configuration of the organisation") {
		t.Errorf("a conflict: %v", err)
	}
}

func TestPackages_refuses_what_is_none(t *testing.T) {
	s := wheels(t, "")
	for _, bad := range []string{"--index-url=http://evil.example.com", "x; rm -rf /", "x @ file:///etc/passwd",
		"-r /etc/passwd", "git+https://x/y", "../x", "x\n--pre", "nosuchpackageanywhere"} {
		_, err := s.PutTool(t.Context(), root(), haft.Draft{Kind: haft.KindPython,
			Source: "def f():\n    \"\"\"Do it.\"\"\"\n", Needs: haft.Requirements{Pip: []string{bad}}})
		if haft.CodeOf(err) != haft.CodeInvalid {
			t.Errorf("%q: %v", bad, err)
		}
	}
}

func TestPackages_missing_module_is_added_by_policy(t *testing.T) {
	const text = `
version: 1
roles: {admin: ["tool:*"]}
`
	hinted := wheels(t, text)
	putTool(t, hinted, "load", "import serial", "return serial.safe_load('x')")
	res, err := hinted.Call(t.Context(), haft.Call{Tool: "load", Principal: root()})
	if err != nil || res.Error == nil || !strings.Contains(res.Error.Message,
		"add the requirement pyserial to the tool: --requirement pyserial") {
		t.Fatalf("told: %+v, %v", res, err)
	}
	adds := wheels(t, text+"packages: {missing: add}\n")
	putTool(t, adds, "load", "import serial", "return serial.safe_load('x')")
	putTool(t, adds, "late", "", "import serial\nreturn 1")
	putTool(t, adds, "later", "", "print('done')\nimport serial\nreturn 1")
	if got := valueOf(t, adds, "load"); got != `{"read":"x"}` {
		t.Errorf("added: %s", got)
	}
	tool, err := adds.Tool(t.Context(), root(), "load")
	if err != nil || tool.Version.Number != 2 ||
		strings.ToLower(fmt.Sprint(tool.Version.Requirements.Pip)) != "[pyserial]" {
		t.Errorf("the tool is %+v, %v", tool, err)
	}
	res, err = adds.Call(t.Context(), haft.Call{Tool: "late", Principal: root()})
	if err != nil || string(res.Value) != "1" || res.Tries != 2 {
		t.Errorf("imported in the function: %+v, %v", res, err)
	}
	// What may have done something already is not run twice; its next call works.
	res, err = adds.Call(t.Context(), haft.Call{Tool: "later", Principal: root()})
	if err != nil || res.Status != haft.StatusError || res.Error.Retry != haft.RetrySame ||
		!strings.HasSuffix(res.Error.Message, "was added: call it again") {
		t.Errorf("later: %+v, %v", res, err)
	}
	if got := valueOf(t, adds, "later"); got != "1" {
		t.Errorf("later, again: %s", got)
	}
}

func TestPackages_are_imported_before_the_call(t *testing.T) {
	s := wheels(t, "")
	head := "import sys\nready = 'haftuser' in sys.modules\nimport haftuser"
	putTool(t, s, "warm", head, `try:
    open(haftuser.__file__, 'a')
    return 'written'
except OSError:
    return ready`, "haftuser")
	putTool(t, s, "dies", "import haftdeath", "return haftdeath.value", "haftdeath")
	var last string
	for range 100 { // until the cells of the second call are there
		if last = valueOf(t, s, "warm"); last == "true" {
			break
		}
		tick := time.NewTimer(50 * time.Millisecond)
		<-tick.C
	}
	if last != "true" {
		t.Errorf("the package is never imported before the call: %s", last)
	}
	for range 8 { // its import ends a sandbox that is kept ready, and no call
		if got := valueOf(t, s, "dies"); got != `"alive"` {
			t.Errorf("it gives %s", got)
		}
	}
}

func TestPackages_from_the_public_indexes(t *testing.T) {
	if testing.Short() {
		t.Skip("short: nothing is fetched from an index")
	}
	s := online(t)
	putTool(t, s, "numbers", "import numpy, pandas, pydantic", `class M(pydantic.BaseModel):
    x: int
return [int(numpy.arange(5).sum()), int(pandas.DataFrame({'a': [1, 2]})['a'].sum()), M(x='3').x]`, "numpy", "pandas", "pydantic>=2")
	for range 2 {
		if got := valueOf(t, s, "numbers"); got != "[10,3,3]" {
			t.Errorf("it gives %s", got)
		}
	}
	putTool(t, s, "tables", "import pandas", `df = pandas.DataFrame({'a': [1, 2, 2], 'c': ['x', 'y', 'y']})
return [df[df.a > 1], df.describe().head(1), df.groupby('c').sum(), df.groupby(['c', 'a']).size(), df['c'].value_counts(), df[df.a > 1]['a'],
    pandas.DataFrame({'index': [1]}, index=['r']), pandas.Series([1, 2], index=['d', 'd'])]`, "numpy", "pandas", "pydantic>=2")
	if got, want := valueOf(t, s, "tables"),
		`[[{"a":2,"c":"y"},{"a":2,"c":"y"}],[{"index":"count","a":3.0}],[{"c":"x","a":1},{"c":"y","a":4}],`+
			`[{"c":"x","a":1,"value":1},{"c":"y","a":2,"value":2}],{"y":2,"x":1},[2,2],[{"index_0":"r","index":1}],`+
			`[{"index":"d","value":1},{"index":"d","value":2}]]`; got != want {
		t.Errorf("tables give %s,\nwant %s", got, want)
	}
	_, err := s.PutTool(t.Context(), root(), haft.Draft{Kind: haft.KindTypeScript,
		Needs: haft.Requirements{NPM: []string{"lodash@^4", "zod@^3"}}, Source: `
import _ from 'lodash';
import { z } from 'zod';
/** Capitalise. @param text what */
export function cap(text: string): string { return _.capitalize(z.string().parse(text)); }
`})
	if err != nil {
		t.Fatal(err)
	}
	res, err := s.Call(t.Context(), haft.Call{Tool: "cap", Args: json.RawMessage(`{"text":"hELLO"}`),
		Principal: root()})
	if err != nil || string(res.Value) != `"Hello"` {
		t.Errorf("cap = %+v, %v", res, err)
	}
}
