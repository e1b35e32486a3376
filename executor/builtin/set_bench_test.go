package builtin_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"

	"haft/executor/builtin"
)

func TestExecute_hammer(t *testing.T) {
	s := echo(t, func(_ context.Context, c builtin.Call, in echoIn) (echoOut, error) {
		var wg sync.WaitGroup
		for range 4 {
			wg.Go(func() { c.Stdout([]byte(in.Text)); c.Progress(in.Text) })
		}
		wg.Wait()
		if in.Times == 1 {
			panic("x")
		}
		return echoOut{in.Text}, nil
	})
	var wg sync.WaitGroup
	for i := range 16 {
		wg.Go(func() {
			for j := range 100 {
				text := fmt.Sprintf("%02d-%02d", i, j)
				req := request(fmt.Sprintf(`{"text":%q,"times":%d}`, text, j%3))
				req.Progress = func(b json.RawMessage) {
					if string(b) != `"`+text+`"` {
						t.Errorf("progress of another call: %s", b)
					}
				}
				res, err := s.Execute(t.Context(), req)
				if err != nil || j%3 != 1 && string(res.Value) != `{"text":"`+text+`"}` ||
					res.Stdout != strings.Repeat(text, 4) {
					t.Errorf("got %+v, %v", res, err)
				}
			}
		})
	}
	wg.Wait()
}

func BenchmarkExecute_nothing(b *testing.B) {
	s := builtin.New()
	add(b, s, "noop", func(context.Context, builtin.Call, struct{}) (struct{}, error) { return struct{}{}, nil })
	req := request(`{}`)
	req.Tool = "noop"
	b.ReportAllocs()
	for b.Loop() {
		if _, err := s.Execute(b.Context(), req); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkExecute_echo(b *testing.B) {
	s := builtin.New()
	add(b, s, "echo", func(_ context.Context, _ builtin.Call, in echoIn) (echoOut, error) {
		return echoOut{in.Text},
			nil
	})
	req := request(`{"text":"hello"}`)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := s.Execute(b.Context(), req); err != nil {
			b.Fatal(err)
		}
	}
}

func TestExecute_costs_little(t *testing.T) {
	s := builtin.New()
	add(t, s, "noop", func(context.Context, builtin.Call, struct{}) (struct{}, error) { return struct{}{}, nil })
	req := request(`{}`)
	req.Tool = "noop"
	if n := testing.AllocsPerRun(100, func() {
		if _, err := s.Execute(t.Context(), req); err != nil {
			t.Fatal(err)
		}
	}); n > 12 {
		t.Errorf("a call that does nothing allocates %v times", n)
	}
}
