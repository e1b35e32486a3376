// Package tooltest tests tools as models meet them: it reads test files, runs their cases on the real system (engine,
// sandbox, validation and policy, in a directory that is removed afterwards), compares what happened with what the
// cases expect, and reports it.
package tooltest

import (
	"encoding/json"
	"time"

	"haft"
	"haft/internal/apimock"
	"haft/internal/observe"
	"haft/internal/schemacase"
	"haft/internal/yamltree"
	"haft/schema"
)

// A File is one test file.
type File struct {
	// Path is where it was read.
	Path string `json:"-"`
	// Tool names the tools: FILE, FILE:FUNCTION or a directory, relative to the test file.
	Tool []string `json:"tool"`
	// MCP are servers whose tools can be called, by name: NAME__TOOL. Directories of mounts are relative to the file.
	MCP map[string]haft.MCPServer `json:"mcp"`
	// Settings are those that the tools are registered with.
	Settings Settings `json:"settings"`
	// Seed is that of generated arguments, and of random numbers in Python and JavaScript. 0 fixes nothing.
	Seed uint64 `json:"seed"`
	// Time is what the clock says that tools in Python and JavaScript ask.
	Time time.Time `json:"time"`
	// Defaults has the fields that every case has which does not say otherwise.
	Defaults Case `json:"defaults"`
	// Mock has rules for the requests of every case, after those of the case.
	Mock []apimock.Rule `json:"mock"`
	// Generated makes cases of the schema of the tools.
	Generated Generated `json:"generated"`
	// Touches is what the tools are declared to touch besides what their settings say. If it is given, the calls are
	// observed, and what they touch is compared with it.
	Touches *observe.Declared `json:"touches"`
	Gates   Gates             `json:"gates"`
	Cases   []Case            `json:"cases"`
}

// Settings are those of the tools of a file, as haft tool add takes them.
type Settings struct {
	haft.Settings
	// Packages are requirements of the tools, and Files lie beside their source.
	Packages []string `json:"packages"`
	Files    []string `json:"files"`
}

// A Case is one call of a tool, or several in order, and what is expected of it.
type Case struct {
	At   yamltree.Pos `json:"-"`
	Name string       `json:"name"`
	Tags []string     `json:"tags"`
	// Skip says why the case is left out. If a case has Focus, the others are left out.
	Skip  string `json:"skip"`
	Focus bool   `json:"focus"`
	// Table has rows, each of which is a case of its own: what a row does not say is as in the case.
	Table []Case `json:"table"`
	Call
	// Agent is the agent that makes the calls. Cases with secrets or an agent have one of their own.
	Agent *Agent `json:"agent"`
	// Principal is who calls; a new user who may call every tool if it is not given.
	Principal *Principal `json:"principal"`
	// Policy is that of the organisation: a document, or the name of its file.
	Policy    json.RawMessage   `json:"policy"`
	Secrets   map[string]Secret `json:"secrets"`
	Workspace *Workspace        `json:"workspace"`
	// Mock answers requests of the tools; the first rule that fits does. Record is the file of recorded answers, which
	// haft test --record makes. A request without an answer fails the case.
	Mock   []apimock.Rule `json:"mock"`
	Record string         `json:"record"`
	// Network is real if requests reach the network.
	Network string `json:"network"`
	// Setup and Teardown are calls before and after, in the same place. Teardown is done whatever happened.
	Setup    []Step `json:"setup"`
	Teardown []Step `json:"teardown"`
	// Steps are calls in order, instead of the one of the case.
	Steps []Step `json:"steps"`
	// Parallel makes the call of the case so often at once: each must be as expected.
	Parallel int `json:"parallel"`
	// Baseline makes this the case that ratios of time and memory refer to.
	Baseline bool `json:"baseline"`

	made *schemacase.Case // if the case was made of a schema
}

// A Call says what is called, and what is expected of it.
type Call struct {
	// Tool is a name; that of the case for a step, and else the first tool of the file if it is empty.
	Tool string          `json:"tool"`
	Args json.RawMessage `json:"args"`
	// Raw are arguments as a text that need not be JSON, as models write them.
	Raw     string             `json:"raw_args"`
	Env     map[string]string  `json:"env"`
	Files   map[string]Content `json:"files"`
	Limits  haft.Limits        `json:"limits"`
	Sandbox string             `json:"sandbox"`
	// Approve answers requests for approval; nil means that nobody does.
	Approve *Approve `json:"approve"`
	// Cancel stops the call after that time.
	Cancel haft.Millis `json:"cancel"`
	// Key is the idempotency key.
	Key string `json:"key"`
	// Message is said to the agent of the case, instead of a call. Answers are those of its model, one for each
	// request. Format is that of the requests, openai if it is empty, and Budget is what the turn may take.
	Message string      `json:"message"`
	Answers []Answer    `json:"answers"`
	Format  schema.Form `json:"format"`
	Budget  haft.Budget `json:"budget"`
	Expect  Expect      `json:"expect"`
}

// An Approve is the answer of a person. The text yes or no stands for it.
type Approve struct {
	Answer string `json:"answer"`
	// Roles are those of the person; approver if there are none.
	Roles []string `json:"roles"`
	// Args are arguments that replace those of the call.
	Args json.RawMessage `json:"args"`
}

// A Step is one call of a case. Its name is what later ones refer to: ${steps.NAME.value.x}.
type Step struct {
	At   yamltree.Pos `json:"-"`
	Name string       `json:"name"`
	Call
}

// A Principal is who calls.
type Principal struct {
	User  string   `json:"user"`
	Roles []string `json:"roles"`
	Scope []string `json:"scope"`
}

