package memorystore

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"haft"
	"haft/internal/store"
	"haft/internal/store/words"
)

// messagePrefix begins the id of every message.
const messagePrefix = "message-"

// insertMessages adds messages.
var insertMessages = store.NewInsert("messages", "agent", "seq", "id", "org", "usr", "turn", "role", "replaces",
	"created", "doc")

// A messageDoc is a message as it is kept.
type messageDoc struct {
	haft.Message
	Opaque json.RawMessage     `json:"opaque,omitempty"`
	Images []haft.MessageImage `json:"images,omitempty"`
}

// encode returns v as JSON text that every database takes: a NUL in it is escaped, and what is not UTF-8 replaced.
func encode(what string, v any, most int) (string, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return "", &haft.Error{Code: haft.CodeInvalid, Message: "a part of the " + what + " is not JSON", Err: err}
	}
	if b.Len() > most {
		return "", tooLarge(what, most)
	}
	text := strings.TrimSuffix(b.String(), "\n")
	return strings.ToValidUTF8(text, string(utf8.RuneError)), nil
}

// decode reads what encode wrote, and other columns behind it.
func decode[T any](r store.Scanner, others ...any) (v T, err error) {
	var doc []byte
	if err := r.Scan(append([]any{&doc}, others...)...); err != nil {
		return v, err
	}
	if err := json.Unmarshal(doc, &v); err != nil {
		return v, fmt.Errorf("read what was kept: %w", err)
	}
	return v, nil
}

func tooLarge(what string, most int) error {
	return &haft.Error{Code: haft.CodeInvalid, Message: fmt.Sprintf("the %s is larger than %d bytes", what, most)}
}

// size is how many bytes a message has at least.
func size(m *haft.Message) int {
	n := len(m.Text) + len(m.Reasoning) + len(m.Opaque) + len(m.Name) + len(m.Answers)
	for _, c := range m.Calls {
		n += len(c.ID) + len(c.Tool) + len(c.Args) + len(c.Malformed)
	}
	return n
}

// checkMessages reports what is wrong with messages, before anything is locked.
func checkMessages(messages []haft.Message) error {
	if len(messages) > maxMessages {
		return &haft.Error{Code: haft.CodeInvalid, Message: fmt.Sprintf("more than %d messages are added at once",
			maxMessages)}
	}
	all := 0
	for i := range messages {
		m := &messages[i]
		if size(m) > maxMessage {
			return tooLarge("message", maxMessage)
		}
		if all += size(m); all > maxBatch {
			return tooLarge("list of messages", maxBatch)
		}
		if !slices.Contains(roles(), m.Role) {
			return &haft.Error{Code: haft.CodeInvalid, Message: "the message has no known role"}
		}
	}
	return nil
}

func roles() []haft.MessageRole {
	return []haft.MessageRole{haft.RoleUser, haft.RoleAssistant, haft.RoleTool, haft.RoleSummary}
}

// addMessages adds messages to a turn, and returns them as they are kept.
func addMessages(ctx context.Context, t store.Tx, turn *haft.Turn, messages []haft.Message) ([]haft.Message, error) {
	has, err := touch(ctx, t, turn.Principal.Org, turn.Agent, counts{seq: int64(len(messages))})
	if err != nil {
		return nil, err
	}
	var rows, terms []any
	bytes := 0
	kept, user, at := make([]haft.Message, len(messages)), store.Column(turn.Principal.Owner()), now()
	for i, m := range messages {
		m.Created = at.Add(time.Duration(i) * time.Microsecond)
		m.ID, m.Agent, m.Turn = haft.MessageID(newID(messagePrefix, m.Created)), turn.Agent, turn.ID
		m.Seq = has.seq - int64(len(messages)-1-i)
		replaces := int64(0)
		if m.Role == haft.RoleSummary {
			replaces = min(m.Replaces, m.Seq-1)
		}
		doc, err := encode("message", messageDoc{m, m.Opaque, m.Images}, 2*maxMessage)
		if err != nil {
			return nil, err
		}
		rows = append(rows, string(m.Agent), m.Seq, string(m.ID), store.Column(turn.Principal.Org), user,
			string(m.Turn), string(m.Role), replaces, m.Created.UnixMicro(), doc)
		terms = termRows(terms, string(m.Agent), userKey(user), string(m.ID), m.Text, nil)
		kept[i] = m
		bytes += len(doc)
	}
	if bytes > 0 {
		if _, err := touch(ctx, t, turn.Principal.Org, turn.Agent, counts{bytes: int64(bytes)}); err != nil {
			return nil, err
		}
		if err := share(ctx, t, turn.Agent, user, int64(bytes)); err != nil {
			return nil, err
		}
	}
	if err := t.Add(ctx, insertMessages, rows); err != nil {
		return nil, err
	}
	return kept, t.Add(ctx, insertTerms, terms)
}

// userKey begins the terms of the messages of a user.
func userKey(user string) string { return "@" + user + "/" }

