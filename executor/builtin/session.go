package builtin

import (
	"bytes"
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"haft"
	"haft/executor"
	"haft/internal/session"
	"haft/sandbox"
)

// Sessions has sandboxes that live for many calls.
type Sessions interface {
	// Use returns the session of the request's principal with this name, which is made if
	// there is none.
	Use(ctx context.Context, req executor.Request, name string) (*session.Session, error)
	// Attach lets the command of a call be sent input until detach is called.
	Attach(call haft.CallID, p *session.Process, takes bool) (detach func())
}

// codeShown is one thing that code in a session displayed.
type codeShown struct {
	Text  string          `json:"text,omitempty"`
	JSON  json.RawMessage `json:"json,omitempty" jsonschema:"its data"`
	Table json.RawMessage `json:"table,omitempty" jsonschema:"its rows, with columns and index"`
	Files []string        `json:"files,omitempty" jsonschema:"images and documents of it, which are kept for the caller"`
}

// Bounds on what one code in a session shows in its value. Artifacts have the rest.
const (
	maxShown     = 50
	maxShownText = 4 << 10
	maxShownData = 64 << 10
	// maxShownDepth is less than what a value may nest.
	maxShownDepth = 64
)

// packagesFailed is the failure of a call whose packages cannot be had. It is the caller's if the call brings some.
func packagesFailed(req executor.Request, err error) error {
	blamed := []haft.Code{haft.CodeDenied, haft.CodeConflict, haft.CodeInvalid}
	if !req.Requirements.Empty() && slices.Contains(blamed, haft.CodeOf(err)) {
		return err
	}
	return &failure{haft.Failure{Kind: haft.FailRuntime, Retry: haft.RetryNever,
		Message: "the packages that the organisation has for code cannot be had: " + haft.MessageOf(err)}}
}

// inSession is run_code in a session.
func (r codeRunner) inSession(ctx context.Context, req executor.Request, in codeInSession) (*haft.Result, error) {
	files, err := filesOf(in.codeIn)
	env, bad := codeEnv(in.Env)
	maps.Copy(env, req.Env) // it has the id of the call
	code := session.Code{Language: in.Language, Context: in.Context, Source: in.Code, Env: env}
	switch {
	case err != nil || bad != nil:
		return invalid(cmp.Or(err, bad))
	case in.Stdin != "":
		return invalid(&haft.Error{Code: haft.CodeInvalid, Message: "code in a session has no standard input"})
	case in.Language == "typescript":
		code.Language = "javascript"
		if r.cfg.TypeScript != nil {
			var f *haft.Failure
			if code.Source, _, f = r.cfg.TypeScript(in.Code); f != nil {
				return value(&haft.Result{}, codeOut{Status: haft.StatusError,
					Error: &codeError{Kind: f.Kind, Message: f.Message}})
			}
		}
	}
	return r.work(ctx, req, sessionUse{in.Session, in.Timeout, files},
		func(ctx context.Context, s *session.Session, run *sessionRun) (func() codeOut, error) {
			code.Stdout, code.Stderr = run.print(req)
			outcome, err := s.Run(ctx, code)
			if outcome == nil {
				return nil, err
			}
			return func() codeOut { return run.outcome(outcome, in) }, err
		})
}

// codeEnv reads variables for code. Those for Bash become a part of a command, so that their names are plain.
func codeEnv(list []string) (map[string]string, error) {
	bad := func(format string, args ...any) (map[string]string, error) {
		return map[string]string{}, &haft.Error{Code: haft.CodeInvalid, Message: fmt.Sprintf(format, args...)}
	}
	env, size := map[string]string{}, 0
	for _, pair := range list {
		size += len(pair)
		name, text, ok := strings.Cut(pair, "=")
		if !ok || name == "" || name[0] >= '0' && name[0] <= '9' || strings.ContainsFunc(name, func(r rune) bool {
			return r != '_' && (r < '0' || r > '9') && (r < 'A' || r > 'Z') && (r < 'a' || r > 'z')
		}) {
			return bad("a variable for code is NAME=VALUE, with a name of letters, digits and _")
		}
		env[name] = text
	}
	if len(list) > maxCommandEnv || size > maxCode {
		return bad("the variables are more than %d, or have more than %d bytes", maxCommandEnv, maxCode)
	}
	if err := session.CheckEnv(env); err != nil {
		return map[string]string{}, err
	}
	return env, nil
}

