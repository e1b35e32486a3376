package model

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"
	"unicode"

	"haft"
	"haft/internal/modelapi"
	"haft/schema"
)

// A Request is what a model is asked.
type Request struct {
	// Model is the vendor's name of the model.
	Model  string
	System string
	// Messages are the conversation, oldest first. There is at least one. Images whose Data is set are sent, in the way
	// that the vendor documents; whether it takes their types is for the caller to know, see [ImageTypes].
	Messages []haft.Message
	// Tools are those that the model may call. Those that the vendor would refuse are left out, see [modelapi.Tools].
	Tools []haft.Tool
	// Choice is auto, required, none, or the name of the tool that has to be called; empty means auto.
	Choice string
	// Parallel allows several calls in one answer. Gemini cannot be told not to.
	Parallel bool
	// MaxOutput is how many tokens the answer may have; 0 leaves it to the vendor.
	MaxOutput int
}

// The choices that are no names of tools.
const (
	ChoiceAuto     = "auto"
	ChoiceRequired = "required"
	ChoiceNone     = "none"
)

// An Answer is what a model says.
type Answer struct {
	Text, Reasoning string
	// Calls are those that the model asks for. Their tools need not exist. Malformed is set where the arguments are no
	// JSON object, or not whole; then Args is what the model wrote, as a JSON string.
	Calls []haft.ToolCall
	// Opaque belongs into [haft.Message] with the rest. It goes back to the same server only.
	Opaque json.RawMessage
	Stop   Stop
	Usage  Usage
}

// A Stop says why an answer ends.
type Stop string

// The reasons.
const (
	StopEnd      Stop = "end"
	StopCalls    Stop = "calls"    // the model waits for the answers to its calls
	StopLength   Stop = "length"   // it ran out of tokens
	StopRefusal  Stop = "refusal"  // the model does not want to
	StopFiltered Stop = "filtered" // the vendor withholds the answer
)

// Usage is how many tokens a request took. All are 0 where the server does not say.
type Usage struct {
	// Input includes Cached, and Output the reasoning.
	Input, Output, Cached int
}

// A Chunk is a piece of an answer that is still being written. One of its fields is set.
type Chunk struct {
	Text, Reasoning string
	// Tool is the name of the tool whose call has begun.
	Tool string
}

// Config has the settings of a client.
type Config struct {
	// Format is one of [schema.FormOpenAI], [schema.FormOpenAIResponses], [schema.FormAnthropic], [schema.FormGemini].
	Format schema.Form
	// BaseURL is the address up to the version, such as https://api.openai.com/v1. Without a path, the vendor's usual
	// version is added.
	BaseURL string
	// Key returns the key for one request; nil and "" mean that the server needs none.
	Key func(context.Context) (string, error)
	// HTTP sends the requests, and decides which addresses may be reached. It is required, and is not changed.
	HTTP *http.Client
	// Headers are sent too. Their values are secret.
	Headers map[string]string
	// Options are fields of the vendor's request, such as thinking or temperature. Objects are merged into ours.
	Options map[string]any
	// Idle is how long the server may send nothing, and how long [Client.Embed] takes at most; 0 means 5 minutes.
	Idle time.Duration
}

// The bounds.
const (
	defaultIdle  = 5 * time.Minute
	maxRequest   = 32 << 20 // bytes, which is what Anthropic takes
	maxStream    = 64 << 20 // bytes of an answer with everything around it
	maxLine      = 16 << 20 // bytes of one line or event: Responses repeat the whole answer in the last one
	maxEvents    = 1 << 19  // of one answer; those of a text of the most bytes are fewer
	maxError     = 64 << 10 // bytes of an error that are read
	maxText      = 4 << 20  // bytes of the text, and of the reasoning
	maxArguments = 1 << 20  // bytes of those of one call
	maxCalls     = modelapi.MaxCalls
)

// A format is how one vendor is asked, and how its stream is read.
type format struct {
	// version is the path of the usual API; endpoint is the path from there.
	version   string
	endpoint  func(model string) string
	authorize func(h http.Header, key string)
	render    func(*rendering) object
	reader    func(*builder) func(*value) (done bool, err error)
}

