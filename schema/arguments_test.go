package schema_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"haft"
	"haft/schema"
)

// jsonString encodes s as a JSON string n times.
func jsonString(t *testing.T, s string, n int) string {
	for range n {
		s = textOf(t, s)
	}
	return s
}

func TestReadArguments(t *testing.T) {
	tests := []struct{ name, text, want string }{
		{"object", `{"a":1,"b":[true,null,"x"]}`, `{"a":1,"b":[true,null,"x"]}`},
		{"order is kept", `{"z":1,"a":2}`, `{"z":1,"a":2}`},
		{"white space around", " \n\t{\"a\": 1}\r\n", `{"a":1}`},
		{"byte order mark", "\ufeff{\"a\":1}", `{"a":1}`},
		{"nothing", "", `{}`},
		{"white space", " \n", `{}`},
		{"byte order mark alone", "\ufeff", `{}`},
		{"null", "null", `{}`},
		{"empty string", `""`, `{}`},
		{"encoded once", jsonString(t, `{"a":"x"}`, 1), `{"a":"x"}`},
		{"encoded three times", jsonString(t, `{"a":"x"}`, 3), `{"a":"x"}`},
		{"fence", "```\n{\"a\":1}\n```", `{"a":1}`},
		{"json fence", "```json\n{\"a\":1}\n```\n", `{"a":1}`},
		{"JSON fence on one line", "```JSON {\"a\":1}```", `{"a":1}`},
		{"fence with prose", "Here you are:\n```json\n{\"a\":1}\n```\nAnything else?", `{"a":1}`},
		{"fence of a string", "```\n" + jsonString(t, `{"a":1}`, 1) + "\n```", `{"a":1}`},
		{"fence within a string", jsonString(t, "```json\n{\"a\":1}\n```", 1), `{"a":1}`},
		{"fences within a value", "```json\n{\"code\":\"```py\\nx\\n```\"}\n```", "{\"code\":\"```py\\nx\\n```\"}"},
		{"fence in an object without one", "{\"a\":\"```\"}", "{\"a\":\"```\"}"},
		{"empty fence", "```json\n```", `{}`},
		{"braces within a string", `{"a":"}{","b":"\"}"}`, `{"a":"}{","b":"\"}"}`},
		{"big integer", `{"a":123456789012345678901234567890}`, `{"a":123456789012345678901234567890}`},
		{"escapes", `{"a":"\u00e9\ud83d\ude00\n\/"}`, `{"a":"é😀\n/"}`},
		{"empty key", `{"":1}`, `{"":1}`},
		{"largest float", `{"a":1.7e308}`, `{"a":1.7e308}`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := schema.ReadArguments([]byte(tt.text))
			if err != nil {
				t.Fatalf("ReadArguments(%q): %v", tt.text, err)
			}
			if textOf(t, got) != tt.want {
				t.Errorf("ReadArguments(%q) = %s, want %s", tt.text, textOf(t, got), tt.want)
			}
		})
	}
}

