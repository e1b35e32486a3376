package script_test

import (
	"testing"

	"haft"
	"haft/executor/script"
)

// adviceCases are failures that come from how a tool is confined.
var adviceCases = []toolCase{
	{name: "no_name", source: "import socket\ndef f(): socket.create_connection(('example.com', 80))",
		kind: haft.FailException, says: []string{"this tool has no network: name each host that it needs with " +
			"--network HOST ("}},
	{name: "no_route", source: "import socket\ndef f(): socket.create_connection(('192.0.2.1', 80))",
		kind: haft.FailException, says: []string{"this tool has no network"}},
	{name: "other_exception", source: "def f(): raise OSError('disk')", kind: haft.FailException,
		hides: []string{"this tool has no network"}},
	{name: "no_variable", source: "import os\ndef f(): return os.environ['API_KEY']", kind: haft.FailException,
		says: []string{"the variable API_KEY is not set: store it with haft secret set API_KEY, or give it with " +
			"--env " +
			"API_KEY=VALUE"}},
	{name: "other_key", source: "def f(): return {}['API_KEY']", kind: haft.FailException,
		hides: []string{"haft secret set"}},
}

func TestPython_advises(t *testing.T) {
	x := setupLocal(t, haft.KindPython, script.Config{})
	for _, c := range adviceCases {
		t.Run(c.name, func(t *testing.T) { c.check(t, x, haft.KindPython) })
	}
}
