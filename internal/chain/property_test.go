package chain_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"haft"
	"haft/internal/chain"
)

// world is a plan and what would become of each of its steps.
type world struct {
	plan     haft.Plan
	outcomes map[string]haft.Result
}

// drawWorld makes a plan without circles. Of a mild one no step stops the chain.
func drawWorld(t *rapid.T, mild bool) world {
	n := rapid.IntRange(1, 8).Draw(t, "steps")
	w := world{outcomes: map[string]haft.Result{}}
	w.plan.Input = json.RawMessage(`{"go":true,"list":[1,2,3]}`)
	onError := []haft.OnError{haft.OnErrorContinue, haft.OnErrorSkip, haft.OnErrorStop, ""}
	statuses := []haft.Status{haft.StatusSuccess, haft.StatusSuccess, haft.StatusSuccess, haft.StatusError,
		haft.StatusCancelled, haft.StatusUnknown}
	refs := []string{"value", "value/x", "status", "error/message", "stdout"}
	if mild {
		onError, statuses = onError[:2], statuses[:5]
		refs = []string{"value", "status", "stdout"} // what is always there
	}
	for i := range n {
		s := haft.Step{ID: fmt.Sprintf("s%d", i), Tool: "t", OnError: rapid.SampledFrom(onError).Draw(t, "on_error")}
		args := map[string]any{"mine": i, "in": map[string]any{"$from": "input/list/1"}}
		for j := range i {
			other := fmt.Sprintf("s%d", j)
			switch rapid.IntRange(0, 6).Draw(t, "edge") {
			case 0:
				args[other] = map[string]any{"$from": other + "." + rapid.SampledFrom(refs).Draw(t, "ref")}
			case 1:
				args[other] = map[string]any{"$from": other + ".value/x", "default": -1}
			case 2:
				s.After = append(s.After, other)
			case 3:
				s.If = rapid.SampledFrom([]string{`steps.%s.status == "success"`, `steps.%s.state == "skipped"`,
					`input.go || steps.%s.value == null`}).Draw(t, "if")
				if !mild && rapid.Bool().Draw(t, "odd") {
					s.If = `steps.%s.value.x > 1`
				}
				s.If = fmt.Sprintf(s.If, other)
			}
		}
		s.Args, _ = json.Marshal(args)
		w.plan.Steps = append(w.plan.Steps, s)
		r := haft.Result{Tool: "t", Status: rapid.SampledFrom(statuses).Draw(t, "status"),
			Value: json.RawMessage(`null`), Stdout: "out"}
		if r.Status == haft.StatusSuccess {
			r.Value = json.RawMessage(rapid.SampledFrom([]string{`{"x":1}`, `{"x":2}`, `7`}).Draw(t, "value"))
		} else {
			r.Error = &haft.Failure{Kind: haft.FailException, Message: "boom"}
		}
		w.outcomes[s.ID] = r
	}
	w.plan.Steps = rapid.Permutation(w.plan.Steps).Draw(t, "order")
	return w
}

// end is what became of a chain.
type end struct {
	Chain haft.Chain
	Calls map[string]string // the arguments of each call, by step
	stops bool
}

