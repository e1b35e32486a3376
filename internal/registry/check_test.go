package registry_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"haft"
	"haft/internal/registry"
	"haft/schema"
)

var (
	ann = haft.Principal{Org: "acme", User: "ann"}
	bob = haft.Principal{Org: "acme", User: "bob"}
)

// add is a draft that nothing is wrong with.
func add() haft.Draft {
	return haft.Draft{
		Name: "add", Kind: haft.KindPython, Source: "def add(a):\n    return a\n", Function: "add",
		Description: "Adds.",
		Parameters:  json.RawMessage(`{"type":"object","properties":{"a":{"type":"integer"}},"required":["a"]}`),
	}
}

// clean is a reviewer who never finds anything.
func clean(context.Context, haft.Kind, string, bool) ([]haft.Finding, error) { return nil, nil }

func TestPut_refuses_what_is_wrong(t *testing.T) {
	r := registry.New(open(t), registry.Config{
		Review: clean, Builtin: []haft.Tool{builtin("run_code")},
		Reserved: func(name string) bool { return strings.HasPrefix(name, "github_") },
	})
	tests := []struct {
		name   string
		change func(*haft.Draft)
		code   haft.Code
		want   string // in the message
	}{
		{"name", func(d *haft.Draft) { d.Name = "a b" }, haft.CodeInvalid, "/name"},
		{"name of a built-in tool", func(d *haft.Draft) { d.Name = "run_code" }, haft.CodeConflict, "built-in"},
		{"name that looks like a built-in tool's", func(d *haft.Draft) { d.Name = "Run-Code" }, haft.CodeConflict,
			"built-in"},
		{"function called like a built-in tool", func(d *haft.Draft) { d.Name, d.Function = "", "run_code" },
			haft.CodeConflict, "built-in"},
		{"reserved name", func(d *haft.Draft) { d.Name = "github_x" }, haft.CodeConflict, "reserved"},
		{"kind", func(d *haft.Draft) { d.Kind = "ruby" }, haft.CodeInvalid, "/source_type"},
		{"built-in kind", func(d *haft.Draft) { d.Kind = haft.KindBuiltin }, haft.CodeInvalid, "/source_type"},
		{"upstream kind", func(d *haft.Draft) { d.Kind = haft.KindMCP }, haft.CodeInvalid, "/source_type"},
		{"no source", func(d *haft.Draft) { d.Source = " \n" }, haft.CodeInvalid, "/source_code"},
		{"long source", func(d *haft.Draft) { d.Source = strings.Repeat("#", registry.MaxSource+1) }, haft.CodeInvalid,
			"/source_code"},
		{"source that is not text", func(d *haft.Draft) { d.Source = "a\xff" }, haft.CodeInvalid,
			"/source_code is not valid UTF-8"},
		{"source with NUL", func(d *haft.Draft) { d.Source = "a\x00" }, haft.CodeInvalid, "/source_code holds a NUL"},
		{"long description", func(d *haft.Draft) { d.Description = strings.Repeat("x", registry.MaxDescription+1) },
			haft.CodeInvalid, "/description"},
		{"category", func(d *haft.Draft) { d.Category = "a*" }, haft.CodeInvalid, "/category"},
		{"empty tag", func(d *haft.Draft) { d.Tags = []string{"ok", ""} }, haft.CodeInvalid, "/tags/1"},
		{"many tags", func(d *haft.Draft) { d.Tags = make([]string, registry.MaxTags+1) }, haft.CodeInvalid,
			"/tags names"},
		{"long schema", func(d *haft.Draft) {
			d.Parameters = json.RawMessage(`{"title":"` + strings.Repeat("x", registry.MaxSchema) + `"}`)
		}, haft.CodeInvalid, "/parameters"},
		{"broken schema", func(d *haft.Draft) { d.Parameters = json.RawMessage(`{"type":`) }, haft.CodeInvalid,
			"schema of the arguments"},
		{"schema of a list", func(d *haft.Draft) { d.Parameters = json.RawMessage(`{"type":"array"}`) },
			haft.CodeInvalid, "type object"},
		{"schema with a reference to nowhere", func(d *haft.Draft) {
			d.Parameters = json.RawMessage(`{"properties":{"a":{"$ref":"#/$defs/x"}}}`)
		}, haft.CodeInvalid, "schema of the arguments"},
		{"schema with look-around", func(d *haft.Draft) {
			d.Parameters = json.RawMessage(`{"properties":{"a":{"type":"string","pattern":"(?=x)"}}}`)
		}, haft.CodeInvalid, "RE2"},
		{"schema that no vendor accepts", func(d *haft.Draft) {
			d.Parameters = json.RawMessage(`{"type":"object","properties":{"a":{"type":"string"}},"required":["b"]}`)
		}, haft.CodeInvalid, "root"},
		{"broken schema of the value", func(d *haft.Draft) { d.Returns = json.RawMessage(`{"type":"nothing"}`) },
			haft.CodeInvalid, "schema"},
		{"negative limit", func(d *haft.Draft) { d.Settings.Limits.Memory = -1 }, haft.CodeInvalid,
			"/settings/limits/memory_bytes is negative"},
		{"limit above the ceiling", func(d *haft.Draft) { d.Settings.Limits.Wall = haft.LimitCeilings().Wall + 1 },
			haft.CodeInvalid, "/settings/limits/wall_ms"},
		{"host", func(d *haft.Draft) { d.Settings.Network = []string{"ok.test", "ftp://x.test"} }, haft.CodeInvalid,
			"/settings/network/1"},
		{"many hosts", func(d *haft.Draft) { d.Settings.Network = make([]string, registry.MaxHosts+1) },
			haft.CodeInvalid, "/settings/network names"},
		{"sandbox", func(d *haft.Draft) { d.Settings.Sandbox = "../x" }, haft.CodeInvalid, "/settings/sandbox"},
		{"isolation", func(d *haft.Draft) { d.Settings.MinIsolation = "strong" }, haft.CodeInvalid,
			"/settings/min_isolation"},
		{"cache time", func(d *haft.Draft) { d.Settings.CacheFor = -1 }, haft.CodeInvalid, "/settings/cache_ms"},
		{"role", func(d *haft.Draft) { d.Settings.Roles = []string{" x"} }, haft.CodeInvalid, "/settings/roles/0"},
		{"retry", func(d *haft.Draft) { d.Settings.Retry.Tries = 11 }, haft.CodeInvalid, "/settings/retry"},
		{"rate that is no number", func(d *haft.Draft) { d.Settings.Rate.PerSecond = math.NaN() }, haft.CodeInvalid,
			"/settings/rate"},
		{"negative rate", func(d *haft.Draft) { d.Settings.Rate.PerSecond = -1 }, haft.CodeInvalid, "/settings/rate"},
		{"burst alone", func(d *haft.Draft) { d.Settings.Rate.Burst = 1 }, haft.CodeInvalid, "per_second"},
		{"concurrency", func(d *haft.Draft) { d.Settings.Concurrency = -1 }, haft.CodeInvalid, "/settings/concurrency"},
		{"own fallback", func(d *haft.Draft) { d.Settings.Fallback = "add" }, haft.CodeInvalid, "fallback"},
		{"own fallback by the function's name", func(d *haft.Draft) { d.Name, d.Settings.Fallback = "", "add" },
			haft.CodeInvalid, "fallback"},
		{"output type", func(d *haft.Draft) { d.Settings.Output.Type = "xml" }, haft.CodeInvalid,
			"/settings/output/type"},
		{"output length", func(d *haft.Draft) { d.Settings.Output.MaxChars = -1 }, haft.CodeInvalid,
			"/settings/output/max_chars"},
		{"validator", func(d *haft.Draft) { d.Settings.Output.Validators = []string{"value >"} }, haft.CodeInvalid,
			"/settings/output/validators"},
		{"pip option", func(d *haft.Draft) { d.Needs.Pip = []string{"--index-url=http://x"} }, haft.CodeInvalid,
			"/requirements/pip/0"},
		{"pip address", func(d *haft.Draft) { d.Needs.Pip = []string{"x @ http://x/y.whl"} }, haft.CodeInvalid,
			"/requirements/pip/0"},
		{"npm for Python", func(d *haft.Draft) { d.Needs.NPM = []string{"zod"} }, haft.CodeInvalid,
			"/requirements/npm"},
		{"npm path", func(d *haft.Draft) { d.Kind, d.Needs.NPM = haft.KindTypeScript, []string{"x@file:../y"} },
			haft.CodeInvalid, "/requirements/npm/0"},
		{"retries of what may not run twice", func(d *haft.Draft) { d.Settings.Retry.Tries = 2 },
			haft.CodeInvalid, "/settings/retry needs idempotent"},
		{"a reaction that runs again what may not run twice", func(d *haft.Draft) {
			d.Settings.OnError = []haft.Reaction{{Args: json.RawMessage(`{}`)}}
		}, haft.CodeInvalid, "/settings/on_error/0/args runs the tool again, which needs idempotent"},
		{"retries without a number", func(d *haft.Draft) { d.Settings.Retry.Strategy = haft.Constant },
			haft.CodeInvalid, "/settings/retry needs idempotent"},
		{"calls without a time", func(d *haft.Draft) { d.Settings.Rate.Calls = 60 }, haft.CodeInvalid,
			"/settings/rate"},
		{"a time without calls", func(d *haft.Draft) { d.Settings.Rate.Within = 60 }, haft.CodeInvalid,
			"/settings/rate"},
		{"calls in a negative time", func(d *haft.Draft) { d.Settings.Rate = haft.Rate{Calls: 1, Within: -1} },
			haft.CodeInvalid, "/settings/rate"},
		{"calls in two days", func(d *haft.Draft) { d.Settings.Rate = haft.Rate{Calls: 1, Within: 48 * 3600e9} },
			haft.CodeInvalid, "/settings/rate"},
		{"no function", func(d *haft.Draft) { d.Function = "" }, haft.CodeInvalid, "name the function"},
		{"no schema", func(d *haft.Draft) { d.Parameters = json.RawMessage("null") }, haft.CodeInvalid,
			"give a schema"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			d := add()
			tt.change(&d)
			_, err := r.Put(t.Context(), ann, d)
			if haft.CodeOf(err) != tt.code || !strings.Contains(haft.MessageOf(err), tt.want) {
				t.Errorf("Put = %v (%s), want %s with %q", err, haft.CodeOf(err), tt.code, tt.want)
			}
		})
	}
}

