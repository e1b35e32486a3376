package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"haft"
	"haft/internal/backend"
	"haft/internal/cli"
	"haft/internal/exit"
	"haft/internal/flagvalue"
	"haft/internal/terminal"
	"haft/internal/toolfile"
	"haft/policy"
)

// callFlags are the flags of haft call.
type callFlags struct {
	argumentFlags
	call        haft.Call // what the flags say of it
	env, files  []string
	out         string
	workspace   string
	workdir     bool
	async, dry  bool
	wait        time.Duration
	version     int
	batch, plan string
}

// callCommand calls a kept tool. It is haft call and haft tool call.
func callCommand(*cli.Profile) cli.Command {
	var f callFlags
	c := &f.call
	return cli.Command{
		Names: toolNames,
		Use:   "call NAME",
		Short: "Call a tool through the whole pipeline: checked, limited, approved, recorded",
		Long: `Call a registered tool. The value goes to stdout, everything else to stderr; with
--json the whole result goes to stdout as one object. Exit codes are those of haft
run; a call that waits for a person is 4.`,
		Example: `  haft call forecast --arg city=Oslo
  haft call forecast --args @args.json --key order-17 --json
  haft call pay --arg amount=3 --dry-run          would it be allowed, and why?
  haft call --batch @calls.json                   [{"tool": …, "args": …}, …]
  haft call --plan @plan.json                     {"steps": [{"id": …, "tool": …, "args": …}, …]}`,
		Missing: noSuchTool,
		Flags: append(f.argumentFlags.flags(), []cli.Flag{
			{&f.env, "env", "a variable for the tool, `K=V`"},
			{&f.files, "file", "a `FILE[:NAME]`, a directory or the id of a kept file, to put into the tool's " +
				"directory; may be given again"},
			{&f.out, "out", "the `DIR` to save the files in that the tool leaves in its working directory"},
			{&f.workspace, "workspace",
				"the `NAME[:ro]` of a workspace: the tool finds it at /workspace; :ro is read-only"},
			{&f.workdir, "workdir", "make the workspace the working directory of the tool"},
			{&f.async, "async", "print the id as soon as the call is acknowledged; it runs before the command ends"},
			{&f.wait, "wait", "with --async: wait so long for the result, also for an approval"},
			{&c.Limits.Wall, "timeout", "how long the run may take; that of the tool if it is not given"},
			{(*flagvalue.Memory)(&c.Limits.Memory), "memory",
				"how much memory it may use; that of the tool if it is not given"},
			{&c.Sandbox, "sandbox", "the sandbox it runs in; see haft sandbox list"},
			{&c.IdempotencyKey, "key", "an idempotency key: the same key and arguments give the same result"},
			{&c.Turn, "turn", "the turn of the agent, which its tool rules look back at"},
			{&f.version, "version", "the `NUMBER` of the version to call"},
			{&c.Digest, "digest", "the digest of the version to call"},
			{&c.Trace, "trace", "a W3C traceparent that the call continues"},
			{&f.dry, "dry-run", "say whether the call would be allowed and fits, and run nothing"},
			{&f.batch, "batch", "several calls: a JSON array in `@FILE`"},
			{&f.plan, "plan", "a chain of calls: a plan in `@FILE`"},
		}...),
		Check: f.check,
		Plain: func(ctx context.Context, p *cli.Profile, args []string) error {
			p.AsIf = f.dry
			return p.Do(ctx, func(ctx context.Context, s *cli.Session) error {
				switch {
				case f.batch != "":
					return f.makeBatch(ctx, s)
				case f.plan != "":
					return f.runPlan(ctx, s)
				}
				return f.makeCall(ctx, s, args[0])
			})
		},
	}
}

// check checks the arguments of the command.
func (f *callFlags) check(args []string) error {
	many := f.batch != "" || f.plan != ""
	switch {
	case f.batch != "" && f.plan != "":
		return exit.Misuse(errors.New("--batch and --plan do not go together"))
	case many && len(args) > 0:
		return exit.Misuse(errors.New("the tools are named in the file: leave NAME out"))
	case len(args) > 1 && strings.Contains(args[1], "="):
		return exit.Misuse(fmt.Errorf("arguments of a tool are written with --arg: haft call %s --arg %s", args[0],
			strings.Join(args[1:], " --arg ")))
	case !many && len(args) != 1:
		return exit.Misuse(errors.New("name one tool: haft call NAME; see which there are with haft tool list"))
	}
	return nil
}

