package store

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"haft"
	"haft/internal/audit"
)

// eraseRows is how many rows are removed in one transaction.
const eraseRows = 500

// EraseAudit takes the content of entries of an organisation and adds the entry said, which
// vouches for that, in one transaction: a log is never found half erased. Afterwards the
// caller has what entries are found by made anew: see [Store.DropAuditIndex].
func (s *Store) EraseAudit(ctx context.Context, erasure string, said audit.Entry, entries []int64) error {
	e := &encoded{}
	err := e.encodeAudit([]audit.Entry{said})
	stone := ""
	if err == nil {
		stone, err = encode(auditDoc{Kind: "erased", Erased: erasure})
	}
	if err != nil {
		return fmt.Errorf("erase the audit trail: %w", err)
	}
	err = s.write(ctx, func(ctx context.Context, t *tx) error {
		if err := t.addAudit(ctx, e); err != nil {
			return err
		}
		return chunks(entries, func(part []int64) error {
			args := make([]any, len(part))
			for i, seq := range part {
				args[i] = seq
			}
			args = pad(args)
			_, err := t.exec(ctx, "UPDATE audit SET doc = $1, body = '' WHERE org = $2 AND seq IN "+in(len(args), 3),
				append([]any{stone, column(said.Org)}, args...)...)
			return err
		})
	})
	if err != nil {
		return fmt.Errorf("erase the audit trail: %w", err)
	}
	return nil
}

// DropAuditIndex removes what entries of an organisation are found by. The next search makes
// it anew. The mark goes first, so that one that was stopped leaves no index with gaps, and
// last, for a search that made some of it anew meanwhile.
func (s *Store) DropAuditIndex(ctx context.Context, org string) error {
	const mark = "DELETE FROM audit_indexed WHERE org IN (SELECT org FROM audit_indexed WHERE org = $1 LIMIT $2)"
	const rows = "DELETE FROM audit_facets WHERE (org, facet, value, at, seq) IN (SELECT org, facet, value, at, seq " +
		"FROM audit_facets WHERE org = $1 LIMIT $2)"
	for _, text := range []string{mark, rows, mark} {
		if err := s.eraseEach(ctx, text, column(org)); err != nil {
			return fmt.Errorf("drop the index of the audit trail: %w", err)
		}
	}
	return nil
}

// eraseEach runs a statement that removes some rows until there are no more. Its last
// argument is how many at once. API keys may be among the rows.
func (s *Store) eraseEach(ctx context.Context, text string, args ...any) error {
	for {
		var n int64
		err := s.writeKeys(ctx, func(ctx context.Context, t *tx) (err error) {
			n, err = t.exec(ctx, text, append(slices.Clone(args), eraseRows)...)
			return err
		})
		if err != nil || n < eraseRows {
			return err
		}
	}
}

const eraseCached = "DELETE FROM cached WHERE (org, name) IN (SELECT org, name FROM cached WHERE org = $1 LIMIT $2)"

// EraseUser removes what belongs to a user of an organisation and has ended, but for the
// audit: calls with approvals and chains, events, idempotency keys, API keys and letters that
// could not be delivered, and logins at MCP servers, which are secrets of the kinds logins.
// Usage stays, under no name, and cached values of the organisation go.
func (s *Store) EraseUser(ctx context.Context, org, user string, logins []string) error {
	if user == "" {
		return invalid("a user has a name")
	}
	err := s.eraseCalls(ctx, org, user)
	if err == nil {
		err = s.eraseEvents(ctx, org, user)
	}
	if err == nil {
		err = s.eraseEach(ctx, "DELETE FROM claims WHERE (org, scope, agent, name) IN (SELECT org, scope, agent, "+
			"name FROM claims WHERE org = $1 AND scope = $2 LIMIT $3)", column(org), column(user))
	}
	if err == nil {
		err = s.eraseEach(ctx, eraseCached, column(org))
	}
	if err == nil {
		err = s.eraseDocs(ctx, org, user)
	}
	if err == nil {
		err = s.write(ctx, func(ctx context.Context, t *tx) error {
			return errors.Join(t.eraseUsage(ctx, org, user), t.eraseLogins(ctx, org, user, logins))
		})
	}
	if err != nil {
		return fmt.Errorf("erase a user: %w", err)
	}
	return nil
}

