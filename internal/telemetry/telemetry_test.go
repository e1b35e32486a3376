package telemetry_test

import (
	"context"
	"errors"
	"fmt"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"haft"
	"haft/internal/engine"
	"haft/internal/model"
	"haft/internal/telemetry"
)

// scrape returns what Prometheus would read.
func scrape(t *testing.T, x *telemetry.Telemetry) string {
	t.Helper()
	w := httptest.NewRecorder()
	x.Handler().ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), "GET", "/metrics", nil))
	return w.Body.String()
}

// one is told of one call.
func one(x *telemetry.Telemetry, c haft.Call, res *haft.Result, err error) {
	_, span := x.Begin(context.Background(), c)
	if !strings.HasPrefix(c.Tool, "no-such-") {
		span.Tool(c.Tool)
	}
	span.Stage("resolve", time.Millisecond)
	span.End(res, err)
}

func TestMetrics_by_tool_tenant_and_outcome(t *testing.T) {
	x, err := telemetry.Open(t.Context(),
		telemetry.Config{Stats: func() engine.Stats { return engine.Stats{Running: 3} }})
	if err != nil {
		t.Fatal(err)
	}
	call := haft.Call{ID: "c", Tool: "weather", Principal: haft.Principal{Org: "acme"}}
	one(x, call, &haft.Result{Status: haft.StatusSuccess, Usage: haft.Usage{CPU: haft.Millis(2 * time.Second),
		Network: haft.Millis(3 * time.Second)}}, nil)
	one(x, call, &haft.Result{Status: haft.StatusDenied,
		Error: &haft.Failure{Kind: haft.FailDenied, Severity: haft.SeverityHigh}}, nil)
	one(x, call, nil, errors.New("no"))
	builtIn := haft.Call{ID: "c", Tool: "clock", Principal: haft.Principal{Org: "acme"}}
	one(x, builtIn, &haft.Result{Status: haft.StatusSuccess, Usage: haft.Usage{Wall: haft.Millis(time.Second)}}, nil)
	got := scrape(t, x)
	for _, name := range []string{"haft_cpu_seconds_total", "haft_memory_peak_bytes_total"} {
		if strings.Contains(got, name+`{org="acme",tool="clock"}`) {
			t.Errorf("%s counts a call whose usage is unknown", name)
		}
	}
	for _, want := range []string{
		`haft_calls_total{org="acme",status="success",tool="weather"} 1`,
		`haft_calls_total{org="acme",status="permission_denied",tool="weather"} 1`,
		`haft_calls_total{org="acme",status="none",tool="weather"} 1`,
		`haft_failures_total{kind="permission_denied",org="acme",severity="high"} 1`,
		`haft_failures_total{kind="internal",org="acme",severity=""} 1`,
		`haft_call_seconds_count{tool="weather"} 3`,
		`haft_stage_seconds_count{stage="resolve"} 4`,
		`haft_cpu_seconds_total{org="acme",tool="weather"} 2`,
		`haft_network_seconds_total{org="acme",tool="weather"} 3`,
		`haft_calls_running 3`,
	} {
		if !strings.Contains(got, want) {
			t.Errorf("the measures lack %s", want)
		}
	}
}

func TestMetrics_are_bounded(t *testing.T) {
	x, err := telemetry.Open(t.Context(), telemetry.Config{Series: 80})
	if err != nil {
		t.Fatal(err)
	}
	done := &haft.Result{Status: haft.StatusSuccess}
	call := func(org, tool string) { one(x, haft.Call{Tool: tool, Principal: haft.Principal{Org: org}}, done, nil) }
	// A tenant that has a thousand tools keeps to its share.
	for i := range 1000 {
		call("o", fmt.Sprint("tool", i))
	}
	got := scrape(t, x)
	if n := strings.Count(got, "haft_calls_total{"); n != 11 {
		t.Errorf("%d series, want 11", n)
	}
	if !strings.Contains(got, `haft_calls_total{org="o",status="success",tool="other"} 990`) {
		t.Error("what is beyond the bound is not counted together")
	}
	// Twenty of them take all that there is to share, and yet each has some of its own.
	for i := range 20 {
		for k := range 20 {
			call(fmt.Sprint("many", i), fmt.Sprint("tool", k))
		}
	}
	call("small", "mine")
	got = scrape(t, x)
	if !strings.Contains(got, `haft_calls_total{org="small",status="success",tool="mine"} 1`) {
		t.Error("the tool of a small organisation is not counted apart")
	}
	if n := strings.Count(got, "haft_calls_total{"); n > 80+22*5 {
		t.Errorf("%d series", n)
	}
	// Organisations are bounded too.
	for i := range 1000 {
		call(fmt.Sprint("org", i), "t")
	}
	if n := strings.Count(scrape(t, x), "haft_calls_total{"); n > 80+40*5+1 {
		t.Errorf("%d series of 1000 organisations", n)
	}
}

