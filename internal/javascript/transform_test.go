package javascript

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/evanw/esbuild/pkg/api"
)

func TestTransform_large_sources_wait_for_each_other(t *testing.T) {
	transform := func(ctx context.Context, source string) error {
		s, bad := Scan([]byte(source))
		if bad != nil {
			t.Fatal(bad)
		}
		_, err := s.Transform(ctx, api.TransformOptions{})
		return err
	}
	small := "export function f() {}\n"
	large := small + strings.Repeat("// x\n", largeSource/5)
	oneLarge <- struct{}{} // as a source that takes long would
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if err := transform(ctx, large); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a large source beside another: error = %v, want %v", err, context.DeadlineExceeded)
	}
	if err := transform(t.Context(), small); err != nil {
		t.Errorf("a small source beside a large one: %v", err)
	}
	<-oneLarge
	for range 2 {
		if err := transform(t.Context(), large); err != nil {
			t.Errorf("large sources after each other: %v", err)
		}
	}
}
