package registry_test

import (
	"encoding/json"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"haft"
	"haft/internal/registry"
	"haft/schema"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// builtin is a built-in tool that takes an optional text.
func builtin(name string) haft.Tool {
	return haft.Tool{Name: name, Category: "code", Tags: []string{"builtin"}, Version: haft.Version{
		Description: "Is built in.",
		Parameters: json.RawMessage(
			`{"type":"object","properties":{"text":{"type":"string"}},"required":[],"additionalProperties":false}`),
	}}
}

func TestCompiled_Fit(t *testing.T) {
	c, err := registry.Compile(haft.Tool{Version: haft.Version{Parameters: json.RawMessage(
		`{"type":"object","properties":{"n":{"type":"integer"},"unit":{"type":"string","default":"m"}},"required":["n"]}`)}})
	if err != nil {
		t.Fatal(err)
	}
	tests := []struct{ name, args, want, failure string }{
		{"fits, with a default", `{"n":1}`, `{"n":1,"unit":"m"}`, ""},
		{"is coerced", `{"n":"2","unit":"km"}`, `{"n":2,"unit":"km"}`, ""},
		{"is a string of JSON", `"{\"n\":3}"`, `{"n":3,"unit":"m"}`, ""},
		{"misses", `{}`, "", "the arguments do not fit: /n is required"},
		{"is broken", `{"n":`, "", "arguments"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			fitted, failure := c.FitRead(schema.ReadArguments([]byte(tt.args)))
			got := fitted.Text
			if (failure != nil) != (tt.failure != "") {
				t.Fatalf("Fit(%s) = %s, %+v", tt.args, got, failure)
			}
			if failure != nil {
				if failure.Kind != haft.FailValidation || failure.Retry != haft.RetryChanged || failure.Message == "" {
					t.Errorf("Fit(%s) failure = %+v", tt.args, failure)
				}
				return
			}
			if string(got) != tt.want {
				t.Errorf("Fit(%s) = %s, want %s", tt.args, got, tt.want)
			}
		})
	}
}

// Only a tool of Python that runs as Letta's do gets 5 as text.
func TestCompiled_Fit_of_Letta(t *testing.T) {
	for _, tt := range []struct {
		kind  haft.Kind
		letta bool
		fits  bool
	}{{haft.KindPython, true, true}, {haft.KindPython, false, false}, {haft.KindTypeScript, true, false}} {
		c, err := registry.Compile(haft.Tool{Version: haft.Version{Kind: tt.kind,
			Settings:   haft.Settings{Letta: tt.letta},
			Parameters: json.RawMessage(`{"type":"object","properties":{"s":{"type":"string"}}}`)}})
		if err != nil {
			t.Fatal(err)
		}
		if got, failure := c.FitRead(schema.ReadArguments([]byte(`{"s":5}`))); (failure == nil) != tt.fits {
			t.Errorf("%+v: %s %v", tt, got.Text, failure)
		}
	}
}

