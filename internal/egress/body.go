package egress

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httputil"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
)

// requestBody is the body of an outgoing request. It asks the program to send the body when it
// is first read, and records whether all of it was read. Read is called by one goroutine of
// net/http, the other methods by others at any time.
type requestBody struct {
	body    io.ReadCloser
	expect  func() error // sends 100 Continue; nil if it need not be sent
	scanner *scanner     // nil if nothing is looked for
	ended   atomic.Bool
	closed  atomic.Bool
	turn    chan struct{} // held by a Read

	mu    sync.Mutex
	final bool // the answer is being sent: 100 Continue would be inside it
}

// Read implements [io.Reader].
func (b *requestBody) Read(p []byte) (int, error) {
	b.turn <- struct{}{}
	defer func() { <-b.turn }()
	if b.closed.Load() {
		return 0, http.ErrBodyReadAfterClose
	}
	if b.expect != nil {
		if err := b.sendContinue(); err != nil {
			return 0, err
		}
		b.expect = nil
	}
	n, err := b.body.Read(p)
	if err == io.EOF {
		b.ended.Store(true)
	}
	if b.scanner != nil && b.scanner.seen(p[:n]) {
		return 0, b.scanner.refusal.err()
	}
	return n, err
}

// sendContinue asks the program to send the body, unless it already has its answer.
func (b *requestBody) sendContinue() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.final {
		return http.ErrBodyReadAfterClose
	}
	return b.expect()
}

// answered says that the answer is about to be sent.
func (b *requestBody) answered() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.final = true
}

// Close keeps later reads away from the connection. It does not read the rest.
func (b *requestBody) Close() error {
	b.closed.Store(true)
	return nil
}

// isComplete reports whether all of the body was read, so that the next request can be
// read.
func (b *requestBody) isComplete() bool { return b.ended.Load() }

// endRequest closes the connection if the body was not read to its end. When it returns,
// no goroutine reads the body any more: net/http may do so for some time after it returned
// an answer or an error.
func (x *exchange) endRequest(b *requestBody) {
	if b.isComplete() {
		return
	}
	b.closed.Store(true)
	linger(x.client)
	x.client.Close()
	b.turn <- struct{}{}
}

// forward sends an allowed request and passes the answer on. It reports whether another
// request may follow.
func (x *exchange) forward(ctx context.Context, d Dest) bool {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	body := &requestBody{body: x.req.Body, turn: make(chan struct{}, 1)}
	body.ended.Store(x.req.ContentLength == 0)
	defer x.endRequest(body)
	if strings.EqualFold(x.req.Header.Get("Expect"), "100-continue") {
		body.expect = func() error {
			_, err := io.WriteString(x.conn, "HTTP/1.1 100 Continue\r\n\r\n")
			return err
		}
	}
	out := x.outgoing(ctx, d, body)
	asked := out
	var clean *cleaner
	if b := x.proxy.cfg.Broker; b != nil {
		if x.proxy.mocked() {
			asked = out.Clone(ctx)
		}
		put, err := b.insertSecrets(ctx, out, x.req.Header, d)
		if err != nil {
			x.close = x.close || !body.isComplete()
			return x.failed(err)
		}
		if x.track.Secrets = put; x.proxy.mocked() {
			b.nameSecrets(asked, put)
		}
		body.scanner = b.scanner(d)
		clean = b.cleaner(d)
	}
	stop := func() {}
	if body.isComplete() && upgradeOf(x.req.Header) == "" {
		stop = sync.OnceFunc(x.watchClient(cancel))
	}
	resp, err := x.send(asked, out, clean)
	body.answered()
	if err != nil {
		stop()
		x.close = x.close || !body.isComplete()
		if ctx.Err() != nil || errors.Is(err, ErrCut) {
			x.track.Outcome = OutcomeFailed
			return false
		}
		return x.failed(err)
	}
	defer resp.Body.Close()
	defer stop()
	// An answer before the end of the body: the program may never send the rest.
	x.close = x.close || !body.isComplete()
	x.track.Status = resp.StatusCode
	if resp.StatusCode == http.StatusSwitchingProtocols {
		x.upgraded(resp, clean)
		return false
	}
	if err := x.reply(resp, clean); err != nil {
		x.track.fail(err)
		return false
	}
	stop()
	return body.isComplete() && !x.close
}

