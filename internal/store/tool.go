package store

import (
	"context"
	"database/sql"
	"encoding/json"
	"maps"
	"slices"
	"time"

	"haft"
	"haft/internal/store/stored"
	"haft/internal/store/words"
)

// labels are what of a tool can be changed without a new version and is given
// back as it was.
type labels struct {
	Category string   `json:"category,omitempty"`
	Tags     []string `json:"tags,omitempty"`

	Metadata map[string]json.RawMessage `json:"metadata,omitempty"`
}

// toolColumns are what scanTool reads, of tools t and versions v.
const toolColumns = "t.id, t.name, t.labels, t.disabled, t.number, t.newest, t.created, t.updated, v.doc, v.review"

const toolFrom unlogged = "SELECT " + toolColumns +
	" FROM tools t LEFT JOIN versions v ON v.tool = t.id AND v.number = t.number WHERE "

// A row is a tool with what only the store knows.
type row struct {
	haft.Tool
	newest int
}

// scanTool reads one row.
func scanTool(r scanner) (t row, err error) {
	var label string
	var disabled, created, updated int64
	var number int
	var doc, review sql.NullString
	if err := r.Scan(&t.ID, &t.Name, &label, &disabled, &number, &t.newest, &created, &updated, &doc,
		&review); err != nil {
		return t, err
	}
	var l labels
	if err := stored.Decode(label, &l); err != nil {
		return t, err
	}
	t.Category, t.Tags, t.Metadata = l.Category, l.Tags, l.Metadata
	t.Disabled, t.Created, t.Updated = disabled != 0, stored.Time(created), stored.Time(updated)
	if !doc.Valid {
		return t, nil
	}
	t.Version, err = readVersion(number, doc.String, review.String)
	return t, err
}

// readVersion reads a version. Its number and review are kept beside it.
func readVersion(number int, doc, review string) (haft.Version, error) {
	var v haft.Version
	if err := stored.Decode(doc, &v); err != nil {
		return v, err
	}
	v.Number, v.Review = number, haft.Review{}
	return v, stored.Decode(review, &v.Review)
}

// toolsOf returns scanTool for the tools of an organisation.
func toolsOf(org string) func(scanner) (haft.Tool, error) {
	return func(r scanner) (haft.Tool, error) {
		t, err := scanTool(r)
		t.Org = org
		return t.Tool, err
	}
}

const toolByRef = toolFrom + "t.org = $1 AND (t.id = $2 OR t.name = $2)"

// Tool returns the tool of that id or name with its current version, or
// [haft.CodeNotFound]. Number is 0 if no version is current.
func (s Tools) Tool(ctx context.Context, org, ref string) (*haft.Tool, error) {
	all, err := list(ctx, s.db, "find the tool", toolsOf(org), toolByRef, column(org), column(ref))
	if err != nil {
		return nil, err
	}
	return pick(all, "tool", func(t *haft.Tool) bool { return string(t.ID) == ref })
}

const stampByRef unlogged = "SELECT id, number, updated FROM tools WHERE org = $1 AND (id = $2 OR name = $2)"

// ToolStamp tells cheaply whether a tool has changed: whatever changes, updated
// does too.
func (s Tools) ToolStamp(ctx context.Context, org,
	ref string) (id haft.ToolID, number int, updated time.Time, err error) {
	type stamp struct {
		id      haft.ToolID
		number  int
		updated int64
	}
	all, err := list(ctx, s.db, "find the tool", func(r scanner) (t stamp, err error) {
		err = r.Scan(&t.id, &t.number, &t.updated)
		return t, err
	}, stampByRef, column(org), column(ref))
	if err != nil {
		return "", 0, time.Time{}, err
	}
	t, err := pick(all, "tool", func(t *stamp) bool { return string(t.id) == ref })
	if err != nil {
		return "", 0, time.Time{}, err
	}
	return t.id, t.number, stored.Time(t.updated), nil
}

// Tools lists the tools of an organisation by name, or those first that were
// changed last, at most [MaxPage] of them.
// With a text to search for it lists what [Tools.SearchTools] finds and fits f.
func (s Tools) Tools(ctx context.Context, org string, f haft.ToolFilter) ([]haft.Tool, error) {
	if f.Search != "" {
		return s.searchFiltered(ctx, org, f)
	}
	return list(ctx, s.db, "list tools", stored.Listed(toolsOf(org)), toolQuery(org, f))
}

