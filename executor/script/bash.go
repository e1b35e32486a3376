package script

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"haft"
	"haft/executor"
	"haft/internal/jsontree"
	"haft/internal/value"
	"haft/sandbox"
	"haft/sandbox/cell"
)

// Where the script and its arguments are, below the work directory. The script has its own name, which Bash puts
// before messages.
const (
	bashDir  = ".haft/"
	bashArgs = bashDir + "args.json"
	resultFD = 3
)

// bashScript is where the source of a script is.
func bashScript(req executor.Request) string { return bashDir + fileName(req, ".sh") }

// bash runs a shell script. It has no harness: arguments are files and variables,
// and its status is its answer.
func (r *run) bash(ctx context.Context, res *haft.Result) error {
	spec, err := r.bashSpec()
	if err != nil {
		return err
	}
	asked := time.Now()
	c, err := r.x.pool.Take(ctx, cell.Plan{
		Key: cell.Key{Tenant: r.req.Org, Environment: r.rt.Digest, Policy: r.x.policyOf(spec)},
		Run: r.holdWorkspace(r.x.provider.Run), Spec: spec,
	})
	res.Timeline.Setup, res.Timeline.Cell = haft.Millis(time.Since(asked)), "cold"
	if err != nil {
		return r.notStarted(ctx, res, err)
	}
	defer c.Release(false)
	defer c.StopWith(ctx)()
	began := time.Now()
	c.ServeEgress(r.req.ServeEgress)
	c.Begin(&r.stdout, &r.stderr)
	said := make(chan []byte, 1)
	go func() {
		said <- r.bashAnswer(c, r.limits.Result)
	}()
	<-c.Ended()
	// If setting the deadline fails, the channel is closed and reading ends.
	_ = c.Conn.SetReadDeadline(time.Now().Add(drain))
	answer := <-said
	exit, runErr := c.Exit()
	res.Timeline.Execute = haft.Millis(time.Since(began))
	r.ended(res, exit)
	switch {
	case errors.Is(runErr, sandbox.ErrLost):
		return fmt.Errorf("%w: %w", executor.ErrMaybeRan, runErr)
	case runErr != nil:
		return runErr
	case wasStopped(ctx, exit):
		stopped(ctx, res)
	case exit.Cause == sandbox.CauseExit && exit.Code == 0:
		r.bashValue(res, answer)
	case exit.Cause == sandbox.CauseExit:
		fail(res, haft.FailExit, bashStatus(exit.Code, fileName(r.req, ".sh"), r.stderr.text(false)), haft.RetryChanged)
	default:
		r.silent(res, io.EOF, exit)
	}
	return nil
}

// bashSpec is the run of the script.
func (r *run) bashSpec() (sandbox.Spec, error) {
	args := r.req.Args
	if len(args) == 0 {
		args = json.RawMessage("{}")
	}
	args, err := withPaths(args, r.req.FileArgs)
	if err != nil {
		return sandbox.Spec{}, err
	}
	vars, err := bashVars(args)
	if err != nil {
		return sandbox.Spec{}, err
	}
	env := append(baseEnv(r.req.Network), "HAFT_ARGS=/work/"+bashArgs, "HAFT_RESULT="+strconv.Itoa(resultFD),
		bashProgress)
	for k, v := range egressEnv(r.req) {
		env = append(env, k+"="+v)
	}
	files := append([]sandbox.File{
		{Name: bashScript(r.req), Data: []byte(r.req.Source)},
		{Name: bashArgs, Data: args},
	}, allFiles(r.req)...)
	if len(r.req.CA) > 0 {
		bundle, err := rootsWith(r.req.CA)
		if err != nil {
			return sandbox.Spec{}, err
		}
		files = append(files, sandbox.File{Name: caFile, Data: bundle})
	}
	argv := append(append([]string{}, r.rt.Argv...), "/work/"+bashScript(r.req))
	if r.workdir() {
		argv = append([]string{r.rt.Argv[0], "-c", `cd -- "$HAFT_WORKSPACE" && exec "$@"`, "bash"}, argv...)
	}
	return r.withWorkspace(sandbox.Spec{
		Tenant: r.req.Org,
		Argv:   argv, Env: append(env, vars...),
		Mounts: r.mounts(), Files: files, Collect: true, Observe: r.req.Observe != nil,
		Limits: r.limits, Network: r.req.Network, Need: r.req.Need,
	}), nil
}

