package letta

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"haft"
	"haft/internal/lettavalue"
	"haft/server"
)

// maxFailure is how long the text of a failure may be, as in Letta.
const maxFailure = 1000

// An execution is what became of a tool of an agent.
type execution struct {
	Status      string          `json:"status"` // success or error
	Return      json.RawMessage `json:"func_return"`
	AgentState  any             `json:"agent_state"`
	Stdout      []string        `json:"stdout"`
	Stderr      []string        `json:"stderr"`
	Fingerprint *string         `json:"sandbox_config_fingerprint"`
}

// A returned is what became of a source.
type returned struct {
	ID      string `json:"id"`
	Date    string `json:"date"`
	Name    string `json:"name"`
	Type    string `json:"message_type"`
	OTID    any    `json:"otid"`
	Sender  any    `json:"sender_id"`
	Step    any    `json:"step_id"`
	IsError any    `json:"is_err"`
	oneReturn
	Returns []oneReturn `json:"tool_returns"`
}

// A oneReturn is the part of it that may be there several times.
type oneReturn struct {
	Kind   string   `json:"type,omitempty"`
	Return string   `json:"tool_return"`
	Status string   `json:"status"`
	Call   string   `json:"tool_call_id"`
	Stdout []string `json:"stdout"`
	Stderr []string `json:"stderr"`
}

// refusalOf returns an error for a call that a rule or the operator refused. All other
// results, failures of tools included, are answered with 200.
func refusalOf(res *haft.Result) error {
	if res.Error == nil {
		return nil
	}
	switch res.Error.Kind {
	case haft.FailDenied, haft.FailIsolation, haft.FailRejected:
		return &haft.Error{Code: haft.CodeDenied, Message: res.Error.Message}
	case haft.FailRate:
		return &haft.Error{Code: haft.CodeRateLimited, Message: res.Error.Message, RetryAfter: res.Error.RetryAfter}
	case haft.FailStopped:
		return &haft.Error{Code: haft.CodeUnavailable, Message: res.Error.Message}
	}
	return nil
}

// failureText returns why a result has no value, in Letta's words, and "" for a success.
func failureText(function string, res *haft.Result) string {
	text := ""
	switch {
	case res.Status == haft.StatusPending:
		return fmt.Sprintf("Error executing function %s: PendingApproval: a person has to agree first; the call is "+
			"%s and the request %s", function, res.Call, res.Approval)
	case res.Error == nil:
		return ""
	case res.Error.Kind == haft.FailRule:
		text = "[ToolConstraintError] " + res.Error.Message
	default:
		text = fmt.Sprintf("Error executing function %s: %s: %s", function,
			cmp.Or(res.Error.Type, string(res.Error.Kind)), res.Error.Message)
	}
	if len(text) > maxFailure {
		text = strings.ToValidUTF8(text[:maxFailure], "")
	}
	return text + advice(res.Error)
}

// advice says what to set if a tool fails because it has less here than in Letta.
func advice(f *haft.Failure) string {
	if f.Kind != haft.FailException {
		return ""
	}
	for _, sign := range []string{"Network is unreachable", "Temporary failure in name resolution",
		"Name or service not known", "ENETUNREACH", "EAI_AGAIN"} {
		if strings.Contains(f.Message, sign) {
			return " (a tool has no network here unless it names hosts with haft tool add --network, or the operator " +
				"names some with haft serve --letta-network)"
		}
	}
	if _, name, ok := strings.Cut(f.Message, "'NoneType' object has no attribute '"); ok && usesClient(name) {
		return noClient
	}
	if _, name, ok := strings.Cut(f.Message, "Cannot read properties of null (reading '"); ok && usesClient(name) {
		return noClient
	}
	if _, file, ok := strings.Cut(f.Message, "No such file or directory: '"); ok && !strings.Contains(file, "/") ||
		strings.Contains(f.Message, "ENOENT") && strings.Contains(f.Message, "spawn") {
		return " (if it is a program: a tool starts those that haft tool add --program names, or the operator with " +
			"haft serve --letta-program)"
	}
	return ""
}

// noClient says how a tool gets a client.
const noClient = " (if it is client: it is there for a tool that requires letta-client or @letta-ai/letta-client, " +
	"has the variables LETTA_API_KEY and LETTA_BASE_URL, and may reach this server with haft tool add --network or " +
	"haft serve --letta-network)"

