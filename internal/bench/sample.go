package bench

import (
	"slices"
	"time"
)

// A Sample is the times that one way of running took.
type Sample struct {
	Name  string
	Times []time.Duration
}

// Quantile returns the time that the share q of the runs stayed within.
func (s Sample) Quantile(q float64) time.Duration {
	if len(s.Times) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(s.Times))
	i := int(q*float64(len(sorted)-1) + 0.5)
	return sorted[min(max(i, 0), len(sorted)-1)]
}

// A Way is one way of doing the same job.
type Way struct {
	Name string
	// Run does the job once. What it does before it returns is what is timed.
	Run func() error
}

// Interleave runs the ways in turn, rounds times, so that whatever else the
// machine does meets all of them alike. The first round warms up and is not
// counted.
func Interleave(rounds int, ways []Way) ([]Sample, error) {
	samples := make([]Sample, len(ways))
	for i, w := range ways {
		samples[i].Name = w.Name
	}
	for round := range rounds + 1 {
		for i, w := range ways {
			start := time.Now()
			if err := w.Run(); err != nil {
				return nil, &WayError{w.Name, err}
			}
			if round > 0 {
				samples[i].Times = append(samples[i].Times, time.Since(start))
			}
		}
	}
	return samples, nil
}

// A WayError says which way of running does not work here.
type WayError struct {
	Way string
	Err error
}

// Error returns "way: cause".
func (e *WayError) Error() string { return e.Way + ": " + e.Err.Error() }

// Unwrap returns the cause.
func (e *WayError) Unwrap() error { return e.Err }

// A Row is one line of the table of what is promised: a ratio of ours to theirs,
// measured in one run.
type Row struct {
	What       string
	Ours       string // as measured
	Theirs     string // what it is held against
	Ratio      float64
	Must, Aim  float64
	AtLeast    bool // a larger ratio is better
	Unmeasured string
}

// Verdict says whether the row reaches what must be and what we aim for.
func (r Row) Verdict() string {
	switch {
	case r.Unmeasured != "":
		return "not measured: " + r.Unmeasured
	case r.reaches(r.Aim):
		return "aim"
	case r.reaches(r.Must):
		return "must"
	}
	return "MISSED"
}

// reaches reports whether the ratio is as good as bound.
func (r Row) reaches(bound float64) bool {
	if r.AtLeast {
		return r.Ratio >= bound
	}
	return r.Ratio <= bound
}