// eraseCalls removes the ended calls of a user, or of all if that is empty.
func (s *Store) eraseCalls(ctx context.Context, org, user string) error {
	text, args := "SELECT id, chain FROM calls WHERE org = $1 AND final = 1", []any{column(org)}
	if user != "" {
		text, args = text+" AND usr = $2 AND usr <> ''", append(args, column(user))
	}
	for {
		var ids, chains []any
		err := s.rows(ctx, func(r scanner) error {
			var id, chain string
			err := r.Scan(&id, &chain)
			ids = append(ids, id)
			if chain != "" && !slices.Contains(chains, any(chain)) {
				chains = append(chains, chain)
			}
			return err
		}, text+fmt.Sprintf(" LIMIT %d", pruneCalls), args...)
		if err != nil || len(ids) == 0 {
			return err
		}
		var gone int64
		err = s.write(ctx, func(ctx context.Context, t *tx) (err error) {
			gone, err = t.removeCalls(ctx, org, ids, chains)
			return err
		})
		if err != nil {
			return err
		}
		if gone == 0 {
			return conflict("a chain of calls has not ended: try again when it has")
		}
	}
}

// eraseEvents removes the events of a user, or of all if that is empty.
func (s *Store) eraseEvents(ctx context.Context, org, user string) error {
	for from := int64(0); ; {
		last, seen := int64(0), 0
		err := s.rows(ctx, func(r scanner) error { seen++; return r.Scan(&last) },
			"SELECT cursor FROM events WHERE org = $1 AND cursor > $2 ORDER BY cursor LIMIT $3", column(org), from,
			eraseRows)
		if err != nil || seen == 0 {
			return err
		}
		err = s.write(ctx, func(ctx context.Context, t *tx) error {
			if err := t.keepCursor(ctx); err != nil {
				return err
			}
			_, err := t.exec(ctx, "DELETE FROM events WHERE org = $1 AND cursor > $2 AND cursor <= $3 AND (usr = $4 "+
				"OR $4 = '')", column(org), from, last, column(user))
			return err
		})
		if err != nil {
			return err
		}
		from = last
	}
}

// keepCursor keeps the highest cursor, so that none is given twice after the events with the
// highest ones are gone.
func (t *tx) keepCursor(ctx context.Context) error {
	_, err := t.exec(ctx, "UPDATE marks SET value = (SELECT MAX(c) FROM (SELECT MAX(cursor) AS c FROM events UNION "+
		"ALL SELECT value FROM marks WHERE name IN ('events', 'events_lost')) AS h) WHERE name = 'events'")
	return err
}

// eraseDocs removes the API keys of a user, and letters about the user.
func (s *Store) eraseDocs(ctx context.Context, org, user string) error {
	type row struct{ table, key, id string }
	var gone []row
	err := s.rows(ctx, func(r scanner) error {
		var id, doc string
		var k struct {
			User string `json:"user"`
		}
		if err := r.Scan(&id, &doc); err != nil {
			return err
		}
		err := decode(doc, &k)
		if k.User == user {
			gone = append(gone, row{"api_keys", id, ""})
		}
		return err
	}, "SELECT id, doc FROM api_keys WHERE org = $1", column(org))
	if err != nil {
		return err
	}
	err = s.rows(ctx, func(r scanner) error {
		var hook, id, doc string
		var l haft.DeadLetter
		if err := r.Scan(&hook, &id, &doc); err != nil {
			return err
		}
		err := decode(doc, &l)
		if l.Event.Principal.Owner() == user {
			gone = append(gone, row{"dead_letters", hook, id})
		}
		return err
	}, "SELECT l.hook, l.id, l.doc FROM dead_letters l JOIN webhooks w ON w.id = l.hook WHERE w.org = $1", column(org))
	if err != nil {
		return err
	}
	return s.writeKeys(ctx, func(ctx context.Context, t *tx) error {
		for _, g := range gone {
			text, args := "DELETE FROM api_keys WHERE id = $1", []any{g.key}
			if g.table == "dead_letters" {
				text, args = "DELETE FROM dead_letters WHERE hook = $1 AND id = $2", []any{g.key, g.id}
			}
			if _, err := t.exec(ctx, text, args...); err != nil {
				return err
			}
		}
		return nil
	})
}

// eraseLogins removes the logins of a user at MCP servers.
func (t *tx) eraseLogins(ctx context.Context, org, user string, kinds []string) error {
	for _, kind := range kinds {
		_, err := t.exec(ctx, "DELETE FROM secrets WHERE org = $1 AND kind = $2 AND scope IN (SELECT id || '/' || "+
			"$3 FROM mcp_servers WHERE org = $1)",
			column(org), column(kind), user)
		if err != nil {
			return err
		}
	}
	return markSecrets(ctx, t, org)
}