// toolQuery returns the query for one page. Each narrows what an index gives in
// the order of names.
func toolQuery(org string, f haft.ToolFilter) query {
	q := build(string(toolFrom)+"t.org = ?", column(org))
	order := "t.name"
	switch {
	case f.Recent:
		order = "t.updated DESC, t.name DESC"
		if f.After != "" {
			q.add(" AND (t.updated, t.name) < (?, ?)", stored.Micros(f.AfterTime), column(f.After))
		}
		if f.Tag != "" {
			q.add(" AND EXISTS (SELECT 1 FROM tool_tags g WHERE g.tool = t.id AND g.tag = ?)", column(f.Tag))
		}
	case f.Tag != "":
		q = build("SELECT "+toolColumns+" FROM tool_tags g JOIN tools t ON t.id = g.tool LEFT JOIN versions v ON "+
			"v.tool = t.id AND v.number = t.number WHERE g.org = ? AND g.name > ? AND g.tag = ?",
			column(org), column(f.After), column(f.Tag))
		order = "g.name"
	default:
		q.add(" AND t.name > ?", column(f.After))
	}
	if f.Category != "" {
		q.add(" AND t.category = ?", column(f.Category))
	}
	if f.Kind != "" {
		q.add(" AND t.kind = ?", column(string(f.Kind)))
	}
	switch {
	case f.Enabled != nil:
		q.add(" AND t.disabled = ?", stored.Bool(!*f.Enabled))
	case !f.Disabled:
		q.add(" AND t.disabled = 0")
	}
	q.add(" ORDER BY "+order+" LIMIT ?", page(f.Limit))
	return q.unlogged()
}

// RemoveTool removes a tool with its versions, or returns [haft.CodeNotFound], or
// [haft.CodeConflict] if its revision is not the one of the condition.
func (s Tools) RemoveTool(ctx context.Context, org string, id haft.ToolID, condition string) error {
	return s.db.write(ctx, "remove the tool", func(ctx context.Context, t *tx) error {
		if _, err := lockTool(ctx, t, org, id, condition); err != nil {
			return err
		}
		return removeTool(ctx, t, org, id)
	})
}

// removeTool removes a tool with its versions, or returns [haft.CodeNotFound].
func removeTool(ctx context.Context, t *tx, org string, id haft.ToolID) error {
	if err := t.execOr(ctx, notFound("tool"), "DELETE FROM tools WHERE id = $1 AND org = $2", column(string(id)),
		column(org)); err != nil {
		return err
	}
	return deleteOf(ctx, t, id, "versions", "tool_tags", "tool_words")
}

// deleteOf removes what tables have of a tool.
func deleteOf(ctx context.Context, t *tx, id haft.ToolID, tables ...string) error {
	for _, table := range tables {
		if _, err := t.exec(ctx, "DELETE FROM "+table+" WHERE tool = $1", column(string(id))); err != nil {
			return err
		}
	}
	return nil
}

// Version returns one version of a tool, or [haft.CodeNotFound].
func (s Tools) Version(ctx context.Context, org string, id haft.ToolID, number int) (*haft.Version, error) {
	return find(ctx, s.db, "version of the tool", scanVersion, versionFrom+"v.number = $3", column(org),
		column(string(id)), number)
}

// VersionByDigest returns the newest version with that digest, or
// [haft.CodeNotFound].
func (s Tools) VersionByDigest(ctx context.Context, org string, id haft.ToolID, digest string) (*haft.Version, error) {
	return find(ctx, s.db, "version of the tool", scanVersion,
		versionFrom+"v.digest = $3 ORDER BY v.number DESC LIMIT 1",
		column(org), column(string(id)), column(digest))
}

const versionFrom unlogged = "SELECT v.number, v.doc, v.review FROM versions v JOIN tools t ON t.id = v.tool WHERE " +
	"t.org = $1 AND v.tool = $2 AND "

func scanVersion(r scanner) (v haft.Version, err error) {
	var number int
	var doc, review string
	if err := r.Scan(&number, &doc, &review); err != nil {
		return v, err
	}
	return readVersion(number, doc, review)
}

// Versions lists the versions of a tool, newest first, before that number; 0
// means from the newest on.
func (s Tools) Versions(ctx context.Context, org string, id haft.ToolID, before, limit int) ([]haft.Version, error) {
	if before <= 0 {
		before = 1 << 62
	}
	return list(ctx, s.db, "list versions", scanVersion, versionFrom+"v.number < $3 ORDER BY v.number DESC LIMIT $4",
		column(org), column(string(id)), before, page(limit))
}

