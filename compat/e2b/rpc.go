package e2b

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"haft"
	"haft/internal/bounds"
	"haft/internal/connectframe"
)

// The bounds on a message of a client, and how long one may take to arrive.
const (
	maxMessage = 2 << 20
	readTime   = 30 * time.Second
	// inputTime is how long a client that sends input may be silent.
	inputTime = 5 * time.Minute
)

// readJSON reads the body of a request into v. No body is an empty object.
func readJSON(w http.ResponseWriter, r *http.Request, v any) error {
	deadline(w, readTime)
	raw, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxMessage))
	deadline(w, 0)
	if err != nil {
		return unread(err)
	}
	return decode(raw, v)
}

// deadline bounds how long the next reads of the body may take; 0 is no bound. A recorder in a test
// has none.
func deadline(w http.ResponseWriter, d time.Duration) {
	at := time.Time{}
	if d > 0 {
		at = time.Now().Add(d)
	}
	_ = http.NewResponseController(w).SetReadDeadline(at)
}

// unread says why a body could not be read.
func unread(err error) error {
	if _, ok := errors.AsType[*http.MaxBytesError](err); ok {
		return &fault{code: "resource_exhausted", status: http.StatusRequestEntityTooLarge,
			message: "the body is too large"}
	}
	if _, ok := errors.AsType[*haft.Error](err); ok {
		return err
	}
	return &fault{code: "invalid_argument", status: http.StatusRequestTimeout,
		message: "the body did not arrive in time, or not in whole"}
}

// decode reads a message.
func decode(raw []byte, v any) error {
	if len(strings.TrimSpace(string(raw))) == 0 {
		return nil
	}
	if err := bounds.Check(raw, bounds.Default(), nil); err != nil {
		return err
	}
	if err := json.Unmarshal(raw, v); err != nil {
		return &haft.Error{Code: haft.CodeInvalid, Message: "the body is not the JSON that this operation takes",
			Err: err}
	}
	return nil
}

// unary registers an operation of the Connect protocol with one message each way.
func unary[In any](a *API, name string, act haft.Action,
	do func(ctx context.Context, p haft.Principal, s *sandbox, in In) (any, error)) {
	a.inside.HandleFunc("POST /"+name, func(w http.ResponseWriter, r *http.Request) {
		var in In
		var out any
		s := sandboxOf(r.Context())
		err := checkType(r, "application/json")
		if err == nil {
			err = readJSON(w, r, &in)
		}
		if err == nil {
			err = checkUser(basicUser(r))
		}
		if err == nil {
			var p haft.Principal
			if p, err = a.principal(r.Context(), act); err == nil {
				out, err = do(r.Context(), p, s, in)
				err = a.goneOr(r.Context(), p, s, err)
			}
		}
		if err != nil {
			f := faultOf(err)
			writeJSON(w, f.status, map[string]string{"code": f.code, "message": f.message})
			return
		}
		writeJSON(w, http.StatusOK, out)
	})
}

// checkType refuses messages in another form than JSON.
func checkType(r *http.Request, want string) error {
	if kind, _, _ := strings.Cut(r.Header.Get("Content-Type"), ";"); strings.TrimSpace(kind) != want {
		return &fault{code: "invalid_argument", status: http.StatusUnsupportedMediaType,
			message: "this operation takes " + want}
	}
	return nil
}

// goneOr returns why an operation failed: that the sandbox has ended, if it has.
func (a *API) goneOr(ctx context.Context, p haft.Principal, s *sandbox, err error) error {
	switch haft.CodeOf(err) {
	case haft.CodeNotFound, haft.CodeUnavailable, haft.CodeInvalid: // a call in an ended session is invalid
	default:
		return err
	}
	if alive, listed := a.alive(ctx, p, s); listed == nil && !alive {
		return errGone
	}
	return err
}

// A stream is the answer of an operation that sends many messages.
type stream struct {
	w     http.ResponseWriter
	begun bool
}

// send sends one message.
func (s *stream) send(flag byte, message any) error {
	if !s.begun {
		s.begun = true
		s.w.Header().Set("Content-Type", "application/connect+json")
		s.w.WriteHeader(http.StatusOK)
	}
	frame, err := connectframe.Append(nil, flag, message)
	if err != nil {
		return err
	}
	if _, err := s.w.Write(frame); err != nil {
		return err
	}
	return http.NewResponseController(s.w).Flush()
}

// end sends the last message, with why the operation failed, if it did.
func (s *stream) end(err error) {
	last := map[string]any{}
	if err != nil {
		f := faultOf(err)
		last["error"] = map[string]string{"code": f.code, "message": f.message}
	}
	_ = s.send(connectframe.End, last) // a client that is gone needs no answer
}

