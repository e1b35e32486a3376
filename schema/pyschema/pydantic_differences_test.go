package pyschema_test

import (
	"testing"

	"haft/schema"
	"haft/schema/pyschema"
)

// TestDerive_differsFromPydantic lists where our schemas and Pydantic disagree on
// purpose, or because JSON Schema cannot say it. The generator of
// [TestDerive_agreesWithPydantic] stays clear of these. A row that is no longer
// true fails, so that the list stays honest.
func TestDerive_differsFromPydantic(t *testing.T) {
	const declarations = `

class Plain(Enum):
    RED = 'red'


class Open(TypedDict):
    k: int


class Closed(BaseModel, extra='forbid'):
    open: Open
`
	tests := []struct {
		name, annotation, value string
		accepted                bool // by Pydantic
	}{
		// More than one way to write a value: we ask for the one that the format
		// names.
		{"a duration that is not ISO 8601", "timedelta", `"01:02:03"`, true},
		{"a duration in words", "timedelta", `"1 day, 01:02:03"`, true},
		{"a moment as seconds in text", "datetime", `"1700000000"`, true},
		{"a moment with an underscore for the T", "datetime", `"2024-05-06_07:08:09"`, true},
		{"a moment with a comma before the fraction", "datetime", `"2024-05-06T07:08:09,5"`, true},
		{"a name before an e-mail address", "EmailStr", `"Ann <ann@example.org>"`, true},
		{"a decimal with an underscore", "Decimal", `"1_000"`, true},
		{"a key that is a number with a fraction", "dict[int, int]", `{"1.0": 2}`, true},

		// Python and JSON mean different things.
		{"an item twice in a set, which Pydantic's own schema forbids", "set[int]", `[2, 2]`, true},
		{"1 for True, which are equal in Python", "Literal[True]", `1`, true},
		{"true for 1, which are equal in Python", "Literal[1]", `true`, true},
		{"an iterable, which Pydantic does not look into", "t.Iterable[int]", `["x"]`, true},
		{"an enum in a Literal, which Pydantic cannot read from JSON", "Literal[Plain.RED]", `"red"`, false},

		// JSON Schema cannot say it, or only by spelling it out.
		{"a bound on a decimal in text", "Annotated[Decimal, Field(ge=2)]", `"1"`, false},
		{"the digits of a decimal", "Annotated[Decimal, Field(max_digits=2)]", `"1.23"`, false},
		{"the scheme of a URL", "HttpUrl", `"ftp://example.org"`, false},
		{"the version of a UUID", "UUID4", `"0b0a3c1e-8f0e-1c55-9c86-2f6f3c2b1a00"`, false},
		{"a domain that nobody can own", "EmailStr", `"ann@localhost"`, false},
		{"a leap second", "time", `"23:59:60"`, false},
		{"a typed dict that inherits extra=forbid", "Closed", `{"open": {"k": 2, "more": 2}}`, false},
	}
	ref := newReferee(t)
	all := needPython(t)
	read := newLasting(t, all[len(all)-1]).read
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			source := preamble + declarations + "\n\ndef tool(p: " + tt.annotation + "):\n    pass\n"
			value := `{"p": ` + tt.value + `}`
			a := ref.ask(t, question{Source: source, Tools: []asked{{Name: "tool", Values: []string{value}}}})
			if a.Error != "" || a.Tools[0].Error != "" {
				t.Fatalf("the referee: %s%s", a.Error, a.Tools[0].Error)
			}
			if v := a.Tools[0].Verdicts[0]; v.Strict != tt.accepted || v.Lax != tt.accepted {
				t.Errorf("Pydantic says %+v about %s %s", v, tt.annotation, tt.value)
			}
			sig, err := pyschema.Derive(t.Context(), read, []byte(source),
				schema.Options{Function: "tool", DescriptionsOptional: true})
			if err != nil {
				t.Fatal(err)
			}
			ours, err := schema.Compile(sig.Parameters)
			if err != nil {
				t.Fatal(err)
			}
			args, err := schema.Decode([]byte(value))
			if err != nil {
				t.Fatal(err)
			}
			if misfits := ours.Check(args); (len(misfits) == 0) == tt.accepted {
				t.Errorf("our schema says the same as Pydantic about %s %s: %v", tt.annotation, tt.value, misfits)
			}
		})
	}
}
