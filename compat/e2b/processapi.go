package e2b

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"

	"haft"
)

// The messages of process.Process.
type (
	size struct {
		Rows int `json:"rows"`
		Cols int `json:"cols"`
	}
	terminal struct {
		Size size `json:"size"`
	}
	startRequest struct {
		Process processConfig `json:"process"`
		PTY     *terminal     `json:"pty"`
		Tag     string        `json:"tag"`
		Stdin   *bool         `json:"stdin"`
	}
	selector struct {
		PID int    `json:"pid"`
		Tag string `json:"tag"`
	}
	processRequest struct {
		Process selector `json:"process"`
	}
	processInput struct {
		Stdin []byte `json:"stdin"`
		PTY   []byte `json:"pty"`
	}
	inputRequest struct {
		Process selector     `json:"process"`
		Input   processInput `json:"input"`
	}
	signalRequest struct {
		Process selector `json:"process"`
		Signal  string   `json:"signal"`
	}
	updateRequest struct {
		Process selector  `json:"process"`
		PTY     *terminal `json:"pty"`
	}
	processInfo struct {
		Config processConfig `json:"config"`
		PID    int           `json:"pid"`
		Tag    string        `json:"tag,omitempty"`
	}
	inputPart struct {
		Start *processRequest `json:"start"`
		Data  *inputRequest   `json:"data"`
	}
)

// An event is one of a process.
type event map[string]any

// MarshalJSON wraps the event as its operation does.
func (e event) MarshalJSON() ([]byte, error) {
	return json.Marshal(map[string]any{"event": map[string]any(e)})
}

// processHandlers are the operations of process.Process.
type processHandlers struct{ *API }

// routes registers them.
func (a processHandlers) routes() {
	const of = "process.Process/"
	streaming(a.API, of+"Start", haft.CallsWrite, a.startProcess)
	streaming(a.API, of+"Connect", haft.CallsWrite, a.connectProcess)
	unary(a.API, of+"List", haft.CallsRead,
		func(_ context.Context, _ haft.Principal, s *sandbox, _ struct{}) (any, error) {
			return map[string]any{"processes": s.running()}, nil
		})
	unary(a.API, of+"SendInput", haft.CallsWrite, a.sendInput)
	unary(a.API, of+"CloseStdin", haft.CallsWrite,
		func(ctx context.Context, p haft.Principal, s *sandbox, in processRequest) (any, error) {
			return a.input(ctx, p, s, in.Process, haft.CommandInput{Close: true})
		})
	unary(a.API, of+"SendSignal", haft.CallsWrite, a.sendSignal)
	unary(a.API, of+"Update", haft.CallsWrite, a.resize)
	a.inside.HandleFunc("POST /"+of+"StreamInput", a.streamInput)
}

