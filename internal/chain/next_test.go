package chain_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"haft"
	"haft/internal/chain"
)

// program compiles a plan.
func program(t testing.TB, p haft.Plan) *chain.Program {
	t.Helper()
	prog, err := chain.Compile(p)
	if err != nil {
		t.Fatal(err)
	}
	return prog
}

// next asks what is to be done.
func next(t testing.TB, p *chain.Program, c haft.Chain) chain.Todo {
	t.Helper()
	todo, err := p.Next(c)
	if err != nil {
		t.Fatal(err)
	}
	return todo
}

// states reads the states of steps: "a:success=1 b:error c:running d:pending
// e:skipped" and so on. A value is JSON without spaces.
func states(text string) []haft.StepResult {
	var all []haft.StepResult
	for _, word := range strings.Fields(text) {
		word, value, _ := strings.Cut(word, "=")
		id, status, _ := strings.Cut(word, ":")
		s := haft.StepResult{ID: id, State: haft.StepDone}
		switch status {
		case "waiting", "running", "skipped":
			s.State = haft.StepState(status)
		case "pending":
			s.State, s.Result = haft.StepRunning, &haft.Result{Status: haft.StatusPending}
		default:
			if value == "" {
				value = "null"
			}
			s.Result = &haft.Result{Status: haft.Status(status), Value: json.RawMessage(value),
				Stdout: "out <" + id + ">", Stderr: "err"}
			if status != "success" {
				s.Result.Error = &haft.Failure{Kind: haft.FailException, Message: "boom", Retry: haft.RetryNever}
			}
		}
		all = append(all, s)
	}
	return all
}

// says writes what is to be done in short: the ready steps with their arguments,
// the others with their state, and the status.
func says(todo chain.Todo) string {
	var b strings.Builder
	for _, r := range todo.Ready {
		fmt.Fprintf(&b, "%s%s ", r.Step.ID, r.Args)
	}
	for _, s := range todo.Skipped {
		if s.State == haft.StepSkipped {
			fmt.Fprintf(&b, "%s(%s) ", s.ID, s.Reason)
		} else {
			fmt.Fprintf(&b, "%s!(%s) ", s.ID, s.Result.Error.Message)
		}
	}
	fmt.Fprintf(&b, "%s", todo.Status)
	if todo.Done {
		b.WriteString(" done")
	}
	if todo.Failure != nil {
		fmt.Fprintf(&b, ": %s: %s", todo.Failure.Kind, todo.Failure.Message)
	}
	return b.String()
}

