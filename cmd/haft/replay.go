package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"haft"
)

// A difference is one thing in which two results are not the same.
type difference struct {
	What string `json:"what"`
	Old  string `json:"old"`
	New  string `json:"new"`
}

// A comparison is an old result beside a new one.
type comparison struct {
	Equal       bool         `json:"equal"`
	Differences []difference `json:"differences"`
	Old         *haft.Result `json:"old"`
	New         *haft.Result `json:"new"`
}

// callsReplay makes a call again.
func callsReplay(p *persona, std streams) *cobra.Command {
	cmd := p.command(std, "replay ID", "Call the same version with the same arguments again, and show what differs",
		cobra.ExactArgs(1),
		func(ctx context.Context, s *session, args []string) error {
			old, err := s.Record(ctx, s.p, haft.CallID(args[0]))
			if err != nil {
				return noCall(err)
			}
			if old.Result == nil || !old.Status.Final() {
				return advise(&haft.Error{Code: haft.CodeConflict,
					Message: "the call has not ended: there is nothing to compare with"},
					"see where it stands with: haft calls show "+args[0])
			}
			res, err := s.Replay(ctx, s.p, old.Call.ID)
			if err != nil {
				return noCall(err)
			}
			return printComparison(s, old.Result, res)
		})
	cmd.Long = `Call the same version of the tool with the same arguments and environment again, as a
new call, and compare status, value, error and output with those of the old one. The
exit code is 0 if they are equal and 1 if they differ.`
	return cmd
}

// compare finds out in what two results differ.
func compare(old, res *haft.Result) []difference {
	list := []difference{}
	add := func(what, a, b string) {
		if a != b {
			list = append(list, difference{what, a, b})
		}
	}
	add("status", string(old.Status), string(res.Status))
	add("value", compactJSON(old.Value), compactJSON(res.Value))
	add("error", failureText(old.Error), failureText(res.Error))
	add("stdout", old.Stdout, res.Stdout)
	add("stderr", old.Stderr, res.Stderr)
	return list
}

// compactJSON is a JSON text without blanks.
func compactJSON(raw json.RawMessage) string {
	var b bytes.Buffer
	if err := json.Compact(&b, raw); err != nil {
		return string(raw)
	}
	return b.String()
}

// failureText is what went wrong, without what differs from run to run.
func failureText(f *haft.Failure) string {
	if f == nil {
		return ""
	}
	return string(f.Kind) + ": " + f.Message
}

// printComparison prints what differs, and fails if something does.
func printComparison(s *session, old, res *haft.Result) error {
	c := comparison{Differences: compare(old, res), Old: old, New: res}
	c.Equal = len(c.Differences) == 0
	if s.as.json {
		if err := printJSON(s.std.out, c); err != nil {
			return err
		}
	} else {
		w := s.std.out
		if c.Equal {
			fmt.Fprintf(w, "%s: %s and %s gave the same\n", paint(w, green, "equal"), old.Call, res.Call)
		} else {
			fmt.Fprintf(w, "%s: %s gave another result than %s\n", paint(w, red, "different"), res.Call, old.Call)
		}
		for _, d := range c.Differences {
			fmt.Fprintln(w, paint(w, bold, d.What))
			printSide(s, red, "- ", d.Old)
			printSide(s, green, "+ ", d.New)
		}
	}
	switch {
	case res.Status == haft.StatusPending:
		fmt.Fprintf(s.std.err, "the new call waits for a person\n  next: haft approvals approve %s\n", res.Approval)
		return &exit{code: exitDenied}
	case !c.Equal:
		return &exit{code: exitTool}
	}
	return nil
}

// printSide writes one side of a difference, line by line.
func printSide(s *session, shade colour, mark, text string) {
	if text == "" {
		return
	}
	for line := range strings.Lines(text) {
		fmt.Fprintln(s.std.out, paint(s.std.out, shade, mark+safe(s.std.out, strings.TrimRight(line, "\n"))))
	}
}
