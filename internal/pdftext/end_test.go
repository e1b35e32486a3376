package pdftext

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"

	"github.com/tetratelabs/wazero/api"

	"haft"
)

// hung is an instance whose library does not come back from closing the file while its WebAssembly runs.
type hung struct {
	api.Module
	ended, closed bool
}

func (h *hung) CloseWithExitCode(context.Context, uint32) error { h.ended = true; return nil }

type library struct{ of *hung }

func (l library) Close() error { l.of.closed = l.of.ended; return nil }

// What a file did to the parser runs no longer than the reading: an instance is stopped before it is asked to clean up.
func TestEnd_stops_the_parser_first(t *testing.T) {
	h := &hung{}
	if end(t.Context(), library{h}, h); !h.ended || !h.closed {
		t.Errorf("the parser was asked to close the file while it could run: ended %v, closed %v", h.ended, h.closed)
	}
	if end(t.Context(), library{h}, nil); !h.closed {
		t.Error("an instance that cannot be stopped is not closed")
	}
}

// An organisation with many files does not take all places: others are read beside its file that takes long.
func TestReader_serves_organisations_in_turn(t *testing.T) {
	r := &Reader{Interpret: true}
	leave, err := r.enter(t.Context(), "busy")
	if err != nil {
		t.Fatal(err)
	}
	left := errors.New("the caller has left")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(left)
	if _, err := r.Text(ctx, "busy", nil, 1); !errors.Is(err, left) || r.pool != nil {
		t.Errorf("a second file of the organisation was read: %v", err)
	}
	if _, err := r.Text(t.Context(), "other", nil, 1); haft.CodeOf(err) != haft.CodeInvalid {
		t.Errorf("a file of another organisation: %v", err)
	}
	done := make(chan error)
	go func() {
		_, err := r.Text(t.Context(), "busy", nil, 1)
		done <- err
	}()
	leave()
	if err := <-done; haft.CodeOf(err) != haft.CodeInvalid || len(r.busy) != 0 {
		t.Errorf("after its turn: %v; %d turns are left", err, len(r.busy))
	}
	if err := r.Close(); err != nil {
		t.Error(err)
	}
}

// Few files of an organisation wait in memory. What waits no more gives its place to others.
func TestReader_bounds_files_that_wait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &Reader{Interpret: true}
		leave, err := r.enter(t.Context(), "busy")
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 2*maxWaits)
		for range maxWaits {
			go func() { _, err := r.Text(ctx, "busy", nil, 1); ended <- err }()
		}
		synctest.Wait()
		for range maxWaits {
			if _, err := r.enter(t.Context(), "busy"); haft.CodeOf(err) != haft.CodeRateLimited {
				t.Fatalf("one more that waits: %v", err)
			}
		}
		other, err := r.enter(t.Context(), "other")
		if err != nil {
			t.Fatal(err)
		}
		other()
		cancel()
		for range maxWaits {
			if err := <-ended; !errors.Is(err, context.Canceled) {
				t.Errorf("what was cancelled: %v", err)
			}
		}
		go func() {
			again, err := r.enter(t.Context(), "busy")
			if err == nil {
				again()
			}
			ended <- err
		}()
		synctest.Wait()
		leave()
		if err := <-ended; err != nil || len(r.waits)+len(r.busy) != 0 {
			t.Errorf("after all: %v; %v wait", err, r.waits)
		}
	})
}
