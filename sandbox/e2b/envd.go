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

	"haft"
	"haft/internal/connectframe"
	"haft/sandbox/internal/rented"
)

// envdPort is that of the service in a machine which starts commands and has files.
const envdPort = "49983"

// Times of the stream of a command: how often a silent one shows that it lives, and how long it may be silent.
const (
	pingSeconds = "20"
	silence     = 90 * time.Second
	maxEvent    = 4 << 20
)

// A machine is a sandbox of E2B. It implements [rented.Machine].
type machine struct {
	*server
	id, token, base string
	ends            time.Time
}

// ID implements [rented.Machine].
func (m *machine) ID() string { return m.id }

// Last implements [rented.Machine]: it extends the life of a machine if half of it is over. While a run lasts, that is
// done again and again.
func (m *machine) Last(ctx context.Context, _ time.Duration) error {
	if time.Until(m.ends) > m.cfg.Life/2 {
		return nil
	}
	if _, err := m.control(ctx, http.MethodPost, "/sandboxes/"+m.id+"/timeout", m.life(), nil); err != nil {
		return err
	}
	m.ends = time.Now().Add(m.cfg.Life)
	return nil
}

// heads are the headers of a request to a machine.
func (m *machine) heads() http.Header {
	h := http.Header{"E2b-Sandbox-Id": {m.id}, "E2b-Sandbox-Port": {envdPort}, "Connect-Protocol-Version": {"1"}}
	if m.token != "" {
		h.Set("X-Access-Token", m.token)
	}
	return h
}

// call makes a request of one message each way.
func (m *machine) call(ctx context.Context, method string, in, out any) error {
	ctx, cancel := context.WithTimeout(ctx, answerTime)
	defer cancel()
	_, err := m.roundTrip(ctx, http.MethodPost, m.base+"/process.Process/"+method, m.heads(), in, out)
	return err
}

// selector names a process.
type selector struct {
	PID int `json:"pid"`
}

// processes returns how many processes run in a machine that was made before.
func (m *machine) processes(ctx context.Context) (int, error) {
	var out struct {
		Processes []json.RawMessage `json:"processes"`
	}
	err := m.call(ctx, "List", struct{}{}, &out)
	return len(out.Processes), err
}

// Upload implements [rented.Machine].
func (m *machine) Upload(ctx context.Context, path string, data io.Reader) error {
	_, err := m.roundTrip(ctx, http.MethodPost, m.base+"/files?path="+url.QueryEscape(path), m.heads(), data, nil)
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

// A stream has the messages about a process. It implements [rented.Process].
type stream struct {
	m     *machine
	pid   int
	body  io.ReadCloser
	stop  context.CancelFunc
	timer *time.Timer // ends the request when nothing comes
}

// Start implements [rented.Machine].
func (m *machine) Start(ctx context.Context, argv []string) (rented.Process, error) {
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
	res, err := m.http.Do(req)
	if err != nil {
		cancel()
		return nil, unreachable(err)
	}
	if res.StatusCode != http.StatusOK {
		defer cancel()
		defer res.Body.Close() // only read
		return nil, statusError(res)
	}
	s := &stream{m: m, body: res.Body, stop: cancel, timer: time.AfterFunc(silence, cancel)}
	first, err := s.next()
	if err == nil && (first.Start == nil || first.Start.PID <= 0) {
		err = errors.New("the first event of a command is not its start")
	}
	if err != nil {
		s.Close()
		return nil, &haft.Error{Code: haft.CodeUnavailable, Err: err,
			Message: "a sandbox of E2B does not start commands"}
	}
	s.pid = first.Start.PID
	return s, nil
}

// Send implements [rented.Process].
func (s *stream) Send(ctx context.Context, data []byte) error {
	return s.m.call(ctx, "SendInput", map[string]any{"process": selector{s.pid},
		"input": map[string][]byte{"stdin": data}}, nil)
}

// Next implements [rented.Process].
func (s *stream) Next() (stdout, stderr []byte, err error) {
	e, err := s.next()
	if err != nil || e.Data == nil {
		return nil, nil, err
	}
	return e.Data.Stdout, e.Data.Stderr, nil
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
		return event{}, rented.ErrGone
	case e.Error != nil:
		return event{}, fmt.Errorf("the server ended the stream with %.40q", e.Error.Code)
	case flag&connectframe.End != 0:
		return event{}, io.EOF
	}
	return e.Event, nil
}

// Close implements [rented.Process]. The process runs on.
func (s *stream) Close() {
	s.timer.Stop()
	s.stop()
	_ = s.body.Close() // only read
}