// TestMetrics_of_strangers: names that are no tools take no series from tools.
func TestMetrics_of_strangers(t *testing.T) {
	x, err := telemetry.Open(t.Context(), telemetry.Config{Series: 10})
	if err != nil {
		t.Fatal(err)
	}
	for i := range 1000 {
		c := haft.Call{Tool: fmt.Sprint("no-such-", i), Principal: haft.Principal{Org: "acme"}}
		one(x, c, nil, &haft.Error{Code: haft.CodeNotFound, Message: "there is no such tool"})
		one(x, c, &haft.Result{Status: haft.Status(fmt.Sprint("s", i)),
			Error: &haft.Failure{Kind: haft.FailureKind(fmt.Sprint("k", i)),
				Severity: haft.Severity(fmt.Sprint("v", i))}}, nil)
		x.Refused(fmt.Sprint("why", i), fmt.Sprint("reason", i))
	}
	one(x, haft.Call{Tool: "weather", Principal: haft.Principal{Org: "acme"}}, &haft.Result{Status: haft.StatusSuccess},
		nil)
	got := scrape(t, x)
	for _, want := range []string{`haft_calls_total{org="acme",status="none",tool="unknown"} 1000`,
		`haft_calls_total{org="acme",status="success",tool="weather"} 1`,
		`haft_call_seconds_count{tool="unknown"} 2000`} {
		if !strings.Contains(got, want) {
			t.Errorf("the measures lack %s", want)
		}
	}
	if strings.Contains(got, "no-such-") {
		t.Error("what a caller made up is a label")
	}
	for _, name := range []string{"haft_calls_total{", "haft_failures_total{", "haft_requests_refused_total{"} {
		if n := strings.Count(got, name); n > 300 {
			t.Errorf("%d series of %s", n, name)
		}
	}
}

// keeping keeps spans also after it was shut down.
type keeping struct{ kept tracetest.SpanStubs }

// ExportSpans implements sdktrace.SpanExporter.
func (k *keeping) ExportSpans(_ context.Context, spans []sdktrace.ReadOnlySpan) error {
	k.kept = append(k.kept, tracetest.SpanStubsFromReadOnlySpans(spans)...)
	return nil
}

// Shutdown implements sdktrace.SpanExporter.
func (k *keeping) Shutdown(context.Context) error { return nil }

func TestSpans_continue_the_trace_and_carry_no_payload(t *testing.T) {
	spans := &keeping{}
	x, err := telemetry.Open(t.Context(), telemetry.Config{Exporter: spans})
	if err != nil {
		t.Fatal(err)
	}
	const trace = "0af7651916cd43dd8448eb211c80319c"
	call := haft.Call{ID: "c_1", Tool: "weather", Principal: haft.Principal{Org: "acme"},
		Args:  []byte(`{"city":"Oslo"}`),
		Trace: "00-" + trace + "-b7ad6b7169203331-01"}
	one(x, call, &haft.Result{Status: haft.StatusTimeout, Value: []byte(`"Oslo"`),
		Error: &haft.Failure{Kind: haft.FailTimeout, Message: "Oslo"}}, nil)
	if err := x.Close(context.WithoutCancel(t.Context())); err != nil {
		t.Fatal(err)
	}
	if len(spans.kept) != 1 {
		t.Fatalf("%d spans", len(spans.kept))
	}
	s := spans.kept[0]
	if got := s.SpanContext.TraceID().String(); got != trace {
		t.Errorf("the span is of trace %s, want %s", got, trace)
	}
	if text := fmt.Sprintf("%+v", s); strings.Contains(text, "Oslo") {
		t.Errorf("the span has a payload: %s", text)
	}
}