func TestCompiled_Check(t *testing.T) {
	tests := []struct {
		name    string
		kind    haft.Kind
		returns string
		out     haft.Output
		value   string
		want    string // "" is a failure
	}{
		{"anything", haft.KindPython, "", haft.Output{}, `{"a":1}`, `{"a":1}`},
		{"schema fits", haft.KindPython, `{"type":"integer"}`, haft.Output{}, `5`, `5`},
		{"schema does not fit", haft.KindPython, `{"type":"integer"}`, haft.Output{Strict: true}, `"x"`, ``},
		{"schema of a server does not fit", haft.KindMCP, `{"type":"integer"}`, haft.Output{}, `"x"`, ``},
		{"validator holds", haft.KindPython, "", haft.Output{Validators: []string{"value > 3"}}, `5`, `5`},
		{"validator does not hold", haft.KindPython, "", haft.Output{Validators: []string{"value > 3"}}, `2`, ``},
		{"number", haft.KindPython, "", haft.Output{Type: haft.OutputNumber}, `-2.5`, `-2.5`},
		{"number in a text", haft.KindPython, "", haft.Output{Type: haft.OutputNumber}, `" 7 "`, `7`},
		{"number that is none", haft.KindPython, "", haft.Output{Type: haft.OutputNumber}, `[7]`, ``},
		{"number in no text", haft.KindPython, "", haft.Output{Type: haft.OutputNumber}, `"seven"`, ``},
		{"boolean", haft.KindPython, "", haft.Output{Type: haft.OutputBoolean}, `false`, `false`},
		{"boolean in a text", haft.KindPython, "", haft.Output{Type: haft.OutputBoolean}, `"Yes"`, `true`},
		{"boolean that is none", haft.KindPython, "", haft.Output{Type: haft.OutputBoolean}, `1`, ``},
		{"list", haft.KindPython, "", haft.Output{Type: haft.OutputList}, `[1]`, `[1]`},
		{"list in a text", haft.KindPython, "", haft.Output{Type: haft.OutputList}, `"- a\n- b"`, `["a","b"]`},
		{"list that is none", haft.KindPython, "", haft.Output{Type: haft.OutputList}, `{}`, ``},
		{"text", haft.KindPython, "", haft.Output{Type: haft.OutputText}, `"5"`, `"5"`},
		{"text is stripped", haft.KindPython, "", haft.Output{Type: haft.OutputText}, `" 5\n"`, `"5"`},
		{"text of a number", haft.KindPython, "", haft.Output{Type: haft.OutputText}, `5`, `"5"`},
		{"number among words", haft.KindPython, "", haft.Output{Type: haft.OutputNumber}, `"42 items"`, `42`},
		{"words that nobody reads", haft.KindPython, "", haft.Output{}, `"42 items"`, `"42 items"`},
		{"JSON", haft.KindPython, "", haft.Output{Type: haft.OutputJSON}, `{"a":1}`, `{"a":1}`},
		{"JSON in a text", haft.KindPython, "", haft.Output{Type: haft.OutputJSON}, `"{\"a\":1}"`, `{"a":1}`},
		{"JSON that a script printed is not read twice", haft.KindBash, "", haft.Output{Type: haft.OutputJSON}, `"5"`,
			`"5"`},
		{"schema of what was read", haft.KindPython, `{"type":"number"}`, haft.Output{Type: haft.OutputNumber}, `"7"`,
			`7`},
		{"cut", haft.KindPython, "", haft.Output{MaxChars: 3}, `"abcdef"`, `"abc"`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c, err := registry.Compile(haft.Tool{Version: haft.Version{Kind: tt.kind, Parameters: json.RawMessage(`{}`),
				Returns: json.RawMessage(tt.returns), Settings: haft.Settings{Output: tt.out}}})
			if err != nil {
				t.Fatal(err)
			}
			res := &haft.Result{Status: haft.StatusSuccess, Value: json.RawMessage(tt.value),
				Content: []haft.Content{{}}}
			c.Check(t.Context(), res)
			switch {
			case tt.want == "":
				kept := tt.value
				if len(tt.out.Validators) > 0 {
					kept = "null" // what a validator refuses stays inside
				}
				if res.Status != haft.StatusValidation || res.Error == nil || res.Error.Kind != haft.FailValue ||
					string(res.Value) != kept || (len(res.Content) > 0) != (kept != "null") {
					t.Errorf("Check(%s) = %+v", tt.value, res)
				}
			case res.Status != haft.StatusSuccess || string(res.Value) != tt.want:
				t.Errorf("Check(%s) = %s %s (%+v), want %s", tt.value, res.Status, res.Value, res.Error, tt.want)
			}
		})
	}
	c, err := registry.Compile(
		haft.Tool{Version: haft.Version{Parameters: json.RawMessage(`{}`),
			Settings: haft.Settings{Output: haft.Output{Type: haft.OutputText}}}})
	if err != nil {
		t.Fatal(err)
	}
	res := &haft.Result{Status: haft.StatusTimeout, Value: json.RawMessage(`null`)}
	if c.Check(t.Context(), res); res.Status != haft.StatusTimeout || res.Error != nil {
		t.Errorf("Check of a result that is no success = %+v", res)
	}
}

