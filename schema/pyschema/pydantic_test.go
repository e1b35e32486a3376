package pyschema_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"haft/schema"
	"haft/schema/pyschema"
)

// How much the differential test does.
const (
	modulesPerRun  = 50
	toolsPerModule = 5
	valuesPerTool  = 40
)

// TestDerive_agreesWithPydantic generates tools with all kinds of types, and
// arguments that fit and that almost fit. The real Pydantic is the referee:
//
//   - what it accepts without converting anything (strict), our schema accepts;
//   - what it rejects even with conversions (lax) for its type, enum, bound,
//     format or a missing or unknown key, our schema rejects.
//
// What lies in between, such as "5" for an integer, is for coercion and is not
// judged. Our schema also asks for the same keys, values and bounds as the one
// that Pydantic writes.
//
// HAFT_SEED=n repeats a run and HAFT_MODULES=n makes it longer.
func TestDerive_agreesWithPydantic(t *testing.T) {
	ref := newReferee(t)
	all := needPython(t)
	read := newLasting(t, all[len(all)-1]).read
	seed := number(t, "HAFT_SEED", 1)
	var count tally
	for i := range number(t, "HAFT_MODULES", modulesPerRun) {
		if judgeModule(t, ref, read, uint64(seed+i), &count); count.failed > 10 {
			t.Fatal("that is enough")
		}
	}
	t.Logf("seed %d: %s", seed, count)
	if count.tools < 200 || count.accepted < count.values/5 || count.rejected < count.values/5 {
		t.Errorf("the run says too little: %s", count)
	}
}

// number reads a number from the environment.
func number(t *testing.T, name string, otherwise int) int {
	t.Helper()
	text := os.Getenv(name)
	if text == "" {
		return otherwise
	}
	n, err := strconv.Atoi(text)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return n
}

// A tally counts what was judged.
type tally struct{ tools, values, accepted, rejected, failed int }

func (c tally) String() string {
	return fmt.Sprintf("%d tools, %d values: Pydantic accepts %d and rejects %d, the rest is not judged", c.tools,
		c.values, c.accepted, c.rejected)
}

// judgeModule generates the module of a seed and compares both sides.
func judgeModule(t *testing.T, ref *referee, read pyschema.Reader, seed uint64, count *tally) {
	r := rand.New(rand.NewPCG(seed, 0))
	source := preamble
	if r.IntN(3) == 0 {
		source = "from __future__ import annotations\n\n" + preamble
	}
	var tools []generated
	var q question
	for i := range toolsPerModule {
		tool := newTool(r, i)
		source += "\n\n" + tool.source
		tools = append(tools, tool)
		q.Tools = append(q.Tools, asked{Name: tool.name, Values: candidates(t, r, tool.arguments)})
	}
	q.Source = source
	a := ref.ask(t, q)
	if a.Error != "" {
		t.Fatalf("seed %d: the generator wrote what Python refuses: %s\n%s", seed, a.Error, numbered(source))
	}
	read = once(read)
	for i, tool := range tools {
		fail := func(format string, args ...any) {
			count.failed++
			t.Errorf("HAFT_SEED=%d HAFT_MODULES=1, %s: %s\n%s", seed, tool.name, fmt.Sprintf(format, args...),
				tool.source)
		}
		if e := a.Tools[i].Error; e != "" {
			fail("the generator wrote what Pydantic refuses: %s", e)
			continue
		}
		count.tools++
		sig, err := pyschema.Derive(t.Context(), read, []byte(source),
			schema.Options{Function: tool.name, DescriptionsOptional: true})
		if err != nil {
			fail("no schema: %v", err)
			continue
		}
		judgeTool(fail, sig, q.Tools[i].Values, a.Tools[i], count)
	}
}

// candidates returns the values to judge: a third fits.
func candidates(t *testing.T, r *rand.Rand, args *record) []string {
	t.Helper()
	var all []string
	for i := range valuesPerTool {
		var v any = args.valid(r, 0)
		if i%3 > 0 {
			v = args.near(r, 0)
		}
		text, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, string(text))
	}
	return all
}

// judgeTool compares the verdicts about one tool.
func judgeTool(fail func(string, ...any), sig *schema.Signature, values []string, a answeredTool, count *tally) {
	shown, err := schema.Encode(sig.Parameters)
	if err != nil {
		fail("%v", err)
		return
	}
	ours, err := schema.Compile(sig.Parameters)
	if err != nil {
		fail("the schema does not compile: %v\n%s", err, shown)
		return
	}
	theirs, err := schema.Decode(a.Schema)
	if err != nil {
		fail("read Pydantic's schema: %v", err)
		return
	}
	if diff := cmp.Diff(essence{theirs.(*schema.Object)}.arguments(), essence{sig.Parameters}.arguments()); diff != "" {
		fail("our schema demands something else than Pydantic's (-theirs +ours):\n%s", diff)
	}
	for i, text := range values {
		v, err := schema.Decode([]byte(text))
		if err != nil {
			fail("decode %s: %v", text, err)
			return
		}
		args, ok := v.(*schema.Object)
		if !ok {
			fail("%s is no object", text)
			return
		}
		misfits := check(ours, sig.Parameters, args)
		verdict := a.Verdicts[i]
		count.values++
		switch {
		case verdict.Strict:
			count.accepted++
			if len(misfits) > 0 {
				fail("Pydantic accepts %s\nbut our schema says %v\n%s\nPydantic's: %s", text, misfits, shown, a.Schema)
				return
			}
			if _, bad := ours.Fit(args, schema.FitOptions{}); len(bad) > 0 {
				fail("Pydantic accepts %s\nbut coercion makes it unfit: %v\n%s", text, bad, shown)
				return
			}
		case !verdict.Lax && judged(verdict.Errors):
			count.rejected++
			if len(misfits) == 0 {
				fail("Pydantic rejects %s\nfor %v, but our schema accepts it\n%s\nPydantic's: %s", text, verdict.Errors,
					shown, a.Schema)
				return
			}
		}
	}
}

