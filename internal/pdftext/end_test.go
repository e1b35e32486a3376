package pdftext

import (
	"context"
	"testing"

	"github.com/tetratelabs/wazero/api"
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
		t.Errorf("the parser was asked to close the file while it could run: %+v", h)
	}
	if end(t.Context(), library{h}, nil); !h.closed {
		t.Error("an instance that cannot be stopped is not closed")
	}
}