func TestPut_for_nobody(t *testing.T) {
	if _, err := registry.New(open(t), registry.Config{}).Put(t.Context(), haft.Principal{},
		add()); haft.CodeOf(err) != haft.CodeUnauthenticated {
		t.Errorf("Put for nobody = %v", err)
	}
}

func TestPut_names_all_that_is_wrong_at_once(t *testing.T) {
	d := add()
	d.Name, d.Settings.Sandbox, d.Settings.Limits.CPU = "a b", "X", -1
	_, err := registry.New(open(t), registry.Config{}).Put(t.Context(), ann, d)
	e, ok := errors.AsType[*haft.Error](err)
	if !ok {
		t.Fatalf("Put = %v", err)
	}
	var got []string
	for _, m := range e.Misfits {
		got = append(got, m.Pointer)
	}
	if diff := cmp.Diff([]string{"/name", "/settings/limits/cpu_ms", "/settings/sandbox"}, got); diff != "" {
		t.Errorf("misfits (-want +got):\n%s", diff)
	}
}

// Every limit has a ceiling that is held.
func TestPut_holds_every_ceiling(t *testing.T) {
	r := registry.New(open(t), registry.Config{})
	typ := reflect.TypeFor[haft.Limits]()
	for i := range typ.NumField() {
		d := add()
		l := haft.LimitCeilings()
		f := reflect.ValueOf(&l).Elem().Field(i)
		f.SetInt(f.Int() + 1)
		d.Settings.Limits = l
		if _, err := r.Put(t.Context(), ann, d); haft.CodeOf(err) != haft.CodeInvalid ||
			!strings.Contains(err.Error(), "/settings/limits/") {
			t.Errorf("Put with %s above its ceiling = %v", typ.Field(i).Name, err)
		}
	}
}

