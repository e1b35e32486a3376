package bench

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"sync/atomic"
	"time"

	"haft"
	"haft/app"
	"haft/executor/builtin"
	"haft/internal/agents"
	"haft/internal/modelfile"
)

// turnSteps is how often an agent asks its model in a turn: for a call, and at last for the answer.
const turnSteps = 20

// instantModel is a server of Chat Completions that answers at once: with calls, and every turnSteps-th time with text.
type instantModel struct {
	url    string
	client *http.Client
	asked  atomic.Int64
	stop   func()
}

func startModel(ctx context.Context) (*instantModel, error) {
	var lc net.ListenConfig
	ln, err := lc.Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("listen: %w", err)
	}
	m := &instantModel{url: "http://" + ln.Addr().String() + "/v1", client: &http.Client{Transport: &http.Transport{}}}
	srv, served := &http.Server{Handler: m, ReadHeaderTimeout: time.Minute}, make(chan struct{})
	go func() {
		defer close(served)
		_ = srv.Serve(ln) // until stop
	}()
	m.stop = func() {
		_ = srv.Close() // nothing of it is kept
		<-served
		m.client.CloseIdleConnections()
	}
	return m, nil
}

// ServeHTTP implements [http.Handler].
func (m *instantModel) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if _, err := io.Copy(io.Discard, http.MaxBytesReader(w, r.Body, maxAnswer)); err != nil {
		http.Error(w, "the request cannot be read", http.StatusBadRequest)
		return
	}
	n := m.asked.Add(1)
	delta, stop := fmt.Sprintf(`{"role":"assistant","content":null,"tool_calls":[{"index":0,"id":"c%d","type":"function",`+
		`"function":{"name":"count","arguments":"{\"n\":%d}"}}]}`, n, n), "tool_calls"
	if n%turnSteps == 0 {
		delta, stop = `{"role":"assistant","content":"done"}`, "stop"
	}
	w.Header().Set("Content-Type", "text/event-stream")
	const chunk = `data: {"id":"x","object":"chat.completion.chunk","created":1,"model":"m","choices":` +
		`[{"index":0,"delta":%s,"finish_reason":%s}]}` + "\n\n"
	_, _ = fmt.Fprintf(w, chunk+chunk+"data: [DONE]\n\n", delta, "null", "{}", `"`+stop+`"`) // whoever asks sees it
}

// ask asks the model with the least that HTTP needs.
func (m *instantModel) ask(ctx context.Context) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, m.url+"/chat/completions", strings.NewReader("{}"))
	if err != nil {
		return fmt.Errorf("make a request: %w", err)
	}
	res, err := m.client.Do(req)
	if err != nil {
		return fmt.Errorf("ask the model: %w", err)
	}
	defer res.Body.Close()
	if _, err = io.Copy(io.Discard, res.Body); err != nil {
		return fmt.Errorf("read the answer: %w", err)
	}
	return nil
}

// number is what the tool of the agent takes and gives.
type number struct {
	N int64 `json:"n" jsonschema:"A number."`
}

// addCount adds a tool that gives what it takes.
func addCount(set *builtin.Set) error {
	return builtin.Add(set, builtin.Def{Name: "count", Description: "Give a number."},
		func(_ context.Context, _ builtin.Call, n number) (number, error) { return n, nil })
}

// agents measures what a step of a turn costs beyond its model and its call, with all messages on the disk: that of a
// turn whose model answers at once, less as many requests over HTTP and calls through the engine alone.
func (b *bench) agents(ctx context.Context) error {
	b.cfg.Progress("turns of an agent")
	m, err := startModel(ctx)
	if err != nil {
		return err
	}
	defer m.stop()
	dir, err := os.MkdirTemp("", "haft-bench-")
	if err != nil {
		return fmt.Errorf("make a directory for state: %w", err)
	}
	defer os.RemoveAll(dir)
	models, err := modelfile.Parse("models.toml",
		fmt.Sprintf("default = \"m\"\n[models.m]\nformat = \"openai\"\nmodel = \"m\"\nurl = %q\n", m.url))
	if err != nil {
		return err
	}
	s, err := app.OpenService(ctx, app.ServiceConfig{Config: b.cfg.system(), Data: dir, Builtins: addCount,
		Agents: agents.Config{Models: models}})
	if err != nil {
		return err
	}
	defer s.Close() //nolint:errcheck // nothing of it is kept
	who := tenant("local")
	a, err := s.PutAgent(ctx, who, haft.Agent{Name: "bench", Tools: []string{"count"}})
	if err != nil {
		return err
	}
	who.Agent = string(a.ID)
	return b.turns(ctx, s, m, who)
}

// turns times turns of an agent in turn with what they are made of.
func (b *bench) turns(ctx context.Context, s *app.Service, m *instantModel, who haft.Principal) error {
	n := 0
	samples, err := Interleave(min(b.cfg.Rounds, 100), []Way{
		{fmt.Sprintf("haft: turn of an agent, %d steps", turnSteps), func() error {
			n++
			who.User = fmt.Sprint("user", n) // whose conversation is empty
			m.asked.Store(0)
			return runTurn(ctx, s, who)
		}},
		{"model", func() error {
			for range turnSteps {
				if err := m.ask(ctx); err != nil {
					return err
				}
			}
			return nil
		}},
		{"calls", func() error {
			for i := range turnSteps - 1 {
				res, err := s.Call(ctx, haft.Call{Tool: "count", Args: json.RawMessage(fmt.Sprintf(`{"n":%d}`, i)),
					Principal: who})
				if err != nil || res.Status != haft.StatusSuccess {
					return fmt.Errorf("the call ended with %+v: %w", res, err)
				}
			}
			return nil
		}},
	})
	if err != nil {
		return err
	}
	part := make([]time.Duration, len(samples))
	for i, sample := range samples {
		part[i] = sample.Quantile(.5) / turnSteps
	}
	own := part[0] - part[1] - part[2]
	b.add(Row{What: "step of an agent, durable, beyond its model and its call, p50 (ms)", Ours: label(ms(own)),
		Theirs: label(ms(part[1])) + " model, " + label(ms(part[2])) + " call",
		Ratio:  float64(own) / float64(time.Millisecond), Must: 2, Aim: 1})
	b.report.Samples = append(b.report.Samples, samples[0])
	return nil
}

// runTurn sends a message to the agent and waits until its turn has ended.
func runTurn(ctx context.Context, s *app.Service, who haft.Principal) error {
	for e, err := range s.AgentLoop.Conversations().Send(ctx, who, "bench", haft.NewMessage{Text: "count"}) {
		if err != nil {
			return err
		}
		if t := e.Turn; t != nil && t.Final() {
			if t.Status != haft.TurnCompleted || t.Usage.Steps != turnSteps {
				return fmt.Errorf("the turn ended as %s after %d steps: %s", t.Status, t.Usage.Steps, t.Error)
			}
			return nil
		}
	}
	return fmt.Errorf("the turn did not end")
}
