package server

import (
	"cmp"
	"context"
	"encoding/json"
	"net/http"
	"strconv"
	"time"

	"github.com/coder/websocket"

	"haft"
	"haft/internal/eventstream"
)

// The codes with which WebSockets are closed, from the range for applications.
const (
	closeRetry           websocket.StatusCode = 4503 // reconnect after the last cursor
	closeEventsGone      websocket.StatusCode = 4409 // events are no longer kept
	closeUnauthenticated websocket.StatusCode = 4401 // the credential is not good any more
	closeDenied          websocket.StatusCode = 4403 // it is not for this any more
	closeFault           websocket.StatusCode = 4500
)

// closeCodes are the codes for errors; others have closeFault.
var closeCodes = map[haft.Code]websocket.StatusCode{
	haft.CodeUnavailable: closeRetry, haft.CodeRateLimited: closeRetry, haft.CodeConflict: closeEventsGone,
	haft.CodeUnauthenticated: closeUnauthenticated, haft.CodeDenied: closeDenied,
}

// socketSink sends events as WebSocket messages.
type socketSink struct {
	ctx   context.Context // of the stream
	conn  *websocket.Conn
	limit time.Duration
}

// write writes one message within the time that a reader has.
func (o *socketSink) write(raw []byte) error {
	ctx, cancel := context.WithTimeout(o.ctx, o.limit)
	defer cancel()
	return o.conn.Write(ctx, websocket.MessageText, raw)
}

// Send implements [eventstream.Sink].
func (o *socketSink) Send(e haft.Event) error {
	raw, err := json.Marshal(e)
	if err != nil {
		return err
	}
	return o.write(raw)
}

// Flush implements [eventstream.Sink]: messages are sent at once.
func (o *socketSink) Flush() error { return nil }

// Beat implements [eventstream.Sink].
func (o *socketSink) Beat(cursor int64) error {
	return o.write([]byte(`{"type":"heartbeat","cursor":` + strconv.FormatInt(max(cursor, 0), 10) + `}`))
}

// socket streams events over a WebSocket. Readers send nothing.
func (h eventHandlers) socket(ctx context.Context, w http.ResponseWriter, r *http.Request, who Identity, in *watch,
	after int64) {
	conn, err := websocket.Accept(w, r, &websocket.AcceptOptions{
		InsecureSkipVerify: true, // guard has checked Origin
		CompressionMode:    websocket.CompressionDisabled,
	})
	if err != nil {
		return // it has been answered
	}
	defer conn.CloseNow() //nolint:errcheck // it is closed on all paths that matter
	conn.SetReadLimit(4 << 10)
	// The reading side lives as long as the connection. If it ended with the stream or the
	// credential, the reader would not get the reason.
	base := r.Context()
	if l := openRequestOf(base); l != nil {
		base = l.base
	}
	gone := conn.CloseRead(base) // ends when the reader leaves or sends a message
	life, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(gone, func() { cancel(context.Canceled) })()
	// A message that the reader does not take must not outlive the credential.
	writing, cut := context.WithCancel(context.WithoutCancel(ctx))
	defer cut()
	defer context.AfterFunc(life, func() { time.AfterFunc(abortWrite, cut) })()
	out := &socketSink{writing, conn, h.writeTimeout}
	err = h.follow(life, who, in, after, out)
	if gone.Err() != nil {
		return // the reader has left
	}
	h.errors.logStreamEnd(r, err)
	out.ctx, out.limit = context.WithoutCancel(ctx), min(out.limit, abortWrite)
	if err := out.write(eventstream.EncodeFault(err)); err != nil {
		return // it does not read: that is why
	}
	code := cmp.Or(closeCodes[haft.CodeOf(err)], closeFault)
	_ = conn.Close(code, haft.MessageOf(err)) // fails if the reader is gone
}
