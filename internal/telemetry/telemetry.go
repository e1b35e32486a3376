package telemetry

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	promotel "go.opentelemetry.io/contrib/bridges/prometheus"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/exporters/otlp/otlpmetric/otlpmetrichttp"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/propagation"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"

	"haft"
	"haft/internal/engine"
)

// Config says what is measured. The zero value counts and traces nothing.
type Config struct {
	// Traces sends spans by OTLP over HTTP, to where the standard variables of
	// OpenTelemetry say.
	Traces bool
	// Metrics sends the measures the same way, besides what [Telemetry.Handler] shows.
	Metrics bool
	// Exporter gets the spans instead, if it is not nil.
	Exporter sdktrace.SpanExporter
	// Stats is asked when somebody looks at the measures. Nil means nobody is.
	Stats func() engine.Stats
	// Series bounds the pairs of organisation and tool that are counted apart, besides
	// a few of every organisation; 0 means 2,000.
	Series int
}

// Telemetry is an [engine.Observer]. It is safe for concurrent use.
//
// Lifecycle: Open, then Begin as often as calls come, then Close.
type Telemetry struct {
	registry *prometheus.Registry
	tracer   trace.Tracer
	provider *sdktrace.TracerProvider // nil if nothing is traced
	meters   *sdkmetric.MeterProvider // nil if measures are sent nowhere
	names    *names
	key      atomic.Pointer[[]byte] // of names of conversations
	kinds    *set                   // of failures, which are constants of ours
	reasons  *set                   // why requests were turned away

	calls    *prometheus.CounterVec
	refused  *prometheus.CounterVec
	seconds  *prometheus.HistogramVec
	stages   *prometheus.HistogramVec
	cpu, rss *prometheus.CounterVec
	network  *prometheus.CounterVec
	turned   *prometheus.CounterVec
}

var _ engine.Observer = (*Telemetry)(nil)

// Open makes what measures and traces.
func Open(ctx context.Context, cfg Config) (*Telemetry, error) {
	if cfg.Series == 0 {
		cfg.Series = 2000
	}
	t := &Telemetry{registry: prometheus.NewRegistry(), names: newNames(cfg.Series), kinds: newSet(maxKinds),
		reasons: newSet(maxKinds), tracer: noop.NewTracerProvider().Tracer("haft")}
	t.SetKey([]byte(rand.Text()))
	t.register(cfg)
	if !cfg.Traces && !cfg.Metrics && cfg.Exporter == nil {
		return t, nil
	}
	res, err := resource.New(ctx, resource.WithFromEnv(), resource.WithTelemetrySDK(),
		resource.WithAttributes(attribute.String("service.name", "haft")))
	if err != nil && !errors.Is(err, resource.ErrPartialResource) {
		return nil, fmt.Errorf("describe this process for spans: %w", err)
	}
	if cfg.Metrics {
		out, err := otlpmetrichttp.New(ctx)
		if err != nil {
			return nil, fmt.Errorf("open the exporter of measures: %w", err)
		}
		// They are counted once, for Prometheus, and read from there.
		from := promotel.NewMetricProducer(promotel.WithGatherer(t.registry))
		t.meters = sdkmetric.NewMeterProvider(sdkmetric.WithReader(
			sdkmetric.NewPeriodicReader(out, sdkmetric.WithProducer(from))), sdkmetric.WithResource(res))
	}
	exporter := cfg.Exporter
	if exporter == nil && cfg.Traces {
		if exporter, err = otlptracehttp.New(ctx); err != nil {
			return nil, errors.Join(fmt.Errorf("open the exporter of spans: %w", err), t.Close(ctx))
		}
	}
	if exporter == nil {
		return t, nil
	}
	t.provider = sdktrace.NewTracerProvider(sdktrace.WithBatcher(exporter), sdktrace.WithResource(res))
	t.tracer = t.provider.Tracer("haft")
	return t, nil
}

