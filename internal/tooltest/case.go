package tooltest

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"haft"
	"haft/internal/apimock"
	"haft/internal/pause"
	"haft/internal/secret"
	"haft/internal/toolfile"
)

// maxContent bounds a file of a case.
const maxContent = 32 << 20

// A run is one run of a case.
type run struct {
	*place
	c         *Case
	name      string // of this run: of its user, agent, workspace and turn
	principal haft.Principal
	agent     *haft.Agent
	workspace *haft.CallWorkspace
	blocks    map[string]haft.BlockID
	results   map[string]*haft.Result // of steps by name
	ids       atomic.Int64            // of calls of the model

	mock *apimock.Mock

	mu           sync.Mutex
	real         []string // hosts of the network that were reached
	faults       []Fault
	last         *haft.Result
	time, memory float64
	spent        map[Spent]float64 // milliseconds, with Config.Profile
}

// runCase runs a case once. If it was generated and fails, it looks for smaller arguments.
func (p *place) runCase(ctx context.Context, c *Case) *run {
	r := p.runOnce(ctx, c)
	r.shrink(ctx)
	return r
}

// runOnce runs set-up, calls and tear-down of a case, for a user of its own.
func (p *place) runOnce(ctx context.Context, c *Case) *run {
	r := &run{place: p, c: c, name: fmt.Sprintf("case-%d", p.cases.Add(1)), results: map[string]*haft.Result{},
		blocks: map[string]haft.BlockID{}}
	r.principal = haft.Principal{Org: p.org, User: r.name, Roles: []string{haft.RoleAdmin}}
	if who := c.Principal; who != nil {
		r.principal.Roles, r.principal.Scope = who.Roles, who.Scope
		if who.User != "" {
			r.principal.User = who.User + "-" + r.name // fresh, so that no case sees another
		}
	}
	release, err := r.openMock()
	if err != nil {
		r.fault("set-up", err)
		return r
	}
	defer release()
	if err := r.prepare(ctx); err != nil {
		r.fault("set-up", err)
		return r
	}
	if r.runSteps(ctx, "setup", c.Setup, true) {
		if len(c.Steps) > 0 {
			r.runSteps(ctx, "steps", c.Steps, false)
		} else {
			r.runCalls(ctx)
		}
	}
	r.runSteps(ctx, "teardown", c.Teardown, false)
	r.closeMock()
	return r
}

// fault notes that something could not be done.
func (r *run) fault(what string, err error) { r.add(Fault{what, err.Error()}) }

// add notes faults.
func (r *run) add(faults ...Fault) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.faults = append(r.faults, faults...)
}

// prepare makes the agent, its secrets and blocks, and the workspace.
func (r *run) prepare(ctx context.Context) error {
	if r.c.Agent != nil || len(r.c.Secrets) > 0 || r.c.talks() {
		if err := r.makeAgent(ctx); err != nil {
			return fmt.Errorf("make the agent: %w", err)
		}
	}
	w := r.c.Workspace
	if w == nil {
		return nil
	}
	spaces := r.svc.API.Workspaces
	if _, err := spaces.AddWorkspace(ctx, r.principal, haft.NewWorkspace{Name: r.name}); err != nil {
		return fmt.Errorf("make the workspace: %w", err)
	}
	for _, path := range slices.Sorted(maps.Keys(w.Files)) {
		data, err := r.content(w.Files[path])
		if err != nil {
			return err
		}
		if err := spaces.PutWorkspaceFile(ctx, r.principal, r.name, haft.CallFile{Path: path, Data: data}); err != nil {
			return fmt.Errorf("write %s into the workspace: %w", path, err)
		}
	}
	r.workspace = &haft.CallWorkspace{Name: r.name, ReadOnly: w.ReadOnly, Workdir: w.Workdir}
	return nil
}

