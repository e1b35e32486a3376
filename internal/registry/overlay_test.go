package registry_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"haft"
	"haft/internal/registry"
)

// A draft that keeps settings changes only what it names; any other replaces all of them.
func TestPut_keeps_settings(t *testing.T) {
	full := haft.Draft{Source: "def pay(): # Pay.", Annotations: haft.Annotations{Title: "Pay"},
		Needs: haft.Requirements{Pip: []string{"tabulate"}}, Files: []haft.ToolFile{{Path: "menu.json", Text: "{}"}},
		Settings: haft.Settings{RequiresApproval: true, Secrets: []string{"KEY"}, Network: []string{"a.test"},
			Idempotent: true, Retry: haft.Backoff{Tries: 3}, Output: haft.Output{MaxChars: 9},
			Limits: haft.Limits{Wall: haft.Millis(time.Second), Memory: 64 << 20}}}
	tests := []struct {
		name  string
		draft haft.Draft
		kept  string
		check func(haft.Version) bool
	}{
		{"nothing named", haft.Draft{KeepSettings: true}, "idempotent, memory, timeout, network a.test, " +
			"output.max chars, approval, retry, secret KEY, requirement tabulate, file menu.json, annotations",
			func(v haft.Version) bool {
				return v.Settings.RequiresApproval && v.Settings.Limits.Wall == haft.Millis(time.Second) &&
					slices.Equal(v.Requirements.Pip, []string{"tabulate"}) && len(v.Files) == 1
			}},
		{"a value", haft.Draft{KeepSettings: true, Settings: haft.Settings{Limits: haft.Limits{Memory: 1 << 20}}},
			"timeout",
			func(v haft.Version) bool { return v.Settings.Limits.Memory == 1<<20 && v.Settings.Limits.Wall > 0 }},
		{"empty values", haft.Draft{KeepSettings: true, Named: []string{"requires_approval", "limits.wall_ms", "files",
			"requirements"}}, "memory", func(v haft.Version) bool {
			return !v.Settings.RequiresApproval && v.Settings.Limits.Wall == 0 &&
				len(v.Files)+len(v.Requirements.Pip) == 0
		}},
		{"a replacement", haft.Draft{}, "", func(v haft.Version) bool { return !v.Settings.RequiresApproval }},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := newRegistry(t)
			mustPut(t, r, ann, full)
			tt.draft.Source = "def pay(): # Pay again."
			c := mustPut(t, r, ann, tt.draft)
			if kept := strings.Join(c.Kept, ", "); !strings.Contains(kept, tt.kept) || tt.kept == "" && kept != "" {
				t.Errorf("kept = %s", kept)
			}
			if !tt.check(c.Tool.Version) {
				t.Errorf("version = %+v", c.Tool.Version)
			}
		})
	}
}

// Packages that the source named itself go with their comment, and a version that waits is the one to keep.
func TestPut_keeps_settings_of(t *testing.T) {
	r := newRegistry(t)
	script := "# /// script\n# dependencies = [\"own\"]\n# ///\ndef pay(): # Pay."
	mustPut(t, r, ann, haft.Draft{Source: script, Needs: haft.Requirements{Pip: []string{"own", "flag"}}})
	c := mustPut(t, r, ann, haft.Draft{Source: "def pay(): # Pay.", KeepSettings: true})
	if !slices.Equal(c.Tool.Version.Requirements.Pip, []string{"flag"}) {
		t.Errorf("requirements = %v", c.Tool.Version.Requirements.Pip)
	}
}

// Nothing is kept of a version that somebody proposed and nobody accepted: not instead of the current one, and of
// another author not at all.
func TestPut_keeps_nothing_of_what_waits(t *testing.T) {
	mallory := ann
	mallory.User = "mallory"
	proposed := risky(2)
	proposed.Settings = haft.Settings{Network: []string{"evil.test"}}
	for _, first := range []bool{true, false} {
		r := newRegistry(t)
		if first {
			mustPut(t, r, ann, haft.Draft{Source: "def f(): # F.", Settings: haft.Settings{RequiresApproval: true}})
		}
		mustPut(t, r, mallory, proposed)
		c := mustPut(t, r, ann, haft.Draft{Source: "def f(): # F again.", KeepSettings: true})
		if s := c.Tool.Version.Settings; len(s.Network) > 0 || s.RequiresApproval != first {
			t.Errorf("with a current version %t: settings = %+v", first, s)
		}
	}
}

// A draft that replaces all settings takes from its source only what restricts it.
func TestPut_gives_a_source_nothing_that_the_draft_left_out(t *testing.T) {
	asks := func(ctx context.Context, src registry.Source) (*registry.Derived, error) {
		d, err := derive(ctx, src)
		if err == nil {
			d.Settings = map[string]any{"requires_approval": true, "network": []any{"evil.test"}}
		}
		return d, err
	}
	r := registry.New(open(t), registry.Config{Derive: asks, Review: scan})
	c := mustPut(t, r, ann, haft.Draft{Source: "# haft\ndef pay(): # Pay."})
	if s := c.Tool.Version.Settings; !s.RequiresApproval || len(s.Network) > 0 {
		t.Errorf("settings = %+v", s)
	}
}

// The source may name settings. They win over what is kept, and lose against the draft.
func TestPut_takes_settings_of_the_source(t *testing.T) {
	said := func(ctx context.Context, src registry.Source) (*registry.Derived, error) {
		d, err := derive(ctx, src)
		if err == nil && strings.Contains(string(src.Text), "approval") {
			d.Settings = map[string]any{"requires_approval": true, "concurrency": 2}
		}
		if err == nil && strings.Contains(string(src.Text), "freely") {
			d.Settings = map[string]any{"requires_approval": false}
		}
		return d, err
	}
	r := registry.New(open(t), registry.Config{Derive: said, Review: scan})
	c := mustPut(t, r, ann, haft.Draft{Source: "# haft: approval\ndef pay(): # Pay.",
		Settings: haft.Settings{Concurrency: 5}})
	if s := c.Tool.Version.Settings; !s.RequiresApproval || s.Concurrency != 5 {
		t.Errorf("settings = %+v", s)
	}
	c = mustPut(t, r, ann, haft.Draft{Source: "# haft: freely\ndef pay(): # Pay.", KeepSettings: true})
	if s := c.Tool.Version.Settings; s.RequiresApproval || s.Concurrency != 5 {
		t.Errorf("settings = %+v", s)
	}
}
