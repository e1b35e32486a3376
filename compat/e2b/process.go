package e2b

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"haft"
)

// maxProcesses bounds the commands of a sandbox that run, or have just ended.
const maxProcesses = 64

// keptFor is how long it is known how a command has ended.
const keptFor = 30 * time.Second

// A process is a command in a sandbox: a call of run_command.
type process struct {
	call   haft.CallID
	config processConfig
	tag    string
	pty    bool
	begun  chan struct{} // closed when the command runs, or has ended

	mu      sync.Mutex
	pid     int
	output  []chunk          // what a reader lacks
	first   int              // how many chunks were before output
	readers map[*reader]bool // who started the command, and who has connected to it
	held    *atomic.Int64    // bytes of output, of all commands of the sandbox
	shown   map[string]int   // bytes of each stream
	changed chan struct{}    // closed, and made anew, when there is more
	end     *ending          // nil while it runs
}

// processConfig is a command as a client says it.
type processConfig struct {
	Cmd  string            `json:"cmd"`
	Args []string          `json:"args,omitempty"`
	Envs map[string]string `json:"envs,omitempty"`
	Cwd  string            `json:"cwd,omitempty"`
}

// A chunk is output: one of stdout, stderr and pty.
type chunk map[string][]byte

// An ending is what became of a command, or why that is not known.
type ending struct {
	Code   int    `json:"exitCode"`
	Exited bool   `json:"exited"`
	Status string `json:"status"`
	Error  string `json:"error,omitempty"`
	fault  error
}

// newProcess returns a process that is not started yet.
func newProcess(in startRequest, held *atomic.Int64) *process {
	return &process{call: haft.NewCallID(), config: in.Process, tag: in.Tag, pty: in.PTY != nil, held: held,
		begun: make(chan struct{}), changed: make(chan struct{}), shown: map[string]int{}, readers: map[*reader]bool{}}
}

// maxHeld bounds the output of all commands of a sandbox that clients have not been sent yet.
const maxHeld = 64 << 20

// errBehind ends the stream of a client whose output was dropped.
var errBehind = &haft.Error{Code: haft.CodeRateLimited,
	Message: "the output of the commands is read more slowly than it is printed: some of it was dropped"}

// A reader is a client that is sent the output of a process.
type reader struct{ next int } // the chunk that it gets next

// addReader adds a reader of what is printed from now on. Output that all readers have is dropped, so
// the caller calls removeReader.
func (p *process) addReader() *reader {
	p.mu.Lock()
	defer p.mu.Unlock()
	r := &reader{p.first + len(p.output)}
	p.readers[r] = true
	return r
}

// removeReader removes a reader.
func (p *process) removeReader(r *reader) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.readers, r)
	p.dropSent()
}

// dropSent drops the output that all readers have. Preconditions: mu is held.
func (p *process) dropSent() {
	least := p.first + len(p.output)
	for r := range p.readers {
		least = min(least, r.next)
	}
	p.drop(least - p.first)
}

// drop drops the first n chunks of output, if n is positive. Preconditions: mu is held.
func (p *process) drop(n int) {
	if n <= 0 {
		return
	}
	for _, c := range p.output[:n] {
		for _, data := range c {
			p.held.Add(-int64(len(data)))
		}
	}
	p.output = slices.Clone(p.output[n:]) // a reader may hold the old slice
	p.first += n
}

// arguments returns those of the call.
func (p *process) arguments(s *sandbox, in startRequest, timeout time.Duration) (map[string]any, error) {
	if p.config.Cmd == "" {
		return nil, invalid("the command is empty")
	}
	if err := checkPairs("envs", in.Process.Envs); err != nil {
		return nil, err
	}
	cwd, err := place(in.Process.Cwd)
	if err != nil {
		return nil, err
	}
	env := map[string]string{"HOME": home, "PWD": shown(cwd), "USER": "user", "LOGNAME": "user"}
	for _, more := range []map[string]string{s.env, in.Process.Envs} {
		for k, v := range more {
			env[k] = v
		}
	}
	args := map[string]any{"session": s.session, "argv": append([]string{p.config.Cmd}, p.config.Args...), "cwd": cwd,
		"env": env}
	if in.PTY != nil {
		args["tty"] = true
	} else if in.Stdin == nil || *in.Stdin {
		args["input"] = true
	}
	if timeout > 0 && timeout < time.Hour {
		args["timeout_seconds"] = timeout.Seconds()
	}
	return args, nil
}

// start starts a command, which runs on when the client is gone. The reader is that of the client.
func (a processHandlers) start(by haft.Principal, s *sandbox, in startRequest,
	timeout time.Duration) (*process, *reader, error) {
	p := newProcess(in, &s.held)
	args, err := p.arguments(s, in, timeout)
	if err != nil {
		return nil, nil, err
	}
	s.mu.Lock()
	if len(s.processes) >= maxProcesses {
		s.mu.Unlock()
		return nil, nil, &haft.Error{Code: haft.CodeRateLimited,
			Message: fmt.Sprintf("a sandbox runs at most %d commands at once", maxProcesses)}
	}
	s.processes[p] = true
	s.mu.Unlock()
	client := p.addReader()
	go func() {
		res, shown, err := a.call(s.ctx, s, by, "run_command", p.call, args, p.show)
		p.finish(endingOf(res, err), res, shown)
		time.AfterFunc(keptFor, func() {
			s.mu.Lock()
			defer s.mu.Unlock()
			delete(s.processes, p)
		})
	}()
	return p, client, nil
}

