package e2b

import (
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"haft"
)

func TestCreate_refuses(t *testing.T) {
	w := newWorld(t)
	pairs := map[string]string{}
	for i := range maxPairs + 1 {
		pairs[fmt.Sprint(i)] = ""
	}
	many, err := json.Marshal(pairs)
	if err != nil {
		t.Fatal(err)
	}
	for body, want := range map[string]int{
		`{}`:                                                    400,
		`{"templateID":"other"}`:                                404,
		`{"templateID":"base","timeout":-1}`:                    400,
		`{"templateID":"base","timeout":86401}`:                 400,
		`{"templateID":"base","autoPause":true}`:                400,
		`{"templateID":"base","volumeMounts":[{}]}`:             400,
		`{"templateID":"base","metadata":` + string(many) + `}`: 400,
		`{"templateID":"base","envVars":{"A=B":""}}`:            400,
		`{"templateID":"base","envVars":{"A":"` + strings.Repeat("x", maxPairsBytes) + `"}}`: 400,
		`{"templateID":"base","metadata":{"a":"` + strings.Repeat("x", maxMessage+1) + `"}}`: 413,
		`{"templateID":7}`:    400,
		`{"templateID":"base`: 400,
	} {
		if rec := w.ask("acme/alice", "POST", "/sandboxes", body); rec.Code != want {
			t.Errorf("%.60s: %d, want %d: %s", body, rec.Code, want, rec.Body)
		}
	}
	if len(w.calls) != 0 {
		t.Errorf("%d calls were made", len(w.calls))
	}
	for status, want := range map[haft.Status]int{haft.StatusDenied: 403, haft.StatusRate: 429, haft.StatusPending: 403,
		haft.StatusTimeout: 504, haft.StatusCancelled: 503} {
		w.res.Status = status
		if rec := w.ask("acme/alice", "POST", "/sandboxes", `{"templateID":"base"}`); rec.Code != want {
			t.Errorf("%s: %d, want %d", status, rec.Code, want)
		}
	}
}

// A call that waits for a person is refused, and so cancelled: it must not run when somebody agrees later.
func TestPending_is_cancelled(t *testing.T) {
	w := newWorld(t)
	s := w.create("acme/alice")
	w.res.Status = haft.StatusPending
	for _, c := range []struct{ path, body, kind, port string }{
		{"/process.Process/Start", start(`{"process":{"cmd":"x"}}`), "application/connect+json", "49983"},
		{"/execute", `{"code":"1"}`, "application/json", "49999"},
		{"/contexts", `{}`, "application/json", "49999"},
	} {
		rec := w.in(s.ID, "POST", c.path, c.body, tokenHeader, s.Token, portHeader, c.port, "Content-Type", c.kind)
		last := w.calls[len(w.calls)-1].ID
		if !strings.Contains(rec.Body.String(), "cannot wait") || !slices.Contains(w.cancelled, last) {
			t.Errorf("%s: %d %s, cancelled %v, not %s", c.path, rec.Code, rec.Body, w.cancelled, last)
		}
	}
}

// A sandbox whose session has ended is not listed, answers 502, and is forgotten.
func TestSandbox_ends_with_its_session(t *testing.T) {
	w := newWorld(t)
	s := w.create("acme/alice")
	w.mu.Lock()
	delete(w.sessions, s.ID)
	w.mu.Unlock()
	if rec := w.in(s.ID, "POST", "/filesystem.Filesystem/Stat", `{"path":"x"}`, tokenHeader, s.Token); rec.Code != 502 ||
		!strings.Contains(rec.Body.String(), "was not found") {
		t.Errorf("%d %s", rec.Code, rec.Body)
	}
	if rec := w.in(s.ID, "GET", "/health", ""); rec.Code != 502 {
		t.Errorf("health: %d", rec.Code)
	}
	if rec := w.ask("acme/alice", "GET", "/v2/sandboxes", ""); rec.Body.String() != "[]" {
		t.Errorf("it is listed: %s", rec.Body)
	}
	if w.api.sandbox(s.ID) != nil {
		t.Error("it is known")
	}
}

