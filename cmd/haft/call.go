package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"haft"
	"haft/internal/engine"
	"haft/policy"
	"haft/schema"
)

// callFlags are the flags of haft call.
type callFlags struct {
	runFlags
	async, dry    bool
	wait          time.Duration
	key, turn     string
	version       int
	digest, trace string
	batch, plan   string
}

// callCommand calls a kept tool.
func callCommand(std streams) *cobra.Command {
	cmd := makeCall(nil, std)
	return cmd
}

// makeCall makes haft call, and haft tool call, which shares its persona with the
// commands beside it.
func makeCall(p *persona, std streams) *cobra.Command {
	var f callFlags
	cmd := &cobra.Command{
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
	}
	if p == nil {
		p = attach(cmd)
	}
	cmd.Args = func(_ *cobra.Command, args []string) error {
		many := f.batch != "" || f.plan != ""
		switch {
		case f.batch != "" && f.plan != "":
			return usage(errors.New("--batch and --plan do not go together"))
		case many && len(args) > 0:
			return usage(errors.New("the tools are named in the file: leave NAME out"))
		case !many && len(args) != 1:
			return usage(errors.New("name one tool: haft call NAME; see which there are with haft tool list"))
		}
		return nil
	}
	cmd.RunE = func(c *cobra.Command, args []string) error {
		f.json, p.asIf = p.json, f.dry
		return p.do(c.Context(), std, func(ctx context.Context, s *session) error {
			switch {
			case f.batch != "":
				return callBatch(ctx, s, f)
			case f.plan != "":
				return callPlan(ctx, s, f)
			}
			return callOne(ctx, s, args[0], f)
		})
	}
	f.declare(cmd)
	return cmd
}

// declare adds the flags.
func (f *callFlags) declare(cmd *cobra.Command) {
	fl := cmd.Flags()
	fl.StringVar(&f.args, "args", "", "the arguments as `JSON`, @FILE, or - for standard input")
	fl.StringArrayVar(&f.arg, "arg", nil,
		"one argument, `NAME=VALUE`; VALUE is JSON, or text where the tool takes text")
	fl.StringArrayVar(&f.env, "env", nil, "a variable for the tool, `K=V`")
	fl.BoolVar(&f.async, "async", false,
		"print the id as soon as the call is acknowledged; it runs before the command ends")
	fl.DurationVar(&f.wait, "wait", 0, "with --async: wait so long for the result, also for an approval")
	fl.DurationVar(&f.timeout, "timeout", 0, "how long the run may take; that of the tool if it is not given")
	fl.Var(&f.memory, "memory", "how much memory it may use; that of the tool if it is not given")
	fl.StringVar(&f.key, "key", "", "an idempotency key: the same key and arguments give the same result")
	fl.StringVar(&f.turn, "turn", "", "the turn of the agent, which its tool rules look back at")
	fl.IntVar(&f.version, "version", 0, "the `NUMBER` of the version to call")
	fl.StringVar(&f.digest, "digest", "", "the digest of the version to call")
	fl.StringVar(&f.trace, "trace", "", "a W3C traceparent that the call continues")
	fl.BoolVar(&f.dry, "dry-run", false, "say whether the call would be allowed and fits, and run nothing")
	fl.StringVar(&f.batch, "batch", "", "several calls: a JSON array in `@FILE`")
	fl.StringVar(&f.plan, "plan", "", "a chain of calls: a plan in `@FILE`")
}

// call makes the call that the flags describe.
func (f callFlags) call(ctx context.Context, s *session, name string) (haft.Call, error) {
	c := haft.Call{
		ID: engine.NewCallID(), Tool: name, Principal: s.p, IdempotencyKey: f.key, Turn: f.turn, Digest: f.digest,
		Trace:  f.trace,
		Limits: haft.Limits{Wall: haft.Millis(f.timeout), Memory: int64(f.memory)},
	}
	if f.timeout < 0 {
		return c, usage(errors.New("--timeout is more than nothing"))
	}
	var err error
	if c.Args, err = f.arguments(s.std.in); err != nil {
		return c, err
	}
	if c.Args, err = f.declared(ctx, s, name, c.Args); err != nil {
		return c, err
	}
	if c.Env, err = pairs("--env", f.env); err != nil {
		return c, err
	}
	if f.version != 0 {
		if f.digest != "" {
			return c, usage(errors.New("--version and --digest both name a version: give one"))
		}
		v, err := versionOf(ctx, s, name, f.version)
		if err != nil {
			return c, err
		}
		c.Digest = v.Digest
	}
	return c, nil
}

