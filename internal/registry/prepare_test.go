package registry_test

import (
	"context"
	"strings"
	"testing"

	"haft"
	"haft/internal/registry"
	"haft/schema"
)

// What is prepared is ready to be called and kept nowhere.
func TestPrepare_keeps_nothing(t *testing.T) {
	s := open(t)
	r := registry.New(s, registry.Config{Review: clean})
	c, err := r.Prepare(t.Context(), ann, add())
	if err != nil || c.Tool.Name != "add" || c.Tool.Version.Digest == "" {
		t.Fatalf("Prepare = %+v, %v", c, err)
	}
	args, failure := c.FitRead(schema.ReadArguments([]byte(`{"a":"7"}`)))
	if failure != nil || string(args.Text) != `{"a":7}` {
		t.Errorf("FitRead = %s, %+v", args.Text, failure)
	}
	if _, err := r.Resolve(t.Context(), "acme", "add", ""); haft.CodeOf(err) != haft.CodeNotFound {
		t.Errorf("Resolve = %v, want %s", err, haft.CodeNotFound)
	}
	put, err := r.Put(t.Context(), ann, add())
	if err != nil || put.Tool.Version.Digest != c.Tool.Version.Digest {
		t.Errorf("Put = %+v, %v, want the version that was prepared", put, err)
	}
}

// Nobody is asked about a source that is not kept, so that what a person would have
// to look at is refused.
func TestPrepare_refuses_what_waits(t *testing.T) {
	for severity, want := range map[haft.Severity]haft.Code{haft.SeverityLow: "", haft.SeverityHigh: haft.CodeDenied,
		haft.SeverityCritical: haft.CodeDenied} {
		r := registry.New(open(t),
			registry.Config{Review: func(context.Context, haft.Kind, string, bool) ([]haft.Finding, error) {
				return []haft.Finding{{Rule: "test-rule", Severity: severity, Message: "is odd"}}, nil
			}})
		_, err := r.Prepare(t.Context(), ann, add())
		if haft.CodeOf(err) != want || want != "" && !strings.Contains(haft.MessageOf(err), "test-rule") {
			t.Errorf("Prepare with a finding of %s = %v, want %q", severity, err, want)
		}
	}
	if _, err := registry.New(open(t), registry.Config{}).Prepare(t.Context(), ann,
		add()); haft.CodeOf(err) != haft.CodeUnavailable {
		t.Errorf("Prepare without a review = %v, want %s", err, haft.CodeUnavailable)
	}
	if _, err := registry.New(open(t), registry.Config{Review: clean}).Prepare(t.Context(), haft.Principal{},
		add()); haft.CodeOf(err) != haft.CodeUnauthenticated {
		t.Errorf("Prepare for nobody = %v", err)
	}
}