// A function that does not return what its annotation says gives its value all the same, with a warning.
func TestCompiled_Check_warns_of_another_return_type(t *testing.T) {
	c, err := registry.Compile(haft.Tool{Version: haft.Version{Kind: haft.KindPython, Parameters: json.RawMessage(`{}`),
		Returns: json.RawMessage(`{"type":"string"}`)}})
	if err != nil {
		t.Fatal(err)
	}
	res := &haft.Result{Status: haft.StatusSuccess, Value: json.RawMessage(`null`)}
	c.Check(t.Context(), res)
	if res.Status != haft.StatusSuccess || len(res.Notices) != 1 || !strings.Contains(res.Notices[0], "string") {
		t.Errorf("got %+v", res)
	}
}

// The output of a call that fails is cut like that of others.
func TestCompiled_Check_cuts_what_does_not_fit(t *testing.T) {
	c, err := registry.Compile(haft.Tool{Version: haft.Version{Kind: haft.KindBash, Parameters: json.RawMessage(`{}`),
		Settings: haft.Settings{Output: haft.Output{Type: haft.OutputNumber, MaxChars: 3}}}})
	if err != nil {
		t.Fatal(err)
	}
	for _, res := range []*haft.Result{
		{Status: haft.StatusSuccess, Value: json.RawMessage(`"abcdef"`)},
		{Status: haft.StatusValidation, Value: json.RawMessage(`"abcdef"`), Error: &haft.Failure{Kind: haft.FailValue}},
	} {
		if c.Check(t.Context(), res); res.Status != haft.StatusValidation || string(res.Value) != `"abc"` {
			t.Errorf("got %+v", res)
		}
	}
}

// A tool without parameters cannot be called with other arguments, and nobody is asked to.
func TestCompiled_Check_advises_to_change_arguments_only_if_there_are_some(t *testing.T) {
	for params, want := range map[string]haft.Retry{
		`{"type":"object","properties":{}}`:                              haft.RetryNever,
		`{"type":"object","properties":{},"additionalProperties":false}`: haft.RetryNever,
		`{"type":"object","properties":{},"additionalProperties":true}`:  haft.RetryChanged,
		`{"type":"object","properties":{"a":{"type":"string"}}}`:         haft.RetryChanged,
		`{"type":"object"}`: haft.RetryChanged,
	} {
		c, err := registry.Compile(haft.Tool{Version: haft.Version{Parameters: json.RawMessage(params)}})
		if err != nil {
			t.Fatal(err)
		}
		res := &haft.Result{Status: haft.StatusError,
			Error: &haft.Failure{Kind: haft.FailException, Retry: haft.RetryChanged}}
		if c.Check(t.Context(), res); res.Error.Retry != want {
			t.Errorf("%s: got %s", params, res.Error.Retry)
		}
	}
}

// Short names of languages become long before any rule sees them, for built-in tools only.
func TestCompiled_FitRead_knows_short_names_of_languages(t *testing.T) {
	const languages = `{"type":"object","properties":{"language":{"enum":["python","javascript","typescript"]}}}`
	const countries = `{"type":"object","properties":{"language":{"enum":["de","ts"]}}}`
	for _, tt := range []struct {
		kind                haft.Kind
		params, given, want string // "" is a refusal
	}{
		{haft.KindBuiltin, languages, "js", "javascript"},
		{haft.KindBuiltin, languages, "ts", "typescript"},
		{haft.KindBuiltin, languages, "python", "python"},
		{haft.KindBuiltin, languages, "perl", ""},
		{haft.KindBuiltin, countries, "ts", "ts"},
		{haft.KindPython, languages, "js", ""},
	} {
		c, err := registry.Compile(haft.Tool{Version: haft.Version{Kind: tt.kind,
			Parameters: json.RawMessage(tt.params)}})
		if err != nil {
			t.Fatal(err)
		}
		args := (&schema.Object{}).Set("language", tt.given)
		got, failure := c.FitRead(args, nil)
		if (failure == nil) != (tt.want != "") || failure == nil && got.Tree.String("language") != tt.want ||
			args.String("language") != tt.given {
			t.Errorf("%+v: %s %v", tt, got.Text, failure)
		}
	}
}