func TestNext_arguments(t *testing.T) {
	const input = `{"n":1.50,"deep":{"a/b":[10,{"~":true}],"":"empty"},"null":null}`
	const value = `a:success={"items":[{"id":9007199254740993,"t":"<&>"},[]],"0":"zero","text":"{\"$from\":\"input\"}"}`
	for _, c := range []struct{ args, want string }{
		{`{"x":{"$from":"input"}}`, `{"x":` + input + `}`},
		{`{"x":{"$from":"input/n"}}`, `{"x":1.50}`},
		{`{"x":{"$from":"input/deep/a~1b/1/~0"}}`, `{"x":true}`},
		{`{"x":{"$from":"input/deep/"}}`, `{"x":"empty"}`},
		{`{"x":{"$from":"input/null","default":1}}`, `{"x":null}`},
		{`{"x":{"$from":"input/null/x","default":1}}`, `{"x":1}`},
		{`{"x":{"$from":"a.value/items/0"}}`, `{"x":{"id":9007199254740993,"t":"<&>"}}`},
		{`{"x":{"$from":"a.value/0"}}`, `{"x":"zero"}`},
		{`{"x":{"$from":"a.value/items/00","default":"d"}}`, `{"x":"d"}`},
		{`{"x":{"$from":"a.value/items/-","default":"d"}}`, `{"x":"d"}`},
		{`{"x":{"$from":"a.value/items/2","default":{"$x": [1, 2]}}}`, `{"x":{"$x":[1,2]}}`},
		{`{"x":{"$from":"a.value/items/length","default":"d"}}`, `{"x":"d"}`},
		{`{"x":{"$from":"a.value/text/0","default":"d"}}`, `{"x":"d"}`},
		{`{"x":{"$from":"a.value/text"}}`, `{"x":"{\"$from\":\"input\"}"}`}, // data is not read again
		{`{"x":{"$from":"a.stdout"},"y":{"$from":"a.stderr"},"z":{"$from":"a.status"}}`,
			`{"x":"out <a>","y":"err","z":"success"}`},
		{`{"x":{"$from":"a.error"}}`, `{"x":null}`},
		{`{"x":{"$from":"a.error","default":"fine"}}`, `{"x":"fine"}`},
		{`{"x":{"$from":"b.error/message"},"y":{"$from":"b.status"}}`, `{"x":"boom","y":"timeout"}`},
		{`{"x":{"$from":"b.value"}}`, `{"x":null}`},
		{`{"x":{"$from":"b.value","default":"none"}}`, `{"x":"none"}`},
		{`{"x":{"$from":"b.value/y","default":"none"}}`, `{"x":"none"}`},
		{`{"$from":"a.value/items/0"}`, `{"id":9007199254740993,"t":"<&>"}`},
		{` {"a" : [1.0e5 , {"x":{"$from":"input/n"}, "y":{"$literal": {"$from":"input/n"}}}], "b":"${a.value} {{input}}"} `,
			`{"a":[1.0e5,{"x":1.50,"y":{"$from":"input/n"}}],"b":"${a.value} {{input}}"}`},
		{`{"$literal":{"x":{"$from":"input/n"}}}`, `{"x":{"$from":"input/n"}}`},
		{`{"x":"a\"]}","y":{"$from":"input/n"}}`, `{"x":"a\"]}","y":1.50}`},
		{``, `{}`},
	} {
		p := haft.Plan{Input: json.RawMessage(input), Steps: []haft.Step{
			{ID: "a", Tool: "t"}, {ID: "b", Tool: "t", OnError: haft.OnErrorContinue},
			{ID: "c", Tool: "t", Args: json.RawMessage(c.args)},
		}}
		todo := next(t, program(t, p), haft.Chain{Steps: states(value + " b:timeout=1")})
		if len(todo.Ready) != 1 || string(todo.Ready[0].Args) != c.want {
			t.Errorf("%s: %s, want %s", c.args, says(todo), c.want)
		}
	}
}

func TestNext_arguments_that_cannot_be_made(t *testing.T) {
	for _, c := range []struct{ args, state, want string }{
		{`{"x":{"$from":"a.value/x"}}`, `a:success={"y":1}`,
			`there is nothing at "a.value/x", to which its arguments refer`},
		{`{"x":{"$from":"a.value/x"}}`, `a:success=[]`,
			`there is nothing at "a.value/x", to which its arguments refer`},
		{`{"x":{"$from":"a.error/message"}}`, `a:success=1`,
			`there is nothing at "a.error/message", to which its arguments refer`},
		{`{"x":{"$from":"input/x"}}`, `a:success=1`, `there is nothing at "input/x", to which its arguments refer`},
		{`{"$from":"a.value"}`, `a:success=[]`, `the arguments are not an object`},
		{`{"$from":"a.value"}`, `a:success`, `the arguments are not an object`},
		{`{"x":{"$from":"a.value/x"}}`, `a:success={"x":1,"x":2}`, `what it takes from a.value: at byte 7: a key stands twice in one object`},
		{`{"x":{"$from":"a.value/x"}}`, `a:success={"x":1`, `what it takes from a.value: at byte 6: expected a comma or }, but the text ends`},
		{`{"x":{"$from":"a.value"},"y":{"$from":"a.value"}}`,
			`a:success="` + strings.Repeat("x", chain.MaxArgs/2) + `"`, `the arguments have more than 8388608 bytes`},
		{`{"x":{"$from":"a.value"},"y":"` + strings.Repeat("y", 100) + `"}`,
			`a:success="` + strings.Repeat("x", chain.MaxArgs-50) + `"`, `the arguments have more than 8388608 bytes`},
	} {
		p := haft.Plan{Steps: []haft.Step{
			{ID: "a", Tool: "t"}, {ID: "b", Tool: "u", Args: json.RawMessage(c.args)},
			{ID: "c", Tool: "t", After: []string{"b"}},
		}}
		todo := next(t, program(t, p), haft.Chain{Steps: states(c.state)})
		want := "b!(the step was not called: " + c.want +
			") c(the chain stopped, because step b failed) error done: validation: step b: the step was not called: " +
			c.want
		if got := says(todo); got != want {
			t.Errorf("%s with %.100s:\n got %s\nwant %s", c.args, c.state, got, want)
			continue
		}
		if r := todo.Skipped[0].Result; r.Status != haft.StatusValidation || r.Tool != "u" ||
			string(r.Value) != "null" || r.Tries != 0 {
			t.Errorf("%s: result = %+v", c.args, r)
		}
	}
}

