// Package modeltest is a server of language models that follows a script, over real HTTP and streaming, in the four
// formats of package model. It refuses what the vendors refuse, with a 400 that says why, so that a test of an agent
// also tests its requests.
//
//	s := modeltest.Start(t, modeltest.Step{Calls: []haft.ToolCall{{ID: "c1", Tool: "now"}}}, modeltest.Step{Text: "done"})
//	// ask the model at s.URL, in any of the formats
//	s.Requests()[1].Messages // what the second request had
//
// A program that is no test serves a [Handler] with [Listen]; [Read] reads its script.
package modeltest

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	"haft"
)

// A Step is one answer of the model.
type Step struct {
	// For gives the step to the first request whose system prompt or last message has this text. Empty means any.
	For string `json:"for,omitempty"`
	// Again keeps the step for further requests, such as those of a turn that goes on in another process.
	Again bool `json:"again,omitempty"`

	Reasoning string `json:"reasoning,omitempty"`
	Text      string `json:"text,omitempty"`
	// Calls are those that the model asks for. One whose Malformed is set has that text as its arguments.
	Calls []haft.ToolCall `json:"calls,omitempty"`
	// Stop is end, calls, length, refusal or filtered; empty means calls if there are any, and end otherwise.
	Stop  string `json:"stop,omitempty"`
	Usage Usage  `json:"usage,omitzero"`

	// Status is that of an answer without a stream, such as 429, with Message and RetryAfter.
	Status     int    `json:"status,omitempty"`
	RetryAfter string `json:"retry_after,omitempty"`
	Message    string `json:"message,omitempty"`
	// Error is what the vendor calls an error that is reported in the middle of the stream, with Message.
	Error string `json:"error,omitempty"`
	// Cut drops the connection in the middle of the stream.
	Cut bool `json:"cut,omitempty"`
	// Hold keeps the connection open in the middle of the stream until the client goes away.
	Hold bool `json:"hold,omitempty"`
	// Loose answers as lesser servers of Chat Completions do: whole calls in one chunk, without index and id, their
	// arguments as an object, and no usage.
	Loose bool `json:"loose,omitempty"`

	// Slow is called in the middle of the stream.
	Slow func(context.Context) `json:"-"`
	// Check looks at the request. Its error is the reason of a 400.
	Check func(Request) error `json:"-"`
	// Raw writes the stream instead of all that.
	Raw func(io.Writer) `json:"-"`
}

// Usage is how many tokens an answer took. Input includes Cached.
type Usage struct {
	Input  int `json:"input,omitempty"`
	Output int `json:"output,omitempty"`
	Cached int `json:"cached,omitempty"`
}

// A Request is what a client sent, in no format.
type Request struct {
	// Format is openai, openai-responses, anthropic or gemini.
	Format        string
	Model, System string
	// Messages are of the roles user, assistant and tool. Name and Answers are set for those of tools, and Status is an
	// error for those that report one.
	Messages []haft.Message
	// Images are those of the messages.
	Images []Image
	// Tools are the names of those that are offered.
	Tools []string
	// Choice is auto, required, none, or a name.
	Choice    string
	Parallel  bool
	MaxOutput int
	Header    http.Header
	Body      json.RawMessage
}

// Read reads a script: a JSON list of steps.
func Read(r io.Reader) ([]Step, error) {
	var steps []Step
	dec := json.NewDecoder(r)
	dec.DisallowUnknownFields()
	if err := dec.Decode(&steps); err != nil {
		return nil, fmt.Errorf("read the script of a model: %w", err)
	}
	return steps, nil
}

// A Handler plays a script. It is safe for concurrent use.
type Handler struct {
	mu       sync.Mutex
	steps    []Step
	answer   func(Request) Step // nil if the script is all
	below    string             // the path below which requests are answered
	requests []Request
	refusals []string
	seen     bool // somebody has asked for the refusals
}

// NewHandler returns a handler of a script.
func NewHandler(steps ...Step) *Handler { return &Handler{steps: steps} }

// Add adds steps to the script.
func (h *Handler) Add(steps ...Step) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.steps = append(h.steps, steps...)
}

// Otherwise has a function answer requests for which the script has no step, such as those of many conversations at
// once. It is called for one request at a time. Requests are not kept then: there is no end to them.
func (h *Handler) Otherwise(answer func(Request) Step) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.answer = answer
}

