package app_test

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"sync"
	"time"

	pb "github.com/modal-labs/modal-client/go/proto/modal_proto"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"haft/internal/connectframe"
)

// A modalRouter is the API of the machines.
type modalRouter struct {
	pb.UnimplementedTaskCommandRouterServer
	*modalServer
}

// A modalExec is a command in a sandbox. Its output is kept, so that a stream can be read again from any place.
type modalExec struct {
	ctx  context.Context // ends with its sandbox
	pid  int
	mu   sync.Mutex
	more chan struct{} // closed, and made anew, when something changes
	out  []byte
	in   uint64 // how much it was sent
	eof  bool   // its input has ended
	done bool
	code int32
}

// change changes it, and wakes those who wait.
func (e *modalExec) change(f func()) {
	e.mu.Lock()
	defer e.mu.Unlock()
	f()
	close(e.more)
	e.more = make(chan struct{})
}

// state returns the output from an offset, whether the command has ended, and what is closed at the next change.
func (e *modalExec) state(offset uint64) (data []byte, done bool, more <-chan struct{}) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if offset > uint64(len(e.out)) {
		offset = uint64(len(e.out))
	}
	return e.out[offset:], e.done, e.more
}

// insideHeads are the headers of a request to the session behind a sandbox.
func (b *modalBox) insideHeads() http.Header {
	return http.Header{"E2b-Sandbox-Id": {b.inner}, "E2b-Sandbox-Port": {"49983"}, "X-Access-Token": {b.token},
		"Connect-Protocol-Version": {"1"}, "Keepalive-Ping-Interval": {"20"}}
}

// insideEvent is one of a command in that session.
type insideEvent struct {
	Event struct {
		Start *struct {
			PID int `json:"pid"`
		} `json:"start"`
		Data *struct {
			Stdout []byte `json:"stdout"`
		} `json:"data"`
		End *struct {
			Code int32 `json:"exitCode"`
		} `json:"end"`
	} `json:"event"`
}

func (s modalRouter) TaskExecStart(_ context.Context, r *pb.TaskExecStartRequest) (*pb.TaskExecStartResponse, error) {
	b, err := s.box(r.GetTaskId(), true)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock() // one start after the other
	if b.execs[r.GetExecId()] != nil {
		return pb.TaskExecStartResponse_builder{}.Build(), nil
	}
	argv := r.GetCommandArgs()
	frame, err := connectframe.Append(nil, 0, map[string]any{"stdin": true, "process": map[string]any{"cmd": argv[0],
		"args": argv[1:], "envs": map[string]string{}}})
	if err != nil {
		return nil, err
	}
	req, err := http.NewRequestWithContext(b.ctx, http.MethodPost, s.haft+"/e2b/sandbox/process.Process/Start",
		bytes.NewReader(frame))
	if err != nil {
		return nil, err
	}
	req.Header = b.insideHeads()
	req.Header.Set("Content-Type", "application/connect+json")
	res, err := s.http.Do(req)
	if err != nil {
		return nil, status.Error(codes.Unavailable, err.Error())
	}
	e := &modalExec{ctx: b.ctx, more: make(chan struct{})}
	first, err := nextInside(res)
	if err != nil || first.Event.Start == nil {
		_ = res.Body.Close()
		return nil, status.Error(codes.FailedPrecondition, "the command does not start")
	}
	e.pid = first.Event.Start.PID
	b.execs[r.GetExecId()] = e
	go e.follow(res, r.GetStdoutConfig() == pb.TaskExecStdoutConfig_TASK_EXEC_STDOUT_CONFIG_DEVNULL)
	return pb.TaskExecStartResponse_builder{}.Build(), nil
}

// nextInside reads an event.
func nextInside(res *http.Response) (insideEvent, error) {
	var e insideEvent
	_, size, err := connectframe.Head(res.Body, 8<<20)
	if err != nil {
		return e, err
	}
	raw, err := connectframe.Body(res.Body, size)
	if err != nil {
		return e, err
	}
	return e, json.Unmarshal(raw, &e)
}

