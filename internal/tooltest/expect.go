package tooltest

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"haft"
	"haft/internal/apimock"
	"haft/internal/value"
	"haft/schema"
)

// A Fault is one thing that is not as expected.
type Fault struct {
	// What is it about, such as "value" or "stdout", and Text says what is wrong, in one or more lines. Lines that
	// begin with - were expected, and those with + came instead.
	What string `json:"what"`
	Text string `json:"text"`
}

// compiled is an expectation that is ready to be used.
type compiled struct {
	schema *schema.Compiled
	checks *value.Validators
}

// variables are those of expressions: the value, the whole result, the arguments, and the results of steps by name.
var variables = []string{"value", "result", "args", "steps"}

// compile compiles the schema and the expressions.
func (e Expect) compile() (c compiled, err error) {
	if len(e.Schema) > 0 {
		tree, err := schema.Decode(e.Schema)
		if err == nil {
			c.schema, err = schema.Compile(tree)
		}
		if err != nil {
			return c, &haft.Error{Code: haft.CodeInvalid, Message: "the schema is wrong: " + err.Error(), Err: err}
		}
	}
	if len(e.Check) > 0 {
		c.checks, err = value.CompileChecks(e.Check, variables...)
	}
	return c, err
}

// An observation is what became of one call.
type observation struct {
	args   json.RawMessage
	result *haft.Result
	err    error // there is no result
	hosts  []string
	seen   []apimock.Seen
	// block and file read what is left afterwards, and say whether it is there.
	block func(label string) (string, bool)
	file  func(path string) (string, bool)
	steps json.RawMessage
	// whole is what expressions have as result, if it is not the result.
	whole any
}

// A checker collects the faults of one call.
type checker struct {
	Expect
	observation
	faults []Fault
}

// compare compares what became of a call with what is expected.
func (e Expect) compare(ctx context.Context, o observation) []Fault {
	c := &checker{Expect: e, observation: o}
	c.status()
	if o.result == nil {
		return c.faults
	}
	c.failure()
	c.value(ctx)
	c.text("stdout", e.Stdout, o.result.Stdout)
	c.text("stderr", e.Stderr, o.result.Stderr)
	c.artifacts()
	c.surroundings()
	c.requests()
	c.left()
	return c.faults
}

// fault adds a fault.
func (c *checker) fault(what, format string, args ...any) {
	c.faults = append(c.faults, Fault{what, fmt.Sprintf(format, args...)})
}

// text compares a text.
func (c *checker) text(what string, want *Text, got string) {
	if want == nil || want.fits(got) {
		return
	}
	if want.pattern != nil {
		c.fault(what, "%s does not match %s\n%s", what, want.text, indent("+ ", got))
		return
	}
	c.fault(what, "%s differs\n%s", what, diffLines(want.text, got))
}

// fails reports whether the call is expected to fail.
func (e Expect) fails() bool {
	return e.Status == "failure" || e.Status == "" && (e.Failure != nil || e.Limit != "" || e.Error != "")
}

// status compares the status.
func (c *checker) status() {
	if c.err != nil {
		code := haft.CodeOf(c.err)
		if c.Error == "" || haft.Code(c.Error) != code {
			c.fault("error", "there is no result: %s: %s", code, c.err)
		}
		return
	}
	got, want := c.result.Status, c.Status
	switch {
	case c.Error != "":
		c.fault("error", "expected the error %s, and there is a result with the status %s", c.Error, got)
	case c.fails():
		if got == haft.StatusSuccess || !got.Final() {
			c.fault("status", "expected a failure, and the status is %s\n%s", got, indent("+ ", string(c.result.Value)))
		}
	case want == "" || want == "ok" || want == string(haft.StatusSuccess):
		if got != haft.StatusSuccess {
			c.fault("status", "expected success, and the status is %s%s", got, failureText(c.result.Error))
		}
	case want != string(got):
		c.fault("status", "expected %s, and the status is %s%s", want, got, failureText(c.result.Error))
	}
}

// failureText shows a failure below a line.
func failureText(f *haft.Failure) string {
	if f == nil {
		return ""
	}
	text := string(f.Kind) + ": " + f.Message
	if trace := strings.TrimSpace(f.Traceback); trace != "" && trace != f.Message {
		text += "\n" + trace
	}
	return "\n" + indent("+ ", text)
}

