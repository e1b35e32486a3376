package review_test

import (
	"bytes"
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"haft"
	"haft/internal/review"
	"haft/internal/skiptest"
)

// bandit runs the script in the environment of real packages that scripts/setup
// makes. Without bandit there the test is skipped, or fails if HAFT_REQUIRE names
// bandit.
func bandit(t *testing.T) func(context.Context, []byte) ([]byte, error) {
	t.Helper()
	path, err := filepath.Abs(filepath.Join("..", "..", ".haft", "testenv", "bin", "python"))
	if err == nil {
		err = exec.CommandContext(t.Context(), path, "-c", "import bandit").Run()
	}
	if err != nil {
		skiptest.Lacking(t, "bandit",
			fmt.Sprintf("it is missing in the environment of real packages: run scripts/setup test (%v)", err))
	}
	return func(ctx context.Context, source []byte) ([]byte, error) { return runBandit(ctx, path, source) }
}

func runBandit(ctx context.Context, path string, source []byte) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, path, "-I", "-c", review.BanditScript())
	cmd.Stdin = bytes.NewReader(source)
	var errs bytes.Buffer
	cmd.Stderr = &errs
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("%w: %s", err, errs.String())
	}
	return out, nil
}

func TestReview_bandit(t *testing.T) {
	source := `import subprocess
import telnetlib
password = "hunter2hunter2"  # nosec
def go(cmd):
    subprocess.run(cmd, shell=True)  # nosec
    return open("/tmp/x").read()
`
	rep, err := review.New(review.Config{Python: python(t), Bandit: bandit(t)}).Review(t.Context(), haft.KindPython,
		source)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, f := range rep.Findings {
		if strings.Contains(f.Message, "hunter2") {
			t.Errorf("the message quotes a password: %s", f.Message)
		}
		if f.Scanner == "bandit" {
			got = append(got, fmt.Sprintf("%d %s %s", f.Line, f.Severity, f.Rule))
		}
	}
	want := []string{"1 low B404", "2 high B401", "3 low B105", "5 high B602", "6 medium B108"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("bandit finds (-want +got):\n%s\n%v", diff, rep)
	}
	if len(rep.Notes) > 0 {
		t.Errorf("Notes = %q", rep.Notes)
	}
}

func TestReview_bandit_that_is_not_there(t *testing.T) {
	python(t)
	// Without site packages there is no bandit to import.
	run := interpreter(interpreters()[0])
	missing := func(ctx context.Context, source []byte) ([]byte, error) {
		return run(ctx, review.BanditScript(), source)
	}
	rep, err := review.New(review.Config{Python: python(t), Bandit: missing}).Review(t.Context(), haft.KindPython,
		"x = 1\n")
	if err != nil || len(rep.Findings) > 0 || len(rep.Notes) != 1 ||
		!strings.HasPrefix(rep.Notes[0], "bandit is not installed: ") {
		t.Errorf("Review = %+v, %v", rep, err)
	}
}

func TestReview_bandit_severities(t *testing.T) {
	fine := func(context.Context, string, []byte) ([]byte, error) { return []byte(`{"findings":[]}`), nil }
	for _, tt := range []struct {
		severity, confidence string
		want                 haft.Severity
	}{
		{"HIGH", "HIGH", "high"}, {"HIGH", "MEDIUM", "high"}, {"HIGH", "LOW", "medium"},
		{"MEDIUM", "HIGH", "medium"}, {"MEDIUM", "LOW", "low"}, {"LOW", "HIGH", "low"}, {"LOW", "LOW", "low"},
		{"UNDEFINED", "HIGH", "low"}, {"APOCALYPTIC", "HIGH", "high"},
	} {
		says := func(context.Context, []byte) ([]byte, error) {
			return fmt.Appendf(nil,
				`{"errors":[],"results":[{"test_id":"B102","test_name":"exec_used","issue_text":"Use of exec of hunter2","code":"exec(hunter2)","issue_severity":%q,"issue_confidence":%q,"line_number":1}]}`, tt.severity, tt.confidence), nil
		}
		rep, err := review.New(review.Config{Python: fine, Bandit: says}).Review(t.Context(), haft.KindPython, "x\n")
		if err != nil || len(rep.Findings) != 1 {
			t.Fatalf("Review = %v, %v", rep, err)
		}
		want := haft.Finding{Scanner: "bandit", Rule: "B102", Severity: tt.want, Line: 1,
			Message: "exec used; see the documentation of bandit for B102"}
		if diff := cmp.Diff(want, rep.Findings[0]); diff != "" {
			t.Errorf("%s, %s (-want +got):\n%s", tt.severity, tt.confidence, diff)
		}
	}
}