// A sessionUse says which session a call uses, for how many seconds, and with which files.
type sessionUse struct {
	session string
	timeout float64
	files   []sandbox.File
}

// sessionWork is what a call does in its session. It returns no function if nothing ran, and else
// one that says what became of it.
type sessionWork func(ctx context.Context, s *session.Session, run *sessionRun) (func() codeOut, error)

// work does something in a session, within the limits of the call.
func (r codeRunner) work(ctx context.Context, req executor.Request, use sessionUse,
	do sessionWork) (*haft.Result, error) {
	began, limits := time.Now(), req.Limits.Or(haft.DefaultLimits())
	s, err := r.open(ctx, req, use) // to install packages and to wait for a workspace takes no time of the call
	if err != nil {
		return invalid(err)
	}
	ctx, cancel := context.WithTimeoutCause(ctx, limits.Wall.D(), errWall)
	defer cancel()
	if err := give(ctx, s, append(use.files, req.Files...)); err != nil {
		return invalid(err)
	}
	timed := ctx
	if use.timeout > 0 {
		timed, cancel = context.WithTimeoutCause(ctx, time.Duration(use.timeout*float64(time.Second)), errCodeTime)
		defer cancel()
	}
	defer s.Serve(req.ServeEgress)()
	run := &sessionRun{s: s, res: &haft.Result{}, limits: limits}
	run.before = run.files(ctx)
	set := time.Now()
	closed := func() { s.Close("its call was ended by a rule or by the operator") } // with what the code left running
	defer context.AfterFunc(sandbox.Killed(ctx), closed)()
	metered, used := s.LimitCPU(timed, limits.CPU.D())
	ran, err := do(metered, s, run)
	res := run.res
	info := s.Info()
	res.Sandbox = haft.Sandbox{Provider: string(info.Sandbox), Isolation: info.Isolation, Reason: req.PlaceReason}
	res.Timeline.Setup, res.Timeline.Execute = haft.Millis(set.Sub(began)), haft.Millis(time.Since(set))
	res.Usage = haft.Usage{Wall: haft.Millis(time.Since(set)), CPU: haft.Millis(used())}
	res.Stdout, res.Truncated.Stdout = run.stdout.text()
	res.Stderr, res.Truncated.Stderr = run.stderr.text()
	switch {
	case errors.Is(context.Cause(ctx), sandbox.ErrNoGrace):
		closed()
		return stoppedCode(ctx, res), nil
	case ctx.Err() != nil:
		return stoppedCode(ctx, res), nil
	case ran == nil:
		return invalid(err) // nothing ran
	case err != nil && !errors.Is(err, errCodeTime) && !errors.Is(err, session.ErrCPU):
		fail(res, haft.FailExit, "the code ended its session: "+haft.MessageOf(err))
		return res, nil
	}
	out := ran()
	run.collect(ctx, &out)
	switch {
	case errors.Is(err, session.ErrCPU):
		out.failed(codeError{Kind: haft.FailCPU, Message: fmt.Sprintf("the session used more than the %s of processor "+
			"time that a call may, and it was stopped", limits.CPU.D())})
		out.Status = haft.StatusLimit
	case err != nil:
		out.failed(codeError{Kind: haft.FailTimeout,
			Message: fmt.Sprintf("it ran longer than the %g seconds it was given, and was interrupted", use.timeout)})
	}
	if _, err := value(res, out); err != nil || int64(len(res.Value)) > limits.Result {
		fail(res, haft.FailResult, fmt.Sprintf("what it shows is more than %d bytes; write it to files in out",
			limits.Result))
	}
	return res, nil
}

// fail makes res say why code in a session has no value.
func fail(res *haft.Result, kind haft.FailureKind, message string) {
	executor.Fail(res, haft.Failure{Kind: kind, Message: message, Retry: haft.RetryNever})
}

// stoppedCode is the result of a call that was stopped.
func stoppedCode(ctx context.Context, res *haft.Result) *haft.Result {
	kind := haft.FailCancelled
	if cause := context.Cause(ctx); errors.Is(cause, context.DeadlineExceeded) || errors.Is(cause, errWall) {
		kind = haft.FailTimeout
	}
	executor.Fail(res, haft.Failure{Kind: kind, Message: "the code was interrupted", Retry: haft.RetryChanged})
	return res
}

