package local_test

import (
	"testing"

	"haft/sandbox/local"
)

func TestOutputReader_stops_only_if_empty(t *testing.T) {
	for _, tt := range []struct{ name, before, after, want string }{
		{"what comes later does not count", "said", "more", "said"},
		{"nothing was said", "", "more", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got, total, err := local.ReadOutput(tt.before, tt.after); err != nil || got != tt.want ||
				total != int64(len(tt.want)) {
				t.Errorf("passed on %q, counted %d, %v, want %q", got, total, err, tt.want)
			}
		})
	}
}
