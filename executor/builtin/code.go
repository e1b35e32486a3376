package builtin

import (
	"context"
	_ "embed"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"strings"
	"time"

	"haft"
	"haft/executor"
	"haft/sandbox"
)

// The drivers run code that they are given as data, and never as a part of their
// own text. One answers with [codeAnswer].
var (
	//go:embed driver/code.py
	pythonDriver string
	//go:embed driver/code.js
	nodeDriver string
	//go:embed driver/code.sh
	bashDriver string
)

// CodeConfig says how [RunCode] works. The zero value is useful.
type CodeConfig struct {
	// TypeScript makes JavaScript of TypeScript, keeping imports and exports, and a
	// source map. Nil leaves it to Node.js, which has to be new enough for it (22.13).
	TypeScript func(source string) (code string, sourceMap json.RawMessage, failure *haft.Failure)
	// Sessions keeps the sessions of code. Nil means that there are none.
	Sessions Sessions
}

// Bounds on what run_code takes and shows.
const (
	maxCode      = 1 << 20
	maxCodeFiles = 64
	maxFileBytes = 8 << 20
	maxTimeout   = 3600 // seconds
	// shownStdout and shownStderr are how much the value holds of output, in bytes.
	// The result has all of it.
	shownStdout, shownStderr = 16 << 10, 8 << 10
)

// codeIn are the arguments of run_code.
type codeIn struct {
	Language string     `json:"language,omitempty" jsonschema:"the language of the code"`
	Code     string     `json:"code" jsonschema:"the program. What it prints comes back, and in Python and JavaScript the value of its last expression too. Files that it writes to the directory out are kept for the caller"`
	Timeout  float64    `json:"timeout_seconds,omitempty" jsonschema:"after how many seconds to stop it, within what the caller is allowed"`
	Stdin    string     `json:"stdin,omitempty" jsonschema:"what it reads from its standard input"`
	Files    []codeFile `json:"files,omitempty" jsonschema:"files to put into its working directory first"`
}

// codeInSession are the arguments of run_code, where there are sessions.
type codeInSession struct {
	codeIn
	Session string `json:"session,omitempty" jsonschema:"the name of a session, which is made if there is none: code with the same session goes on with its variables, imports and files until it was not used for a while. Without it each run starts from nothing"`
	Context string `json:"context,omitempty" jsonschema:"in a session: a name for variables of their own, beside those of other code in the language; they share the files"`
	// Env and Forms are for programs, not for models.
	Env   []string `json:"env,omitempty" jsonschema:"in a session: variables for its environment, as NAME=VALUE"`
	Forms bool     `json:"forms,omitempty" jsonschema:"in a session: true keeps all that the code shows, in every form, as the file results.json"`
}

// codeFile is one file for the code.
type codeFile struct {
	Name    string `json:"name" jsonschema:"a relative path, such as data/input.csv"`
	Content string `json:"content" jsonschema:"the text of the file"`
	Base64  bool   `json:"base64,omitempty" jsonschema:"true if content is base64 of bytes that are no text"`
}

// codeOut is the value of run_code.
type codeOut struct {
	Status haft.Status `json:"status" jsonschema:"success, error, timeout or limit"`
	Value  any         `json:"value,omitempty" jsonschema:"the value of the last expression"`
	Stdout string      `json:"stdout"`
	Stderr string      `json:"stderr"`
	Exit   *int        `json:"exit_code,omitempty" jsonschema:"the status that the program ended with, if it chose one"`
	Error  *codeError  `json:"error,omitempty" jsonschema:"what went wrong"`
	Files  []string    `json:"files,omitempty" jsonschema:"the files that it left in the directory out"`
	Shown  []codeShown `json:"results,omitempty" jsonschema:"in a session: what it displayed besides, such as figures and tables"`
	Notes  []string    `json:"notes,omitempty" jsonschema:"what is missing here and why"`
}

// codeError says why the code failed.
type codeError struct {
	Kind      haft.FailureKind `json:"kind"`
	Type      string           `json:"type,omitempty"`
	Message   string           `json:"message"`
	Traceback string           `json:"traceback,omitempty"`
}

