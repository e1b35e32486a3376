package letta_test

import (
	"crypto/rand"
	"regexp"
	"strings"
	"testing"

	"haft"
	"haft/compat/letta"
)

// strict is what Letta's own server holds ids against.
var strict = regexp.MustCompile(`^tool-[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$`)

func TestIDs_can_be_read_back(t *testing.T) {
	t.Parallel()
	for _, id := range []string{"tool." + "AAAAAAAAAAAAAAAAAAAAAAAA", "tool.777777777777777777777777"} {
		roundtrip(t, id)
	}
	for range 1000 {
		roundtrip(t, "tool."+rand.Text()[:haft.RandomID])
	}
	for _, id := range []haft.ToolID{"builtin:run_code", "tool.short", "tool.aaaaaaaaaaaaaaaaaaaaaaaa", ""} {
		if made := letta.ToolID(id); !strict.MatchString(made) {
			t.Errorf("ToolID(%q) = %s", id, made)
		} else if _, isMade, err := letta.ReadToolID(made); err != nil || !isMade {
			t.Errorf("ReadToolID(%s) = %v, %v, want one that is made", made, isMade, err)
		}
	}
}

func roundtrip(t *testing.T, id string) {
	t.Helper()
	made := letta.ToolID(haft.ToolID(id))
	if !strict.MatchString(made) {
		t.Fatalf("ToolID(%q) = %s", id, made)
	}
	if got, isMade, err := letta.ReadToolID(made); got != id || isMade || err != nil {
		t.Fatalf("ReadToolID(%s) = %q, %v, %v, want %q", made, got, isMade, err, id)
	}
}

func FuzzReadToolID(f *testing.F) {
	f.Add("tool-c5d331a4-dcb5-4bfe-8aa4-0067f4d88454")
	f.Add("tool-")
	f.Fuzz(func(t *testing.T, s string) {
		id, isMade, err := letta.ReadToolID(s)
		if err == nil && !isMade && letta.ToolID(haft.ToolID(id)) != lower(s) {
			t.Errorf("ReadToolID(%q) = %q, which is %q", s, id, letta.ToolID(haft.ToolID(id)))
		}
	})
}

// lower is an id with the small letters that hexadecimal digits can have too.
func lower(s string) string {
	b := []byte(s)
	for i, c := range b {
		if c >= 'A' && c <= 'F' {
			b[i] = c + 'a' - 'A'
		}
	}
	return string(b)
}

func TestPythonText(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		`"plain 'text'"`: "plain 'text'", `null`: "None", `true`: "True", `[]`: "[]", `{}`: "{}", `1.0`: "1.0",
		`12345678901234567890`: "12345678901234567890",
		`{"a":[1,false,null],"b":{"c":"d"}}`: "{'a': [1, False, None], 'b': " +
			"{'c': 'd'}}",
		`["it's","\"","'\"","\\","\n\t\r","é","\u0001","\u00a0","\u200b","😀"]`: `["it's", '"', '\'"', '\\', '\n\t\r', 'é', '\x01', '\xa0', '\u200b', '😀']`,
		`[1,`: "[1,", ``: "",
		strings.Repeat("[", 5000) + strings.Repeat("]", 5000): strings.Repeat("[", 5000) + strings.Repeat("]", 5000),
	} {
		if got := letta.PythonText(in); got != want {
			t.Errorf("PythonText(%s) = %s, want %s", in, got, want)
		}
	}
}
