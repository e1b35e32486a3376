ALTER TABLE passages ADD COLUMN usr {text} NOT NULL DEFAULT '';

CREATE INDEX passages_usr ON passages (org, usr, id) WHERE usr <> '';

ALTER TABLE memories ADD COLUMN bytes BIGINT NOT NULL DEFAULT 0;

UPDATE memories SET bytes = (SELECT COALESCE(SUM(OCTET_LENGTH(body) + OCTET_LENGTH(tags)), 0) FROM passages WHERE passages.agent = memories.agent)
	+ (SELECT COALESCE(SUM(OCTET_LENGTH(doc)), 0) FROM messages WHERE messages.agent = memories.agent);

CREATE INDEX messages_time ON messages (agent, id);

CREATE INDEX messages_role ON messages (agent, usr, role, seq);

UPDATE memory_terms SET term = '@' || (SELECT usr FROM messages WHERE messages.id = memory_terms.item) || '/' || term
	WHERE EXISTS (SELECT 1 FROM messages WHERE messages.id = memory_terms.item);
