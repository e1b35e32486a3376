package server_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"haft"
	"haft/executor"
	"haft/server"
)

// hold makes tools wait until the test lets them go on.
func (w *world) hold() (began <-chan struct{}, release func()) {
	b, r := make(chan struct{}, 100), make(chan struct{})
	w.set(func(ctx context.Context, req executor.Request) (*haft.Result, error) {
		b <- struct{}{}
		select {
		case <-r:
			return echo(ctx, req)
		case <-ctx.Done():
			return &haft.Result{Call: req.Call, Tool: req.Tool, Status: haft.StatusCancelled,
				Value: json.RawMessage("null"),
				Error: &haft.Failure{Kind: haft.FailCancelled, Message: "stopped", Retry: haft.RetryNever}}, nil
		}
	})
	return b, func() { close(r) }
}

func TestCalls_wait(t *testing.T) {
	w := setup(t, nil)
	w.tool("f", "")
	for _, c := range []struct {
		name, body, prefer string
		status             int
		want               haft.Status
	}{
		{"until it is there by default", `{"tool":"f","args":{"x":1}}`, "", 200, haft.StatusSuccess},
		{"true", `{"tool":"f","wait":true}`, "", 200, haft.StatusSuccess},
		{"null", `{"tool":"f","wait":null}`, "", 200, haft.StatusSuccess},
		{"some seconds", `{"tool":"f","wait":10}`, "", 200, haft.StatusSuccess},
		{"false", `{"tool":"f","wait":false}`, "", 202, haft.StatusQueued},
		{"zero", `{"tool":"f","wait":0}`, "", 202, haft.StatusQueued},
		{"RFC 7240", `{"tool":"f"}`, "respond-async", 202, haft.StatusQueued},
		{"arguments that do not fit are a result", `{"tool":"f","args":{"x":"` + canary + `"}}`, "", 200,
			haft.StatusValidation},
		{"too long", `{"tool":"f","wait":1e9}`, "", 422, ""},
		{"a text", `{"tool":"f","wait":"1s"}`, "", 422, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			var headers []string
			if c.prefer != "" {
				headers = []string{"Prefer", c.prefer}
			}
			a := w.ask(user, "POST", "/v1/calls", c.body, headers...)
			if a.status != c.status {
				t.Fatalf("status %d, want %d: %s", a.status, c.status, a.body)
			}
			if a.status > 299 {
				return
			}
			var got server.Called
			a.into(t, &got)
			if got.Status != c.want || got.ID == "" || got.ID != got.Call ||
				a.header.Get("Location") != "/v1/calls/"+string(got.ID) {
				t.Errorf("got %s", a.body)
			}
			var rec haft.Record
			w.must(200, user, "GET", "/v1/calls/"+string(got.ID)+"?wait=10", "").into(t, &rec)
			if !rec.Status.Final() || rec.Call.ID != got.ID {
				t.Errorf("the record says %s", rec.Status)
			}
		})
	}
	t.Run("not for ever", func(t *testing.T) {
		began, release := w.hold()
		defer release()
		var got server.Called
		w.must(202, user, "POST", "/v1/calls", `{"tool":"f","wait":0.05}`).into(t, &got)
		<-began
		var rec haft.Record
		w.must(200, user, "GET", "/v1/calls/"+string(got.ID)+"?wait=0.05", "").into(t, &rec)
		if rec.Status != haft.StatusRunning {
			t.Errorf("the call is %s", rec.Status)
		}
	})
}

func TestCalls_cancel(t *testing.T) {
	w := setup(t, nil)
	w.tool("f", "")
	began, release := w.hold()
	defer release()
	var one, two server.Called
	w.must(202, user, "POST", "/v1/calls", `{"tool":"f","wait":false}`).into(t, &one)
	<-began
	w.must(404, other, "POST", "/v1/calls/"+string(one.ID)+"/cancel", "")
	w.must(204, user, "POST", "/v1/calls/"+string(one.ID)+"/cancel", "")
	var rec haft.Record
	w.must(200, user, "GET", "/v1/calls/"+string(one.ID)+"?wait=10", "").into(t, &rec)
	if rec.Status != haft.StatusCancelled {
		t.Errorf("the call is %s", rec.Status)
	}
	w.must(202, user, "POST", "/v1/calls", `{"tool":"f","wait":false}`).into(t, &two)
	<-began
	w.must(403, other, "POST", "/v1/calls/cancel", `{"user":"ann"}`)
	w.must(403, other, "POST", "/v1/calls/cancel", `{"all":true}`)
	w.must(422, admin, "POST", "/v1/calls/cancel", `{"all":true,"user":"ann"}`)
	var n struct{ Cancelled int }
	w.must(200, other, "POST", "/v1/calls/cancel", `{}`).into(t, &n)
	if n.Cancelled != 0 {
		t.Errorf("bob cancelled %d calls", n.Cancelled)
	}
	w.must(200, admin, "POST", "/v1/calls/cancel", `{"all":true}`).into(t, &n)
	if n.Cancelled != 1 {
		t.Errorf("the administrator cancelled %d calls", n.Cancelled)
	}
}