// codeAnswer is what a driver gives back. The code can forge it, so nothing in it is
// more than what the code says about itself.
type codeAnswer struct {
	Value json.RawMessage `json:"value"`
	Exit  *int            `json:"exit"`
	Error *codeError      `json:"error"`
}

// errCodeTime is the cause of stopping code after the time that its caller gave it.
var errCodeTime = fmt.Errorf("the time of the code: %w", context.DeadlineExceeded)

// RunCode adds the tool run_code, which lets run execute code in the sandbox that a request names: Python,
// JavaScript, TypeScript or Bash. Output, usage, files and isolation of its results
// are those of the sandbox.
//
// Code that fails is a success of the tool: what became of it is in the value. The
// tool itself fails if the code could not be run, or the call was stopped.
func RunCode(s *Set, run executor.Executor, cfg CodeConfig) error {
	r := codeRunner{run: run, cfg: cfg}
	no := false
	return AddRaw[codeInSession, codeOut](s, Def{
		Name: "run_code", Version: "1", Category: "code", RunsCode: true,
		Tags: []string{"code", "python", "javascript", "typescript", "bash"},
		Description: "Runs a program in a sandbox and returns what it prints, the value of its last expression " +
			"(Python, JavaScript) and the files that it leaves in the directory out. " +
			"Each run starts from nothing: variables and files of earlier runs are gone, unless session names where " +
			"to go on. There is no network unless " +
			"the operator allows it. " +
			"If status is not success, error says what to change.",
		Enums:    map[string][]string{"language": {"python", "javascript", "typescript", "bash"}},
		Defaults: map[string]string{"language": "python"},
		// With a network, code can do anything there: no more is claimed.
		Annotations: haft.Annotations{Title: "Run code", ReadOnly: &no},
		Settings:    haft.Settings{Parallel: true, Output: haft.Output{MaxChars: 2 * haft.DefaultMaxChars}},
	}, func(ctx context.Context, req executor.Request, in codeInSession) (*haft.Result, error) {
		switch {
		case in.Session != "":
			return r.inSession(ctx, req, in)
		case req.Workspace != nil:
			return invalid(&haft.Error{Code: haft.CodeInvalid,
				Message: "a workspace is for code in a session: name that too, or use a tool of your own"})
		case in.Context != "" || len(in.Env) > 0 || in.Forms:
			return invalid(&haft.Error{Code: haft.CodeInvalid,
				Message: "context, env and forms are of a session: name that too"})
		}
		return r.tool(ctx, req, in.codeIn)
	})
}

// codeRunner is the tool.
type codeRunner struct {
	run executor.Executor
	cfg CodeConfig
	// tools gives the code other tools.
	tools bool
}

// tool is run_code.
func (r codeRunner) tool(ctx context.Context, req executor.Request, in codeIn) (*haft.Result, error) {
	inner, err := r.request(ctx, req, in)
	if f, ok := errors.AsType[*failure](err); ok && f.Kind == haft.FailSource {
		return value(&haft.Result{}, codeOut{Status: haft.StatusError,
			Error: &codeError{Kind: f.Kind, Message: f.Message}})
	}
	if err != nil {
		return invalid(err)
	}
	if req.Packages != nil {
		layers, release, err := req.Packages(ctx, inner.Kind)
		if err != nil {
			return nil, packagesFailed(req, err)
		}
		defer release()
		inner.Layers = layers
	}
	timed := ctx
	if in.Timeout > 0 {
		var cancel context.CancelFunc
		// The time limit is not in the limits of the cell: idle cells are kept by their
		// limits, and none would fit.
		timed, cancel = context.WithTimeoutCause(ctx, time.Duration(in.Timeout*float64(time.Second)), errCodeTime)
		defer cancel()
	}
	res, err := r.run.Execute(timed, inner)
	if err != nil {
		return invalid(err)
	}
	if res.Error != nil && !ofCode(ctx, res.Error.Kind) {
		return res, nil
	}
	if res.Error != nil && errors.Is(context.Cause(timed), errCodeTime) && res.Status == haft.StatusTimeout {
		res.Error.Message = fmt.Sprintf("it ran longer than the %g seconds it was given", in.Timeout)
	}
	return value(res, outcome(res))
}

