package store

import (
	"context"
	"errors"
	"slices"

	"haft"
	"haft/internal/audit"
	"haft/internal/store/stored"
)

// eraseRows is how many rows are removed in one transaction.
const eraseRows = 500

// EraseAudit takes the content of entries of an organisation and adds the entry said, which
// vouches for that, in one transaction: a log is never found half erased. Afterwards the
// caller has what entries are found by made anew: see [Erasure.DropAuditIndex].
func (s Erasure) EraseAudit(ctx context.Context, erasure string, said audit.Entry, entries []int64) error {
	e := &encoded{}
	err := e.encodeAudit([]audit.Entry{said})
	stone := ""
	if err == nil {
		stone, err = stored.Encode(auditDoc{Kind: "erased", Erased: erasure})
	}
	if err != nil {
		return err
	}
	return s.db.write(ctx, "erase the audit trail", func(ctx context.Context, t *tx) error {
		if err := t.addAudit(ctx, e); err != nil {
			return err
		}
		return chunks(entries, func(part []int64) error {
			seqs := make([]any, len(part))
			for i, seq := range part {
				seqs[i] = seq
			}
			q := build("UPDATE audit SET doc = ?, body = '' WHERE org = ? AND seq IN ", stone, column(said.Org))
			q.in(seqs)
			_, err := t.run(ctx, q)
			return err
		})
	})
}

