package store

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"haft"
)

// labels are what of a tool can be changed without a new version and is given
// back as it was.
type labels struct {
	Category string   `json:"category,omitempty"`
	Tags     []string `json:"tags,omitempty"`
}

// toolColumns are what scanTool reads, of tools t and versions v.
const toolColumns = "t.id, t.name, t.labels, t.disabled, t.number, t.newest, t.created, t.updated, v.doc, v.review"

const toolFrom = "SELECT " + toolColumns +
	" FROM tools t LEFT JOIN versions v ON v.tool = t.id AND v.number = t.number WHERE "

// A row is a tool with what only the store knows.
type row struct {
	haft.Tool
	newest int
}

// scanTool reads one row.
func scanTool(r scanner, org string) (row, error) {
	t := row{Tool: haft.Tool{Org: org}}
	var label string
	var disabled, created, updated int64
	var number int
	var doc, review sql.NullString
	if err := r.Scan(&t.ID, &t.Name, &label, &disabled, &number, &t.newest, &created, &updated, &doc,
		&review); err != nil {
		return t, err
	}
	var l labels
	if err := decode(label, &l); err != nil {
		return t, err
	}
	t.Category, t.Tags = l.Category, l.Tags
	t.Disabled, t.Created, t.Updated = disabled != 0, fromMicros(created), fromMicros(updated)
	if !doc.Valid {
		return t, nil
	}
	v, err := readVersion(number, doc.String, review.String)
	t.Version = v
	return t, err
}

// readVersion reads a version. Its number and review are kept beside it.
func readVersion(number int, doc, review string) (haft.Version, error) {
	var v haft.Version
	if err := decode(doc, &v); err != nil {
		return v, err
	}
	v.Number, v.Review = number, haft.Review{}
	return v, decode(review, &v.Review)
}

// pick returns the tool that ref means. An id wins: no tool can be named so that
// it passes for another one.
func pick(list []row, ref string) (*row, error) {
	switch {
	case len(list) == 0:
		return nil, notFound("tool")
	case len(list) == 2 && string(list[1].ID) == ref:
		return &list[1], nil
	}
	return &list[0], nil
}

const toolByRef = toolFrom + "t.org = $1 AND (t.id = $2 OR t.name = $2)"

// Tool returns the tool of that id or name with its current version, or
// [haft.CodeNotFound]. Number is 0 if no version is current.
func (s *Store) Tool(ctx context.Context, org, ref string) (*haft.Tool, error) {
	var list []row
	err := s.rows(ctx, func(r scanner) error {
		t, err := scanTool(r, org)
		list = append(list, t)
		return err
	}, toolByRef, column(org), column(ref))
	if err != nil {
		return nil, fmt.Errorf("find the tool: %w", err)
	}
	t, err := pick(list, ref)
	if err != nil {
		return nil, err
	}
	return &t.Tool, nil
}

const stampByRef = "SELECT id, number, updated FROM tools WHERE org = $1 AND (id = $2 OR name = $2)"

// ToolStamp tells cheaply whether a tool has changed: whatever changes, updated
// does too.
func (s *Store) ToolStamp(ctx context.Context, org,
	ref string) (id haft.ToolID, number int, updated time.Time, err error) {
	err = s.rows(ctx, func(r scanner) error {
		var at int64
		var other haft.ToolID
		var n int
		if err := r.Scan(&other, &n, &at); err != nil {
			return err
		}
		if id == "" || string(other) == ref {
			id, number, updated = other, n, fromMicros(at)
		}
		return nil
	}, stampByRef, column(org), column(ref))
	switch {
	case err != nil:
		return "", 0, time.Time{}, fmt.Errorf("find the tool: %w", err)
	case id == "":
		return "", 0, time.Time{}, notFound("tool")
	}
	return id, number, updated, nil
}

// Tools lists the tools of an organisation by name, or those first that were
// changed last, at most [MaxPage] of them.
// With a text to search for it lists what [Store.SearchTools] finds and fits f.
func (s *Store) Tools(ctx context.Context, org string, f haft.ToolFilter) ([]haft.Tool, error) {
	if f.Search != "" {
		return s.searchFiltered(ctx, org, f)
	}
	text, args := toolQuery(org, f)
	list, err := s.tools(ctx, org, text, args...)
	if err != nil {
		return nil, fmt.Errorf("list tools: %w", err)
	}
	return list, nil
}

// tools runs a query for toolColumns.
func (s *Store) tools(ctx context.Context, org, text string, args ...any) ([]haft.Tool, error) {
	var list []haft.Tool
	err := s.rows(ctx, func(r scanner) error {
		t, err := scanTool(r, org)
		list = append(list, t.Tool)
		return err
	}, text, args...)
	return list, err
}