// usesClient reports whether a text begins with the name of a part of Letta's client.
func usesClient(text string) bool {
	name, _, _ := strings.Cut(text, "'")
	return slices.Contains([]string{"agents", "archives", "blocks", "conversations", "folders", "health", "identities",
		"mcp_servers", "mcpServers", "messages", "models", "passages", "runs", "steps", "tools"}, name)
}

// hidden says what to set if a result lacks the value of a variable that is no secret.
func hidden(res *haft.Result) string {
	all := string(res.Value) + res.Stdout + res.Stderr
	if res.Error != nil {
		all += res.Error.Message
	}
	_, rest, _ := strings.Cut(all, "[redacted:")
	name, _, ok := strings.Cut(rest, "]")
	if !ok || haft.CheckToolName(name) != nil { // a tool may have written it, and anything
		return ""
	}
	return fmt.Sprintf("[redacted:%s] stands for the value of a variable; if that is no secret, the operator shows it "+
		"with haft serve --public-variable %s", name, name)
}

// lines is output as Letta has it: a list with all of it, or none.
func lines(parts ...string) []string {
	return slices.DeleteFunc(append([]string{}, parts...), func(p string) bool { return p == "" })
}

// problems is what a result says on stderr: what the tool printed, and why it
// failed.
func problems(res *haft.Result, why string) []string {
	if res.Error == nil || res.Error.Traceback == "" {
		return lines(res.Stderr, hidden(res), why)
	}
	return lines(res.Stderr, hidden(res), res.Error.Traceback)
}

// runTool runs a tool on behalf of an agent that has it.
func (h agentHandlers) runTool(ctx context.Context, q *request) (any, error) {
	var b struct {
		Args json.RawMessage `json:"args"`
	}
	if len(q.body) > 0 {
		if err := q.read(&b); err != nil {
			return nil, err
		}
	}
	agent, err := h.pathAgent(ctx, q)
	if err != nil {
		return nil, err
	}
	p, err := q.who.As(ctx, h.agents, string(agent.ID))
	if err != nil {
		return nil, err
	}
	name := q.PathValue("name")
	if t, err := h.tools.tools.Tool(ctx, p, name); err == nil {
		b.Args = lettavalue.Arguments(t.Version, b.Args)
	}
	c := haft.Call{
		Tool: name, Args: b.Args, Principal: p, Turn: q.Header.Get(server.TurnHeader),
		IdempotencyKey: q.Header.Get("Idempotency-Key"),
	}
	if c.Turn == "" && len(agent.Rules) > 0 {
		c.Turn = "letta_" + rand.Text() // each run is a turn of its own, unless its sender says otherwise
	}
	res, err := h.calls.Call(ctx, c)
	if isNotFound(err) {
		return nil, &httpError{http.StatusNotFound, "the tool was not found or is not attached to the agent"}
	}
	if err != nil {
		return nil, err
	}
	if err := refusalOf(res); err != nil {
		return nil, err
	}
	return toExecution(name, res), nil
}

// toExecution converts a result to what Letta answers for a tool of an agent.
func toExecution(name string, res *haft.Result) execution {
	why := failureText(name, res)
	out := execution{Status: "success", Return: lettavalue.Plain(res.Value), Stdout: lines(res.Stdout),
		Stderr: problems(res, why)}
	if why != "" {
		out.Status, out.Return = "error", nil
		if out.Stderr[len(out.Stderr)-1] != why {
			out.Stderr = append(out.Stderr, why)
		}
	}
	if out.Return == nil {
		out.Return = json.RawMessage("null")
	}
	return out
}

// sourceHandlers serve the routes that run or read a source that is not stored.
type sourceHandlers struct {
	calls  haft.Caller
	tool   string  // [Config.SourceTool]
	derive deriver // may be nil
}

// sourceRun is a source to run once.
type sourceRun struct {
	Source     string             `json:"source_code"`
	Args       json.RawMessage    `json:"args"`
	Env        map[string]*string `json:"env_vars"`
	Name       *string            `json:"name"`
	SourceType *string            `json:"source_type"`
	ArgsSchema json.RawMessage    `json:"args_json_schema"`
	Schema     json.RawMessage    `json:"json_schema"`
	Pip        []wirePackage      `json:"pip_requirements"`
	NPM        []wirePackage      `json:"npm_requirements"`
}

