package value_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"haft"
	"haft/internal/value"
	"haft/schema"
)

// readTest is one text and what it is read as.
type readTest struct {
	name string
	typ  haft.OutputType
	text string
	want string // JSON, or "error: " and a part of the message
}

// testRead runs tests of Read.
func testRead(t *testing.T, tests []readTest) {
	t.Helper()
	for _, tt := range tests {
		t.Run(string(tt.typ)+" "+tt.name, func(t *testing.T) {
			got, err := value.Read(tt.text, tt.typ)
			if message, ok := strings.CutPrefix(tt.want, "error: "); ok {
				if err == nil || !strings.Contains(haft.MessageOf(err), message) {
					t.Fatalf("Read(%q) = %s, %v, want an error with %q", tt.text, got, err, message)
				}
				if strings.Contains(err.Error(), "7391") {
					t.Errorf("Read(%q) quotes: %v", tt.text, err)
				}
				return
			}
			if err != nil || string(got) != tt.want {
				t.Errorf("Read(%q) = %s, %v, want %s", tt.text, got, err, tt.want)
			}
		})
	}
}

func TestRead_text_numbers_and_booleans(t *testing.T) {
	testRead(t, []readTest{
		{"text is stripped", haft.OutputText, " a b\n", `"a b"`},
		{"text that nobody asked to read", haft.OutputAny, " a\n", `" a\n"`},
		{"any is text", haft.OutputAny, "42 items", `"42 items"`},
		{"empty text", haft.OutputText, "", `""`},
		{"text that is not UTF-8", haft.OutputText, "\xff", "error: not valid UTF-8"},
		{"integer", haft.OutputNumber, "42\n", `42`},
		{"float", haft.OutputNumber, " -3.140 ", `-3.140`},
		{"exponent", haft.OutputNumber, "1e3", `1e3`},
		{"big integer", haft.OutputNumber, "123456789012345678901234567890", `123456789012345678901234567890`},
		{"thousands", haft.OutputNumber, "1,234", "error: should be a number"},
		{"leading zero", haft.OutputNumber, "007", "error: should be a number"},
		{"not finite", haft.OutputNumber, "NaN", "error: should be a number"},
		{"too large", haft.OutputNumber, "1e400", "error: should be a number"},
		{"number in words", haft.OutputNumber, "42 items", `42`},
		{"number at the end", haft.OutputNumber, "The answer: (-42.5).", `-42.5`},
		{"number with a unit", haft.OutputNumber, "took 3.5ms", `3.5`},
		{"number with a currency", haft.OutputNumber, "$1e3!", `1e3`},
		{"number in quotes", haft.OutputNumber, `"42"`, `42`},
		{"two numbers", haft.OutputNumber, "3 of 5 items", "error: holds several"},
		{"thousands in words", haft.OutputNumber, "1,234 items", "error: should be a number"},
		{"date", haft.OutputNumber, "on 2026-01-31", "error: should be a number"},
		{"version", haft.OutputNumber, "v1.2.3", "error: should be a number"},
		{"name with a digit", haft.OutputNumber, "utf8", "error: should be a number"},
		{"other digits", haft.OutputNumber, "٤٢ items", "error: should be a number"},
		{"too long", haft.OutputNumber, strings.Repeat("1", 5000) + " items", "error: should be a number"},
		{"no number", haft.OutputNumber, "", "error: should be a number"},
		{"true", haft.OutputBoolean, "True\n", `true`},
		{"yes", haft.OutputBoolean, "YES", `true`},
		{"one", haft.OutputBoolean, "1", `true`},
		{"on", haft.OutputBoolean, " On\n", `true`},
		{"off", haft.OutputBoolean, "off", `false`},
		{"false", haft.OutputBoolean, "false", `false`},
		{"no", haft.OutputBoolean, "no", `false`},
		{"zero", haft.OutputBoolean, "0", `false`},
		{"maybe", haft.OutputBoolean, "maybe", "error: true or false"},
		{"no boolean", haft.OutputBoolean, "", "error: true or false"},
		{"unknown type", "xml", "x", "error: no such output type"},
	})
}