// reply passes an answer on.
func (x *exchange) reply(resp *http.Response, clean *cleaner) error {
	var body io.Reader = resp.Body
	if clean != nil {
		var err error
		if body, err = clean.body(resp); err != nil {
			x.close = true
			x.failed(err)
			return err
		}
		body = clean.reader(body)
		clean.header(resp.Header)
		clean.header(resp.Trailer)
		resp.Status = "" // its words are the server's
		if resp.ContentLength > 0 && x.req.Method != http.MethodHead {
			resp.ContentLength = -1 // removing values may change it
		}
	}
	none := x.req.Method == http.MethodHead || resp.StatusCode == http.StatusNoContent ||
		resp.StatusCode == http.StatusNotModified
	chunked := !none && resp.ContentLength < 0 && x.req.ProtoAtLeast(1, 1)
	if !none && resp.ContentLength < 0 && !chunked {
		x.close = true
	}
	w := bufio.NewWriterSize(x.conn, 4<<10)
	x.writeHead(w, resp, chunked, none)
	if none {
		return w.Flush()
	}
	if err := w.Flush(); err != nil {
		return err
	}
	if !chunked {
		n, err := x.proxy.copy(x.conn, body, func() {})
		if err == nil && resp.ContentLength >= 0 && n != resp.ContentLength {
			err = io.ErrUnexpectedEOF
		}
		return err
	}
	if err := x.writeChunks(w, body); err != nil {
		return err
	}
	if clean != nil {
		clean.header(resp.Trailer)
	}
	fmt.Fprint(w, "0\r\n")
	if err := resp.Trailer.Write(w); err != nil {
		return err
	}
	fmt.Fprint(w, "\r\n")
	return w.Flush()
}

// writerFunc is a function that is a writer.
type writerFunc func([]byte) (int, error)

// Write implements [io.Writer].
func (f writerFunc) Write(b []byte) (int, error) { return f(b) }

// writeHead writes the head of an answer: that of the server, without the headers for the
// proxy.
func (x *exchange) writeHead(w io.Writer, resp *http.Response, chunked, none bool) {
	h := resp.Header
	length := h.Get("Content-Length")
	stripHops(h)
	h.Del("Content-Length")
	text := strings.TrimPrefix(strings.TrimPrefix(resp.Status, strconv.Itoa(resp.StatusCode)), " ")
	if text == "" {
		text = http.StatusText(resp.StatusCode)
	}
	fmt.Fprintf(w, "HTTP/1.1 %03d %s\r\n", resp.StatusCode, text)
	_ = h.Write(w) // a bufio.Writer: Flush returns the error
	switch {
	case chunked:
		fmt.Fprint(w, "Transfer-Encoding: chunked\r\n")
		if len(resp.Trailer) > 0 {
			names := slices.Sorted(maps.Keys(resp.Trailer))
			fmt.Fprintf(w, "Trailer: %s\r\n", strings.Join(names, ", "))
		}
	case none && length != "" && resp.StatusCode != http.StatusNoContent:
		fmt.Fprintf(w, "Content-Length: %s\r\n", length)
	case !none && resp.ContentLength >= 0:
		fmt.Fprintf(w, "Content-Length: %d\r\n", resp.ContentLength)
	}
	if x.close {
		fmt.Fprint(w, "Connection: close\r\n")
	}
	fmt.Fprint(w, "\r\n")
}

// writeChunks writes a body in chunks, each as soon as it comes.
func (x *exchange) writeChunks(w *bufio.Writer, body io.Reader) error {
	chunks := httputil.NewChunkedWriter(w)
	_, err := x.proxy.copy(writerFunc(func(b []byte) (int, error) {
		n, err := chunks.Write(b)
		if err == nil {
			err = w.Flush()
		}
		return n, err
	}), body, func() {})
	return err
}
