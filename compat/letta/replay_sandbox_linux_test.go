package letta_test

import (
	"fmt"
	"strings"
	"testing"

	"haft/compat/letta"
	"haft/internal/layer"
	"haft/internal/layer/layertest"
	"haft/internal/supply"
)

// TestReplay_sandbox has the cases of Letta's tests of its local sandbox that the other scripts do not have.
func TestReplay_sandbox(t *testing.T) {
	wheels := t.TempDir()
	layertest.Wheel(t, wheels, "cowsay", "6.1", "def get_output_string(name, text):\n    return name + ': ' + text\n")
	server := openReplayWith(t, supply.Config{Index: layer.Index{Wheels: []string{wheels}, Offline: true},
		Installer: "pip"}, letta.Settings{})
	for _, tt := range []struct {
		name string
		run  func(*replay)
	}{
		{"values of sync and async tools", valuesOfTools},
		{"tools that raise an error", errorsOfTools},
		{"a module that is missing until a package is named", missingModule},
		{"a secret of the agent before a variable of the sandbox", secretOfAgent},
		{"memory_clear", clearMemory},
	} {
		t.Run(tt.name, func(t *testing.T) { tt.run(server.with(t)) })
	}
}

func valuesOfTools(r *replay) {
	for _, async := range []string{"", "async "} {
		r.run(async+"def add(x: int, y: int) -> int:\n    return x + y", body{"x": 10, "y": 5}, "15")
		r.run(async+"def several() -> list:\n    return [1, 2, 3, 4, 5]", body{}, "[1, 2, 3, 4, 5]")
		r.run("import warnings\n"+async+"def warn() -> str:\n    warnings.warn('old')\n    return 'ok'", body{}, "ok")
	}
	tool, agent := r.put(body{"source_code": "async def double(n: int) -> dict:\n    \"\"\"Double numbers.\n\n" +
		"    Args:\n        n (int): how many\n    \"\"\"\n    async def one(i):\n        await asyncio.sleep(0)\n" +
		"        return 2 * i\n    return {'results': await asyncio.gather(*map(one, range(n))), 'iterations': n}"})
	r.call(tool, agent, body{"n": 2}, `{"iterations":2,"results":[0,2]}`)
}

// failed runs a tool of an agent that must fail, and returns stdout and stderr.
func (r *replay) failed(tool body, agent string) (stdout, stderr string) {
	r.t.Helper()
	got := r.get("POST", "/agents/"+agent+"/tools/"+tool["name"].(string)+"/run", body{"args": body{}})
	if got["status"] != "error" || got["func_return"] != nil {
		r.t.Errorf("%v: %v", tool["name"], got)
	}
	return fmt.Sprint(got["stdout"]), fmt.Sprint(got["stderr"])
}

func errorsOfTools(r *replay) {
	for _, tt := range []struct{ name, source, want string }{
		{"division", "def division():\n    \"\"\"One.\"\"\"\n    print('this was printed')\n" +
			"    raise ZeroDivisionError('This is an intentionally weird division!')",
			"ZeroDivisionError: This is an intentionally weird division!"},
		{"later", "async def later():\n    \"\"\"One.\"\"\"\n    print('this was printed')\n" +
			"    await asyncio.sleep(0)\n    raise ValueError('This is an intentional async error!')",
			"ValueError: This is an intentional async error!"},
	} {
		tool, agent := r.put(body{"source_code": tt.source})
		stdout, stderr := r.failed(tool, agent)
		if !strings.Contains(stdout, "this was printed") || !strings.Contains(stderr, tt.want) {
			r.t.Errorf("%s: %s\n%s", tt.name, stdout, stderr)
		}
	}
}

// missingModule: an error names the module, and the same tool runs once its package is named.
func missingModule(r *replay) {
	const source = "def moo():\n    \"\"\"One.\"\"\"\n    import cowsay\n" +
		"    return cowsay.get_output_string('cow', 'moo')"
	tool, agent := r.put(body{"source_code": source})
	if _, stderr := r.failed(tool, agent); !strings.Contains(stderr, "No module named 'cowsay'") {
		r.t.Errorf("without the package: %s", stderr)
	}
	r.get("PATCH", "/tools/"+tool["id"].(string), body{"pip_requirements": []any{body{"name": "cowsay"}}})
	r.call(tool, agent, body{}, `"cow: moo"`)
}

func secretOfAgent(r *replay) {
	config := r.get("POST", "/sandbox-config/local/default", nil)["id"].(string)
	r.get("POST", "/sandbox-config/"+config+"/environment-variable", body{"key": "PLACE", "value": "of-the-sandbox"})
	tool, plain := r.put(body{"source_code": "def place():\n    \"\"\"One.\"\"\"\n" +
		"    return os.environ['PLACE'][len('of-the-'):]"})
	secret := r.get("POST", "/agents/", body{"name": "secretive", "tool_ids": []any{tool["id"]},
		"include_base_tools": false, "secrets": body{"PLACE": "of-the-agent"}})["id"].(string)
	r.call(tool, plain, body{}, `"sandbox"`)
	r.call(tool, secret, body{}, `"agent"`)
}

// clearMemory: a tool empties a block, and says what was in it. Letta's own has a client and agent_id for that.
func clearMemory(r *replay) {
	tool := r.get("PUT", "/tools/", body{"source_code": "def memory_clear(label: str, agent_state: 'AgentState'):\n" +
		"    \"\"\"Clear a block.\n\n    Args:\n        label (str): of the block\n    \"\"\"\n" +
		"    was = agent_state.memory.get_block(label).value\n" +
		"    agent_state.memory.update_block_value(label=label, value='')\n" +
		"    return f\"SUCCESS: Cleared block '{label}' (was {len(was)} chars)\""})
	agent := r.get("POST", "/agents/", body{"name": "clearing", "tool_ids": []any{tool["id"]},
		"include_base_tools": false, "memory_blocks": []any{body{"label": "test_block",
			"value": "This is some test content to be cleared here"}}})["id"].(string)
	r.call(tool, agent, body{"label": "test_block"}, `"SUCCESS: Cleared block 'test_block' (was 44 chars)"`)
	if b := r.get("GET", "/agents/"+agent+"/core-memory/blocks/test_block", nil); b["value"] != "" {
		r.t.Errorf("the block is %v", b["value"])
	}
}