func (a processHandlers) startProcess(ctx context.Context, p haft.Principal, s *sandbox, in startRequest,
	r *http.Request, out *stream) error {
	proc, client, err := a.start(p, s, in, clientTime(r))
	if err != nil {
		return err
	}
	defer proc.removeReader(client)
	select {
	case <-proc.begun:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	pid, _ := proc.state()
	if pid == 0 {
		_, end, _, err := proc.next(client, 0)
		if err != nil {
			return err
		}
		return end.fault
	}
	if in.PTY != nil && in.PTY.Size != (size{}) {
		// A command that has ended meanwhile needs no size.
		_, _ = a.input(ctx, p, s, selector{PID: pid}, haft.CommandInput{Rows: in.PTY.Size.Rows, Cols: in.PTY.Size.Cols})
	}
	if err := out.send(0, event{"start": map[string]int{"pid": pid}}); err != nil {
		return err
	}
	return proc.follow(ctx, out, client, keepalive(r))
}

func (a processHandlers) connectProcess(ctx context.Context, _ haft.Principal, s *sandbox, in processRequest,
	r *http.Request, out *stream) error {
	proc, err := s.find(in.Process, false)
	if err != nil {
		return err
	}
	if d := clientTime(r); d > 0 {
		timed, cancel := context.WithTimeoutCause(ctx, d, errDeadline)
		defer cancel()
		ctx = timed
	}
	client := proc.addReader()
	defer proc.removeReader(client)
	pid, _ := proc.state()
	if err := out.send(0, event{"start": map[string]int{"pid": pid}}); err != nil {
		return err
	}
	return proc.follow(ctx, out, client, keepalive(r))
}

// maxInput is how much one input of a call has.
const maxInput = 64 << 10

func (a processHandlers) sendInput(ctx context.Context, p haft.Principal, s *sandbox, in inputRequest) (any, error) {
	data := in.Input.Stdin
	if data == nil {
		data = in.Input.PTY
	}
	for len(data) > maxInput {
		if _, err := a.input(ctx, p, s, in.Process, haft.CommandInput{Data: data[:maxInput]}); err != nil {
			return nil, err
		}
		data = data[maxInput:]
	}
	return a.input(ctx, p, s, in.Process, haft.CommandInput{Data: data})
}

// input sends input to a process.
func (a processHandlers) input(ctx context.Context, p haft.Principal, s *sandbox, sel selector,
	in haft.CommandInput) (any, error) {
	proc, err := s.find(sel, true)
	if err != nil {
		return nil, err
	}
	err = a.cfg.Worker.SendInput(ctx, p, proc.call, in)
	if _, ended := proc.state(); ended && haft.CodeOf(err) == haft.CodeConflict {
		return nil, missing("the process has ended")
	}
	if haft.CodeOf(err) == haft.CodeConflict {
		return nil, &fault{code: "failed_precondition", status: http.StatusBadRequest, message: haft.MessageOf(err)}
	}
	return struct{}{}, err
}

func (a processHandlers) sendSignal(ctx context.Context, p haft.Principal, s *sandbox, in signalRequest) (any, error) {
	name := map[string]string{"SIGNAL_SIGTERM": "SIGTERM", "SIGNAL_SIGKILL": "SIGKILL"}[in.Signal]
	if name == "" {
		return nil, invalid("the signals are SIGNAL_SIGTERM and SIGNAL_SIGKILL")
	}
	return a.input(ctx, p, s, in.Process, haft.CommandInput{Signal: name})
}

func (a processHandlers) resize(ctx context.Context, p haft.Principal, s *sandbox, in updateRequest) (any, error) {
	if in.PTY == nil {
		return struct{}{}, nil
	}
	return a.input(ctx, p, s, in.Process, haft.CommandInput{Rows: in.PTY.Size.Rows, Cols: in.PTY.Size.Cols})
}

// streamInput takes input in many messages: the first names the process.
func (a processHandlers) streamInput(w http.ResponseWriter, r *http.Request) {
	s, out := sandboxOf(r.Context()), &stream{w: w}
	if err := checkType(r, "application/connect+json"); err != nil {
		faultOf(err).write(w, s.id)
		return
	}
	p, err := a.principal(r.Context(), haft.CallsWrite)
	if err == nil {
		err = a.readInput(w, r, p, s)
	}
	if err == nil {
		err = out.send(0, struct{}{})
	}
	out.end(a.goneOr(r.Context(), p, s, err))
}

// readInput sends the messages of a client to a process.
func (a processHandlers) readInput(w http.ResponseWriter, r *http.Request, p haft.Principal, s *sandbox) error {
	var to *selector
	for {
		var in inputPart
		switch err := readFrame(w, r.Body, inputTime, &in); {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		case in.Start != nil:
			to = &in.Start.Process
			if _, err := s.find(*to, true); err != nil {
				return err
			}
		case in.Data != nil && to == nil:
			return invalid("the first message names the process")
		case in.Data != nil:
			in.Data.Process = *to
			if _, err := a.sendInput(r.Context(), p, s, *in.Data); err != nil {
				return err
			}
		}
	}
}