// open returns the session, which it makes if there is none.
func (r codeRunner) open(ctx context.Context, req executor.Request, use sessionUse) (*session.Session, error) {
	if r.cfg.Sessions == nil || r.tools {
		return nil, &haft.Error{Code: haft.CodeInvalid, Message: "there are no sessions here"}
	}
	if req.Packages == nil && !req.Requirements.Empty() {
		return nil, &haft.Error{Code: haft.CodeUnavailable, Message: "packages are not installed on this server"}
	}
	if req.Packages != nil {
		for _, kind := range []haft.Kind{haft.KindPython, haft.KindJavaScript} {
			layers, release, err := req.Packages(ctx, kind)
			if err != nil {
				return nil, packagesFailed(req, err)
			}
			defer release() // the session holds them itself
			req.Layers = append(req.Layers, layers...)
		}
	}
	return r.cfg.Sessions.Use(ctx, req, use.session)
}

// give writes the files of a call into its session.
func give(ctx context.Context, s *session.Session, files []sandbox.File) error {
	for _, f := range files {
		if err := (sandbox.Spec{Argv: []string{"/"}, Files: []sandbox.File{f}}).Check(); err != nil {
			return err
		}
		if _, err := s.WriteFile(ctx, f.Name, uint32(f.Mode.Perm()), bytes.NewReader(f.Data)); err != nil {
			return err
		}
	}
	return nil
}

// A sessionRun is one code in a session.
type sessionRun struct {
	s              *session.Session
	res            *haft.Result
	limits         haft.Limits
	stdout, stderr kept
	before         map[string]session.Entry // the files of out
}

// kept is output up to a limit.
type kept struct {
	b    []byte
	lost int64
}

// text returns what is kept and how much is not.
func (k *kept) text() (string, int64) { return strings.ToValidUTF8(string(k.b), "\uFFFD"), k.lost }

// writer returns a function that keeps output and hands it on.
func (r *sessionRun) writer(k *kept, pass func([]byte)) func([]byte) {
	limit := r.limits.Stdout
	if k == &r.stderr {
		limit = r.limits.Stderr
	}
	return func(b []byte) {
		fits := min(int64(len(b)), limit-int64(len(k.b)))
		k.lost += int64(len(b)) - fits
		if b = b[:fits]; len(b) > 0 {
			k.b = append(k.b, b...)
			if pass != nil {
				pass(b)
			}
		}
	}
}

// print returns what keeps the output of a call.
func (r *sessionRun) print(req executor.Request) (stdout, stderr func([]byte)) {
	return r.writer(&r.stdout, req.Stdout), r.writer(&r.stderr, req.Stderr)
}

// collectTime bounds how long the files of one code are read.
const collectTime = 10 * time.Second

// outDir is where code leaves files for its caller.
const outDir = "/work/out"

// files lists the files of out by their paths.
func (r *sessionRun) files(ctx context.Context) map[string]session.Entry {
	list, _, err := r.s.List(ctx, outDir, 8)
	if err != nil {
		return nil // there is none
	}
	out := map[string]session.Entry{}
	for _, e := range list {
		if e.Type == "file" && strings.HasPrefix(e.Path, outDir+"/") {
			out[e.Path] = e
		}
	}
	return out
}

// collect adds the files of out that are new or changed.
func (r *sessionRun) collect(ctx context.Context, out *codeOut) {
	ctx, cancel := context.WithTimeout(ctx, collectTime)
	defer cancel()
	left := r.limits.ArtBytes
	for path, e := range r.files(ctx) {
		if old, ok := r.before[path]; ok && old.Size == e.Size && old.Modified == e.Modified {
			continue
		}
		if e.Size > left || len(r.res.Artifacts) >= r.limits.Artifacts || ctx.Err() != nil {
			r.res.Truncated.Artifacts++
			continue
		}
		f, _, err := r.s.ReadFile(ctx, path, 0)
		var data []byte
		if err == nil {
			data, err = io.ReadAll(io.LimitReader(f, left+1))
			err = errors.Join(err, f.Close())
		}
		name := strings.TrimPrefix(path, outDir+"/")
		if err != nil || !r.keep(name, data) {
			r.res.Truncated.Artifacts++
			continue
		}
		left -= int64(len(data))
		out.Files = append(out.Files, name)
	}
	if n := r.res.Truncated.Artifacts; n > 0 {
		out.note("%d files in the directory out are not kept: they are too many, too large or no plain files", n)
	}
}