// simulate runs a chain to its end. Choose(n) picks a number below n. Between any
// two looks the chain may crash and be read again from what was written down.
func simulate(t *rapid.T, w world, choose func(n int) int) end {
	e := end{Calls: map[string]string{}}
	p, err := chain.Compile(w.plan)
	if err != nil {
		t.Fatal(err)
	}
	e.Chain = haft.Chain{Plan: w.plan, Steps: p.Steps(), Status: haft.StatusRunning}
	at := func(id string) *haft.StepResult {
		return &e.Chain.Steps[slices.IndexFunc(e.Chain.Steps, func(s haft.StepResult) bool { return s.ID == id })]
	}
	for look := 0; ; look++ {
		if look > 4*len(w.plan.Steps)+4 {
			t.Fatalf("the chain does not end: %+v", e.Chain.Steps)
		}
		if choose(3) == 0 {
			p = crash(t, &e.Chain)
		}
		todo, err := p.Next(e.Chain)
		if err != nil {
			t.Fatal(err)
		}
		again, err := p.Next(e.Chain)
		if diff := cmp.Diff(todo, again); err != nil || diff != "" {
			t.Fatalf("the same state, another answer: %v\n%s", err, diff)
		}
		for _, s := range todo.Skipped {
			if at(s.ID).State != haft.StepWaiting || s.State != haft.StepSkipped && s.State != haft.StepDone {
				t.Fatalf("step %s goes from %s to %s", s.ID, at(s.ID).State, s.State)
			}
			*at(s.ID) = s
		}
		if e.stops && len(todo.Ready) > 0 {
			t.Fatalf("a step begins after the stop: %s", says(todo))
		}
		for _, r := range todo.Ready {
			if at(r.Step.ID).State != haft.StepWaiting {
				t.Fatalf("step %s begins twice", r.Step.ID)
			}
			if !json.Valid(r.Args) {
				t.Fatalf("step %s is called with %s", r.Step.ID, r.Args)
			}
			at(r.Step.ID).State = haft.StepRunning
			e.Calls[r.Step.ID] = string(r.Args)
		}
		e.Chain.Status, e.Chain.Error = todo.Status, todo.Failure
		if todo.Done {
			return e
		}
		var running []string
		for _, s := range e.Chain.Steps {
			if s.State == haft.StepRunning {
				running = append(running, s.ID)
			}
		}
		if len(running) == 0 {
			t.Fatalf("nothing runs and the chain is not done: %s", says(todo))
		}
		for range 1 + choose(len(running)) {
			k := choose(len(running))
			res := w.outcomes[running[k]]
			s := at(running[k])
			s.State, s.Result = haft.StepDone, &res
			on := w.plan.Steps[slices.IndexFunc(w.plan.Steps, func(x haft.Step) bool { return x.ID == s.ID })].OnError
			e.stops = e.stops || res.Status != haft.StatusSuccess && on != haft.OnErrorContinue &&
				(on != haft.OnErrorSkip || res.Status == haft.StatusUnknown)
			if running = slices.Delete(running, k, k+1); len(running) == 0 {
				break
			}
		}
	}
}

// crash reads a chain from what was written down, and compiles its plan anew.
func crash(t *rapid.T, c *haft.Chain) *chain.Program {
	raw, err := json.Marshal(c)
	if err != nil {
		t.Fatal(err)
	}
	*c = haft.Chain{}
	if err := json.Unmarshal(raw, c); err != nil {
		t.Fatal(err)
	}
	p, err := chain.Compile(c.Plan)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestProperty_every_chain_ends(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := drawWorld(t, false)
		e := simulate(t, w, func(n int) int { return rapid.IntRange(0, n-1).Draw(t, "choice") })
		bad := haft.Status("")
		for _, s := range e.Chain.Steps {
			switch {
			case s.State == haft.StepDone && s.Result != nil:
				if s.Result.Status == haft.StatusUnknown {
					bad = haft.StatusUnknown
				}
			case s.State == haft.StepSkipped && s.Reason != "":
			default:
				t.Fatalf("step %s is %s at the end", s.ID, s.State)
			}
			_, called := e.Calls[s.ID]
			if called != (s.State == haft.StepDone && s.Result.Status != haft.StatusValidation) {
				t.Fatalf("step %s is %s, called: %v", s.ID, s.State, called)
			}
		}
		switch e.Chain.Status {
		case haft.StatusSuccess, haft.StatusError, haft.StatusCancelled, haft.StatusUnknown:
		default:
			t.Fatalf("the chain ends as %s", e.Chain.Status)
		}
		if (e.Chain.Status == haft.StatusSuccess) != (e.Chain.Error == nil) ||
			e.Chain.Status == haft.StatusUnknown && bad == "" {
			t.Fatalf("the chain ends as %s with %v", e.Chain.Status, e.Chain.Error)
		}
		if e.stops && e.Chain.Status == haft.StatusSuccess {
			t.Fatal("the chain succeeds though a step stopped it")
		}
	})
}