func TestRead_json(t *testing.T) {
	testRead(t, []readTest{
		{"object", haft.OutputJSON, ` {"b": 1, "a": [1.0]} `, `{"b":1,"a":[1.0]}`},
		{"scalar", haft.OutputJSON, "42", `42`},
		{"null", haft.OutputJSON, "null", `null`},
		{"byte order mark", haft.OutputJSON, "\ufeff{}", `{}`},
		{"fence", haft.OutputJSON, "Here:\n```json\n{\"a\":1}\n```\nDone.", `{"a":1}`},
		{"fence without a word", haft.OutputJSON, "```\n[1]\n```", `[1]`},
		{"only one fence is marked", haft.OutputJSON, "```sh\nls\n```\n```json\n{\"a\":1}\n```", `{"a":1}`},
		{"two fences", haft.OutputJSON, "```\n{}\n```\n```\n[]\n```", "error: several fences"},
		{"fence that is broken", haft.OutputJSON, "```json\n{canary7391\n```",
			"error: the fence in the output should hold JSON"},
		{"fence within a string", haft.OutputJSON, "{\"a\":\"```\\n```\"}", "{\"a\":\"```\\n```\"}"},
		{"after prose", haft.OutputJSON, "The result is: {\"a\":\"}{\"} as asked", `{"a":"}{"}`},
		{"after a log line", haft.OutputJSON, "[INFO] starting {x}\n{\"a\":[1]}", `{"a":[1]}`},
		{"two values", haft.OutputJSON, `{"a":1} {"b":2}`, "error: several JSON values"},
		{"lines of JSON", haft.OutputJSON, "{\"a\":1}\n{\"a\":2}", "error: several JSON values"},
		{"no JSON", haft.OutputJSON, "canary7391", "error: line 1, column 1"},
		{"no output", haft.OutputJSON, " \n", "error: is empty"},
		{"cut JSON", haft.OutputJSON, `{"a":`,
			"error: broken JSON: line 1, column 6: expected a value, but the text ends"},
		{"too deep", haft.OutputJSON, strings.Repeat("[", 200) + strings.Repeat("]", 200),
			`error: nested deeper than 100`},
		{"broken object with one in it", haft.OutputJSON, `{"a": {"b":1}, oops}`,
			"error: broken JSON: line 1, column 16: expected a key"},
		{"broken array with one in it", haft.OutputJSON, "x [1, {\"b\":1}, oops]", "error: broken JSON"},
		{"dates in brackets", haft.OutputJSON, "[2026-01-31 10:00] done {ok}\n{\"a\":1}", `{"a":1}`},
	})
}

func TestRead_list(t *testing.T) {
	testRead(t, []readTest{
		{"array", haft.OutputList, `[1, "a"]`, `[1,"a"]`},
		{"array in a fence", haft.OutputList, "```json\n[1]\n```", `[1]`},
		{"array alone on its lines", haft.OutputList, "Here you are:\n[\n 1,\n 2\n]\nBye", `[1,2]`},
		{"array within a line is text", haft.OutputList, "a [1]\nb", `["a [1]","b"]`},
		{"object is no list", haft.OutputList, `{}`, "error: is an object"},
		{"object in a fence is no list", haft.OutputList, "```\n{}\n```", "error: should hold a list"},
		{"lines", haft.OutputList, "a\n\n b, c \r\n", `["a","b, c"]`},
		{"marks", haft.OutputList, "- a\n- b", `["a","b"]`},
		{"numbers as marks", haft.OutputList, "1. a\n2) b", `["a","b"]`},
		{"marks of some lines stay", haft.OutputList, "- a\nb", `["- a","b"]`},
		{"one line", haft.OutputList, "a,b", `["a,b"]`},
		{"number is an item", haft.OutputList, "42", `["42"]`},
		{"no items", haft.OutputList, "", `[]`},
	})
}

