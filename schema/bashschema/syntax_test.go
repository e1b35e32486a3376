package bashschema_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"haft/schema"
	"haft/schema/bashschema"
)

// A parser that descends without a bound would end this process.
func TestDerive_hostile_script(t *testing.T) {
	const head = "# tool: t\n# T.\n"
	for _, open := range []string{"(", "{ ", "$(", "\"$(", "${a:-", "$((", "if a; then ", "a|", "a&&", "[[ (",
		"case a in b) ", "f(){ ", "<<a\n", "`", "a=(", "( (", "x#\n"} {
		t.Run(open, func(t *testing.T) {
			source := head + strings.Repeat(open, (schema.MaxSource-len(head))/len(open))
			start := time.Now()
			_, err := bashschema.Derive(t.Context(), []byte(source), bashschema.Config{})
			var e *schema.SourceError
			if err != nil && (!errors.As(err, &e) || e.Line < 1 || e.Column < 1 || len(err.Error()) > 500) {
				t.Errorf("error = %.600v, want a *schema.SourceError with its place", err)
			}
			if d := time.Since(start); d > 90*time.Second {
				t.Errorf("it took %v", d)
			}
		})
	}
}

func TestDerive_deep_script(t *testing.T) {
	nested := func(n int) string {
		return "# tool: t\n# T.\necho " + strings.Repeat("$(echo ", n) + strings.Repeat(")", n) + "\n"
	}
	if _, err := bashschema.Derive(t.Context(), []byte(nested(50)), bashschema.Config{}); err != nil {
		t.Errorf("50 deep: %v", err)
	}
	_, err := bashschema.Derive(t.Context(), []byte(nested(10_000)), bashschema.Config{})
	if err == nil || !strings.Contains(err.Error(), "nested too deep") {
		t.Errorf("10,000 deep: error = %v", err)
	}
}

func TestDerive_canceled(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := bashschema.Derive(ctx, []byte("# tool: t\n# T.\ntrue\n"), bashschema.Config{}); !errors.Is(err,
		context.Canceled) {
		t.Errorf("error = %v, want %v", err, context.Canceled)
	}
}
