package letta_test

import (
	"fmt"
	"strings"
	"testing"

	"haft/compat/letta"
)

// TestReplay_servers has the cases of MCP servers and sandbox configurations.
func TestReplay_servers(t *testing.T) {
	t.Parallel()
	w := openReplay(t, letta.Settings{})
	for _, tt := range []struct {
		name string
		run  func(r *replay)
	}{
		{"row_32_languages_of_run_code", codeLanguages},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			tt.run(w.with(t))
		})
	}
}

func codeLanguages(r *replay) {
	_, list := r.send("GET", "/tools/?name=run_code", nil)
	tools := decode[[]body](r.t, list)
	if len(tools) != 1 {
		r.t.Fatalf("the tools: %s", list)
	}
	agent := r.get("POST", "/agents/", body{"name": "coder", "tool_ids": []any{tools[0]["id"]}})["id"].(string)
	for language, code := range map[string]string{"js": "console.log(1 + 1)",
		"ts": "const n: number = 2; console.log(n)", "python": "print(2)", "": "print(2)"} {
		args := body{"code": code}
		if language != "" {
			args["language"] = language
		}
		got := r.get("POST", "/agents/"+agent+"/tools/run_code/run", body{"args": args})
		if out, _ := got["func_return"].(body); got["status"] != "success" || out["stdout"] != "2\n" {
			r.t.Errorf("%q: %v", language, got)
		}
	}
	got := r.get("POST", "/agents/"+agent+"/tools/run_code/run", body{"args": body{"code": "1", "language": "r"}})
	if got["status"] != "error" {
		r.t.Errorf("a language that is not here: %v", got)
	}
}

// TestReplay_settings has the cases that an operator decides.
func TestReplay_settings(t *testing.T) {
	t.Parallel()
	const program = "import subprocess\ndef %s():\n    \"\"\"One.\"\"\"\n" +
		"    return subprocess.run(['echo', 'hi'], capture_output=True, text=True).stdout.strip()"
	const variable = "import os\ndef f():\n    return os.environ['BASE'] + '/v1'"
	env := body{"env_vars": body{"BASE": "https://api.example.com"}}
	t.Run("row_29_programs", func(t *testing.T) {
		t.Parallel()
		r := openReplay(t, letta.Settings{Programs: []string{"echo"}})
		tool, agent := r.put(body{"source_code": strings.ReplaceAll(program, "%s", "started")})
		r.call(tool, agent, body{}, `"hi"`)
	})
	t.Run("row_31_public_variables", func(t *testing.T) {
		t.Parallel()
		r := openReplay(t, letta.Settings{}, "BASE")
		r.run(variable, body{}, "https://api.example.com/v1", env)
		r.run(strings.ReplaceAll(variable, "BASE", "OTHER"), body{}, "[redacted:OTHER]/v1",
			body{"env_vars": body{"OTHER": "https://api.example.org"}})
	})
	t.Run("neither", func(t *testing.T) {
		t.Parallel()
		r := openReplay(t, letta.Settings{})
		r.run(variable, body{}, "[redacted:BASE]/v1", env)
		tool, agent := r.put(body{"source_code": strings.ReplaceAll(program, "%s", "refused")})
		got := r.get("POST", "/agents/"+agent+"/tools/"+tool["name"].(string)+"/run", body{"args": body{}})
		if text := fmt.Sprint(got["stderr"]); got["status"] != "error" || !strings.Contains(text, "--letta-program") {
			t.Errorf("a program of the host: %v", got)
		}
	})
}
