package server_test

import (
	"context"
	"encoding/json"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"haft"
	"haft/server"
)

// An outcome is a service whose calls end in one way.
type outcome struct {
	haft.Service
	res *haft.Result
	err error
}

func (o outcome) Call(context.Context, haft.Call) (*haft.Result, error) { return o.res, o.err }

func (o outcome) Submit(_ context.Context, c haft.Call) (*haft.Record, error) {
	if o.err != nil {
		return nil, o.err
	}
	return &haft.Record{Call: c, Status: o.res.Status, Result: o.res}, nil
}

func (o outcome) Replay(context.Context, haft.Principal, haft.CallID) (*haft.Result, error) {
	return o.res, o.err
}

// Status and Retry-After of a call follow from its result, or from the code of its
// error, whether it is waited for or not; and the document has every such answer.
func TestCalls_that_come_too_early_say_when_to_come_back(t *testing.T) {
	result := func(s haft.Status, wait time.Duration) outcome {
		r := &haft.Result{Call: "c_1", Tool: "f", Status: s, Value: json.RawMessage("null"),
			Sandbox: haft.Sandbox{Provider: "none",
				Isolation: haft.Isolation{Level: haft.LevelNone, Controls: []haft.Control{}}}}
		if s != haft.StatusSuccess && s.Final() {
			r.Error = &haft.Failure{Kind: haft.FailRate, Message: "words", Retry: haft.RetrySame,
				RetryAfter: haft.Millis(wait)}
		}
		return outcome{res: r}
	}
	fault := func(c haft.Code, wait time.Duration) outcome {
		return outcome{err: &haft.Error{Code: c, Message: "words", RetryAfter: haft.Millis(wait)}}
	}
	type row struct {
		name   string
		of     outcome
		status int
		after  string
	}
	rows := []row{
		{"rate_limited without a time", result(haft.StatusRate, 0), 429, "1"},
		{"rate_limited, soon", result(haft.StatusRate, time.Millisecond), 429, "1"},
		{"rate_limited, rounded up", result(haft.StatusRate, 2001*time.Millisecond), 429, "3"},
		{"too many of this tenant", fault(haft.CodeRateLimited, 1500*time.Millisecond), 429, "2"},
		{"the server is full", fault(haft.CodeUnavailable, 5*time.Second), 503, "5"},
	}
	for _, s := range haft.Statuses() {
		switch {
		case s == haft.StatusRate:
		case s == haft.StatusDenied:
			rows = append(rows, row{string(s), result(s, time.Second), 403, ""})
		case s.Final():
			rows = append(rows, row{string(s), result(s, 0), 200, ""})
		default:
			rows = append(rows, row{string(s), result(s, 0), 202, ""})
		}
	}
	for _, c := range haft.Codes() {
		after := ""
		if c == haft.CodeRateLimited || c == haft.CodeUnavailable {
			after = "1"
		}
		rows = append(rows, row{"error " + string(c), fault(c, 0), server.StatusOf(c), after})
	}
	doc := open(t, setup(t, nil).server.OpenAPI())
	for _, r := range rows {
		s, err := server.New(r.of, people{}, server.Config{})
		if err != nil {
			t.Fatal(err)
		}
		for _, ask := range []struct{ op, path, body string }{
			{"POST /v1/calls", "/v1/calls", `{"tool":"f"}`},
			{"POST /v1/calls", "/v1/calls", `{"tool":"f","wait":false}`},
			{"POST /v1/calls/{id}/replay", "/v1/calls/c_1/replay", ""},
		} {
			t.Run(r.name+" "+ask.path+ask.body, func(t *testing.T) {
				req := httptest.NewRequest("POST", "http://localhost"+ask.path, strings.NewReader(ask.body))
				req.Header.Set("Authorization", "Bearer "+user)
				req.Header.Set("Content-Type", "application/json")
				rec := httptest.NewRecorder()
				s.Handler().ServeHTTP(rec, req)
				a := answer{rec.Code, rec.Header(), rec.Body.Bytes()}
				if a.status != r.status || a.header.Get("Retry-After") != r.after {
					t.Errorf("%d, Retry-After %q; want %d, %q", a.status, a.header.Get("Retry-After"), r.status,
						r.after)
				}
				if a.status != 500 { // which is "default" there
					doc.fits(t, ask.op, a)
				}
				if r.of.err != nil {
					problemOf(t, a)
					return
				}
				var got server.Called
				if err := json.Unmarshal(a.body, &got); err != nil || got.Status != r.of.res.Status ||
					got.Call != "c_1" {
					t.Errorf("the body is %s, %v", a.body, err)
				}
			})
		}
	}
}

// The answer to the call of a tool that is not there says where to look.
func TestCall_of_an_unknown_tool_says_where_they_are(t *testing.T) {
	for message, helped := range map[string]bool{"there is no such tool": true, "there is no such file": false} {
		s, err := server.New(outcome{err: &haft.Error{Code: haft.CodeNotFound, Message: message}}, people{},
			server.Config{})
		if err != nil {
			t.Fatal(err)
		}
		for _, body := range []string{`{"tool":"f"}`, `{"tool":"f","wait":false}`} {
			req := httptest.NewRequest("POST", "http://localhost/v1/calls", strings.NewReader(body))
			req.Header.Set("Authorization", "Bearer "+user)
			req.Header.Set("Content-Type", "application/json")
			rec := httptest.NewRecorder()
			s.Handler().ServeHTTP(rec, req)
			if rec.Code != 404 || strings.Contains(rec.Body.String(), "GET /v1/tools") != helped {
				t.Errorf("%s: %d %s", body, rec.Code, rec.Body)
			}
		}
	}
}