func TestCalls_idempotency_key(t *testing.T) {
	w := setup(t, nil)
	w.tool("f", "")
	first := w.call(user, `{"tool":"f","args":{"x":1},"idempotency_key":"k"}`)
	var second server.Called
	w.must(200, user, "POST", "/v1/calls", `{"tool":"f","args":{"x":1}}`, "Idempotency-Key", "k").into(t, &second)
	if first.Call != second.Call {
		t.Errorf("two calls: %s and %s", first.Call, second.Call)
	}
	w.must(409, user, "POST", "/v1/calls", `{"tool":"f","args":{"x":2}}`, "Idempotency-Key", "k")
	w.must(422, user, "POST", "/v1/calls", `{"tool":"f","idempotency_key":"a"}`, "Idempotency-Key", "b")
}

func TestCalls_take_nothing_from_clients_that_is_ours(t *testing.T) {
	w := setup(t, nil)
	w.tool("f", "")
	for _, body := range []string{
		`{"tool":"f","id":"c_mine"}`, `{"tool":"f","principal":{"org":"evil"}}`, `{"tool":"f","org":"evil"}`,
		`{"tool":"f","user":"root"}`,
		`{"tool":"f","roles":["admin"]}`, `{"tool":"f","ID":"c_mine"}`, `{"tool":"f","trace":"x"}`,
		`{"tool":"f","Principal":{"org":"evil"}}`,
	} {
		w.must(422, user, "POST", "/v1/calls", body)
	}
}

func TestCalls_continue_a_trace(t *testing.T) {
	w := setup(t, nil)
	w.tool("f", "")
	const trace = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
	for header, want := range map[string]string{trace: trace, "nonsense": "", strings.ToUpper(trace): "",
		"ff" + trace[2:]: ""} {
		var got server.Called
		w.must(200, user, "POST", "/v1/calls", `{"tool":"f"}`, "Traceparent", header).into(t, &got)
		var rec haft.Record
		w.must(200, user, "GET", "/v1/calls/"+string(got.ID), "").into(t, &rec)
		if rec.Call.Trace != want {
			t.Errorf("%q becomes %q, want %q", header, rec.Call.Trace, want)
		}
	}
}

func TestCalls_as_an_agent(t *testing.T) {
	w := setup(t, nil)
	w.tool("f", "")
	w.tool("g", "")
	var smith haft.Agent
	w.must(201, admin, "POST", "/v1/agents", `{"name":"smith","tools":["f"]}`).into(t, &smith)
	w.must(201, admin, "POST", "/v1/agents", `{"name":"jones","tools":["f"]}`)
	own := user + "/" + string(smith.ID)
	for _, c := range []struct {
		name, who, body string
		want            int
	}{
		{"an administrator by name", admin, `{"tool":"f","agent":"smith"}`, 200},
		{"an administrator by id", admin, `{"tool":"f","agent":"` + string(smith.ID) + `"}`, 200},
		{"one that is not there", admin, `{"tool":"f","agent":"nobody"}`, 404},
		{"a user may not", user, `{"tool":"f","agent":"smith"}`, 403},
		{"a key of the agent needs not say", own, `{"tool":"f"}`, 200},
		{"a key of the agent may say", own, `{"tool":"f","agent":"smith"}`, 200},
		{"a key of the agent is not for another", own, `{"tool":"f","agent":"jones"}`, 403},
		{"of another organisation", stranger, `{"tool":"f","agent":"smith"}`, 404},
	} {
		t.Run(c.name, func(t *testing.T) {
			a := w.ask(c.who, "POST", "/v1/calls", c.body)
			if a.status != c.want {
				t.Fatalf("status %d, want %d: %s", a.status, c.want, a.body)
			}
			if a.status != 200 {
				return
			}
			var got server.Called
			a.into(t, &got)
			var rec haft.Record
			w.must(200, admin, "GET", "/v1/calls/"+string(got.ID), "").into(t, &rec)
			if rec.Call.Principal.Agent != string(smith.ID) {
				t.Errorf("the call is of agent %q", rec.Call.Principal.Agent)
			}
		})
	}
	t.Run("which has its own tools", func(t *testing.T) {
		var page server.Page[haft.Tool]
		w.must(200, admin, "GET", "/v1/tools?agent=smith", "").into(t, &page)
		if len(page.Data) != 1 || page.Data[0].Name != "f" {
			t.Errorf("got %+v", page.Data)
		}
	})
}