// register makes the measures.
func (t *Telemetry) register(cfg Config) {
	by := []string{"org", "tool", "status"}
	t.calls = prometheus.NewCounterVec(prometheus.CounterOpts{Name: "haft_calls_total",
		Help: "Calls that ended, by organisation, tool and outcome."}, by)
	t.refused = prometheus.NewCounterVec(prometheus.CounterOpts{Name: "haft_failures_total",
		Help: "Calls without a value, by organisation, kind of failure and severity."},
		[]string{"org", "kind", "severity"})
	t.seconds = prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "haft_call_seconds",
		Help:    "How long calls took from entry to exit, by tool.",
		Buckets: []float64{.0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 300}},
		[]string{"tool"})
	t.stages = prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "haft_stage_seconds",
		Help:    "How long each stage of the pipeline took.",
		Buckets: []float64{.00001, .0001, .001, .01, .1, 1, 10, 60}}, []string{"stage"})
	t.cpu = prometheus.NewCounterVec(prometheus.CounterOpts{Name: "haft_cpu_seconds_total",
		Help: "Processor time of the runs whose time is known, by organisation and tool."}, []string{"org", "tool"})
	t.rss = prometheus.NewCounterVec(prometheus.CounterOpts{Name: "haft_memory_peak_bytes_total",
		Help: "Sum of the peak memory of the runs whose memory is known, by organisation and tool."},
		[]string{"org", "tool"})
	t.network = prometheus.NewCounterVec(prometheus.CounterOpts{Name: "haft_network_seconds_total",
		Help: "How long connections of runs through the egress proxy took, by organisation and tool."},
		[]string{"org", "tool"})
	t.turned = prometheus.NewCounterVec(prometheus.CounterOpts{Name: "haft_requests_refused_total",
		Help: "Requests that were turned away before anything was done, by why and, of credentials, the reason."},
		[]string{"why", "reason"})
	t.registry.MustRegister(t.calls, t.refused, t.seconds, t.stages, t.cpu, t.rss, t.network, t.turned,
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	if cfg.Stats != nil {
		t.registerStats(cfg.Stats)
	}
}

// registerStats makes the measures of what the engine counts itself.
func (t *Telemetry) registerStats(stats func() engine.Stats) {
	gauge := func(name, help string, value func(engine.Stats) float64) {
		t.registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help},
			func() float64 { return value(stats()) }))
	}
	counter := func(name, help string, value func(engine.Stats) float64) {
		t.registry.MustRegister(prometheus.NewCounterFunc(prometheus.CounterOpts{Name: name, Help: help},
			func() float64 { return value(stats()) }))
	}
	gauge("haft_calls_running", "Calls on their way in this process.",
		func(s engine.Stats) float64 { return float64(s.Running) })
	gauge("haft_calls_waiting", "Calls that wait for their turn.",
		func(s engine.Stats) float64 { return float64(s.Limits.Waiting) })
	gauge("haft_watchers", "Watchers of events.", func(s engine.Stats) float64 { return float64(s.Events.Watchers) })
	flag := func(on bool) float64 {
		if on {
			return 1
		}
		return 0
	}
	gauge("haft_audit_unsigned", "1 if the audit log could not be signed.",
		func(s engine.Stats) float64 { return flag(s.Unsigned) })
	gauge("haft_audit_sink_failing", "1 if the external sink of the audit log does not take checkpoints.",
		func(s engine.Stats) float64 { return flag(s.SinkFailing) })
	gauge("haft_audit_sink_pending", "Checkpoints that the external sink of the audit log has yet to get.",
		func(s engine.Stats) float64 { return float64(s.SinkPending) })
	counter("haft_events_total", "Events that were kept and handed out.",
		func(s engine.Stats) float64 { return float64(s.Events.Published) })
	counter("haft_events_refused_total", "Events that could not be kept.",
		func(s engine.Stats) float64 { return float64(s.Events.Refused) })
	counter("haft_watchers_dropped_total", "Watchers that were too slow.",
		func(s engine.Stats) float64 { return float64(s.Events.Dropped) })
}

// maxKinds is more than any list of ours that a label comes from has.
const maxKinds = 64

// Refused counts a request that was turned away. Both are of closed sets.
func (t *Telemetry) Refused(why, reason string) {
	t.turned.WithLabelValues(t.reasons.of(why), t.reasons.of(reason)).Inc()
}

