package script_test

import (
	"encoding/json"
	"strings"
	"testing"

	"haft"
	"haft/executor"
	"haft/executor/script"
)

// bashCases are shell scripts.
var bashCases = []toolCase{
	{name: "prints_text", source: "echo hello; echo there >&2", want: `"hello"`, stdout: "hello\n"},
	{name: "arguments", source: `echo "$ARG_NAME,$ARG_N,$ARG_LIST,$ARG_B_C,$ARG_NIL"; cat "$HAFT_ARGS"`,
		args: `{"name":"x y $(id)","n":1.50,"list":[1,"a"],"b-c":true,"nil":null}`,
		want: `"x y $(id),1.50,[1,\"a\"],true,null\n{\"name\":\"x y $(id)\",\"n\":1.50,\"list\":[1,\"a\"],\"b-c\":true,\"nil\":null}"`},
	{name: "explicit_result", source: `echo noise; echo '{"a": [1]}' >&$HAFT_RESULT`, want: `{"a": [1]}`,
		stdout: "noise\n"},
	{name: "explicit_result_of_a_program", source: `printf '%s' 7 | cat >&$HAFT_RESULT`, want: `7`},
	{name: "two_explicit_results", source: `echo 1 >&3; echo 2 >&3`, kind: haft.FailProtocol},
	{name: "no_json_as_result", source: `echo hello >&3`, kind: haft.FailProtocol},
	{name: "floods_the_result", source: `head -c 20000000 /dev/zero | tr '\0' 1 >&3`, kind: haft.FailResult,
		status: haft.StatusLimit},
	{name: "fails", source: "echo before\necho 'it broke' >&2\nexit 3", kind: haft.FailExit, stdout: "before\n",
		says: []string{"status 3", "it broke"}},
	{name: "command_not_found", source: "no_such_command_here", kind: haft.FailExit,
		says: []string{"status 127", "line 1: no_such_command_here"}, hides: []string{".haft", "/tmp"}},
	{name: "syntax", source: "if true; then\n  echo (", kind: haft.FailExit, says: []string{"line 2: syntax error"}},
	{name: "signal", source: "kill -SEGV $$", kind: haft.FailSignal, says: []string{"signal 11"}},
	{name: "background_process_left_behind", source: "sleep 60 >/dev/null 2>&1 &\necho ok", want: `"ok"`},
	{name: "prints_nothing", source: "true", want: `""`},
}

func TestBash(t *testing.T) {
	x := setup(t, haft.KindBash, script.Config{})
	for _, c := range bashCases {
		t.Run(c.name, func(t *testing.T) { c.check(t, x, haft.KindBash) })
	}
}

func TestBash_reads_output_as_declared(t *testing.T) {
	x := setup(t, haft.KindBash, script.Config{})
	res := execute(t, x, executor.Request{Kind: haft.KindBash, Source: `echo '{"a":1}'`, Output: haft.OutputJSON})
	if string(res.Value) != `{"a":1}` {
		t.Errorf("got %s %+v, want the object", res.Value, res.Error)
	}
	res = execute(t, x, executor.Request{Kind: haft.KindBash, Source: `echo many`, Output: haft.OutputNumber})
	if res.Error == nil || res.Error.Kind != haft.FailValue {
		t.Errorf("got %s %+v, want %s", res.Value, res.Error, haft.FailValue)
	}
}

func TestBash_refuses_arguments_that_no_variable_can_hold(t *testing.T) {
	x := setup(t, haft.KindBash, script.Config{})
	for _, args := range []string{`{"a-b":1,"a_b":2}`, `{"a":"\u0000"}`} {
		_, err := x.Execute(t.Context(), executor.Request{Kind: haft.KindBash, Org: "o", Tool: "t", Source: "true",
			Args: json.RawMessage(args)})
		if haft.CodeOf(err) != haft.CodeInvalid {
			t.Errorf("%s: got %v, want %s", args, err, haft.CodeInvalid)
		}
	}
	big := `{"a":"` + strings.Repeat("x", 200<<10) + `"}`
	res := execute(t, x, executor.Request{Kind: haft.KindBash, Source: `echo "${ARG_A-unset}"; wc -c <"$HAFT_ARGS"`,
		Args: json.RawMessage(big)})
	if string(res.Value) != `"unset\n204808"` {
		t.Errorf("got %s %+v, want a large argument in the file only", res.Value, res.Error)
	}
}