func TestLists_page_to_their_end(t *testing.T) {
	w := setup(t, nil)
	var names, ids []string
	for i := range 7 {
		name := fmt.Sprintf("t%d", i)
		w.tool(name, `,"tags":["even"]`)
		names = append(names, name)
		w.must(201, admin, "POST", "/v1/agents", fmt.Sprintf(`{"name":"a%d"}`, i))
		ids = append(ids, string(w.call(user, `{"tool":"t0"}`).Call))
		w.must(200, admin, "POST", "/v1/policies/explain", `{"tool":"t0"}`)
	}
	w.must(201, admin, "POST", "/v1/tools", draft("ask", `,"settings":{"requires_approval":true}`))
	var waiting []string
	for range 5 {
		var r haft.Result
		w.must(202, user, "POST", "/v1/calls", `{"tool":"ask"}`).into(t, &r)
		waiting = append(waiting, string(r.Approval))
	}
	for i := range 4 {
		w.must(201, admin, "POST", "/v1/tools", strings.Replace(draft("t0", ""), "A tool.", fmt.Sprintf("Tool %d.", i),
			1))
	}
	slices.Reverse(ids)
	for _, c := range []struct {
		path, key string
		who       string
		want      []string
	}{
		{"/v1/tools?tag=even&limit=3", "name", user, names},
		{"/v1/agents?limit=2", "name", user, []string{"a0", "a1", "a2", "a3", "a4", "a5", "a6"}},
		{"/v1/calls?tool=t0&limit=2", "id", user, ids},
		{"/v1/calls?status=success,error&limit=7", "id", user, ids},
		{"/v1/approvals?limit=2", "id", boss, waiting},
		{"/v1/tools/t0/versions?limit=2", "number", user, []string{"5", "4", "3", "2", "1"}},
	} {
		t.Run(c.path, func(t *testing.T) {
			var got []string
			for path, pages := c.path, 0; path != ""; pages++ {
				if pages > 20 {
					t.Fatal("the list has no end")
				}
				a := w.must(200, c.who, "GET", path, "")
				var page struct {
					Data []map[string]any `json:"data"`
					Next string           `json:"next_cursor"`
				}
				a.into(t, &page)
				for _, item := range page.Data {
					if call, ok := item["call"].(map[string]any); ok {
						item = call
					}
					got = append(got, fmt.Sprint(item[c.key]))
				}
				link, _, _ := strings.Cut(strings.TrimPrefix(a.header.Get("Link"), "<"), ">")
				if (link == "") != (page.Next == "") ||
					page.Next != "" && !strings.Contains(link, url.QueryEscape(page.Next)) {
					t.Errorf("the link %q is not that of %q", link, page.Next)
				}
				path = link
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
	for _, path := range []string{"/v1/tools?cursor=x", "/v1/tools?cursor=YWdlbnRzOmE", "/v1/calls?limit=0",
		"/v1/calls?limit=1001", "/v1/calls?statsu=error", "/v1/calls?status=fine", "/v1/tools?kind=cobol",
		"/v1/events?after=x"} {
		if a := w.ask(user, "GET", path, ""); a.status != 422 {
			t.Errorf("%s: %d %s", path, a.status, a.body)
		}
	}
}

func TestApprovals_with_other_arguments(t *testing.T) {
	w := setup(t, nil)
	w.tool("ask", `,"settings":{"requires_approval":true}`)
	var r haft.Result
	w.must(202, user, "POST", "/v1/calls", `{"tool":"ask","args":{"x":1}}`).into(t, &r)
	var a haft.Approval
	w.must(200, boss, "POST", "/v1/approvals/"+string(r.Approval)+"/approve",
		`{"reason":"smaller","args":{"x":2}}`).into(t, &a)
	if !a.Edited || a.State != haft.ApprovalApproved {
		t.Errorf("got %+v", a)
	}
	w.must(409, boss, "POST", "/v1/approvals/"+string(r.Approval)+"/deny", "")
	var rec haft.Record
	w.must(200, user, "GET", "/v1/calls/"+string(r.Call)+"?wait=10", "").into(t, &rec)
	if rec.Status != haft.StatusPending && rec.Status != haft.StatusSuccess && rec.Status != haft.StatusRunning {
		t.Errorf("the call is %s", rec.Status)
	}
}