func TestNext_conditions(t *testing.T) {
	const fit = "the step was not called: its condition does not fit what it looks at; what may be missing is asked " +
		"for first: has(steps.id.value.name)"
	for _, c := range []struct{ cond, state, want string }{
		{`steps.a.value.n > 1`, `a:success={"n":2}`, "run"},
		{`steps.a.value.n > 1`, `a:success={"n":2.5}`, "run"},
		{`steps.a.value.n > 1`, `a:success={"n":1}`, "skip"},
		{`steps.a.value.n > 1`, `a:success={}`, fit},
		{`steps.a.value.n > 1`, `a:error`, fit},
		{`has(steps.a.value.n) && steps.a.value.n > 1`, `a:success={}`, "skip"},
		{`steps.a.status == "error"`, `a:error={"n":1}`, "run"},
		{`steps.a.value == null && steps.a.error.message == "boom" && steps.a.error.kind == "exception"`,
			`a:error={"n":1}`, "run"},
		{`steps.a.error == null`, `a:success=1`, "run"},
		{`steps.a.state == "skipped" && steps.a.status == "" && steps.a.value == null`, `a:skipped`, "run"},
		{`steps.a.state == "done"`, `a:success`, "run"},
		{`steps.a.value`, `a:success=true`, "run"},
		{`steps.a.value`, `a:success=1`,
			"the step was not called: its condition gives something else than true or false"},
		{`input.ok && "x" in input.list`, `a:success`, "run"},
		{`steps.a.value.all(x, steps.a.value.all(y, steps.a.value.all(z, x + y + z < 1000)))`,
			`a:success=[` + strings.Repeat("1,", 500) + `1]`,
			"the step was not called: its condition takes too long"},
		{`size(steps.a.value) > 0`, `a:success="` + strings.Repeat("x", 8<<20) + `"`,
			"the step was not called: its condition looks at more than 8388608 bytes"},
		{`steps.a.value == 18446744073709551616.0`, `a:success=18446744073709551616`, "run"},
	} {
		p := program(t, haft.Plan{Input: json.RawMessage(`{"ok":true,"list":["x"]}`), Steps: []haft.Step{
			{ID: "a", Tool: "t", OnError: haft.OnErrorContinue}, {ID: "b", Tool: "t", If: c.cond},
		}})
		want := `b(its condition is false) success done`
		switch c.want {
		case "run":
			want = `b{} running`
		case "skip":
		default:
			want = "b!(" + c.want + ") error done: validation: step b: " + c.want
		}
		if !strings.Contains(c.cond, "steps.a") {
			want = `a{} ` + want
			if got := says(next(t, p, haft.Chain{})); got != want {
				t.Errorf("%s: %s, want %s", c.cond, got, want)
			}
			continue
		}
		if got := says(next(t, p, haft.Chain{})); got != "a{} running" {
			t.Errorf("%s begins with %s", c.cond, got)
		}
		if got := says(next(t, p, haft.Chain{Steps: states(c.state)})); got != want {
			t.Errorf("%s with %.100s:\n got %s\nwant %s", c.cond, c.state, got, want)
		}
	}
}