// invalid makes a result of an error that the arguments are to blame for.
func invalid(err error) (*haft.Result, error) {
	h, ok := errors.AsType[*haft.Error](err)
	if !ok || h.Code != haft.CodeInvalid {
		return nil, err
	}
	res := &haft.Result{}
	executor.Fail(res, refused(h))
	return res, nil
}

// value makes out the value of res, which is then a success.
func value(res *haft.Result, out codeOut) (*haft.Result, error) {
	b, err := executor.EncodeJSON(out)
	if err != nil {
		return nil, fmt.Errorf("encode what became of the code: %w", err)
	}
	res.Status, res.Error, res.Value = haft.StatusSuccess, nil, b
	return res, nil
}

// ofCode reports whether a failure is one of the code, and not of the sandbox or of
// the call.
func ofCode(ctx context.Context, kind haft.FailureKind) bool {
	switch kind {
	case haft.FailRuntime, haft.FailIsolation, haft.FailInternal, haft.FailCancelled, haft.FailUnknown,
		haft.FailValidation:
		return false
	case haft.FailTimeout:
		return ctx.Err() == nil
	}
	return true
}

// request is the run of the code.
func (r codeRunner) request(ctx context.Context, req executor.Request, in codeIn) (executor.Request, error) {
	files, err := filesOf(in)
	if err != nil {
		return req, err
	}
	out := executor.Request{
		Call: req.Call, Tool: req.Tool, Org: req.Org, Principal: req.Principal, Function: "run",
		Stored: true, // the source is ours, the code is among the arguments
		Env:    req.Env, Modules: files, Limits: req.Limits, Network: req.Network,
		ServeEgress: req.ServeEgress, CA: req.CA,
		Need: req.Need, Places: req.Places, PlaceReason: req.PlaceReason,
		Stdout: req.Stdout, Stderr: req.Stderr, Progress: req.Progress,
	}
	args := map[string]any{"code": in.Code}
	if r.tools {
		if out.Others = req.Others; out.Others == nil {
			return req, &haft.Error{Code: haft.CodeInvalid, Message: "no other tools can be called here"}
		}
		if args["tools"], err = toolsForCode(ctx, req.Others); err != nil {
			return req, err
		}
	}
	if in.Stdin != "" {
		args["stdin"] = in.Stdin
	}
	switch in.Language {
	case "python", "":
		out.Kind, out.Source = haft.KindPython, pythonDriver
	case "javascript":
		out.Kind, out.Source = haft.KindJavaScript, nodeDriver
	case "typescript":
		out.Kind, out.Source = haft.KindJavaScript, nodeDriver
		args["typescript"] = "strip"
		if r.cfg.TypeScript != nil {
			code, mapping, f := r.cfg.TypeScript(in.Code)
			if f != nil {
				return req, &failure{*f}
			}
			args["code"], args["typescript"] = code, "stripped"
			if len(mapping) > 0 {
				args["map"] = mapping
			}
		}
	case "bash":
		out.Kind, out.Source, out.Function, args = haft.KindBash, bashDriver, "", map[string]any{}
		out.Files = append(out.Files,
			sandbox.File{Name: ".haft/code.sh", Data: []byte(in.Code)},
			sandbox.File{Name: ".haft/stdin", Data: []byte(in.Stdin)})
	default:
		return req, &haft.Error{Code: haft.CodeInvalid,
			Message: "the language is python, javascript, typescript or bash"}
	}
	if out.Args, err = json.Marshal(args); err != nil {
		return req, fmt.Errorf("encode the code: %w", err)
	}
	return out, nil
}

