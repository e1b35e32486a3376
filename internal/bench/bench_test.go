package bench_test

import (
	"bytes"
	"encoding/xml"
	"errors"
	"io"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"haft"
	"haft/internal/bench"
	"haft/internal/binarytest"
	"haft/sandbox/local"
	"haft/sandbox/sandboxtest"
)

func TestMain(m *testing.M) {
	local.Init()
	os.Exit(m.Run())
}

func TestSample_Quantile(t *testing.T) {
	var s bench.Sample
	if got := s.Quantile(.5); got != 0 {
		t.Errorf("the median of nothing is %s", got)
	}
	for i := 100; i > 0; i-- {
		s.Times = append(s.Times, time.Duration(i))
	}
	for q, want := range map[float64]time.Duration{0: 1, .5: 51, .95: 95, .99: 99, 1: 100} {
		if got := s.Quantile(q); got != want {
			t.Errorf("Quantile(%v) = %d, want %d", q, got, want)
		}
	}
}

func TestRow_Verdict(t *testing.T) {
	for _, tt := range []struct {
		row  bench.Row
		want string
	}{
		{bench.Row{Ratio: 0.04, Must: 0.1, Aim: 0.05}, "aim"},
		{bench.Row{Ratio: 0.07, Must: 0.1, Aim: 0.05}, "must"},
		{bench.Row{Ratio: 0.2, Must: 0.1, Aim: 0.05}, "MISSED"},
		{bench.Row{Ratio: 3.1, Must: 1.5, Aim: 3, AtLeast: true}, "aim"},
		{bench.Row{Ratio: 1.6, Must: 1.5, Aim: 3, AtLeast: true}, "must"},
		{bench.Row{Ratio: 1.4, Must: 1.5, Aim: 3, AtLeast: true}, "MISSED"},
		{bench.Row{Ratio: 0.01, Must: 1, Aim: 1, Unmeasured: "no time"}, "not measured: no time"},
	} {
		if got := tt.row.Verdict(); got != tt.want {
			t.Errorf("%+v is %q, want %q", tt.row, got, tt.want)
		}
	}
}

func TestInterleave(t *testing.T) {
	var order []string
	way := func(name string) bench.Way {
		return bench.Way{Name: name, Run: func() error { order = append(order, name); return nil }}
	}
	samples, err := bench.Interleave(2, []bench.Way{way("a"), way("b")})
	if err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(order, ""); got != "ababab" {
		t.Errorf("the order is %s, want turns and one round to warm up", got)
	}
	if len(samples) != 2 || len(samples[1].Times) != 2 {
		t.Errorf("samples are %+v, want two of two times", samples)
	}
	broken := errors.New("broken")
	_, err = bench.Interleave(1, []bench.Way{{Name: "bad", Run: func() error { return broken }}})
	if !errors.Is(err, broken) || !strings.Contains(err.Error(), "bad") {
		t.Errorf("error = %v, want the way and its cause", err)
	}
}

func TestChart_is_XML_and_escapes(t *testing.T) {
	var b bytes.Buffer
	samples := []bench.Sample{
		{Name: "ours <fast>", Times: []time.Duration{time.Millisecond}},
		{Name: "theirs & co", Times: []time.Duration{time.Second, 2 * time.Second}},
	}
	if err := bench.Chart(&b, "a < b", samples); err != nil {
		t.Fatal(err)
	}
	for d := xml.NewDecoder(&b); ; {
		if _, err := d.Token(); errors.Is(err, io.EOF) {
			return
		} else if err != nil {
			t.Fatalf("the chart is not XML: %v", err)
		}
	}
}

// TestMeasure runs the whole measurement with the smallest numbers: it says
// nothing about speed, only that every row can be had.
func TestMeasure(t *testing.T) {
	rep, err := bench.Measure(t.Context(), bench.Config{Rounds: 3, Slice: 50 * time.Millisecond, Sleepers: 5,
		Self: binarytest.Build(t), Callers: []int{1, 4}})
	if haft.CodeOf(err) == haft.CodeUnavailable {
		sandboxtest.Require(t, "sandbox", err.Error())
	} else if err != nil {
		t.Fatal(err)
	}
	if len(rep.Rows) < 5 {
		t.Errorf("%d rows were measured: %+v", len(rep.Rows), rep.Rows)
	}
	for _, r := range rep.Rows {
		// A few calls may take less processor time than the kernel counts, which is 10 ms.
		small := r.Ratio == 0 && strings.HasPrefix(r.What, "processor time inside haft")
		if r.Ratio <= 0 && !small || r.Unmeasured != "" {
			t.Errorf("row %q has no figure: %+v", r.What, r)
		}
	}
	for _, way := range []string{"haft, in the engine", "haft, over HTTP", "haft, over MCP",
		"haft, in a session over HTTP",
		"haft, no cell ready", "python3 -I -S, no sandbox"} {
		for _, callers := range []int{1, 4} {
			if !slices.ContainsFunc(rep.Loads, func(l bench.Load) bool {
				return l.Way == way && l.Callers == callers && l.Calls >= callers && l.Rate > 0 &&
					l.P50 <= l.P95 && l.P95 <= l.P99
			}) {
				t.Errorf("%s with %d callers was not measured: %+v", way, callers, rep.Loads)
			}
		}
	}
	if len(rep.Samples) < 3 || rep.Machine == "" {
		t.Errorf("the report is %+v", rep)
	}
}
