package letta

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"haft"
)

// An item is one of a list: when it was made, its id, and what it is.
type item[T any] struct {
	made  time.Time
	id    string // Haft's, or Letta's if it cannot be converted back
	value T
}

// compare orders items, oldest first.
func (i item[T]) compare(j item[T]) int {
	return cmp.Or(i.made.Compare(j.made), cmp.Compare(i.id, j.id))
}

// cut returns one page of all. The function at returns the item of an id that the client sent;
// it is also called for items that are not in the list any more.
//
// A page after the last item is empty: that is how Letta's clients know the end.
func cut[T any](p page, all []item[T], at func(id string) (item[T], error)) ([]T, error) {
	order := item[T].compare
	if !p.oldest {
		order = func(a, b item[T]) int { return b.compare(a) }
	}
	slices.SortFunc(all, order)
	from, to := 0, min(len(all), p.limit)
	if known := cmp.Or(p.after, p.before); known != "" {
		mark, err := at(known)
		if err != nil {
			return nil, err
		}
		i, found := slices.BinarySearchFunc(all, mark, order)
		switch {
		case p.before != "":
			from, to = max(0, i-p.limit), i // those right before it
		case found:
			i++
			fallthrough
		default:
			from, to = i, min(len(all), i+p.limit)
		}
	}
	part := make([]T, 0, to-from)
	for _, i := range all[from:to] {
		part = append(part, i.value)
	}
	return part, nil
}

// maxPageBytes is after how many bytes a page ends. Blocks are shared, so that few stored bytes can be many shown ones.
const maxPageBytes = 8 << 20

// within shows the items of a page, at least one, until they have [maxPageBytes]. Clients ask for the rest as for the
// next page. Items that were removed since are left out.
func within[T any](p page, part []T, show func(T) (any, error)) (any, error) {
	if p.before != "" {
		slices.Reverse(part) // those next to the known one stay
	}
	list, size := []json.RawMessage{}, 0
	for _, one := range part {
		v, err := show(one)
		if isNotFound(err) {
			continue
		}
		if err != nil {
			return nil, err
		}
		text, err := json.Marshal(v)
		if err != nil {
			return nil, fmt.Errorf("show an item of a page: %w", err)
		}
		if list, size = append(list, text), size+len(text); size >= maxPageBytes {
			break
		}
	}
	if p.before != "" {
		slices.Reverse(list)
	}
	return list, nil
}

// among looks up an item of a list by its id.
func among[T any](all []item[T], absent error) func(id string) (item[T], error) {
	return func(id string) (item[T], error) {
		for _, i := range all {
			if i.id == id {
				return i, nil
			}
		}
		return item[T]{}, absent
	}
}

// isNotFound reports whether err says that something does not exist.
func isNotFound(err error) bool { return haft.CodeOf(err) == haft.CodeNotFound }
