package tooltest

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"haft/schema"
)

// The bounds on what is shown of a difference.
const (
	maxDifferences = 20
	maxShown       = 2000 // bytes of one text
	maxDiffLines   = 400
)

// differences lists how a value differs from the one that is expected, by JSON pointers.
func differences(want, got json.RawMessage) []string {
	w, err := schema.Decode(want)
	if err != nil {
		return []string{"the expected value cannot be read: " + err.Error()}
	}
	g, err := schema.Decode(got)
	if err != nil {
		return []string{"the value cannot be read: " + err.Error()}
	}
	d := &differ{}
	d.compare("", w, g)
	if d.more > 0 {
		d.list = append(d.list, fmt.Sprintf("… and %d more", d.more))
	}
	return d.list
}

// A differ collects differences.
type differ struct {
	list []string
	more int
}

// add adds a difference. An absent side is nil.
func (d *differ) add(at string, want, got *any) {
	if len(d.list) >= maxDifferences {
		d.more++
		return
	}
	if want != nil && got != nil {
		a, isText := (*want).(string)
		if b, ok := (*got).(string); ok && isText && strings.Contains(a+b, "\n") {
			d.list = append(d.list, "  at "+pointer(at)+"\n"+diffLines(a, b))
			return
		}
	}
	text := "  at " + pointer(at)
	if want != nil {
		text += "\n" + indent("- ", encode(*want))
	}
	if got != nil {
		text += "\n" + indent("+ ", encode(*got))
	}
	d.list = append(d.list, text)
}

// pointer shows a JSON pointer; that of the whole is empty.
func pointer(at string) string {
	if at == "" {
		return "the whole value"
	}
	return at
}

// encode writes a value as JSON.
func encode(v any) string {
	raw, err := schema.Encode(v)
	if err != nil {
		return err.Error()
	}
	return string(raw)
}

// compare compares two values.
func (d *differ) compare(at string, want, got any) {
	switch w := want.(type) {
	case *schema.Object:
		g, ok := got.(*schema.Object)
		if !ok {
			d.add(at, &want, &got)
			return
		}
		for _, key := range w.Keys() {
			a, b := w.Value(key), g.Value(key)
			if g.Has(key) {
				d.compare(at+schema.Pointer([]string{key}), a, b)
			} else {
				d.add(at+schema.Pointer([]string{key}), &a, nil)
			}
		}
		for _, key := range g.Keys() {
			if b := g.Value(key); !w.Has(key) {
				d.add(at+schema.Pointer([]string{key}), nil, &b)
			}
		}
	case []any:
		g, ok := got.([]any)
		if !ok {
			d.add(at, &want, &got)
			return
		}
		for i := range max(len(w), len(g)) {
			switch place := at + "/" + strconv.Itoa(i); {
			case i >= len(g):
				d.add(place, &w[i], nil)
			case i >= len(w):
				d.add(place, nil, &g[i])
			default:
				d.compare(place, w[i], g[i])
			}
		}
	default:
		if !same(want, got) {
			d.add(at, &want, &got)
		}
	}
}

// same compares two values that are neither lists nor objects. 1 and 1.0 are the same number.
func same(a, b any) bool {
	x, ok := a.(json.Number)
	y, also := b.(json.Number)
	if !ok || !also {
		switch b.(type) {
		case *schema.Object, []any:
			return false
		}
		return a == b
	}
	if x == y {
		return true
	}
	if !strings.ContainsAny(string(x)+string(y), ".eE") {
		return false
	}
	f, err := x.Float64()
	g, also2 := y.Float64()
	return err == nil && also2 == nil && f == g
}

// indent puts a mark before each line of a text, and bounds it.
func indent(mark, text string) string {
	if len(text) > maxShown {
		text = text[:maxShown] + "…"
	}
	lines := strings.Split(strings.TrimRight(text, "\n"), "\n")
	for i, line := range lines {
		lines[i] = "  " + mark + line
	}
	return strings.Join(lines, "\n")
}

// diffLines shows the lines by which two texts differ.
func diffLines(want, got string) string {
	a := strings.Split(strings.TrimRight(want, "\n"), "\n")
	b := strings.Split(strings.TrimRight(got, "\n"), "\n")
	if len(a) > maxDiffLines || len(b) > maxDiffLines {
		return indent("- ", want) + "\n" + indent("+ ", got)
	}
	// length[i][j] is that of the longest common subsequence of a[i:] and b[j:].
	length := make([][]int, len(a)+1)
	for i := range length {
		length[i] = make([]int, len(b)+1)
	}
	for i := len(a) - 1; i >= 0; i-- {
		for j := len(b) - 1; j >= 0; j-- {
			if a[i] == b[j] {
				length[i][j] = length[i+1][j+1] + 1
			} else {
				length[i][j] = max(length[i+1][j], length[i][j+1])
			}
		}
	}
	var out []string
	for i, j := 0, 0; i < len(a) || j < len(b); {
		switch {
		case i < len(a) && j < len(b) && a[i] == b[j]:
			out = append(out, "    "+a[i])
			i, j = i+1, j+1
		case j == len(b) || i < len(a) && length[i+1][j] >= length[i][j+1]:
			out = append(out, "  - "+a[i])
			i++
		default:
			out = append(out, "  + "+b[j])
			j++
		}
	}
	return strings.Join(out, "\n")
}
