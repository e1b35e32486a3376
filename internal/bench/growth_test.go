package bench_test

import (
	"bytes"
	"encoding/xml"
	"errors"
	"io"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"haft"
	"haft/internal/bench"
	"haft/sandbox/sandboxtest"
)

func TestSeries_Slope(t *testing.T) {
	for name, tt := range map[string]struct {
		took func(n int) time.Duration
		want float64
	}{
		"flat":      {func(int) time.Duration { return time.Millisecond }, 0},
		"linear":    {func(n int) time.Duration { return time.Duration(n) * time.Microsecond }, 1},
		"quadratic": {func(n int) time.Duration { return time.Duration(n*n) * time.Microsecond }, 2},
	} {
		s := bench.Series{Points: []bench.Point{{N: 0, Took: time.Hour}}} // has no logarithm
		for n := 1; n <= 1000; n *= 10 {
			s.Points = append(s.Points, bench.Point{N: n, Took: tt.took(n)})
		}
		if got := s.Slope(); math.Abs(got-tt.want) > 1e-6 {
			t.Errorf("%s: Slope = %v, want %v", name, got, tt.want)
		}
	}
	if got := (bench.Series{}).Slope(); got != 0 {
		t.Errorf("the slope of nothing is %v", got)
	}
	s := bench.Series{Points: []bench.Point{{10, time.Millisecond}, {110, 2 * time.Millisecond}}}
	if got := s.Each(); got != 10*time.Microsecond {
		t.Errorf("Each = %s, want 10µs", got)
	}
}

// TestGrow runs the short form: it says nothing about speed, only that every series can be had.
func TestGrow(t *testing.T) {
	all, err := bench.Grow(t.Context(), bench.Config{Rounds: 2, Slice: 50 * time.Millisecond, Most: 1000})
	if haft.CodeOf(err) == haft.CodeUnavailable {
		sandboxtest.Require(t, "sandbox", err.Error())
	} else if err != nil {
		t.Fatal(err)
	}
	grows := map[string]int{}
	for _, s := range all {
		grows[s.Grows] += len(s.Points)
		for _, p := range s.Points {
			if p.Took <= 0 {
				t.Errorf("%s, %s: %+v took no time", s.Grows, s.What, p)
			}
		}
	}
	for what, want := range map[string]int{"tools": 6, "calls in the past": 6, "tenants": 4, "bytes of output": 1,
		"callers": 4} {
		if grows[what] != want {
			t.Errorf("%s has %d points, want %d: %+v", what, grows[what], want, all)
		}
	}
}

func TestReport_WriteDocument(t *testing.T) {
	dir := t.TempDir()
	page := filepath.Join(dir, "bench.md")
	text := "# Before\n<!-- measured: begin -->\nold\n<!-- measured: end -->\nAfter\n"
	if err := os.WriteFile(page, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	rep := &bench.Report{Machine: "here", Others: 1.5,
		Samples: []bench.Sample{{Name: "a & b", Times: []time.Duration{1, 2}}},
		Loads: []bench.Load{{Way: "haft <x>", Callers: 1, Rate: 10, Calls: 5, P50: time.Millisecond, Memory: 5 << 20},
			{Way: "haft <x>", Callers: 4, Rate: 20, Calls: 5}, {Way: "bare", Rate: 3}},
		Growth: []bench.Series{{Grows: "tools", What: "call", Points: []bench.Point{{0, 5}, {10, 50}}}}}
	for range 2 { // what was written is replaced
		if err := rep.WriteDocument(page); err != nil {
			t.Fatal(err)
		}
	}
	raw, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	got := string(raw)
	for want, times := range map[string]int{"# Before": 1, "old": 0, "After": 1, "a & b": 1, "haft <x>": 2, "5 MB": 1,
		"was not quiet": 1, "tools": 1} {
		if strings.Count(got, want) != times {
			t.Errorf("the page has %q %d times, want %d:\n%s", want, strings.Count(got, want), times, got)
		}
	}
	for _, name := range []string{"bench.svg", "bench-load.svg", "bench-growth.svg"} {
		chart, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		for d := xml.NewDecoder(bytes.NewReader(chart)); ; {
			if _, err := d.Token(); errors.Is(err, io.EOF) {
				break
			} else if err != nil {
				t.Fatalf("%s is not XML: %v", name, err)
			}
		}
	}
	if err := os.WriteFile(page, []byte("no marks"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := rep.WriteDocument(page); err == nil || !strings.Contains(err.Error(), "measured: begin") {
		t.Errorf("a page without marks: %v, want a refusal that names them", err)
	}
}
