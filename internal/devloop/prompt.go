package devloop

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"haft"
	"haft/internal/backend"
	"haft/internal/terminal"
	"haft/internal/toolfile"
	"haft/schema"
)

const help = `TOOL NAME=VALUE …   call a tool; VALUE is JSON, or text where the tool takes text
TOOL {JSON}         call it with a JSON document
Enter               make the last call again
tools               list the tools
show TOOL           print its schema
calls               list the last calls, also those of other clients
approve [ID]        agree to the call that waits; deny [ID] refuses it
accept TOOL         accept the version that waits for a review; refuse TOOL refuses it
remove TOOL         remove a tool
quit                leave, as Ctrl-D does`

// do does what a line says.
func (l *loop) do(ctx context.Context, line string) error {
	line = strings.TrimSpace(line)
	word, rest, _ := strings.Cut(cmp.Or(line, l.last), " ")
	rest = strings.TrimSpace(rest)
	switch word {
	case "":
		return nil
	case "help":
		l.printf("%s\n", help)
		return nil
	case "quit", "exit":
		return errLeave
	case "tools":
		return l.showTools(ctx)
	case "show":
		return l.showSchema(ctx, rest)
	case "calls":
		return l.showCalls(ctx)
	case "approve", "deny":
		return l.decide(ctx, haft.ApprovalID(cmp.Or(rest, string(l.pending))), word == "approve")
	case "accept", "refuse":
		return l.review(ctx, rest, word == "accept")
	case "remove":
		if err := l.System.RemoveTool(ctx, l.Principal, rest, ""); err != nil {
			return err
		}
		l.printf("removed %s\n", terminal.Escape(rest))
		return nil
	}
	return l.call(ctx, word, rest)
}

// call calls a tool and shows the result.
func (l *loop) call(ctx context.Context, tool, rest string) error {
	args, err := l.arguments(ctx, tool, rest)
	if err != nil {
		return err
	}
	l.last = strings.TrimSpace(tool + " " + rest)
	return l.interruptible(ctx, func(ctx context.Context) error {
		res, _, err := l.System.Stream(ctx, haft.Call{Tool: tool, Args: args, Principal: l.Principal}, l.showProgress)
		if err != nil {
			return err
		}
		l.showResult(res)
		return nil
	})
}

// arguments reads the arguments of a call: NAME=VALUE, or a JSON document.
func (l *loop) arguments(ctx context.Context, tool, rest string) ([]byte, error) {
	if strings.HasPrefix(rest, "{") {
		return []byte(rest), nil
	}
	words, err := splitWords(rest)
	if err != nil {
		return nil, err
	}
	for _, word := range words {
		if strings.Index(word, "=") < 1 {
			return nil, &haft.Error{Code: haft.CodeInvalid,
				Message: "an argument is NAME=VALUE; help lists what you can type"}
		}
	}
	pairs := toolfile.Arguments(words)
	if err := pairs.Resolve(); err != nil {
		return nil, err
	}
	args, err := pairs.AddTo([]byte("{}"))
	if err != nil {
		return nil, err
	}
	t, err := l.System.Tool(ctx, l.Principal, tool)
	if haft.CodeOf(err) == haft.CodeNotFound {
		return nil, &haft.Error{Code: haft.CodeNotFound,
			Message: "there is no command or tool of that name: help lists commands, tools lists tools"}
	}
	if err != nil {
		return nil, err
	}
	params, err := schema.Decode(t.Version.Parameters)
	if err != nil {
		return nil, fmt.Errorf("read the schema of the tool: %w", err)
	}
	object, _ := params.(*schema.Object)
	return pairs.AsDeclared(args, object)
}

// splitWords splits a line at blanks that are neither in quotes nor in brackets. Quotes around a value
// are left out, those of JSON stay.
func splitWords(line string) ([]string, error) {
	var (
		words []string
		b     strings.Builder
		quote rune
		depth int
	)
	for _, r := range line {
		switch {
		case quote != 0:
			if r == quote {
				quote = 0
				if depth == 0 {
					continue
				}
			}
		case (r == '"' || r == '\'') && depth == 0:
			quote = r
			continue
		case r == '"':
			quote = r
		case r == '{' || r == '[':
			depth++
		case (r == '}' || r == ']') && depth > 0:
			depth--
		case r == ' ' && depth == 0:
			if b.Len() > 0 {
				words = append(words, b.String())
			}
			b.Reset()
			continue
		}
		b.WriteRune(r)
	}
	if quote != 0 || depth != 0 {
		return nil, &haft.Error{Code: haft.CodeInvalid, Message: "a quote or bracket is not closed"}
	}
	if b.Len() > 0 {
		words = append(words, b.String())
	}
	return words, nil
}

// showResult shows how a call has ended.
func (l *loop) showResult(res *haft.Result) {
	if len(l.own) < maxOwn {
		l.own[res.Call] = true
	}
	if res.Status == haft.StatusPending {
		l.pending = res.Approval
		l.printf("%s approve %s, or deny\n", l.paint(yellow, "waits for a person:"), res.Approval)
		return
	}
	var b bytes.Buffer
	terminal.PrintResult(&b, &b, res)
	l.printf("%s", terminal.Escape(b.String()))
}