// withPaths puts the paths of files into arguments.
func withPaths(args json.RawMessage, files []executor.FileArg) (json.RawMessage, error) {
	if len(files) == 0 {
		return args, nil
	}
	tree, err := jsontree.Decode(args, jsontree.Limits{Bytes: len(args), Depth: maxNesting, AnyNumber: true})
	if err != nil {
		return nil, invalid("the arguments are not JSON")
	}
	for _, f := range files {
		jsontree.Set(tree, f.At, f.Path)
	}
	return json.Marshal(tree)
}

// bashVars makes a variable of each argument: strings as they are, the rest as
// JSON. What the kernel would not take as one string is only in the file.
func bashVars(args json.RawMessage) ([]string, error) {
	var all map[string]json.RawMessage
	if err := json.Unmarshal(args, &all); err != nil {
		return nil, invalid("the arguments are not an object")
	}
	seen := map[string]bool{}
	var out []string
	for name, raw := range all {
		v := "ARG_" + bashName(name)
		if seen[v] {
			return nil, invalid("two arguments would both be the variable %.64s", v)
		}
		seen[v] = true
		var text string
		if json.Unmarshal(raw, &text) != nil || bytes.Equal(raw, []byte("null")) {
			text = string(raw)
		}
		if strings.ContainsRune(text, 0) {
			return nil, invalid("the argument %.64q holds NUL, which no variable can", name)
		}
		if len(text) <= maxEnvValue {
			out = append(out, v+"="+text)
		}
	}
	return out, nil
}

// bashName is name in upper case, with _ for what a variable cannot have.
func bashName(name string) string {
	return strings.Map(func(c rune) rune {
		switch {
		case c >= 'a' && c <= 'z':
			return c - 'a' + 'A'
		case c >= 'A' && c <= 'Z', c >= '0' && c <= '9':
			return c
		}
		return '_'
	}, name)
}

// bashValue makes the value: what the script wrote to its descriptor, else what
// it printed.
func (r *run) bashValue(res *haft.Result, said []byte) {
	if said = bytes.TrimSpace(said); len(said) > 0 {
		err := value.Check(said, r.limits.Result)
		switch {
		case errors.Is(err, value.ErrTooLarge):
			fail(res, haft.FailResult, haft.MessageOf(err), haft.RetryChanged)
		case err != nil:
			fail(res, haft.FailProtocol, "what it wrote to $HAFT_RESULT is not one value: "+haft.MessageOf(err),
				haft.RetryNever)
		default:
			res.Status, res.Value = haft.StatusSuccess, said
		}
		return
	}
	if r.stdout.over()+res.Truncated.Stdout > 0 {
		fail(res, haft.FailOutput, fmt.Sprintf("its value is what it prints, and that is more than %d bytes",
			r.limits.Stdout), haft.RetryChanged)
		return
	}
	printed := strings.TrimRight(r.stdout.text(false), "\n")
	b, err := value.Read(printed, r.req.Output)
	switch {
	case errors.Is(err, value.ErrTooLarge):
		fail(res, haft.FailResult, haft.MessageOf(err), haft.RetryChanged)
	case err != nil:
		fail(res, haft.FailValue, haft.MessageOf(err), haft.RetryChanged)
		if kept, err := value.Read(printed, haft.OutputAny); err == nil && int64(len(kept)) <= r.limits.Result {
			res.Status, res.Value = haft.StatusValidation, kept
		}
	case int64(len(b)) > r.limits.Result:
		fail(res, haft.FailResult, r.limitText(haft.FailResult), haft.RetryChanged)
	default:
		res.Status, res.Value = haft.StatusSuccess, b
	}
}

// bashStatus says what a status means, with the last lines of what went wrong.
func bashStatus(code int, file, stderr string) string {
	msg := fmt.Sprintf("it ended with status %d", code)
	switch {
	case code == 127:
		msg += " (a command was not found)"
	case code == 126:
		msg += " (a command is not executable)"
	case code > 128 && code < 128+65:
		msg += fmt.Sprintf(" (a command died of signal %d)", code-128)
	}
	lines := strings.Split(strings.TrimSpace(stderr), "\n")
	for _, l := range lines[max(0, len(lines)-2):] {
		if l != "" {
			if _, after, ok := strings.Cut(l, bashDir+file+": "); ok {
				l = file + ": " + after // without where the sandbox has it
			}
			msg += "; " + executor.Shorten(l, 500)
		}
	}
	return msg
}