// follow keeps the output of a command until its end.
func (e *modalExec) follow(res *http.Response, discard bool) {
	defer res.Body.Close()
	for {
		in, err := nextInside(res)
		if err != nil {
			return // with the sandbox
		}
		e.change(func() {
			if in.Event.Data != nil && !discard {
				e.out = append(e.out, in.Event.Data.Stdout...)
			}
			if in.Event.End != nil {
				e.done, e.code = true, in.Event.End.Code
			}
		})
		if in.Event.End != nil {
			return
		}
	}
}

// exec returns a command of a sandbox that runs.
func (s *modalServer) exec(task, id string) (*modalBox, *modalExec, error) {
	b, err := s.box(task, true)
	if err != nil {
		return nil, nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if e := b.execs[id]; e != nil {
		return b, e, nil
	}
	return nil, nil, status.Error(codes.NotFound, "no such command")
}

func (s modalRouter) TaskExecStdinWrite(ctx context.Context, r *pb.TaskExecStdinWriteRequest) (
	*pb.TaskExecStdinWriteResponse, error) {
	b, e, err := s.exec(r.GetTaskId(), r.GetExecId())
	if err != nil {
		return nil, err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if r.GetOffset() > e.in || e.eof && len(r.GetData()) > 0 {
		return nil, status.Error(codes.InvalidArgument, "not the next offset")
	}
	process := map[string]any{"pid": e.pid}
	data := r.GetData()
	if have := int(e.in - r.GetOffset()); have < len(data) {
		if err := s.send(ctx, http.MethodPost, "/e2b/sandbox/process.Process/SendInput", b.insideHeads(),
			map[string]any{"process": process, "input": map[string][]byte{"stdin": data[have:]}}, nil); err != nil {
			return nil, status.Error(codes.FailedPrecondition, "the command has ended")
		}
		e.in += uint64(len(data) - have)
	}
	if r.GetEof() && !e.eof {
		e.eof = true
		// The command may have ended, and needs no end of its input.
		_ = s.send(ctx, http.MethodPost, "/e2b/sandbox/process.Process/CloseStdin", b.insideHeads(),
			map[string]any{"process": process}, nil)
	}
	return pb.TaskExecStdinWriteResponse_builder{}.Build(), nil
}

func (s modalRouter) TaskExecStdioRead(r *pb.TaskExecStdioReadRequest,
	stream grpc.ServerStreamingServer[pb.TaskExecStdioReadResponse]) error {
	_, e, err := s.exec(r.GetTaskId(), r.GetExecId())
	if err != nil {
		return err
	}
	s.mu.Lock()
	cut := s.streams
	s.mu.Unlock()
	for offset := r.GetOffset(); ; {
		data, done, more := e.state(offset)
		data = data[:min(len(data), 1<<20)]
		if len(data) > 0 {
			if err := stream.Send(pb.TaskExecStdioReadResponse_builder{Data: data}.Build()); err != nil {
				return err
			}
			offset += uint64(len(data))
			continue
		}
		if done {
			return nil
		}
		select {
		case <-more:
		case <-e.ctx.Done():
			return status.Error(codes.NotFound, "the sandbox has ended")
		case <-cut.Done():
			return status.Error(codes.Unavailable, "cut")
		case <-stream.Context().Done():
			return stream.Context().Err()
		}
	}
}

func (s modalRouter) TaskExecWait(ctx context.Context, r *pb.TaskExecWaitRequest) (*pb.TaskExecWaitResponse, error) {
	_, e, err := s.exec(r.GetTaskId(), r.GetExecId())
	if err != nil {
		return nil, err
	}
	for {
		_, done, more := e.state(0)
		if done {
			e.mu.Lock()
			defer e.mu.Unlock()
			return pb.TaskExecWaitResponse_builder{Code: &e.code}.Build(), nil
		}
		select {
		case <-more:
		case <-e.ctx.Done():
			return nil, status.Error(codes.NotFound, "the sandbox has ended")
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(50 * time.Second):
			return nil, status.Error(codes.DeadlineExceeded, "it runs on")
		}
	}
}
