package mcpinstall

import (
	"strings"
	"testing"
)

func TestSetMember_keeps_everything_else(t *testing.T) {
	e := Entry{Command: "/bin/haft", Args: []string{"mcp"}}
	for name, tt := range map[string]struct{ before, after string }{
		"empty": {"", `{
  "s": {
    "haft": {
      "command": "/bin/haft",
      "args": [
        "mcp"
      ]
    }
  }
}
`},
		"an empty object":  {"{}", "{\n  \"s\": {\n    \"haft\": E\n  }\n}"},
		"others with tabs": {"{\n\t\"a\": 1\n}\n", "{\n\t\"a\": 1,\n\t\"s\": {\n\t\t\"haft\": E\n\t}\n}\n"},
		"an empty group":   {"{\n  \"s\": {}\n}", "{\n  \"s\": {\n    \"haft\": E\n  }\n}"},
		"another server": {"{\n  \"s\": {\n    \"x\": {}\n  }\n}",
			"{\n  \"s\": {\n    \"x\": {},\n    \"haft\": E\n  }\n}"},
		"a comment behind the last": {"{\n  \"s\": {\n    \"x\": {} // mine\n  }\n}",
			"{\n  \"s\": {\n    \"x\": {}, // mine\n    \"haft\": E\n  }\n}"},
		"a trailing comma": {"{\n  \"s\": {\n    \"x\": {},\n  },\n}",
			"{\n  \"s\": {\n    \"x\": {},\n    \"haft\": E,\n  },\n}"},
		"only a comment": {"{\n  // nothing yet\n}",
			"{\n  // nothing yet\n  \"s\": {\n    \"haft\": E\n  }\n}"},
		"braces in a comment": {"{ /* } \" */ \"a\": \"// } \\\" {\" }",
			"{ /* } \" */ \"a\": \"// } \\\" {\",\n  \"s\": {\n    \"haft\": E\n  }\n}"},
		"Windows lines": {"{\r\n  \"a\": 1\r\n}\r\n",
			"{\r\n  \"a\": 1,\r\n  \"s\": {\r\n    \"haft\": E\r\n  }\r\n}\r\n"},
		"replaced": {"{\"s\": {\"haft\": {\"command\": 1}, \"x\": 2}} // end",
			"{\"s\": {\"haft\": E, \"x\": 2}} // end"},
		"a name in escapes": {"{\"\\u0073\": {\"x\": 2\n}}", "{\"\\u0073\": {\"x\": 2,\n  \"haft\": E\n}}"},
		"byte order mark":   {"\ufeff{}", "\ufeff{\n  \"s\": {\n    \"haft\": E\n  }\n}"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := setMember([]byte(tt.before), "s", "haft", e)
			if err != nil {
				t.Fatal(err)
			}
			if err := sameOthers([]byte(tt.before), got, "s", "haft"); err != nil {
				t.Error(err)
			}
			entry, err := getMember(got, "s", "haft")
			if err != nil || readEntry(entry).Command != e.Command {
				t.Fatalf("the entry is %q: %v", entry, err)
			}
			want := strings.ReplaceAll(tt.after, "E", string(entry))
			if string(got) != want {
				t.Errorf("the text is\n%s\nwant\n%s", got, want)
			}
		})
	}
}

func TestRemoveMember(t *testing.T) {
	for name, tt := range map[string]struct{ before, after string }{
		"the only one": {`{"s": {"haft": {}}}`, `{"s": {}}`},
		"the first":    {`{"s": {"haft": {}, "x": 1}}`, `{"s": { "x": 1}}`},
		"the last":     {"{\"s\": {\n  \"x\": 1, // mine\n  \"haft\": {}\n}}", "{\"s\": {\n  \"x\": 1 // mine\n}}"},
		"trailing":     {"{\"s\": {\n  \"x\": 1,\n  \"haft\": {},\n}}", "{\"s\": {\n  \"x\": 1,\n}}"},
		"not there":    {`{"s": {"x": 1}}`, `{"s": {"x": 1}}`},
		"no group":     {`{"x": 1}`, `{"x": 1}`},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := removeMember([]byte(tt.before), "s", "haft")
			if err != nil || string(got) != tt.after {
				t.Errorf("the text is %q, want %q: %v", got, tt.after, err)
			}
			if err := sameOthers([]byte(tt.before), got, "s", "haft"); err != nil {
				t.Error(err)
			}
		})
	}
}

// An edit that would put another entry into a comment is noticed.
func TestSameOthers_notices(t *testing.T) {
	before := []byte("{\"s\": { // c\n \"haft\": {}, \"x\": 1\n}}")
	got, err := removeMember(before, "s", "haft")
	if err != nil {
		t.Fatal(err)
	}
	if err := sameOthers(before, got, "s", "haft"); err == nil {
		t.Errorf("x is lost in %q", got)
	}
}

func TestScanDocument_refuses(t *testing.T) {
	for _, text := range []string{`[]`, `1`, `{`, `{"a"}`, `{"a": }`, `{"a": 1 "b": 2}`, `{a: 1}`, `{"a": tru}`,
		`{} x`, `{"a": "x`, `{"a": /* }`, `{,}`, `{"a": 1,,}`, `{"a": 'x'}`,
		`{"a": ` + strings.Repeat("[", 200) + strings.Repeat("]", 200) + `}`} {
		if _, err := scanDocument([]byte(text)); err == nil {
			t.Errorf("%.40q is read", text)
		}
	}
	for _, text := range []string{`{"s": 1}`, `{"s": {}, "s": {}}`, `{"s": {"haft": 1, "haft": 2}}`} {
		if _, err := setMember([]byte(text), "s", "haft", 1); err == nil {
			t.Errorf("%s is edited", text)
		}
	}
}

// Whatever a configuration is, an edit is refused, or it changes nothing but the entry.
func FuzzSetMember(f *testing.F) {
	for _, seed := range []string{"", "{}", "{\"s\": {\"x\": 1, // c\n}, }", "{ /* c */ \"s\": {\"haft\": {}} }"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		e := Entry{Command: "/bin/haft", Args: []string{"mcp"}}
		got, err := setMember([]byte(text), "s", "haft", e)
		if err != nil {
			return
		}
		if err := sameOthers([]byte(text), got, "s", "haft"); err != nil {
			t.Fatalf("%q becomes %q: %v", text, got, err)
		}
		if entry, err := getMember(got, "s", "haft"); err != nil || readEntry(entry).Command != e.Command {
			t.Errorf("the entry of %q is %q: %v", got, entry, err)
		}
		if _, err := removeMember(got, "s", "haft"); err != nil {
			t.Errorf("%q: %v", got, err)
		}
	})
}