// Whatever ends first, and whenever the chain is taken up again, the end is the
// same, unless something stops it half-way.
func TestProperty_time_and_crashes_do_not_matter(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := drawWorld(t, true)
		want := simulate(t, w, func(n int) int { return n - 1 })
		got := simulate(t, w, func(n int) int { return rapid.IntRange(0, n-1).Draw(t, "choice") })
		if diff := cmp.Diff(want.Calls, got.Calls); diff != "" {
			t.Fatalf("calls (-want +got):\n%s", diff)
		}
		if diff := cmp.Diff(want.Chain.Steps, got.Chain.Steps); diff != "" || got.Chain.Status != haft.StatusSuccess {
			t.Fatalf("ends as %s (-want +got):\n%s", got.Chain.Status, diff)
		}
	})
}

func FuzzCompile(f *testing.F) {
	f.Add([]byte(
		one(
			`"args":{"x":[{"$from":"a.value/b~1c/0","default":{"z":[]}},{"$literal":{"$from":1}}]},"if":"steps.a.value.x > 1","after":["b"]`)), []byte(`{"b/c":[1]}`))
	f.Add([]byte(
		`{"steps":[{"id":"a","tool":"t","args":{"$from":"input/x"},"on_error":"skip"}],"input":{"x":{"y":"\u0024"}}}`),
		[]byte(`null`))
	f.Add([]byte(one(`"args":{"a\"]}\\":{"$from":"b.error/message"},"e":"\\\""}`)), []byte(`"x"`))
	f.Fuzz(func(t *testing.T, text, value []byte) {
		var p haft.Plan
		if json.Unmarshal(text, &p) != nil {
			return
		}
		prog, err := chain.Compile(p)
		if err != nil {
			if haft.CodeOf(err) != haft.CodeInvalid {
				t.Fatalf("Compile: %v", err)
			}
			return
		}
		c := haft.Chain{Steps: prog.Steps()}
		for range len(p.Steps) + 1 {
			todo, err := prog.Next(c)
			if err != nil {
				t.Fatal(err)
			}
			if todo.Done {
				return
			}
			for _, s := range todo.Skipped {
				*find(c.Steps, s.ID) = s
			}
			for _, r := range todo.Ready {
				if !json.Valid(r.Args) || r.Args[0] != '{' {
					t.Fatalf("step %s is called with %s", r.Step.ID, r.Args)
				}
				*find(c.Steps, r.Step.ID) = haft.StepResult{ID: r.Step.ID, State: haft.StepDone,
					Result: &haft.Result{Status: haft.StatusSuccess, Value: value}}
			}
		}
		t.Fatal("the chain does not end")
	})
}

// find returns the step of that id.
func find(steps []haft.StepResult, id string) *haft.StepResult {
	return &steps[slices.IndexFunc(steps, func(s haft.StepResult) bool { return s.ID == id })]
}

func FuzzReference(f *testing.F) {
	for _, s := range []string{"input", "input/a", "a.value", "a.value/~0~1/0", "a.stdout", "a.error/message",
		"b.status", "", "/", ".", "a.", "a.value/"} {
		f.Add(s, []byte(`{"a":[1,{"b":"c"}],"":{"~/":0}}`))
	}
	f.Fuzz(func(t *testing.T, text string, value []byte) {
		from, err := json.Marshal(text)
		if err != nil || !json.Valid(value) {
			return
		}
		prog, err := chain.Compile(haft.Plan{Steps: []haft.Step{
			{ID: "a", Tool: "t"}, {ID: "b", Tool: "t",
				Args:  json.RawMessage(`{"x":{"$from":` + string(from) + `,"default":"nothing"}}`),
				After: []string{"a"}},
		}})
		if err != nil {
			return
		}
		todo, err := prog.Next(
			haft.Chain{Steps: []haft.StepResult{{ID: "a", State: haft.StepDone,
				Result: &haft.Result{Status: haft.StatusSuccess, Value: value}}}})
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range todo.Ready {
			var args map[string]json.RawMessage
			if err := json.Unmarshal(r.Args, &args); err != nil || len(args) != 1 {
				t.Fatalf("%q in %s gives %s", text, value, r.Args)
			}
		}
	})
}
