package sandbox_test

import (
	"bytes"
	"errors"
	"io"
	"os"
	"testing"
	"time"

	"haft/sandbox"
)

// What was written before the deadline is read after it, up to the end if there is one.
func TestPipe_reads_what_is_there_after_the_deadline(t *testing.T) {
	for _, ended := range []bool{true, false} {
		r, w, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		defer r.Close()
		defer w.Close()
		if _, err := w.WriteString("an answer"); err != nil {
			t.Fatal(err)
		}
		want := os.ErrDeadlineExceeded
		if ended {
			want = nil
			if err := w.Close(); err != nil {
				t.Fatal(err)
			}
		}
		if err := r.SetReadDeadline(time.Unix(1, 0)); err != nil {
			t.Fatal(err)
		}
		if got, err := io.ReadAll(sandbox.NewPipe(r)); string(got) != "an answer" || !errors.Is(err, want) {
			t.Errorf("ended %v: got %q, %v", ended, got, err)
		}
	}
}

// A process that goes on writing is not read without end.
func TestPipe_ends_after_the_deadline(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for piece := bytes.Repeat([]byte("x"), 4096); ; {
			if _, err := w.Write(piece); err != nil {
				return
			}
		}
	}()
	if err := r.SetReadDeadline(time.Unix(1, 0)); err != nil {
		t.Fatal(err)
	}
	if _, err := io.Copy(io.Discard, sandbox.NewPipe(r)); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("it ends with %v", err)
	}
	if err := errors.Join(r.Close(), w.Close()); err != nil {
		t.Error(err)
	}
	<-done
}