// readFrame reads one message of a stream, which begins within a time. It returns [io.EOF] at the end.
func readFrame(w http.ResponseWriter, body io.Reader, within time.Duration, v any) error {
	deadline(w, within)
	defer deadline(w, 0)
	flag, size, err := connectframe.Head(body, maxMessage)
	switch {
	case errors.Is(err, io.EOF):
		return io.EOF
	case errors.Is(err, connectframe.ErrCompressed):
		return &fault{code: "unimplemented", status: http.StatusUnsupportedMediaType,
			message: "nothing is compressed here"}
	case errors.Is(err, connectframe.ErrTooLarge):
		return &fault{code: "resource_exhausted", status: http.StatusRequestEntityTooLarge,
			message: "a message has at most " + strconv.Itoa(maxMessage) + " bytes"}
	case err != nil:
		return unread(err)
	}
	deadline(w, readTime)
	raw, err := connectframe.Body(body, size)
	if err != nil {
		return unread(err)
	}
	if flag&connectframe.End != 0 {
		return io.EOF
	}
	return decode(raw, v)
}

// drain reads the end of a body: only after it is it noticed that the client leaves.
func drain(w http.ResponseWriter, body io.Reader) error {
	deadline(w, readTime)
	defer deadline(w, 0)
	if n, err := io.Copy(io.Discard, io.LimitReader(body, 1)); err != nil || n > 0 {
		return &fault{code: "invalid_argument", status: http.StatusBadRequest, message: "there is one message too many"}
	}
	return nil
}

// streaming registers an operation of the Connect protocol with one message of the client and many
// answers. The context of do ends when the client's time does.
func streaming[In any](a *API, name string, act haft.Action,
	do func(ctx context.Context, p haft.Principal, s *sandbox, in In, r *http.Request, out *stream) error) {
	a.inside.HandleFunc("POST /"+name, func(w http.ResponseWriter, r *http.Request) {
		out := &stream{w: w}
		s := sandboxOf(r.Context())
		var in In
		err := checkType(r, "application/connect+json")
		if err != nil {
			faultOf(err).write(w, s.id)
			return
		}
		err = readFrame(w, r.Body, readTime, &in)
		if err == nil {
			err = drain(w, r.Body)
		}
		if err == nil {
			err = checkUser(basicUser(r))
		}
		if err == nil {
			var p haft.Principal
			if p, err = a.principal(r.Context(), act); err == nil {
				ctx, cancel := a.until(r, s, act)
				err = do(ctx, p, s, in, r, out)
				cancel()
				err = a.goneOr(r.Context(), p, s, err)
			}
		}
		out.end(err)
	})
}

// until returns a context that ends with the request, with the sandbox, and soon after the key of the
// request is good for the action no more.
func (a *API) until(r *http.Request, s *sandbox, act haft.Action) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(r.Context())
	stop := context.AfterFunc(s.ctx, func() { cancel(nil) })
	go func() {
		tick := time.NewTicker(a.recheckEvery)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
			case <-ctx.Done():
				return
			}
			_, err := a.principal(ctx, act)
			if c := haft.CodeOf(err); c == haft.CodeUnauthenticated || c == haft.CodeDenied {
				cancel(err)
			}
		}
	}()
	return ctx, func() { stop(); cancel(nil) }
}

// clientTime returns how long the client waits; 0 means that it does not say.
func clientTime(r *http.Request) time.Duration {
	ms, err := strconv.ParseInt(r.Header.Get("Connect-Timeout-Ms"), 10, 64)
	if err != nil || ms <= 0 || ms > int64(24*time.Hour/time.Millisecond) {
		return 0
	}
	return time.Duration(ms) * time.Millisecond
}

// keepalive returns how often a silent stream shows that it lives.
func keepalive(r *http.Request) time.Duration {
	n, err := strconv.Atoi(r.Header.Get("Keepalive-Ping-Interval"))
	if err != nil || n < 1 || n > 600 {
		n = 90
	}
	return time.Duration(n) * time.Second
}

// basicUser returns the user that a request names.
func basicUser(r *http.Request) string {
	name, _, _ := r.BasicAuth()
	return name
}

// checkUser refuses users that are not there. There is one user in a sandbox: both names are his.
func checkUser(name string) error {
	if name == "" || name == "user" || name == "root" {
		return nil
	}
	return &fault{code: "unauthenticated", status: http.StatusUnauthorized, message: "there is no such user"}
}
