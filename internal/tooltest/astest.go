package tooltest

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"

	"haft"
	"haft/internal/cli"
	"haft/internal/yamltree"
)

// ends are how the files of tools end.
var ends = map[haft.Kind]string{haft.KindPython: ".py", haft.KindTypeScript: ".ts", haft.KindJavaScript: ".js",
	haft.KindBash: ".sh"}

// ShowCommand is haft calls show: it shows a call, or prints a test of it.
func ShowCommand(show cli.Work) cli.Command {
	var test bool
	return cli.Command{
		Use: "show ID", Short: "Show a call: who, what, which version, and what became of it",
		Flags: []cli.Flag{
			{&test, "as-test", "print a test file that makes the same call and expects what became of it"}},
		Run: func(ctx context.Context, s *cli.Session, args []string) error {
			if !test {
				return show(ctx, s, args)
			}
			r, err := s.Record(ctx, s.Who, haft.CallID(args[0]))
			if err != nil {
				return err
			}
			t, err := s.Tool(ctx, s.Who, cmp.Or(string(r.ToolID), r.Call.Tool))
			if err != nil {
				return err
			}
			text, err := FromRecord(r, t)
			if err != nil {
				return err
			}
			if _, err := s.Out.Write(text); err != nil {
				return fmt.Errorf("print the test: %w", err)
			}
			return nil
		},
	}
}

// FromRecord makes a test file of a call: its arguments are those of the case, and what became of it is expected.
func FromRecord(r *haft.Record, t *haft.Tool) ([]byte, error) {
	if r.Redacted {
		return nil, &haft.Error{Code: haft.CodeInvalid,
			Message: "the arguments of the call are not kept as they were, so that no test can be made of it"}
	}
	if r.Result == nil {
		return nil, &haft.Error{Code: haft.CodeInvalid, Message: "the call has not ended: wait for its result"}
	}
	expect := map[string]any{"status": r.Result.Status}
	if r.Result.Status == haft.StatusSuccess {
		expect["status"], expect["value"] = "ok", r.Result.Value
	}
	if f := r.Result.Error; f != nil {
		expect["failure"] = map[string]any{"kind": f.Kind, "message": f.Message}
	}
	if r.Result.Stdout != "" {
		expect["stdout"] = r.Result.Stdout
	}
	if r.Result.Truncated.Value > 0 {
		delete(expect, "value")
	}
	args := r.Call.Args
	if len(args) == 0 {
		args = json.RawMessage("{}")
	}
	one := map[string]any{"name": "call " + string(r.Call.ID), "args": args, "expect": expect}
	if len(r.Call.Env) > 0 {
		one["env"] = r.Call.Env
	}
	if r.Call.Limits != (haft.Limits{}) {
		one["limits"] = r.Call.Limits
	}
	file := map[string]any{"cases": []any{one}}
	note := ""
	switch end := ends[t.Version.Kind]; {
	case end == "":
		one["tool"] = t.Name
		note = "# The tool is not a file: it runs as it is built in, or on its MCP server.\n"
	default:
		name := t.Name + end
		if t.Version.Function != "" && t.Version.Function != t.Name {
			name += ":" + t.Version.Function
		}
		file["tool"] = name
		note = fmt.Sprintf("# Put this beside the file of the tool, as %s_test.yaml.\n", t.Name)
	}
	if s := t.Version.Settings; len(s.Network)+len(s.Secrets) > 0 {
		file["settings"] = map[string]any{"network": s.Network, "secrets": s.Secrets}
	}
	text, err := yamltree.Write(file)
	if err != nil {
		return nil, fmt.Errorf("write the test: %w", err)
	}
	return append([]byte(note), text...), nil
}
