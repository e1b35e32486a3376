package sandboxtest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
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

// A Report is what a machine is worth.
type Report struct {
	Isolation haft.Isolation `json:"isolation"`
	Rows      []Row          `json:"rows"`
	Grade     string         `json:"grade"`
}

// Grade runs every case against p, one by one, and marks the result. Progress,
// if not nil, is called after each. The error is of the machine or of ctx, not of
// the law.
func Grade(ctx context.Context, p sandbox.Provider, progress func(Row)) (Report, error) {
	b, err := openBench(ctx, p)
	if err != nil {
		return Report{}, err
	}
	rep := Report{Isolation: b.iso}
	for _, c := range Cases() {
		if ctx.Err() != nil {
			return Report{}, errors.Join(ctx.Err(), b.host.close())
		}
		begun := time.Now()
		verdict, err := b.judge(ctx, c)
		row := Row{Name: c.Name, Group: c.Group, Story: c.Story, Verdict: verdict, Took: haft.Millis(time.Since(begun))}
		if err != nil {
			row.Detail = err.Error()
		}
		rep.Rows = append(rep.Rows, row)
		if progress != nil {
			progress(row)
		}
	}
	rep.Grade = mark(rep)
	if err := b.host.close(); err != nil {
		return rep, fmt.Errorf("clean the host: %w", err)
	}
	return rep, nil
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