// Package egress decides which network rules can be read; its tests have the forms.
func TestPut_network_rules(t *testing.T) {
	r := registry.New(open(t), registry.Config{}) // refuses every source, but only after the settings
	for rule, ok := range map[string]bool{
		"example.com": true, "*.example.com:8443": true, "10.0.0.1:80": true, "[::1]:443": true,
		"GET https://a.test/path": true, "full": true,
		"": false, "*": false, "ftp://a.test": false, "u@a.test": false, "a.test:0": false, "1.2.3": false,
		"a.test\n": false, strings.Repeat("a", 64) + ".test": false,
	} {
		d := add()
		d.Settings.Network = []string{rule}
		_, err := r.Put(t.Context(), ann, d)
		if got := haft.CodeOf(err) != haft.CodeInvalid; got != ok {
			t.Errorf("network rule %q accepted: %v, want %v (%v)", rule, got, ok, err)
		}
	}
}

func TestPut_package_forms(t *testing.T) {
	r := registry.New(open(t), registry.Config{})
	for _, tt := range []struct {
		kind haft.Kind
		name string
		ok   bool
	}{
		{haft.KindPython, "numpy", true}, {haft.KindPython, "requests[socks]>=2.1,<3", true},
		{haft.KindPython, "a==1.0.post1", true},
		{haft.KindPython, "a ~= 1.2 ; python_version < '3.12'", true}, {haft.KindPython, "zope.interface", true},
		{haft.KindPython, "-r x", false}, {haft.KindPython, "./x", false}, {haft.KindPython, "git+https://x/y", false},
		{haft.KindPython, "a b", false},
		{haft.KindPython, "", false}, {haft.KindPython, "a\n--pre", false},
		{haft.KindTypeScript, "zod", true}, {haft.KindTypeScript, "@types/node@^20.1.0", true},
		{haft.KindJavaScript, "a@>=1 <2", true},
		{haft.KindTypeScript, "--registry=x", false}, {haft.KindTypeScript, "a@git+ssh://x", false},
		{haft.KindTypeScript, "../x", false}, {haft.KindTypeScript, "@x", false},
		{haft.KindBash, "zod", false},
	} {
		d := add()
		d.Kind = tt.kind
		if tt.kind == haft.KindPython {
			d.Needs.Pip = []string{tt.name}
		} else {
			d.Needs.NPM = []string{tt.name}
		}
		_, err := r.Put(t.Context(), ann, d)
		if got := haft.CodeOf(err) != haft.CodeInvalid; got != tt.ok {
			t.Errorf("%s package %q accepted: %v, want %v (%v)", tt.kind, tt.name, got, tt.ok, err)
		}
	}
}