// showProgress shows what a tool prints while it runs.
func (l *loop) showProgress(e haft.Event) {
	var d struct{ Text string }
	if e.Type == haft.EventOutput && json.Unmarshal(e.Data, &d) == nil && d.Text != "" {
		l.printf("%s\n", l.paint(dim, terminal.Escape(strings.TrimRight(d.Text, "\n"))))
	}
}

// showEvent shows what happened to a call of another client.
func (l *loop) showEvent(e haft.Event) {
	if l.own[e.Call] {
		return
	}
	var d struct{ Status haft.Status }
	_ = json.Unmarshal(e.Data, &d) // an event of another form has no status
	what := string(d.Status)
	if e.Type == haft.EventApproval {
		what = "waits for a person"
	}
	l.printf("%s %s %s, by %s\n", l.paint(dim, "call"), terminal.Escape(e.Tool), what,
		terminal.Escape(cmp.Or(e.Principal.Agent, e.Principal.User)))
}

// decide answers a request of a call, and shows the result of one that goes on.
func (l *loop) decide(ctx context.Context, id haft.ApprovalID, approve bool) error {
	if id == "" {
		return &haft.Error{Code: haft.CodeNotFound, Message: "no call of this prompt waits: name the request"}
	}
	a, err := l.System.Decide(ctx, l.Principal, id, haft.Answer{Approve: approve})
	if err != nil {
		return soloHint(err)
	}
	if l.pending = ""; !approve {
		l.printf("refused\n")
		return nil
	}
	return l.interruptible(ctx, func(ctx context.Context) error {
		res, err := backend.WaitFor(ctx, l.System, l.Principal, a.Call, a.ID, 0)
		if err != nil {
			return err
		}
		l.showResult(res)
		return nil
	})
}

// review answers the review of a version.
func (l *loop) review(ctx context.Context, tool string, approve bool) error {
	t, err := l.System.SetTool(ctx, l.Principal, tool, haft.ToolState{Review: &haft.Answer{Approve: approve}})
	if err != nil {
		return soloHint(err)
	}
	l.printf("%s: calls run version %d\n", t.Name, t.Version.Number)
	return nil
}

// soloHint says to a person who is alone what to do about a refusal.
func soloHint(err error) error {
	if haft.CodeOf(err) != haft.CodeDenied {
		return err
	}
	return &haft.Error{Code: haft.CodeDenied, Message: haft.MessageOf(err) +
		"\n  if you work alone on this machine, say so with: haft init --solo", Err: err}
}

// showTools lists the tools that are not built in.
func (l *loop) showTools(ctx context.Context) error {
	for t, err := range l.System.Tools(ctx, l.Principal, haft.ToolFilter{}) {
		if err != nil {
			return err
		}
		if t.Version.Kind != haft.KindBuiltin {
			l.printf("%s  %s\n", l.paint(bold, signature(t)), terminal.OneLine(t.Version.Description, 100))
		}
	}
	return nil
}

// showSchema prints what a model sees of a tool.
func (l *loop) showSchema(ctx context.Context, name string) error {
	t, err := l.System.Tool(ctx, l.Principal, name)
	if err != nil {
		return err
	}
	var b bytes.Buffer
	if err := json.Indent(&b, t.Version.Parameters, "", "  "); err != nil {
		return fmt.Errorf("show the schema: %w", err)
	}
	l.printf("%s version %d: %s\n%s\n", t.Name, t.Version.Number, terminal.OneLine(t.Version.Description, 200),
		terminal.Escape(b.String()))
	return nil
}

// lastCalls is how many calls are listed.
const lastCalls = 10

// showCalls lists the last calls.
func (l *loop) showCalls(ctx context.Context) error {
	for r, err := range l.System.Records(ctx, l.Principal, haft.CallFilter{Org: l.Principal.Org, Limit: lastCalls}) {
		if err != nil {
			return err
		}
		shade := red
		if r.Status == haft.StatusSuccess {
			shade = green
		}
		l.printf("%s %s %s, %s, by %s, %s\n", r.Call.ID, l.paint(shade, string(r.Status)), terminal.Escape(r.Call.Tool),
			terminal.OneLine(string(r.Call.Args), 60),
			terminal.Escape(cmp.Or(r.Call.Principal.Agent, r.Call.Principal.User)), terminal.Ago(r.Created, time.Now()))
	}
	return nil
}

// printError shows an error.
func (l *loop) printError(err error) {
	message := haft.MessageOf(err)
	if errors.Is(err, context.Canceled) {
		message = "stopped"
	}
	l.printf("%s %s\n", l.paint(red, "error:"), terminal.Escape(message))
	e, ok := errors.AsType[*haft.Error](err)
	if !ok {
		return
	}
	for _, m := range e.Misfits {
		l.printf("  %s\n", terminal.Escape(m.Pointer+": "+m.Message))
	}
}

// short cuts a command for the prompt.
func short(line string) string { return terminal.OneLine(line, 40) }
