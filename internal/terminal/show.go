package terminal

import (
	"bytes"
	"cmp"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"text/tabwriter"
)

// The bounds of what is shown: larger images are only named, larger tables stay JSON.
const (
	maxImage   = 4 << 20
	imageChunk = 4096 // of one message of kitty
	maxRows    = 100
	maxColumns = 12
	maxCell    = 60
)

// Image returns the text that shows an image in the terminal that the environment names, or "" if
// that shows no such image. The content is in base64 there, so that it cannot end the message.
func Image(getenv func(string) string, content []byte) string {
	if len(content) > maxImage || getenv("TMUX") != "" || getenv("STY") != "" {
		return "" // tmux and screen pass on no images
	}
	kind := http.DetectContentType(content)
	text := base64.StdEncoding.EncodeToString(content)
	program := getenv("TERM_PROGRAM")
	switch {
	case kind == "image/png" && (getenv("TERM") == "xterm-kitty" || program == "ghostty"):
		return kitty(text)
	case slices.Contains([]string{"image/png", "image/jpeg", "image/gif"}, kind) &&
		(program == "iTerm.app" || program == "WezTerm"):
		return fmt.Sprintf("\x1b]1337;File=inline=1;size=%d:%s\a\n", len(content), text)
	}
	return ""
}

// kitty returns an image as messages of the graphics protocol of kitty.
func kitty(text string) string {
	var b strings.Builder
	for first := true; first || text != ""; first = false {
		n := min(imageChunk, len(text))
		more := 0
		if n < len(text) {
			more = 1
		}
		head := ""
		if first {
			head = "a=T,f=100,q=2,"
		}
		fmt.Fprintf(&b, "\x1b_G%sm=%d;%s\x1b\\", head, more, text[:n])
		text = text[n:]
	}
	return b.String() + "\n"
}

// Value returns a value as it is written to w: text without quotes. On a terminal rows are a table, and
// control characters are visible.
func Value(w io.Writer, value json.RawMessage) string {
	var s string
	if json.Unmarshal(value, &s) != nil {
		s = string(value)
	}
	if !Is(w) {
		return s
	}
	return cmp.Or(Table(value), Escape(s))
}

// Table returns a value as a table, if it is a list of rows with the same simple columns, or "".
func Table(value json.RawMessage) string {
	var rows []map[string]any
	d := json.NewDecoder(bytes.NewReader(value))
	d.UseNumber()
	if d.Decode(&rows) != nil || len(rows) == 0 || len(rows) > maxRows {
		return ""
	}
	columns := columnsOf(value)
	if len(columns) == 0 || len(columns) > maxColumns {
		return ""
	}
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	line := func(cells []string) { fmt.Fprintln(w, strings.Join(cells, "\t")) }
	line(each(columns, func(c string) string { return OneLine(c, maxCell) }))
	for _, row := range rows {
		cells := make([]string, len(columns))
		for i, c := range columns {
			cell, ok := row[c]
			if !ok || len(row) != len(columns) {
				return ""
			}
			switch v := cell.(type) {
			case nil:
			case string:
				cells[i] = OneLine(v, maxCell)
			case json.Number, bool:
				cells[i] = fmt.Sprint(v)
			default:
				return ""
			}
		}
		line(cells)
	}
	_ = w.Flush() // a Builder takes everything
	return strings.TrimRight(b.String(), "\n")
}

// columnsOf returns the names in the first row of a list, in their order, or nil if its values are
// not simple.
func columnsOf(value json.RawMessage) []string {
	d := json.NewDecoder(bytes.NewReader(value))
	var names []string
	for i := 0; ; i++ {
		t, err := d.Token()
		switch {
		case err != nil:
			return nil
		case i < 2: // the list and its first row
		case t == json.Delim('}'):
			return names
		case i%2 == 0:
			name, ok := t.(string)
			if !ok || slices.Contains(names, name) {
				return nil
			}
			names = append(names, name)
		default:
			if _, nested := t.(json.Delim); nested {
				return nil
			}
		}
	}
}

// each returns what f makes of all texts.
func each(list []string, f func(string) string) []string {
	out := make([]string, len(list))
	for i, s := range list {
		out[i] = f(s)
	}
	return out
}
