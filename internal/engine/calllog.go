package engine

import (
	"context"
	"log/slog"

	"haft/internal/outgoing"
)

// logOf returns the logger for what is said of one call: errors may quote what a tool
// or a server said, and so all texts are filtered and redacted like those of its result.
func (rd *redaction) logOf(ex *execution) *slog.Logger {
	return slog.New(outgoing.Handler{To: rd.cfg.Logger.Handler(), Clean: ex.cleanLog})
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
	return ex.env.Redactor.Text(text)
}
