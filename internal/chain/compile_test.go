package chain_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"haft"
	"haft/internal/chain"
)

// plan reads a plan, in JSON.
func plan(t testing.TB, text string) haft.Plan {
	t.Helper()
	var p haft.Plan
	if err := json.Unmarshal([]byte(text), &p); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return p
}

// one is a plan of the steps a, b and, with more, c.
func one(more string) string {
	return `{"steps":[{"id":"a","tool":"t"},{"id":"b","tool":"t"},{"id":"c","tool":"t",` + more + `}]}`
}

func TestCompile_accepts(t *testing.T) {
	for _, text := range []string{
		one(`"args":{}`), one(`"args":null`), one(`"args":{"x":{"$from":"a.value"}}`),
		one(`"args":{"$from":"a.value"}`), one(`"args":{"$literal":{"$from":"z.value"}}`),
		one(`"args":{"x":[{"y":{"$from":"a.value/b~1c/0/","default":{"z":[]}}}]}`),
		one(
			`"args":{"x":{"default":null,"$from":"b.error/message"},"y":{"$from":"a.stdout"},"z":{"$from":"a.stderr"},"s":{"$from":"a.status"},"i":{"$from":"input"},"j":{"$from":"input/a"}}`),
		one(`"args":{"default":{"$from":"a.value"},"$schema":1,"from":"a.value"}`),
		one(`"args":{"\u0024from":"a.value"}`),
		one(`"after":["a","b","a"]`), one(`"on_error":"skip"`),
		one(`"if":"steps.a.status == \"success\" && steps.a.value.total > 10 && input == null"`),
		one(`"if":"has(steps.a.value.x) || steps.b.error == null || steps.b.state == 'skipped'"`),
		one(`"if":"steps.a.value.items.exists(i, i.x == input.y)"`), one(`"if":"steps.a.value"`),
		`{"steps":[{"id":"a","tool":"t","args":{"x":{"$from":"b.value"}}},{"id":"b","tool":"t"}]}`,
		`{"steps":[{"id":"if","tool":"t"},{"id":"in","tool":"t","after":["if"]},{"id":"x","tool":"t","if":"true"}],"input":{"a":[1,{"a":2}]}}`,
	} {
		if _, err := chain.Compile(plan(t, text)); err != nil {
			t.Errorf("%s: %v", text, err)
		}
	}
}

