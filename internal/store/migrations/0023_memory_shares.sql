CREATE TABLE memory_shares (
	agent {text} NOT NULL,
	usr   {text} NOT NULL,
	bytes BIGINT NOT NULL,
	PRIMARY KEY (agent, usr)
);

INSERT INTO memory_shares (agent, usr, bytes) SELECT agent, usr, SUM(size) FROM (
	SELECT agent, usr, OCTET_LENGTH(doc) AS size FROM messages
	UNION ALL SELECT agent, usr, OCTET_LENGTH(body) + OCTET_LENGTH(tags) AS size FROM passages WHERE usr <> ''
	) kept WHERE usr <> '' GROUP BY agent, usr;
