package server

import (
	"net/http"

	"haft"
)

// The forms of answers. Which headers an answer can have is part of the document.
type (
	// shown has a body alone.
	shown[T any] struct{ Body T }
	// tagged also has the revision of what it shows.
	tagged[T any] struct {
		ETag string `header:"ETag"`
		Body T
	}
	// stored also says whether what it shows was added, and where it is.
	stored[T any] struct {
		Status   int
		ETag     string `header:"ETag"`
		Location string `header:"Location"`
		Body     T
	}
)

// revised is a resource that can be written on a condition.
type revised interface{ Revision() string }

// show answers with a value, unless it could not be had.
func show[T any](v *T, err error) (*shown[T], error) {
	if err != nil {
		return nil, err
	}
	return &shown[T]{*v}, nil
}

// tag answers with a resource and its revision.
func tag[T revised](v *T, err error) (*tagged[T], error) {
	if err != nil {
		return nil, err
	}
	return &tagged[T]{quote((*v).Revision()), *v}, nil
}

// found answers with a resource that can also be stored.
func found[T revised](v *T, err error) (*stored[T], error) {
	if err != nil {
		return nil, err
	}
	return &stored[T]{Status: http.StatusOK, ETag: quote((*v).Revision()), Body: *v}, nil
}

// replace writes over a resource, or adds it, if it is as the condition demands. The
// function put gets the resource that is there, or nil, and what the write has to demand
// in its own transaction.
func replace[T revised, O any](c Condition, current func() (*T, error),
	put func(old *T, condition string) (*O, error)) (*O, error) {
	old, err := current()
	revision := ""
	switch {
	case err == nil:
		revision = (*old).Revision()
	case haft.CodeOf(err) == haft.CodeNotFound:
		old = nil
	default:
		return nil, err
	}
	condition, err := c.revision(revision)
	if err != nil {
		return nil, err
	}
	out, err := put(old, condition)
	return out, c.failed(err)
}

// remove removes a resource, if it is as the condition demands. The function remove looks
// at the revision again in its own transaction.
func remove[T revised](r RemoveIf, current func() (*T, error), remove func(revision string) error) (*struct{}, error) {
	c, demanded := Condition{IfMatch: r.IfMatch}, ""
	if r.IfMatch != "" {
		now, err := current()
		if err != nil {
			return nil, err
		}
		if demanded, err = c.revision((*now).Revision()); err != nil {
			return nil, err
		}
	}
	return nil, c.failed(remove(demanded))
}
