package mcpserver

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// Run speaks to one client over a pair of streams, as over stdio, until in ends or ctx
// does. What the client waits for is cancelled then.
func (s *Server) Run(ctx context.Context, who Caller, in io.Reader, out io.Writer) error {
	v, leave, err := s.enter(who)
	if err != nil {
		return err
	}
	defer leave()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stop := context.AfterFunc(s.leaving, cancel)
	defer stop()
	r, ok := in.(io.ReadCloser)
	if !ok {
		r = io.NopCloser(in)
	}
	err = v.mcp.Run(ctx, &mcp.IOTransport{Reader: r, Writer: keepOpen{out}, MaxLineLength: int(s.cfg.MaxMessage)})
	if ctx.Err() != nil || errors.Is(err, io.EOF) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("speak MCP: %w", err)
	}
	return nil
}

// keepOpen leaves closing to the owner.
type keepOpen struct{ io.Writer }

// Close implements [io.Closer].
func (keepOpen) Close() error { return nil }