func TestSpans_of_turns(t *testing.T) {
	spans := &keeping{}
	x, err := telemetry.Open(t.Context(), telemetry.Config{Exporter: spans})
	if err != nil {
		t.Fatal(err)
	}
	turn := haft.Turn{ID: "run-1", Agent: "ag_1", Model: "claude", Principal: haft.Principal{Org: "acme", User: "ann"}}
	ctx, end := x.ObserveTurn(t.Context(), "invoke_agent", "", turn)
	within, endChat := x.ObserveTurn(ctx, "chat", "anthropic", turn)
	endChat(model.Usage{Input: 10, Output: 5, Cached: 3}, "calls", nil)
	_, endBroken := x.ObserveTurn(ctx, "chat", "anthropic", turn)
	endBroken(model.Usage{}, "", errors.New("a secret of the vendor"))
	_, endChat = x.ObserveTurn(ctx, "chat", "anthropic", turn)
	endChat(model.Usage{Input: 1, Output: 2, Cached: 1}, "end", nil)
	_, endBroken = x.ObserveTurn(ctx, "chat", "anthropic", turn)
	endBroken(model.Usage{}, "", fmt.Errorf("ask: %w", &model.Fault{Kind: model.RateLimited, Message: "secret"}))
	gone, cancel := context.WithCancel(ctx)
	_, endBroken = x.ObserveTurn(gone, "chat", "anthropic", turn)
	cancel()
	endBroken(model.Usage{}, "", errors.New("the user is gone"))
	_, call := x.Begin(ctx, haft.Call{ID: "c", Tool: "weather", Principal: turn.Principal})
	call.End(&haft.Result{Status: haft.StatusSuccess, Tool: "weather"}, nil)
	end(model.Usage{}, "model_error", nil)
	if err := x.Close(t.Context()); err != nil || within == ctx {
		t.Fatal(err)
	}
	var got []string
	root := ""
	for _, s := range spans.kept {
		if s.Name == "invoke_agent" {
			root = s.SpanContext.SpanID().String()
		}
		text := s.Name
		for _, a := range s.Attributes {
			text += " " + string(a.Key) + "=" + a.Value.Emit()
		}
		got = append(got, text+" "+s.Status.Description)
	}
	for _, s := range spans.kept {
		if s.Name != "invoke_agent" && s.Parent.SpanID().String() != root {
			t.Errorf("%s is not below the turn", s.Name)
		}
	}
	all := strings.Join(got, "\n")
	for _, want := range []string{"chat claude gen_ai.operation.name=chat", "gen_ai.request.model=claude",
		"gen_ai.usage.input_tokens=10", "gen_ai.usage.output_tokens=5", "gen_ai.usage.cache_read.input_tokens=3",
		`gen_ai.response.finish_reasons=["calls"]`, "error.type=internal", "error.type=rate_limited",
		"error.type=cancelled",
		`gen_ai.usage.input_tokens=11 gen_ai.usage.output_tokens=7 gen_ai.usage.cache_read.input_tokens=4 gen_ai.response.finish_reasons=["model_error"] error.type=model_error`,
		"invoke_agent gen_ai.operation.name=invoke_agent",
		"gen_ai.agent.id=ag_1", "gen_ai.provider.name=anthropic", "gen_ai.operation.name=execute_tool"} {
		if !strings.Contains(all, want) {
			t.Errorf("the spans lack %s:\n%s", want, all)
		}
	}
	if strings.Contains(all, "secret") || strings.Contains(all, "ann") || len(got) != 7 {
		t.Errorf("%d spans:\n%s", len(got), all)
	}
}

// A conversation is that of one user with one agent. Nothing of a turn that ended well is an error.
func TestSpans_of_conversations(t *testing.T) {
	spans := &keeping{}
	x, err := telemetry.Open(t.Context(), telemetry.Config{Exporter: spans})
	if err != nil {
		t.Fatal(err)
	}
	for i, p := range []haft.Principal{{Org: "a", User: "ann"}, {Org: "a", User: "ann"}, {Org: "a", User: "bob"},
		{Org: "b", User: "ann"}, {Org: "a", User: "ann"}} {
		x.SetKey([]byte{byte(i / 4)}) // the last one has another key
		_, end := x.ObserveTurn(t.Context(), "invoke_agent", "", haft.Turn{Agent: "ag_1", Principal: p})
		end(model.Usage{Input: 3}, "max_steps", nil)
	}
	if err := x.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	var ids []string
	for _, s := range spans.kept {
		for _, a := range s.Attributes {
			switch {
			case a.Key == "gen_ai.conversation.id":
				ids = append(ids, a.Value.AsString())
			case a.Key == "error.type", a.Key == "gen_ai.usage.input_tokens" && a.Value.AsInt64() != 3:
				t.Errorf("%s is %s", a.Key, a.Value.Emit())
			}
		}
	}
	if len(ids) != 5 || ids[0] != ids[1] || ids[0] == ids[2] || ids[0] == ids[3] || ids[0] == ids[4] {
		t.Errorf("the conversations are %q", ids)
	}
}
