package script_test

import (
	"encoding/json"
	"testing"

	"haft"
	"haft/executor"
	"haft/executor/script"
)

// state is an agent_state that tools are given here.
const state = `{"id":"ag_1","name":"helper","memory":{"blocks":[{"label":"human","value":"h"},{"label":"persona","value":"p"}]}}`

// What a tool changes in agent_state is passed on once the tool has its value, and only then.
func TestExecute_passes_changed_state_on(t *testing.T) {
	python := "from __future__ import annotations\ndef f(agent_state):\n  "
	for _, tt := range []struct {
		name   string
		kind   haft.Kind
		source string
		value  string // empty if it fails
		want   string // empty if nothing is passed on
	}{
		{"read", haft.KindPython, python + `return [agent_state.id, agent_state.memory.get_block("human").value, ` +
			`agent_state["memory"]["blocks"][1].value, agent_state.memory.list_block_labels()]`,
			`["ag_1","h","p",["human","persona"]]`, ""},
		{"write by Letta's method", haft.KindPython,
			python + `agent_state.memory.update_block_value(label="human", value="new")`, "null",
			`{"id":"ag_1","name":"helper","memory":{"blocks":[{"label":"human","value":"new"},{"label":"persona","value":"p"}]}}`},
		{"write an attribute", haft.KindPython, python + `agent_state.memory.get_block("persona").value = ""`, "null",
			`{"id":"ag_1","name":"helper","memory":{"blocks":[{"label":"human","value":"h"},{"label":"persona","value":""}]}}`},
		{"anything", haft.KindPython, python + `agent_state.id = "ag_2"; agent_state.memory.blocks = 7`, "null",
			`{"id":"ag_2","name":"helper","memory":{"blocks":7}}`},
		{"unknown block", haft.KindPython, python + `agent_state.memory.get_block("x")`, "", ""},
		{"fails after a change", haft.KindPython,
			python + "agent_state.memory.update_block_value('human', 'x'); raise ValueError()", "", ""},
		{"no data", haft.KindPython, python + "agent_state.memory.blocks = object()", "", ""},
		{"read in JavaScript", haft.KindJavaScript, "export function f({agent_state}) { return " +
			"agent_state.memory.blocks[0].value }",
			`"h"`, ""},
		{"write in JavaScript", haft.KindJavaScript,
			"export async function f({agent_state}) { agent_state.memory.blocks[0].value = 'new'; return 1 }", "1",
			`{"id":"ag_1","name":"helper","memory":{"blocks":[{"label":"human","value":"new"},{"label":"persona","value":"p"}]}}`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			x := setup(t, tt.kind, script.Config{})
			var got string
			res := execute(t, x, executor.Request{Kind: tt.kind, Source: tt.source, Function: "f",
				Inject:  map[string]json.RawMessage{"agent_state": json.RawMessage(state)},
				Changed: func(s json.RawMessage) { got = string(s) }})
			if (res.Error != nil) != (tt.value == "") || res.Error == nil && string(res.Value) != tt.value ||
				got != tt.want {
				t.Errorf("value %s %+v, state %s", res.Value, res.Error, got)
			}
		})
	}
}
