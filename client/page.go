package client

import (
	"context"
	"iter"
	"maps"
	"net/url"
	"strconv"
)

// maxPage is how many objects one page has at most.
const maxPage = 1000

// list yields the objects that the server lists at q, up to limit of them; 0 means all. The
// pages are fetched as they are needed. A page may be empty and not be the last.
func list[T any](ctx context.Context, t *transport, q query, limit int) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		values := url.Values{}
		maps.Copy(values, q.values)
		ask := q
		ask.values = values
		for left := limit; ; {
			size := maxPage
			if limit > 0 {
				size = min(left, maxPage)
			}
			values.Set("limit", strconv.Itoa(size))
			page, err := get[struct {
				Data []T    `json:"data"`
				Next string `json:"next_cursor"`
			}](ctx, t, ask)
			if err != nil {
				var none T
				yield(none, err)
				return
			}
			for _, object := range page.Data[:min(len(page.Data), size)] {
				if !yield(object, nil) {
					return
				}
			}
			left -= len(page.Data)
			if page.Next == "" || page.Next == values.Get("cursor") || limit > 0 && left <= 0 {
				return
			}
			values.Set("cursor", page.Next)
		}
	}
}

// some collects up to limit objects that the server lists at q; 0 means as many as are on a page
// of the engine.
func some[T any](ctx context.Context, t *transport, q query, limit int) ([]T, error) {
	if limit <= 0 {
		limit = defaultSearch
	}
	var all []T
	for object, err := range list[T](ctx, t, q, limit) {
		if err != nil {
			return nil, err
		}
		all = append(all, object)
	}
	return all, nil
}

// whole returns a list that is on one page.
func whole[T any](ctx context.Context, t *transport, q query) ([]T, error) {
	page, err := get[struct {
		Data []T `json:"data"`
	}](ctx, t, q)
	if err != nil {
		return nil, err
	}
	return page.Data, nil
}
