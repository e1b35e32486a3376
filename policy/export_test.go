package policy

import "context"

// FindAll searches as filters do.
func FindAll(ctx context.Context, pattern, text string) ([][]int, error) {
	m, err := newMatcher(pattern)
	if err != nil {
		return nil, err
	}
	return m.find(ctx, text)
}

// Direct is up to which length a text is searched in one go.
const Direct = direct