// A sandbox whose session has ended is not made anew by what comes with its token.
func TestSandbox_is_not_revived(t *testing.T) {
	for name, c := range map[string]struct{ path, body, kind, port string }{
		"a command": {"/process.Process/Start", start(`{"process":{"cmd":"x"}}`), "application/connect+json", "49983"},
		"code":      {"/execute", `{"code":"1"}`, "application/json", "49999"},
		"a context": {"/contexts", `{}`, "application/json", "49999"},
	} {
		w := newWorld(t)
		s := w.create("acme/alice")
		w.mu.Lock()
		delete(w.sessions, s.ID)
		w.mu.Unlock()
		rec := w.in(s.ID, "POST", c.path, c.body, tokenHeader, s.Token, portHeader, c.port, "Content-Type", c.kind)
		if !strings.Contains(rec.Body.String(), errGone.message) || len(w.sessions) != 0 {
			t.Errorf("%s: %d %s, and %d sessions", name, rec.Code, rec.Body, len(w.sessions))
		}
	}
	w := newWorld(t)
	s := w.create("acme/alice")
	w.ending = func() {
		if w.api.sandbox(s.ID) != nil {
			t.Error("it is used while it ends")
		}
	}
	if rec := w.ask("acme/alice", "DELETE", "/sandboxes/"+s.ID, ""); rec.Code != 204 || len(w.sessions) != 0 {
		t.Errorf("%d, and %d sessions", rec.Code, len(w.sessions))
	}
}

// Output that all clients have is not kept, and one that does not read cannot make the server keep all.
func TestProcess_keeps_what_readers_lack(t *testing.T) {
	var held atomic.Int64
	p := newProcess(startRequest{}, &held)
	print := func(text string) {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.print("stdout", text)
	}
	print("nobody reads")
	first := p.addReader()
	print("one")
	second := p.addReader()
	print("three")
	got, _, _, err := p.next(first, 0)
	if err != nil || fmt.Sprintf("%s", got) != "[map[stdout:one] map[stdout:three]]" || held.Load() != 8 {
		t.Errorf("%s %v, %d bytes are held", got, err, held.Load())
	}
	if got, _, _, err = p.next(first, 2); err != nil || len(got) != 0 || held.Load() != 5 {
		t.Errorf("%s %v, %d bytes are held for the second", got, err, held.Load())
	}
	if got, _, _, err = p.next(second, 0); err != nil || fmt.Sprintf("%s", got) != "[map[stdout:three]]" {
		t.Errorf("%s %v", got, err)
	}
	got = nil // what the first gets from here on
	large := strings.Repeat("x", maxHeld/2)
	for range 4 {
		print(large)
		if got, _, _, err = p.next(first, len(got)); err != nil {
			t.Fatalf("who reads is behind: %v", err)
		}
		if held.Load() > maxHeld {
			t.Errorf("%d bytes are held", held.Load())
		}
	}
	if _, _, _, err := p.next(second, 1); !errors.Is(err, errBehind) {
		t.Errorf("who does not read: %v", err)
	}
	p.removeReader(first)
	p.removeReader(second)
	if len(p.output) != 0 || held.Load() != 0 {
		t.Errorf("%d chunks, %d bytes are held for nobody", len(p.output), held.Load())
	}
}

func TestEnding(t *testing.T) {
	for value, want := range map[string]string{
		`{"exit_code":0}`: "0 true exit status 0 ",
		`{"exit_code":3,"error":{"kind":"exit","message":"x"}}`:                       "3 true exit status 3 ",
		`{"error":{"kind":"exit","message":"it was ended by signal 9"}}`:              "-1 false signal: killed ",
		`{"error":{"kind":"timeout","message":"it ran longer"}}`:                      "0 false  deadline_exceeded",
		`{"error":{"kind":"exit","message":"it cannot be started: no such file"}}`:    "0 false  invalid_argument",
		`{"status":"limit","error":{"kind":"limit_cpu","message":"too much"}}`:        "-1 false limit_cpu ",
		`{"exit_code":1,"error":{"kind":"timeout","message":"it ran longer than 1"}}`: "0 false  deadline_exceeded",
		`{`: "0 false  internal",
	} {
		e := endingOf(&haft.Result{Status: haft.StatusSuccess, Value: json.RawMessage(value)}, nil)
		code := ""
		if e.fault != nil {
			code = faultOf(e.fault).code
		}
		if got := fmt.Sprintf("%d %t %s %s", e.Code, e.Exited, e.Status, code); got != want {
			t.Errorf("%s: %q, want %q", value, got, want)
		}
	}
}

func TestFault_has_every_code(t *testing.T) {
	for _, c := range haft.Codes() {
		if f := faultOf(&haft.Error{Code: c, Message: "m"}); f.status < 400 || f.code == "" || f.message != "m" {
			t.Errorf("%s: %+v", c, f)
		}
	}
	if f := faultOf(fmt.Errorf("a path of the host")); f.message != "internal error" {
		t.Errorf("a fault of ours says %q", f.message)
	}
}