// callOne makes one call and prints its result.
func callOne(ctx context.Context, s *session, name string, f callFlags) error {
	c, err := f.call(ctx, s, name)
	if err != nil {
		return err
	}
	switch {
	case f.dry:
		return explain(ctx, s, c)
	case f.async || f.wait > 0:
		return submit(ctx, s, c, f.wait)
	}
	res, shown, err := s.run(ctx, c)
	if err != nil {
		return noTool(err)
	}
	return s.result(res, shown)
}

// result prints a result. What the tool printed is shown unless it was while the
// tool ran.
func (s *session) result(res *haft.Result, shown bool) error {
	if s.as.json {
		return finish(s.std, res, true)
	}
	w := s.std.err
	if !shown {
		fmt.Fprint(w, safe(w, res.Stdout), safe(w, res.Stderr))
	}
	if res.Status == haft.StatusPending {
		fmt.Fprintf(w, "%s a person has to agree to call %s\n  next: haft approvals approve %s\n",
			paint(w, cyan, "pending_approval:"), res.Call, res.Approval)
		return &exit{code: statusExits[res.Status]}
	}
	err := finish(s.std, res, false)
	if res.Error != nil && res.Error.RetryAfter > 0 {
		fmt.Fprintf(w, "  next: try again in %s\n", res.Error.RetryAfter.D().Round(time.Millisecond))
	}
	if res.Cached {
		fmt.Fprintln(w, paint(w, dim, "the value is that of an earlier call"))
	}
	return err
}

// run makes a call, and shows what its tool prints while it runs if a person looks.
func (s *session) run(ctx context.Context, c haft.Call) (res *haft.Result, shown bool, err error) {
	if s.as.json || !isTerminal(s.std.err) || c.IdempotencyKey != "" { // with a key it may be another call's result
		res, err = s.Call(ctx, c)
		return res, false, err
	}
	return s.Stream(ctx, c, func(e haft.Event) { printOutput(s.std, e) })
}

// outputData is what an event says about output.
type outputData struct {
	Stream string `json:"stream"`
	Text   string `json:"text"`
}

// printOutput writes what a tool printed, if the event is about that.
func printOutput(std streams, e haft.Event) {
	var d outputData
	if e.Type == haft.EventOutput && json.Unmarshal(e.Data, &d) == nil {
		fmt.Fprint(std.err, safe(std.err, d.Text))
	}
}

// submit has a call acknowledged, and waits for it as long as it is told to.
func submit(ctx context.Context, s *session, c haft.Call, wait time.Duration) error {
	rec, err := s.Submit(ctx, c)
	if err != nil {
		return noTool(err)
	}
	s.Owe(rec.Call.Principal.Org, rec.Call.ID)
	if wait > 0 && !rec.Status.Final() {
		res, err := s.waited(ctx, rec.Call.ID, "", wait)
		switch {
		case err == nil:
			return s.result(res, false)
		case !errors.Is(err, context.DeadlineExceeded):
			return err
		}
		if rec, err = s.Record(ctx, s.p, rec.Call.ID); err != nil {
			return err
		}
	}
	if rec.Status.Final() && rec.Result != nil {
		return s.result(rec.Result, false)
	}
	if s.as.json {
		return printJSON(s.std.out, rec)
	}
	fmt.Fprintln(s.std.out, rec.Call.ID)
	fmt.Fprintf(s.std.err, "%s; see what becomes of it with: haft calls show %s\n", rec.Status, rec.Call.ID)
	return nil
}

// waited waits until a call has ended, or waits for another approval than the one
// that was given, and returns its result.
func (s *session) waited(ctx context.Context, id haft.CallID, given haft.ApprovalID,
	most time.Duration) (*haft.Result, error) {
	if most > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, most)
		defer cancel()
	}
	for wait := 5 * time.Millisecond; ; wait = min(2*wait, 200*time.Millisecond) {
		res, err := s.Wait(ctx, s.p, id)
		switch {
		case ctx.Err() != nil:
			return nil, fmt.Errorf("wait for call %s: %w", id, context.Cause(ctx))
		case err != nil:
			return nil, err
		case res.Status.Final() || given != "" && res.Approval != given:
			return res, nil
		}
		select {
		case <-time.After(wait):
		case <-ctx.Done():
		}
	}
}

// explain says what would become of a call.
func explain(ctx context.Context, s *session, c haft.Call) error {
	d, err := s.Explain(ctx, c)
	if err != nil {
		return noTool(err)
	}
	if s.as.json {
		if err := printJSON(s.std.out, d); err != nil {
			return err
		}
	} else {
		printDecision(s, d)
	}
	if d.Effect != policy.Allow && d.Effect != policy.NeedsApproval {
		if len(d.Problems) > 0 {
			fmt.Fprintln(s.std.err, "  next: rules look at arguments: give those of the call with --args or --arg")
		}
		return &exit{code: exitDenied}
	}
	return nil
}