// step makes a step that takes refs, such as "a.value".
func step(id, onError, refs, after string) haft.Step {
	s := haft.Step{ID: id, Tool: "t", OnError: haft.OnError(onError), After: strings.Fields(after)}
	if refs != "" {
		s.Args = json.RawMessage(`{"x":{"$from":"` + refs + `"}}`)
	}
	return s
}

// diamond is a plan whose last step waits for two that wait for the first.
func diamond() []haft.Step {
	return []haft.Step{step("d", "", "c.value", "b"), step("b", "", "a.value", ""), step("c", "", "a.value", ""),
		step("a", "", "", "")}
}

// handle is a plan in which others name a step in every way.
func handle(onError string) []haft.Step {
	return []haft.Step{
		step("a", onError, "", ""), step("b", "", "a.value", ""), step("c", "", "", "a"),
		{ID: "d", Tool: "t", If: `steps.a.status == "success"`}, step("e", "", "", "b"), step("f", "", "", ""),
	}
}

// moment is one row of the tables: a state, and what is to be done in it.
type moment struct {
	name  string
	steps []haft.Step
	chain haft.Chain
	want  string
}

// check asks for the rows of a table.
func check(t *testing.T, rows []moment) {
	t.Helper()
	for _, c := range rows {
		t.Run(c.name, func(t *testing.T) {
			p := program(t, haft.Plan{Steps: c.steps})
			if diff := cmp.Diff(c.want, says(next(t, p, c.chain))); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestNext_order(t *testing.T) {
	check(t, []moment{
		{"what waits for nothing begins", diamond(), haft.Chain{}, `a{} running`},
		{"a step that runs is not begun again", diamond(), haft.Chain{Steps: states("a:running")}, `running`},
		{"steps that are free begin together", diamond(), haft.Chain{Steps: states("a:success=1")},
			`b{"x":1} c{"x":1} running`},
		{"one that waits for both does not begin after one", diamond(),
			haft.Chain{Steps: states("a:success=1 b:running c:success=2")}, `running`},
		{"it begins after both", diamond(), haft.Chain{Steps: states("a:success=1 b:success=2 c:success=3")},
			`d{"x":3} running`},
		{"it ends", diamond(), haft.Chain{Steps: states("a:success=1 b:success=2 c:success=3 d:success=4")},
			`success done`},
		{"a step that waits for a person makes the chain wait", diamond(), haft.Chain{Steps: states("a:pending")},
			`pending_approval`},
		{"others go on meanwhile", diamond(), haft.Chain{Steps: states("a:success=1 b:pending")}, `c{"x":1} running`},
		{"others run meanwhile", diamond(), haft.Chain{Steps: states("a:success=1 b:pending c:running")}, `running`},
		{"then the chain waits", diamond(), haft.Chain{Steps: states("a:success=1 b:pending c:success=1")},
			`pending_approval`},
		{"a person says no", diamond(), haft.Chain{Steps: states("a:denied_by_approver")},
			`d(the chain stopped, because step a failed) b(the chain stopped, because step a failed) c(the chain stopped, because step a failed) error done: exception: step a: boom`},
	})
}

func TestNext_failures(t *testing.T) {
	check(t, []moment{
		{"stop", handle("stop"), haft.Chain{Steps: states("a:error f:success")},
			`b(the chain stopped, because step a failed) c(the chain stopped, because step a failed) d(the chain stopped, because step a failed) e(the chain stopped, because step a failed) error done: exception: step a: boom`},
		{"stop is what nothing means", handle(""),
			haft.Chain{Steps: states("a:error b:skipped c:skipped d:skipped e:skipped f:success")},
			`error done: exception: step a: boom`},
		{"stop awaits what runs", handle("stop"),
			haft.Chain{Steps: states("a:error b:skipped c:skipped d:skipped e:skipped f:running")}, `running`},
		{"stop awaits what waits for a person", handle("stop"),
			haft.Chain{Steps: states("a:error b:skipped c:skipped d:skipped e:skipped f:pending")}, `pending_approval`},
		{"stop begins nothing that is free", handle("stop"),
			haft.Chain{Steps: states("a:error b:skipped c:skipped d:skipped e:skipped")},
			`f(the chain stopped, because step a failed) error done: exception: step a: boom`},
		{"stop after a timeout", handle("stop"), haft.Chain{Steps: states("a:timeout b:skipped c:skipped d:skipped " +
			"e:skipped f:success")}, `error done: exception: step a: boom`},
		{"stop after a cancelled call", handle("stop"),
			haft.Chain{Steps: states("a:cancelled b:skipped c:skipped d:skipped e:skipped f:success")},
			`cancelled done: exception: step a: boom`},
		{"a failure is worse than a cancelled call", handle("stop"),
			haft.Chain{Steps: states("a:cancelled b:skipped c:skipped d:skipped e:skipped f:error")},
			`error done: exception: step f: boom`},
		{"continue", handle("continue"), haft.Chain{Steps: states("a:error=7 f:success")},
			`b{"x":null} c{} d(its condition is false) running`},
		{"continue ends well", handle("continue"),
			haft.Chain{Steps: states("a:error b:success c:success d:skipped e:success f:success")}, `success done`},
		{"skip", handle("skip"), haft.Chain{Steps: states("a:error")},
			`f{} b(step a failed) c(step a failed) d(step a failed) e(step b was skipped) running`},
		{"skip, after a crash half-way", handle("skip"), haft.Chain{Steps: states("a:error b:skipped")},
			`f{} c(step a failed) d(step a failed) e(step b was skipped) running`},
		{"skip ends well", handle("skip"),
			haft.Chain{Steps: states("a:error b:skipped c:skipped d:skipped e:skipped f:success")}, `success done`},
		{"skip of what succeeded", handle("skip"), haft.Chain{Steps: states("a:success=1 f:running")},
			`b{"x":1} c{} d{} running`},
	})
}

func TestNext_unknown(t *testing.T) {
	check(t, []moment{
		{"unknown stops", handle("stop"), haft.Chain{Steps: states("a:unknown b:skipped c:skipped d:skipped " +
			"e:skipped f:error")}, `unknown done: exception: step a: boom`},
		{"unknown stops where failures skip", handle("skip"),
			haft.Chain{Steps: states("a:unknown b:skipped c:skipped d:skipped e:skipped f:success")},
			`unknown done: exception: step a: boom`},
		{"unknown is worse than a failure before it", handle("stop"),
			haft.Chain{Steps: states("a:error b:skipped c:skipped d:skipped e:skipped f:unknown")},
			`unknown done: exception: step f: boom`},
		{"unknown goes on if that is asked for", handle("continue"), haft.Chain{Steps: states("a:unknown=1 f:success")},
			`b{"x":null} c{} d(its condition is false) running`},
		{"a step that is done without a result is unknown", diamond()[3:],
			haft.Chain{Steps: []haft.StepResult{{ID: "a", State: haft.StepDone}}},
			`unknown done: unknown: step a: nobody can know whether it ran`},
		{"a step that is done and waits for a person is unknown", diamond()[3:],
			haft.Chain{Steps: []haft.StepResult{{ID: "a", State: haft.StepDone,
				Result: &haft.Result{Status: haft.StatusPending}}}},
			`unknown done: unknown: step a: nobody can know whether it ran`},
	})
}

func TestNext_skipped(t *testing.T) {
	branch := []haft.Step{
		{ID: "a", Tool: "t", If: "false"}, step("b", "", "a.value", ""),
		{ID: "c", Tool: "t", Args: json.RawMessage(`{"x":{"$from":"a.value","default":0}}`)},
		step("d", "", "", "a"), {ID: "e", Tool: "t", If: `steps.b.state == "skipped"`}, step("f", "", "b.value", ""),
	}
	check(t, []moment{
		{"a condition that is false", branch, haft.Chain{},
			`c{"x":0} d{} e{} a(its condition is false) b(step a was skipped) f(step b was skipped) running`},
		{"a step that was skipped has no result, whatever is written",
			[]haft.Step{{ID: "a", Tool: "t"}, {ID: "b", Tool: "t",
				If: `steps.a.status == "" && steps.a.value == null`}},
			haft.Chain{Steps: []haft.StepResult{{ID: "a", State: haft.StepSkipped,
				Result: &haft.Result{Status: haft.StatusSuccess, Value: json.RawMessage("1")}}}}, `b{} running`},
	})
}

func TestNext_ended_chains(t *testing.T) {
	check(t, []moment{
		{"a cancelled chain begins nothing", diamond(),
			haft.Chain{Status: haft.StatusCancelled, Steps: states("a:success=1 b:running")},
			`d(the chain was cancelled) c(the chain was cancelled) running`},
		{"a cancelled chain ends", diamond(), haft.Chain{Status: haft.StatusCancelled,
			Steps: states("a:success=1 b:cancelled c:skipped d:skipped")},
			`cancelled done: cancelled: the chain was cancelled`},
		{"a chain that has ended stays so", diamond(),
			haft.Chain{Status: haft.StatusError, Error: &haft.Failure{Kind: haft.FailExit, Message: "step a: x"}},
			`d(the chain has ended) b(the chain has ended) c(the chain has ended) a(the chain has ended) error done: exit: step a: x`},
		{"a chain that waits goes on", diamond(), haft.Chain{Status: haft.StatusPending, Steps: states("a:success=1")},
			`b{"x":1} c{"x":1} running`},
	})
}

func TestNext_refuses_states_of_other_plans(t *testing.T) {
	p := program(t, haft.Plan{Steps: []haft.Step{{ID: "a", Tool: "t"}}})
	for name, steps := range map[string][]haft.StepResult{
		"a step that the plan has not": states("b:running"),
		"a step twice":                 states("a:running a:running"),
		"no such state":                {{ID: "a", State: "paused"}},
	} {
		if todo, err := p.Next(haft.Chain{Steps: steps}); haft.CodeOf(err) != haft.CodeInternal {
			t.Errorf("%s: %v, %v, want an error of ours", name, todo, err)
		}
	}
}

// Every step waits for all before it, and all are skipped: ways through the plan
// are as many as subsets of its steps, and must not be walked one by one.
func TestNext_takes_no_longer_than_the_plan_is(t *testing.T) {
	var p haft.Plan
	for i := range haft.MaxSteps {
		s := haft.Step{ID: fmt.Sprintf("s%d", i), Tool: "t", If: "false"}
		for _, before := range p.Steps {
			s.After = append(s.After, before.ID)
		}
		p.Steps = append(p.Steps, s)
	}
	if todo := next(t, program(t, p), haft.Chain{}); !todo.Done || len(todo.Skipped) != haft.MaxSteps {
		t.Errorf("%s", says(todo))
	}
}

func TestProgram_Steps(t *testing.T) {
	p := program(t, haft.Plan{Steps: []haft.Step{{ID: "b", Tool: "t"}, {ID: "a", Tool: "t"}}})
	want := []haft.StepResult{{ID: "b", State: haft.StepWaiting}, {ID: "a", State: haft.StepWaiting}}
	if diff := cmp.Diff(want, p.Steps()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if got := says(next(t, p, haft.Chain{Status: haft.StatusRunning, Steps: p.Steps()})); got != "b{} a{} running" {
		t.Errorf("got %s", got)
	}
}