// read returns the call that the flags describe.
func (f *callFlags) read(ctx context.Context, s *cli.Session, name string) (c haft.Call, err error) {
	c = f.call
	c.ID, c.Tool, c.Principal = haft.NewCallID(), name, s.Who
	if c.Limits.Wall < 0 {
		return c, exit.Misuse(errors.New("--timeout must be positive"))
	}
	if c.Args, err = f.readFor(ctx, s, name); err != nil {
		return c, err
	}
	c.Workspace = backend.CallWorkspace(f.workspace, f.workdir)
	if c.Files, err = backend.CallFiles(ctx, s.System, s.Who, f.files); err != nil {
		return c, err
	}
	if c.Env, err = toolfile.Pairs("--env", f.env); err != nil || f.version == 0 {
		return c, err
	}
	if c.Digest != "" {
		return c, exit.Misuse(errors.New("--version and --digest both name a version: give one"))
	}
	v, err := versionOf(ctx, s, name, f.version)
	if err == nil {
		c.Digest = v.Digest
	}
	return c, err
}

// makeCall makes one call and prints its result. It shows what the tool prints and reports while
// it runs.
func (f *callFlags) makeCall(ctx context.Context, s *cli.Session, name string) error {
	c, err := f.read(ctx, s, name)
	if err != nil {
		return err
	}
	switch {
	case f.dry:
		return didYouMean(ctx, s, name, explain(ctx, s, c))
	case f.async || f.wait > 0:
		return submit(ctx, s, c, f.wait)
	case s.JSON || c.IdempotencyKey != "": // with a key it may be another call's result
		res, err := s.Call(ctx, c)
		if err == nil {
			err = saveArtifacts(ctx, s.Profile, s.System, s.Who, res, f.out)
		}
		if err != nil {
			return didYouMean(ctx, s, name, err)
		}
		return printCall(s, res, false)
	}
	view := terminal.NewProgress(s.Err)
	res, shown, err := s.Stream(ctx, c, view.Event)
	view.Line("")
	if err == nil {
		err = saveArtifacts(ctx, s.Profile, s.System, s.Who, res, f.out)
	}
	if err != nil {
		return didYouMean(ctx, s, name, err)
	}
	return printCall(s, res, shown)
}

// didYouMean names the tools whose names are like the one that does not exist.
func didYouMean(ctx context.Context, s *cli.Session, name string, err error) error {
	if haft.CodeOf(err) != haft.CodeNotFound || !strings.Contains(haft.MessageOf(err), "no such tool") {
		return err
	}
	message := "there is no such tool" // its name may be a secret that was put in the wrong place
	if names, listed := toolNames(ctx, s); listed == nil {
		if near := exit.Near(name, names); near != "" {
			message += "; did you mean " + near + "?"
		}
	}
	return &haft.Error{Code: haft.CodeNotFound, Message: message}
}

// printCall prints the result of a call, with the output of the tool unless that was shown while
// the tool ran.
func printCall(s *cli.Session, res *haft.Result, shown bool) error {
	if s.JSON {
		return printResult(s.Profile, res)
	}
	w := s.Err
	if !shown {
		fmt.Fprint(w, safe(w, res.Stdout), safe(w, res.Stderr))
	}
	if res.Status == haft.StatusPending {
		fmt.Fprintf(w, "%s a person has to agree to call %s\n  next: haft approvals approve %s\n",
			paint(w, cyan, "pending_approval:"), res.Call, res.Approval)
		fmt.Fprintln(w, "  by somebody else than the one who asks (--user NAME), unless you work alone here and "+
			"said so: haft init --solo")
		return exit.With(exit.OfStatus[res.Status])
	}
	err := printResult(s.Profile, res)
	if res.Error != nil && res.Error.RetryAfter > 0 {
		fmt.Fprintf(w, "  next: try again in %s\n", res.Error.RetryAfter.D().Round(time.Millisecond))
	}
	if res.Cached {
		fmt.Fprintln(w, paint(w, dim, "the value is that of an earlier call"))
	}
	return err
}

// submit submits a call and waits up to wait for its end.
func submit(ctx context.Context, s *cli.Session, c haft.Call, wait time.Duration) error {
	rec, err := s.Submit(ctx, c)
	if err != nil {
		return err
	}
	s.Owe(rec.Call.Principal.Org, rec.Call.ID)
	if wait > 0 && !rec.Status.Final() {
		res, err := backend.WaitFor(ctx, s.System, s.Who, rec.Call.ID, "", wait)
		switch {
		case err == nil:
			return printCall(s, res, false)
		case !errors.Is(err, context.DeadlineExceeded):
			return err
		}
		if rec, err = s.Record(ctx, s.Who, rec.Call.ID); err != nil {
			return err
		}
	}
	if rec.Status.Final() && rec.Result != nil {
		return printCall(s, rec.Result, false)
	}
	return s.Print(rec, func() {
		fmt.Fprintln(s.Out, rec.Call.ID)
		fmt.Fprintf(s.Err, "%s; see what becomes of it with: haft calls show %s\n", rec.Status, rec.Call.ID)
	})
}

