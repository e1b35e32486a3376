package main

import (
	"encoding/json"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"haft/internal/cli"
)

// TestPages does what pages of docs say, each in an empty directory, with a port and a model of its own.
func TestPages(t *testing.T) {
	for _, page := range []string{"getting-started", "tutorial", "howto", "troubleshooting"} {
		t.Run(page, func(t *testing.T) {
			t.Parallel()
			text, err := os.ReadFile("../../docs/" + page + ".md") //nolint:gosec // a page of the repository
			if err != nil {
				t.Fatal(err)
			}
			address := freeAddress(t)
			own := strings.NewReplacer("haft serve", "haft serve --addr "+address, "127.0.0.1:7717", address)
			copied := filepath.Join(t.TempDir(), page+".md")
			if err := os.WriteFile(copied, []byte(own.Replace(string(text))), 0o600); err != nil {
				t.Fatal(err)
			}
			runPage(t, copied, t.TempDir(), "HAFT_USER=", "OPENAI_API_KEY=k",
				"OPENAI_BASE_URL="+chatModel(t))
		})
	}
}

// namedCommand finds a command line of haft, in a line of its own or in a text.
var namedCommand = regexp.MustCompile("(?m)(?:^(?:\\$ )?|`|&& |\\| )(?:bin/)?haft ([a-z][^`\n|&;<>]*)")

// Every command that a page names exists, with its flags, also where no test runs it.
func TestPages_name_commands_that_exist(t *testing.T) {
	pages, err := filepath.Glob("../../docs/*.md")
	if err != nil {
		t.Fatal(err)
	}
	root, found := newRoot(cli.Streams{}, ""), 0
	root.InitDefaultCompletionCmd()
	root.InitDefaultHelpCmd()
	for _, page := range append(pages, "../../README.md", "../../SECURITY.md", "../../AGENTS.md") {
		text, err := os.ReadFile(page) //nolint:gosec // a page of the repository
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range namedCommand.FindAllStringSubmatch(string(text), -1) {
			found++
			line, _, _ := strings.Cut(m[1], " #")
			line, _, _ = strings.Cut(line, " -- ")
			words := strings.Fields(strings.ReplaceAll(line, ",", " "))
			cmd, rest, err := root.Find(words)
			if err != nil || cmd == root || cmd.HasSubCommands() && len(rest) > 0 && plainWord.MatchString(rest[0]) {
				t.Errorf("%s names haft %s, which is no command", filepath.Base(page), line)
				continue
			}
			for _, word := range words {
				name, _, _ := strings.Cut(strings.TrimPrefix(strings.Trim(word, "[]().,:"), "--"), "=")
				if strings.HasPrefix(strings.Trim(word, "["), "--") && name != "help" && cmd.Flag(name) == nil {
					t.Errorf("%s: haft %s has no flag --%s", filepath.Base(page), line, name)
				}
			}
		}
	}
	if found < 200 {
		t.Errorf("%d commands were found", found)
	}
}

// plainWord is the name of a command, and not of a placeholder or a flag.
var plainWord = regexp.MustCompile(`^[a-z][a-z-]*$`)

// freeAddress returns an address of this machine with a port that was free a moment ago.
func freeAddress(t *testing.T) string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close() //nolint:errcheck // nobody connected
	return l.Addr().String()
}

// chatModel starts a model that speaks Chat Completions without streams, as the loop of the page does. It looks at the
// weather and at an order, asks for a refund, and answers with what it was given last.
func chatModel(t *testing.T) string {
	type message struct {
		Role    string           `json:"role"`
		Content string           `json:"content"`
		Calls   []map[string]any `json:"tool_calls,omitempty"`
	}
	call := func(name, args string) map[string]any {
		return map[string]any{"id": name, "type": "function", "function": map[string]any{"name": name,
			"arguments": args}}
	}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var in struct {
			Messages []message
			Tools    []struct{ Function struct{ Name string } }
		}
		if err := json.NewDecoder(r.Body).Decode(&in); err != nil || len(in.Messages) == 0 || len(in.Tools) != 3 {
			http.Error(w, "expected messages and three tools", http.StatusBadRequest)
			return
		}
		out := message{Role: "assistant"}
		switch len(in.Messages) {
		case 1:
			out.Calls = []map[string]any{call("forecast", `{"city": "Oslo", "days": 1}`), call("find_order",
				`{"number": 17}`)}
		case 4:
			out.Calls = []map[string]any{call("refund", `{"number": 17, "amount": 30}`)}
		default:
			out.Content = in.Messages[len(in.Messages)-1].Content
		}
		answer := map[string]any{"choices": []any{map[string]any{"message": out}}}
		if err := json.NewEncoder(w).Encode(answer); err != nil {
			t.Error(err)
		}
	}))
	t.Cleanup(s.Close)
	return s.URL
}
