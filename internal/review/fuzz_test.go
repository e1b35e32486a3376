package review_test

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/tools/txtar"

	"haft"
	"haft/internal/review"
	"haft/internal/skiptest"
)

// seeds adds all sources of the golden files.
func seeds(f *testing.F, add func(name, source string)) {
	files, err := filepath.Glob("testdata/*.txtar")
	if err != nil || len(files) == 0 {
		f.Fatalf("no golden files: %v", err)
	}
	for _, file := range files {
		ar, err := txtar.ParseFile(file)
		if err != nil {
			f.Fatal(err)
		}
		for _, x := range ar.Files {
			if _, ok := kinds[filepath.Ext(x.Name)]; ok {
				add(x.Name, string(x.Data))
			}
		}
	}
}

// FuzzReview: any text of any language gives a report that is in order, bounded,
// quotes nothing, is the same a second time, and comes soon.
func FuzzReview(f *testing.F) {
	languages := []haft.Kind{haft.KindJavaScript, haft.KindTypeScript, haft.KindBash}
	seeds(f, func(name, source string) {
		f.Add(byte(slices.Index(languages, kinds[filepath.Ext(name)])+3), source)
	})
	n := 200
	if skiptest.Race {
		n = 20
	}
	for _, s := range hostile(n) {
		f.Add(byte(0), s)
		f.Add(byte(2), s)
	}
	r := review.New(review.Config{})
	f.Fuzz(func(t *testing.T, which byte, source string) {
		kind := languages[int(which)%len(languages)]
		start := time.Now()
		rep, err := r.Review(t.Context(), kind, source)
		if took := time.Since(start); took > 90*time.Second {
			t.Errorf("it took %v", took)
		}
		if err != nil {
			if haft.CodeOf(err) != haft.CodeInvalid {
				t.Errorf("Review(%s) = %v", kind, err)
			}
			return
		}
		check(t, rep, source)
		again, err := r.Review(t.Context(), kind, source)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(rep, again); diff != "" {
			t.Errorf("a second time it differs:\n%s", diff)
		}
	})
}

// check holds a report against what is promised of all.
func check(t *testing.T, rep review.Report, source string) {
	t.Helper()
	if len(rep.Findings) > review.MaxFindings {
		t.Errorf("%d findings", len(rep.Findings))
	}
	known := map[string]string{}
	for _, r := range review.Rules() {
		known[r.ID] = r.What + "; " + r.Instead
	}
	for i, x := range rep.Findings {
		switch {
		case x.Line < 1 || x.Line > 1+strings.Count(source, "\n"):
			t.Errorf("line %d of %d", x.Line, 1+strings.Count(source, "\n"))
		case x.Scanner == review.Scanner && known[x.Rule] != x.Message && x.Rule != "source-more":
			t.Errorf("the message of %s is %q", x.Rule, x.Message)
		case !utf8.ValidString(x.Message):
			t.Errorf("the message is no text: %q", x.Message)
		case i > 0 && x.Line < rep.Findings[i-1].Line:
			t.Errorf("line %d comes after %d", x.Line, rep.Findings[i-1].Line)
		}
	}
}

// FuzzPython: any source gives a report from the script in Python.
func FuzzPython(f *testing.F) {
	run := python(f)
	seeds(f, func(name, source string) {
		if filepath.Ext(name) == ".py" {
			f.Add(source)
		}
	})
	r := review.New(review.Config{Python: run})
	f.Fuzz(func(t *testing.T, source string) {
		rep, err := r.Review(t.Context(), haft.KindPython, source)
		if err != nil {
			t.Fatalf("Review(%q) = %v", source, err)
		}
		check(t, rep, source)
	})
}

// hostile makes sources that want a reader to take forever or everything.
func hostile(n int) []string {
	var all []string
	for _, s := range []string{"(", "[", "{", "a[", "a(", "`${", "\"a\"+", "a.", "a=", "eval(", "require(", "$(", "`",
		"\\", "/", "if x; then ", "f(){ ", "a|", "<<E\n", "import {a,", "'", "-", "not ", "lambda:", "x[", "f'{",
		"@a\n", "a=a+", "[x for x in ", "eval(eval)(", "getattr(", "\u0435a", "\\u0065", "{a}=", "$'\\x41", "eval \"",
		"${a", "x=$x$x;", "sh|", "a=b;b=a;", "..."} {
		all = append(all, strings.Repeat(s, n))
	}
	doubled := ""
	for i := range 12 {
		doubled += fmt.Sprintf("v%d=%s\n", i, strings.Repeat(fmt.Sprintf("$v%d", i+1), 12))
	}
	long := "const v = \"" + strings.Repeat("a", 50*n) + "\";"
	all = append(all, long+strings.Repeat("v.trim();", 5*n), long+"x="+strings.Repeat("v+", n)+"v",
		long+"x=v"+strings.Repeat(".concat(v)", n/2),
		"x=f()"+strings.Repeat(".a", n), strings.Repeat("(a=", min(n, 200))+"1"+strings.Repeat(")=>1", min(n, 200)))
	return append(all, doubled+"v12=x\n$v0\n", strings.ReplaceAll(doubled, "$", "+")+"v12='x'\neval(v0)\n")
}

func TestReview_hostile(t *testing.T) {
	run := python(t)
	for _, kind := range []haft.Kind{haft.KindJavaScript, haft.KindBash, haft.KindPython} {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			n := 1_000
			if kind == haft.KindPython {
				n = 500
			}
			if skiptest.Race {
				n = 100
			}
			r := review.New(review.Config{Python: run})
			for _, source := range hostile(n) {
				source = source[:min(len(source), review.MaxSource)]
				start := time.Now()
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				rep, err := r.Review(ctx, kind, source)
				cancel()
				if err != nil {
					t.Errorf("Review(%.20q...) = %v", source, err)
				}
				check(t, rep, source)
				if took := time.Since(start); took > 90*time.Second {
					t.Errorf("Review(%.20q...) took %v", source, took)
				}
			}
		})
	}
}