// eraseUsage counts what a user used under no name.
func (t *tx) eraseUsage(ctx context.Context, org, user string) error {
	_, err := t.exec(ctx,
		`INSERT INTO usage_hours (org, hour, tool, usr, agent, status, calls, cached, wall, cpu, output)
		SELECT org, hour, tool, '', '', status, SUM(calls), SUM(cached), SUM(wall), SUM(cpu), SUM(output) FROM usage_hours
		WHERE org = $1 AND usr = $2 GROUP BY org, hour, tool, status`+insertUsage.tail, column(org), column(user))
	if err != nil {
		return err
	}
	_, err = t.exec(ctx, "DELETE FROM usage_hours WHERE org = $1 AND usr = $2", column(org), column(user))
	return err
}

// EraseOrg removes everything that belongs to an organisation and has ended, but for the
// audit and for what was used, which stays under no name but that of the organisation.
func (s *Store) EraseOrg(ctx context.Context, org string) error {
	err := s.eraseCalls(ctx, org, "")
	if err == nil {
		err = s.eraseEvents(ctx, org, "")
	}
	for _, text := range eraseOrg() {
		if err == nil {
			err = s.eraseEach(ctx, text, column(org))
		}
	}
	if err == nil {
		err = s.write(ctx, func(ctx context.Context, t *tx) error {
			_, err := t.exec(ctx,
				`INSERT INTO usage_hours (org, hour, tool, usr, agent, status, calls, cached, wall, cpu, output)
				SELECT org, hour, '', '', '', status, SUM(calls), SUM(cached), SUM(wall), SUM(cpu), SUM(output) FROM usage_hours
				WHERE org = $1 AND (tool <> '' OR usr <> '' OR agent <> '') GROUP BY org, hour, status`+insertUsage.tail, column(org))
			if err == nil {
				_, err = t.exec(ctx,
					"DELETE FROM usage_hours WHERE org = $1 AND (tool <> '' OR usr <> '' OR agent <> '')", column(org))
			}
			return errors.Join(err, markSecrets(ctx, t, org))
		})
	}
	if err != nil {
		return fmt.Errorf("erase an organisation: %w", err)
	}
	return nil
}

// eraseOrg are the statements that remove what belongs to an organisation.
func eraseOrg() []string {
	return []string{
		"DELETE FROM claims WHERE (org, scope, agent, name) IN (SELECT org, scope, agent, name FROM claims WHERE " +
			"org = $1 LIMIT $2)",
		eraseCached,
		"DELETE FROM chains WHERE id IN (SELECT id FROM chains WHERE org = $1 AND final = 1 LIMIT $2)",
		"DELETE FROM tool_words WHERE (org, word, weight, tool) IN (SELECT org, word, weight, tool FROM tool_words " +
			"WHERE org = $1 LIMIT $2)",
		"DELETE FROM tool_tags WHERE (org, tag, name) IN (SELECT org, tag, name FROM tool_tags WHERE org = $1 " +
			"LIMIT $2)",
		"DELETE FROM versions WHERE (tool, number) IN (SELECT v.tool, v.number FROM versions v JOIN tools t ON t.id " +
			"= v.tool WHERE t.org = $1 LIMIT $2)",
		"DELETE FROM tools WHERE id IN (SELECT id FROM tools WHERE org = $1 LIMIT $2)",
		"DELETE FROM agents WHERE id IN (SELECT id FROM agents WHERE org = $1 LIMIT $2)",
		"DELETE FROM secrets WHERE (org, kind, scope, name) IN (SELECT org, kind, scope, name FROM secrets WHERE " +
			"org = $1 LIMIT $2)",
		"DELETE FROM api_keys WHERE id IN (SELECT id FROM api_keys WHERE org = $1 LIMIT $2)",
		"DELETE FROM sandbox_configs WHERE id IN (SELECT id FROM sandbox_configs WHERE org = $1 LIMIT $2)",
		"DELETE FROM mcp_servers WHERE id IN (SELECT id FROM mcp_servers WHERE org = $1 LIMIT $2)",
		"DELETE FROM locks WHERE (org, id) IN (SELECT org, id FROM locks WHERE org = $1 LIMIT $2)",
		"DELETE FROM policies WHERE org IN (SELECT org FROM policies WHERE org = $1 LIMIT $2)",
		"DELETE FROM dead_letters WHERE (hook, id) IN (SELECT l.hook, l.id FROM dead_letters l JOIN webhooks w ON " +
			"w.id = l.hook WHERE w.org = $1 LIMIT $2)",
		"DELETE FROM webhooks WHERE id IN (SELECT id FROM webhooks WHERE org = $1 LIMIT $2)",
	}
}