// DropAuditIndex removes what entries of an organisation are found by. The next search makes
// it anew. The mark goes with each part of the rows, so that there is no index with gaps if this is
// stopped, or if some of it is made anew meanwhile.
func (s Erasure) DropAuditIndex(ctx context.Context, org string) error {
	const rows = "DELETE FROM audit_facets WHERE (org, facet, value, at, seq) IN (SELECT org, facet, value, at, seq " +
		"FROM audit_facets WHERE org = $1 LIMIT $2)"
	for n := int64(eraseRows); n == eraseRows; {
		err := s.db.write(ctx, "drop the index of the audit trail", func(ctx context.Context, t *tx) (err error) {
			if _, err = t.exec(ctx, "DELETE FROM audit_indexed WHERE org = $1", column(org)); err != nil {
				return err
			}
			n, err = t.exec(ctx, rows, column(org), eraseRows)
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// eraseEach runs statements that remove some rows, each until there are no more. Their last
// argument is how many at once. API keys may be among the rows.
func (s Erasure) eraseEach(ctx context.Context, doing string, texts []string, args ...any) error {
	for _, text := range texts {
		for n := int64(eraseRows); n == eraseRows; {
			err := s.db.Keys.writeKeys(ctx, doing, func(ctx context.Context, t *tx) (err error) {
				n, err = t.exec(ctx, text, append(slices.Clone(args), eraseRows)...)
				return err
			})
			if err != nil {
				return err
			}
		}
	}
	return nil
}

const eraseCached = "DELETE FROM cached WHERE (org, name) IN (SELECT org, name FROM cached WHERE org = $1 LIMIT $2)"

// EraseUser removes what belongs to a user of an organisation and has ended, but for the
// audit: calls with approvals and chains, events, idempotency keys, API keys and letters that
// could not be delivered, and logins at MCP servers, which are secrets of the kinds logins.
// Usage stays, under no name, and cached values of the organisation go.
func (s Erasure) EraseUser(ctx context.Context, org, user string, logins []string) error {
	if user == "" {
		return invalid("a user has a name")
	}
	err := s.eraseCalls(ctx, org, user)
	if err == nil {
		err = s.eraseEvents(ctx, org, user)
	}
	if err == nil {
		err = s.eraseEach(ctx, eraseAUser, []string{"DELETE FROM claims WHERE (org, scope, agent, name) IN (SELECT " +
			"org, scope, agent, name FROM claims WHERE org = $1 AND scope = $2 LIMIT $3)"}, column(org), column(user))
	}
	if err == nil {
		err = s.eraseEach(ctx, eraseAUser, []string{eraseCached}, column(org))
	}
	if err == nil {
		err = s.eraseDocs(ctx, org, user)
	}
	if err != nil {
		return err
	}
	return s.db.write(ctx, eraseAUser, func(ctx context.Context, t *tx) error {
		return errors.Join(t.eraseUsage(ctx, "tool", "org, hour, tool, status", "org = $1 AND usr = $2",
			column(org), column(user)), t.eraseLogins(ctx, org, user, logins))
	})
}

// eraseAUser says in errors what EraseUser does.
const eraseAUser = "erase a user"

// eraseCalls removes the ended calls of a user, or of all if that is empty.
func (s Erasure) eraseCalls(ctx context.Context, org, user string) error {
	q := build("SELECT id, chain FROM calls WHERE org = ? AND final = 1", column(org))
	if user != "" {
		q.add(" AND usr = ? AND usr <> ''", column(user))
	}
	q.add(" LIMIT ?", pruneCalls)
	for {
		found, err := list(ctx, s.db, "erase calls", scanPair[string, string], q.logged())
		if err != nil || len(found) == 0 {
			return err
		}
		var ids, chains []any
		for _, call := range found {
			ids, chains = append(ids, call.a), addChain(chains, call.b)
		}
		var gone int64
		err = s.db.write(ctx, "erase calls", func(ctx context.Context, t *tx) (err error) {
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
func (s Erasure) eraseEvents(ctx context.Context, org, user string) error {
	const doing = "erase events"
	for from := int64(0); ; {
		seen, err := list(ctx, s.db, doing, scalar[int64],
			logged("SELECT cursor FROM events WHERE org = $1 AND cursor > $2 ORDER BY cursor LIMIT $3"), column(org),
			from, eraseRows)
		if err != nil || len(seen) == 0 {
			return err
		}
		last := seen[len(seen)-1]
		err = s.db.write(ctx, doing, func(ctx context.Context, t *tx) error {
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
	_, err := t.exec(ctx, "UPDATE marks SET value = ("+string(highest)+") WHERE name = 'events'")
	return err
}

// eraseDocs removes the API keys of a user, and letters about the user.
func (s Erasure) eraseDocs(ctx context.Context, org, user string) error {
	const doing = "erase keys and letters"
	keys, err := list(ctx, s.db, doing, scanKey, keyColumns+"WHERE org = $1", column(org))
	if err != nil {
		return err
	}
	type letter struct {
		hook, id, doc string
		haft.DeadLetter
	}
	letters, err := list(ctx, s.db, doing, func(r scanner) (l letter, err error) {
		if err := r.Scan(&l.hook, &l.id, &l.doc); err != nil {
			return l, err
		}
		err = stored.Decode(l.doc, &l.DeadLetter)
		return l, err
	}, unlogged("SELECT l.hook, l.id, l.doc FROM dead_letters l JOIN webhooks w ON w.id = l.hook WHERE w.org = $1"),
		column(org))
	if err != nil {
		return err
	}
	return s.db.Keys.writeKeys(ctx, doing, func(ctx context.Context, t *tx) error {
		var errs []error
		for _, k := range keys {
			if k.User == user {
				_, err := t.exec(ctx, "DELETE FROM api_keys WHERE id = $1", k.ID)
				errs = append(errs, err)
			}
		}
		for _, l := range letters {
			if l.Event.Principal.Owner() == user {
				_, err := t.exec(ctx, "DELETE FROM dead_letters WHERE hook = $1 AND id = $2", l.hook, l.id)
				errs = append(errs, err)
			}
		}
		return errors.Join(errs...)
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
	return t.markSecrets(ctx, org)
}

// eraseUsage counts under no name what rows that fit where counted: under the given tool, by
// the given groups.
func (t *tx) eraseUsage(ctx context.Context, tool, groups, where string, args ...any) error {
	_, err := t.exec(ctx,
		insertUsage.head+" SELECT org, hour, "+tool+", '', '', status, SUM(calls), SUM(cached), SUM(wall), SUM(cpu), "+
			"SUM(output), SUM(network), MAX(rss) FROM "+
			"usage_hours WHERE "+where+" GROUP BY "+groups+insertUsage.tail, args...)
	if err != nil {
		return err
	}
	_, err = t.exec(ctx, "DELETE FROM usage_hours WHERE "+where, args...)
	return err
}

// EraseOrg removes everything that belongs to an organisation and has ended, but for the
// audit and for what was used, which stays under no name but that of the organisation.
func (s Erasure) EraseOrg(ctx context.Context, org string) error {
	const doing = "erase an organisation"
	err := s.eraseCalls(ctx, org, "")
	if err == nil {
		err = s.eraseEvents(ctx, org, "")
	}
	if err == nil {
		err = s.eraseEach(ctx, doing, eraseOrg(), column(org))
	}
	if err != nil {
		return err
	}
	return s.db.write(ctx, doing, func(ctx context.Context, t *tx) error {
		return errors.Join(t.eraseUsage(ctx, "''", "org, hour, status",
			"org = $1 AND (tool <> '' OR usr <> '' OR agent <> '')", column(org)), t.markSecrets(ctx, org))
	})
}

// eraseOrg are the statements that remove what belongs to an organisation.
func eraseOrg() []string {
	var texts []string
	for _, t := range []struct{ table, key, rows string }{
		{"claims", "org, scope, agent, name", ""},
		{"cached", "org, name", ""},
		{"chains", "id", "SELECT id FROM chains WHERE org = $1 AND final = 1"},
		{"tool_words", "org, word, weight, tool", ""},
		{"tool_tags", "org, tag, name", ""},
		{"versions", "tool, number",
			"SELECT v.tool, v.number FROM versions v JOIN tools t ON t.id = v.tool WHERE t.org = $1"},
		{"tools", "id", ""},
		{"agents", "id", ""},
		{"secrets", "org, kind, scope, name", ""},
		{"api_keys", "id", ""},
		{"sandbox_configs", "id", ""},
		{"mcp_servers", "id", ""},
		{"locks", "org, id", ""},
		{"policies", "org", ""},
		{"dead_letters", "hook, id",
			"SELECT l.hook, l.id FROM dead_letters l JOIN webhooks w ON w.id = l.hook WHERE w.org = $1"},
		{"webhooks", "id", ""},
	} {
		if t.rows == "" {
			t.rows = "SELECT " + t.key + " FROM " + t.table + " WHERE org = $1"
		}
		texts = append(texts, "DELETE FROM "+t.table+" WHERE ("+t.key+") IN ("+t.rows+" LIMIT $2)")
	}
	return texts
}
