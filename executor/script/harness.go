package script

import (
	_ "embed"
	"time"
)

//go:embed harness/python_value.py
var pythonValue string

//go:embed harness/python_param.py
var pythonParam string

//go:embed harness/python_main.py
var pythonMain string

//go:embed harness/node.js
var nodeHarness string

//go:embed harness/node_egress.js
var nodeEgress string

// pythonHarness is the harness of Python, which defines preload() and
// main(channel).
func pythonHarness() string { return pythonValue + pythonParam + pythonMain }

// drain is how long data that a command wrote to its channel may take to arrive after the
// end of the command is known.
const drain = 100 * time.Millisecond

// dying is how long a process may take to end after its channel was closed. After that it
// counts as one that closed the channel and runs on. Under load, the end of a process is
// seen late.
const dying = 3 * time.Second
