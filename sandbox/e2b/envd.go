package e2b

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"time"

	"haft/internal/connectframe"
)

// envdPort is that of the service in a machine which starts commands and has files.
const envdPort = "49983"

// Times of the stream of a command: how often a silent one shows that it lives, and how long it may be silent.
const (
	pingSeconds = "20"
	silence     = 90 * time.Second
	maxEvent    = 4 << 20
)

// heads are the headers of a request to a machine.
func (m *machine) heads() http.Header {
	h := http.Header{"E2b-Sandbox-Id": {m.id}, "E2b-Sandbox-Port": {envdPort}, "Connect-Protocol-Version": {"1"}}
	if m.token != "" {
		h.Set("X-Access-Token", m.token)
	}
	return h
}

// call makes a request of one message each way.
func (a *api) call(ctx context.Context, m *machine, method string, in, out any) error {
	ctx, cancel := context.WithTimeout(ctx, answerTime)
	defer cancel()
	_, err := a.roundTrip(ctx, http.MethodPost, m.base+"/process.Process/"+method, m.heads(), in, out)
	return err
}

// selector names a process.
type selector struct {
	PID int `json:"pid"`
}

// sendInput writes to the standard input of a process.
func (a *api) sendInput(ctx context.Context, m *machine, pid int, data []byte) error {
	return a.call(ctx, m, "SendInput", map[string]any{"process": selector{pid},
		"input": map[string][]byte{"stdin": data}}, nil)
}

// processes returns how many processes run in a machine that was made before.
func (a *api) processes(ctx context.Context, m *machine) (int, error) {
	var out struct {
		Processes []json.RawMessage `json:"processes"`
	}
	err := a.call(ctx, m, "List", struct{}{}, &out)
	return len(out.Processes), err
}

// upload writes a file.
func (a *api) upload(ctx context.Context, m *machine, path string, data io.Reader) error {
	_, err := a.roundTrip(ctx, http.MethodPost, m.base+"/files?path="+url.QueryEscape(path), m.heads(), data, nil)
	return err
}

// An event is a message about a process.
type event struct {
	Start *selector `json:"start"`
	Data  *struct {
		Stdout []byte `json:"stdout"`
		Stderr []byte `json:"stderr"`
	} `json:"data"`
	End *struct {
		Code int `json:"exitCode"`
	} `json:"end"`
}

// A stream has the messages about a process.
type stream struct {
	body  io.ReadCloser
	stop  context.CancelFunc
	timer *time.Timer // ends the request when nothing comes
}

// start starts a process, and returns the stream of its output.
func (a *api) start(ctx context.Context, m *machine, argv []string) (*stream, error) {
	frame, err := connectframe.Append(nil, 0, map[string]any{"stdin": true,
		"process": map[string]any{"cmd": argv[0], "args": argv[1:], "envs": map[string]string{}}})
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, m.base+"/process.Process/Start",
		bytes.NewReader(frame))
	if err != nil {
		cancel()
		return nil, unreachable(err)
	}
	req.Header = m.heads()
	req.Header.Set("Content-Type", "application/connect+json")
	req.Header.Set("Keepalive-Ping-Interval", pingSeconds)
	res, err := a.http.Do(req)
	if err != nil {
		cancel()
		return nil, unreachable(err)
	}
	if res.StatusCode != http.StatusOK {
		defer cancel()
		defer res.Body.Close() // only read
		return nil, statusError(res)
	}
	return &stream{res.Body, cancel, time.AfterFunc(silence, cancel)}, nil
}

// next returns the next event. It returns [io.EOF] after the last, and another error if the stream was cut.
func (s *stream) next() (event, error) {
	var e struct {
		Event event `json:"event"`
		Error *struct {
			Code string `json:"code"`
		} `json:"error"`
	}
	flag, size, err := connectframe.Head(s.body, maxEvent)
	if err == nil {
		var raw []byte
		s.timer.Reset(silence)
		if raw, err = connectframe.Body(s.body, size); err == nil {
			err = json.Unmarshal(raw, &e)
		}
	}
	switch {
	case errors.Is(err, io.EOF):
		return event{}, io.ErrUnexpectedEOF
	case err != nil:
		return event{}, err
	case e.Error != nil && e.Error.Code == "unavailable":
		return event{}, errGone
	case e.Error != nil:
		return event{}, fmt.Errorf("the server ended the stream with %.40q", e.Error.Code)
	case flag&connectframe.End != 0:
		return event{}, io.EOF
	}
	return e.Event, nil
}

// close ends the stream. The process runs on.
func (s *stream) close() {
	s.timer.Stop()
	s.stop()
	_ = s.body.Close() // only read
}