// failure compares why the call has failed.
func (c *checker) failure() {
	got := c.result.Error
	if got == nil {
		got = &haft.Failure{}
	}
	if want := limitKind(c.Limit); c.Limit != "" && got.Kind != want {
		c.fault("limit", "expected the limit %s, and the failure is %q%s", c.Limit, got.Kind,
			failureText(c.result.Error))
	}
	want := c.Failure
	if want == nil {
		return
	}
	if want.Kind != "" && want.Kind != got.Kind {
		c.fault("failure", "expected the kind %s, and it is %q%s", want.Kind, got.Kind, failureText(c.result.Error))
	}
	c.text("failure message", want.Message, got.Message)
	if want.Type != "" && want.Type != got.Type {
		c.fault("failure", "expected the type %s, and it is %q", want.Type, got.Type)
	}
	if want.Retry != "" && want.Retry != got.Retry {
		c.fault("failure", "expected the advice to retry %s, and it is %q", want.Retry, got.Retry)
	}
	for _, at := range want.At {
		if !slices.ContainsFunc(got.Misfits, func(m haft.Misfit) bool { return m.Pointer == at }) {
			c.fault("failure", "expected a misfit at %s, and there are %v", at, got.Misfits)
		}
	}
}

// value compares the value.
func (c *checker) value(ctx context.Context) {
	if len(c.Value) > 0 {
		if list := differences(c.Value, c.result.Value); len(list) > 0 {
			c.fault("value", "value differs\n%s", strings.Join(list, "\n"))
		}
	}
	ready := c.ready
	if ready == nil {
		return
	}
	for _, m := range value.Misfits(c.result.Value, ready.schema) {
		c.fault("schema", "value does not fit the schema: %s %s", m.Pointer, m.Message)
	}
	if ready.checks == nil {
		return
	}
	if c.whole == nil {
		c.whole = c.result
	}
	whole, err := json.Marshal(c.whole)
	if err != nil {
		c.fault("check", "the result cannot be read: %s", err)
		return
	}
	vars := map[string]json.RawMessage{"value": c.result.Value, "result": whole, "args": orEmpty(c.args),
		"steps": orEmpty(c.steps)}
	for _, m := range ready.checks.CheckAll(ctx, vars) {
		_, expression, _ := strings.Cut(m.Message, ": ")
		c.fault("check", "this is not true: %s\n%s", expression, indent("+ ", "value "+string(c.result.Value)))
	}
}

// orEmpty returns a document, or an empty object.
func orEmpty(raw json.RawMessage) json.RawMessage {
	if len(raw) == 0 {
		return json.RawMessage("{}")
	}
	return raw
}

// artifacts compares the files that the tool left.
func (c *checker) artifacts() {
	if c.Artifacts == nil {
		return
	}
	left := slices.Clone(c.result.Artifacts)
	for _, want := range *c.Artifacts {
		i := slices.IndexFunc(left, func(a haft.Artifact) bool { return a.Name == want.Name })
		if i < 0 {
			c.fault("artifacts", "there is no artifact %s", want.Name)
			continue
		}
		if want.Type != "" && want.Type != left[i].ContentType {
			c.fault("artifacts", "expected the type %s of %s, and it is %s", want.Type, want.Name, left[i].ContentType)
		}
		c.text("artifact "+want.Name, want.Content, string(left[i].Data))
		left = slices.Delete(left, i, i+1)
	}
	for _, a := range left {
		c.fault("artifacts", "%s was not expected (%d bytes)", a.Name, a.Size)
	}
}

// surroundings compares isolation, hosts, notices and tries.
func (c *checker) surroundings() {
	// A call that was refused ran nowhere.
	if got := c.result.Sandbox.Isolation.Level; c.Isolation != "" && c.result.Tries > 0 && !got.AtLeast(c.Isolation) {
		c.fault("isolation", "expected at least %s, and it is %q", c.Isolation, got)
	}
	if c.Hosts != nil {
		want := slices.Sorted(slices.Values(*c.Hosts))
		if !slices.Equal(want, c.hosts) {
			c.fault("hosts", "hosts differ\n%s", diffLines(strings.Join(want, "\n"), strings.Join(c.hosts, "\n")))
		}
	}
	for _, want := range c.Notices {
		if !slices.ContainsFunc(c.result.Notices, want.fits) {
			c.fault("notices", "no notice is %s\n%s", want.text, indent("+ ", strings.Join(c.result.Notices, "\n")))
		}
	}
	if c.Tries != nil && *c.Tries != c.result.Tries {
		c.fault("tries", "expected %d tries, there were %d", *c.Tries, c.result.Tries)
	}
	if c.Cached != nil && *c.Cached != c.result.Cached {
		c.fault("cached", "expected cached to be %t", *c.Cached)
	}
}

// left compares what the call left in blocks and in the workspace.
func (c *checker) left() {
	for _, of := range []struct {
		what string
		want map[string]Text
		read func(string) (string, bool)
	}{{"block", c.Blocks, c.block}, {"file", c.Workspace, c.file}} {
		for name, want := range of.want {
			if got, ok := of.read(name); ok {
				c.text(of.what+" "+name, &want, got)
			} else {
				c.fault(of.what, "there is no %s %s", of.what, name)
			}
		}
	}
}