// An Agent is the agent of a case.
type Agent struct {
	// Tools are those that it may call; all of the file if there are none.
	Tools  []string          `json:"tools"`
	Rules  []haft.ToolRule   `json:"rules"`
	Env    map[string]string `json:"env"`
	Blocks map[string]string `json:"blocks"`
	// Instructions are what its model gets first.
	Instructions string `json:"instructions"`
}

// A Secret is a variable of the agent of a case. It goes to hosts only if it names some.
type Secret struct {
	Value string   `json:"value"`
	Hosts []string `json:"hosts"`
	// Header and Prefix say where the proxy puts it.
	Header string `json:"header"`
	Prefix string `json:"prefix"`
}

// A Workspace is that of a case.
type Workspace struct {
	Files    map[string]Content `json:"files"`
	ReadOnly bool               `json:"read_only"`
	Workdir  bool               `json:"workdir"`
}

// A Content is that of a file: a text, bytes in base64, or a file beside the test file.
type Content struct {
	Text   string `json:"text"`
	Base64 []byte `json:"base64"`
	From   string `json:"from"`
}

// An Expect is what has to be true of a result. A field that is not given is not looked at, except the status.
type Expect struct {
	// Status is ok, failure or a status of a result; ok if nothing else says that it fails.
	Status  string   `json:"status"`
	Failure *Failure `json:"failure"`
	// Limit is the limit that stopped the tool, such as memory or cpu.
	Limit string `json:"limit"`
	// Error is the code of the error of a call that has no result, such as not_found.
	Error string `json:"error"`
	// Value is the whole value, Schema one that it fits, and Check expressions in CEL over it.
	Value  json.RawMessage `json:"value"`
	Schema json.RawMessage `json:"schema"`
	Check  []string        `json:"check"`
	Stdout *Text           `json:"stdout"`
	Stderr *Text           `json:"stderr"`
	// Artifacts are all files that the tool leaves.
	Artifacts *[]Artifact `json:"artifacts"`
	// Isolation is the least level of it.
	Isolation haft.Level `json:"isolation"`
	// Hosts are all that requests were sent to, and Requests are all requests in order.
	Hosts    *[]string          `json:"hosts"`
	Requests *[]apimock.Request `json:"requests"`
	// Blocks are blocks of the agent afterwards, and Workspace files in the workspace.
	Blocks    map[string]Text `json:"blocks"`
	Workspace map[string]Text `json:"workspace"`
	// Notices are texts that a notice has to have, and Tries and Cached are those of the result.
	Notices []Text `json:"notices"`
	Tries   *int   `json:"tries"`
	Cached  *bool  `json:"cached"`
	// TimeRatio and MemoryRatio bound time and memory by those of the baseline.
	TimeRatio   float64 `json:"time_ratio"`
	MemoryRatio float64 `json:"memory_ratio"`
	ExpectTurn

	ready *compiled // of Schema and Check
}

// A Failure is what is expected of a failure.
type Failure struct {
	Kind    haft.FailureKind `json:"kind"`
	Message *Text            `json:"message"`
	Type    string           `json:"type"`
	Retry   haft.Retry       `json:"retry"`
	// At are pointers to arguments that do not fit, such as /city.
	At []string `json:"at"`
}

// An Artifact is a file that a tool has to leave. A text stands for its name.
type Artifact struct {
	Name    string `json:"name"`
	Type    string `json:"type"`
	Content *Text  `json:"content"`
}

// Generated says how many cases are made of the schema of each tool.
type Generated struct {
	At    yamltree.Pos `json:"-"`
	Count int          `json:"count"`
	// Tool is the one that is called; all of the file if it is empty.
	Tool string `json:"tool"`
	// Expect holds for valid arguments that the tool accepts.
	Expect Expect `json:"expect"`
	// Failures are kinds of failures that valid arguments may have, such as exception.
	Failures []haft.FailureKind `json:"failures"`
}

// Gates are what a whole run has to fulfil.
type Gates struct {
	// P95Ratio bounds the 95th percentile of the time of the cases by that of the baseline.
	P95Ratio float64 `json:"p95_ratio"`
	// Health is how many percent of the tools need a schema that vendors accept, with descriptions.
	Health *float64 `json:"health"`
	// UndeclaredHosts says whether tools may try to reach hosts that they do not declare; true if it is not given.
	UndeclaredHosts *bool `json:"undeclared_hosts"`
	// Coverage is how many percent of the lines in functions have to run.
	Coverage *float64 `json:"coverage"`
	// Skipped bounds how many cases may be skipped.
	Skipped *int `json:"skipped"`
}

// UnmarshalJSON reads a content, which may be a text.
func (c *Content) UnmarshalJSON(b []byte) error {
	type fields Content
	return textOr(b, &c.Text, (*fields)(c))
}

// UnmarshalJSON reads an answer, which may be yes, no, true or false.
func (a *Approve) UnmarshalJSON(b []byte) error {
	type fields Approve
	var yes bool
	var err error
	if json.Unmarshal(b, &yes) == nil {
		a.Answer = map[bool]string{true: "yes", false: "no"}[yes]
	} else {
		err = textOr(b, &a.Answer, (*fields)(a))
	}
	if err == nil && a.Answer != "yes" && a.Answer != "no" {
		err = &haft.Error{Code: haft.CodeInvalid, Message: "the answer is yes or no"}
	}
	return err
}

// UnmarshalJSON reads a secret, which may be a text.
func (s *Secret) UnmarshalJSON(b []byte) error {
	type fields Secret
	return textOr(b, &s.Value, (*fields)(s))
}

// UnmarshalJSON reads an artifact, which may be a name.
func (a *Artifact) UnmarshalJSON(b []byte) error {
	type fields Artifact
	return textOr(b, &a.Name, (*fields)(a))
}