// Messages lists messages of the turns of a user with an agent, or of all users if that is empty: in their order, or
// the best ones first if f has a query. A search of the messages of all users looks at the newest ones only.
func (s *Store) Messages(ctx context.Context, org, user string, agent haft.AgentID,
	f haft.MessageFilter) ([]haft.Message, error) {
	if err := checkQuery(f.Query); err != nil {
		return nil, err
	}
	for _, role := range f.Roles {
		if !slices.Contains(roles(), role) {
			return nil, invalid("/roles", "expected user, assistant, tool or summary")
		}
	}
	if f.Query == "" {
		return list(ctx, s, scanMessage, inOrder(org, user, agent, f, page(f.Limit)))
	}
	if user == "" {
		return newSearch(s, f.Query).ofAll(ctx, org, agent, f)
	}
	sp := newSpan(store.Column(string(agent)), messagePrefix, f.Since, f.Till, f.Newest)
	sp.key = userKey(store.Column(user))
	found, err := s.search(ctx, sp, f.Query, nil, false)
	if err != nil {
		return nil, err
	}
	return read(found, page(f.Limit), messageID, func(ids []any) ([]haft.Message, bool, error) {
		q := query("SELECT doc FROM messages WHERE org = ? AND "+ofAgent, store.Column(org), sp.agent)
		q.Add(" AND id IN ")
		q.In(ids)
		narrow(q, user, agent, f, f.Roles)
		return some(ctx, s, scanMessage, q)
	})
}

func messageID(m haft.Message) string { return string(m.ID) }

// ofAll searches the newest messages of all users. They have no terms in common, so that their texts are looked at.
func (q *search) ofAll(ctx context.Context, org string, agent haft.AgentID, f haft.MessageFilter) ([]haft.Message,
	error) {
	newest := f
	newest.Newest = true
	messages, err := list(ctx, q.Store, scanMessage, inOrder(org, "", agent, newest, maxFound))
	if err != nil {
		return nil, err
	}
	byID := make(map[string]haft.Message, len(messages))
	for _, m := range messages {
		byID[messageID(m)] = m
		for word, weight := range words.OfText(m.Text) {
			q.note([]posting{{messageID(m), word, weight}})
		}
	}
	var best []haft.Message
	for _, c := range q.rank(f.Newest) {
		best = append(best, byID[c.ID])
	}
	return best[:min(len(best), page(f.Limit))], nil
}

// inOrder selects messages in their order. Each role has an index of its own, so that one that few messages have is
// found without a look at all of them.
func inOrder(org, user string, agent haft.AgentID, f haft.MessageFilter, limit int) store.Query {
	order := " ORDER BY seq"
	if f.Newest {
		order = " ORDER BY seq DESC"
	}
	parts := [][]haft.MessageRole{f.Roles}
	if user != "" && len(f.Roles) > 1 {
		parts = slices.Collect(slices.Chunk(slices.Compact(slices.Sorted(slices.Values(f.Roles))), 1))
	}
	of := "agent = ?"
	if f.Turn != "" {
		of = ofAgent
	}
	q := query("SELECT doc FROM (")
	for i, part := range parts {
		if i > 0 {
			q.Add(" UNION ALL ")
		}
		q.Add("SELECT * FROM (SELECT seq, doc FROM messages WHERE org = ? AND "+of, store.Column(org),
			store.Column(string(agent)))
		narrow(q, user, agent, f, part)
		q.Add(order+" LIMIT ?) r", limit)
	}
	q.Add(") m"+order+" LIMIT ?", limit)
	return q
}

// clockSkew is by how much the clocks of two servers may differ.
const clockSkew = time.Minute

// narrow adds the conditions of a filter to a query for messages of an agent, but for the words. Messages have numbers
// in the order of their times, as far as clocks agree: the first one of a time is found by its id.
func narrow(q store.Query, user string, agent haft.AgentID, f haft.MessageFilter, roles []haft.MessageRole) {
	const bySeq = "COALESCE((SELECT x.seq FROM messages x WHERE x.agent = ? AND x.id "
	q.Add(" AND seq > ?", f.After)
	if user != "" {
		q.Add(" AND usr = ?", store.Column(user))
	}
	if f.Before > 0 {
		q.Add(" AND seq < ?", f.Before)
	}
	if f.Turn != "" {
		q.Add(" AND turn = ?", store.Column(string(f.Turn)))
	}
	if !f.Since.IsZero() {
		q.Add(" AND created >= ? AND seq >= "+bySeq+">= ? ORDER BY x.id LIMIT 1), ?)", f.Since.UnixMicro(),
			store.Column(string(agent)), idTime(messagePrefix, f.Since.Add(-clockSkew)), int64(math.MaxInt64))
	}
	if !f.Till.IsZero() {
		q.Add(" AND created < ? AND seq <= "+bySeq+"< ? ORDER BY x.id DESC LIMIT 1), 0)", f.Till.UnixMicro(),
			store.Column(string(agent)), idTime(messagePrefix, f.Till.Add(clockSkew)))
	}
	if len(roles) > 0 {
		q.Add(" AND role IN ")
		q.In(anys(roles, func(role haft.MessageRole) string { return string(role) }))
	}
}

func scanMessage(r store.Scanner) (haft.Message, error) {
	d, err := decode[messageDoc](r)
	d.Message.Opaque, d.Message.Images = d.Opaque, d.Images
	return d.Message, err
}
