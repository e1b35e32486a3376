package tooltest

import (
	_ "embed" // what is added to sources
	"fmt"
	"strconv"
	"strings"

	"haft"
)

// fixes are added to the source of tools whose clock and random numbers are fixed. They come last, so that the lines
// of the tool keep their numbers.
var (
	//go:embed fix.py
	fixPython string
	//go:embed fix.js
	fixScript string
)

// fix fixes the clock and the random numbers of a tool, as the file says.
func (f *File) fix(d *haft.Draft) {
	if f.Seed == 0 && f.Time.IsZero() {
		return
	}
	none, text := "null", fixScript
	if d.Kind == haft.KindPython {
		none, text = "None", fixPython
	}
	seed, now := none, none
	if f.Seed != 0 {
		seed = strconv.FormatUint(f.Seed, 10)
	}
	if !f.Time.IsZero() {
		now = strconv.FormatInt(f.Time.UnixMilli(), 10)
		if d.Kind == haft.KindPython {
			now = fmt.Sprintf("%.6f", float64(f.Time.UnixMicro())/1e6)
		}
	}
	text = strings.NewReplacer("{{SEED}}", seed, "{{TIME}}", now).Replace(text)
	switch d.Kind {
	case haft.KindPython, haft.KindTypeScript:
		d.Source += text
	case haft.KindJavaScript:
		d.Source += strings.Replace(text, "(globalThis as any)", "globalThis", 1)
	}
}
