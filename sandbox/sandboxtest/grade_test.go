package sandboxtest

import "testing"

func TestMark(t *testing.T) {
	rows := func(honest Verdict, hostile map[Verdict]int) Report {
		r := Report{Rows: []Row{{Group: Honest, Verdict: honest}}}
		for v, n := range hostile {
			for range n {
				r.Rows = append(r.Rows, Row{Group: Filesystem, Verdict: v})
			}
		}
		return r
	}
	tests := []struct {
		name string
		rep  Report
		want string
	}{
		{"all held", rows(Held, map[Verdict]int{Held: 10}), "A"},
		{"one stated of ten", rows(Held, map[Verdict]int{Held: 9, Stated: 1}), "B"},
		{"one skipped of ten", rows(Held, map[Verdict]int{Held: 9, Skipped: 1}), "B"},
		{"an honest case skipped", rows(Skipped, map[Verdict]int{Held: 10}), "B"},
		{"two stated of ten", rows(Held, map[Verdict]int{Held: 8, Stated: 2}), "C"},
		{"half", rows(Held, map[Verdict]int{Held: 5, Stated: 5}), "C"},
		{"less than half", rows(Held, map[Verdict]int{Held: 4, Stated: 6}), "D"},
		{"one broken", rows(Held, map[Verdict]int{Held: 9, Broken: 1}), "F"},
		{"an honest case broken", rows(Broken, map[Verdict]int{Held: 10}), "F"},
		{"nothing", Report{}, "D"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := mark(tt.rep); got != tt.want {
				t.Errorf("mark = %s, want %s", got, tt.want)
			}
		})
	}
}