func TestRead_is_bounded_on_what_looks_like_JSON(t *testing.T) {
	for _, part := range []string{`{"a":`, `[`, `[1,`, "```\n", `{"a":"`} {
		text := "x " + strings.Repeat(part, 2<<20/len(part))
		for _, typ := range haft.OutputTypes() {
			start := time.Now()
			if _, err := value.Read(text, typ); err != nil && len(haft.MessageOf(err)) > 200 {
				t.Errorf("a message of %d bytes", len(haft.MessageOf(err)))
			}
			if took := time.Since(start); took > 90*time.Second {
				t.Errorf("Read(%s…, %s) took %v", part, typ, took)
			}
		}
	}
}

func TestCheck(t *testing.T) {
	tests := []struct {
		name, raw string
		limit     int64
		want      string // part of the message, "" if it is fine
	}{
		{"value", `{"a":[1,2.5,null,"x"]}`, 0, ""},
		{"scalar", `null`, 0, ""},
		{"at the limit", `"12345678"`, 10, ""},
		{"beyond the limit", `"123456789"`, 10, "the value has 11 bytes, 10 is the most"},
		{"empty", ``, 0, "expected a value"},
		{"two", `1 2`, 0, "expected the end"},
		{"duplicate key", `{"a":1,"a":2}`, 0, "twice"},
		{"not UTF-8", "\"\xff\"", 0, "UTF-8"},
		{"half a surrogate pair", `"\udc00"`, 0, "surrogate"},
		{"NaN", `NaN`, 0, "NaN"},
		{"too large", `1e400`, 0, "too large"},
		{"deep enough", strings.Repeat("[", 100) + strings.Repeat("]", 100), 0, ""},
		{"too deep", strings.Repeat("[", 102) + strings.Repeat("]", 102), 0, "deeper than 100"},
		{"byte order mark", "\ufeff1", 0, "expected a value"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			err := value.Check(json.RawMessage(tt.raw), tt.limit)
			if tt.want == "" && err != nil || tt.want != "" &&
				(err == nil || !strings.Contains(haft.MessageOf(err), tt.want)) {
				t.Errorf("Check(%q) = %v, want %q", tt.raw, err, tt.want)
			}
			if errors.Is(err, value.ErrTooLarge) != strings.Contains(tt.name, "beyond") {
				t.Errorf("Check(%q) = %v: is it ErrTooLarge?", tt.raw, err)
			}
		})
	}
}

func TestMisfits(t *testing.T) {
	tests := []struct{ name, schema, raw, want string }{
		{"fits", `{"type":"integer"}`, `5`, ""},
		{"does not fit", `{"type":"object","properties":{"a":{"type":"integer"}}}`, `{"a":"canary7391"}`,
			"/a: must be an integer, is a string"},
		{"bytes as text", `{"type":"object","properties":{"a":{"type":"string","format":"binary"}}}`,
			`{"a":{"$type":"bytes","base64":"aGk="}}`, ""},
		{"bytes as a tag", `{"type":"object","properties":{"base64":{"type":"string"}},"required":["$type"]}`,
			`{"$type":"bytes","base64":"aGk="}`, ""},
		{"bytes that are not base64", `{"type":"string"}`, `{"$type":"bytes","base64":"!"}`,
			": must be a string, is an object"},
		{"bytes that are too short", `{"type":"string","minLength":9}`, `{"$type":"bytes","base64":"aGk="}`,
			": must have at least 9 characters, has 4"},
		{"NaN for a number", `{"type":"array","items":{"type":"number"}}`, `[1,{"$type":"float","value":"NaN"}]`,
			"/1: must be a finite number, is NaN or Infinity"},
		{"NaN where anything may be", `{}`, `{"$type":"float","value":"NaN"}`, ""},
		{"not JSON", `{}`, `x`, ": the value is not JSON: at byte 0: expected a value"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			tree, err := schema.Decode([]byte(tt.schema))
			if err != nil {
				t.Fatal(err)
			}
			c, err := schema.Compile(tree)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, said(value.Misfits(json.RawMessage(tt.raw), c))); diff != "" {
				t.Errorf("Misfits(%s) (-want +got):\n%s", tt.raw, diff)
			}
		})
	}
	if got := value.Misfits(json.RawMessage(`1`), nil); got != nil {
		t.Errorf("without a schema: %v", got)
	}
}