// makeAgent makes the agent of the case.
func (r *run) makeAgent(ctx context.Context) error {
	spec := r.c.Agent
	if spec == nil {
		spec = &Agent{}
	}
	a := haft.Agent{Name: r.name, Tools: spec.Tools, Env: spec.Env, Rules: spec.Rules,
		Instructions: spec.Instructions, If: haft.IfNone}
	if len(a.Tools) == 0 {
		for _, t := range r.tools {
			a.Tools = append(a.Tools, t.Name)
		}
	}
	kept, err := r.svc.PutAgent(ctx, r.manager(), a)
	if err != nil {
		return err
	}
	r.agent, r.principal.Agent = kept, string(kept.ID)
	for label, text := range spec.Blocks {
		b, err := r.svc.API.Memory.AddBlock(ctx, r.manager(), haft.Block{Label: label, Value: text})
		if err == nil {
			err = r.svc.API.Memory.AttachBlock(ctx, r.manager(), string(kept.ID), b.ID)
		}
		if err != nil {
			return fmt.Errorf("block %s: %w", label, err)
		}
		r.blocks[label] = b.ID
	}
	for name, s := range r.c.Secrets {
		var bound *secret.Binding
		if len(s.Hosts) > 0 {
			bound = &secret.Binding{Hosts: s.Hosts, Header: s.Header, Prefix: s.Prefix}
		}
		if err := r.svc.BindSecret(ctx, r.manager(), string(kept.ID), name, r.secretValue(name, s), bound); err != nil {
			return fmt.Errorf("secret %s: %w", name, err)
		}
	}
	return nil
}

// content returns the bytes of a file of the case.
func (r *run) content(c Content) ([]byte, error) {
	switch {
	case c.From != "":
		path, err := r.file.within(c.From)
		if err != nil {
			return nil, err
		}
		b, err := toolfile.ReadBounded(path, maxContent)
		if err != nil {
			return nil, fmt.Errorf("read a file of the case: %w", err)
		}
		return b, nil
	case len(c.Base64) > 0:
		return c.Base64, nil
	}
	return []byte(c.Text), nil
}

// runCalls makes the call of the case, or several at once.
func (r *run) runCalls(ctx context.Context) {
	var all sync.WaitGroup
	for range max(r.c.Parallel, 1) {
		all.Go(func() { r.one(ctx, "", r.c.Call) })
	}
	all.Wait()
}

// runSteps makes calls in order. It reports whether all were as expected; with stop the first that is not is the last.
func (r *run) runSteps(ctx context.Context, what string, steps []Step, stop bool) bool {
	good := true
	for i, s := range steps {
		label := what + " " + strconv.Itoa(i+1)
		if s.Name != "" {
			label = what + " " + s.Name
		}
		res, ok := r.one(ctx, label, s.Call)
		if res != nil && s.Name != "" {
			r.results[s.Name] = res
		}
		if good = good && ok; !good && stop {
			return false
		}
	}
	return good
}

// one makes one call and compares what became of it. It reports whether that is as expected.
func (r *run) one(ctx context.Context, label string, c Call) (*haft.Result, bool) {
	if c.Message != "" {
		return r.say(ctx, label, c)
	}
	o := observation{block: func(l string) (string, bool) { return r.readBlock(ctx, l) },
		file: func(path string) (string, bool) { return r.readFile(ctx, path) }}
	o.steps, o.err = json.Marshal(r.results)
	call, err := r.call(c)
	if err != nil {
		r.add(Fault{label, err.Error()})
		return nil, false
	}
	o.args = call.Args
	before := len(r.mock.Report().Requests)
	seen := r.watch(call.ID, r.file.Touches != nil || r.cfg.Learn)
	o.result, o.err = r.do(ctx, call, c)
	touched := r.withoutAdded(call.Tool, seen())
	r.takeCovered(call.Tool, o.result)
	r.takeProfile(call.Tool, o.result)
	o.seen, o.hosts = r.mock.Report().Requests[before:], r.hosts()
	var faults []Fault
	if r.c.made == nil {
		faults = c.Expect.compare(ctx, o)
	} else {
		faults = r.judge(ctx, o)
	}
	faults = append(faults, r.compareTouched(call.Tool, touched, o.result)...)
	if label != "" {
		for i := range faults {
			faults[i].Text = label + ": " + faults[i].Text
		}
	}
	r.add(faults...)
	r.note(o.result)
	return o.result, len(faults) == 0
}

// note adds up what calls took.
func (r *run) note(res *haft.Result) {
	if res == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.last = res
	r.time += float64(res.Usage.Wall.D())
	r.memory = max(r.memory, float64(res.Usage.MaxRSS))
}