// formats are those that clients speak.
func formats() map[schema.Form]format {
	bearer := func(h http.Header, key string) { h.Set("Authorization", "Bearer "+key) }
	return map[schema.Form]format{
		schema.FormOpenAI: {"/v1", func(string) string { return "/chat/completions" }, bearer, renderChat, readChat},
		schema.FormOpenAIResponses: {"/v1", func(string) string { return "/responses" }, bearer,
			renderResponses, readResponses},
		schema.FormAnthropic: {"/v1", func(string) string { return "/messages" },
			func(h http.Header, key string) { h.Set("X-Api-Key", key) }, renderAnthropic, readAnthropic},
		schema.FormGemini: {"/v1beta", geminiEndpoint,
			func(h http.Header, key string) { h.Set("X-Goog-Api-Key", key) }, renderGemini, readGemini},
	}
}

// A Client asks the models of one server. It is safe for concurrent use.
type Client struct {
	cfg    Config
	format format
	base   *url.URL
	http   *http.Client
}

// New returns a client.
func New(cfg Config) (*Client, error) {
	wrong := func(why string) error { return &haft.Error{Code: haft.CodeInvalid, Message: why} }
	f, ok := formats()[cfg.Format]
	if !ok {
		return nil, wrong("a model has one of these formats: openai, openai-responses, anthropic, gemini")
	}
	if cfg.HTTP == nil {
		return nil, errors.New("a client of models needs an HTTP client")
	}
	u, err := url.Parse(cfg.BaseURL) // the error would show the address, which may hold a password
	switch {
	case err != nil || u.Hostname() == "" || u.Scheme != "https" && u.Scheme != "http":
		return nil, wrong("the address of a model is not one such as https://host/v1")
	case u.User != nil || u.Fragment != "":
		return nil, wrong("the address of a model has a user or a fragment; give the key by its own setting")
	}
	if strings.Trim(u.Path, "/") == "" {
		u = u.JoinPath(f.version)
	}
	cfg.Idle = cmp.Or(max(cfg.Idle, 0), defaultIdle)
	cfg.Headers, cfg.Options = maps.Clone(cfg.Headers), maps.Clone(cfg.Options)
	own := *cfg.HTTP
	// A redirect would send the conversation to another server, and with it the keys that are no Authorization.
	own.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	own.Jar = nil
	return &Client{cfg: cfg, format: f, base: u, http: &own}, nil
}

// server names the server and its format, to know whose an [Answer.Opaque] is.
func (c *Client) server() string { return string(c.cfg.Format) + " " + c.base.Host }

// errIdle is the cause of the end of a request whose server sends nothing.
var errIdle = errors.New("the server of the model sent nothing for too long")

// Generate asks a model, calls emit for each piece of its answer, and returns the whole. emit may be nil.
func (c *Client) Generate(ctx context.Context, req Request, emit func(Chunk)) (*Answer, error) {
	body, err := c.body(req)
	if err != nil {
		return nil, err
	}
	key, err := c.key(ctx)
	if err != nil {
		return nil, err
	}
	within, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	idle := time.AfterFunc(c.cfg.Idle, func() { cancel(errIdle) })
	defer idle.Stop()
	answer, err := c.ask(within, req.Model, key, body, idle, emit)
	switch {
	case err == nil:
		return answer, nil
	case ctx.Err() != nil:
		return nil, fmt.Errorf("ask the model: %w", context.Cause(ctx))
	case errors.Is(context.Cause(within), errIdle):
		return nil, &Fault{Kind: Cut, Message: errIdle.Error(), Err: errIdle}
	}
	return nil, err
}

// key returns the key for one request.
func (c *Client) key(ctx context.Context) (key string, err error) {
	if c.cfg.Key != nil {
		if key, err = c.cfg.Key(ctx); err != nil {
			return "", fmt.Errorf("get the key of the model: %w", err)
		}
	}
	if key = strings.TrimSpace(key); strings.ContainsFunc(key, unicode.IsControl) {
		return "", &Fault{Kind: Unauthorized, Message: "the key of the model has control characters; store it again"}
	}
	return key, nil
}

