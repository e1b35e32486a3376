package letta

import (
	"context"
	"net/url"
	"slices"
	"strconv"
	"time"

	"haft"
)

// passageHandlers serve the routes of the archive of agents.
type passageHandlers struct{ archive haft.Archive }

// A wirePassage is a passage in Letta's form. Its vector is not shown.
type wirePassage struct {
	ID              haft.PassageID `json:"id"`
	Text            string         `json:"text"`
	Tags            []string       `json:"tags"`
	Created         time.Time      `json:"created_at"`
	Embedding       []float64      `json:"embedding"`
	EmbeddingConfig any            `json:"embedding_config"`
	Metadata        map[string]any `json:"metadata"`
}

// showPassage converts a passage.
func showPassage(p haft.Passage) wirePassage {
	return wirePassage{ID: p.ID, Text: p.Text, Tags: append([]string{}, p.Tags...), Created: p.Created.UTC(),
		Metadata: map[string]any{}}
}

// showPassages converts passages.
func showPassages(list []haft.Passage) []wirePassage {
	all := make([]wirePassage, 0, len(list))
	for _, p := range list {
		all = append(all, showPassage(p))
	}
	return all
}

func (h passageHandlers) createPassage(ctx context.Context, q *request, a haft.Agent) (any, error) {
	var b struct {
		Text    *string  `json:"text"`
		Tags    []string `json:"tags"`
		Created *string  `json:"created_at"`
	}
	if err := q.read(&b); err != nil {
		return nil, err
	}
	switch {
	case b.Text == nil:
		return nil, unprocessable("body text: it is missing")
	case b.Created != nil:
		return nil, notHere("body created_at: a passage has the time at which it is added: write the date in its text")
	}
	p, err := h.archive.AddPassage(ctx, q.who.Principal, string(a.ID), *b.Text, b.Tags)
	if err != nil {
		return nil, err
	}
	return showPassages([]haft.Passage{*p}), nil
}

// listPassages lists passages, oldest first unless the query says otherwise.
func (h passageHandlers) listPassages(ctx context.Context, q *request, a haft.Agent) (any, error) {
	query := q.URL.Query()
	pg, err := paging(query, pageSize)
	if err != nil {
		return nil, err
	}
	ascending := true
	if query.Get("ascending") != "" {
		if ascending, err = boolParam(query, "ascending"); err != nil {
			return nil, err
		}
	}
	f := haft.PassageFilter{Query: query.Get("search"), Newest: !ascending, After: haft.PassageID(pg.after),
		Limit: min(pg.limit, pageSize)}
	if pg.before != "" { // those right before it are the first of the other direction
		f.Newest, f.After = ascending, haft.PassageID(pg.before)
	}
	list, err := h.archive.Passages(ctx, q.who.Principal, string(a.ID), f)
	if err != nil {
		return nil, err
	}
	if pg.before != "" {
		slices.Reverse(list)
	}
	return showPassages(list), nil
}

// searchPassages finds passages by their words.
func (h passageHandlers) searchPassages(ctx context.Context, q *request, a haft.Agent) (any, error) {
	query := q.URL.Query()
	f := haft.PassageFilter{Query: query.Get("query"), Tags: query["tags"], Limit: 10}
	if f.Query == "" {
		return nil, unprocessable("query query: it is missing")
	}
	switch query.Get("tag_match_mode") {
	case "", "any":
	case "all":
		f.AllTags = true
	default:
		return nil, unprocessable("query tag_match_mode: expected any or all")
	}
	if s := query.Get("top_k"); s != "" {
		n, err := strconv.Atoi(s)
		if err != nil || n < 1 {
			return nil, unprocessable("query top_k: expected a number from 1 on")
		}
		f.Limit = min(n, pageSize)
	}
	var err error
	if f.Since, f.Till, err = span(query, "start_datetime", "end_datetime"); err != nil {
		return nil, err
	}
	list, err := h.archive.Passages(ctx, q.who.Principal, string(a.ID), f)
	if err != nil {
		return nil, err
	}
	results := []map[string]any{}
	for _, p := range list {
		results = append(results, map[string]any{"id": p.ID, "content": p.Text, "tags": append([]string{}, p.Tags...),
			"timestamp": p.Created.UTC().Format(time.RFC3339)})
	}
	return map[string]any{"count": len(results), "results": results}, nil
}

func (h passageHandlers) deletePassage(ctx context.Context, q *request, a haft.Agent) (any, error) {
	return nil, h.archive.RemovePassage(ctx, q.who.Principal, string(a.ID), haft.PassageID(q.PathValue("passage")))
}

// span reads two times. A time may be a date, or have no zone; then it is UTC.
func span(values url.Values, first, last string) (since, till time.Time, err error) {
	for name, to := range map[string]*time.Time{first: &since, last: &till} {
		text := values.Get(name)
		if text == "" {
			continue
		}
		ok := false
		for _, layout := range []string{time.RFC3339Nano, "2006-01-02T15:04:05.999999999", time.DateOnly} {
			if at, err := time.Parse(layout, text); err == nil {
				*to, ok = at, true
				break
			}
		}
		if !ok {
			return since, till, unprocessable("%s: expected a date or a time as in RFC 3339", name)
		}
	}
	return since, till, nil
}
