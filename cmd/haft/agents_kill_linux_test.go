package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"haft"
	"haft/client"
	"haft/internal/modeltest"
	"haft/schema"
)

// noteSource is a tool that may not run twice: it tells a receiver, and returns when that has answered.
const noteSource = `import urllib.request

def note(url: str) -> str:
    """Tell a receiver.

    Args:
        url: what is told, and where
    """
    return urllib.request.urlopen(url, timeout=600).read().decode()
`

// killTalks is how many conversations there are. Each has one message, and three calls in two steps. Of every tenth
// one the first call has had its effect, and has not returned, when the server is killed. Their agents have models of
// all vendors' formats, one after the other.
const killTalks = 100

// killFormats are the formats of the models; each is the name of one.
func killFormats() []schema.Form {
	return []schema.Form{schema.FormOpenAI, schema.FormAnthropic, schema.FormGemini, schema.FormOpenAIResponses}
}

// killModels is a file of models of all formats, at one server.
func killModels(server *modeltest.Server) string {
	file := ""
	for _, f := range killFormats() {
		file += fmt.Sprintf("[models.%[1]s]\nformat = %[1]q\nmodel = \"test\"\nurl = %q\n", f, server.URL)
	}
	return file
}

// A killedWorld is what stays when a server is killed: the model, and the receiver of the tool.
type killedWorld struct {
	model    *modeltest.Server
	receiver *httptest.Server

	mu      sync.Mutex
	killed  bool
	asked   int            // requests to the model
	begun   int            // conversations whose first message is kept
	later   int            // requests to the model before the kill, but for the first of each conversation
	held    int            // runs that the receiver has not answered
	effects map[string]int // by what was told: CONVERSATION/CALL
	formats map[string]int // of requests to the model after the kill
}

func newKilledWorld(t *testing.T) *killedWorld {
	w := &killedWorld{model: modeltest.Start(t), effects: map[string]int{}, formats: map[string]int{}}
	w.model.Otherwise(w.answer)
	w.receiver = httptest.NewServer(w)
	t.Cleanup(func() { w.receiver.CloseClientConnections(); w.receiver.Close() })
	return w
}