// explain says what the rules decide about a call.
func explain(ctx context.Context, s *cli.Session, c haft.Call) error {
	d, err := s.Explain(ctx, c)
	if err != nil {
		return err
	}
	if err := s.Print(d, func() { printDecision(s, d) }); err != nil {
		return err
	}
	if d.Effect == policy.Allow || d.Effect == policy.NeedsApproval {
		return nil
	}
	if len(d.Problems) > 0 {
		fmt.Fprintln(s.Err, "  next: rules look at arguments: give those of the call with --args or --arg")
	}
	return exit.With(exit.Denied)
}

// printDecision explains a decision to a person.
func printDecision(s *cli.Session, d policy.Decision) {
	for i, line := range strings.Split(strings.TrimRight(d.String(), "\n"), "\n") {
		var shade colour
		switch {
		case i == 0 && d.Effect == policy.Allow:
			shade = green
		case i == 0 && d.Effect == policy.NeedsApproval:
			shade = yellow
		case i == 0:
			shade = red
		case strings.HasPrefix(line, "- "):
			shade = dim
		}
		fmt.Fprintln(s.Out, cli.Shaded(safe(s.Out, line), shade).Paint(s.Out))
	}
}

// makeBatch makes several calls and prints their results in order.
func (f *callFlags) makeBatch(ctx context.Context, s *cli.Session) error {
	var list []struct {
		Tool   string            `json:"tool"`
		Args   json.RawMessage   `json:"args"`
		Env    map[string]string `json:"env"`
		Digest string            `json:"digest"`
		Key    string            `json:"idempotency_key"`
	}
	if err := toolfile.ReadDocument(s.In, "--batch", f.batch, &list); err != nil {
		return err
	}
	calls := make([]haft.Call, len(list))
	for i, c := range list {
		calls[i] = haft.Call{ID: haft.NewCallID(), Tool: c.Tool, Args: c.Args, Env: c.Env, Digest: c.Digest,
			IdempotencyKey: c.Key, Principal: s.Who, Turn: f.call.Turn}
	}
	results, err := s.Batch(ctx, calls)
	if err != nil {
		return err
	}
	code, i := exit.OK, 0
	for _, res := range results {
		code = cmp.Or(code, exit.OfStatus[res.Status])
	}
	err = s.Print(results, func() {
		cli.PrintTable(s.Out, results, cli.Listing[*haft.Result]{"#,CALL,TOOL,STATUS,TOOK,RESULT",
			func(r *haft.Result) []any {
				i++
				return []any{i, r.Call, r.Tool, cli.StatusCell(r.Status),
					r.Timeline.Total.D().Round(100 * time.Microsecond),
					outcomeText(r)}
			}, "there were no calls in the batch"})
	})
	return cmp.Or(err, exit.With(code))
}

// outcomeText is the value of a result, or why there is none.
func outcomeText(res *haft.Result) string {
	switch {
	case res == nil:
		return ""
	case res.Error != nil:
		return res.Error.Message
	case res.Status == haft.StatusPending:
		return "next: haft approvals approve " + cmp.Or(string(res.Approval), string(res.Call))
	}
	return string(res.Value)
}

// runPlan runs a chain and prints its steps.
func (f *callFlags) runPlan(ctx context.Context, s *cli.Session) error {
	var plan haft.Plan
	if err := toolfile.ReadDocument(s.In, "--plan", f.plan, &plan); err != nil {
		return err
	}
	if plan.Workspace == nil {
		plan.Workspace = backend.CallWorkspace(f.workspace, f.workdir)
	}
	c, err := s.Run(ctx, s.Who, plan)
	if err != nil {
		return err
	}
	return printChain(s, c)
}

// printChain prints the steps of a chain, and returns its exit code as an error.
func printChain(s *cli.Session, c *haft.Chain) error {
	err := s.Print(c, func() {
		cli.PrintTable(s.Out, c.Steps, cli.Listing[haft.StepResult]{
			"STEP,STATE,STATUS,CALL,RESULT", func(st haft.StepResult) []any {
				var status cli.Cell
				if st.Result != nil {
					status = cli.StatusCell(st.Result.Status)
				}
				return []any{st.ID, st.State, status, st.Call, cmp.Or(st.Reason, outcomeText(st.Result))}
			}, "the plan has no steps"})
		fmt.Fprintf(s.Err, "chain %s: %s\n", c.ID, c.Status)
		if c.Error != nil {
			fmt.Fprintln(s.Err, safe(s.Err, c.Error.Message))
		}
	})
	return cmp.Or(err, exit.With(exit.OfStatus[c.Status]))
}
