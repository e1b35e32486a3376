package bashschema

import (
	"context"
	"errors"

	"haft/internal/shell"
	"haft/schema"
)

// checkSyntax reads the whole script as Bash does, without running it, and
// returns what is wrong with it: a *schema.SourceError, or the end of ctx.
func checkSyntax(ctx context.Context, src string) error {
	_, err := shell.Parse(ctx, src)
	var bad *shell.SyntaxError
	switch {
	case !errors.As(err, &bad):
		return err
	case bad.Unsure: // Bash will say what is wrong
		return nil
	}
	return &schema.SourceError{Line: bad.Line, Column: bad.Column, Message: bad.Message}
}