// said writes misfits one by line.
func said(all []haft.Misfit) string {
	var lines []string
	for _, m := range all {
		lines = append(lines, m.Pointer+": "+m.Message)
	}
	return strings.Join(lines, "\n")
}

func TestCut(t *testing.T) {
	long := strings.Repeat("é", 1000)
	tests := []struct {
		name, raw string
		max       int
		want      string
		left      int64
	}{
		{"short string", `"abc"`, 3, `"abc"`, 0},
		{"long string", `"` + long + `"`, 100, `"` + strings.Repeat("é", 59) +
			`… [cut: 941 of 1000 characters left out]"`, 941},
		{"no room for a note", `"` + long + `"`, 5, `"ééééé"`, 995},
		{"escapes count once", `"\u00e9\n"`, 2, `"\u00e9\n"`, 0},
		{"short object", `{"a": 1}`, 7, `{"a": 1}`, 0},
		{"long array", `[` + strings.Repeat("1, ", 100) + `1]`, 50,
			`"[1,1,1,1,1,… [cut: 192 of 203 characters left out]"`, 192},
		{"null", `null`, 1, `null`, 0},
		{"long number", `1234567`, 3, `"123"`, 4},
		{"nothing", ``, 10, `null`, 0},
		{"not JSON", "{\xff", 10, `"{` + "\ufffd" + `"`, 0},
		{"default limit", `"` + strings.Repeat("x", haft.DefaultMaxChars) + `"`, 0,
			`"` + strings.Repeat("x", haft.DefaultMaxChars) + `"`, 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, left := value.Cut(json.RawMessage(tt.raw), tt.max)
			if string(got) != tt.want || left != tt.left {
				t.Errorf("Cut = %s, %d, want %s, %d", got, left, tt.want, tt.left)
			}
			checkCut(t, tt.raw, tt.max, got, left)
		})
	}
	got, left := value.Cut(json.RawMessage(`"`+strings.Repeat("x", haft.DefaultMaxChars+1)+`"`), 0)
	checkCut(t, "", 0, got, left)
	if !strings.HasSuffix(string(got), fmt.Sprintf(`… [cut: %d of %d characters left out]"`, left,
		haft.DefaultMaxChars+1)) || left < 2 {
		t.Errorf("Cut by default leaves out %d: …%s", left, got[len(got)-60:])
	}
}

// checkCut checks what Cut always promises.
func checkCut(t *testing.T, raw string, maxChars int, got json.RawMessage, left int64) {
	t.Helper()
	if maxChars <= 0 {
		maxChars = haft.DefaultMaxChars
	}
	if !json.Valid(got) || !utf8.Valid(got) {
		t.Fatalf("Cut(%q, %d) = %q, which is not JSON", raw, maxChars, got)
	}
	if left == 0 {
		return
	}
	var text string
	if err := json.Unmarshal(got, &text); err != nil {
		t.Fatalf("Cut(%q, %d) = %q, want a string", raw, maxChars, got)
	}
	n := utf8.RuneCountInString(text)
	if n > maxChars {
		t.Errorf("Cut(%q, %d) has %d characters", raw, maxChars, n)
	}
	if maxChars >= 100 && !strings.Contains(text, fmt.Sprintf("… [cut: %d of ", left)) {
		t.Errorf("Cut(%q, %d) = %q has no note of %d", raw, maxChars, got, left)
	}
}