// Handler serves the measures to Prometheus.
func (t *Telemetry) Handler() http.Handler {
	return promhttp.HandlerFor(t.registry, promhttp.HandlerOpts{Registry: t.registry, MaxRequestsInFlight: 4,
		Timeout: 10 * time.Second})
}

// Close sends what is left.
func (t *Telemetry) Close(ctx context.Context) error {
	var errs []error
	if t.provider != nil {
		if err := t.provider.Shutdown(ctx); err != nil {
			errs = append(errs, fmt.Errorf("send the last spans: %w", err))
		}
	}
	if t.meters != nil {
		if err := t.meters.Shutdown(ctx); err != nil {
			errs = append(errs, fmt.Errorf("send the last measures: %w", err))
		}
	}
	return errors.Join(errs...)
}

// Begin implements [engine.Observer].
func (t *Telemetry) Begin(ctx context.Context, c haft.Call) (context.Context, engine.Span) {
	if c.Trace != "" {
		carrier := propagation.MapCarrier{"traceparent": c.Trace}
		ctx = propagation.TraceContext{}.Extract(ctx, carrier)
	}
	ctx, span := t.tracer.Start(ctx, "haft.call", trace.WithSpanKind(trace.SpanKindInternal), trace.WithAttributes(
		attribute.String("gen_ai.operation.name", "execute_tool"), attribute.String("haft.org", c.Principal.Org)))
	return ctx, &watched{t: t, call: c, span: span, began: time.Now()}
}

// watched is one call. It implements [engine.Span].
type watched struct {
	t     *Telemetry
	tool  string // its name, once it was found
	call  haft.Call
	span  trace.Span
	began time.Time
}

// Tool implements [engine.Span].
func (w *watched) Tool(name string) { w.tool = name }

// Stage implements [engine.Span].
func (w *watched) Stage(name string, took time.Duration) {
	w.t.stages.WithLabelValues(name).Observe(took.Seconds())
	if w.span.IsRecording() {
		w.span.AddEvent(name, trace.WithAttributes(attribute.Int64("haft.took_us", took.Microseconds())))
	}
}

// used adds up what a run used. A tool whose figures are unknown has no series: one that
// stays at 0 would say that it needs nothing.
func (t *Telemetry) used(org, tool string, u haft.Usage) {
	cpu, rss := u.Measured()
	if cpu != nil {
		t.cpu.WithLabelValues(org, tool).Add(cpu.D().Seconds())
	}
	if rss != nil {
		t.rss.WithLabelValues(org, tool).Add(float64(*rss))
	}
	if u.Network > 0 {
		t.network.WithLabelValues(org, tool).Add(u.Network.D().Seconds())
	}
}

// End implements [engine.Span].
func (w *watched) End(res *haft.Result, err error) {
	defer w.span.End()
	// A series is made only for a tool that was found, so that strangers cannot use them up.
	org, tool := w.t.names.pair(w.call.Principal.Org, w.tool)
	status := "none"
	if res != nil {
		// The name is that of the result, which was redacted: when a call begins,
		// nobody knows yet what in it is a secret.
		w.span.SetAttributes(attribute.String("gen_ai.tool.name", res.Tool),
			attribute.String("gen_ai.tool.call.id", string(w.call.ID)))
		status = one(haft.Statuses(), res.Status)
		w.t.used(org, tool, res.Usage)
		w.span.SetAttributes(attribute.String("haft.status", status),
			attribute.String("haft.isolation", string(res.Sandbox.Isolation.Level)),
			attribute.Int("haft.tries", res.Tries))
	}
	w.t.calls.WithLabelValues(org, tool, status).Inc()
	w.t.seconds.WithLabelValues(tool).Observe(time.Since(w.began).Seconds())
	switch {
	case err != nil:
		w.span.SetStatus(codes.Error, string(haft.CodeOf(err)))
		w.t.refused.WithLabelValues(org, one(haft.Codes(), haft.CodeOf(err)), "").Inc()
	case res.Error != nil:
		w.span.SetStatus(codes.Error, string(res.Error.Kind))
		w.t.refused.WithLabelValues(org, w.t.kinds.of(string(res.Error.Kind)),
			one(haft.Severities(), res.Error.Severity)).Inc()
	}
}