// printDecision explains a decision to a person.
func printDecision(s *session, d policy.Decision) {
	w := s.std.out
	for i, line := range strings.Split(strings.TrimRight(d.String(), "\n"), "\n") {
		shade := colour(0)
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
		line = safe(w, line)
		if shade != 0 {
			line = paint(w, shade, line)
		}
		fmt.Fprintln(w, line)
	}
}

// readJSONFile reads a document of @FILE, - or as it stands into v, with no field
// that is not known.
func readJSONFile(s *session, flag, text string, v any) error {
	raw, err := runFlags{args: text}.arguments(s.std.in)
	if err != nil {
		return err
	}
	if _, err := schema.Decode(raw); err != nil {
		return &haft.Error{Code: haft.CodeInvalid, Message: flag + " cannot be read: " + err.Error(), Err: err}
	}
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.DisallowUnknownFields()
	if err := dec.Decode(v); err != nil {
		return &haft.Error{Code: haft.CodeInvalid,
			Message: flag + " cannot be read: " + strings.TrimPrefix(err.Error(), "json: ")}
	}
	return nil
}

// A wanted is one call of a batch.
type wanted struct {
	Tool   string            `json:"tool"`
	Args   json.RawMessage   `json:"args"`
	Env    map[string]string `json:"env"`
	Digest string            `json:"digest"`
	Key    string            `json:"idempotency_key"`
}

// callBatch makes several calls and prints their results in order.
func callBatch(ctx context.Context, s *session, f callFlags) error {
	var list []wanted
	if err := readJSONFile(s, "--batch", f.batch, &list); err != nil {
		return err
	}
	calls := make([]haft.Call, len(list))
	for i, w := range list {
		calls[i] = haft.Call{ID: engine.NewCallID(), Tool: w.Tool, Args: w.Args, Env: w.Env, Digest: w.Digest,
			IdempotencyKey: w.Key, Principal: s.p, Turn: f.turn}
	}
	results, err := s.Batch(ctx, calls)
	if err != nil {
		return err
	}
	code := exitOK
	for _, res := range results {
		if c := statusExits[res.Status]; code == exitOK {
			code = c
		}
	}
	if s.as.json {
		if err := printJSON(s.std.out, results); err != nil {
			return err
		}
	} else {
		tab := newTable(s.std.out, "#", "CALL", "TOOL", "STATUS", "TOOK", "RESULT")
		for i, res := range results {
			tab.row(i+1, res.Call, res.Tool, statusCell(res.Status), res.Timeline.Total.D().Round(100*time.Microsecond),
				outcomeText(res))
		}
		tab.print("there were no calls in the batch")
	}
	if code != exitOK {
		return &exit{code: code}
	}
	return nil
}

// outcomeText is the value of a result, or why there is none.
func outcomeText(res *haft.Result) string {
	switch {
	case res == nil:
		return ""
	case res.Error != nil:
		return res.Error.Message
	case res.Status == haft.StatusPending:
		return "next: haft approvals approve " + or(string(res.Approval), string(res.Call))
	}
	return string(res.Value)
}

// callPlan runs a chain and prints where it stands.
func callPlan(ctx context.Context, s *session, f callFlags) error {
	var plan haft.Plan
	if err := readJSONFile(s, "--plan", f.plan, &plan); err != nil {
		return err
	}
	c, err := s.Run(ctx, s.p, plan)
	if err != nil {
		return err
	}
	return printChain(s, c)
}

// printChain prints where a chain stands, and returns its exit code as an error.
func printChain(s *session, c *haft.Chain) error {
	if s.as.json {
		if err := printJSON(s.std.out, c); err != nil {
			return err
		}
	} else {
		w := s.std.out
		tab := newTable(w, "STEP", "STATE", "STATUS", "CALL", "RESULT")
		for _, st := range c.Steps {
			var status cell
			if st.Result != nil {
				status = statusCell(st.Result.Status)
			}
			tab.row(st.ID, st.State, status, st.Call, or(st.Reason, outcomeText(st.Result)))
		}
		tab.print("the plan has no steps")
		fmt.Fprintf(s.std.err, "chain %s: %s\n", c.ID, c.Status)
		if c.Error != nil {
			fmt.Fprintln(s.std.err, safe(s.std.err, c.Error.Message))
		}
	}
	if code := statusExits[c.Status]; code != exitOK {
		return &exit{code: code}
	}
	return nil
}
