package script

import (
	"encoding/json"
	"testing"
	"time"
)

// A tool that reports for hours has a bounded number of events, and the last report is passed on.
func TestReports_are_bounded(t *testing.T) {
	n, last := 0, ""
	r := reports{pass: func(raw json.RawMessage) { n, last = n+1, string(raw) }}
	for i := range 2 * maxReports {
		r.last = time.Time{} // long ago
		r.add(report{Progress: float64(i)})
	}
	if n != maxReports {
		t.Errorf("%d reports are passed on while it runs, want %d", n, maxReports)
	}
	if r.close(); n != maxReports+1 || last != `{"progress":9999}` {
		t.Errorf("%d reports are passed on, the last is %s", n, last)
	}
}
