package server

import (
	"encoding/base64"
	"iter"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"haft"
)

// A Page is a part of a list.
type Page[T any] struct {
	Data []T `json:"data" nullable:"false"`
	// Next goes into cursor of the next request; empty means that this is the end.
	Next string `json:"next_cursor,omitempty" doc:"Goes into cursor of the next request. Without it this is the last page."`
}

// Paging is what every list takes.
type Paging struct {
	Cursor string `query:"cursor" maxLength:"400" doc:"next_cursor of the page before."`
	Limit  int    `query:"limit" minimum:"1" maximum:"1000" default:"100" doc:"How many to list at most."`

	address url.URL // of the request
}

// Resolve implements huma.Resolver: it remembers the address for the one of the
// next page.
func (p *Paging) Resolve(ctx huma.Context) []error {
	p.address = ctx.URL()
	if agent, ok := ctx.Context().Value(agentKey{}).(string); ok {
		query := p.address.Query()
		query.Set(agentParam, agent)
		p.address.RawQuery = query.Encode()
	}
	return nil
}

// Listed is a page with the address of the next one as RFC 8288 has it.
type Listed[T any] struct {
	Link string `header:"Link"`
	Body Page[T]
}

// cursor encodes a place in a list as opaque text, so that clients do not build cursors
// and Haft can change them.
func cursor(kind, at string) string {
	return base64.RawURLEncoding.EncodeToString([]byte(kind + ":" + at))
}

// at decodes a cursor.
func (p Paging) at(kind string) (string, error) {
	if p.Cursor == "" {
		return "", nil
	}
	raw, err := base64.RawURLEncoding.DecodeString(p.Cursor)
	at, ok := strings.CutPrefix(string(raw), kind+":")
	if err != nil || !ok || at == "" {
		return "", errCursor(nil)
	}
	return at, nil
}

// errCursor is the error for a cursor of another list.
func errCursor(err error) error {
	return &haft.Error{Code: haft.CodeInvalid, Message: "the cursor is not one of this list", Err: err}
}

// number reads a cursor that is a number; 0 means that there is none.
func (p Paging) number(kind string) (int64, error) {
	at, err := p.at(kind)
	if err != nil || at == "" {
		return 0, err
	}
	n, err := strconv.ParseInt(at, 10, 64)
	if err != nil {
		return 0, errCursor(err)
	}
	return n, nil
}

// collect takes one page of a list. The list may have one item more than the limit, which
// only shows that there is another page. The function skip leaves items out; nil leaves
// out none.
func collect[T any](list iter.Seq2[T, error], p Paging, kind string, skip func(T) bool,
	key func(T) string) (*Listed[T], error) {
	out := &Listed[T]{Body: Page[T]{Data: []T{}}}
	for item, err := range list {
		if err != nil {
			return nil, err
		}
		if skip != nil && skip(item) {
			continue
		}
		if len(out.Body.Data) == p.Limit {
			out.Body.Next = cursor(kind, key(out.Body.Data[p.Limit-1]))
			out.Link = p.next(out.Body.Next)
			break
		}
		out.Body.Data = append(out.Body.Data, item)
	}
	return out, nil
}

// pageOf takes one page of a list that is ordered by key. The function all may leave out
// items up to the key after, or not.
func pageOf[T any](p Paging, kind string, key func(T) string,
	all func(after string) iter.Seq2[T, error]) (*Listed[T], error) {
	after, err := p.at(kind)
	if err != nil {
		return nil, err
	}
	return collect(all(after), p, kind, func(item T) bool { return after != "" && key(item) <= after }, key)
}

// FetchPage takes one page of at most that many items. The function fetch returns some items
// after a key, in their order; an empty key means from the first on.
func FetchPage[T any](p Paging, most int, kind string, key func(T) string,
	fetch func(after string, limit int) ([]T, error)) (*Listed[T], error) {
	after, err := p.at(kind)
	if err != nil {
		return nil, err
	}
	p.Limit = min(p.Limit, most)
	list, err := fetch(after, p.Limit+1)
	if n := len(list); err == nil && n > 0 && n <= p.Limit { // a list of large items may end before its limit
		var rest []T
		if rest, err = fetch(key(list[n-1]), 1); len(rest) > 0 {
			list, p.Limit = append(list, rest[0]), n
		}
	}
	if err != nil {
		return nil, err
	}
	return collect(each(list), p, kind, nil, key)
}

// next returns the header that points to the next page (RFC 8288), with all filters.
func (p *Paging) next(cursor string) string {
	query := p.address.Query()
	query.Set("cursor", cursor)
	return "<" + (&url.URL{Path: p.address.Path, RawQuery: query.Encode()}).String() + `>; rel="next"`
}

// flag reads an optional boolean parameter.
func flag(text string) *bool {
	if text == "" {
		return nil
	}
	yes := text == "true"
	return &yes
}

// splitTime reads a place in a list that is sorted by time: microseconds, a dot and
// what comes behind. An empty one leaves the time as it is.
func splitTime(at string, or time.Time) (rest string, _ time.Time, _ error) {
	if at == "" {
		return "", or, nil
	}
	digits, rest, ok := strings.Cut(at, ".")
	us, err := strconv.ParseInt(digits, 10, 64)
	if err != nil || !ok {
		return "", or, errCursor(err)
	}
	return rest, time.UnixMicro(us).UTC(), nil
}

// each yields the elements of a list.
func each[T any](list []T) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		for _, item := range list {
			if !yield(item, nil) {
				return
			}
		}
	}
}