// toolQuery returns the query for one page. Each narrows what an index gives in
// the order of names.
func toolQuery(org string, f haft.ToolFilter) (string, []any) {
	args := []any{column(org), column(f.After)}
	text := toolFrom + "t.org = $1 AND t.name > $2"
	order := "t.name"
	switch {
	case f.Recent:
		text, order = toolFrom+"t.org = $1", "t.updated DESC, t.name DESC"
		if args = args[:1]; f.After != "" {
			args = append(args, micros(f.AfterTime), column(f.After))
			text += " AND (t.updated, t.name) < ($2, $3)"
		}
		if f.Tag != "" {
			args = append(args, column(f.Tag))
			text += fmt.Sprintf(" AND EXISTS (SELECT 1 FROM tool_tags g WHERE g.tool = t.id AND g.tag = $%d)",
				len(args))
		}
	case f.Tag != "":
		args = append(args, column(f.Tag))
		text = "SELECT " + toolColumns +
			` FROM tool_tags g JOIN tools t ON t.id = g.tool LEFT JOIN versions v ON v.tool = t.id AND v.number = t.number
			WHERE g.org = $1 AND g.name > $2 AND g.tag = $3`
		order = "g.name"
	}
	if f.Category != "" {
		args = append(args, column(f.Category))
		text += fmt.Sprintf(" AND t.category = $%d", len(args))
	}
	if f.Kind != "" {
		args = append(args, column(string(f.Kind)))
		text += fmt.Sprintf(" AND t.kind = $%d", len(args))
	}
	switch {
	case f.Enabled != nil:
		args = append(args, number(!*f.Enabled))
		text += fmt.Sprintf(" AND t.disabled = $%d", len(args))
	case !f.Disabled:
		text += " AND t.disabled = 0"
	}
	args = append(args, page(f.Limit))
	return text + fmt.Sprintf(" ORDER BY %s LIMIT $%d", order, len(args)), args
}

// RemoveTool removes a tool with its versions, or returns [haft.CodeNotFound], or
// [haft.CodeConflict] if its revision is not the one of the condition.
func (s *Store) RemoveTool(ctx context.Context, org string, id haft.ToolID, condition string) error {
	err := s.write(ctx, func(ctx context.Context, t *tx) error {
		old, err := t.find(ctx, org, "t.org = $1 AND t.id = $2", column(org), column(string(id)))
		if err != nil {
			return err
		}
		if old == nil {
			return notFound("tool")
		}
		if err := holds(condition, old.Revision()); err != nil {
			return err
		}
		return t.removeTool(ctx, org, id)
	})
	if err != nil {
		return fmt.Errorf("remove the tool: %w", err)
	}
	return nil
}

// removeTool removes a tool with its versions, or returns [haft.CodeNotFound].
func (t *tx) removeTool(ctx context.Context, org string, id haft.ToolID) error {
	n, err := t.exec(ctx, "DELETE FROM tools WHERE id = $1 AND org = $2", column(string(id)), column(org))
	if err != nil {
		return err
	}
	if n == 0 {
		return notFound("tool")
	}
	for _, table := range []string{"versions", "tool_tags", "tool_words"} {
		if _, err := t.exec(ctx, "DELETE FROM "+table+" WHERE tool = $1", column(string(id))); err != nil {
			return err
		}
	}
	return nil
}

// Version returns one version of a tool, or [haft.CodeNotFound].
func (s *Store) Version(ctx context.Context, org string, id haft.ToolID, number int) (*haft.Version, error) {
	return s.version(ctx, "v.number = $3", column(org), column(string(id)), number)
}

// VersionByDigest returns the newest version with that digest, or
// [haft.CodeNotFound].
func (s *Store) VersionByDigest(ctx context.Context, org string, id haft.ToolID, digest string) (*haft.Version, error) {
	return s.version(ctx, "v.digest = $3 ORDER BY v.number DESC LIMIT 1", column(org), column(string(id)),
		column(digest))
}

const versionFrom = "SELECT v.number, v.doc, v.review FROM versions v JOIN tools t ON t.id = v.tool WHERE t.org = " +
	"$1 AND v.tool = $2 AND "

func (s *Store) version(ctx context.Context, which string, args ...any) (*haft.Version, error) {
	list, err := s.versions(ctx, versionFrom+which, args...)
	switch {
	case err != nil:
		return nil, fmt.Errorf("find the version: %w", err)
	case len(list) == 0:
		return nil, notFound("version of the tool")
	}
	return &list[0], nil
}

// Versions lists the versions of a tool, newest first, before that number; 0
// means from the newest on.
func (s *Store) Versions(ctx context.Context, org string, id haft.ToolID, before, limit int) ([]haft.Version, error) {
	if before <= 0 {
		before = 1 << 62
	}
	list, err := s.versions(ctx, versionFrom+"v.number < $3 ORDER BY v.number DESC LIMIT $4", column(org),
		column(string(id)), before, page(limit))
	if err != nil {
		return nil, fmt.Errorf("list versions: %w", err)
	}
	return list, nil
}

func (s *Store) versions(ctx context.Context, text string, args ...any) ([]haft.Version, error) {
	var list []haft.Version
	err := s.rows(ctx, func(r scanner) error {
		var number int
		var doc, review string
		if err := r.Scan(&number, &doc, &review); err != nil {
			return err
		}
		v, err := readVersion(number, doc, review)
		list = append(list, v)
		return err
	}, text, args...)
	return list, err
}