// body returns the vendor's request.
func (c *Client) body(req Request) ([]byte, error) {
	if len(req.Messages) == 0 || req.Model == "" {
		return nil, errors.New("a request to a model needs a model and a message")
	}
	tools, err := modelapi.Tools(c.cfg.Format, req.Tools, false)
	if err != nil {
		return nil, fmt.Errorf("list the tools for the model: %w", err)
	}
	r := &rendering{Request: req, tools: tools.Tools, server: c.server(), host: c.base.Hostname(),
		history: history(req.Messages, c.server())}
	if len(tools.Listed) == 0 {
		r.tools = nil
	}
	fields := c.format.render(r)
	merge(fields, c.cfg.Options)
	if choice, ok := fields["tool_choice"].(object); ok && (choice["type"] == "any" || choice["type"] == "tool") {
		delete(fields, "thinking") // Anthropic refuses a forced call of a model that thinks
	}
	body, err := schema.Encode(fields)
	if err != nil {
		return nil, fmt.Errorf("write the request to the model: %w", err)
	}
	if len(body) > maxRequest {
		return nil, &Fault{Kind: TooLong, Message: fmt.Sprintf("the conversation has %d bytes, %d is the most",
			len(body), maxRequest)}
	}
	return body, nil
}

// ask sends a request and reads the answer.
func (c *Client) ask(ctx context.Context, model, key string, body []byte, idle *time.Timer,
	emit func(Chunk)) (*Answer, error) {
	secrets := c.secrets(key)
	resp, err := c.send(ctx, c.format.endpoint(model), "text/event-stream", key, body)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close() //nolint:errcheck // it was only read
	in := &activeReader{r: resp.Body, idle: idle, every: c.cfg.Idle}
	if resp.StatusCode != http.StatusOK || !strings.HasPrefix(resp.Header.Get("Content-Type"), "text/event-stream") {
		return nil, refused(resp, in, secrets)
	}
	b := &builder{emit: emit, server: c.server(), secrets: secrets}
	err = readEvents(in, b.handle(c.format.reader(b)))
	if f, ok := errors.AsType[*Fault](err); err != nil && !(ok && f.Kind == Cut && b.complete) {
		return nil, err
	}
	return b.answer()
}

// send sends a request to an endpoint of the server.
func (c *Client) send(ctx context.Context, endpoint, accept, key string, body []byte) (*http.Response, error) {
	// The endpoint may have a query, which JoinPath would escape.
	path, query, _ := strings.Cut(endpoint, "?")
	u := c.base.JoinPath(path)
	u.RawQuery = strings.Trim(u.RawQuery+"&"+query, "&")
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, u.String(), bytes.NewReader(body))
	if err != nil {
		return nil, fmt.Errorf("make the request to the model: %w", err)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", accept)
	if c.cfg.Format == schema.FormAnthropic {
		req.Header.Set("Anthropic-Version", "2023-06-01")
	}
	if key != "" {
		c.format.authorize(req.Header, key)
	}
	for name, value := range c.cfg.Headers {
		req.Header.Set(name, value)
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return nil, unreachable(err)
	}
	return resp, nil
}

// secrets returns what no fault may show, longest first, so that none is left in part because another is within it. Of
// a header such as "Bearer KEY" the key alone is one too.
func (c *Client) secrets(key string) []string {
	all := []string{key}
	for _, value := range c.cfg.Headers {
		all = append(all, value, value[strings.LastIndex(value, " ")+1:])
	}
	slices.SortFunc(all, func(a, b string) int { return cmp.Compare(len(b), len(a)) })
	return all
}

// An activeReader postpones the end of a request with every byte that arrives.
type activeReader struct {
	r     io.Reader
	idle  *time.Timer
	every time.Duration
}

// Read implements [io.Reader].
func (a *activeReader) Read(p []byte) (int, error) {
	n, err := a.r.Read(p)
	if n > 0 {
		a.idle.Reset(a.every)
	}
	return n, err
}

// An object is one of JSON.
type object = map[string]any

// merge puts fields into an object. Objects are merged, other values replaced.
func merge(into, fields object) object {
	for k, v := range fields {
		inner, isObject := v.(object)
		ours, wasObject := into[k].(object)
		if isObject && wasObject {
			v = merge(maps.Clone(ours), inner)
		}
		into[k] = v
	}
	return into
}
