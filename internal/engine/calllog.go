package engine

import (
	"context"
	"fmt"
	"log/slog"
)

// logOf returns the logger for what is said of one call: errors may quote what a tool
// or a server said, and so all texts are filtered and redacted like those of its result.
func (rd *redaction) logOf(ex *execution) *slog.Logger {
	return slog.New(cleanHandler{rd.cfg.Logger.Handler(), ex.cleanLog})
}

// cleanLog returns a text as it may be logged.
func (ex *execution) cleanLog(text string) string {
	if screen := ex.outputScreen(); screen != nil {
		ctx, stop := context.WithTimeout(context.Background(), screenGrace) //nolint:forbidigo // of its own
		defer stop()
		out, err := screen.Text(ctx, "log", text)
		if err != nil || out.Refused {
			return withheld
		}
		text = out.Text
	}
	return ex.redactor.Text(text)
}

// cleanHandler redacts texts on their way to a log.
type cleanHandler struct {
	to    slog.Handler
	clean func(string) string
}

// Enabled implements [slog.Handler].
func (h cleanHandler) Enabled(ctx context.Context, l slog.Level) bool { return h.to.Enabled(ctx, l) }

// Handle implements [slog.Handler].
func (h cleanHandler) Handle(ctx context.Context, r slog.Record) error {
	clean := slog.NewRecord(r.Time, r.Level, h.clean(r.Message), r.PC)
	r.Attrs(func(a slog.Attr) bool {
		clean.AddAttrs(h.attr(a))
		return true
	})
	return h.to.Handle(ctx, clean)
}

// WithAttrs implements [slog.Handler].
func (h cleanHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	clean := make([]slog.Attr, len(attrs))
	for i, a := range attrs {
		clean[i] = h.attr(a)
	}
	return cleanHandler{h.to.WithAttrs(clean), h.clean}
}

// WithGroup implements [slog.Handler].
func (h cleanHandler) WithGroup(name string) slog.Handler {
	return cleanHandler{h.to.WithGroup(name), h.clean}
}

// attr redacts whatever may be text.
func (h cleanHandler) attr(a slog.Attr) slog.Attr {
	switch v := a.Value.Resolve(); v.Kind() {
	case slog.KindString:
		return slog.String(a.Key, h.clean(v.String()))
	case slog.KindAny:
		return slog.String(a.Key, h.clean(fmt.Sprint(v.Any())))
	case slog.KindGroup:
		group := make([]any, 0, len(v.Group()))
		for _, g := range v.Group() {
			group = append(group, h.attr(g))
		}
		return slog.Group(a.Key, group...)
	}
	return a
}