// check holds arguments against our schema: null for an optional parameter means
// that it is not given, and parameters that are not known are misfits, as
// [schema.Compiled.Fit] does it.
func check(c *schema.Compiled, root, args *schema.Object) []string {
	given := &schema.Object{}
	var misfits []string
	for _, k := range args.Keys() {
		p := root.Object("properties").Object(k)
		if p == nil {
			misfits = append(misfits, k+" is not known")
			continue
		}
		if args.Value(k) != nil || !p.Has("default") || p.Value("default") != nil ||
			slices.Contains(root.Array("required"), any(k)) {
			given.Set(k, args.Value(k))
		}
	}
	for _, m := range c.Check(given) {
		misfits = append(misfits, m.Pointer+" "+m.Message)
	}
	return misfits
}

// judged reports whether every reason for a rejection is one that a schema has to
// know.
func judged(errors []string) bool {
	return !slices.ContainsFunc(errors, func(e string) bool { return !reasons[e] && !strings.HasSuffix(e, "_type") })
}

// reasons are Pydantic's names of errors in type, enum, bound, format or key.
var reasons = map[string]bool{
	"int_parsing": true, "int_from_float": true, "float_parsing": true, "bool_parsing": true, "decimal_parsing": true,
	"none_required": true,
	"enum":          true, "literal_error": true, "union_tag_invalid": true, "union_tag_not_found": true,
	"greater_than": true, "greater_than_equal": true, "less_than": true, "less_than_equal": true, "multiple_of": true,
	"too_short": true, "too_long": true, "string_too_short": true, "string_too_long": true,
	"string_pattern_mismatch": true,
	"missing":                 true, "extra_forbidden": true, "missing_argument": true,
	"unexpected_positional_argument": true,
	"date_parsing":                   true, "date_from_datetime_parsing": true, "datetime_parsing": true,
	"datetime_from_date_parsing": true,
	"time_parsing":               true, "time_delta_parsing": true, "uuid_parsing": true, "url_parsing": true,
	"value_error":   true,
	"ip_v4_address": true, "ip_v6_address": true,
}

// The words between the test and the referee.
type (
	question struct {
		Source string  `json:"source"`
		Tools  []asked `json:"tools"`
	}
	asked struct {
		Name   string   `json:"name"`
		Values []string `json:"values"`
	}
	answer struct {
		Error string         `json:"error"`
		Tools []answeredTool `json:"tools"`
	}
	answeredTool struct {
		Error    string          `json:"error"`
		Schema   json.RawMessage `json:"schema"`
		Verdicts []struct {
			Strict bool     `json:"strict"`
			Lax    bool     `json:"lax"`
			Errors []string `json:"errors"`
		} `json:"verdicts"`
	}
)

// A referee is a process with the real Pydantic.
type referee struct {
	in  io.Writer
	out *bufio.Scanner
}

// newReferee starts the referee, which ends with the test.
func newReferee(t *testing.T) *referee {
	t.Helper()
	python := testenv(t, "testenv", "bin", "python")
	cmd := exec.CommandContext(withTimeout(t, 10*time.Minute), python, "-I", "testdata/differential/referee.py")
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		in.Close()
		if err := cmd.Wait(); err != nil {
			t.Errorf("the referee: %v", err)
		}
	})
	lines := bufio.NewScanner(out)
	lines.Buffer(nil, 64<<20)
	return &referee{in, lines}
}

// ask sends a question and waits for the answer.
func (f *referee) ask(t *testing.T, q question) answer {
	t.Helper()
	text, err := json.Marshal(q)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.in.Write(append(text, '\n')); err != nil {
		t.Fatalf("ask the referee: %v", err)
	}
	if !f.out.Scan() {
		t.Fatalf("the referee does not answer: %v", f.out.Err())
	}
	var a answer
	if err := json.Unmarshal(f.out.Bytes(), &a); err != nil {
		t.Fatalf("the answer of the referee: %v", err)
	}
	if len(a.Tools) != len(q.Tools) && a.Error == "" {
		t.Fatalf("the referee answers for %d of %d tools", len(a.Tools), len(q.Tools))
	}
	return a
}

// numbered returns source with numbers before its lines.
func numbered(source string) string {
	lines := strings.Split(source, "\n")
	for i := range lines {
		lines[i] = fmt.Sprintf("%4d %s", i+1, lines[i])
	}
	return strings.Join(lines, "\n")
}
