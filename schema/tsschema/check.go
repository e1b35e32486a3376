package tsschema

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/evanw/esbuild/pkg/api"

	"haft/internal/javascript"
)

// scan splits source into tokens that are within the bounds.
func scan(source []byte) (*javascript.Source, *problem) {
	s, bad := javascript.Scan(source)
	if bad != nil {
		return s, &problem{bad.At, bad.Message}
	}
	for _, t := range s.Tokens {
		if i := strings.IndexByte(s.TextOf(t), '\\'); t.Kind == javascript.Ident && i >= 0 {
			return s, &problem{t.From + i, "a name is written with an escape: write its letters"}
		}
	}
	return s, nil
}

// esbuildProblems lets esbuild parse the whole source, including the bodies of functions,
// and returns the errors that it reports.
func esbuildProblems(ctx context.Context, s *javascript.Source, loader api.Loader) ([]problem, error) {
	// The output is not used. Without MinifyIdentifiers the choice of names takes
	// time by the cube of how deep functions are nested.
	r, err := s.Transform(ctx, api.TransformOptions{Loader: loader, MinifyIdentifiers: true})
	if bad := (*javascript.Problem)(nil); errors.As(err, &bad) {
		return []problem{{bad.At, bad.Message}}, nil
	}
	if err != nil {
		return nil, err
	}
	var all []problem
	for _, m := range r.Errors {
		if len(all) == maxProblems {
			break
		}
		if strings.Contains(m.Text, "JSX syntax") {
			m.Text = javascript.NoJSX
		}
		p := problem{s.Offset(m.Location), "syntax error: " + strings.NewReplacer(`"`, "", "\n", " ").Replace(m.Text)}
		if !slices.ContainsFunc(all, func(other problem) bool { return other.at == p.at }) {
			all = append(all, p)
		}
	}
	return all, nil
}