// call makes the call of a case or a step.
func (r *run) call(c Call) (haft.Call, error) {
	call := haft.Call{ID: haft.NewCallID(), Tool: cmp.Or(c.Tool, r.c.Tool), Args: c.Args, Principal: r.principal,
		Limits: c.Limits, Sandbox: c.Sandbox, Turn: r.name, Workspace: r.workspace, Env: map[string]string{}}
	if c.Key != "" {
		call.IdempotencyKey = r.name + "-" + c.Key
	}
	if call.Tool == "" {
		if len(r.tools) == 0 {
			return call, &haft.Error{Code: haft.CodeInvalid,
				Message: "the case names no tool, and neither does the file: add tool: FILE"}
		}
		call.Tool = r.tools[0].Name
	}
	if c.Raw != "" {
		call.Args = json.RawMessage(c.Raw)
	}
	var err error
	if call.Args, err = r.fill(call.Args); err != nil {
		return call, err
	}
	for _, env := range []map[string]string{r.c.Env, c.Env} {
		maps.Copy(call.Env, env)
	}
	files := maps.Clone(r.c.Files)
	if files == nil {
		files = map[string]Content{}
	}
	maps.Copy(files, c.Files)
	for _, path := range slices.Sorted(maps.Keys(files)) {
		data, err := r.content(files[path])
		if err != nil {
			return call, err
		}
		call.Files = append(call.Files, haft.CallFile{Path: path, Data: data})
	}
	return call, nil
}

// answerWait is how long a call may take after a person has answered.
const answerWait = 5 * time.Minute

// do makes a call, cancels it if the case says so, and answers requests for approval.
func (r *run) do(ctx context.Context, call haft.Call, c Call) (*haft.Result, error) {
	if c.Cancel > 0 {
		stop := time.AfterFunc(c.Cancel.D(), func() { _ = r.svc.Cancel(ctx, r.principal, call.ID) })
		defer stop.Stop()
	}
	res, err := r.svc.Call(ctx, call)
	if err != nil || res.Status != haft.StatusPending || c.Approve == nil {
		return res, err
	}
	ctx, cancel := context.WithTimeout(ctx, answerWait)
	defer cancel()
	for res.Status == haft.StatusPending {
		given := res.Approval
		answer := haft.Answer{Approve: c.Approve.Answer == "yes", Args: c.Approve.Args}
		if _, err := r.svc.Decide(ctx, r.approver(c.Approve.Roles), given, answer); err != nil {
			return nil, fmt.Errorf("answer the request for approval: %w", err)
		}
		for wait := time.Millisecond; ; wait = min(2*wait, 50*time.Millisecond) {
			if res, err = r.svc.Wait(ctx, r.principal, res.Call); err != nil {
				return nil, err
			}
			if res.Status.Final() || res.Status == haft.StatusPending && res.Approval != given {
				break
			}
			if err := pause.For(ctx, wait); err != nil {
				return nil, err
			}
		}
	}
	return res, nil
}

// readBlock reads a block of the agent.
func (r *run) readBlock(ctx context.Context, label string) (string, bool) {
	if r.agent == nil {
		return "", false
	}
	list, err := r.svc.API.Memory.Blocks(ctx, r.manager(), haft.BlockFilter{Agent: string(r.agent.ID), Label: label})
	if err != nil || len(list) == 0 {
		return "", false
	}
	return list[0].Value, true
}

// readFile reads a file of the workspace.
func (r *run) readFile(ctx context.Context, path string) (text string, ok bool) {
	if r.workspace == nil {
		return "", false
	}
	_, f, err := r.svc.API.Workspaces.OpenWorkspaceFile(ctx, r.principal, r.name, path)
	if err != nil {
		return "", false
	}
	defer func() { ok = errors.Join(f.Close()) == nil && ok }()
	var b bytes.Buffer
	if _, err := io.Copy(&b, io.LimitReader(f, maxContent)); err != nil {
		return "", false
	}
	return b.String(), true
}

// fill replaces ${steps.NAME.value.x} in the texts of arguments. A text that is nothing else becomes the value itself.
func (r *run) fill(args json.RawMessage) (json.RawMessage, error) {
	if len(r.results) == 0 || !bytes.Contains(args, []byte("${steps.")) {
		return args, nil
	}
	return fillSteps(args, r.results)
}