// call makes the call of the tool that runs source. The environment is no argument:
// it may hold secrets.
func (b sourceRun) call(tool string) (haft.Call, error) {
	c := haft.Call{Tool: tool}
	args := map[string]any{"source_code": b.Source, "returns": anyValue()}
	switch {
	case strings.TrimSpace(b.Source) == "":
		return c, unprocessable("body source_code: it is missing")
	case !isSet(b.Args):
		return c, unprocessable("body args: it is missing")
	}
	args["args"] = b.Args
	if b.SourceType != nil {
		kind, err := kindOf(*b.SourceType)
		if err != nil {
			return c, err
		}
		args["source_type"] = kind
	}
	args["letta"] = true
	if b.SourceType == nil || args["source_type"] == haft.KindPython {
		b.NPM = nil
	} else {
		b.Pip = nil
	}
	s, err := schemaOf(b.Schema)
	if err != nil {
		return c, err
	}
	switch {
	case s != nil:
		args["parameters"] = s.Parameters
	case isSet(b.ArgsSchema):
		args["parameters"] = b.ArgsSchema
	}
	if b.Name != nil && *b.Name != "" {
		args["name"] = *b.Name
	} else if s != nil && s.Name != "" {
		args["name"] = s.Name
	}
	if len(b.Pip) > 0 {
		if args["pip_requirements"], err = names(b.Pip, "=="); err != nil {
			return c, err
		}
	}
	if len(b.NPM) > 0 {
		if args["npm_requirements"], err = names(b.NPM, "@"); err != nil {
			return c, err
		}
	}
	for k, v := range b.Env {
		if v == nil {
			continue
		}
		if c.Env == nil {
			c.Env = map[string]string{}
		}
		c.Env[k] = *v
	}
	c.Args, err = json.Marshal(args)
	return c, err
}

// runSource runs the function of a source that is not kept.
func (h sourceHandlers) runSource(ctx context.Context, q *request, b sourceRun) (any, error) {
	if h.tool == "" {
		return nil, missing("tool that runs source which is not kept")
	}
	c, err := b.call(h.tool)
	if err != nil {
		return nil, err
	}
	c.Principal, c.IdempotencyKey = q.who.Principal, q.Header.Get("Idempotency-Key")
	res, err := h.calls.Call(ctx, c)
	if err != nil {
		return nil, err
	}
	if err := refusalOf(res); err != nil {
		return nil, err
	}
	name := h.functionOf(ctx, b, res)
	why := failureText(name, res)
	one := oneReturn{Return: why, Status: "error", Call: "null", Stdout: lines(res.Stdout), Stderr: problems(res, why)}
	if why == "" {
		one.Return, one.Status = lettavalue.Text(res.Value), "success"
	}
	part := one
	part.Kind = "tool"
	return returned{
		ID: "null", Date: time.Now().UTC().Format(time.RFC3339), Name: name, Type: "tool_return_message",
		oneReturn: one, Returns: []oneReturn{part},
	}, nil
}

// functionOf is what the function of a source is called, for the words of a failure.
func (h sourceHandlers) functionOf(ctx context.Context, b sourceRun, res *haft.Result) string {
	if b.Name != nil && haft.CheckToolName(*b.Name) == nil {
		return *b.Name
	}
	if res.Status != haft.StatusSuccess && h.derive != nil {
		kind := haft.KindPython
		if b.SourceType != nil {
			kind = haft.Kind(*b.SourceType)
		}
		if sig, err := h.derive(ctx, kind, b.Source, true); err == nil && sig.Name != "" {
			return sig.Name
		}
	}
	return h.tool
}

// generateSchema reads the schema of a source.
func (h sourceHandlers) generateSchema(ctx context.Context, _ *request, b struct {
	Code       string  `json:"code"`
	SourceType *string `json:"source_type"`
}) (any, error) {
	if h.derive == nil {
		return nil, missing("reader of sources")
	}
	if strings.TrimSpace(b.Code) == "" {
		return nil, unprocessable("body code: it is missing")
	}
	kind := haft.KindPython
	if b.SourceType != nil {
		var err error
		if kind, err = kindOf(*b.SourceType); err != nil {
			return nil, err
		}
	}
	sig, err := h.derive(ctx, kind, b.Code, false)
	if err != nil {
		if haft.CodeOf(err) == haft.CodeInvalid {
			err = &haft.Error{Code: haft.CodeInvalid, Message: "Schema generation failed: " + haft.MessageOf(err),
				Err: err}
		}
		return nil, err
	}
	return wireSchema{Name: sig.Name, Description: sig.Description, Parameters: sig.Parameters}, nil
}
