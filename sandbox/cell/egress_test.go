package cell_test

import (
	"context"
	"io"
	"net"
	"testing"
	"testing/synctest"

	"haft/sandbox"
	"haft/sandbox/cell"
)

func TestCell_egress_is_that_of_the_call(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fake{}
		specs := make(chan sandbox.Spec, 8)
		plan := f.plan("a")
		plan.Reuse, plan.Spec.Network = true, sandbox.NetworkEgress
		run := plan.Run
		plan.Run = func(ctx context.Context, s sandbox.Spec) (sandbox.Exit, error) {
			specs <- s
			return run(ctx, s)
		}
		p := cell.New(t.Context(), cell.Config{})
		defer p.Close()
		c, err := p.Take(t.Context(), plan)
		if err != nil {
			t.Fatal(err)
		}
		spec := <-specs
		if _, err := dial(spec).Read(make([]byte, 1)); err == nil {
			t.Error("a connection before the call was served")
		}
		for _, name := range []string{"first", "second"} {
			returned := make(chan struct{})
			c.ServeEgress(func(ctx context.Context, conn net.Conn) {
				defer close(returned)
				_, _ = io.WriteString(conn, name)
				<-ctx.Done()
			})
			c.Begin(io.Discard, io.Discard)
			conn := dial(spec)
			b := make([]byte, 16)
			if n, err := conn.Read(b); err != nil || string(b[:n]) != name {
				t.Errorf("the egress of the %s call said %q, %v", name, b[:n], err)
			}
			c.Release(true)
			select {
			case <-returned:
			default:
				t.Error("Release did not wait for the egress")
			}
			if _, err := conn.Read(b); err == nil {
				t.Error("a connection outlived its call")
			}
			if _, err := dial(spec).Read(b); err == nil {
				t.Error("a connection between the calls was served")
			}
			if c, err = p.Take(t.Context(), plan); err != nil {
				t.Fatal(err)
			}
		}
		c.Release(false)
	})
}
