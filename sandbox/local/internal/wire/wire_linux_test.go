package wire_test

import (
	"encoding/binary"
	"errors"
	"io"
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"haft/sandbox/local/internal/wire"
)

func TestConn_carries_large_messages_and_descriptors(t *testing.T) {
	near, far, err := wire.Pair()
	if err != nil {
		t.Fatal(err)
	}
	defer near.Close()
	other := wire.New(far)
	defer other.Close()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	sent := strings.Repeat("x", 3<<20)
	failed := make(chan error, 1)
	go func() { failed <- near.Send(sent, int(w.Fd())) }()
	var got string
	fds, err := other.Recv(&got)
	if err != nil || got != sent || len(fds) != 1 {
		t.Fatalf("Recv = %d bytes, %v, %v", len(got), fds, err)
	}
	if err := <-failed; err != nil {
		t.Fatal(err)
	}
	if flags, err := unix.FcntlInt(uintptr(fds[0]), unix.F_GETFD, 0); err != nil || flags&unix.FD_CLOEXEC == 0 {
		t.Errorf("the descriptor would be inherited: %d, %v", flags, err)
	}
	_ = w.Close()
	if _, err := unix.Write(fds[0], []byte("through")); err != nil {
		t.Error(err)
	}
	wire.CloseAll(fds)
	if b, err := io.ReadAll(r); err != nil || string(b) != "through" {
		t.Errorf("read %q, %v", b, err)
	}
}

func TestConn_says_when_the_other_side_is_gone(t *testing.T) {
	near, far, err := wire.Pair()
	if err != nil {
		t.Fatal(err)
	}
	defer near.Close()
	_ = far.Close()
	var v any
	if _, err := near.Recv(&v); !errors.Is(err, io.EOF) {
		t.Errorf("Recv = %v, want EOF", err)
	}
	if err := near.Send(1); !errors.Is(err, unix.EPIPE) {
		t.Errorf("Send = %v, want EPIPE", err)
	}
}

// FuzzConn_Recv feeds what no honest side would send: an error, never a panic or
// a descriptor that stays open.
func FuzzConn_Recv(f *testing.F) {
	f.Add([]byte{})
	f.Add([]byte{1, 0, 0})
	f.Add([]byte{2, 0, 0, 0, '{', '}'})
	f.Add([]byte{0xff, 0xff, 0xff, 0xff, 'x'})
	f.Add(append(binary.LittleEndian.AppendUint32(nil, 9), "not JSON!"...))
	f.Fuzz(func(t *testing.T, b []byte) {
		near, far, err := wire.Pair()
		if err != nil {
			t.Skip(err)
		}
		defer near.Close()
		if len(b) > 64<<10 {
			b = b[:64<<10]
		}
		if _, err := far.Write(b); err != nil {
			t.Fatal(err)
		}
		_ = far.Close()
		for range 10000 {
			var v map[string]any
			if _, err := near.Recv(&v); err != nil {
				return
			}
		}
	})
}
