package script

import (
	"strings"
	"testing"
	"time"

	"haft"
)

// esbuild runs in this process and cannot be interrupted: what could hold it is
// refused before, or read in the way that takes no long.
func TestTransform_hostile_source_ends_soon(t *testing.T) {
	tests := map[string]struct {
		source, want string
	}{
		"conditions that are read twice": {strings.Repeat("a?(b):c=>", 20) + "1",
			"too many conditions with arrow functions"},
		"brackets": {strings.Repeat("[", 100_000) + strings.Repeat("]", 100_000),
			"brackets are nested deeper"},
		"operators":        {strings.Repeat("!", 100_000) + "1", "more than 4000 words"},
		"no text":          {"\x00", "zero byte"},
		"arrows in arrows": {strings.Repeat("x=>", 1_900) + "1", ""},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			x := &Executor{js: cache[[32]byte, transformed]{max: 1}}
			m := &call{Source: tt.source, File: "tool.ts", Function: "f"}
			start := time.Now()
			failure := x.toCommonJS(m, haft.KindTypeScript)
			if d := time.Since(start); d > 20*time.Second {
				t.Errorf("it took %v", d)
			}
			if got := failure; (got == nil) != (tt.want == "") ||
				got != nil && !strings.Contains(got.Message, tt.want) {
				t.Errorf("failure = %+v, want %q", got, tt.want)
			}
		})
	}
}