func TestPlainKey(t *testing.T) {
	const key = "haft_abc_def"
	for in, want := range map[string]string{
		key: key, "e2b_" + hex.EncodeToString([]byte(key)): key, "e2b_xyz": "e2b_xyz", "": "",
	} {
		if got := plainKey(in); got != want {
			t.Errorf("%q: %q", in, got)
		}
	}
}

func TestHostTarget(t *testing.T) {
	w := newWorld(t)
	for host, want := range map[string]string{
		"3000-iabc.sandboxes.example":      "iabc 3000 true",
		"3000-IABC.sandboxes.EXAMPLE:8443": "iabc 3000 true",
		"0-iabc.sandboxes.example":         "iabc 0 false",
		"99999-iabc.sandboxes.example":     "iabc 99999 false",
		"iabc.sandboxes.example":           " 0 false",
		"3000-iabc.evil.example":           " 0 false",
		"sandboxes.example":                " 0 false",
	} {
		id, port, ok := w.api.hostTarget(host)
		if got := fmt.Sprintf("%s %d %t", id, port, ok); got != want {
			t.Errorf("%s: %q, want %q", host, got, want)
		}
	}
	s := w.create("acme/alice")
	r, err := http.NewRequest(http.MethodGet, "http://3000-"+s.ID+".sandboxes.example/", nil)
	if err != nil || !w.api.Hosts(r) {
		t.Error("the host of a port is none of ours", err)
	}
}

func TestColumns(t *testing.T) {
	for in, want := range map[string]string{
		`{"columns":["a","b"],"data":[[1,2],[3]]}`: `{"a":[1,3],"b":[2]}`,
		`{"columns":["a",7],"data":[]}`:            `{"7":[],"a":[]}`,
		`{"columns":["a"],"data":[[1,2,3],[]]}`:    `{"a":[1]}`,
		`{"columns":[],"data":[[1]]}`:              `{}`,
		`[]`:                                       `{}`,
	} {
		if got, err := json.Marshal(columns(json.RawMessage(in))); err != nil || string(got) != want {
			t.Errorf("%s: %s %v, want %s", in, got, err, want)
		}
	}
	// A million columns and rows without cells would be 10^12 steps if each row were looked at for each column.
	many := func(one string) string { return "[" + strings.Repeat(one+",", 1_000_000) + one + "]" }
	if got := columns(json.RawMessage(`{"columns":` + many("0") + `,"data":` + many("[]") + `}`)); len(got) != 1 {
		t.Errorf("%d columns", len(got))
	}
}

func TestExecute_sends_lines(t *testing.T) {
	w := newWorld(t)
	s := w.create("acme/alice")
	w.value = `{"status":"error","error":{"kind":"exception","type":"ValueError","message":"m","traceback":"tb"}}`
	w.res.Artifacts = []haft.Artifact{{Name: "results.json", Data: []byte(
		`{"count":4,"results":[{"main":true,"data":{"text":"[1]","json":[1],"x-evil":1,"table":{"columns":["a"],"data":[[1],[2]]}}}]}`)}}
	rec := w.in(s.ID, "POST", "/execute", `{"code":"1","env_vars":null,"language":null}`, tokenHeader, s.Token,
		portHeader, "49999")
	lines := strings.Split(strings.TrimSpace(rec.Body.String()), "\n")
	if len(lines) != 5 || !strings.Contains(lines[0], `"stdout"`) || !strings.Contains(lines[0], `"timestamp"`) ||
		lines[1] != `{"data":{"a":[1,2]},"is_main_result":true,"text":"[1]","type":"result"}` ||
		!strings.Contains(lines[2], `"ValueError"`) || lines[3] != `{"execution_count":4,"type":"number_of_executions"}` ||
		lines[4] != `{"type":"end_of_execution"}` {
		t.Errorf("%d\n%s", rec.Code, rec.Body)
	}
	for body, want := range map[string]int{`{"code":"1","language":"cobol"}`: 400, `{"code":"1","context_id":"no"}`: 404,
		`{"code":"1","context_id":"x","language":"python"}`: 400, `{"code":"1","env_vars":{"A=":"b"}}`: 400} {
		rec := w.in(s.ID, "POST", "/execute", body, tokenHeader, s.Token, portHeader, "49999")
		if rec.Code != want {
			t.Errorf("%s: %d, want %d", body, rec.Code, want)
		}
	}
}