// Below has requests answered below a path only, such as one that nobody can guess. It is called before [Listen].
func (h *Handler) Below(path string) { h.below = path }

// Left returns how many steps have not been played, without those that are played again.
func (h *Handler) Left() (n int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, s := range h.steps {
		if !s.Again {
			n++
		}
	}
	return n
}

// Requests returns the requests that were accepted, without those of a handler with [Handler.Otherwise].
func (h *Handler) Requests() []Request {
	h.mu.Lock()
	defer h.mu.Unlock()
	return append([]Request(nil), h.requests...)
}

// Refusals returns why requests were answered with 400, the first of them.
func (h *Handler) Refusals() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.seen = true
	return append([]string(nil), h.refusals...)
}

// A Server is a handler that listens.
type Server struct {
	*Handler
	URL string
	// Client reaches it.
	Client *http.Client
}

// Listen serves a handler on a free port of this machine until stop is called.
func Listen(h *Handler) (s *Server, stop func(), err error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, nil, fmt.Errorf("listen for requests to a model: %w", err)
	}
	client := &http.Transport{}
	server := &http.Server{Handler: h, ReadHeaderTimeout: time.Minute}
	served := make(chan struct{})
	go func() {
		defer close(served)
		_ = server.Serve(l) // which ends with stop
	}()
	stop = sync.OnceFunc(func() {
		_ = server.Close()
		<-served
		client.CloseIdleConnections()
	})
	return &Server{h, "http://" + l.Addr().String() + h.below, &http.Client{Transport: client}}, stop, nil
}

// A Test is what Start needs of a [testing.TB], which programs should not import.
type Test interface {
	Helper()
	Cleanup(func())
	Errorf(format string, args ...any)
	Fatalf(format string, args ...any)
}

// Start starts a server, which ends with the test. Requests that it refuses fail the test, unless that looks at
// Refusals.
func Start(t Test, steps ...Step) *Server {
	t.Helper()
	h := NewHandler(steps...)
	s, stop, err := Listen(h)
	if err != nil {
		t.Fatalf("%v", err)
	}
	t.Cleanup(func() {
		stop()
		h.mu.Lock()
		defer h.mu.Unlock()
		if !h.seen && len(h.refusals) > 0 {
			t.Errorf("the model refused requests: %q", h.refusals)
		}
	})
	return s
}

// maxBody bounds a request, and maxRefusals how many reasons are kept.
const (
	maxBody     = 64 << 20
	maxRefusals = 100
)

// ServeHTTP implements [http.Handler].
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	v, model := vendorOf(r.URL.Path)
	if v == nil || h.below != "" && !strings.HasPrefix(r.URL.Path, h.below+"/") || r.Method != http.MethodPost {
		http.NotFound(w, r)
		return
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	if err != nil {
		http.Error(w, "the request cannot be read", http.StatusBadRequest)
		return
	}
	req, err := v.read(body)
	if err == nil {
		req.Format, req.Header, req.Body = v.name, r.Header, body
		req.Model = cmp.Or(req.Model, model)
		if err = check(req); err == nil && v.name == "gemini" && r.URL.Query().Get("alt") != "sse" {
			err = fmt.Errorf("alt=sse is missing")
		}
	}
	step, err := h.take(req, err)
	switch {
	case err != nil:
		v.refuse(w, http.StatusBadRequest, err.Error())
	case step.Status != 0:
		if step.RetryAfter != "" {
			w.Header().Set("Retry-After", step.RetryAfter)
		}
		v.refuse(w, step.Status, step.Message)
	default:
		w.Header().Set("Content-Type", "text/event-stream; charset=utf-8")
		play(r.Context(), w, v, req, step)
	}
}