func TestValidators(t *testing.T) {
	tests := []struct{ name, expr, raw, want string }{
		{"true", "value > 3", `5`, ""},
		{"false", "value > 3", `2`, "does not satisfy validator 1: value > 3"},
		{"whole and fraction compare", "value > 3.5", `4`, ""},
		{"size", "size(value.items) > 0", `{"items":[]}`, "does not satisfy validator 1: size(value.items) > 0"},
		{"all", "value.all(x, x in ['a', 'b'])", `["a","b"]`, ""},
		{"matches", "value.matches('^[a-z]+$')", `"abc"`, ""},
		{"null", "value == null", `null`, ""},
		{"big number", "value > 1e20", `123456789012345678901234567890`, ""},
		{"missing key", "value.x > 0", `{"canary7391":1}`,
			"has not the shape that is needed for validator 1: value.x > 0"},
		{"wrong type", "value > 0", `"canary7391"`, "has not the shape that is needed for validator 1: value > 0"},
		{"not a boolean", "value.x", `{"x":"canary7391"}`, "does not satisfy validator 1: value.x"},
		{"cost", "value.all(a, value.all(b, value.all(c, a + b + c >= 0)))", "[" + strings.Repeat("1,", 999) + "1]",
			"is too large for validator 1: value.all(a, value.all(b, value.all(c, a + b + c >= 0)))"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			v, err := value.CompileValidators([]string{tt.expr})
			if err != nil {
				t.Fatal(err)
			}
			start := time.Now()
			got := strings.TrimPrefix(said(v.Check(context.Background(), json.RawMessage(tt.raw))), ": ")
			if got != tt.want {
				t.Errorf("Check = %q, want %q", got, tt.want)
			}
			if took := time.Since(start); took > 90*time.Second {
				t.Errorf("took %v", took)
			}
		})
	}
}

func TestValidators_stop_with_their_context(t *testing.T) {
	v, err := value.CompileValidators([]string{"value.all(a, value.all(b, a + b >= 0))"})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	got := said(v.Check(ctx, json.RawMessage("["+strings.Repeat("1,", 999)+"1]")))
	if !strings.Contains(got, "in time") {
		t.Errorf("Check = %q", got)
	}
}

func TestCompileValidators_names_what_is_wrong(t *testing.T) {
	tests := []struct{ name, expr, want string }{
		{"syntax", "value >", "validator 2 (value >): "},
		{"type", "1 + 1", "validator 2 (1 + 1): it gives int and must give bool"},
		{"unknown name", "args.x", "undeclared reference"},
		{"unknown function", "value.format()", "undeclared reference"},
		{"too long", strings.Repeat("true && ", 500) + "true", "more than 2000 characters"},
		{"too deep", strings.Repeat("(", 500) + "true" + strings.Repeat(")", 500), "validator 2"},
		{"empty", "", "validator 2 (): "},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := value.CompileValidators([]string{"true", tt.expr})
			if err == nil || !strings.Contains(haft.MessageOf(err), tt.want) {
				t.Errorf("CompileValidators = %v, want %q in it", err, tt.want)
			}
		})
	}
	if _, err := value.CompileValidators(make([]string, 21)); err == nil {
		t.Error("21 validators are accepted")
	}
	if v, err := value.CompileValidators(nil); err != nil ||
		v.Check(context.Background(), json.RawMessage(`1`)) != nil {
		t.Errorf("no validators: %v", err)
	}
}

// TestBound checks that parts are counted, and marks within texts are not.
func TestBound(t *testing.T) {
	for name, c := range map[string]struct {
		raw  string
		fits bool
	}{
		"numbers":   {"[" + strings.Repeat("1,", value.MaxParts) + "1]", false},
		"lists":     {"[" + strings.Repeat("[],", value.MaxParts/2) + "1]", false},
		"objects":   {"[" + strings.Repeat(`{"a":1},`, value.MaxParts/2) + "1]", false},
		"as many":   {"[" + strings.Repeat("1,", value.MaxParts-2) + "1]", true},
		"in a text": {`"` + strings.Repeat(`,[{\",`, value.MaxParts) + `"`, true},
		"a text":    {`"x"`, true},
	} {
		err := value.Check([]byte(c.raw), 64<<20)
		if c.fits != (err == nil) || !c.fits && !errors.Is(err, value.ErrTooLarge) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, typ := range []haft.OutputType{haft.OutputJSON, haft.OutputList} {
		if _, err := value.Read("["+strings.Repeat("1,", value.MaxParts)+"1]", typ); !errors.Is(err,
			value.ErrTooLarge) {
			t.Errorf("printed, as %s: %v", typ, err)
		}
	}
	if _, err := value.Read(strings.Repeat("a\n", value.MaxParts+1), haft.OutputList); !errors.Is(err,
		value.ErrTooLarge) {
		t.Errorf("many lines: %v", err)
	}
}