// answer is the model: what it asks for is a function of the request. When it has answered half of the requests that
// are not the first of a conversation, it keeps the others waiting until the server is killed.
func (w *killedWorld) answer(req modeltest.Request) modeltest.Step {
	answers := 0
	for _, m := range req.Messages {
		if m.Role == haft.RoleTool {
			answers++
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.asked++
	if w.killed {
		w.formats[req.Format]++
	}
	if answers > 0 && !w.killed {
		if w.later++; w.later > killTalks {
			return modeltest.Step{Text: "half", Hold: true}
		}
	}
	call := func(i int) haft.ToolCall {
		name := strings.TrimPrefix(req.Messages[0].Text, "conversation ")
		return haft.ToolCall{ID: fmt.Sprintf("c%s_%d", name, i), Tool: "note",
			Args: json.RawMessage(fmt.Sprintf(`{"url":"%s/%s/%d"}`, w.receiver.URL, name, i))}
	}
	switch answers {
	case 0:
		return modeltest.Step{Calls: []haft.ToolCall{call(0)}}
	case 1:
		return modeltest.Step{Text: "And two more.", Calls: []haft.ToolCall{call(1), call(2)}}
	}
	return modeltest.Step{Text: "done"}
}

// holds reports whether the receiver keeps a run waiting until the server is killed.
func holds(effect string) bool { return strings.HasSuffix(effect, "0/0") }

// ServeHTTP is the receiver.
func (w *killedWorld) ServeHTTP(out http.ResponseWriter, r *http.Request) {
	effect := strings.TrimPrefix(r.URL.Path, "/")
	w.mu.Lock()
	w.effects[effect]++
	hold := holds(effect) && !w.killed
	if hold {
		w.held++
	}
	w.mu.Unlock()
	if hold {
		<-r.Context().Done()
		return
	}
	_, _ = io.WriteString(out, "told") // a run that has been killed is not there to read it
}

// await waits until something is true of the world.
func (w *killedWorld) await(t *testing.T, most time.Duration, is func() bool) {
	t.Helper()
	for end := time.Now().Add(most); ; <-time.After(10 * time.Millisecond) {
		w.mu.Lock()
		ok := is()
		w.mu.Unlock()
		if ok {
			return
		}
		if time.Now().After(end) {
			w.mu.Lock()
			defer w.mu.Unlock()
			t.Fatalf("it takes too long: %d conversations have begun, the model was asked %d times more, %d runs are "+
				"held", w.begun, w.later, w.held)
		}
	}
}

// serveAgents starts haft serve on a directory with the model of w, and returns its process and a client.
func (w *killedWorld) serveAgents(t *testing.T, program, dir string) (*exec.Cmd, *client.Client) {
	t.Helper()
	file := filepath.Join(dir, "models.toml")
	if err := os.WriteFile(file, []byte(killModels(w.model)), 0o600); err != nil {
		t.Fatal(err)
	}
	log, err := os.OpenFile(filepath.Join(dir, "log"), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	cmd := exec.CommandContext(context.WithoutCancel(t.Context()), program, "serve", "--addr", "127.0.0.1:0",
		"--data", filepath.Join(dir, "data"), "--models", file, "--allow-range", "127.0.0.0/8", "--allow-reduced",
		"--ready-wait", "0s", "--log-level", "warn")
	cmd.Stderr = log
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill() // it has ended, if the test has not failed
		_ = cmd.Wait()
		if text, err := os.ReadFile(log.Name()); err == nil && t.Failed() {
			t.Logf("the log of the servers:\n%.4000s", text)
		}
	})
	url, lines := "", bufio.NewScanner(out)
	for lines.Scan() && !strings.HasPrefix(lines.Text(), "sandbox") {
		if at, ok := strings.CutPrefix(lines.Text(), "listening on "); ok {
			url = at
		}
	}
	go func() { _, _ = io.Copy(io.Discard, out) }() // until the server ends
	key, err := os.ReadFile(filepath.Join(dir, "data", "admin.key"))
	if err != nil {
		t.Fatalf("the server does not start: %v", err)
	}
	c, err := client.New(client.Config{URL: url, Key: string(key)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() }) // which cannot fail
	return cmd, c
}

// talkName is the name of the agent of a conversation.
func talkName(i int) string { return fmt.Sprintf("agent%d", i) }

// send says what starts a conversation, or started it, and returns how its turn ended. It calls kept when the message
// is kept.
func send(ctx context.Context, c *client.Client, i int, kept func()) (haft.Turn, error) {
	for e, err := range c.Conversations.Send(ctx, haft.Principal{Agent: talkName(i)}, talkName(i),
		haft.NewMessage{Text: fmt.Sprintf("conversation %d", i), Key: "k"}) {
		if err != nil {
			return haft.Turn{}, err
		}
		if e.Message != nil && e.Message.Role == haft.RoleUser {
			kept()
		}
		if e.Turn != nil && e.Turn.Final() {
			return *e.Turn, nil
		}
	}
	return haft.Turn{}, errors.New("the turn did not end")
}

// A server with many conversations is killed while models answer and tools run.
//
// WEAKNESS: a turn is lost, or stays as it was; a call is made again whose tool has had its effect; the model gets a
// conversation in which calls have no answer, which vendors refuse from then on. The models are of all formats, whose
// servers refuse what the vendors refuse.
// VERIFIES: the next server ends every turn. No tool ran twice. A call that ran when the server was killed is unknown,
// and the model is told. Whoever sends a message again with its key gets its turn.
func TestAgents_survive_kill(t *testing.T) {
	program, err := haftCommand(t)
	if err != nil {
		t.Fatal(err)
	}
	w, dir := newKilledWorld(t), t.TempDir()
	server, c := w.serveAgents(t, program, dir)
	w.prepare(t, c)

	ctx, leave := context.WithCancel(t.Context())
	var first sync.WaitGroup
	for i := range killTalks {
		first.Go(func() {
			_, _ = send(ctx, c, i, func() { // it ends with the server
				w.mu.Lock()
				defer w.mu.Unlock()
				w.begun++
			})
		})
	}
	w.await(t, time.Minute, func() bool {
		return w.begun == killTalks && w.later >= killTalks+killTalks/10 && w.held == killTalks/10
	})
	if err := server.Process.Signal(syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	_ = server.Wait() // it was killed
	w.mu.Lock()
	w.killed = true
	w.mu.Unlock()
	leave()
	first.Wait()

	server, c = w.serveAgents(t, program, dir)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var second sync.WaitGroup
	for i := range killTalks {
		second.Go(func() {
			if turn, err := send(ctx, c, i, func() {}); err != nil || turn.Status != haft.TurnCompleted ||
				turn.Stop != haft.StopEnd {
				t.Errorf("conversation %d ended as %s (%s %s), %v", i, turn.Status, turn.Stop, turn.Error, err)
			}
		})
	}
	second.Wait()
	unknown := 0
	for i := range killTalks {
		unknown += w.check(t, c, i)
	}
	w.mu.Lock()
	asked, formats := w.asked, maps.Clone(w.formats)
	w.mu.Unlock()
	for _, f := range killFormats() {
		if formats[string(f)] < killTalks/len(killFormats())/2 {
			t.Errorf("no more than %d requests in the format %s followed the kill", formats[string(f)], f)
		}
	}
	t.Logf("%d of %d calls are unknown, and the model was asked %d times", unknown, 3*killTalks, asked)
	if unknown < killTalks/10 || unknown > 2*killTalks {
		t.Errorf("%d calls are unknown", unknown)
	}
	if again := asked - 3*killTalks; again < killTalks/10 || again > killTalks {
		t.Errorf("the model was asked %d times again", again)
	}
	for _, why := range w.model.Refusals() {
		t.Errorf("the model refused a request: %s", why)
	}
	if err := errors.Join(server.Process.Signal(syscall.SIGTERM), server.Wait()); err != nil {
		t.Errorf("stop the server: %v", err)
	}
	(&fixture{data: filepath.Join(dir, "data")}).verifyOrg(t, "local")
}

// prepare makes the tool and the agents.
func (w *killedWorld) prepare(t *testing.T, c *client.Client) {
	t.Helper()
	if _, err := c.PutTool(t.Context(), haft.Principal{}, haft.Draft{Kind: haft.KindPython, Source: noteSource,
		Settings: haft.Settings{Network: []string{strings.TrimPrefix(w.receiver.URL, "http://")}}}); err != nil {
		t.Fatal(err)
	}
	for i := range killTalks {
		if _, err := c.PutAgent(t.Context(), haft.Principal{}, haft.Agent{Name: talkName(i), Tools: []string{"note"},
			Model: string(killFormats()[i%len(killFormats())])}); err != nil {
			t.Fatal(err)
		}
	}
}

// check compares a conversation, the records of its calls, and what the receiver was told. It returns how many calls
// are unknown.
func (w *killedWorld) check(t *testing.T, c *client.Client, i int) (unknown int) {
	t.Helper()
	p := haft.Principal{Agent: talkName(i)}
	turns, err := c.Conversations.Turns(t.Context(), p, talkName(i), "", 10)
	if err != nil || len(turns) != 1 {
		t.Fatalf("conversation %d has %d turns, %v", i, len(turns), err)
	}
	list, err := c.Conversations.Messages(t.Context(), p, talkName(i), haft.MessageFilter{Limit: 100})
	if err != nil {
		t.Fatal(err)
	}
	shape := ""
	for _, m := range list {
		shape += " " + string(m.Role)
		for _, call := range m.Calls {
			shape += " " + call.ID
		}
		if m.Role != haft.RoleTool {
			continue
		}
		shape += " " + m.Answers
		effect := strings.ReplaceAll(strings.TrimPrefix(m.Answers, "c"), "_", "/")
		r, err := c.Record(t.Context(), p, m.Call)
		if err != nil {
			t.Fatal(err)
		}
		w.mu.Lock()
		ran := w.effects[effect]
		w.mu.Unlock()
		switch {
		case ran > 1:
			t.Errorf("the call %s is %s, and ran %d times", effect, r.Status, ran)
		case r.Status != m.Status:
			t.Errorf("the call %s is %s, and the model was told %s", effect, r.Status, m.Status)
		case m.Status == haft.StatusUnknown:
			unknown++
			if holds(effect) && ran == 0 || !strings.Contains(m.Text, "may have run") {
				t.Errorf("the call %s ran %d times, and the model was told %q", effect, ran, m.Text)
			}
		case m.Status != haft.StatusSuccess || ran != 1 || holds(effect):
			t.Errorf("the call %s is %s, and ran %d times: %s", effect, m.Status, ran, m.Text)
		}
	}
	if want := fmt.Sprintf(" user assistant c%[1]d_0 tool c%[1]d_0 assistant c%[1]d_1 c%[1]d_2 tool c%[1]d_1 "+
		"tool c%[1]d_2 assistant", i); shape != want {
		t.Errorf("conversation %d is%s\nwant%s", i, shape, want)
	}
	return unknown
}