// take notes a request, and returns the step that answers it.
func (h *Handler) take(req Request, err error) (Step, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	var step Step
	if err == nil {
		err = fmt.Errorf("the script has no more steps")
		for i, s := range h.steps {
			if s.For == "" || strings.Contains(req.System, s.For) ||
				strings.Contains(req.Messages[len(req.Messages)-1].Text, s.For) {
				step, err = s, nil
				if !s.Again {
					h.steps = append(h.steps[:i:i], h.steps[i+1:]...)
				}
				break
			}
		}
		if err != nil && h.answer != nil {
			step, err = h.answer(req), nil
		}
	}
	if err == nil && step.Check != nil {
		err = step.Check(req)
	}
	if err != nil {
		if len(h.refusals) < maxRefusals {
			h.refusals = append(h.refusals, err.Error())
		}
		return Step{}, err
	}
	if h.answer == nil {
		h.requests = append(h.requests, req)
	}
	return step, nil
}

// play writes the stream of a step. Every event is sent in two halves, which need not end between characters.
func play(ctx context.Context, w http.ResponseWriter, v *vendor, req Request, step Step) {
	flush := func() { _ = http.NewResponseController(w).Flush() }
	flush()
	if step.Raw != nil {
		step.Raw(w)
		return
	}
	send := func(events ...string) {
		for _, e := range events {
			for _, half := range []string{e[:len(e)/2], e[len(e)/2:]} {
				_, _ = io.WriteString(w, half) // a client that is gone ends ctx
				flush()
			}
		}
	}
	begin, end := v.stream(req, step)
	send(begin...)
	if step.Slow != nil {
		step.Slow(ctx)
	}
	switch {
	case step.Hold:
		<-ctx.Done()
	case step.Error != "":
		send(v.streamError(step.Error, step.Message))
	case step.Cut:
		if len(end) > 0 {
			send(end[0][:len(end[0])/2])
		}
		panic(http.ErrAbortHandler)
	default:
		send(end...)
	}
}

// A vendor is how one format is read and written. The functions that write return whole events.
type vendor struct {
	name string
	read func(body []byte) (Request, error)
	// stream returns the events of a step: those with reasoning, text and calls, and those that end the answer.
	stream      func(Request, Step) (begin, end []string)
	streamError func(kind, message string) string
	errorBody   func(status int, message string) any
}

// vendorOf returns the vendor of a path, and the model that the path names.
func vendorOf(path string) (*vendor, string) {
	switch {
	case strings.HasSuffix(path, "/chat/completions"):
		return &vendor{"openai", readChat, chatStream, openAIStreamError, openAIError}, ""
	case strings.HasSuffix(path, "/responses"):
		return &vendor{"openai-responses", readResponses, responsesStream, responsesStreamError, openAIError}, ""
	case strings.HasSuffix(path, "/messages"):
		return &vendor{"anthropic", readAnthropic, anthropicStream, anthropicStreamError, anthropicError}, ""
	case strings.HasSuffix(path, ":streamGenerateContent"):
		model := strings.TrimSuffix(path[strings.LastIndex(path, "/")+1:], ":streamGenerateContent")
		return &vendor{"gemini", readGemini, geminiStream, geminiStreamError, geminiError}, model
	}
	return nil, ""
}

// refuse answers with an error of the vendor.
func (v *vendor) refuse(w http.ResponseWriter, status int, message string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(v.errorBody(status, cmp.Or(message, http.StatusText(status), "error")))
}

// object is one of JSON.
type object = map[string]any

// data returns an event without a name.
func data(v any) string { return "data: " + text(v) + "\n\n" }

// named returns an event whose name is its type.
func named(fields object) string { return fmt.Sprintf("event: %s\n%s", fields["type"], data(fields)) }

// text returns v as JSON.
func text(v any) string {
	raw, err := json.Marshal(v)
	if err != nil {
		panic(fmt.Sprintf("modeltest: a step cannot be written: %v", err))
	}
	return string(raw)
}

// split cuts a text into pieces, as a model would send it.
func split(s string) []string {
	var pieces []string
	for runes := []rune(s); len(runes) > 0; {
		n := min(max(5, len(runes)/8), len(runes))
		pieces = append(pieces, string(runes[:n]))
		runes = runes[n:]
	}
	return pieces
}

// arguments returns the arguments of a call as a model writes them.
func arguments(c haft.ToolCall) string {
	if c.Malformed != "" {
		return c.Malformed
	}
	return string(c.Args)
}

// stopOf returns why a step ends.
func stopOf(s Step) string {
	if s.Stop == "" && len(s.Calls) > 0 {
		return "calls"
	}
	return cmp.Or(s.Stop, "end")
}
