package memorystore

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"haft"
	"haft/internal/store"
)

// messagePrefix begins the id of every message.
const messagePrefix = "message-"

// insertMessages adds messages.
var insertMessages = store.NewInsert("messages", "agent", "seq", "id", "org", "usr", "turn", "role", "replaces",
	"created", "doc")

// A messageDoc is a message as it is kept.
type messageDoc struct {
	haft.Message
	Opaque json.RawMessage `json:"opaque,omitempty"`
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
	for i := range messages {
		m := &messages[i]
		if size(m) > maxMessage {
			return tooLarge("message", maxMessage)
		}
		if !slices.Contains([]haft.MessageRole{haft.RoleUser, haft.RoleAssistant, haft.RoleTool, haft.RoleSummary},
			m.Role) {
			return &haft.Error{Code: haft.CodeInvalid, Message: "the message has no known role"}
		}
	}
	return nil
}

// addMessages adds messages to a turn, and returns them as they are kept.
func addMessages(ctx context.Context, t store.Tx, turn *haft.Turn, messages []haft.Message) ([]haft.Message, error) {
	has, err := touch(ctx, t, turn.Principal.Org, turn.Agent, counts{seq: int64(len(messages))})
	if err != nil {
		return nil, err
	}
	var rows, terms []any
	kept, user, at := make([]haft.Message, len(messages)), store.Column(turn.Principal.Owner()), now()
	for i, m := range messages {
		m.Created = at.Add(time.Duration(i) * time.Microsecond)
		m.ID, m.Agent, m.Turn = haft.MessageID(newID(messagePrefix, m.Created)), turn.Agent, turn.ID
		m.Seq = has.seq - int64(len(messages)-1-i)
		replaces := int64(0)
		if m.Role == haft.RoleSummary {
			replaces = min(m.Replaces, m.Seq-1)
		}
		doc, err := encode("message", messageDoc{m, m.Opaque}, 2*maxMessage)
		if err != nil {
			return nil, err
		}
		rows = append(rows, string(m.Agent), m.Seq, string(m.ID), store.Column(turn.Principal.Org), user,
			string(m.Turn), string(m.Role), replaces, m.Created.UnixMicro(), doc)
		terms = termRows(terms, string(m.Agent), string(m.ID), m.Text, nil)
		kept[i] = m
	}
	if err := t.Add(ctx, insertMessages, rows); err != nil {
		return nil, err
	}
	return kept, t.Add(ctx, insertTerms, terms)
}

// Messages lists messages of the turns of a user with an agent, or of all users if that is empty: in their order, or
// the best ones first if f has a query.
func (s *Store) Messages(ctx context.Context, org, user string, agent haft.AgentID,
	f haft.MessageFilter) ([]haft.Message, error) {
	if err := checkQuery(f.Query); err != nil {
		return nil, err
	}
	if len(f.Roles) > maxPage {
		return nil, invalid("/roles", "expected fewer roles")
	}
	if f.Query == "" {
		q := fitting(org, user, agent, f, nil)
		order := ""
		if f.Newest {
			order = " DESC"
		}
		q.Add(" ORDER BY seq"+order+" LIMIT ?", page(f.Limit))
		return list(ctx, s, scanMessage, q)
	}
	found, err := s.search(ctx, newSpan(store.Column(string(agent)), messagePrefix, f.Since, f.Till, f.Newest), f.Query,
		nil, false)
	if err != nil {
		return nil, err
	}
	return read(found, page(f.Limit), func(m haft.Message) string { return string(m.ID) },
		func(ids []any) ([]haft.Message, error) {
			return list(ctx, s, scanMessage, fitting(org, user, agent, f, ids))
		})
}

// fitting selects messages that fit a filter, but for its query; of some ids, if there are any.
func fitting(org, user string, agent haft.AgentID, f haft.MessageFilter, ids []any) store.Query {
	of := "agent = ?"
	if len(ids) > 0 {
		of = ofAgent
	}
	q := query("SELECT doc FROM messages WHERE org = ? AND "+of+" AND seq > ?", store.Column(org),
		store.Column(string(agent)), f.After)
	if len(ids) > 0 {
		q.Add(" AND id IN ")
		q.In(ids)
	}
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
		q.Add(" AND created >= ?", f.Since.UnixMicro())
	}
	if !f.Till.IsZero() {
		q.Add(" AND created < ?", f.Till.UnixMicro())
	}
	if len(f.Roles) > 0 {
		q.Add(" AND role IN ")
		q.In(anys(f.Roles, func(role haft.MessageRole) string { return store.Column(string(role)) }))
	}
	return q
}

func scanMessage(r store.Scanner) (haft.Message, error) {
	d, err := decode[messageDoc](r)
	d.Message.Opaque = d.Opaque
	return d.Message, err
}
