package letta

import (
	"cmp"
	"slices"
	"time"

	"haft"
)

// A place is where something stands in a list: by when it was made, and of those
// made at once by its id.
type place struct {
	made time.Time
	id   string // ours
}

// compare orders places, oldest first.
func (p place) compare(q place) int {
	return cmp.Or(p.made.Compare(q.made), cmp.Compare(p.id, q.id))
}

// cut returns the part of all that a page wants. At returns the place of an id that
// the client knows; it is asked also for what the list does not hold any more.
//
// A page after the last item is empty: that is how Letta's clients know the end.
func (p page) cut(all []place, at func(id string) (place, error)) ([]place, error) {
	order := place.compare
	if !p.oldest {
		order = func(a, b place) int { return b.compare(a) }
	}
	slices.SortFunc(all, order)
	switch {
	case p.after != "":
		from, err := at(p.after)
		if err != nil {
			return nil, err
		}
		i, found := slices.BinarySearchFunc(all, from, order)
		if found {
			i++
		}
		all = all[i:]
	case p.before != "":
		to, err := at(p.before)
		if err != nil {
			return nil, err
		}
		i, _ := slices.BinarySearchFunc(all, to, order)
		return all[max(0, i-p.limit):i], nil // those right before it
	}
	return all[:min(len(all), p.limit)], nil
}

// gone reports whether err says that something is not there.
func gone(err error) bool { return haft.CodeOf(err) == haft.CodeNotFound }