func TestCompile_refuses(t *testing.T) {
	for name, v := range map[string]haft.Version{
		"no schema":           {},
		"broken schema":       {Parameters: json.RawMessage(`{"type":"x"}`)},
		"broken value schema": {Parameters: json.RawMessage(`{}`), Returns: json.RawMessage(`[`)},
		"broken validator": {Parameters: json.RawMessage(`{}`),
			Settings: haft.Settings{Output: haft.Output{Validators: []string{"1"}}}},
	} {
		if c, err := registry.Compile(haft.Tool{Version: v}); err == nil {
			t.Errorf("Compile of a tool with %s = %+v", name, c)
		}
	}
}

func TestNew_panics_on_built_in_tools_that_are_none(t *testing.T) {
	bad := builtin("x")
	bad.Version.Parameters = json.RawMessage(`{`)
	for name, tools := range map[string][]haft.Tool{
		"two of a name": {builtin("x"), builtin("x")}, "bad name": {builtin("x y")}, "bad schema": {bad},
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("New with %s does not panic", name)
				}
			}()
			registry.New(open(t), registry.Config{Builtin: tools})
		}()
	}
}

// The schemas of a built-in tool are compiled when it is first called, and what means nothing is an error then.
func TestResolve_built_in_tool_with_bad_schema(t *testing.T) {
	bad := builtin("x")
	bad.Version.Parameters = json.RawMessage(`{"type":"sideways"}`)
	r := registry.New(open(t), registry.Config{Builtin: []haft.Tool{bad, builtin("y")}})
	for range 2 {
		if c, err := r.Resolve(t.Context(), "acme", "x", ""); err == nil {
			t.Errorf("Resolve = %+v", c)
		}
	}
	if _, err := r.Resolve(t.Context(), "acme", "y", ""); err != nil {
		t.Error(err)
	}
}

// Items of a generator are told only as far as the check of the value cannot refuse or cut them.
func TestCompiled_ItemChars(t *testing.T) {
	for name, tt := range map[string]struct {
		returns string
		out     haft.Output
		want    int
		fits    bool // whether the item "a" fits
	}{
		"nothing is checked": {"", haft.Output{}, haft.DefaultMaxChars, true},
		"it is cut":          {"", haft.Output{MaxChars: 10, Type: haft.OutputList}, 10, true},
		"any array":          {`{"type":"array"}`, haft.Output{Strict: true}, haft.DefaultMaxChars, true},
		"texts":              {`{"type":"array","items":{"type":"string"}}`, haft.Output{Strict: true}, haft.DefaultMaxChars, true},
		"numbers":            {`{"type":"array","items":{"type":"integer"}}`, haft.Output{Strict: true}, haft.DefaultMaxChars, false},
		"a length":           {`{"type":"array","minItems":2}`, haft.Output{Strict: true}, 0, false},
		"a union":            {`{"anyOf":[{"type":"array"}]}`, haft.Output{Strict: true}, 0, true},
		"no array":           {`{"type":"string"}`, haft.Output{Strict: true}, 0, false},
		"two types":          {`{"type":["array","null"]}`, haft.Output{Strict: true}, 0, true},
		"a validator":        {"", haft.Output{Validators: []string{"true"}}, 0, true},
		"a text":             {"", haft.Output{Type: haft.OutputText}, 0, true},
		"a type that nobody enforces": {`{"type":"string"}`, haft.Output{Type: haft.OutputList}, haft.DefaultMaxChars,
			true},
	} {
		c, err := registry.Compile(haft.Tool{Version: haft.Version{Kind: haft.KindPython, Parameters: json.RawMessage(`{}`),
			Returns: json.RawMessage(tt.returns), Settings: haft.Settings{Output: tt.out}}})
		if err != nil {
			t.Fatal(err)
		}
		if got := c.ItemChars(); got != tt.want {
			t.Errorf("%s: got %d, want %d", name, got, tt.want)
		}
		if got := c.FitsItem(json.RawMessage(`"a"`)); got != tt.fits {
			t.Errorf("%s: the item fits: got %t", name, got)
		}
	}
}
