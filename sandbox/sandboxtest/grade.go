package sandboxtest

import (
	"context"
	"fmt"
	"io"
	"runtime"
	"strings"
	"sync"
	"text/tabwriter"
	"time"

	"haft"
	"haft/sandbox"
)

// A Row is the verdict on one case.
type Row struct {
	Name    string      `json:"name"`
	Group   Group       `json:"group"`
	Story   string      `json:"story"`
	Verdict Verdict     `json:"verdict"`
	Detail  string      `json:"detail,omitempty"`
	Took    haft.Millis `json:"took_ms"`
}

// A Report is the grade of a machine, with the verdict on every case.
type Report struct {
	Isolation haft.Isolation `json:"isolation"`
	Rows      []Row          `json:"rows"`
	Grade     string         `json:"grade"`
}

// Grade runs every case against p and marks the result. As in [Run], cases that
// measure time run one by one and first, the others as many at a time as there
// are processors. Progress, if not nil, is called after each, never twice at
// once. The error is of the machine or of ctx, not of a case.
func Grade(ctx context.Context, p sandbox.Provider, progress func(Row)) (Report, error) {
	b, err := openBench(ctx, p)
	if err != nil {
		return Report{}, err
	}
	rep := Report{Isolation: b.iso, Rows: b.rows(ctx, progress)}
	rep.Grade = mark(rep)
	if err := b.host.close(); err != nil {
		return rep, fmt.Errorf("clean the host: %w", err)
	}
	if err := ctx.Err(); err != nil {
		return Report{}, fmt.Errorf("grade: %w", err)
	}
	return rep, nil
}

// rows judges all cases, in the order of [Cases].
func (b *Bench) rows(ctx context.Context, progress func(Row)) []Row {
	cases := Cases()
	rows := make([]Row, len(cases))
	var mu sync.Mutex
	one := func(i int) {
		if ctx.Err() != nil {
			return
		}
		row := b.row(ctx, cases[i])
		mu.Lock()
		defer mu.Unlock()
		rows[i] = row
		if progress != nil {
			progress(row)
		}
	}
	next := make(chan int)
	var workers sync.WaitGroup
	for i, c := range cases {
		if order(c) == 0 {
			one(i)
		}
	}
	for range runtime.GOMAXPROCS(0) {
		workers.Go(func() {
			for i := range next {
				one(i)
			}
		})
	}
	for i, c := range cases {
		if order(c) > 0 {
			next <- i
		}
	}
	close(next)
	workers.Wait()
	return rows
}

// row judges one case.
func (b *Bench) row(ctx context.Context, c Case) Row {
	begun := time.Now()
	verdict, err := b.judge(ctx, c)
	row := Row{Name: c.Name, Group: c.Group, Story: c.Story, Verdict: verdict, Took: haft.Millis(time.Since(begun))}
	if err != nil {
		row.Detail = err.Error()
	}
	return row
}

// mark gives the grade, by this rule:
//
//	F  a promise was broken: do not run untrusted code here
//	A  every case held
//	B  nothing broken, and at least nine of ten hostile cases held
//	C  nothing broken, and at least half of the hostile cases held
//	D  nothing broken, but little is promised
//
// A case that could not be run is not held.
func mark(r Report) string {
	held, hostile, all := 0, 0, true
	for _, row := range r.Rows {
		if row.Verdict == Broken {
			return "F"
		}
		if row.Verdict != Held {
			all = false
		}
		if row.Group == Honest {
			continue
		}
		hostile++
		if row.Verdict == Held {
			held++
		}
	}
	switch {
	case all && hostile > 0:
		return "A"
	case held*10 >= hostile*9 && hostile > 0:
		return "B"
	case held*2 >= hostile && hostile > 0:
		return "C"
	}
	return "D"
}

// Count returns the number of rows with a verdict.
func (r Report) Count(v Verdict) int {
	n := 0
	for _, row := range r.Rows {
		if row.Verdict == v {
			n++
		}
	}
	return n
}

// Write prints r as a table by group, with the detail of what did not hold.
func (r Report) Write(w io.Writer) error {
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, g := range Groups() {
		for _, row := range r.Rows {
			if row.Group != g {
				continue
			}
			detail, _, _ := strings.Cut(row.Detail, "\n")
			fmt.Fprintf(tw, "%s\t%s\t%s\t%s\n", g, row.Verdict, strings.ReplaceAll(row.Name, "_", " "), detail)
		}
	}
	if err := tw.Flush(); err != nil {
		return fmt.Errorf("write report: %w", err)
	}
	_, err := fmt.Fprintf(w, "\n%d held, %d stated as missing, %d broken, %d skipped\ngrade %s\n",
		r.Count(Held), r.Count(Stated), r.Count(Broken), r.Count(Skipped), r.Grade)
	if err != nil {
		return fmt.Errorf("write report: %w", err)
	}
	return nil
}
