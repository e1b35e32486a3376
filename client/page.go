package client

import (
	"context"
	"iter"
	"net/url"
	"strconv"
)

// most is how many things one page has at most.
const most = 1000

// A page is a part of a list.
type page[T any] struct {
	Data []T    `json:"data"`
	Next string `json:"next_cursor"`
}

// list yields what the server lists at q, up to limit things; 0 means all. The
// pages are fetched as they are needed.
func list[T any](ctx context.Context, c *Client, q query, limit int) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		left := limit
		values := url.Values{}
		for name, v := range q.values {
			values[name] = v
		}
		ask := q
		ask.values = values
		for {
			size := most
			if limit > 0 {
				size = min(left, most)
			}
			values.Set("limit", strconv.Itoa(size))
			var got page[T]
			if err := c.read(ctx, ask, &got); err != nil {
				var none T
				yield(none, err)
				return
			}
			for _, item := range got.Data[:min(len(got.Data), size)] {
				if !yield(item, nil) {
					return
				}
			}
			left -= len(got.Data)
			if got.Next == "" || len(got.Data) == 0 || limit > 0 && left <= 0 {
				return
			}
			values.Set("cursor", got.Next)
		}
	}
}

// failed is a list that is an error.
func failed[T any](err error) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		var none T
		yield(none, err)
	}
}