// A source that was not reviewed is not kept.
func TestPut_fails_closed_without_a_review(t *testing.T) {
	broken := func(context.Context, haft.Kind, string, bool) ([]haft.Finding, error) {
		return nil, errors.New("scanner died")
	}
	for name, cfg := range map[string]registry.Config{"no reviewer": {}, "reviewer fails": {Review: broken}} {
		_, err := registry.New(open(t), cfg).Put(t.Context(), ann, add())
		if haft.CodeOf(err) != haft.CodeUnavailable {
			t.Errorf("%s: Put = %v, want %s", name, err, haft.CodeUnavailable)
		}
	}
}

func TestPut_says_what_the_source_lacks(t *testing.T) {
	d := add()
	d.Parameters = nil
	fault := &schema.SourceError{Line: 3, Function: "add", Message: "has no type"}
	for name, tt := range map[string]struct {
		err  error
		code haft.Code
		want string
	}{
		"source error": {fault, haft.CodeInvalid, "line 3: function add: has no type"},
		"source errors": {fmt.Errorf("derive: %w", errors.Join(fault, &schema.SourceError{Message: "and more"})),
			haft.CodeInvalid, "line 3: function add: has no type; and more"},
		"coded error": {&haft.Error{Code: haft.CodeUnavailable, Message: "no Python here"}, haft.CodeUnavailable,
			"no Python here"},
		"our fault": {errors.New("/host/path broke"), haft.CodeInternal, "internal error"},
	} {
		r := registry.New(open(t), registry.Config{Review: clean,
			Derive: func(context.Context, registry.Source) (*registry.Derived, error) { return nil, tt.err }})
		_, err := r.Put(t.Context(), ann, d)
		if haft.CodeOf(err) != tt.code || !strings.Contains(haft.MessageOf(err), tt.want) {
			t.Errorf("%s: Put = %v (%s), want %s with %q", name, err, haft.CodeOf(err), tt.code, tt.want)
		}
	}
	// An injected parameter in a schema that is given would be the model's to fill.
	r := registry.New(open(t), registry.Config{Review: clean,
		Derive: func(context.Context, registry.Source) (*registry.Derived, error) {
			return &registry.Derived{Signature: &schema.Signature{Name: "add", Injected: []string{"a"}},
					Function: "add"},
				nil
		}})
	if _, err := r.Put(t.Context(), ann, add()); haft.CodeOf(err) != haft.CodeInvalid ||
		!strings.Contains(haft.MessageOf(err), "parameter a") {
		t.Errorf("Put with an injected parameter in the schema = %v", err)
	}
}