func TestCompile_refuses(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{`{}`, "the plan has no steps"},
		{`{"steps":[{"tool":"t"}]}`, "step 1: an id is a letter"},
		{`{"steps":[{"id":"1a","tool":"t"}]}`, "step 1: an id is a letter"},
		{`{"steps":[{"id":"a-b","tool":"t"}]}`, "step 1: an id is a letter"},
		{`{"steps":[{"id":"` + strings.Repeat("a", 65) + `","tool":"t"}]}`, "step 1: an id is a letter"},
		{`{"steps":[{"id":"input","tool":"t"}]}`, "step 1 (input): input cannot be the id of a step"},
		{`{"steps":[{"id":"a","tool":"t"},{"id":"a","tool":"t"}]}`, "step 2 (a): another step has the same id"},
		{`{"steps":[{"id":"a"}]}`, "step 1 (a): it names no tool"},
		{`{"steps":[{"id":"a","tool":"` + strings.Repeat("t", 201) + `"}]}`,
			"step 1 (a): the name of its tool has 201 bytes, 200 is the most"},
		{`{"steps":[{"id":"a","tool":"t","args":{"x":[` + strings.Repeat("1,", 60_000) +
			`1]}},{"id":"b","tool":"t","args":{"x":[` + strings.Repeat("1,", 60_000) + `1]}}]}`,
			"step 2 (b): the input and the arguments of all steps have more than 100000 values in all"},
		{`{"steps":[{"id":"a","tool":"t"}],"input":[` + strings.Repeat("{},", 100_000) + `1]}`,
			"the input: the input and the arguments"},
		{one(`"on_error":"retry"`), "step 3 (c): on_error is stop, continue or skip"},
		{one(`"args":[]`), "step 3 (c): the arguments are not an object"},
		{one(`"args":"x"`), "the arguments are not an object"},
		{one(`"args":{"x":1,"x":2}`), "the arguments: at byte 7: a key stands twice in one object"},
		{one(`"args":{"x":{"$from":"a.value","\u0024from":"b.value"}}`), "the arguments: at byte 24: a key stands twice in one object"},
		{one(`"args":{"x":` + strings.Repeat("[", 130) + strings.Repeat("]", 130) + `}`),
			"the arguments: at byte 133: it is nested deeper than 128"},
		{one(`"args":{"x":{"$from":"a.value","y":1}}`), "an object with $from has no other key but default"},
		{one(`"args":{"x":{"$from":"a.value","default":1,"y":1}}`),
			"an object with $from has no other key but default"},
		{one(`"args":{"x":{"$from":"a.value","$literal":1}}`), "an object with $literal has no other key"},
		{one(`"args":{"x":{"$literal":1,"y":1}}`), "an object with $literal has no other key"},
		{one(`"args":{"x":{"$from":"a.value","default":{"$from":"b.value"}}}`), "a default is taken as it is"},
		{one(`"args":{"x":{"$from":1}}`), "$from is not a text"},
		{one(`"args":{"x":{"$from":{"$from":"a.value"}}}`), "$from is not a text"},
		{one(`"args":{"x":{"$from":""}}`), "begins neither with input nor with the id of a step"},
		{one(`"args":{"x":{"$from":"a"}}`), "begins neither"},
		{one(`"args":{"x":{"$from":"a/value"}}`), "begins neither"},
		{one(`"args":{"x":{"$from":"$.a.value"}}`), "begins neither"},
		{one(`"args":{"x":{"$from":"a.result"}}`), "takes neither value, error, status, stdout nor stderr"},
		{one(`"args":{"x":{"$from":"a.value.x"}}`), "takes neither"},
		{one(`"args":{"x":{"$from":"input.x"}}`), "takes neither"},
		{one(`"args":{"x":{"$from":"a.stdout/0"}}`), "has a pointer, but stdout is a text"},
		{one(`"args":{"x":{"$from":"a.value/~2"}}`), "in a JSON Pointer ~ is written ~0"},
		{one(`"args":{"x":{"$from":"a.value/` + strings.Repeat("/", 200) + `"}}`), "points deeper than 128"},
		{one(`"args":{"x":{"$from":"a.value/` + strings.Repeat("x", 1000) + `"}}`),
			"a reference has 1008 bytes, 1000 is the most"},
		{one(`"args":{"x":{"$from":"d.value"}}`), "step 3 (c): there is no step d"},
		{one(`"args":{"x":{"$from":"c.value"}}`), "step 3 (c): it refers to itself"},
		{one(`"after":["d"]`), "there is no step d"},
		{one(`"after":["c"]`), "it refers to itself"},
		{one(`"if":"steps.c.value"`), "it refers to itself"},
		{one(`"if":"steps.d.value == 1"`), "step 3 (c): if: "},
		{one(`"if":"steps.a.stats == 'x'"`), "step 3 (c): if: "},
		{one(`"if":"steps.exists(s, true)"`), "step 3 (c): if: "},
		{one(`"if":"1 +"`), "step 3 (c): if: "},
		{one(`"if":"1 + 1"`), "if gives int and must give bool"},
		{one(`"if":"input.now() == 1"`), "step 3 (c): if: "},
		{one(`"if":"` + strings.Repeat("true || ", 300) + `true"`), "if has more than 2000 characters"},
		{`{"steps":[{"id":"a","tool":"t","after":["c"]},{"id":"b","tool":"t","if":"steps.a.value == 1"},{"id":"c","tool":"t","args":{"x":{"$from":"b.value"}}},{"id":"d","tool":"t","after":["a"]}]}`,
			"the steps wait for each other in a circle: a → c → b → a"},
		{`{"steps":[{"id":"a","tool":"t"}],"input":{"x":1,"x":2}}`, "the input: at byte 7: a key stands twice"},
		{`{"steps":[{"id":"a","tool":"t"}],"input":` + strings.Repeat("[", 200) + strings.Repeat("]", 200) + `}`,
			"the input: at byte 129: it is nested deeper than 128"},
	} {
		p, err := chain.Compile(plan(t, c.text))
		if haft.CodeOf(err) != haft.CodeInvalid || !strings.Contains(haft.MessageOf(err), c.want) {
			t.Errorf("Compile(%.200s) = %v, %v, want %q", c.text, p, err, c.want)
		}
	}
}

func TestCompile_bounds(t *testing.T) {
	steps := func(n int, args string) haft.Plan {
		var p haft.Plan
		for i := range n {
			p.Steps = append(p.Steps, haft.Step{ID: fmt.Sprintf("s%d", i), Tool: "t", Args: json.RawMessage(args)})
		}
		return p
	}
	half := `{"x":"` + strings.Repeat("x", chain.MaxPlan/2) + `"}`
	many := func(n int) string {
		return `{"x":[` + strings.TrimSuffix(strings.Repeat(`{"$from":"input"},`, n), ",") + `]}`
	}
	for _, c := range []struct {
		name string
		plan haft.Plan
		want string
	}{
		{"as many steps as there may be", steps(haft.MaxSteps, ""), ""},
		{"too many steps", steps(haft.MaxSteps+1, ""), "the plan has 101 steps, 100 is the most"},
		{"too large arguments", steps(1, half[:len(half)-2]+half[6:]), "the arguments have 83886"},
		{"arguments that are too large together", steps(2, half), "the arguments of the plan have 83886"},
		{"too large input", haft.Plan{Steps: steps(1, "").Steps, Input: json.RawMessage(half[:len(half)-2] + half[6:])},
			"the input has 83886"},
		{"input that is no JSON", haft.Plan{Steps: steps(1, "").Steps, Input: json.RawMessage("{")},
			"the input: at byte 1: expected a key"},
		{"input that is no text", haft.Plan{Steps: steps(1, "").Steps, Input: json.RawMessage("\"\xff\"")},
			"the input: at byte 1: a string is not valid UTF-8"},
		{"arguments that are no JSON", steps(1, `{"x":1}}`), "the arguments: at byte 7: expected the end"},
		{"as many references as there may be", steps(2, many(500)), ""},
		{"too many references", steps(2, many(501)), "the plan has 1002 references, 1000 is the most"},
		{"too many references of one step", steps(1, many(1001)), "there are more than 1000 references"},
	} {
		if _, err := chain.Compile(c.plan); (err == nil) != (c.want == "") ||
			!strings.Contains(haft.MessageOf(err), c.want) {
			t.Errorf("%s: %v, want %q", c.name, err, c.want)
		}
	}
}
