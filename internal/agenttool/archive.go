package agenttool

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"haft"
	"haft/executor/builtin"
)

// The bounds of searches.
const (
	defaultFound = 10
	maxFound     = 100
	maxQuery     = 1000 // characters
)

type archiveIn struct {
	Content string   `json:"content" jsonschema:"What to store, self-contained: facts or summaries."`
	Tags    []string `json:"tags,omitempty" jsonschema:"Optional list of tags to find this memory by later."`
}

type archiveSearchIn struct {
	Query string   `json:"query" jsonschema:"What to search for, in natural language."`
	Tags  []string `json:"tags,omitempty" jsonschema:"Optional list of tags to filter search results."`
	Match string   `json:"tag_match_mode,omitempty" jsonschema:"How to match tags: any (default) or all."`
	Top   *int     `json:"top_k,omitempty" jsonschema:"Maximum number of results to return."`
	Since string   `json:"start_datetime,omitempty" jsonschema:"Only what is from after this time, such as 2024-01-15."`
	Till  string   `json:"end_datetime,omitempty" jsonschema:"Only what is from before this time, such as 2024-01-15."`
}

// A found passage is one that fits a search.
type foundPassage struct {
	ID        string   `json:"id"`
	Timestamp string   `json:"timestamp"`
	Content   string   `json:"content"`
	Tags      []string `json:"tags,omitempty"`
}

// addArchiveTools adds the tools of the archive.
func addArchiveTools(s *builtin.Set, archive Archive) error {
	insert := builtin.Def{Name: "archival_memory_insert", Version: "1", Category: category,
		Annotations: harmless(false), Description: "Add information to long-term archival memory, for later " +
			"retrieval: " +
			"facts, documents and knowledge that do not have to be before you all the time."}
	search := builtin.Def{Name: "archival_memory_search", Version: "1", Category: category,
		Annotations: harmless(true), Enums: map[string][]string{"tag_match_mode": {"any", "all"}},
		Description: "Search archival memory by words, optionally by tags and times, for what was stored before."}
	return errors.Join(
		builtin.Add(s, insert, func(ctx context.Context, c builtin.Call, in archiveIn) (string, error) {
			p, err := agentOf(c)
			if err != nil {
				return "", err
			}
			kept, err := archive.AddPassage(ctx, p, in.Content, in.Tags)
			if err != nil {
				return "", err
			}
			return "Memory inserted successfully with ID " + string(kept.ID), nil
		}),
		builtin.Add(s, search, func(ctx context.Context, c builtin.Call, in archiveSearchIn) ([]foundPassage, error) {
			p, err := agentOf(c)
			if err != nil {
				return nil, err
			}
			f := haft.PassageFilter{Query: in.Query, Tags: in.Tags, AllTags: in.Match == "all"}
			if f.Since, f.Till, err = span(in.Since, in.Till, "start_datetime", "end_datetime"); err != nil {
				return nil, err
			}
			if f.Limit, err = bound(in.Query, in.Top, "top_k"); err != nil {
				return nil, err
			}
			passages, err := archive.Passages(ctx, p, f)
			out := make([]foundPassage, 0, len(passages))
			for _, x := range passages {
				out = append(out, foundPassage{string(x.ID), x.Created.UTC().Format(time.RFC3339), x.Text, x.Tags})
			}
			return out, err
		}))
}

// bound checks a search, and returns how many results it gives.
func bound(query string, limit *int, name string) (int, error) {
	if len([]rune(query[:min(len(query), 5*maxQuery)])) > maxQuery {
		return 0, invalid(fmt.Sprintf("query: it has more than %d characters", maxQuery))
	}
	if limit == nil {
		return defaultFound, nil
	}
	if *limit < 1 || *limit > maxFound {
		return 0, invalid(fmt.Sprintf("%s: it is from 1 to %d", name, maxFound))
	}
	return *limit, nil
}

// span reads the two ends of a time. A date at the end means all of its day.
func span(from, to, fromName, toName string) (since, till time.Time, err error) {
	if since, _, err = moment(from, fromName); err != nil {
		return since, till, err
	}
	var date bool
	if till, date, err = moment(to, toName); err == nil && date {
		till = till.AddDate(0, 0, 1).Add(-time.Nanosecond)
	}
	if err == nil && !since.IsZero() && !till.IsZero() && till.Before(since) {
		err = invalid(toName + ": it is before " + fromName)
	}
	return since, till, err
}

// moment reads a time as models write it; without a zone it is UTC.
func moment(text, name string) (at time.Time, date bool, err error) {
	if text == "" {
		return time.Time{}, false, nil
	}
	for _, layout := range []string{time.RFC3339Nano, "2006-01-02T15:04:05.999999999", "2006-01-02 15:04:05",
		"2006-01-02T15:04", "2006-01-02 15:04", time.DateOnly} {
		if at, err = time.Parse(layout, text); err == nil {
			return at, layout == time.DateOnly, nil
		}
	}
	return time.Time{}, false, invalid(cmp.Or(name, "time") +
		": it is no time of ISO 8601, such as 2024-01-15 or 2024-01-15T14:30")
}