// show takes an event of the call.
func (p *process) show(ev haft.Event) {
	var data struct {
		PID    int    `json:"pid"`
		Stream string `json:"stream"`
		Text   string `json:"text"`
	}
	if json.Unmarshal(ev.Data, &data) != nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case ev.Type == haft.EventProgress && p.pid == 0 && data.PID > 0:
		p.pid = data.PID
		close(p.begun)
	case ev.Type == haft.EventOutput:
		p.print(data.Stream, data.Text)
	}
}

// print adds output. Preconditions: mu is held.
func (p *process) print(stream, text string) {
	p.shown[stream] += len(text)
	if p.pty {
		stream = "pty"
	}
	if len(p.readers) == 0 {
		return
	}
	if p.held.Add(int64(len(text))) > maxHeld {
		p.drop(len(p.output)) // readers that are behind get errBehind
	}
	p.output = append(p.output, chunk{stream: []byte(text)})
	p.wake()
}

// wake says that there is more. Preconditions: mu is held.
func (p *process) wake() {
	close(p.changed)
	p.changed = make(chan struct{})
}

// finish notes how the command ended, with output that was not shown.
func (p *process) finish(end *ending, res *haft.Result, shown bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if res != nil && !shown {
		for stream, all := range map[string]string{"stdout": res.Stdout, "stderr": res.Stderr} {
			if n := p.shown[stream]; n < len(all) {
				p.print(stream, all[n:])
			}
		}
	}
	p.end = end
	if p.pid == 0 {
		close(p.begun)
	}
	p.wake()
}

// next notes that a reader was sent so many chunks more. It returns those that follow, how the command
// ended, if it did, and what is closed when there is more.
func (p *process) next(r *reader, sent int) ([]chunk, *ending, <-chan struct{}, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	r.next += sent
	if r.next < p.first {
		return nil, nil, nil, errBehind
	}
	p.dropSent()
	return p.output[r.next-p.first:], p.end, p.changed, nil
}

// state returns the number of the process, and whether it has ended.
func (p *process) state() (pid int, ended bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.pid, p.end != nil
}

// endingOf says what became of a command.
func endingOf(res *haft.Result, err error) *ending {
	if err == nil {
		err = refusedCall(res)
	}
	if err != nil {
		return &ending{fault: err}
	}
	var out struct {
		Exit  *int `json:"exit_code"`
		Error *struct {
			Kind    haft.FailureKind `json:"kind"`
			Message string           `json:"message"`
		} `json:"error"`
	}
	if err := json.Unmarshal(res.Value, &out); err != nil {
		return &ending{fault: fmt.Errorf("read the result of a command: %w", err)}
	}
	if out.Exit != nil && (out.Error == nil || out.Error.Kind == haft.FailExit) {
		e := &ending{Code: *out.Exit, Exited: true, Status: fmt.Sprintf("exit status %d", *out.Exit)}
		if e.Code != 0 {
			e.Error = e.Status
		}
		return e
	}
	if out.Error == nil {
		return &ending{Exited: true, Status: "exit status 0"}
	}
	var signal int
	switch _, err := fmt.Sscanf(out.Error.Message, "it was ended by signal %d", &signal); {
	case out.Error.Kind == haft.FailTimeout:
		return &ending{fault: errDeadline}
	case err == nil:
		status := "signal: " + signalName(signal)
		return &ending{Code: -1, Status: status, Error: status}
	case strings.HasPrefix(out.Error.Message, "it cannot be started"):
		return &ending{fault: invalid(out.Error.Message)}
	}
	return &ending{Code: -1, Status: string(out.Error.Kind), Error: out.Error.Message}
}

// signalName names a signal as E2B does.
func signalName(n int) string {
	if name := map[int]string{1: "hangup", 2: "interrupt", 3: "quit", 6: "aborted", 9: "killed",
		11: "segmentation fault", 15: "terminated"}[n]; name != "" {
		return name
	}
	return fmt.Sprintf("signal %d", n)
}

// find returns the process that a client names.
func (s *sandbox) find(sel selector, alive bool) (*process, error) {
	s.mu.Lock()
	all := make([]*process, 0, len(s.processes))
	for p := range s.processes {
		all = append(all, p)
	}
	s.mu.Unlock()
	var found *process
	for _, p := range all {
		pid, ended := p.state()
		if pid == 0 || alive && ended || (sel.Tag == "" && pid != sel.PID) || (sel.Tag != "" && p.tag != sel.Tag) {
			continue
		}
		if found == nil || !ended { // a number may be given again
			found = p
		}
	}
	if found == nil {
		return nil, missing("there is no such process")
	}
	return found, nil
}

// running lists the processes that run, by their numbers.
func (s *sandbox) running() []processInfo {
	s.mu.Lock()
	defer s.mu.Unlock()
	list := []processInfo{}
	for p := range s.processes {
		if pid, ended := p.state(); pid != 0 && !ended {
			list = append(list, processInfo{Config: p.config, PID: pid, Tag: p.tag})
		}
	}
	slices.SortFunc(list, func(a, b processInfo) int { return a.PID - b.PID })
	return list
}

// follow sends a reader what a process prints, and how it ends.
func (p *process) follow(ctx context.Context, out *stream, to *reader, every time.Duration) error {
	beat := time.NewTimer(every)
	defer beat.Stop()
	for sent := 0; ; {
		output, end, changed, err := p.next(to, sent)
		if err != nil {
			return err
		}
		for _, c := range output {
			if err := out.send(0, event{"data": c}); err != nil {
				return err
			}
			beat.Reset(every)
		}
		sent = len(output)
		if end != nil {
			if end.fault != nil {
				return end.fault
			}
			return out.send(0, event{"end": end})
		}
		select {
		case <-changed:
		case <-beat.C:
			beat.Reset(every)
			if err := out.send(0, event{"keepalive": struct{}{}}); err != nil {
				return err
			}
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}