// find returns a tool inside a transaction, locked, or nil.
func (t *tx) find(ctx context.Context, org, where string, args ...any) (*row, error) {
	lock := ""
	if t.s.dialect.ForUpdate != "" {
		lock = t.s.dialect.ForUpdate + " OF t"
	}
	rows, err := t.query(ctx, toolFrom+where+lock, args...)
	if err != nil {
		return nil, err
	}
	var found *row
	err = each(rows, func(r scanner) error {
		tool, err := scanTool(r, org)
		found = &tool
		return err
	})
	return found, err
}

// keep writes the row of a tool, and what it can be found by.
func (t *tx) keep(ctx context.Context, tool *row, shown haft.Version) error {
	label, err := encode(labels{tool.Category, tool.Tags})
	if err != nil {
		return err
	}
	if len(label) > MaxText {
		return invalid("category and tags have %d bytes, %d is the most", len(label), MaxText)
	}
	org, id := column(tool.Org), column(string(tool.ID))
	n, err := t.exec(ctx,
		`INSERT INTO tools (id, org, name, kind, category, labels, disabled, number, newest, created, updated)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11) ON CONFLICT (id) DO UPDATE SET kind = excluded.kind, category = excluded.category,
		labels = excluded.labels, disabled = excluded.disabled, number = excluded.number, newest = excluded.newest, updated = excluded.updated
		WHERE tools.org = excluded.org`,
		id, org, tool.Name, column(string(shown.Kind)), column(tool.Category), label, number(tool.Disabled),
		tool.Version.Number, tool.newest, micros(tool.Created), micros(tool.Updated))
	if err != nil {
		return err
	}
	if n == 0 {
		return conflict("another tool has that id")
	}
	return t.index(ctx, org, id, &tool.Tool, shown)
}

// index makes a tool findable by tags and words.
func (t *tx) index(ctx context.Context, org, id string, tool *haft.Tool, shown haft.Version) error {
	for _, table := range []string{"tool_tags", "tool_words"} {
		if _, err := t.exec(ctx, "DELETE FROM "+table+" WHERE tool = $1", id); err != nil {
			return err
		}
	}
	var tags, words []any
	for _, tag := range slices.Compact(slices.Sorted(slices.Values(tool.Tags))) {
		tags = append(tags, org, column(tag), tool.Name, id)
	}
	if _, err := t.add(ctx, insertTags, tags); err != nil {
		return err
	}
	weights := wordsOf(tool, shown.Description)
	for _, word := range sortedWords(weights) {
		words = append(words, org, word, weights[word], id)
	}
	_, err := t.add(ctx, insertWords, words)
	return err
}

var (
	insertTags  = &insert{"INSERT INTO tool_tags (org, tag, name, tool)", 4, ""}
	insertWords = &insert{"INSERT INTO tool_words (org, word, weight, tool)", 4, ""}
)

// addVersion keeps a version. It never changes, but for its review.
func (t *tx) addVersion(ctx context.Context, id haft.ToolID, v haft.Version) error {
	review, err := encode(v.Review)
	if err != nil {
		return err
	}
	v.Review = haft.Review{}
	doc, err := encode(v)
	if err != nil {
		return err
	}
	if len(doc)+len(review) > MaxVersion {
		return invalid("the version of the tool has %d bytes, %d is the most", len(doc)+len(review), MaxVersion)
	}
	_, err = t.exec(ctx,
		"INSERT INTO versions (tool, number, digest, created, doc, review) VALUES ($1, $2, $3, $4, $5, $6)",
		column(string(id)), v.Number, column(v.Digest), micros(v.Created), doc, review)
	return err
}

// versionOf returns a version inside a transaction, or [haft.CodeNotFound].
func (t *tx) versionOf(ctx context.Context, id haft.ToolID, number int) (haft.Version, error) {
	rows, err := t.query(ctx, "SELECT doc, review FROM versions WHERE tool = $1 AND number = $2", column(string(id)),
		number)
	if err != nil {
		return haft.Version{}, err
	}
	var v haft.Version
	err = each(rows, func(r scanner) error {
		var doc, review string
		if err := r.Scan(&doc, &review); err != nil {
			return err
		}
		v, err = readVersion(number, doc, review)
		return err
	})
	if err == nil && v.Number == 0 {
		err = notFound("version of the tool")
	}
	return v, err
}

// setReview replaces the review of a version.
func (t *tx) setReview(ctx context.Context, id haft.ToolID, number int, r haft.Review) error {
	review, err := encode(r)
	if err != nil {
		return err
	}
	if len(review) > MaxText {
		return invalid("the review has %d bytes, %d is the most", len(review), MaxText)
	}
	n, err := t.exec(ctx, "UPDATE versions SET review = $1 WHERE tool = $2 AND number = $3", review, column(string(id)),
		number)
	if err == nil && n == 0 {
		return notFound("version of the tool")
	}
	return err
}

// equalJSON reports whether a and b are kept alike.
func equalJSON(a, b any) bool {
	x, err := json.Marshal(a)
	y, err2 := json.Marshal(b)
	return err == nil && err2 == nil && string(x) == string(y)
}