// findTool returns a tool inside a transaction, locked, or nil.
func findTool(ctx context.Context, t *tx, org string, where unlogged, arg string) (*row, error) {
	if t.s.dialect.ForUpdate != "" {
		where += unlogged(t.s.dialect.ForUpdate) + " OF t"
	}
	found, err := first(ctx, t, "find the tool", scanTool, toolFrom+"t.org = $1 AND "+where, column(org), column(arg))
	if found != nil {
		found.Org = org
	}
	return found, err
}

// lockTool returns the tool of that id, locked, if its revision is the one of the condition.
func lockTool(ctx context.Context, t *tx, org string, id haft.ToolID, condition string) (*row, error) {
	found, err := findTool(ctx, t, org, "t.id = $2", string(id))
	if err == nil && found == nil {
		err = notFound("tool")
	}
	if err != nil {
		return nil, err
	}
	return found, holds(condition, found.Revision())
}

// keep writes the row of a tool, and what it can be found by.
func keepTool(ctx context.Context, t *tx, tool *row, shown haft.Version) error {
	label, err := encodeText("category and tags", labels{tool.Category, tool.Tags, tool.Metadata})
	if err != nil {
		return err
	}
	org, id := column(tool.Org), column(string(tool.ID))
	err = t.execOr(ctx, conflict("another tool has that id"),
		`INSERT INTO tools (id, org, name, kind, category, labels, disabled, number, newest, created, updated)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11) ON CONFLICT (id) DO UPDATE SET kind = excluded.kind, category = excluded.category,
		labels = excluded.labels, disabled = excluded.disabled, number = excluded.number, newest = excluded.newest, updated = excluded.updated
		WHERE tools.org = excluded.org`,
		id, org, tool.Name, column(string(shown.Kind)), column(tool.Category), label, stored.Bool(tool.Disabled),
		tool.Version.Number, tool.newest, stored.Micros(tool.Created), stored.Micros(tool.Updated))
	if err != nil {
		return err
	}
	return indexTool(ctx, t, org, id, &tool.Tool, shown)
}

// index makes a tool findable by tags and words.
func indexTool(ctx context.Context, t *tx, org, id string, tool *haft.Tool, shown haft.Version) error {
	if err := deleteOf(ctx, t, tool.ID, "tool_tags", "tool_words"); err != nil {
		return err
	}
	var tags, found []any
	for _, tag := range slices.Compact(slices.Sorted(slices.Values(tool.Tags))) {
		tags = append(tags, org, column(tag), tool.Name, id)
	}
	if _, err := t.add(ctx, insertTags, tags); err != nil {
		return err
	}
	weights := words.OfTool(tool, shown.Description)
	for _, word := range slices.Sorted(maps.Keys(weights)) {
		found = append(found, org, word, weights[word], id)
	}
	_, err := t.add(ctx, insertWords, found)
	return err
}

var (
	insertTags  = &insert{"INSERT INTO tool_tags (org, tag, name, tool)", 4, ""}
	insertWords = &insert{"INSERT INTO tool_words (org, word, weight, tool)", 4, ""}
)

// addVersion keeps a version. It never changes, but for its review.
func addVersion(ctx context.Context, t *tx, id haft.ToolID, v haft.Version) error {
	review, err := stored.Encode(v.Review)
	if err != nil {
		return err
	}
	v.Review = haft.Review{}
	doc, err := stored.Encode(v)
	if err != nil {
		return err
	}
	if len(doc)+len(review) > MaxVersion {
		return invalid("the version of the tool has %d bytes, %d is the most", len(doc)+len(review), MaxVersion)
	}
	_, err = t.exec(ctx,
		"INSERT INTO versions (tool, number, digest, created, doc, review) VALUES ($1, $2, $3, $4, $5, $6)",
		column(string(id)), v.Number, column(v.Digest), stored.Micros(v.Created), doc, review)
	return err
}

// versionOf returns a version inside a transaction, or [haft.CodeNotFound].
func versionOf(ctx context.Context, t *tx, id haft.ToolID, number int) (haft.Version, error) {
	v, err := find(ctx, t, "version of the tool", scanVersion,
		unlogged("SELECT number, doc, review FROM versions WHERE tool = $1 AND number = $2"), column(string(id)),
		number)
	if err != nil {
		return haft.Version{}, err
	}
	return *v, nil
}

// setReview replaces the review of a version.
func setReview(ctx context.Context, t *tx, id haft.ToolID, number int, r haft.Review) error {
	review, err := encodeText("the review", r)
	if err != nil {
		return err
	}
	return t.execOr(ctx, notFound("version of the tool"),
		"UPDATE versions SET review = $1 WHERE tool = $2 AND number = $3", review, column(string(id)), number)
}
