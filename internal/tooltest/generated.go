package tooltest

import (
	"context"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"haft"
	"haft/internal/schemacase"
	"haft/internal/terminal"
)

// maxGenerated bounds the cases that are made for one tool.
const maxGenerated = 10_000

// generate makes the cases of the schemas of a file's tools.
func (p *place) generate() ([]*Case, error) {
	g := p.file.Generated
	if g.Count <= 0 {
		return nil, nil
	}
	if g.Count > maxGenerated {
		return nil, p.file.fail(g.At, "generated: count is at most %d", maxGenerated)
	}
	var list []*Case
	for _, t := range p.tools {
		if g.Tool != "" && g.Tool != t.Name {
			continue
		}
		made, err := schemacase.New(t.Version.Parameters, p.file.Seed)
		if err != nil {
			return nil, p.file.fail(g.At, "generated: %s: %s", t.Name, haft.MessageOf(err))
		}
		for i := range g.Count {
			s := made.Case(i)
			c := p.file.Defaults
			c.Name = fmt.Sprintf("generated/%s/%d %s", t.Name, i+1, s.Kind)
			c.At, c.Tool, c.Args, c.made = g.At, t.Name, s.Args, &s
			c.Expect, c.Message, c.Answers = g.Expect, "", nil
			if c.Agent != nil { // in which order tools are called is not what is looked for
				free := *c.Agent
				free.Rules, c.Agent = nil, &free
			}
			list = append(list, &c)
		}
	}
	return list, nil
}

// judge says what is wrong with the result of generated arguments: a crash, or an error that no model understands.
func (r *run) judge(ctx context.Context, o observation) []Fault {
	if r.isUnanswered() { // what the tool made of that status says nothing about its arguments
		return nil
	}
	if o.err != nil {
		return []Fault{{"generated", "there is no result: " + o.err.Error()}}
	}
	if o.result.Status == haft.StatusSuccess {
		return r.c.Expect.compare(ctx, o)
	}
	f := o.result.Error
	switch {
	case f == nil || slices.Contains(r.file.Generated.Failures, f.Kind):
		return nil
	case f.Kind == haft.FailValidation:
		if r.c.made.Kind == schemacase.Invalid || r.c.made.Kind == schemacase.Malformed {
			return nil
		}
		return []Fault{{"generated", "arguments that fit the schema are refused" + failureText(f)}}
	case f.Kind == haft.FailException && deliberate(f):
		return nil
	}
	return []Fault{{"generated", "the tool failed, and does not say what is wrong with the arguments: let it " +
		"raise an error of its own, or bound the parameter" + failureText(f)}}
}

// raised finds the line of a traceback with which a tool refuses arguments.
var raised = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^\s*(\d+ \|)?\s*(raise|throw|assert)\b`) })

// deliberate reports whether the tool raised an exception itself, and said why.
func deliberate(f *haft.Failure) bool {
	if strings.TrimSpace(f.Message) == "" {
		return false
	}
	last := ""
	for line := range strings.Lines(f.Traceback) {
		if strings.HasPrefix(line, "    ") && strings.Trim(line, " ^~\n") != "" {
			last = line
		}
	}
	return raised().MatchString(last)
}

const (
	// shrinkFor is how long smaller arguments are looked for.
	shrinkFor = 15 * time.Second
	// maxArguments bounds what is shown of arguments, in characters.
	maxArguments = 400
)

// shrink finds the smallest arguments with which a generated case still fails, and says so in its first fault. A case
// with a request that no rule is for keeps its arguments: smaller ones would make another request.
func (r *run) shrink(ctx context.Context) {
	if r.c.made == nil || len(r.faults) == 0 || ctx.Err() != nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, shrinkFor)
	defer cancel()
	small := []byte(r.c.Args)
	if !r.isUnanswered() {
		small = schemacase.Shrink(r.c.Args, func(args []byte) bool {
			if ctx.Err() != nil {
				return false
			}
			c := *r.c
			c.Args = args
			again := r.place.runOnce(ctx, &c)
			return len(again.faults) > 0 && !again.isUnanswered() && again.last != nil && r.last != nil &&
				again.last.Status == r.last.Status && kindOf(again.last) == kindOf(r.last)
		})
	}
	text := "with the arguments " + terminal.OneLine(string(small), maxArguments)
	if r.c.made.Why != "" {
		text += " (" + r.c.made.Why + ")"
	}
	r.faults[0].Text += "\n" + indent("", text)
	if !json.Valid(small) {
		r.faults[0].Text += ", which are no JSON"
	}
}

// kindOf is the kind of the failure of a result.
func kindOf(res *haft.Result) haft.FailureKind {
	if res.Error == nil {
		return ""
	}
	return res.Error.Kind
}
