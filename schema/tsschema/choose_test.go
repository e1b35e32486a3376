package tsschema_test

import (
	"strings"
	"testing"

	"haft/schema"
	"haft/schema/tsschema"
)

func TestTools(t *testing.T) {
	const one, two = "/** One. */\nexport function one() {}\n", "/** Two. */\nexport const two = () => 2;\n"
	for _, test := range []struct{ name, source, want string }{
		{"documented", one + two, "one two"},
		{"undocumented_helper", one + "export function helper() {}\n", "one"},
		{"not_exported", one + "/** Two. */\nfunction two() {}\n", "one"},
		{"marked", one + "/** Two. @tool */\nexport function x() {}\n/** @tool */\nexport function three() " +
			"{}\n", "three"},
		{"default", one + two + "/** Three. */\nexport default function three() {}\n", "default"},
		{"export_list", "/** One. */\nfunction one() {}\nexport { one as uno };\n" + two, "uno two"},
		{"only_undocumented", "export function one() {}\n", "one"},
		{"several_undocumented", "export function one() {}\nexport function two() {}\n",
			"f.ts: 2 functions can be the tool, and none of them is documented: one, two: document those that are " +
				"tools, " +
				"or name one, such as f.ts:one"},
		{"none", "function one() {}\n", "f.ts: line 1, column 10: no function is exported: write export before the " +
			"function " +
			"that is the tool, or assign it to module.exports"},
	} {
		t.Run(test.name, func(t *testing.T) {
			names, err := tsschema.Tools(t.Context(), []byte(test.source), tsschema.Config{})
			got := strings.Join(names, " ")
			if err != nil {
				got = schema.InFile("f.ts", err).Error()
			}
			if got != test.want {
				t.Errorf("Tools = %q, want %q", got, test.want)
			}
		})
	}
}

func TestDerive_takes_one_tool(t *testing.T) {
	const one, two = "/** One. */\nexport function one() {}\n", "/** Two. */\nexport function two() {}\n"
	for _, test := range []struct {
		source, function string
		one              bool
		want             string
	}{
		{one + "export function helper() {}\n", "", true, "one"},
		{one + two, "", true, "FILE: 2 functions are tools: one, two: name one, such as FILE:one"},
		{one + two, "two", true, "two"},
		{one + two, "", false, "two"},
	} {
		got := ""
		r, err := tsschema.Derive(t.Context(), []byte(test.source),
			tsschema.Config{Options: schema.Options{Function: test.function, OneTool: test.one}})
		if err != nil {
			got = err.Error()
		} else {
			got = r.Export
		}
		if got != test.want {
			t.Errorf("Derive(%q, %q, %v) = %q, want %q", test.source, test.function, test.one, got, test.want)
		}
	}
}

func TestDerive_warns_of_contradictions(t *testing.T) {
	const not = "the comment describes it, and the function does not have it: remove it, or rename it"
	for _, test := range []struct{ name, comment, params, want string }{
		{"same", "@param {string} a One.", "a: string", ""},
		{"other_type", "@param {number} a One.", "a: string",
			"line 2, column 4: function f: parameter a: the comment gives it another type than its annotation, which " +
				"counts: correct one of them"},
		{"not_there", "@param a One. \n * @param b Two.", "a: string", "line 3, column 4: function f: parameter b: " +
			"" + not},
		{"nested", "@param a One. \n * @param a.b Two.", "a: {b: string}", ""},
		{"destructured", "@param options All. \n * @param options.b Two.", "{ b }: {b: string}", ""},
		{"unknown", "@param {Thing} a One.", "a: string", ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			source := "/** Do it.\n * " + test.comment + " */\nexport function f(" + test.params + ") {}\n"
			r, err := tsschema.Derive(t.Context(), []byte(source),
				tsschema.Config{Options: schema.Options{DescriptionsOptional: true}})
			if err != nil {
				t.Fatal(err)
			}
			got := ""
			for _, w := range r.Warnings {
				got += w.Error()
			}
			if got != test.want {
				t.Errorf("warnings of %q: %q, want %q", source, got, test.want)
			}
		})
	}
}
