package outgoing

import (
	"context"
	"fmt"
	"log/slog"
)

// A Handler redacts texts on their way to a log.
type Handler struct {
	To    slog.Handler
	Clean func(string) string
}

// Enabled implements [slog.Handler].
func (h Handler) Enabled(ctx context.Context, l slog.Level) bool { return h.To.Enabled(ctx, l) }

// Handle implements [slog.Handler].
func (h Handler) Handle(ctx context.Context, r slog.Record) error {
	clean := slog.NewRecord(r.Time, r.Level, h.Clean(r.Message), r.PC)
	r.Attrs(func(a slog.Attr) bool {
		clean.AddAttrs(h.attr(a))
		return true
	})
	return h.To.Handle(ctx, clean)
}

// WithAttrs implements [slog.Handler].
func (h Handler) WithAttrs(attrs []slog.Attr) slog.Handler {
	clean := make([]slog.Attr, len(attrs))
	for i, a := range attrs {
		clean[i] = h.attr(a)
	}
	return Handler{h.To.WithAttrs(clean), h.Clean}
}

// WithGroup implements [slog.Handler].
func (h Handler) WithGroup(name string) slog.Handler {
	return Handler{h.To.WithGroup(name), h.Clean}
}

// attr redacts whatever may be text.
func (h Handler) attr(a slog.Attr) slog.Attr {
	switch v := a.Value.Resolve(); v.Kind() {
	case slog.KindString:
		return slog.String(a.Key, h.Clean(v.String()))
	case slog.KindAny:
		return slog.String(a.Key, h.Clean(fmt.Sprint(v.Any())))
	case slog.KindGroup:
		group := make([]any, 0, len(v.Group()))
		for _, g := range v.Group() {
			group = append(group, h.attr(g))
		}
		return slog.Group(a.Key, group...)
	}
	return a
}
