package tsschema

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"haft/schema"
)

func TestDerive_large_sources_wait_for_each_other(t *testing.T) {
	config := Config{Options: schema.Options{DescriptionsOptional: true}}
	small := "export function f() {}\n"
	large := small + strings.Repeat("// x\n", largeSource/5)
	oneLarge <- struct{}{} // as a source that takes long would
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if _, err := Derive(ctx, []byte(large), config); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a large source beside another: error = %v, want %v", err, context.DeadlineExceeded)
	}
	if _, err := Derive(t.Context(), []byte(small), config); err != nil {
		t.Errorf("a small source beside a large one: %v", err)
	}
	<-oneLarge
	for range 2 {
		if _, err := Derive(t.Context(), []byte(large), config); err != nil {
			t.Errorf("large sources after each other: %v", err)
		}
	}
}