func TestPut_refuses_by_review(t *testing.T) {
	findings := []haft.Finding{
		{Scanner: "haft", Rule: "weak-hash", Severity: haft.SeverityLow, Line: 1, Message: "a weak hash"},
		{Scanner: "haft", Rule: "exec", Severity: haft.SeverityCritical, Line: 7, Message: "runs text as code"},
	}
	review := func(context.Context, haft.Kind, string, bool) ([]haft.Finding, error) { return findings, nil }
	for name, judge := range map[string]func(haft.Tool, []haft.Finding) registry.Verdict{
		"default":         nil,
		"refuse":          func(haft.Tool, []haft.Finding) registry.Verdict { return registry.Refuse },
		"unknown verdict": func(haft.Tool, []haft.Finding) registry.Verdict { return "" },
	} {
		_, err := registry.New(open(t), registry.Config{Review: review, Judge: judge}).Put(t.Context(), ann, add())
		want := "the source is refused: line 7: runs text as code (exec, critical); line 1: a weak hash " +
			"(weak-hash, low)"
		if haft.CodeOf(err) != haft.CodeDenied || haft.MessageOf(err) != want {
			t.Errorf("%s: Put = %v, want %s", name, err, want)
		}
	}
}

func TestDefaultJudge(t *testing.T) {
	for _, tt := range []struct {
		want registry.Verdict
		have []haft.Severity
	}{
		{registry.Pass, nil},
		{registry.Warn, []haft.Severity{haft.SeverityLow, haft.SeverityMedium}},
		{registry.Ask, []haft.Severity{haft.SeverityHigh, haft.SeverityLow}},
		{registry.Refuse, []haft.Severity{haft.SeverityLow, haft.SeverityCritical}},
		{registry.Refuse, []haft.Severity{"unheard of"}},
	} {
		var findings []haft.Finding
		for _, s := range tt.have {
			findings = append(findings, haft.Finding{Severity: s})
		}
		if got := registry.DefaultJudge(haft.Tool{Org: "acme"}, findings); got != tt.want {
			t.Errorf("DefaultJudge(%v) = %s, want %s", tt.have, got, tt.want)
		}
	}
}
