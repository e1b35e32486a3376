package main

import (
	"os"
	"strings"
	"testing"

	"haft/internal/cli"
	"haft/internal/exit"
)

// What somebody asks in the first hour is answered by haft help with the words of the question: the answer is the first
// thing that it prints, with the command and the page.
func TestHelp_answers_questions(t *testing.T) {
	index, err := os.ReadFile("../../docs/README.md")
	if err != nil {
		t.Fatal(err)
	}
	for question, want := range map[string]string{
		"how do I give it a file":              "haft call TOOL --file FILE --out DIR",
		"get the files that a tool made":       "haft call TOOL --file FILE --out DIR",
		"how do I see what ran":                "haft calls list",
		"history of calls":                     "haft calls list",
		"how do I add a package":               "haft tool add FILE --requirement NAME",
		"pip install numpy":                    "haft tool add FILE --requirement NAME",
		"where do I put my API key":            "haft secret set NAME",
		"my tool runs too long: a timeout":     "haft tool add FILE --timeout 5s",
		"go back to the old version of a tool": "haft tool rollback NAME",
		"my tool has no internet":              "haft tool add FILE --network HOST",
		"a human has to approve it":            "haft approvals approve ID",
		"permission denied":                    "haft policy explain TOOL",
		"which role may call a tool":           "haft policy explain TOOL",
		"connect Claude Code":                  "haft mcp install cursor",
		"use it from LangChain":                "haft serve",
		"what does this error message mean":    "haft doctor",
		"stop a running call":                  "haft calls cancel ID",
		"cancel a call":                        "haft calls cancel ID",
		"how do I test a tool":                 "haft test DIR",
		"how do I run a tool":                  "haft run FILE",
		"how do I call a tool":                 "haft call TOOL --arg",
		"how do I run in production":           "haft serve",
		"deploy":                               "haft serve",
		"two people access":                    "haft key add",
		"api key for a user":                   "haft key add",
		"rate limit":                           "haft tool add FILE --rate 60/m",
		"60 calls per minute":                  "haft tool add FILE --rate 60/m",
		"use gpt":                              "haft chat",
		"which model":                          "haft chat",
		"debug":                                "haft logs",
		"back up the data":                     "haft backup DIR",
	} {
		var out strings.Builder
		code := run(t.Context(), append([]string{"help"}, strings.Fields(question)...),
			cli.Streams{Out: &out, Err: &out})
		first, _, _ := strings.Cut(out.String(), "\n\n")
		if code != exit.OK || !strings.Contains(first, "\n  "+want) {
			t.Errorf("haft help %s: code %d, without %s:\n%s", question, code, want, out.String())
			continue
		}
		// The index has the same question with the same page.
		lines := strings.Split(first, "\n")
		page := strings.TrimPrefix(lines[len(lines)-1], "  docs/")
		if row := "| " + lines[0] + " |"; !strings.Contains(string(index), row) ||
			!strings.Contains(string(index), "("+page+")") {
			t.Errorf("docs/README.md has no question %q with the page %s", lines[0], page)
		}
	}
}

// A question that nothing answers finds nothing, instead of what shares a common word with it.
func TestHelp_says_that_it_has_no_answer(t *testing.T) {
	for _, question := range []string{"how do I schedule a tool", "can a tool bake a cake", "how do I pay an invoice"} {
		var out strings.Builder
		code := run(t.Context(), append([]string{"help"}, strings.Fields(question)...),
			cli.Streams{Out: &out, Err: &out})
		if code != exit.Usage || !strings.Contains(out.String(), "docs/README.md") ||
			strings.Contains(out.String(), "How do") {
			t.Errorf("haft help %s: code %d\n%s", question, code, out.String())
		}
	}
}

// A command comes before answers that have less of the words.
func TestHelp_puts_commands_first_that_have_more_words(t *testing.T) {
	for question, want := range map[string]string{"verify the audit log": "haft audit",
		"redeliver a webhook": "haft webhook redeliver"} {
		var out strings.Builder
		run(t.Context(), append([]string{"help"}, strings.Fields(question)...), cli.Streams{Out: &out, Err: &out})
		if !strings.HasPrefix(out.String(), want) {
			t.Errorf("haft help %s does not begin with %s:\n%s", question, want, out.String())
		}
	}
}