// filesOf checks the arguments and returns the files.
func filesOf(in codeIn) ([]sandbox.File, error) {
	bad := func(format string, args ...any) ([]sandbox.File, error) {
		return nil, &haft.Error{Code: haft.CodeInvalid, Message: fmt.Sprintf(format, args...)}
	}
	switch {
	case len(in.Code) > maxCode:
		return bad("the code is %d bytes large, %d is the most", len(in.Code), maxCode)
	case !(in.Timeout >= 0 && in.Timeout <= maxTimeout):
		return bad("timeout_seconds is more than 0 and at most %d", maxTimeout)
	case len(in.Files) > maxCodeFiles:
		return bad("there are %d files, %d is the most", len(in.Files), maxCodeFiles)
	}
	total := len(in.Stdin)
	var files []sandbox.File
	for i, f := range in.Files {
		data := []byte(f.Content)
		if f.Base64 {
			var err error
			if data, err = base64.StdEncoding.DecodeString(f.Content); err != nil {
				return bad("the content of file %d is not base64", i+1)
			}
		}
		if first, _, _ := strings.Cut(path.Clean(f.Name), "/"); first == ".haft" {
			return bad("the name of file %d begins with .haft, which is reserved", i+1)
		}
		total += len(data)
		files = append(files, sandbox.File{Name: f.Name, Data: data})
	}
	if total > maxFileBytes {
		return bad("input and files are %d bytes large together, %d is the most", total, maxFileBytes)
	}
	return files, nil
}

// outcome says what became of the code.
func outcome(res *haft.Result) codeOut {
	out := codeOut{Status: res.Status}
	out.Stdout = out.shown("stdout", res.Stdout, shownStdout, res.Truncated.Stdout)
	out.Stderr = out.shown("stderr", res.Stderr, shownStderr, res.Truncated.Stderr)
	for _, a := range res.Artifacts {
		out.Files = append(out.Files, a.Name)
	}
	if n := res.Truncated.Artifacts; n > 0 {
		out.note("%d files in the directory out are not kept: they are too many, too large or no plain files", n)
	}
	switch f := res.Error; {
	case f == nil:
		out.answered(res.Value)
	case f.Kind == haft.FailValue:
		// The code ran to its end. Only its last expression is nothing to show.
		out.Status = haft.StatusSuccess
		out.note("the last expression has a value that is no data (%s); print it instead",
			strings.TrimPrefix(f.Message, "value."))
	case f.Kind == haft.FailExit && strings.Contains(f.Message, " with status 0 "):
		out.exited(0)
	default:
		out.Error = &codeError{Kind: f.Kind, Type: f.Type, Message: f.Message, Traceback: f.Traceback}
		if strings.HasPrefix(string(f.Kind), "limit_") {
			out.Error.Traceback = "" // it shows the driver
		}
	}
	return out
}

// answered takes over what the driver says.
func (out *codeOut) answered(raw json.RawMessage) {
	var a codeAnswer
	if err := json.Unmarshal(raw, &a); err != nil {
		out.failed(codeError{Kind: haft.FailProtocol,
			Message: "the code gave an answer of its own in place of its value"})
		return
	}
	switch {
	case a.Error != nil:
		out.failed(*a.Error)
	case a.Exit != nil:
		out.exited(*a.Exit)
	}
	if len(a.Value) > 0 {
		out.Value = a.Value
	}
}

// exited says that the code ended with a status.
func (out *codeOut) exited(code int) {
	out.Status, out.Exit = haft.StatusSuccess, &code
	if code != 0 {
		out.failed(codeError{Kind: haft.FailExit, Message: fmt.Sprintf("it ended with status %d", code)})
	}
}

// failed says why the code failed.
func (out *codeOut) failed(e codeError) {
	e.Type, e.Message, e.Traceback = executor.Shorten(clean(e.Type), 256), executor.Shorten(clean(e.Message), 8<<10),
		executor.Shorten(clean(e.Traceback), 16<<10)
	out.Status, out.Error = haft.StatusError, &e
}

// note adds a note.
func (out *codeOut) note(format string, args ...any) {
	out.Notes = append(out.Notes, fmt.Sprintf(format, args...))
}

// shown is text with its middle left out if it is too long: what matters of output
// is mostly at its ends.
func (out *codeOut) shown(name, text string, limit int, cut int64) string {
	if cut > 0 {
		out.note("%d bytes of %s are lost: it printed more than is kept", cut, name)
	}
	if len(text) <= limit {
		return text
	}
	head := strings.ToValidUTF8(text[:limit/2], "")
	tail := strings.ToValidUTF8(text[len(text)-limit/2:], "")
	out.note("%d bytes in the middle of %s are left out here", len(text)-len(head)-len(tail), name)
	return head + "\n[…]\n" + tail
}
