package eventstream_test

import (
	"context"
	"errors"
	"iter"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"

	"haft"
	"haft/internal/eventstream"
)

func TestPreferred(t *testing.T) {
	for accept, want := range map[string]bool{
		"": false, "*/*": false, "application/json": false, "text/event-stream": true, "Text/Event-Stream": true,
		"text/event-stream, application/json":         false, // as it cannot be known, it is what all clients can read
		"application/json, text/event-stream;q=0.9":   false,
		"application/json;q=0.5, text/event-stream":   true,
		"text/event-stream;q=0":                       false,
		"text/event-stream;q=x":                       false,
		"text/html, text/event-stream;q=0.1, */*":     true,
		"text/event-streams":                          false,
		";;, ,text/event-stream":                      true,
		"text/event-stream; charset=utf-8, text/html": true,
	} {
		if got := eventstream.Preferred(accept); got != want {
			t.Errorf("%q: %v", accept, got)
		}
	}
}

// numbers yields some numbers, then waits so long, and fails.
func numbers(wait time.Duration, fail error, list ...int) func(context.Context) iter.Seq2[int, error] {
	return func(ctx context.Context) iter.Seq2[int, error] {
		return func(yield func(int, error) bool) {
			for _, n := range list {
				if !yield(n, nil) {
					return
				}
			}
			select {
			case <-time.After(wait):
			case <-ctx.Done():
				return
			}
			if fail != nil {
				yield(0, fail)
			}
		}
	}
}

// label names even numbers; others are not sent.
func label(n int) (int64, string) {
	if n%2 == 0 {
		return int64(n), "even"
	}
	return int64(n), ""
}

func TestFollow(t *testing.T) {
	const begin = "retry: 1000\n\n"
	broken := errors.New("broken")
	for name, tt := range map[string]struct {
		items func(context.Context) iter.Seq2[int, error]
		want  string
		err   error
	}{
		"to its end": {numbers(0, nil, 2, 4),
			begin + "id: 2\nevent: even\ndata: 2\n\nid: 4\nevent: even\ndata: 4\n\n", nil},
		"a silent one beats": {numbers(2500*time.Millisecond, nil, 1),
			begin + ": heartbeat\nid: 1\n\n: heartbeat\nid: 1\n\n", nil},
		"nothing":                {numbers(0, nil), "", nil},
		"one that fails":         {numbers(0, broken, 2), begin + "id: 2\nevent: even\ndata: 2\n\n", broken},
		"one that fails at once": {numbers(0, broken), "", broken},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := httptest.NewRecorder()
				out := eventstream.NewSSE(w, label)
				err := eventstream.Follow(t.Context(), tt.items, 0, time.Second, label, out)
				if !errors.Is(err, tt.err) || w.Body.String() != tt.want || out.Begun() != (tt.want != "") {
					t.Errorf("%q, %v", w.Body, err)
				}
			})
		})
	}
}

// What is followed has ended when Follow returns, also if the reader leaves.
func TestFollow_leaves_nothing_behind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		ended := false
		err := eventstream.Follow(ctx, func(ctx context.Context) iter.Seq2[int, error] {
			return func(func(int, error) bool) {
				<-ctx.Done()
				<-time.After(time.Second) // that of the test, which passes at once
				ended = true
			}
		}, 0, time.Minute, label, eventstream.NewSSE(httptest.NewRecorder(), label))
		if err != nil || !ended {
			t.Errorf("%v, ended: %v", err, ended)
		}
	})
}

func TestFail_says_no_more_than_is_for_the_reader(t *testing.T) {
	w := httptest.NewRecorder()
	out := eventstream.NewSSE(w, label)
	out.Fail(&haft.Error{Code: haft.CodeDenied, Message: "no", Err: errors.New("secret")})
	const want = "retry: 1000\n\nevent: error\ndata: {\"type\":\"error\",\"code\":\"denied\",\"message\":\"no\"}\n\n"
	if w.Body.String() != want || !w.Flushed {
		t.Errorf("%q", w.Body)
	}
}