// keep adds an artifact, and reports whether it may be kept. The name is what the session
// says, and so is checked like one of a file that goes in.
func (r *sessionRun) keep(name string, data []byte) bool {
	total := int64(len(data))
	for _, a := range r.res.Artifacts {
		total += a.Size
	}
	named := sandbox.Spec{Argv: []string{"/"}, Files: []sandbox.File{{Name: name}}}
	if total > r.limits.ArtBytes || len(r.res.Artifacts) >= r.limits.Artifacts || named.Check() != nil {
		return false
	}
	r.res.Artifacts = append(r.res.Artifacts, haft.Artifact{Name: name, ContentType: http.DetectContentType(data),
		Size: int64(len(data)), Data: data})
	return true
}

// outcome says what became of the code.
func (r *sessionRun) outcome(o *session.Outcome, in codeInSession) codeOut {
	out := codeOut{Status: haft.StatusSuccess}
	out.Stdout = out.shown("stdout", r.res.Stdout, shownStdout, r.res.Truncated.Stdout)
	out.Stderr = out.shown("stderr", r.res.Stderr, shownStderr, r.res.Truncated.Stderr)
	results := o.Results
	if in.Forms {
		results = nil
		if r.keepForms(o) {
			out.Files = append(out.Files, formsFile)
		} else {
			out.note("what it shows is more than can be kept")
		}
	}
	for i, res := range results {
		if i == maxShown {
			out.note("%d further results are left out", len(results)-i)
			break
		}
		shown := r.show(fmt.Sprintf("result-%d-%d", o.Count, i+1), res)
		if out.Files = append(out.Files, shown.Files...); res.Main {
			out.Value = mainValue(shown)
			if len(shown.Files) == 0 && shown.Table == nil {
				continue
			}
		}
		out.Shown = append(out.Shown, shown)
	}
	switch {
	case o.Error != nil:
		out.failed(codeError{Kind: "exception", Type: o.Error.Name, Message: o.Error.Value,
			Traceback: o.Error.Traceback})
	case o.Status != nil:
		out.exited(*o.Status)
	}
	if o.Lost {
		out.note("the %s of the session has ended, and its variables are lost; files are still there", in.Language)
		if out.Error == nil {
			out.failed(codeError{Kind: haft.FailExit, Message: "it ended its interpreter"})
		}
	}
	return out
}

// formsFile is the artifact that has all that code has shown.
const formsFile = "results.json"

// keepForms keeps all that code has shown, in every form, and reports whether it could.
func (r *sessionRun) keepForms(o *session.Outcome) bool {
	kept := session.Outcome{Count: o.Count}
	for _, res := range o.Results {
		for form, raw := range res.Data {
			if executor.JSONDepth(raw) >= maxShownDepth {
				delete(res.Data, form)
			}
		}
		kept.Results = append(kept.Results, res)
	}
	data, err := json.Marshal(kept)
	return err == nil && r.keep(formsFile, data)
}

// mainValue is the value of the last expression.
func mainValue(s codeShown) any {
	if s.JSON != nil {
		return s.JSON
	}
	return s.Text
}

// documents are the forms of a result that are kept as files, with the ends of their names.
// What is not text is base64.
var documents = []struct {
	form, end string
	text      bool
}{
	{"png", ".png", false}, {"jpeg", ".jpg", false}, {"pdf", ".pdf", false}, {"svg", ".svg", true},
	{"html", ".html", true},
}

// show returns a result in bounds, and keeps its images and documents as artifacts.
func (r *sessionRun) show(name string, res session.Result) codeShown {
	text := func(form string) string {
		var s string
		_ = json.Unmarshal(res.Data[form], &s) // what is no text is not shown
		return s
	}
	out := codeShown{Text: executor.Shorten(clean(text("text")), maxShownText)}
	for form, to := range map[string]*json.RawMessage{"json": &out.JSON, "table": &out.Table} {
		if raw := res.Data[form]; len(raw) <= maxShownData && executor.JSONDepth(raw) < maxShownDepth {
			*to = raw
		}
	}
	for _, d := range documents {
		content := text(d.form)
		data := []byte(content)
		if !d.text {
			var err error
			if data, err = base64.StdEncoding.DecodeString(strings.TrimSpace(content)); err != nil {
				continue
			}
		}
		if len(data) > 0 && (d.form != "html" || out.Table == nil) && r.keep(name+d.end, data) {
			out.Files = append(out.Files, name+d.end)
		}
	}
	return out
}
