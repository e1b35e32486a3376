package terminal_test

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"strings"
	"testing"

	"haft/internal/terminal"
)

func TestImage(t *testing.T) {
	png := append([]byte("\x89PNG\r\n\x1a\n"), bytes.Repeat([]byte("\x1b]0;evil\a\x1b_G\x1b\\"), 500)...)
	for name, tt := range map[string]struct {
		env     map[string]string
		content []byte
		begins  string
	}{
		"kitty":            {map[string]string{"TERM": "xterm-kitty"}, png, "\x1b_Ga=T,f=100,q=2,m=1;"},
		"ghostty":          {map[string]string{"TERM_PROGRAM": "ghostty"}, png, "\x1b_Ga=T"},
		"iTerm":            {map[string]string{"TERM_PROGRAM": "iTerm.app"}, png, "\x1b]1337;File=inline=1;"},
		"another terminal": {map[string]string{"TERM": "xterm-256color"}, png, ""},
		"in tmux":          {map[string]string{"TERM_PROGRAM": "iTerm.app", "TMUX": "x"}, png, ""},
		"no image":         {map[string]string{"TERM": "xterm-kitty"}, []byte("\x1b]0;evil\a"), ""},
		"too large":        {map[string]string{"TERM": "xterm-kitty"}, append(png, make([]byte, 5<<20)...), ""},
	} {
		t.Run(name, func(t *testing.T) {
			got := terminal.Image(func(k string) string { return tt.env[k] }, tt.content)
			if (tt.begins == "") != (got == "") || !strings.HasPrefix(got, tt.begins) {
				t.Errorf("the text begins with %.40q, want %q", got, tt.begins)
			}
			if strings.Contains(got, "evil") {
				t.Error("a sequence of the image is passed on")
			}
			if name == "kitty" {
				joined := ""
				for part := range strings.SplitSeq(got, "\x1b\\") {
					_, data, _ := strings.Cut(part, ";")
					joined += data
				}
				if b, err := base64.StdEncoding.DecodeString(joined); err != nil || !bytes.Equal(b, tt.content) {
					t.Errorf("the image is not what is shown: %v", err)
				}
			}
		})
	}
}

func TestTable(t *testing.T) {
	for name, tt := range map[string]struct{ value, want string }{
		"rows":          {`[{"index":"mean","age":30.0},{"index":"max","age":null}]`, "index  age\nmean   30.0\nmax    "},
		"escapes":       {`[{"a":"\u001b]0;evil\u0007"}]`, "a\n" + terminal.OneLine("\x1b]0;evil\a", 60)},
		"other columns": {`[{"a":1},{"b":1}]`, ""},
		"nested":        {`[{"a":[1]}]`, ""},
		"nested later":  {`[{"a":1},{"a":{}}]`, ""},
		"more columns":  {`[{"a":1},{"a":1,"b":2}]`, ""},
		"numbers":       {`[1,2]`, ""},
		"object":        {`{"a":1}`, ""},
		"empty":         {`[]`, ""},
		"empty rows":    {`[{}]`, ""},
	} {
		t.Run(name, func(t *testing.T) {
			got := terminal.Table(json.RawMessage(tt.value))
			if strings.TrimRight(got, " ") != strings.TrimRight(tt.want, " ") {
				t.Errorf("table is\n%q, want\n%q", got, tt.want)
			}
		})
	}
}