func TestReadArguments_says_where_it_is_broken(t *testing.T) {
	tests := []struct{ name, text, want string }{
		{"cut", `{"a":1`, "line 1, column 7 (byte 6): expected a comma or }, but the text ends"},
		{"cut string", `{"a":"canary7391`,
			"line 1, column 6 (byte 5): expected a closing double quote: a string that begins here does not end"},
		{"cut after the colon", `{"a":`, "line 1, column 6 (byte 5): expected a value, but the text ends"},
		{"second line", "{\n  \"é\": x}", "line 2, column 8 (byte 10): expected a value"},
		{"no colon", `{"a" 1}`, "column 6 (byte 5): expected a colon after the key"},
		{"no comma", `{"a":1 "b":2}`, "column 8 (byte 7): expected a comma or }"},
		{"comma before the end", `{"a":1,}`, "column 8 (byte 7): expected a key: no comma may stand before }"},
		{"comma before the end of a list", `{"a":[1,]}`, "expected a value: no comma may stand before ]"},
		{"single quotes", `{'a':1}`, "column 2 (byte 1): expected a key in double quotes"},
		{"single quotes of a value", `{"a":'canary7391'}`, "JSON has no single quotes"},
		{"Python's literals", `{"a":True}`, "expected true, written in lower case"},
		{"None", `{"a":None}`, "expected null"},
		{"NaN", `{"a":NaN}`, "NaN is not a JSON number"},
		{"Infinity", `{"a":Infinity}`, "Infinity is not a JSON number"},
		{"minus Infinity", `{"a":-Infinity}`, "expected a digit"},
		{"comment", `{"a":/* canary7391 */1}`, "JSON has no comments"},
		{"too large", `{"a":1e400}`, "byte 5): a number is too large"},
		{"huge exponent", `{"a":1e99999999999}`, "a number is too large"},
		{"huge negative exponent", `{"a":1e-99999999999}`, "a number is too close to zero"},
		{"zero with a huge exponent", `{"a":0e99999999999}`, "exponent"},
		{"long number", `{"a":` + strings.Repeat("7", 5000) + `}`, "a number has 5000 characters, 4300 is the most"},
		{"leading zero", `{"a":05}`, "must not start with 0"},
		{"duplicate key", `{"a":1,"canary7391":1,"canary7391":2}`, "byte 22): a key stands twice in one object"},
		{"duplicate key by escape", `{"a":1,"\u0061":2}`, "a key stands twice"},
		{"too deep", `{"a":` + strings.Repeat("[", 200) + strings.Repeat("]", 200) + `}`, "nested deeper than 128"},
		{"list", `[1]`, "line 1, column 1 (byte 0): expected an object, this is an array"},
		{"number", ` 5`, "column 2 (byte 1): expected an object, this is a number"},
		{"string that is no JSON", `"canary7391"`,
			"within the string that holds them line 1, column 1 (byte 0): expected a value"},
		{"encoded four times", jsonString(t, `{"a":1}`, 4), "more than 3 times"},
		{"two objects", `{"a":1}{"b":2}`, "byte 7): expected the end"},
		{"prose", "the answer is canary7391", "column 1 (byte 0): expected a value"},
		{"prose after", `{"a":1} canary7391`, "byte 8): expected the end"},
		{"two fences", "```\n{}\n```\n```\n{}\n```", "expected no second fence"},
		{"fence that is open", "```json\n{\"a\":1}", "expected ``` to close the fence"},
		{"fence of another language", "```python\nx=1\n```", "expected a value"},
		{"line break in a string", "{\"a\":\"canary\n7391\"}", `a line break within a string must be written as \n`},
		{"control character", "{\"a\":\"\x01\"}", "a control character"},
		{"bad escape", `{"a":"\x41"}`, "after a backslash"},
		{"half a surrogate pair", `{"a":"\ud800"}`, "half of a surrogate pair"},
		{"not UTF-8", "{\"a\":\"\xff\"}", "not valid UTF-8"},
		{"binary", "\x00\x01\x02", "byte 0): expected a value"},
		{"too long", `{"a":"` + strings.Repeat("x", schema.MaxBytes) + `"}`,
			fmt.Sprintf("%d is the most", schema.MaxBytes)},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := schema.ReadArguments([]byte(tt.text))
			if err == nil {
				t.Fatalf("ReadArguments accepted it: %s", textOf(t, got))
			}
			if _, ok := errors.AsType[*haft.Error](err); !ok || haft.CodeOf(err) != haft.CodeInvalid {
				t.Errorf("ReadArguments gives %T, code %s", err, haft.CodeOf(err))
			}
			if !strings.Contains(haft.MessageOf(err), tt.want) {
				t.Errorf("ReadArguments says %q, want %q in it", haft.MessageOf(err), tt.want)
			}
			if strings.Contains(err.Error(), "7391") {
				t.Errorf("ReadArguments quotes: %v", err)
			}
		})
	}
}

func TestReadArguments_bounds_the_number_of_values(t *testing.T) {
	list := func(n int) string { return strings.TrimSuffix(strings.Repeat("0,", n), ",") }
	if _, err := schema.ReadArguments([]byte(`{"x":[` + list(schema.MaxValues-2) + `]}`)); err != nil {
		t.Errorf("at the bound: %v", err)
	}
	for name, text := range map[string]string{
		"an object":            `{"x":[` + list(schema.MaxValues-1) + `]}`,
		"a string with one":    textOf(t, `{"x":[`+list(schema.MaxValues-1)+`]}`),
		"a fence with one":     "```json\n" + `{"x":[` + list(schema.MaxValues-1) + "]}\n```",
		"empty objects nested": `{"x":[` + strings.TrimSuffix(strings.Repeat("{},", 2_000_000), ",") + `]}`,
	} {
		if _, err := schema.ReadArguments([]byte(text)); err == nil ||
			!strings.Contains(err.Error(), "more than 100000 values") {
			t.Errorf("%s: %v", name, err)
		}
	}
}
